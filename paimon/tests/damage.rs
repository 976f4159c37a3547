//! Tables that Java wrote, with bytes of one of their files changed at random: an error or other
//! values; never a panic, a loop without an end, or memory by the GiB for a length that a few bytes
//! claim.
//!
//! `SEED` chooses the bytes (1), `ROUNDS` is how many files are damaged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

#[path = "support/mutation.rs"]
mod mutation;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::BTreeMap,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, CheckRequest, DynamicBucketAssigner, OrphanRequest, Predicate, Result, Retention,
    Table, fuzz,
};
use mutation::damaged;
use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Bytes asked for at once, at most.
const ALLOCATION_MAX: usize = 1 << 30;
/// A round takes milliseconds; the machine may be busy.
const ROUND_MAX: Duration = Duration::from_secs(90);

/// The system's allocator; knows the most that a thread asked for at once.
struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn ask(bytes: usize) {
    // A thread that ends asks too.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

#[allow(unsafe_code, reason = "the only way to see what is asked for")]
// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ask(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ask(size);
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Ends the process when a round does not end; says which round it was when one panics.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Option<(Instant, String)>>>);

impl Watch {
    fn new() -> Self {
        let watch = Self::default();
        let watched = watch.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                if let Some((since, what)) = watched.0.lock().unwrap().as_ref()
                    && since.elapsed() > ROUND_MAX
                {
                    eprintln!("without an end: {what}");
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn round<T>(&self, what: String, act: impl FnOnce() -> T) -> T {
        *self.0.lock().unwrap() = Some((Instant::now(), what.clone()));
        LARGEST.set(0);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        *self.0.lock().unwrap() = None;
        let done = done.unwrap_or_else(|_| panic!("a panic: {what}"));
        let largest = LARGEST.get();
        assert!(largest < ALLOCATION_MAX, "{largest} bytes at once: {what}");
        done
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn data() -> PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// A table's files by their paths in the warehouse.
struct Sample {
    database: &'static str,
    name: &'static str,
    files: BTreeMap<String, Bytes>,
}

const TABLES: [(&str, &str); 12] = [
    ("java", "types"),
    ("java", "nested"),
    ("java", "evolved"),
    ("java", "tagged"),
    ("java", "dv32"),
    ("kinds", "dv64"),
    ("kinds", "avro_types"),
    ("kinds", "dynamic"),
    ("kinds", "keys_part"),
    ("kinds", "changelog_lookup"),
    ("kinds", "aggregation"),
    ("kinds", "append_part"),
];

fn samples() -> Vec<Sample> {
    let warehouse = data().join("warehouse");
    let load = |(database, name)| {
        let mut files = BTreeMap::new();
        let mut folders = vec![warehouse.join(format!("{database}.db/{name}"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let inner = path.strip_prefix(&warehouse).unwrap().to_str().unwrap();
                files.insert(inner.to_owned(), std::fs::read(&path).unwrap().into());
            }
        }
        // Who reads is somewhere, and the second snapshot has expired with its changes kept.
        let table = format!("{database}.db/{name}");
        let consumer = Bytes::from_static(br#"{"nextSnapshot":2}"#);
        files.insert(format!("{table}/consumer/consumer-c"), consumer);
        Sample {
            database,
            name,
            files,
        }
    };
    TABLES.into_iter().map(load).collect()
}

/// What a file is: the folder that it stands in, and how its name begins and ends.
fn kind(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let name = parts[parts.len() - 1];
    let plain = name.split(['-', '.']).next().unwrap();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    let list = if name.contains("list") { "list" } else { "" };
    format!("{}/{plain}{list}{end}", parts[2].split('-').next().unwrap())
}

/// All that readers, checks and upkeep do with a table. True when nothing was found wrong.
async fn use_table(catalog: &Catalog, sample: &Sample) -> bool {
    let Ok(Some(table)) = catalog.table(sample.database, sample.name).await else {
        return false;
    };
    let mut fine = read(&table).await.is_ok();
    fine &= follow(&table).await.is_ok();
    let check = CheckRequest {
        data: true,
        ..CheckRequest::default()
    };
    let checked = table.check(&check).await;
    fine &= checked.is_ok_and(|report| report.problems.is_empty());
    fine &= table.tags().await.is_ok() && table.branches().await.is_ok();
    if let Ok(mut assigner) = DynamicBucketAssigner::new(&table) {
        fine &= assigner.load(&[vec![0; 12]]).await.is_ok();
    }
    let upkeep = async {
        table
            .expire_snapshots(&Retention::of(table.schema())?.keep(1))
            .await?;
        table.clean_orphans(&OrphanRequest::default()).await
    };
    fine & upkeep.await.is_ok()
}

async fn read(table: &Table) -> Result<()> {
    let mut batches = table.read().all(1).await?;
    while batches.try_next().await?.is_some() {}
    let Some(last) = table.schema().fields.last() else {
        return Ok(());
    };
    let filter = Predicate::IsNotNull(last.name.clone());
    let mut batches = table.read().filter(filter).all(1).await?;
    while batches.try_next().await?.is_some() {}
    Ok(())
}

async fn follow(table: &Table) -> Result<()> {
    let mut changes = table.stream(Some(1))?;
    while changes.next().await?.is_some() {}
    Ok(())
}

#[test]
fn damaged_tables_do_no_harm() {
    let seed = number("SEED", 1);
    let rounds = number("ROUNDS", 600);
    println!("SEED={seed}");
    let samples = samples();
    let watch = Watch::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut kinds: BTreeMap<String, Vec<(&Sample, &String)>> = BTreeMap::new();
    for sample in &samples {
        for path in sample.files.keys() {
            kinds.entry(kind(path)).or_default().push((sample, path));
        }
    }
    let kinds: Vec<_> = kinds.into_iter().collect();
    let (mut whole, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003) + round);
        let (kind, files) = &kinds[rng.random_range(0..kinds.len())];
        let (sample, path) = files[rng.random_range(0..files.len())];
        let bytes = damaged(&mut rng, &sample.files[path]);
        let what = format!("SEED={seed} round {round}, {kind} {path}");
        let fine = watch.round(what, || {
            runtime.block_on(async {
                let store = Arc::new(InMemory::new());
                for (other, good) in &sample.files {
                    let bytes = if other == path {
                        bytes.clone().into()
                    } else {
                        good.clone()
                    };
                    store
                        .put(&Path::from(other.as_str()), bytes.into())
                        .await
                        .unwrap();
                }
                use_table(&Catalog::new(store, Path::default()), sample).await
            })
        });
        *(if fine { &mut whole } else { &mut refused }) += 1;
    }
    println!(
        "{} kinds of files; {whole} rounds without an error, {refused} with one",
        kinds.len()
    );
    assert!(refused * 4 > rounds, "{refused} of {rounds}");
}

/// The ways in of the fuzz targets, with real files.
#[test]
fn damaged_files_do_no_harm() {
    let seed = number("SEED", 1);
    let rounds = number("ROUNDS", 200);
    println!("SEED={seed}");
    let watch = Watch::new();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut met = BTreeMap::new();
    for sample in samples() {
        let schemas = sample
            .files
            .iter()
            .filter(|(path, _)| path.contains("/schema/"));
        let schema = schemas.last().unwrap().1;
        let schema = std::str::from_utf8(schema).unwrap();
        // Many files of a table are alike.
        for (path, good) in sample.files.iter().step_by(3) {
            let name = path.rsplit('/').next().unwrap();
            for round in 0..=rounds {
                let bytes = match round {
                    0 => good.to_vec(),
                    _ => damaged(&mut rng, good),
                };
                let what = format!("SEED={seed} {path}, round {round}");
                let way: &str = watch.round(what, || match kind(path).split_once('/').unwrap() {
                    (_, kind) if kind.ends_with("parquet") || kind.ends_with("avro") => {
                        fuzz::data_file(schema, name, &bytes);
                        "data_file"
                    }
                    ("manifest", "index") => {
                        fuzz::index_manifest(&bytes);
                        "index_manifest"
                    }
                    ("manifest", _) => {
                        fuzz::manifests(&bytes);
                        "manifests"
                    }
                    ("index", _) => {
                        fuzz::deletion_vector(bytes.get(1..).unwrap_or_default());
                        fuzz::deletion_vector(bytes.get(5..).unwrap_or_default());
                        fuzz::hash_index(&bytes);
                        "indexes"
                    }
                    _ => {
                        fuzz::json(&bytes);
                        fuzz::records(&bytes);
                        "json"
                    }
                });
                *met.entry(way).or_insert(0) += 1;
            }
        }
    }
    println!("{met:?}");
    assert_eq!(met.len(), 5, "{met:?}");
}
