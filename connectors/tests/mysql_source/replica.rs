//! Restarts, and two jobs with one server id.

use std::{sync::Arc, time::Duration};

use headwater_connectors::{
    Check, CheckStatus, Source,
    mysql::{MysqlOptions, MysqlSource, ServerIds, replica_uuid},
};
use mysql_async::{BinlogStreamRequest, Row, prelude::Queryable};

use crate::{fold::Running, server::Db};

async fn server_id(options: MysqlOptions) -> Check {
    let checks = MysqlSource::new(options).check().await;
    let check = checks.into_iter().find(|check| check.name == "server id");
    check.unwrap()
}

fn job(db: &Db, name: &str, id: u32) -> MysqlOptions {
    let mut options = db.options();
    options.server_ids = ServerIds::Range(id..=id);
    options.replica_uuid = replica_uuid(name);
    options
}

/// A dump as a run leaves it behind that was killed: the server has not noticed yet.
async fn left_behind(db: &Db, options: &MysqlOptions, id: u32) -> mysql_async::BinlogStream {
    let mut conn = db.session().await;
    let uuid = options.replica_uuid;
    conn.query_drop(format!(
        "SET @replica_uuid = '{uuid}', @slave_uuid = '{uuid}'"
    ))
    .await
    .unwrap();
    conn.get_binlog_stream(BinlogStreamRequest::new(id).with_gtid())
        .await
        .unwrap()
}

async fn registered(db: &mut Db, id: u32) -> Vec<String> {
    let rows: Vec<Row> = db.conn.query("SHOW REPLICAS").await.unwrap();
    rows.iter()
        .filter(|row| row.get::<u32, _>(0) == Some(id))
        .map(|row| row.get(row.len() - 1).unwrap())
        .collect()
}

#[tokio::test]
async fn a_run_takes_over_what_a_killed_run_left_behind() {
    let mut db = Db::new("again").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let (id, name) = (880_101, "again\n/state");
    let options = job(&db, name, id);
    let uuid = options.replica_uuid.to_string();
    let stale = left_behind(&db, &options, id).await;
    while registered(&mut db, id).await != [uuid.clone()] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let check = server_id(options.clone()).await;
    assert_eq!(check.status, CheckStatus::Passed, "{check:?}");
    let check = server_id(job(&db, "other", id)).await;
    assert_eq!(check.status, CheckStatus::Failed, "{check:?}");
    let advice = check.advice.unwrap();
    assert!(check.found.contains("880101") && advice.contains("server-id"));

    let mut tail = Running::start(MysqlSource::new(options.clone())).await;
    db.run("INSERT INTO a VALUES (1, 1)").await;
    let state = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 1);
    drop(stale);
    // The place is this run's now: another job still sees it taken.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let check = server_id(job(&db, "other", id)).await;
    assert_eq!(check.status, CheckStatus::Failed, "{check:?}");

    // Killed again and again.
    for round in 2..6 {
        tail.kill();
        let check = server_id(options.clone()).await;
        assert_eq!(check.status, CheckStatus::Passed, "{check:?}");
        tail = Running::from(Arc::new(MysqlSource::new(options.clone())), state.clone());
        db.run(&format!("INSERT INTO a VALUES ({round}, 1)")).await;
        tail.barrier().await;
        assert_eq!(tail.folded.inserts, round - 1);
    }
}

#[tokio::test]
async fn of_two_instances_of_a_job_the_older_stops() {
    let mut db = Db::new("twice").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let options = job(&db, "twice", 880_102);
    let mut older = Running::start(MysqlSource::new(options.clone())).await;
    older.barrier().await;
    let mut newer = Running::start(MysqlSource::new(options)).await;
    newer.barrier().await;
    let error = older.error().await;
    assert!(
        !error.is_transient() && error.to_string().contains("another instance"),
        "{error}"
    );
    db.run("INSERT INTO a VALUES (1, 1)").await;
    newer.barrier().await;
    assert_eq!(newer.folded.inserts, 1);
}

/// Also of two that start at the same moment, so that no check of theirs sees the other.
#[tokio::test]
async fn of_two_jobs_with_one_server_id_the_second_stops() {
    let mut db = Db::new("clash").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut first = Running::start(MysqlSource::new(job(&db, "first", 880_103))).await;
    first.barrier().await;
    let second = Running::start(MysqlSource::new(job(&db, "second", 880_103))).await;
    let error = second.error().await;
    let text = error.to_string();
    assert!(
        !error.is_transient() && text.contains("880103") && text.contains("server-id"),
        "{text}"
    );
    db.run("INSERT INTO a VALUES (1, 1)").await;
    first.barrier().await;
    assert_eq!(first.folded.inserts, 1);
}

#[tokio::test]
async fn a_drawn_id_is_one_that_is_free() {
    let mut db = Db::new("drawn").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut options = db.options();
    options.replica_uuid = replica_uuid("drawn");
    let first = server_id(options.clone()).await.found;
    let id: u32 = first.split(' ').next().unwrap().parse().unwrap();
    let mut other = Running::start(MysqlSource::new(job(&db, "holder", id))).await;
    other.barrier().await;
    let check = server_id(options).await;
    assert_eq!(check.status, CheckStatus::Passed, "{check:?}");
    assert_ne!(check.found, first);
}
