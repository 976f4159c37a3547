//! Tables with deletion vectors and with dynamic buckets: exact through kills, also where Java
//! compacts or has written before, and Java goes on behind the job.
//!
//! Readers of tables with deletion vectors see only what is compacted, so that every comparison here
//! also says that the job has compacted what it committed.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    exactness::{aborts_at, finish},
    support::{
        Database, Headwater, JobFile, Lake, Server, Workload, dump, env_number, eventually,
        lake::TableSnapshot, oracle, small::arrives_within,
    },
};

/// The snapshot takes a while, so that kills and compactions meet it.
const SLOWLY: &str = "limits:\n  source:\n    rows-per-second: 1500\n";

/// Kills a job `kills` times, in its snapshot and behind it; after each kill Java compacts some of
/// the tables, now and then fully. (Beside the running job it may not commit: on a local file system
/// Java's commit replaces what is there.)
async fn killed_and_compacted_by_java(
    job: &JobFile,
    lake: &Lake,
    database: &Database,
    seed: u64,
    kills: u64,
) {
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut compactions = 0;
    for kill in 0..kills {
        match kill % 3 {
            1 => aborts_at("after-record", job, lake).await,
            2 => aborts_at("between-table-commits", job, lake).await,
            _ => {
                let mut process = Headwater::run(job, lake);
                let moment = random.random_range(500..2500);
                tokio::time::sleep(Duration::from_millis(moment)).await;
                process.assert_runs();
                process.kill9();
            }
        }
        for table in database.tables().await {
            let name = format!("{}.{table}", database.name);
            if lake.snapshots(&name).is_empty() || random.random_ratio(1, 2) {
                continue;
            }
            let warehouse = lake.warehouse();
            let mut args = vec![warehouse.as_str(), &name, "--commit-user", "java"];
            if random.random_ratio(1, 3) {
                args.push("--full");
            }
            oracle::java("compact", &args, "");
            compactions += 1;
        }
    }
    assert!(compactions > 3, "Java compacted {compactions} times");
}

