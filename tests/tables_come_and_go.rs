//! Tables that a job takes up, leaves and reads anew after it was started first, with changes on all
//! tables meanwhile and kills in the middle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mysql_async::prelude::Queryable;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::support::{
    Database, Headwater, JobFile, Lake, Server, env_number, eventually, values::settles,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Makes a table and fills it with so many rows.
async fn filled(database: &Database, table: &str, rows: u32) {
    database
        .run(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(40), n BIGINT);\n\
             SET SESSION cte_max_recursion_depth = 1000000;\n\
             INSERT INTO {table} WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s \
             WHERE i < {rows}) SELECT i, CONCAT('row ', i), i * 7 FROM s"
        ))
        .await;
}

/// Changes rows of tables until it is told to stop; those that are not there are passed over.
struct Load {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    async fn on(database: &Database, tables: &[&str], seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let tables: Vec<String> = tables.iter().map(|table| (*table).to_owned()).collect();
        let mut conn = database.connect().await;
        let task = tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            while !stopped.load(Ordering::Relaxed) {
                let table = &tables[random.random_range(0..tables.len())];
                let id = random.random_range(1..4000);
                let statement = match random.random_range(0..4) {
                    0 => format!("DELETE FROM {table} WHERE id = {id}"),
                    1 => format!("UPDATE {table} SET n = n + 1 WHERE id BETWEEN {id} AND {id} + 5"),
                    2 => format!("UPDATE IGNORE {table} SET id = id + 5000 WHERE id = {id}"),
                    _ => format!("REPLACE INTO {table} VALUES ({id}, 'new', {id})"),
                };
                let _ = conn.query_drop(statement).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self { stop, task }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

fn job_of(server: &Server, database: &Database, lake: &Lake, tables: &str) -> JobFile {
    let pattern = format!("{}.{tables}", database.name);
    JobFile::new(server, database, lake).source("tables", &pattern)
}

/// Kills the job a few times at random moments, and gives it running.
async fn kills(
    job: &JobFile,
    lake: &Lake,
    mut process: Headwater,
    random: &mut StdRng,
) -> Headwater {
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(random.random_range(100..2500))).await;
        process.kill9();
        process = Headwater::run(job, lake);
    }
    process
}

/// A table that the job file names later, one that is created while the job stands still, and one that is
/// named no more and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn tables_are_added_and_removed_between_runs() {
    let seed = env_number("SEED", 11);
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("come").await;
    for table in ["a", "b", "c"] {
        filled(&database, table, 3000).await;
    }
    let first = job_of(server, &database, &lake, "[ab]");
    let mut process = Headwater::run(&first, &lake);
    settles(&lake, &database, &["a", "b"], &mut process).await;
    process.stop().await;
    assert_eq!(lake.tables(&database.name), ["a", "b"]);

    // Without the key a table that matches is named, and left out.
    let load = Load::on(&database, &["a", "b", "c", "d"], seed).await;
    let all = job_of(server, &database, &lake, "[a-d]");
    let mut process = Headwater::run(&all, &lake);
    eventually("it says so", MINUTE, async || {
        process.output().contains("scan.newly-added-table.enabled")
    })
    .await;
    settle_marks(&mut process).await;
    process.stop().await;
    assert_eq!(lake.tables(&database.name), ["a", "b"]);

    // With it c, and d which was made meanwhile, are taken up. b is named no more.
    filled(&database, "d", 2000).await;
    let more =
        job_of(server, &database, &lake, "[acd]").source("scan.newly-added-table.enabled", "true");
    let process = Headwater::run(&more, &lake);
    let mut process = kills(&more, &lake, process, &mut random).await;
    load.end().await;
    settles(&lake, &database, &["a", "c", "d"], &mut process).await;
    let b = lake.snapshots(&format!("{}.b", database.name)).len();
    database
        .run("UPDATE b SET n = -1;\nDELETE FROM b WHERE id % 3 = 0;\nDELETE FROM a WHERE id < 10")
        .await;
    settles(&lake, &database, &["a"], &mut process).await;
    assert_eq!(
        lake.snapshots(&format!("{}.b", database.name)).len(),
        b,
        "it is left alone"
    );
    process.stop().await;

