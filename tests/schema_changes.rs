//! DDL in the log: sink tables follow it, and rows that a statement changed without row events are
//! read anew. The ids are those of the cases that users reported.

use std::time::Duration;

use crate::support::{
    Database, Headwater, JobFile, Lake, Server, small::arrives_within, values::settles,
};

struct Scene {
    lake: Lake,
    database: Database,
    job: JobFile,
    process: Headwater,
}

impl Scene {
    /// A job under way over table `t (id, v)` of two rows.
    async fn of(purpose: &str, behavior: &str) -> Self {
        Self::with(
            purpose,
            behavior,
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, NULL)",
        )
        .await
    }

    /// A job under way over the table `t` that these statements make, of two rows.
    async fn with(purpose: &str, behavior: &str, tables: &str) -> Self {
        let (server, lake) = (Server::shared(), Lake::new());
        let database = server.database(purpose).await;
        database.run(tables).await;
        let job =
            JobFile::new(server, &database, &lake).pipeline("schema.change.behavior", behavior);
        let mut process = Headwater::run(&job, &lake);
        rows(&lake, &database, 2, &mut process).await;
        Self {
            lake,
            database,
            job,
            process,
        }
    }

    async fn run(&self, statements: &str) {
        self.database.run(statements).await;
    }

    /// Waits until the lake's `t` has the values of the source's.
    async fn settles(&mut self) {
        settles(&self.lake, &self.database, &["t"], &mut self.process).await;
    }

    /// Settles, also after a kill and a start in between, and ends well.
    async fn ends_well(mut self) -> (Lake, Database) {
        self.settles().await;
        self.process.kill9();
        self.process = Headwater::run(&self.job, &self.lake);
        self.run("UPDATE t SET id = id + 100000").await;
        self.settles().await;
        self.process.stop().await;
        let table = format!("{}.t", self.database.name);
        self.lake.assert_sound(&table);
        (self.lake, self.database)
    }

    fn columns(&self) -> Vec<String> {
        columns(&self.lake, &self.database)
    }
}

/// Names of the columns of the lake's `t`, with their field ids.
fn columns(lake: &Lake, database: &Database) -> Vec<String> {
    let schema = lake.schema(&format!("{}.t", database.name));
    let fields = schema["fields"].as_array().unwrap().iter();
    let fields = fields.map(|field| format!("{}:{}", field["id"], field["name"].as_str().unwrap()));
    fields.collect()
}

async fn rows(lake: &Lake, database: &Database, rows: usize, process: &mut Headwater) {
    arrives_within(Duration::from_secs(60), lake, database, rows, process).await;
}

/// D4, D7. First, in the middle, at the end, several at once, in a comment for newer servers; rows on
/// both sides of each, all in one go.
#[tokio::test(flavor = "multi_thread")]
async fn added_columns_are_followed() {
    let scene = Scene::of("add", "lenient").await;
    scene
        .run(
            "INSERT INTO t VALUES (3, 'c');
ALTER TABLE t ADD COLUMN x INT FIRST;
INSERT INTO t VALUES (40, 4, 'd');
ALTER TABLE t ADD y DECIMAL(8,2) AFTER x, ADD COLUMN (z1 DATETIME(3) NULL, z2 JSON);
INSERT INTO t VALUES (50, 5.5, 5, 'e', '2024-01-01 00:00:00.5', '{\"k\": 1}');
ALTER TABLE t /*!80000 ADD w VARCHAR(10) DEFAULT NULL */;
INSERT INTO t (id, w) VALUES (6, 'six');
UPDATE t SET y = 1.25 WHERE id = 1;
CREATE INDEX byv ON t (v);
INSERT INTO t (id) VALUES (7)",
        )
        .await;
    let (lake, database) = scene.ends_well().await;
    lake.assert_equal(&database).await;
}

