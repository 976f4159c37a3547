//! What is wrong outside gives a clear message, and nothing is lost.

use std::{path::PathBuf, time::Duration};

use mysql_async::prelude::Queryable;

use crate::support::{
    Headwater, JobFile, Lake, Server,
    job::server_id,
    small::{arrives, small},
};

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "password").await;
    let job = JobFile::new(server, &database, &lake).source("password", "not-this-one-4711");
    let output = Headwater::run(&job, &lake)
        .fails_naming(&["access denied", &server.user])
        .await;
    assert!(
        !output.contains("4711"),
        "the password is in the log:\n{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_privilege() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "privilege").await;
    let user = &database.name;
    database
        .run(&format!(
            "CREATE USER `{user}`@'%' IDENTIFIED BY 'secret';\nGRANT SELECT ON `{user}`.* TO `{user}`@'%'"
        ))
        .await;
    let job = JobFile::new(server, &database, &lake)
        .source("username", user)
        .source("password", "secret");
    Headwater::run(&job, &lake)
        .fails_naming(&["REPLICATION SLAVE"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minimal_row_image_of_the_server() {
    if Server::is_given() {
        return;
    }
    let (server, lake) = (
        Server::private("minimal", &["--binlog-row-image=MINIMAL"]),
        Lake::new(),
    );
    let database = small(&server, "minimal").await;
    let job = JobFile::new(&server, &database, &lake);
    Headwater::run(&job, &lake)
        .fails_naming(&["binlog_row_image", "FULL"])
        .await;
    server.stop();
}

/// One session turns the image down while the job runs: the job stops at that row, a column that
/// was not logged never becomes NULL, and what came before is there.
#[tokio::test(flavor = "multi_thread")]
async fn minimal_row_image_of_a_session() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "session").await;
    let job = JobFile::new(server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    arrives(&lake, &database, 2, &mut process).await;
    let mut conn = database.connect().await;
    conn.query_drop("SET SESSION binlog_row_image = MINIMAL")
        .await
        .unwrap();
    conn.query_drop("UPDATE t SET v = 'c' WHERE id = 1")
        .await
        .unwrap();
    process
        .fails_naming(&[&format!("{}.t", database.name), "binlog_row_image"])
        .await;
    assert_eq!(
        lake.read(&format!("{}.t", database.name), None),
        [r#"{"id":1,"v":"a"}"#, r#"{"id":2,"v":"b"}"#]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn purged_position() {
    if Server::is_given() {
        return;
    }
    let (server, lake) = (Server::private("purged", &[]), Lake::new());
    let database = small(&server, "purged").await;
    let job = JobFile::new(&server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    arrives(&lake, &database, 2, &mut process).await;
    process.stop().await;
    database
        .run("INSERT INTO t VALUES (3, 'c');\nFLUSH BINARY LOGS;\nINSERT INTO t VALUES (4, 'd');\nFLUSH BINARY LOGS")
        .await;
    let mut conn = database.connect().await;
    let files: Vec<(String, u64, String)> = conn.query("SHOW BINARY LOGS").await.unwrap();
    let last = &files.last().unwrap().0;
    conn.query_drop(format!("PURGE BINARY LOGS TO '{last}'"))
        .await
        .unwrap();
    Headwater::run(&job, &lake).fails_naming(&["purged"]).await;
    assert_eq!(lake.read(&format!("{}.t", database.name), None).len(), 2);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn table_without_key() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "keyless").await;
    database.run("CREATE TABLE loose (a INT)").await;
    let job = JobFile::new(server, &database, &lake);
    Headwater::run(&job, &lake)
        .fails_naming(&[&format!("{}.loose", database.name), "key"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn misspelt_and_unknown_keys() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "keys").await;
    let job = JobFile::new(server, &database, &lake);
    let line = |text: &str, key: &str| {
        let number = text.lines().position(|l| l.contains(key)).unwrap() + 1;
        number.to_string()
    };
    let misspelt = job.clone().source("scan.startup.mod", "initial");
    let number = line(&misspelt.text(), "scan.startup.mod:");
    Headwater::run(&misspelt, &lake)
        .fails_naming(&["scan.startup.mod", "scan.startup.mode", &number])
        .await;
    let unknown = job.with("florp: 1\n");
    let number = line(&unknown.text(), "florp");
    Headwater::run(&unknown, &lake)
        .fails_naming(&["florp", &number])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_not_supported_are_refused_by_name() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "refused").await;
    let job = JobFile::new(server, &database, &lake).source("scan.startup.mode", "earliest-offset");
    Headwater::run(&job, &lake)
        .fails_naming(&["earliest-offset", "not supported"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_warehouse() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "warehouse").await;
    let file = lake.folder().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let path = format!("{}/warehouse", file.display());
    let job = JobFile::new(server, &database, &lake).sink("catalog.properties.warehouse", &path);
    Headwater::run(&job, &lake).fails_naming(&[&path]).await;
}

/// The second job says which number is taken; the first goes on.
#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_with_one_server_id() {
    let (server, lakes) = (Server::shared(), [Lake::new(), Lake::new()]);
    let database = small(server, "serverid").await;
    let id = server_id().to_string();
    let [first, second] = lakes
        .each_ref()
        .map(|lake| JobFile::new(server, &database, lake).source("server-id", &id));
    let mut running = Headwater::run(&first, &lakes[0]);
    arrives(&lakes[0], &database, 2, &mut running).await;
    Headwater::run(&second, &lakes[1])
        .fails_naming(&["server-id", &id])
        .await;
    database.run("INSERT INTO t VALUES (3, 'c')").await;
    arrives(&lakes[0], &database, 3, &mut running).await;
    running.stop().await;
    lakes[0].assert_equal(&database).await;
}

/// A second instance of a job waits or says that there is one; both together lose and double
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn second_instance_of_the_same_job() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "twice").await;
    let job = JobFile::new(server, &database, &lake);
    let other = job.clone().source("server-id", &server_id().to_string());
    let mut first = Headwater::run(&job, &lake);
    arrives(&lake, &database, 2, &mut first).await;
    let mut second = Headwater::run(&other, &lake);
    for id in 3..23 {
        database
            .run(&format!("INSERT INTO t VALUES ({id}, 'x')"))
            .await;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let states = [first.is_running(), second.is_running()];
    let said = first.output() + &second.output();
    assert!(
        said.to_lowercase().contains("instance"),
        "running {states:?}; neither says that there is another instance:\n{said}"
    );
    drop((first, second));
    // The others may have brought all 22 rows: only the 23rd says that the third is at work.
    database.run("INSERT INTO t VALUES (23, 'x')").await;
    let mut third = Headwater::run(&job, &lake);
    arrives(&lake, &database, 23, &mut third).await;
    third.stop().await;
    lake.assert_equal(&database).await;
}

/// Half a record: the job names the file and does not start anew; with the file mended it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_checkpoint_record() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "damaged").await;
    let job = JobFile::new(server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    arrives(&lake, &database, 2, &mut process).await;
    process.stop().await;
    let records = records(&lake);
    assert!(!records.is_empty());
    let whole: Vec<Vec<u8>> = records.iter().map(|r| std::fs::read(r).unwrap()).collect();
    for (record, bytes) in records.iter().zip(&whole) {
        std::fs::write(record, &bytes[..bytes.len() / 2]).unwrap();
    }
    database.run("INSERT INTO t VALUES (3, 'c')").await;
    Headwater::run(&job, &lake)
        .fails_naming(&["checkpoint", ".json"])
        .await;
    for (record, bytes) in records.iter().zip(&whole) {
        std::fs::write(record, bytes).unwrap();
    }
    let mut process = Headwater::run(&job, &lake);
    arrives(&lake, &database, 3, &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// The checkpoint records: the JSON files of the job's state folder.
fn records(lake: &Lake) -> Vec<PathBuf> {
    fn walk(folder: PathBuf, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(path, found);
            } else if path.extension().is_some_and(|e| e == "json") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(
        PathBuf::from(lake.warehouse()).join(".headwater"),
        &mut found,
    );
    found
}
