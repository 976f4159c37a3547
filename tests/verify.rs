//! `headwater verify` and `headwater check`, by their exit codes and words.

use std::time::Duration;

use crate::{
    exactness::finish,
    support::{Headwater, JobFile, Lake, Server, Workload, oracle},
};

/// Ends with this code; returns what it printed.
async fn ends(verb: &str, job: &JobFile, lake: &Lake, code: i32) -> String {
    let mut process = Headwater::start(verb, job, lake, None);
    let status = process.ended(Duration::from_secs(120)).await;
    let output = process.output();
    assert_eq!(status.code(), Some(code), "{verb}:\n{output}");
    output
}

/// Equal is 0; a row that is changed, one that is gone and one too many are found and named.
#[tokio::test(flavor = "multi_thread")]
async fn verify_finds_every_difference() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("verify").await;
    let workload = Workload::create(&database, 2000).await;
    let job = JobFile::new(server, &database, &lake);
    finish(&job, &lake, &database, &workload).await;
    ends("verify", &job, &lake, 0).await;

    let table = workload.table("saving");
    for wrong in [
        r#"{"id":77,"money":"0.01","note":null}"#,
        r#"{"kind":"-D","row":{"id":77,"money":"0.01","note":null}}"#,
        r#"{"id":770077,"money":"0.01","note":null}"#,
    ] {
        oracle::java("write", &[&lake.warehouse(), &table], wrong);
        let output = ends("verify", &job, &lake, 1).await;
        assert!(
            output.contains(&table) && output.contains("77"),
            "{wrong}:\n{output}"
        );
    }
}

/// A good job passes every check, and `check` writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn check_passes_and_fails_by_name() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("check").await;
    database.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let job = JobFile::new(server, &database, &lake);
    let output = ends("check", &job, &lake, 0).await;
    assert!(
        output.contains(&format!("{}.t", database.name)),
        "the table is not listed:\n{output}"
    );
    assert!(lake.snapshots(&format!("{}.t", database.name)).is_empty());

    database.run("CREATE TABLE keyless (a INT)").await;
    let output = ends("check", &job, &lake, 1).await;
    assert!(
        output.contains(&format!("{}.keyless", database.name)),
        "{output}"
    );
}
