//! A job in the middle of a checkpoint, and what others and the job do next.

use std::{process::Command, time::Duration};

use crate::{
    exactness::aborts_at,
    support::{
        Database, Headwater, JobFile, Lake, Server, dump, eventually, job::server_id, oracle,
    },
};

/// Exit code of an error that trying again does not mend.
const DEFINITE: i32 = 3;
/// Longest that anything may take.
pub const LIMIT: Duration = Duration::from_secs(180);

/// A job with two tables, `t` and `q`.
pub struct Scene {
    pub database: Database,
    pub lake: Lake,
    pub job: JobFile,
}

impl Scene {
    /// A job on tables of 400 and 2 rows that has not begun.
    pub async fn new(purpose: &str) -> Self {
        let (server, lake) = (Server::shared(), Lake::new());
        let database = server.database(purpose).await;
        let numbers =
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)";
        database
            .run(&format!(
                "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT);
CREATE TABLE q (id INT PRIMARY KEY, n INT);
INSERT INTO t SELECT i, CONCAT('v', i), i * 10 FROM ({numbers} SELECT i FROM n) x;
INSERT INTO q VALUES (0, 0), (1, 1)"
            ))
            .await;
        // Compaction is the other hands'. The job's counter stays below the number of rows: a row
        // that others write anew gets a greater number than those that the job has prepared.
        let job =
            JobFile::new(server, &database, &lake).sink("table.properties.write-only", "true");
        Self {
            database,
            lake,
            job,
        }
    }

    /// A job that has read its tables and followed some changes, stopped.
    pub async fn stopped(purpose: &str) -> Self {
        let scene = Self::new(purpose).await;
        let mut process = scene.run();
        scene.caught_up(&mut process).await;
        for change in [
            "UPDATE t SET v = 'second' WHERE id % 40 = 0",
            "DELETE FROM t WHERE id IN (5, 6)",
            "UPDATE t SET n = n + 1 WHERE id < 10",
        ] {
            scene.database.run(change).await;
            scene.caught_up(&mut process).await;
        }
        process.stop().await;
        scene
    }

    /// As [`Scene::stopped`], and then killed at a point of the checkpoint of further changes.
    pub async fn killed_at(purpose: &str, point: &str) -> Self {
        let scene = Self::stopped(purpose).await;
        scene.changes().await;
        // All changes are in one checkpoint, however busy the server is.
        let job = scene.job.clone().at_the_log_end();
        aborts_at(point, &job, &scene.lake).await;
        scene
    }

    /// Killed behind the record and before the commits.
    pub async fn prepared(purpose: &str) -> Self {
        let scene = Self::killed_at(purpose, "after-record").await;
        let files = scene.orphans(&[]);
        assert!(!files.is_empty(), "nothing is prepared");
        scene
    }

    /// As [`Scene::prepared`], while rows of `t` are still to be read.
    pub async fn reading(purpose: &str) -> Self {
        let mut scene = Self::new(purpose).await;
        let numbers =
            "WITH RECURSIVE n (i) AS (SELECT 401 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)";
        scene
            .database
            .run(&format!(
                "SET SESSION cte_max_recursion_depth = 1000000;
INSERT INTO t SELECT i, CONCAT('v', i), i FROM ({numbers} SELECT i FROM n) x"
            ))
            .await;
        // Cut into many splits, of which a round reads few.
        let chunks = |count: u32| {
            let limits = "limits:\n  source:\n    rows-per-second: 15000\n    concurrent-chunks: ";
            scene.job.clone().with(&format!("{limits}{count}\n"))
        };
        aborts_at("after-first-marker", &chunks(64), &scene.lake).await;
        scene.job = chunks(1);
        let mut rows = 0;
        while rows == 0 {
            // Each run commits what the one before has prepared.
            aborts_at("after-record", &scene.job, &scene.lake).await;
            rows = scene.lake.read(&scene.table("t"), None).len();
        }
        assert!((1..110_000).contains(&rows), "{rows} rows");
        assert!(!scene.orphans(&[]).is_empty(), "nothing is prepared");
        scene.changes().await;
        scene
    }

    /// Rows are added, changed and deleted; some of them in every bucket.
    pub async fn changes(&self) {
        self.database
            .run(
                "INSERT INTO t SELECT id + 1000000, 'new', n FROM t WHERE id <= 10;
UPDATE t SET v = 'third' WHERE id % 30 = 0;
DELETE FROM t WHERE id % 70 = 0;
UPDATE q SET n = n + 100",
            )
            .await;
    }

    /// With a number of its own: the server may not know yet that one that was killed is gone.
    pub fn run(&self) -> Headwater {
        let job = self.job.clone();
        Headwater::run(
            &job.source("server-id", &server_id().to_string()),
            &self.lake,
        )
    }

    pub fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.database.name)
    }

    /// A verb of the Java tool on `t`.
    pub fn java(&self, verb: &str, words: &[&str], input: &str) -> String {
        let (warehouse, table) = (self.lake.warehouse(), self.table("t"));
        let mut args = vec![warehouse.as_str(), table.as_str()];
        args.extend(words);
        oracle::java(verb, &args, input).text
    }

    /// Data files of `t` that nothing refers to, by Java.
    pub fn orphans(&self, more: &[&str]) -> Vec<String> {
        let text = self.java("orphan", more, "");
        let files = text.lines().filter(|line| line.contains("/data-"));
        files.map(str::to_owned).collect()
    }

    /// Snapshot of the job's last commit into `t`, or what came behind it.
    pub fn newest(&self) -> u64 {
        self.lake.snapshots(&self.table("t")).last().unwrap().id
    }

    /// `headwater table VERB` of `t`.
    pub fn ours(&self, verb: &str, words: &[&str]) {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["table", verb, &self.lake.warehouse(), &self.table("t")])
            .args(words)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {said}");
    }

    /// Waits until everything is in the lake that is in the source now.
    pub async fn caught_up(&self, process: &mut Headwater) {
        self.database
            .run("UPDATE q SET n = n + 1 WHERE id = 0")
            .await;
        let lines = dump::lines(&self.database, "q").await;
        let table = self.table("q");
        eventually("the lake catches up", LIMIT, async || {
            process.assert_runs();
            self.lake.read(&table, None) == lines
        })
        .await;
    }

    /// As [`Scene::caught_up`], `t` as well: the tables of a checkpoint become visible one by one.
    pub async fn all_caught_up(&self, process: &mut Headwater) {
        self.caught_up(process).await;
        let lines = dump::lines(&self.database, "t").await;
        let table = self.table("t");
        eventually("the lake catches up", LIMIT, async || {
            self.lake.read(&table, None) == lines
        })
        .await;
    }

    /// Source and lake are equal, row by row, by Java; and Java finds nothing wrong.
    pub async fn equal(&self) {
        for name in ["t", "q"] {
            let (warehouse, table) = (self.lake.warehouse(), self.table(name));
            let lines = dump::lines(&self.database, name).await;
            assert!(!lines.is_empty());
            let answer = oracle::java("diff", &[&warehouse, &table], &lines.join("\n"));
            assert!(answer.good, "{table}: {}", answer.text);
            self.lake.assert_sound(&table);
        }
    }

    /// The job goes on, follows more changes, and ends politely. Returns what it said.
    pub async fn goes_on(&self) -> String {
        let mut process = self.run();
        self.all_caught_up(&mut process).await;
        self.changes_behind().await;
        self.all_caught_up(&mut process).await;
        let said = process.output();
        process.stop().await;
        self.equal().await;
        said
    }

    pub async fn changes_behind(&self) {
        self.database
            .run("UPDATE t SET n = -n WHERE id % 50 = 0;\nDELETE FROM t WHERE id % 110 = 0;\nINSERT INTO t VALUES (5000, 'end', 1) ON DUPLICATE KEY UPDATE n = n + 1")
            .await;
    }

    /// The job ends by itself, each time it is started, with an error that has these words and the
    /// table's name, and no row of `t` is touched by it.
    pub async fn refuses(&self, words: &[&str]) {
        let before = self.lake.snapshots(&self.table("t")).len();
        for _ in 0..2 {
            let mut process = self.run();
            let status = process.ended(LIMIT).await;
            self.ended_definitely(status.code(), &process.output(), words);
        }
        let after = self.lake.snapshots(&self.table("t")).len();
        assert_eq!(before, after, "it committed");
    }

    pub fn ended_definitely(&self, code: Option<i32>, said: &str, words: &[&str]) {
        assert_eq!(code, Some(DEFINITE), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        let table = self.table("t");
        for word in words.iter().copied().chain([table.as_str()]) {
            assert!(said.contains(word), "{word:?} is not said:\n{said}");
        }
    }

    /// As the errors say: state and tables are removed, and everything is read again.
    pub async fn begins_anew(&self) {
        std::fs::remove_dir_all(self.lake.warehouse()).unwrap();
        self.goes_on().await;
    }
}
