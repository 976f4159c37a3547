//! What other programs do to a table while a checkpoint of the job is prepared and not committed:
//! Java expires, compacts, cleans, rolls back, rescales, truncates, drops, alters. The job goes on and
//! source and lake are equal, or it ends with an error that names the table and what to do.

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
const LIMIT: Duration = Duration::from_secs(180);

/// A job with two tables, `t` and `q`.
struct Scene {
    database: Database,
    lake: Lake,
    job: JobFile,
}

impl Scene {
    /// A job that has read its tables and followed some changes, stopped.
    async fn stopped(purpose: &str) -> Self {
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
        let scene = Self {
            database,
            lake,
            job,
        };
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
    async fn killed_at(purpose: &str, point: &str) -> Self {
        let scene = Self::stopped(purpose).await;
        scene.changes().await;
        aborts_at(point, &scene.job, &scene.lake).await;
        scene
    }

    /// Killed behind the record and before the commits.
    async fn prepared(purpose: &str) -> Self {
        let scene = Self::killed_at(purpose, "after-record").await;
        let files = scene.orphans(&[]);
        assert!(!files.is_empty(), "nothing is prepared");
        scene
    }

    /// Rows are added, changed and deleted; some of them in every bucket.
    async fn changes(&self) {
        self.database
            .run(
                "INSERT INTO t SELECT id + 1000, 'new', n FROM t WHERE id <= 10;
UPDATE t SET v = 'third' WHERE id % 30 = 0;
DELETE FROM t WHERE id % 70 = 0;
UPDATE q SET n = n + 100",
            )
            .await;
    }

    /// With a number of its own: the server may not know yet that one that was killed is gone.
    fn run(&self) -> Headwater {
        let job = self.job.clone();
        Headwater::run(
            &job.source("server-id", &server_id().to_string()),
            &self.lake,
        )
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.database.name)
    }

    /// A verb of the Java tool on `t`.
    fn java(&self, verb: &str, words: &[&str], input: &str) -> String {
        let (warehouse, table) = (self.lake.warehouse(), self.table("t"));
        let mut args = vec![warehouse.as_str(), table.as_str()];
        args.extend(words);
        oracle::java(verb, &args, input).text
    }

    /// Data files of `t` that nothing refers to, by Java.
    fn orphans(&self, more: &[&str]) -> Vec<String> {
        let text = self.java("orphan", more, "");
        let files = text.lines().filter(|line| line.contains("/data-"));
        files.map(str::to_owned).collect()
    }

    /// Snapshot of the job's last commit into `t`, or what came behind it.
    fn newest(&self) -> u64 {
        self.lake.snapshots(&self.table("t")).last().unwrap().id
    }

