//! DDL in the log: new columns are followed, everything else stops the job before anything behind
//! it is committed.

use std::time::Duration;

use crate::support::{Database, Headwater, JobFile, Lake, Server, eventually};

async fn started(purpose: &str) -> (Lake, Database, JobFile, Headwater) {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database(purpose).await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, NULL)")
        .await;
    let job = JobFile::new(server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    rows(&lake, &database, 2, &mut process).await;
    (lake, database, job, process)
}

async fn rows(lake: &Lake, database: &Database, rows: usize, process: &mut Headwater) {
    let table = format!("{}.t", database.name);
    eventually("rows arrive", Duration::from_secs(60), async || {
        assert!(
            process.is_running(),
            "it ended by itself:\n{}",
            process.output()
        );
        lake.read(&table, None).len() == rows
    })
    .await;
}

/// First, in the middle, at the end, several at once, in a comment for newer servers; rows on both
/// sides of each, all in one go.
#[tokio::test(flavor = "multi_thread")]
async fn added_columns_are_followed() {
    let (lake, database, job, mut process) = started("add").await;
    database
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
    rows(&lake, &database, 7, &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
    // And once more after a restart.
    let mut process = Headwater::run(&job, &lake);
    database
        .run("ALTER TABLE t ADD last INT;\nINSERT INTO t (id, last) VALUES (8, 8)")
        .await;
    rows(&lake, &database, 8, &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// The job stops with table and statement, and the lake has nothing from behind it.
async fn stops_at(purpose: &str, statement: &str) {
    let (lake, database, _, process) = started(purpose).await;
    let table = format!("{}.t", database.name);
    let before = lake.read(&table, None);
    database.run(statement).await;
    // Were the statement ignored, this row would arrive or be refused for another reason.
    database
        .run("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY);\nINSERT INTO t (id) VALUES (99)")
        .await;
    process.fails_naming(&[&table, statement]).await;
    assert_eq!(lake.read(&table, None), before, "{statement}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_column_stops() {
    stops_at("dropc", "ALTER TABLE t DROP COLUMN v").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn default_that_is_not_null_stops() {
    stops_at("addd", "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncate_stops() {
    stops_at("trunc", "TRUNCATE TABLE t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_table_stops() {
    stops_at("dropt", "DROP TABLE t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rename_stops() {
    stops_at("rename", "RENAME TABLE t TO t_old").await;
}
