//! Another engine compacts and writes our tables, and we go on after it.

use std::time::Duration;

use crate::{
    exactness::{finish, seen},
    support::{Headwater, JobFile, Lake, Server, Workload, dump, oracle},
};

/// Java compacts while the job runs and while it rests; every row stays right.
#[tokio::test(flavor = "multi_thread")]
async fn java_compacts_beside_us() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("compact").await;
    let workload = Workload::create(&database, 3000).await;
    let job = JobFile::new(server, &database, &lake);
    let running = workload.start(3, 21, Duration::from_millis(5)).await;
    let mut process = Headwater::run(&job, &lake);
    seen(&lake, &workload, &mut process).await;

    let names = ["orders", "items", "tags", "readings", "checking"].map(|t| workload.table(t));
    for round in 0..3 {
        for name in &names {
            let mut args = vec![name.as_str()];
            if round == 1 {
                args.push("--full");
            }
            let warehouse = lake.warehouse();
            args.insert(0, &warehouse);
            // It may lose against our commits (then nothing happened); it must not win wrongly.
            if let Err(error) = oracle::try_java("compact", &args, "") {
                eprintln!("{name}: {error}");
            }
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    process.assert_runs();
    process.stop().await;
    for name in &names {
        oracle::java("compact", &[&lake.warehouse(), name, "--full"], "");
        lake.assert_sound(name);
    }
    running.stop().await;
    finish(&job, &lake, &database, &workload).await;
}

/// Java upserts and deletes in our table and we go on: its rows stay, ours win where we write
/// later.
#[tokio::test(flavor = "multi_thread")]
async fn java_writes_our_table_and_we_go_on() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("foreign").await;
    let workload = Workload::create(&database, 1000).await;
    let job = JobFile::new(server, &database, &lake);
    finish(&job, &lake, &database, &workload).await;

    let table = workload.table("checking");
    let rows = r#"{"id":-1,"money":"5.00","note":"java"}
{"id":1,"money":"-1.00","note":"java"}
{"kind":"-D","row":{"id":2,"money":"0.00","note":null}}"#;
    oracle::java("write", &[&lake.warehouse(), &table], rows);
    database
        .run("UPDATE checking SET note = 'later' WHERE id IN (1, 2)")
        .await;
    let mut process = Headwater::run(&job, &lake);
    seen(&lake, &workload, &mut process).await;
    process.stop().await;

    let mut expected = dump::lines(&database, "checking").await;
    expected.push(r#"{"id":-1,"money":"5.00","note":"java"}"#.into());
    expected.sort_unstable();
    lake.assert_holds(&[(table, expected)]);
}

/// A table that Java created beforehand is continued when it fits.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_java_made_is_continued() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("made").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, NULL)")
        .await;
    let table = format!("{}.t", database.name);
    oracle::java(
        "create",
        &[&lake.warehouse(), &table],
        r#"{"columns":[["id","INT NOT NULL"],["v","VARCHAR(20)"]],"primaryKeys":["id"],"options":{"bucket":"3"}}"#,
    );
    let job = JobFile::new(server, &database, &lake).sink("table.properties.bucket", "3");
    let mut process = Headwater::run(&job, &lake);
    crate::support::eventually("two rows", Duration::from_secs(30), async || {
        process.assert_runs();
        lake.read(&table, None).len() == 2
    })
    .await;
    process.stop().await;
    lake.assert_equal(&database).await;
}