    // It comes back, and what was deleted meanwhile is gone.
    let load = Load::on(&database, &["a", "b", "c", "d"], seed + 1).await;
    let back =
        job_of(server, &database, &lake, "[a-d]").source("scan.newly-added-table.enabled", "true");
    let process = Headwater::run(&back, &lake);
    let mut process = kills(&back, &lake, process, &mut random).await;
    load.end().await;
    settles(&lake, &database, &["a", "b", "c", "d"], &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// Waits until the job is under way.
async fn settle_marks(process: &mut Headwater) {
    eventually("it reads the log", MINUTE, async || {
        process.assert_runs();
        process.output().contains("reading MySQL's log")
    })
    .await;
}

/// D11: CREATE TABLE, LIKE, AS SELECT, and a rename into a name that matches, while the job runs. One that
/// cannot be captured, and one that is gone at once, do not disturb.
#[tokio::test(flavor = "multi_thread")]
async fn created_tables_are_captured() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("create").await;
    filled(&database, "a", 3000).await;
    let job = job_of(server, &database, &lake, "[a-z]+")
        .source("scan.binlog.newly-added-table.enabled", "true");
    let mut process = Headwater::run(&job, &lake);
    settles(&lake, &database, &["a"], &mut process).await;
    let load = Load::on(&database, &["a", "b", "c", "d", "e"], 5).await;
    database
        .run(
            "CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(40), n BIGINT);\nREPLACE INTO b VALUES (1, 'one', 1);\n\
             CREATE TABLE c LIKE a;\nINSERT IGNORE INTO c SELECT * FROM a;\n\
             CREATE TABLE d (PRIMARY KEY (id)) AS SELECT * FROM a;\n\
             CREATE TABLE `x_1` LIKE a;\nINSERT INTO `x_1` SELECT * FROM a;\nRENAME TABLE `x_1` TO e;\n\
             CREATE TABLE nokey (v INT);\nINSERT INTO nokey VALUES (1);\n\
             CREATE TABLE brief (id INT PRIMARY KEY);\nDROP TABLE brief",
        )
        .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    process.kill9();
    let mut process = Headwater::run(&job, &lake);
    load.end().await;
    settles(&lake, &database, &["a", "b", "c", "d", "e"], &mut process).await;
    database
        .run("CREATE TABLE f (id INT PRIMARY KEY, w TEXT);\nINSERT INTO f VALUES (1, 'late')")
        .await;
    settles(&lake, &database, &["f"], &mut process).await;
    database.run("DROP TABLE nokey").await;
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// Rows that somebody has broken in the lake are mended by a resync beside the log, also when the job is
/// killed in it; wrong names are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_read_anew_on_request() {
    let seed = env_number("SEED", 12);
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("again").await;
    filled(&database, "a", 3000).await;
    filled(&database, "b", 3000).await;
    let job = job_of(server, &database, &lake, "[ab]");
    let mut process = Headwater::run(&job, &lake);
    settles(&lake, &database, &["a", "b"], &mut process).await;
    // What no log says: the lake keeps rows that the source has no more, and lacks others.
    database
        .run("SET SESSION sql_log_bin = 0;\nDELETE FROM a WHERE id % 5 = 0;\nINSERT INTO a VALUES (9001, 'unlogged', 1)")
        .await;
    let load = Load::on(&database, &["a", "b"], seed).await;
    let name = format!("{}.a", database.name);
    let asked = Headwater::ask("resync", &job, &lake, &[&name]);
    let mut process = kills(&job, &lake, process, &mut random).await;
    asked.succeeds().await;
    Headwater::ask("resync", &job, &lake, &[&name, "--wait"])
        .succeeds()
        .await;
    load.end().await;
    settles(&lake, &database, &["a", "b"], &mut process).await;

    let wrong = format!("{}.zz", database.name);
    Headwater::ask("resync", &job, &lake, &[&wrong])
        .fails_naming(&[&wrong, "does not capture"])
        .await;
    Headwater::ask("add-table", &job, &lake, &[&name])
        .fails_naming(&[&name, "resync"])
        .await;
    process.stop().await;
    // Of a job that stands still it waits.
    database
        .run("SET SESSION sql_log_bin = 0;\nDELETE FROM b WHERE id < 1000")
        .await;
    let name = format!("{}.b", database.name);
    Headwater::ask("resync", &job, &lake, &[&name])
        .succeeds()
        .await;
    let mut process = Headwater::run(&job, &lake);
    settles(&lake, &database, &["a", "b"], &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// `add-table` takes up one table of those that match.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_added_on_request() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("add").await;
    filled(&database, "a", 500).await;
    let job = job_of(server, &database, &lake, "[a-c]");
    let mut process = Headwater::run(&job, &lake);
    settles(&lake, &database, &["a"], &mut process).await;
    filled(&database, "b", 500).await;
    filled(&database, "c", 500).await;
    let name = format!("{}.b", database.name);
    Headwater::ask("add-table", &job, &lake, &[&name, "--wait"])
        .succeeds()
        .await;
    database
        .run("UPDATE b SET n = 3 WHERE id < 100;\nDROP TABLE c")
        .await;
    settles(&lake, &database, &["a", "b"], &mut process).await;
    process.stop().await;
    assert_eq!(lake.tables(&database.name), ["a", "b"]);
    lake.assert_equal(&database).await;
}
