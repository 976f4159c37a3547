//! The model test: random operations on tables of real files, held against a map in memory.
//!
//! `SEED` (1) chooses them, `OPERATIONS` (10,000) is how many there are, 0 means without an end
//! (`make fuzz`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]
#![allow(dead_code, reason = "the support is shared by several test programs")]

#[path = "../support/mod.rs"]
mod support;
mod world;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use self::{support::env_number, world::World};

/// Tables that are worked on at the same time.
const THREADS: usize = 4;
/// Operations on one table.
const TABLE_OPERATIONS: u64 = 80;

#[test]
fn tables_hold_what_was_written() {
    let seed = env_number("SEED", 1);
    let operations = match env_number("OPERATIONS", 10_000) {
        0 => u64::MAX,
        operations => operations,
    };
    println!("SEED={seed}");
    let started = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let counts: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let at = number.saturating_mul(TABLE_OPERATIONS)
            && at < operations
            && !failed.load(Ordering::Relaxed)
        {
            let steps = TABLE_OPERATIONS.min(operations - at);
            let mut world = runtime.block_on(World::new(seed, number));
            if let Err(error) = runtime.block_on(world.run(steps)) {
                failed.store(true, Ordering::Relaxed);
                let log = world.log().join("\n  ");
                panic!("SEED={seed}, table {number}:\n  {log}\n{error}");
            }
            let mut counts = counts.lock().unwrap();
            for (what, n) in world.counts() {
                *counts.entry(what.clone()).or_default() += n;
            }
            if operations == u64::MAX && number % 100 == 99 {
                println!("{} operations", at + TABLE_OPERATIONS);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    for (what, n) in counts.lock().unwrap().iter() {
        println!("{what} × {n}");
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
}