    /// `headwater table VERB` of `t`.
    fn ours(&self, verb: &str, words: &[&str]) {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["table", verb, &self.lake.warehouse(), &self.table("t")])
            .args(words)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {said}");
    }

    /// Waits until everything is in the lake that is in the source now.
    async fn caught_up(&self, process: &mut Headwater) {
        self.database
            .run("UPDATE q SET n = n + 1 WHERE id = 0")
            .await;
        let lines = dump::lines(&self.database, "q").await;
        let table = self.table("q");
        eventually("the lake catches up", LIMIT, async || {
            assert!(
                process.is_running(),
                "it ended by itself:\n{}",
                process.output()
            );
            self.lake.read(&table, None) == lines
        })
        .await;
    }

    /// As [`Scene::caught_up`], `t` as well: the tables of a checkpoint become visible one by one.
    async fn all_caught_up(&self, process: &mut Headwater) {
        self.caught_up(process).await;
        let lines = dump::lines(&self.database, "t").await;
        let table = self.table("t");
        eventually("the lake catches up", LIMIT, async || {
            self.lake.read(&table, None) == lines
        })
        .await;
    }

    /// Source and lake are equal, row by row, by Java; and Java finds nothing wrong.
    async fn equal(&self) {
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
    async fn goes_on(&self) -> String {
        let mut process = self.run();
        self.caught_up(&mut process).await;
        self.changes_behind().await;
        self.caught_up(&mut process).await;
        let said = process.output();
        process.stop().await;
        self.equal().await;
        said
    }

    async fn changes_behind(&self) {
        self.database
            .run("UPDATE t SET n = -n WHERE id % 50 = 0;\nDELETE FROM t WHERE id % 110 = 0;\nINSERT INTO t VALUES (5000, 'end', 1) ON DUPLICATE KEY UPDATE n = n + 1")
            .await;
    }

    /// The job ends by itself, each time it is started, with an error that has these words and the
    /// table's name, and no row of `t` is touched by it.
    async fn refuses(&self, words: &[&str]) {
        let before = self.lake.snapshots(&self.table("t")).len();
        for _ in 0..2 {
            let mut process = self.run();
            let status = process.ended(LIMIT).await;
            self.ended_definitely(status.code(), &process.output(), words);
        }
        let after = self.lake.snapshots(&self.table("t")).len();
        assert_eq!(before, after, "it committed");
    }

    fn ended_definitely(&self, code: Option<i32>, said: &str, words: &[&str]) {
        assert_eq!(code, Some(DEFINITE), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        let table = self.table("t");
        for word in words.iter().copied().chain([table.as_str()]) {
            assert!(said.contains(word), "{word:?} is not said:\n{said}");
        }
    }

    /// As the errors say: state and tables are removed, and everything is read again.
    async fn begins_anew(&self) {
        std::fs::remove_dir_all(self.lake.warehouse()).unwrap();
        self.goes_on().await;
    }
}

/// The schema of `t` as the job makes it.
const SCHEMA: &str = r#"{"columns":[["id","INT NOT NULL"],["v","VARCHAR(20)"],["n","INT"]],"primaryKeys":["id"],"options":{"bucket":"2"}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_expired_and_files_compacted() {
    let scene = Scene::prepared("hands_expire").await;
    scene.java("expire", &["--retain", "1"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_compact").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    // What nothing refers to goes, unless it is young.
    scene.java("orphan", &["--delete", "--older-than-s", "3600"], "");
    scene.goes_on().await;
    scene.lake.assert_equal(&scene.database).await;
}

/// Committed, and killed before the job knows: the snapshot and the files of the commit are gone
/// behind a compaction, and must not be committed again, nor missed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_is_compacted_and_expired() {
    let scene = Scene::killed_at("hands_done", "after-table-commits").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    scene.java("orphan", &["--delete"], "");
    scene.goes_on().await;

    let scene = Scene::killed_at("hands_half", "between-table-commits").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    scene.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_files_are_deleted_as_orphans() {
    let scene = Scene::prepared("hands_orphan").await;
    let deleted = scene.orphans(&["--delete"]);
    assert!(!deleted.is_empty());
    scene
        .refuses(&["files that are gone", "orphan", "state"])
        .await;
    scene.lake.assert_sound(&scene.table("t"));
    scene.begins_anew().await;
}

/// The process stands still for a while, as that of a machine that sleeps.
#[tokio::test(flavor = "multi_thread")]
async fn prepared_files_are_deleted_while_the_job_stands_still() {
    let scene = Scene::stopped("hands_asleep").await;
    scene.changes().await;
    let mut process = Headwater::run_until(&scene.job, &scene.lake, "after-record:1:stop");
    eventually("it stands still", LIMIT, async || {
        assert!(process.is_running(), "{}", process.output());
        process.is_stopped()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(!scene.orphans(&["--delete"]).is_empty());
    process.signal("CONT");
    let status = process.ended(LIMIT).await;
    let said = process.output();
    scene.ended_definitely(status.code(), &said, &["files that are gone", "orphan"]);
    scene.lake.assert_sound(&scene.table("t"));
    scene.refuses(&["files that are gone"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_rolled_back() {
    let scene = Scene::prepared("hands_back").await;
    let before = scene.newest() - 1;
    scene.java("rollback", &[&before.to_string()], "");
    scene.refuses(&["rolled back", "state"]).await;
    // Others write until the numbers are as high again.
    for id in [1, 2, 3] {
        let row = format!(r#"{{"id":{id},"v":"other","n":0}}"#);
        scene.java("write", &["--commit-user", "java"], &row);
    }
    scene.refuses(&["rolled back", "state"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_dropped_and_made_again() {
    let scene = Scene::prepared("hands_drop").await;
    scene.java("drop", &[], "");
    scene.refuses(&["gone", "state"]).await;
    scene.java("create", &[], SCHEMA);
    scene.refuses(&["gone", "state"]).await;
    scene.java(
        "write",
        &["--commit-user", "java"],
        r#"{"id":1,"v":"other","n":0}"#,
    );
    scene.refuses(&["gone", "state"]).await;
    scene.begins_anew().await;

    // Nothing is prepared that could be missing.
    let scene = Scene::stopped("hands_drop_idle").await;
    scene.java("drop", &[], "");
    scene.refuses(&["gone", "state"]).await;
    scene.java("create", &[], SCHEMA);
    scene.refuses(&["made anew", "state"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_truncated() {
    let scene = Scene::prepared("hands_truncate").await;
    let before = scene.newest();
    scene.java("truncate", &[], "");
    scene
        .refuses(&["took all rows away", "roll the table back"])
        .await;
    scene.java("rollback", &[&before.to_string()], "");
    scene.goes_on().await;

    // A table that has only deletes is as empty as it says.
    let scene = Scene::stopped("hands_empty").await;
    let mut process = scene.run();
    scene.database.run("DELETE FROM t").await;
    scene.caught_up(&mut process).await;
    process.stop().await;
    scene
        .database
        .run("INSERT INTO t VALUES (1, 'again', 1)")
        .await;
    aborts_at("after-record", &scene.job, &scene.lake).await;
    scene.java("truncate", &[], "");
    scene.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_added_and_widened() {
    let scene = Scene::prepared("hands_columns").await;
    scene.java("alter", &["add", "x", "INT"], "");
    scene.java("alter", &["type", "v", "VARCHAR(200)"], "");
    let mut process = scene.run();
    scene.caught_up(&mut process).await;
    process.stop().await;
    let rows = scene.lake.read(&scene.table("t"), None);
    assert!(rows.iter().all(|row| row.ends_with(r#","x":null}"#)));
    scene.java("alter", &["drop", "x"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_widen").await;
    scene.java("alter", &["type", "n", "BIGINT"], "");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["column n", "BIGINT"]);
    scene.refuses(&["column n", "BIGINT"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_is_renamed_or_dropped() {
    let scene = Scene::prepared("hands_rename").await;
    scene.java("alter", &["rename", "v", "w"], "");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["column v", "state"]);
    scene.refuses(&["column v", "renamed"]).await;
    scene.java("alter", &["rename", "w", "v"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_dropped").await;
    scene.java("alter", &["drop", "v"], "");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["column v", "state"]);
    scene.refuses(&["column v", "dropped"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_set() {
    let scene = Scene::prepared("hands_options").await;
    for (name, value) in [
        ("num-sorted-run.compaction-trigger", "3"),
        ("target-file-size", "1 mb"),
        ("snapshot.num-retained.min", "2"),
    ] {
        scene.java("alter", &["set", name, value], "");
    }
    scene.goes_on().await;

    // The count alone: rows stand where they stood.
    let scene = Scene::prepared("hands_bucket").await;
    scene.java("alter", &["set", "bucket", "3"], "");
    scene.refuses(&["bucket", "rescale"]).await;
    scene.java("alter", &["set", "bucket", "2"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_bucket_on").await;
    scene.java("alter", &["set", "bucket", "3"], "");
    scene.refuses(&["bucket", "rescale"]).await;
    scene.ours("rescale", &["--buckets", "3"]);
    scene.goes_on().await;
}

/// Prepared files are of the old count: their rows, deletes among them, move to the new buckets.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_rescaled() {
    for buckets in ["1", "3", "4"] {
        let scene = Scene::prepared("hands_rescale").await;
        rescale_by_java(&scene, buckets);
        scene.goes_on().await;

        let scene = Scene::prepared("hands_rescale_ours").await;
        scene.ours("rescale", &["--buckets", buckets]);
        // Killed again while it does that.
        for point in ["between-table-commits", "after-table-commits"] {
            if buckets == "3" {
                aborts_at(point, &scene.job, &scene.lake).await;
            }
        }
        scene.goes_on().await;
        let files = scene.java("files", &[], "");
        let all = format!("\"totalBuckets\":{buckets},");
        assert!(files.lines().all(|line| line.contains(&all)), "{files}");
    }
}

/// INSERT OVERWRITE of the table with itself.
fn rescale_by_java(scene: &Scene, buckets: &str) {
    let rows = scene.java("read", &[], "");
    scene.java("alter", &["set", "bucket", buckets], "");
    let words = ["--commit-user", "java", "--overwrite", "*"];
    scene.java("write", &words, &rows);
}

/// The job runs meanwhile, goes on by itself, and writes into the new buckets.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_rescaled_under_a_running_job() {
    let scene = Scene::stopped("hands_live").await;
    let mut process = scene.run();
    scene.caught_up(&mut process).await;
    for buckets in ["3", "5", "1"] {
        scene.ours("rescale", &["--buckets", buckets]);
        scene.changes_behind().await;
        scene
            .database
            .run("UPDATE t SET v = CONCAT('r', id) WHERE id % 20 = 1")
            .await;
        scene.all_caught_up(&mut process).await;
        scene.equal().await;
    }
    process.stop().await;
    let files = scene.java("files", &[], "");
    assert!(
        files
            .lines()
            .all(|line| line.contains("\"totalBuckets\":1,")),
        "{files}"
    );
    scene.goes_on().await;
}

/// A row of another writer, with a number above those of the job's next rows, in a bucket that a
/// running job and a prepared checkpoint write to: the source's rows are the newer ones.
#[tokio::test(flavor = "multi_thread")]
async fn others_write_rows() {
    // Those that the source has.
    let rows: Vec<String> = (1..=30)
        .filter(|id| ![5, 6].contains(id))
        .map(|id| format!(r#"{{"id":{id},"v":"other","n":0}}"#))
        .collect();
    let scene = Scene::prepared("hands_write").await;
    for _ in 0..3 {
        scene.java("write", &["--commit-user", "java"], &rows.join("\n"));
    }
    let mut process = scene.run();
    scene
        .database
        .run("UPDATE t SET v = 'mine' WHERE id <= 30")
        .await;
    scene.all_caught_up(&mut process).await;
    for round in 0..3 {
        for _ in 0..3 {
            scene.java("write", &["--commit-user", "java"], &rows.join("\n"));
        }
        let change = format!("UPDATE t SET v = 'mine {round}' WHERE id <= 30");
        scene.database.run(&change).await;
        scene.all_caught_up(&mut process).await;
    }
    process.stop().await;
    scene.equal().await;
}
