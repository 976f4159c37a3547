//! Where a job begins, and that it takes up tables that came later.

use std::time::Duration;

use crate::support::{Headwater, JobFile, Lake, Server, eventually, small::arrives_within};

/// `snapshot` copies what is there and ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn snapshot_mode_ends() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("once").await;
    database
        .run(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, NULL);\n\
             CREATE TABLE nothing (id INT PRIMARY KEY)",
        )
        .await;
    let job = JobFile::new(server, &database, &lake).source("scan.startup.mode", "snapshot");
    let mut process = Headwater::run(&job, &lake);
    let status = process.ended(Duration::from_secs(60)).await;
    assert!(status.success(), "{status}:\n{}", process.output());
    assert_eq!(
        lake.read(&format!("{}.t", database.name), None),
        [r#"{"id":1,"v":"a"}"#, r#"{"id":2,"v":null}"#]
    );
}

/// `latest-offset` brings only what changes from now on.
#[tokio::test(flavor = "multi_thread")]
async fn latest_offset_skips_what_is_there() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("latest").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'old'), (2, 'old')")
        .await;
    let job = JobFile::new(server, &database, &lake).source("scan.startup.mode", "latest-offset");
    let mut process = Headwater::run(&job, &lake);
    let table = format!("{}.t", database.name);
    let mut id = 10;
    // Rows go on coming until the job, which takes a moment to start, has seen one.
    eventually("a new row arrives", Duration::from_secs(60), async || {
        process.assert_runs();
        id += 1;
        database
            .run(&format!("INSERT INTO t VALUES ({id}, 'new')"))
            .await;
        !lake.read(&table, None).is_empty()
    })
    .await;
    process.stop().await;
    let rows = lake.read(&table, None);
    assert!(rows.iter().all(|row| row.contains("new")), "{rows:?}");
}

/// A server where nothing happens: the job becomes current without waiting for an event.
#[tokio::test(flavor = "multi_thread")]
async fn idle_server() {
    if Server::is_given() {
        return;
    }
    let (server, lake) = (Server::private("idle", &[]), Lake::new());
    let database = server.database_of("idle").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1), (2)")
        .await;
    let mut process = Headwater::run(&JobFile::new(&server, &database, &lake), &lake);
    arrives_within(Duration::from_secs(30), &lake, &database, 2, &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
    server.stop();
}