/// Runs a job until it has nothing but the log to read.
async fn snapshot_ends(job: &JobFile, lake: &Lake) {
    let mut process = Headwater::run(job, lake);
    eventually("the snapshot ends", Duration::from_secs(120), async || {
        process.assert_runs();
        process.output().contains(r#"phase="stream""#)
    })
    .await;
    process.kill9();
}

/// Compactions by Java, and those of them that met a table of which the job had still rows to read.
fn compactions_by_java(lake: &Lake, database: &Database, tables: &[String]) -> (usize, usize) {
    let (mut all, mut early) = (0, 0);
    for table in tables {
        let snapshots = lake.snapshots(&format!("{}.{table}", database.name));
        let is_phase = |it: &&TableSnapshot| it.property("headwater.snapshot-phase").is_some();
        let last = snapshots.iter().filter(is_phase).map(|it| it.id).max();
        let user = |it: &TableSnapshot| it.json["commitUser"].as_str().unwrap().to_owned();
        for java in snapshots.iter().filter(|it| user(it).starts_with("java")) {
            all += 1;
            early += usize::from(last.is_some_and(|last| java.id < last));
        }
    }
    (all, early)
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_vectors_stay_exact_through_kills_and_java_compactions() {
    let seed = env_number("SEED", 21);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("vectors").await;
    let workload = Workload::create(&database, 8000).await;
    let quick = JobFile::new(server, &database, &lake)
        .sink("table.properties.deletion-vectors.enabled", "true");
    let job = quick.clone().with(SLOWLY);
    let running = workload.start(3, seed, Duration::from_millis(5)).await;
    killed_and_compacted_by_java(&job, &lake, &database, seed, 7).await;
    snapshot_ends(&quick, &lake).await;
    running.stop().await;
    finish(&quick, &lake, &database, &workload).await;
    let tables = database.tables().await;
    let (all, early) = compactions_by_java(&lake, &database, &tables);
    eprintln!("{all} compactions by Java, {early} before the snapshot was complete");
    assert!(all > 0, "Java compacted nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamic_buckets_stay_exact_through_kills_and_java_goes_on() {
    let seed = env_number("SEED", 31);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("dynamic").await;
    let workload = Workload::create(&database, 6000).await;
    let quick = JobFile::new(server, &database, &lake)
        .sink("table.properties.bucket", "-1")
        .sink("table.properties.dynamic-bucket.target-row-num", "1500");
    let job = quick.clone().with(SLOWLY);
    let running = workload.start(3, seed, Duration::from_millis(5)).await;
    killed_and_compacted_by_java(&job, &lake, &database, seed, 6).await;
    snapshot_ends(&quick, &lake).await;
    running.stop().await;
    finish(&quick, &lake, &database, &workload).await;
    java_goes_on(&lake, &database, "orders").await;
}

/// Java changes, deletes and adds rows of a table of the job; each key stays there once.
async fn java_goes_on(lake: &Lake, database: &Database, table: &str) {
    let name = format!("{}.{table}", database.name);
    let lines = dump::lines(database, table).await;
    let kept = lines.len() - 40;
    let changed: Vec<String> = lines[..20]
        .iter()
        .map(|line| line.replace(r#""paid":false"#, r#""paid":true"#))
        .collect();
    let deletes = lines[kept..].iter().map(delete_of);
    let new = (0..30).map(|at| {
        let line = &lines[at];
        let (_, rest) = line.split_once(',').unwrap();
        format!(r#"{{"id":{},{rest}"#, 900_000_000 + at)
    });
    let new: Vec<String> = new.collect();
    let mut input: Vec<String> = changed.clone();
    input.extend(deletes);
    input.extend(new.clone());
    let args = [&lake.warehouse(), name.as_str(), "--commit-user", "java"];
    oracle::java("write", &args, &input.join("\n"));
    let mut expected = changed;
    expected.extend(lines[20..kept].iter().cloned());
    expected.extend(new);
    expected.sort_unstable();
    lake.assert_holds(&[(name, expected)]);
}

/// A table that Java made and filled, with dynamic buckets and deletion vectors, is taken up with
/// the index of its keys: rows of Java that the source changes and deletes are the same rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_dynamic_table_of_java_is_taken_up_with_its_index() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("taken_up").await;
    database
        .run(&format!(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\n{}",
            insert(1, 900)
        ))
        .await;
    for vectors in ["false", "true"] {
        let route = format!("t_{vectors}");
        let name = format!("{}.{route}", database.name);
        let warehouse = lake.warehouse();
        let schema = serde_json::json!({
            "columns": [["id", "INT NOT NULL"], ["v", "VARCHAR(20)"]],
            "primaryKeys": ["id"],
            "options": {
                "bucket": "-1",
                "dynamic-bucket.target-row-num": "200",
                "deletion-vectors.enabled": vectors
            }
        });
        oracle::java("create", &[&warehouse, &name], &schema.to_string());
        let rows = dump::lines(&database, "t").await;
        oracle::java("write", &[&warehouse, &name], &rows.join("\n"));
        let job = JobFile::new(server, &database, &lake)
            .source("scan.startup.mode", "latest-offset")
            .with(&format!(
                "route:\n  - source-table: {0}.t\n    sink-table: {0}.{route}\n",
                database.name
            ))
            .with(&format!(
                "state:\n  path: {}/state-{vectors}\n",
                lake.folder().display()
            ));
        let mut process = Headwater::run(&job, &lake);
        eventually("it begins", Duration::from_secs(60), async || {
            process.assert_runs();
            process.output().contains("starting from nothing")
        })
        .await;
        database
            .run(
                "UPDATE t SET v = CONCAT(v, '!') WHERE id % 7 = 0;
DELETE FROM t WHERE id % 11 = 0;
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 2000 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
SELECT i, 'new' FROM n",
            )
            .await;
        let expected = dump::lines(&database, "t").await;
        eventually("the lake catches up", Duration::from_secs(60), async || {
            process.assert_runs();
            lake.read(&name, None).len() == expected.len()
        })
        .await;
        process.stop().await;
        lake.assert_holds(&[(name.clone(), expected)]);
        java_changes(&lake, &name);
        database.run("DELETE FROM t WHERE id >= 2000").await;
    }
}

fn delete_of(line: &String) -> String {
    format!(r#"{{"kind":"-D","row":{line}}}"#)
}

/// Java updates and deletes rows of both and adds new ones.
fn java_changes(lake: &Lake, name: &str) {
    let before = lake.read(name, None);
    let changed = |line: &str| line.replace(r#""v":""#, r#""v":"J"#);
    let mut input: Vec<String> = before.iter().step_by(5).map(|line| changed(line)).collect();
    let deletes = before.iter().skip(1).step_by(5);
    input.extend(deletes.map(delete_of));
    oracle::java("write", &[&lake.warehouse(), name], &input.join("\n"));
    let mut expected: Vec<String> = Vec::new();
    for (at, line) in before.iter().enumerate() {
        match at % 5 {
            0 => expected.push(changed(line)),
            1 => {}
            _ => expected.push(line.clone()),
        }
    }
    expected.sort_unstable();
    lake.assert_holds(&[(name.to_owned(), expected)]);
}

/// Inserts the rows from one id up to another into `t`.
fn insert(from: u32, upto: u32) -> String {
    format!(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE \
         i < {upto}) SELECT i, CONCAT('v', i) FROM n"
    )
}

/// Java adds keys to a table with dynamic buckets while a job writes it, some of which come from the
/// source too: the job takes the index in, or begins again where a key is in two buckets. No key is
/// there twice.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_java_adds_beside_a_job_stay_in_one_bucket() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("foreign").await;
    let filled = insert(1, 100);
    database
        .run(&format!(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\n{filled}"
        ))
        .await;
    let job = JobFile::new(server, &database, &lake)
        .sink("table.properties.bucket", "-1")
        .sink("table.properties.dynamic-bucket.target-row-num", "30");
    let name = format!("{}.t", database.name);
    let mut process = Headwater::run(&job, &lake);
    let mut arrive = async |rows: usize| {
        let time = Duration::from_secs(60);
        arrives_within(time, &lake, &database, rows, &mut process).await;
    };
    arrive(100).await;
    let warehouse = lake.warehouse();
    let write = |lines: &[String]| {
        let args = [warehouse.as_str(), &name, "--commit-user", "java"];
        oracle::java("write", &args, &lines.join("\n"));
    };
    // Keys that the source never has.
    let java: Vec<String> = (5000..5020)
        .map(|id| format!(r#"{{"id":{id},"v":"java"}}"#))
        .collect();
    write(&java);
    database.run(&insert(101, 150)).await;
    arrive(170).await;
    // The job, which may have begun again, knows the index once more.
    database.run("INSERT INTO t VALUES (300, 'v300')").await;
    arrive(171).await;
    // Keys that the source has a moment later, behind others that take the room.
    let both: Vec<String> = (200..260)
        .map(|id| format!(r#"{{"id":{id},"v":"java"}}"#))
        .collect();
    write(&both);
    database
        .run(&format!(
            "BEGIN; {}; {}; COMMIT",
            insert(151, 199),
            insert(200, 260)
        ))
        .await;
    arrive(281).await;
    let began_again = process.output().contains("another writer put a key");
    assert!(
        began_again,
        "the keys went to the same buckets:\n{}",
        process.output()
    );
    process.stop().await;
    let mut expected = dump::lines(&database, "t").await;
    expected.extend(java);
    expected.sort_unstable();
    lake.assert_holds(&[(name, expected)]);
}

/// Java adds keys between a record of the job and its commit: the index that the record holds is made
/// again, with the keys of both.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_java_adds_before_a_prepared_commit_are_kept() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("prepared").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
        .await;
    database.run(&insert(1, 100)).await;
    let job = JobFile::new(server, &database, &lake)
        .sink("table.properties.bucket", "-1")
        .sink("table.properties.dynamic-bucket.target-row-num", "30");
    let name = format!("{}.t", database.name);
    let arrive = async |process: &mut Headwater, rows: usize| {
        arrives_within(Duration::from_secs(60), &lake, &database, rows, process).await;
    };
    let mut process = Headwater::run(&job, &lake);
    arrive(&mut process, 100).await;
    process.stop().await;
    database.run(&insert(101, 150)).await;
    aborts_at("after-record", &job, &lake).await;
    let java: Vec<String> = (5000..5020)
        .map(|id| format!(r#"{{"id":{id},"v":"java"}}"#))
        .collect();
    let warehouse = lake.warehouse();
    let args = [warehouse.as_str(), &name, "--commit-user", "java"];
    oracle::java("write", &args, &java.join("\n"));
    let mut process = Headwater::run(&job, &lake);
    arrive(&mut process, 170).await;
    let output = process.output();
    assert!(output.contains("its keys are looked at"), "{output}");
    // Every key is found again where it is.
    database.run("UPDATE t SET v = 'again'").await;
    let mut expected = dump::lines(&database, "t").await;
    expected.extend(java);
    expected.sort_unstable();
    eventually("changes arrive", Duration::from_secs(60), async || {
        let mut read = lake.read(&name, None);
        read.sort_unstable();
        read == expected
    })
    .await;
    process.stop().await;
    lake.assert_holds(&[(name.clone(), expected)]);
}

/// Without GTIDs a row of the snapshot may be older than what is committed.
#[tokio::test(flavor = "multi_thread")]
async fn deletion_vectors_need_gtids() {
    if Server::is_given() {
        return;
    }
    let off = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"];
    let (server, lake) = (Server::private("vectors", &off), Lake::new());
    let database = server.database_of("vectors").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        .await;
    let job = JobFile::new(&server, &database, &lake)
        .sink("table.properties.deletion-vectors.enabled", "true");
    for verb in ["run", "check"] {
        let process = Headwater::start(verb, &job, &lake, None);
        let words = ["deletion-vectors.enabled", "GTID", "gtid_mode=ON"];
        process.fails_naming(&words).await;
    }
    // With the log alone there is nothing that could be older.
    let job = job.source("scan.startup.mode", "latest-offset");
    let mut process = Headwater::run(&job, &lake);
    eventually("it begins", Duration::from_secs(60), async || {
        process.assert_runs();
        process.output().contains("starting from nothing")
    })
    .await;
    database
        .run("INSERT INTO t VALUES (3); DELETE FROM t WHERE id = 1")
        .await;
    let name = format!("{}.t", database.name);
    eventually("the row arrives", Duration::from_secs(60), async || {
        lake.read(&name, None) == [r#"{"id":3}"#]
    })
    .await;
    process.stop().await;
}

/// Options and files that the job does not write or read are refused before anything is read.
#[tokio::test(flavor = "multi_thread")]
async fn other_file_formats_are_refused_when_the_table_is_taken_up() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("formats").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1, 'a')")
        .await;
    let name = format!("{}.t", database.name);
    let warehouse = lake.warehouse();
    let schema = serde_json::json!({
        "columns": [["id", "INT NOT NULL"], ["v", "VARCHAR(20)"]],
        "primaryKeys": ["id"],
        "options": {"bucket": "1", "file.format": "orc"}
    });
    oracle::java("create", &[&warehouse, &name], &schema.to_string());
    oracle::java("write", &[&warehouse, &name], r#"{"id":1,"v":"a"}"#);
    let job = JobFile::new(server, &database, &lake).source("scan.startup.mode", "latest-offset");
    let words = ["file.format = orc", "Parquet", "set file.format to parquet"];
    for verb in ["run", "check"] {
        let process = Headwater::start(verb, &job, &lake, None);
        process.fails_naming(&words).await;
    }
    oracle::java(
        "alter",
        &[&warehouse, &name, "set", "file.format", "parquet"],
        "",
    );
    for verb in ["run", "check"] {
        let process = Headwater::start(verb, &job, &lake, None);
        process
            .fails_naming(&[".orc", "force-rewrite-all-files"])
            .await;
    }
    // As the message says.
    let rewriting = "compaction.force-rewrite-all-files=true";
    let args = [&warehouse, name.as_str(), "--full", "--opt", rewriting];
    oracle::java("compact", &args, "");
    let mut process = Headwater::start("check", &job, &lake, None);
    let status = process.ended(Duration::from_secs(60)).await;
    assert!(status.success(), "{}", process.output());
}
