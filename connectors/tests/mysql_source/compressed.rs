//! Compressed transactions.

use headwater_connectors::mysql::MysqlSource;

use crate::{fold::Running, server::Db};

#[tokio::test]
async fn a_transaction_is_unpacked_event_by_event() {
    let mut db = Db::new("packed").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT, b LONGBLOB);\nSET SESSION binlog_transaction_compression = ON")
        .await;
    db.run("SET SESSION group_concat_max_len = 100000000, cte_max_recursion_depth = 1000000")
        .await;
    let mut tail = Running::start(MysqlSource::new(db.options())).await;
    // Halves that compress and halves that do not: 5 MiB in the log, 10 MiB unpacked.
    let random = "SELECT GROUP_CONCAT(HEX(RANDOM_BYTES(1024)) SEPARATOR '') FROM r";
    let large = |id: i32, rows: i32| {
        format!(
            "INSERT INTO a WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < {rows}) SELECT {id}, 1, ({random})"
        )
    };
    db.run(&large(1, 5000)).await;
    db.run("INSERT INTO a VALUES (2, 2, REPEAT('x', 1000000))")
        .await;
    let state = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 2);
    tail.kill();

    // Many events in one transaction, of rows that compress well, between others that are not
    // compressed.
    db.run("SET SESSION binlog_transaction_compression = OFF")
        .await;
    db.run(&large(3, 2000)).await;
    db.run("SET SESSION binlog_transaction_compression = ON")
        .await;
    db.run("INSERT INTO a WITH RECURSIVE r (x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM r WHERE x < 200009) SELECT x, x, REPEAT('y', 100) FROM r")
        .await;
    db.run("UPDATE a SET v = -v WHERE id >= 10").await;
    let mut tail = Running::from(std::sync::Arc::new(db.source()), state);
    tail.barrier().await;
    assert_eq!(tail.folded.inserts, 200_001);
    assert_eq!(tail.folded.updates, 200_000);
}
