//! Compressed transactions.

use headwater_connectors::mysql::MysqlSource;

use crate::{fold::Running, server::Db};

#[tokio::test]
async fn a_transaction_too_large_to_unpack_is_refused_before_it_is() {
    let mut db = Db::new("packed").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT, b LONGBLOB);\nSET SESSION binlog_transaction_compression = ON")
        .await;
    let mut options = db.options();
    options.unpacked_bytes_max = 8 << 20;
    let mut tail = Running::start(MysqlSource::new(options.clone())).await;
    // Halves that compress and halves that do not: 5 MiB in the log, 10 MiB unpacked.
    let random = "SELECT GROUP_CONCAT(HEX(RANDOM_BYTES(1024)) SEPARATOR '') FROM r";
    let large = |id: i32, rows: i32| {
        format!(
            "SET SESSION group_concat_max_len = 100000000;\nINSERT INTO a WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < {rows}) SELECT {id}, 1, ({random})"
        )
    };
    db.run("SET SESSION cte_max_recursion_depth = 100000").await;
    db.run(&large(1, 2100)).await;
    db.run("INSERT INTO a VALUES (2, 2, REPEAT('x', 1000000))")
        .await;
    let state = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 2);
    tail.kill();

    // Not compressed: whatever its size.
    db.run("SET SESSION binlog_transaction_compression = OFF")
        .await;
    db.run(&large(3, 5000)).await;
    db.run("SET SESSION binlog_transaction_compression = ON")
        .await;
    db.run(&large(4, 5000)).await;
    let tail = Running::from(
        std::sync::Arc::new(MysqlSource::new(options)),
        state.clone(),
    );
    let error = tail.error().await;
    let text = error.to_string();
    assert!(
        !error.is_transient() && text.contains("binlog_transaction_compression"),
        "{text}"
    );
    let mut tail = Running::from(std::sync::Arc::new(db.source()), state);
    tail.barrier().await;
    assert_eq!(tail.folded.inserts, 2);
}
