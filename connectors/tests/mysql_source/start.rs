use headwater_connectors::{
    Source,
    mysql::{MysqlSource, Startup},
};
use mysql_async::prelude::Queryable;

use crate::{fold::Running, server::Db};

#[tokio::test]
async fn latest_offset_starts_behind_what_is_there() {
    let mut db = Db::new("latest").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nINSERT INTO a VALUES (1, 1)")
        .await;
    let mut options = db.options();
    options.startup = Startup::LatestOffset;
    let mut tail = Running::start(MysqlSource::new(options)).await;
    db.run("INSERT INTO a VALUES (2, 2)").await;
    tail.barrier().await;
    assert_eq!(
        tail.folded
            .rows
            .keys()
            .map(|(_, id)| *id)
            .collect::<Vec<_>>(),
        [2]
    );
}

#[tokio::test]
async fn a_start_waits_for_prepared_transactions() {
    let mut db = Db::new("xastart").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut xa = db.session().await;
    for sql in [
        "XA START 'mts'",
        "INSERT INTO a VALUES (1, 1)",
        "XA END 'mts'",
        "XA PREPARE 'mts'",
    ] {
        xa.query_drop(sql).await.unwrap();
    }
    let source = db.source();
    let found = source.discover().await.unwrap();
    let waiting = tokio::time::timeout(
        std::time::Duration::from_millis(700),
        source.start(&found.captured),
    );
    assert!(waiting.await.is_err(), "it must wait");
    xa.query_drop("XA COMMIT 'mts'").await.unwrap();
    source.start(&found.captured).await.unwrap();
}

#[tokio::test]
async fn a_schema_that_changed_while_starting_starts_over() {
    let mut db = Db::new("early").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let source = db.source();
    let found = source.discover().await.unwrap();
    let before = source.start(&found.captured).await.unwrap();
    db.run("ALTER TABLE a ADD w INT").await;
    let mut after = source.start(&found.captured).await.unwrap();
    // As if the statement had come between the two steps of the start.
    after.position = before.position;
    let error = Running::from(std::sync::Arc::new(source), after)
        .error()
        .await;
    assert!(
        error.is_transient() && error.to_string().contains("starts over"),
        "{error}"
    );
}

/// From MySQL 9.6 on the server logs what foreign keys do, unless it is told not to.
#[tokio::test]
async fn cascades_are_captured_or_refused() {
    let mut db = Db::new("cascade").await;
    db.run("CREATE TABLE p (id INT PRIMARY KEY, v INT);\nCREATE TABLE c (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES p (id) ON DELETE CASCADE)").await;
    let found = db.source().discover().await.unwrap();
    if let Some((name, reason)) = found.rejected.first() {
        assert!(name.table == "c" && reason.contains("CASCADE"), "{reason}");
        return;
    }
    let mut tail = Running::start(db.source()).await;
    db.run(
        "INSERT INTO p VALUES (1, 1);\nINSERT INTO c VALUES (7, 1);\nDELETE FROM p WHERE id = 1",
    )
    .await;
    tail.barrier().await;
    assert_eq!(tail.folded.rows, Default::default());
}
