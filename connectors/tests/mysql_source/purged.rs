//! A server that no other test uses meanwhile: `HEADWATER_TEST_MYSQL_PRIVATE` (logs are purged,
//! connections are killed).

use headwater_connectors::Source;
use mysql_async::prelude::Queryable;

use crate::{fold::Running, server::Db};

const SERVER: &str = "HEADWATER_TEST_MYSQL_PRIVATE";

#[tokio::test]
#[ignore = "needs HEADWATER_TEST_MYSQL_PRIVATE, a server with GTIDs for this test alone"]
async fn lost_connections_are_transient_and_purged_logs_definite() {
    let mut db = Db::on(SERVER, "purged").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut tail = Running::start(db.source()).await;
    db.run("INSERT INTO a VALUES (1, 1)").await;
    let state = tail.barrier().await;
    let source = tail.source.clone();
    let dumps: Vec<u64> = db
        .conn
        .query("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
        .await
        .unwrap();
    assert_eq!(dumps.len(), 1);
    db.run(&format!("KILL {}", dumps[0])).await;
    let error = tail.error().await;
    assert!(error.is_transient(), "{error}");

    // An XA transaction that is open over a purge is gone for a job that needs it again; a
    // position that holds everything that was purged is fine.
    db.run("INSERT INTO a VALUES (2, 2);\nFLUSH BINARY LOGS")
        .await;
    let mut tail = Running::from(source.clone(), state.clone());
    let later = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 1);
    tail.kill();
    let logs: Vec<(String, u64, String)> = db.conn.query("SHOW BINARY LOGS").await.unwrap();
    db.run(&format!(
        "PURGE BINARY LOGS TO '{}'",
        logs.last().unwrap().0
    ))
    .await;
    source.verify_position(&later).await.unwrap();
    for error in [
        source.verify_position(&state).await.unwrap_err(),
        Running::from(source.clone(), state.clone()).error().await,
    ] {
        let text = error.to_string();
        assert!(!error.is_transient(), "{text}");
        assert!(
            text.contains("wanted") && text.contains("oldest available"),
            "{text}"
        );
    }
}
