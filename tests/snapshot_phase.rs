//! Compaction while a table's snapshot is still being read and its rows change: ours, and full ones
//! by Java in a loop. No row twice, none back from the dead, and readers of the change stream see
//! one that folds to the table. Killed at random, and resumed with other settings each time.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;

use crate::support::{
    Headwater, JobFile, Lake, Server, Workload, dump, env_number, eventually, job::server_id,
    oracle,
};

/// Tables of the workload and their keys.
const TABLES: [(&str, &[&str]); 4] = [
    ("orders", &["id"]),
    ("items", &["order_id", "sku"]),
    ("tags", &["name"]),
    ("saving", &["id"]),
];

/// Who compacts.
#[derive(Clone, Copy, PartialEq)]
enum Compactor {
    Ours,
    Java,
}

#[tokio::test(flavor = "multi_thread")]
async fn java_compacts_plain_tables_while_they_are_read() {
    read_and_compact("phase_java", "none", Compactor::Java).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_compacts_lookup_tables_while_they_are_read() {
    read_and_compact("phase_java_lookup", "lookup", Compactor::Java).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_compacts_full_compaction_tables_while_they_are_read() {
    read_and_compact("phase_java_full", "full-compaction", Compactor::Java).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_tables_are_compacted_while_they_are_read() {
    read_and_compact("phase_plain", "none", Compactor::Ours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_tables_are_compacted_while_they_are_read() {
    read_and_compact("phase_lookup", "lookup", Compactor::Ours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_compaction_tables_are_compacted_while_they_are_read() {
    read_and_compact("phase_full", "full-compaction", Compactor::Ours).await;
}

async fn read_and_compact(purpose: &str, producer: &str, compactor: Compactor) {
    let seed = env_number("SEED", rand::random::<u32>().into());
    eprintln!("{purpose}: SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database(purpose).await;
    let workload = Workload::create(&database, 2_000).await;
    // The snapshot takes about ten seconds of running.
    let job = JobFile::new(server, &database, &lake)
        .sink("table.properties.changelog-producer", producer)
        .sink("table.properties.num-sorted-run.compaction-trigger", "3")
        .with("limits:\n  source:\n    rows-per-second: 900\n");
    let running = workload.start(2, seed, Duration::from_millis(10)).await;
    let java = (compactor == Compactor::Java).then(|| JavaLoop::start(&lake, &workload));

    // L10: with other settings each time. A bucket count is of new tables only.
    for _ in 0..5 {
        let mut process = Headwater::run(&other_settings(&job, &mut random), &lake);
        let moment = random.random_range(500..4500);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        assert!(
            process.is_running(),
            "it ended by itself:\n{}",
            process.output()
        );
        process.kill9();
    }
    let mut process = Headwater::run(&other_settings(&job, &mut random), &lake);
    tokio::time::sleep(Duration::from_secs(3)).await;
    running.stop().await;
    // With Java compacting on: no commit fails for ever.
    for name in database.tables().await {
        let rows = dump::lines(&database, &name).await;
        let table = workload.table(&name);
        eventually("all rows arrive", Duration::from_secs(240), async || {
            assert!(
                process.is_running(),
                "SEED={seed}: it ended by itself:\n{}",
                process.output()
            );
            lake.read(&table, None) == rows
        })
        .await;
    }
    process.stop().await;
    if let Some(java) = java {
        java.stop();
    }
    for (name, keys) in TABLES {
        let table = workload.table(name);
        let rows = dump::lines(&database, name).await;
        let warehouse = lake.warehouse();
        let answer = oracle::java("diff", &[&warehouse, &table], &rows.join("\n"));
        assert!(answer.good, "SEED={seed} {table}: {}", answer.text);
        lake.assert_sound(&table);
        // What is still to be compacted is in no changelog yet.
        let user = ["--full", "--commit-user", "java"];
        oracle::java(
            "compact",
            &[&[&*warehouse, &*table], &user[..]].concat(),
            "",
        );
        fold(&lake, &table, keys, &rows, producer != "none", seed);
    }
    lake.assert_equal(&database).await;
}

fn other_settings(job: &JobFile, random: &mut StdRng) -> JobFile {
    let chunk = random.random_range(20..400).to_string();
    let chunks = random.random_range(1..6);
    let buckets = random.random_range(1..5).to_string();
    let memory = random.random_range(48..200);
    job.clone()
        .source("server-id", &server_id().to_string())
        .source("scan.incremental.snapshot.chunk.size", &chunk)
        .sink("table.properties.bucket", &buckets)
        .with(&format!(
            "    concurrent-chunks: {chunks}\n  memory: {memory}MB\n"
        ))
}

/// Full compactions by Java, one table after the other, without a pause.
struct JavaLoop {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU32>,
    failed: Arc<AtomicU32>,
    thread: std::thread::JoinHandle<()>,
}

impl JavaLoop {
    fn start(lake: &Lake, workload: &Workload) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (done, failed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let warehouse = lake.warehouse();
        let tables: Vec<String> = TABLES.iter().map(|it| workload.table(it.0)).collect();
        let (stopped, good, bad) = (stop.clone(), done.clone(), failed.clone());
        let thread = std::thread::spawn(move || {
            for table in tables.iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let args = [&*warehouse, table, "--full", "--commit-user", "java"];
                match oracle::try_java("compact", &args, "") {
                    Ok(_) => good.fetch_add(1, Ordering::Relaxed),
                    // Not there yet; or the job's commit came first.
                    Err(error) => {
                        let known = [
                            "does not exist",
                            "conflict",
                            "Conflict",
                            "Schema file not found",
                            "There is no paimon table",
                        ];
                        if !known.iter().any(|known| error.contains(known)) {
                            eprintln!("java, {table}: {error}");
                        }
                        std::thread::sleep(Duration::from_millis(100));
                        bad.fetch_add(1, Ordering::Relaxed)
                    }
                };
            }
        });
        Self {
            stop,
            done,
            failed,
            thread,
        }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let done = self.done.load(Ordering::Relaxed);
        let failed = self.failed.load(Ordering::Relaxed);
        eprintln!("java compacted {done} times, and was refused {failed} times");
        assert!(done > 3, "Java compacted only {done} times");
    }
}

/// The change stream from the first snapshot on, as Java reads it, folds to the rows. With a
/// producer of changes every row that it takes back is the one that is there.
fn fold(lake: &Lake, table: &str, keys: &[&str], rows: &[String], exact: bool, seed: u64) {
    let stream = oracle::java("stream", &[&lake.warehouse(), table, "--from", "1"], "");
    let mut folded: HashMap<String, String> = HashMap::new();
    let mut wrong = Vec::new();
    for line in stream.text.lines() {
        let change: Value = serde_json::from_str(line).unwrap();
        let (_, row) = line.split_once(r#""row":"#).unwrap();
        let row = row.strip_suffix('}').unwrap().to_owned();
        let key = keys.iter().map(|key| change["row"][key].to_string());
        let key = key.collect::<Vec<_>>().join("|");
        let there = folded.get(&key);
        let fits = match change["kind"].as_str().unwrap() {
            "+I" => there.is_none(),
            "+U" => there.is_none(), // its -U came before
            _ => there == Some(&row),
        };
        if exact && !fits {
            wrong.push(format!("{line} upon {there:?}"));
        }
        match change["kind"].as_str().unwrap() {
            "+I" | "+U" => folded.insert(key, row),
            _ => folded.remove(&key),
        };
    }
    let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        wrong.is_empty(),
        "SEED={seed} {table}: {} wrong changes:\n{shown}",
        wrong.len()
    );
    let mut folded: Vec<String> = folded.into_values().collect();
    folded.sort_unstable();
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    let first = rows.iter().zip(&folded).find(|(a, b)| a != b);
    assert!(
        rows == folded,
        "SEED={seed} {table}: the stream folds to {} rows, not {}; first: {first:?}",
        folded.len(),
        rows.len()
    );
}
