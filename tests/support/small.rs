//! A database of one table with two rows, for tests that need no more.

use std::time::Duration;

use super::{Database, Headwater, Lake, Server, eventually};

/// Makes it: table `t` with rows 1 and 2.
pub async fn small(server: &Server, purpose: &str) -> Database {
    let database = server.database_of(purpose).await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, 'b')")
        .await;
    database
}

/// Waits until the lake's `t` has as many rows as asked for.
pub async fn arrives(lake: &Lake, database: &Database, rows: usize, process: &mut Headwater) {
    arrives_within(Duration::from_secs(120), lake, database, rows, process).await;
}

/// As [`arrives`], for so long at most.
pub async fn arrives_within(
    time: Duration,
    lake: &Lake,
    database: &Database,
    rows: usize,
    process: &mut Headwater,
) {
    let table = format!("{}.t", database.name);
    eventually("rows arrive", time, async || {
        process.assert_runs();
        lake.read(&table, None).len() == rows
    })
    .await;
}