/// D3: the field id stays, and with it the values of old rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_column_keeps_its_field_under_evolve() {
    let scene = Scene::of("rename_e", "evolve").await;
    scene
        .run(
            "ALTER TABLE t RENAME COLUMN v TO w;
INSERT INTO t VALUES (3, 'c');
ALTER TABLE t CHANGE w x VARCHAR(30);
UPDATE t SET x = 'b' WHERE id = 2",
        )
        .await;
    let (lake, database) = scene.ends_well().await;
    assert_eq!(columns(&lake, &database), ["0:id", "1:x"]);
    lake.assert_equal(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_or_dropped_column_stays_under_lenient() {
    let mut scene = Scene::of("rename_l", "lenient").await;
    scene
        .run("ALTER TABLE t RENAME COLUMN v TO w;\nINSERT INTO t VALUES (3, 'c')")
        .await;
    scene.settles().await;
    assert_eq!(scene.columns(), ["0:id", "1:v", "2:w"]);
    scene
        .run("ALTER TABLE t DROP w, ADD n INT NOT NULL;\nINSERT INTO t VALUES (4, 4)")
        .await;
    let (lake, database) = scene.ends_well().await;
    assert_eq!(columns(&lake, &database).len(), 4);
}

/// A column that is dropped and comes again is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_comes_again_is_new_under_evolve() {
    let scene = Scene::of("again", "evolve").await;
    scene
        .run(
            "ALTER TABLE t DROP v;
INSERT INTO t VALUES (3);
ALTER TABLE t ADD v VARCHAR(20);
INSERT INTO t VALUES (4, 'four')",
        )
        .await;
    let (lake, database) = scene.ends_well().await;
    assert_eq!(columns(&lake, &database), ["0:id", "2:v"]);
    lake.assert_equal(&database).await;
}

/// D5: old rows have the default.
#[tokio::test(flavor = "multi_thread")]
async fn defaults_of_added_columns_are_in_old_rows() {
    for behavior in ["lenient", "evolve"] {
        let scene = Scene::of("default", behavior).await;
        scene
            .run(
                "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7;
INSERT INTO t (id) VALUES (3);
ALTER TABLE t ADD d VARCHAR(9) DEFAULT 'x' AFTER id;
DELETE FROM t WHERE id = 1",
            )
            .await;
        scene.ends_well().await;
    }
}

/// D6.
#[tokio::test(flavor = "multi_thread")]
async fn types_become_wider() {
    let scene = Scene::with(
        "types",
        "evolve",
        "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b INT, c DECIMAL(6,2), d VARCHAR(5), e BIGINT);
INSERT INTO t VALUES (1, 5, 6, 7.25, 'd', 9), (2, NULL, NULL, NULL, NULL, NULL)",
    )
    .await;
    scene
        .run(
            "ALTER TABLE t MODIFY a INT;
INSERT INTO t VALUES (3, 3, 3, 3, 'three', 3);
ALTER TABLE t MODIFY b BIGINT, MODIFY c DECIMAL(10,4), MODIFY d VARCHAR(50);
INSERT INTO t VALUES (4, 4, 4000000000, 4.0004, 'four and more', 4);
ALTER TABLE t MODIFY e VARCHAR(30);
INSERT INTO t VALUES (5, 5, 5, 5, '5', 'five')",
        )
        .await;
    let job = scene.job.clone();
    let (lake, _) = scene.ends_well().await;
    // The sink's wider columns are the same values for `verify`.
    let mut verify = Headwater::start("verify", &job, &lake, None);
    let status = verify.ended(Duration::from_secs(60)).await;
    assert!(status.success(), "{}", verify.output());
}

