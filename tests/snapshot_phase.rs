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

use mysql_async::prelude::Queryable;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;

use crate::{
    exactness::aborts_at,
    support::{
        Database, Headwater, JobFile, Lake, Server, Workload, dump, env_number, eventually,
        job::server_id, lake::TableSnapshot, oracle,
    },
};

/// The large table, some of the workload, and their keys.
const TABLES: [(&str, &[&str]); 5] = [
    ("big", &["id"]),
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
    let big = Big::create(&database).await;
    // The snapshot takes about ten seconds of running.
    let job = JobFile::new(server, &database, &lake)
        .sink("table.properties.changelog-producer", producer)
        .sink("table.properties.num-sorted-run.compaction-trigger", "3")
        .with("limits:\n  source:\n    rows-per-second: 15000\n");
    let running = workload.start(2, seed, Duration::from_millis(10)).await;
    let big = big.start(seed).await;
    let java = (compactor == Compactor::Java).then(|| JavaLoop::start(&lake, &workload));

    // Cut into many splits, of which a round reads few.
    let cut = job.clone().with("    concurrent-chunks: 64\n");
    aborts_at("after-first-marker", &cut, &lake).await;
    // L10: with other settings each time. A bucket count is of new tables only.
    for _ in 0..5 {
        let mut process = Headwater::run(&other_settings(&job, &mut random), &lake);
        let moment = random.random_range(500..4500);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        process.assert_runs();
        process.kill9();
    }
    let mut process = Headwater::run(&other_settings(&job, &mut random), &lake);
    tokio::time::sleep(Duration::from_secs(8)).await;
    running.stop().await;
    big.stop().await;
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
    compacted_meanwhile(&lake, &workload.table("big"), compactor);
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

/// The test is of compactions before the last chunk came: there were some.
fn compacted_meanwhile(lake: &Lake, table: &str, compactor: Compactor) {
    let snapshots = lake.snapshots(table);
    let reading = |it: &&TableSnapshot| it.property("headwater.snapshot-phase") == Some("true");
    let last = snapshots.iter().filter(reading).map(|it| it.id).max();
    let by_java = snapshots
        .iter()
        .filter(|it| it.json["commitUser"] == "java");
    let compactions = snapshots
        .iter()
        .filter(|it| it.json["commitKind"] == "COMPACT" && Some(it.id) <= last);
    let (compactions, by_java) = (compactions.count(), by_java.count());
    let all = snapshots.len();
    eprintln!(
        "{table}: {compactions} compactions before the last chunk, {by_java} by Java, of {all}"
    );
    assert!(
        compactions > 0,
        "{table} was not compacted while it was read"
    );
    assert_eq!(by_java > 0, compactor == Compactor::Java, "{table}");
}

/// A table that is read in several rounds, while its rows change.
struct Big {
    database: Database,
}

const BIG_ROWS: u32 = 150_000;

impl Big {
    async fn create(database: &Database) -> Self {
        database
            .run(&format!(
                "CREATE TABLE big (id INT PRIMARY KEY, v INT, w VARCHAR(20));
SET SESSION cte_max_recursion_depth = 1000000;
INSERT INTO big WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {BIG_ROWS}) \
SELECT i, i % 1000, CONCAT('w', i) FROM n"
            ))
            .await;
        Self {
            database: database.clone(),
        }
    }

    async fn start(self, seed: u64) -> RunningBig {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut random = StdRng::seed_from_u64(seed);
        let task = tokio::spawn(async move {
            let mut conn = self.database.connect().await;
            while !stopped.load(Ordering::Relaxed) {
                let id = random.random_range(1..=BIG_ROWS + 2000);
                let upto = id + random.random_range(0..40);
                let sql = match random.random_range(0..4) {
                    0 => format!("UPDATE big SET v = v + 1 WHERE id BETWEEN {id} AND {upto}"),
                    1 => format!("DELETE FROM big WHERE id BETWEEN {id} AND {upto}"),
                    2 => format!("REPLACE INTO big VALUES ({id}, 7, 'again'), ({upto}, 8, NULL)"),
                    _ => format!("UPDATE big SET id = {BIG_ROWS} + 3000 + id WHERE id = {id}"),
                };
                match conn.query_drop(sql).await {
                    Ok(()) => {}
                    // The key is there already.
                    Err(mysql_async::Error::Server(e)) if e.code == 1062 => {}
                    Err(error) => panic!("workload: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        RunningBig { stop, task }
    }
}

struct RunningBig {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl RunningBig {
    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

fn other_settings(job: &JobFile, random: &mut StdRng) -> JobFile {
    let chunk = random.random_range(20..400).to_string();
    let chunks = random.random_range(1..4);
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
            // The large one every other time.
            let others = tables.iter().cycle().flat_map(|table| [&tables[0], table]);
            for table in others {
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
