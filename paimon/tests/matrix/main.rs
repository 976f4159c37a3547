//! The conformance matrix: tables of every kind, written by this crate and by Java Paimon in turns,
//! are read alike by both.
//!
//! `SEED` chooses the cases and what happens in them, `CASES` how many there are beyond those that
//! hold every pair of dimensions, `ONLY` is the number of one case to run alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]
#![allow(dead_code, reason = "the support is shared by several test programs")]

mod case;
mod options;
mod python;
mod run;
#[path = "../support/mod.rs"]
mod support;
mod tally;

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use self::{run::Run, support::env_number, tally::Tally};

/// Cases that run at the same time.
const THREADS: usize = 6;

#[test]
fn tables_are_the_same_for_both_engines() {
    let seed = env_number("SEED", 1);
    let cases = case::cases(seed, env_number("CASES", 10) as usize);
    println!("{} cases, SEED={seed}", cases.len());
    let only = env_number("ONLY", u64::MAX) as usize;
    let folder = tempfile::tempdir().unwrap();
    let tally = Tally::default();
    let failures = Mutex::new(Vec::new());
    let outcomes = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(case) = cases.get(number)
        {
            if only != usize::MAX && only != number {
                continue;
            }
            let run = Run::new(*case, number, seed, folder.path(), &tally);
            match runtime.block_on(run.run()) {
                Ok(outcome) => outcomes.lock().unwrap().extend(outcome),
                Err(failure) => failures.lock().unwrap().push(failure),
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    let unexpected = tally.report();
    let mut failures = failures.into_inner().unwrap();
    failures.extend(python::look(folder.path(), &outcomes.into_inner().unwrap()));
    for failure in &failures {
        println!("FAILED {failure}\n");
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases failed, SEED={seed}",
        failures.len(),
        cases.len()
    );
    assert!(unexpected.is_empty(), "refused: {unexpected:#?}");
    assert!(tally.done("read") > 0 && tally.done("write") > 0);
}