/// D6: nothing past a change that cannot be held is committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_cannot_be_held_stops_the_job() {
    let scene = Scene::with(
        "cannot",
        "evolve",
        "CREATE TABLE t (id INT PRIMARY KEY, b DATE);\nINSERT INTO t VALUES (1, NULL), (2, '2024-01-01')",
    )
    .await;
    let table = format!("{}.t", scene.database.name);
    let before = scene.lake.read(&table, None);
    scene
        .run("ALTER TABLE t MODIFY b BINARY(10);\nINSERT INTO t VALUES (3, 'x')")
        .await;
    let statement = "ALTER TABLE t MODIFY b BINARY(10)";
    scene
        .process
        .fails_naming(&[&table, "column b", "binary(10)", "DATE", statement])
        .await;
    assert_eq!(scene.lake.read(&table, None), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn exception_stops_at_the_first_change() {
    let scene = Scene::of("exception", "exception").await;
    let table = format!("{}.t", scene.database.name);
    scene.run("ALTER TABLE t ADD x INT").await;
    let words = [table.as_str(), "exception", "ALTER TABLE t ADD x INT"];
    scene.process.fails_naming(&words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignore_leaves_the_sink_as_it_is() {
    let mut scene = Scene::of("ignore", "ignore").await;
    scene
        .run("ALTER TABLE t ADD x INT;\nINSERT INTO t VALUES (3, 'c', 3)")
        .await;
    rows(&scene.lake, &scene.database, 3, &mut scene.process).await;
    let line = r#"{"id":3,"v":"c"}"#;
    let table = format!("{}.t", scene.database.name);
    assert!(scene.lake.read(&table, None).contains(&line.to_owned()));
    scene.process.kill9();
    scene.process = Headwater::run(&scene.job, &scene.lake);
    scene
        .run("ALTER TABLE t DROP v;\nINSERT INTO t VALUES (4, 4)")
        .await;
    rows(&scene.lake, &scene.database, 4, &mut scene.process).await;
    assert_eq!(scene.columns(), ["0:id", "1:v"]);
    scene.process.stop().await;
}

/// D9.
#[tokio::test(flavor = "multi_thread")]
async fn truncate_empties_the_sink_under_evolve_only() {
    let scene = Scene::of("trunc_e", "evolve").await;
    scene
        .run("INSERT INTO t VALUES (3, 'c');\nTRUNCATE TABLE t;\nINSERT INTO t VALUES (2, 'new')")
        .await;
    let (lake, database) = scene.ends_well().await;
    lake.assert_equal(&database).await;

    let mut scene = Scene::of("trunc_l", "lenient").await;
    scene
        .run("TRUNCATE TABLE t;\nINSERT INTO t VALUES (9, 'new')")
        .await;
    rows(&scene.lake, &scene.database, 3, &mut scene.process).await;
    scene.process.stop().await;
}

/// D2.
#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_table_is_read_anew() {
    for behavior in ["lenient", "evolve"] {
        let scene = Scene::of("swap", behavior).await;
        scene
            .run(
                "CREATE TABLE t_new (id INT PRIMARY KEY, v VARCHAR(20), w INT);
INSERT INTO t_new VALUES (2, 'b', 2), (7, 'g', 7);
RENAME TABLE t TO t_old, t_new TO t;
INSERT INTO t VALUES (8, 'h', 8);
DROP TABLE t_old",
            )
            .await;
        scene.ends_well().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_and_comes_again() {
    let mut scene = Scene::of("dropped", "evolve").await;
    scene.run("DROP TABLE t").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(scene.process.is_running(), "{}", scene.process.output());
    scene
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), z INT);\nINSERT INTO t VALUES (5, 'five', 5)")
        .await;
    scene.ends_well().await;
}

/// D13: rows go without row events.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_partitions_that_go_are_removed() {
    let scene = Scene::with(
        "parts",
        "lenient",
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY RANGE (id) \
         (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (100), \
         PARTITION p2 VALUES LESS THAN MAXVALUE);\nINSERT INTO t VALUES (1, 'a'), (2, 'b')",
    )
    .await;
    scene
        .run(
            "INSERT INTO t VALUES (101, 'x'), (102, 'y');
ALTER TABLE t DROP PARTITION p0;
INSERT INTO t VALUES (3, 'c');
ALTER TABLE t TRUNCATE PARTITION p2;
INSERT INTO t VALUES (103, 'z');
ALTER TABLE t REORGANIZE PARTITION p2 INTO (PARTITION p3 VALUES LESS THAN MAXVALUE)",
        )
        .await;
    scene.ends_well().await;
}

/// D13: an ENUM whose labels change places, a charset conversion, a narrower type.
#[tokio::test(flavor = "multi_thread")]
async fn rewritten_values_are_read_anew() {
    let scene = Scene::with(
        "rewritten",
        "lenient",
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b','c'), n DECIMAL(10,4), c VARCHAR(20) CHARSET latin1);
INSERT INTO t VALUES (1, 'b', 1.2345, 'é'), (2, 'c', 2.5, NULL)",
    )
    .await;
    scene
        .run(
            "ALTER TABLE t MODIFY e ENUM('c','b','a');
INSERT INTO t VALUES (3, 'a', 3, 'ü');
ALTER TABLE t MODIFY n DECIMAL(10,2);
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4;
INSERT INTO t VALUES (4, 'b', 4.25, '注')",
        )
        .await;
    scene.ends_well().await;
}

/// D1: what gh-ost and pt-online-schema-change leave in the log.
#[tokio::test(flavor = "multi_thread")]
async fn online_schema_changes_leave_no_other_tables() {
    let scene = Scene::of("online", "lenient").await;
    scene
        .run(
            "CREATE TABLE _t_gho LIKE t;
ALTER TABLE _t_gho ADD g INT;
CREATE TABLE _t_ghc (id BIGINT PRIMARY KEY, hint VARCHAR(64));
INSERT INTO _t_ghc VALUES (1, 'state');
INSERT IGNORE INTO _t_gho (id, v) SELECT id, v FROM t;
INSERT INTO t VALUES (3, 'c');
REPLACE INTO _t_gho (id, v) VALUES (3, 'c');
RENAME TABLE t TO _t_del, _t_gho TO t;
DROP TABLE _t_ghc;
DROP TABLE _t_del;
INSERT INTO t VALUES (4, 'd', 4);
CREATE TABLE _t_new LIKE t;
ALTER TABLE _t_new ADD p INT;
INSERT INTO _t_new (id, v, g) SELECT * FROM t;
RENAME TABLE t TO _t_old, _t_new TO t;
DROP TABLE IF EXISTS _t_old;
INSERT INTO t VALUES (5, 'e', 5, 5)",
        )
        .await;
    let name = scene.database.name.clone();
    let (lake, _) = scene.ends_well().await;
    assert_eq!(lake.tables(&name), ["t"]);
}

/// D12: nothing of this concerns the table.
#[tokio::test(flavor = "multi_thread")]
async fn statements_about_other_things_are_ignored() {
    let scene = Scene::of("others", "exception").await;
    scene
        .run(
            "CREATE INDEX byv ON t (v);
ALTER TABLE t DROP INDEX byv, ADD KEY again (v), ALGORITHM=INPLACE, LOCK=NONE;
CREATE VIEW w AS SELECT * FROM t;
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = NEW.v;
ANALYZE TABLE t;
INSERT INTO t VALUES (3, 'c')",
        )
        .await;
    let (lake, database) = scene.ends_well().await;
    let lines = crate::support::dump::lines(&database, "t").await;
    lake.assert_holds(&[(format!("{}.t", database.name), lines)]);
}

/// A restart between the sink's change and the checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_not_followed_twice_after_a_kill() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("twice").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, 'b')")
        .await;
    let job = JobFile::new(server, &database, &lake).pipeline("schema.change.behavior", "evolve");
    let mut process = Headwater::run(&job, &lake);
    rows(&lake, &database, 2, &mut process).await;
    process.stop().await;
    database
        .run(
            "ALTER TABLE t DROP c;
INSERT INTO t VALUES (3);
ALTER TABLE t ADD c INT;
INSERT INTO t VALUES (4, 4)",
        )
        .await;
    // Each dies with the schemas made and no checkpoint behind them.
    for _ in 0..3 {
        crate::exactness::aborts_at("after-flush", &job, &lake).await;
    }
    let mut process = Headwater::run(&job, &lake);
    settles(&lake, &database, &["t"], &mut process).await;
    process.stop().await;
    assert_eq!(columns(&lake, &database), ["0:id", "2:c"]);
    lake.assert_equal(&database).await;
}
