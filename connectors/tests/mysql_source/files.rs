//! A server without GTIDs: `HEADWATER_TEST_MYSQL_NO_GTID`, which no other test may use meanwhile
//! (logs are rotated and purged).

use headwater_connectors::Source;
use mysql_async::prelude::Queryable;

use crate::{fold::Running, server::Db};

const SERVER: &str = "HEADWATER_TEST_MYSQL_NO_GTID";

#[tokio::test]
#[ignore = "needs HEADWATER_TEST_MYSQL_NO_GTID, a server with gtid_mode=OFF"]
async fn by_file_and_position() {
    let mut db = Db::on(SERVER, "files").await;
    // All of this is in the log behind the first position, and older than the schemas.
    db.run("CREATE TABLE a (id INT PRIMARY KEY, x TEXT);\nINSERT INTO a VALUES (100, 'x');\nALTER TABLE a DROP x, ADD v INT;\nCREATE TABLE b (id INT PRIMARY KEY, v INT);\nINSERT INTO b VALUES (100, 1);\nALTER TABLE b ADD w INT;\nINSERT INTO b VALUES (101, 1, 1)").await;
    let mut tail = Running::start(db.source()).await;
    db.run(
        "INSERT INTO a VALUES (1, 1);\nALTER TABLE a ADD w INT;\nINSERT INTO a VALUES (2, 2, 2)",
    )
    .await;
    let mut state = tail.barrier().await;
    let keys: Vec<i32> = tail.folded.rows.keys().map(|(_, id)| *id).collect();
    assert_eq!(keys, [1, 2, 101]);
    assert_eq!(tail.folded.schemas.len(), 1);
    for round in 0..3 {
        let source = tail.source.clone();
        tail.kill();
        source.verify_position(&state).await.unwrap();
        db.run(&format!("INSERT INTO b VALUES ({round}, 1, 1);\nFLUSH BINARY LOGS;\nUPDATE b SET v = 5 WHERE id = {round}")).await;
        tail = Running::from(source, state);
        state = tail.barrier().await;
        assert_eq!((tail.folded.inserts, tail.folded.updates), (1, 1));
        let low = tail.source.round_low(&state.position).await.unwrap();
        assert!(state.position.is_contained_in(&low));
    }
    // A transaction that is prepared with captured rows cannot be kept over a restart.
    let mut xa = db.session().await;
    for sql in [
        "XA START 'f'",
        "INSERT INTO a VALUES (50, 1, 1)",
        "XA END 'f'",
        "XA PREPARE 'f'",
    ] {
        xa.query_drop(sql).await.unwrap();
    }
    let source = tail.source.clone();
    let error = tail.error().await;
    xa.query_drop("XA ROLLBACK 'f'").await.unwrap();
    assert!(
        !error.is_transient() && error.to_string().contains("XA"),
        "{error}"
    );
    // Purged: a final error with the wanted and the oldest position.
    db.run("FLUSH BINARY LOGS;\nFLUSH BINARY LOGS").await;
    let newest: Vec<(String, u64, String)> = db.conn.query("SHOW BINARY LOGS").await.unwrap();
    let newest = &newest.last().unwrap().0;
    db.run(&format!("PURGE BINARY LOGS TO '{newest}'")).await;
    let error = Running::from(source, state.clone()).error().await;
    let text = error.to_string();
    assert!(
        !error.is_transient() && text.contains(newest) && text.contains("wanted"),
        "{text}"
    );
}
