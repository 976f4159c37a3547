use std::sync::Arc;

use headwater_connectors::{Source, TailItem, change::RowsAfter, mysql::MysqlSource};
use mysql_async::prelude::Queryable;

use crate::{
    fold::Running,
    server::{Db, LOG},
};

/// What the server has, as the folded tail would have it.
async fn server_rows(db: &mut Db, table: &str) -> Vec<((String, i32), Option<i32>)> {
    let rows: Vec<(i32, Option<i32>)> = db
        .conn
        .query(format!("SELECT id, v FROM {table} ORDER BY id"))
        .await
        .unwrap();
    rows.into_iter()
        .map(|(id, v)| ((table.to_owned(), id), v))
        .collect()
}

async fn assert_equal(db: &mut Db, tail: &Running, tables: &[&str]) {
    let mut all = Vec::new();
    for table in tables {
        all.extend(server_rows(db, table).await);
    }
    let folded: Vec<_> = tail.folded.rows.clone().into_iter().collect();
    assert_eq!(folded, all);
}

#[tokio::test]
async fn changes_arrive_in_order_and_once() {
    let mut db = Db::new("tail").await;
    db.run(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT);\nCREATE TABLE b (id INT PRIMARY KEY, v INT)",
    )
    .await;
    let mut tail = Running::start(db.source()).await;
    db.run("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3);\nUPDATE a SET v = 20 WHERE id = 2;\nUPDATE a SET id = 4 WHERE id = 3;\nDELETE FROM a WHERE id = 1;\nBEGIN;\nINSERT INTO a VALUES (9, 9);\nINSERT INTO b VALUES (9, 9);\nROLLBACK;\nBEGIN;\nINSERT INTO a VALUES (5, 5);\nSAVEPOINT s;\nINSERT INTO b VALUES (7, 7);\nROLLBACK TO s;\nINSERT INTO b VALUES (8, NULL);\nCOMMIT")
        .await;
    tail.barrier().await;
    assert_equal(&mut db, &tail, &["a", "b"]).await;
    let folded = &tail.folded;
    assert_eq!((folded.inserts, folded.updates, folded.deletes), (6, 1, 2));
    db.run("FLUSH BINARY LOGS;\nINSERT INTO b VALUES (1, 1);\nFLUSH BINARY LOGS")
        .await;
    let state = tail.barrier().await;
    assert_equal(&mut db, &tail, &["a", "b"]).await;
    assert!(state.position.to_string().contains("GTID"));
}

#[tokio::test]
async fn a_restart_at_a_barrier_loses_and_doubles_nothing() {
    let mut db = Db::new("resume").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut tail = Running::start(db.source()).await;
    let (mut state, mut inserts) = (None, 0);
    for round in 0..6 {
        for n in 0..20 {
            db.run(&format!(
                "INSERT INTO a VALUES ({}, {round})",
                round * 100 + n
            ))
            .await;
        }
        if round % 2 == 0 {
            state = Some(tail.barrier().await);
            inserts += tail.folded.inserts;
            tail.folded.inserts = 0;
        } else {
            // What came behind the last barrier is forgotten, as a crash would.
            let source: Arc<MysqlSource> = tail.source.clone();
            tail.kill();
            source
                .verify_position(state.as_ref().unwrap())
                .await
                .unwrap();
            tail = Running::from(source, state.clone().unwrap());
        }
    }
    tail.barrier().await;
    inserts += tail.folded.inserts;
    assert_eq!(inserts, 120);
}

#[tokio::test]
async fn columns_are_added_between_rows() {
    let mut db = Db::new("ddl").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nCREATE TABLE other (id INT PRIMARY KEY, v INT)").await;
    let mut options = db.options();
    options.tables = headwater_connectors::mysql::TableFilter::parse("mt_ddl.a", None).unwrap();
    let mut tail = Running::start(MysqlSource::new(options)).await;
    db.run("INSERT INTO a VALUES (1, 1);\nALTER TABLE a ADD x VARCHAR(9) FIRST, ADD COLUMN y INT AFTER id, ADD KEY k (v);\nINSERT INTO a VALUES ('x', 2, 7, 2);\nALTER TABLE a /*!80000 ADD z TEXT */;\nINSERT INTO a VALUES ('x', 3, 7, 3, 'z');\nDROP TABLE other;\nCREATE TABLE unrelated (id INT PRIMARY KEY) ENGINE=InnoDB;\nCREATE VIEW w AS SELECT * FROM a;\nDROP INDEX k ON a;\nANALYZE TABLE a").await;
    let state = tail.barrier().await;
    assert_equal(&mut db, &tail, &["a"]).await;
    let first = Some("x".to_owned());
    assert_eq!(
        tail.folded.schemas,
        vec![
            (
                "a".to_owned(),
                vec![
                    ("x".to_owned(), None),
                    ("y".to_owned(), Some("id".to_owned()))
                ]
            ),
            ("a".to_owned(), vec![("z".to_owned(), Some("v".to_owned()))]),
        ]
    );
    let tables = tail.source.tables(&state).unwrap();
    assert_eq!((tables[0].version, tables[0].columns.len()), (2, 5));
    assert_eq!(first.as_deref(), Some(tables[0].columns[0].name.as_str()));
    // The saved schema decodes what comes next.
    let source = tail.source.clone();
    tail.kill();
    let mut tail = Running::from(source, state);
    db.run("INSERT INTO a VALUES ('y', 4, 7, 4, 'z')").await;
    tail.barrier().await;
    assert_eq!(tail.folded.rows.len(), 1);
}

#[tokio::test]
async fn a_table_that_cannot_be_captured_any_more_stops_the_tail() {
    let mut db = Db::new("refused").await;
    for (statement, word) in [
        ("ALTER TABLE a DROP PRIMARY KEY", "no primary key"),
        (
            "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
            "its key was (id) and is (v) now",
        ),
        ("ALTER TABLE a ENGINE=MyISAM", "its engine is MyISAM"),
    ] {
        db.run("DROP TABLE IF EXISTS a;\nCREATE TABLE a (id INT PRIMARY KEY, v INT)")
            .await;
        let mut tail = Running::start(db.source()).await;
        db.run("INSERT INTO a VALUES (1, 1)").await;
        tail.barrier().await;
        db.run(statement).await;
        let error = tail.error().await;
        let text = error.to_string();
        assert!(!error.is_transient(), "{text}");
        assert!(
            text.contains("mt_refused.a") && text.contains(word),
            "{text}"
        );
        assert!(
            text.contains(statement) && text.contains("position"),
            "{text}"
        );
    }
}

/// A table that is gone, and one that comes in its place, also across a restart in between.
#[tokio::test]
async fn a_table_goes_and_comes_back() {
    let mut db = Db::new("back").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nCREATE TABLE _a_gho (id INT PRIMARY KEY, v INT)")
        .await;
    let mut tail = Running::start(db.source()).await;
    db.run("INSERT INTO a VALUES (1, 1);\nRENAME TABLE a TO b;\nINSERT INTO b VALUES (2, 2)")
        .await;
    let (state, items) = tail.barrier_items().await;
    assert!(
        items
            .iter()
            .any(|item| matches!(item, TailItem::Dropped(gone) if gone.table.table == "a"))
    );
    assert_eq!(state.connector["tables"].as_array().unwrap().len(), 1);
    let source = tail.source.clone();
    tail.kill();
    let mut tail = Running::from(source, state);
    db.run("RENAME TABLE b TO a;\nINSERT INTO a VALUES (3, 3)")
        .await;
    let (state, items) = tail.settled().await;
    let unknown = items.iter().filter(|item| {
        matches!(item, TailItem::Schema(change) if matches!(change.rows, RowsAfter::Unknown(_)))
    });
    assert_eq!(unknown.count(), 1);
    assert!(state.connector.get("dark").is_none());
}

#[tokio::test]
async fn compressed_transactions_are_read() {
    let mut db = Db::new("packed").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nSET SESSION binlog_transaction_compression = ON").await;
    let mut tail = Running::start(db.source()).await;
    for n in 0..10 {
        db.run(&format!(
            "INSERT INTO a VALUES ({}, 1), ({}, 2)",
            2 * n,
            2 * n + 1
        ))
        .await;
    }
    let state = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 20);
    assert_equal(&mut db, &tail, &["a"]).await;
    let source = tail.source.clone();
    tail.kill();
    db.run("UPDATE a SET v = 9").await;
    let mut tail = Running::from(source, state);
    tail.barrier().await;
    assert_eq!((tail.folded.inserts, tail.folded.updates), (0, 20));
}

#[tokio::test]
async fn rows_and_images_that_are_not_whole_are_refused() {
    let mut db = Db::new("image").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT, w INT)")
        .await;
    let tail = Running::start(db.source()).await;
    db.run("INSERT INTO a VALUES (1, 1, 1);\nSET SESSION binlog_row_image = MINIMAL;\nUPDATE a SET v = 2").await;
    let error = tail.error().await;
    assert!(
        !error.is_transient() && error.to_string().contains("binlog_row_image"),
        "{error}"
    );

    let _alone = LOG.write().await;
    let mut db = Db::new("statements").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let tail = Running::start(db.source()).await;
    db.run("SET SESSION binlog_format = STATEMENT;\nINSERT INTO a VALUES (1, 1)")
        .await;
    let error = tail.error().await;
    assert!(
        !error.is_transient() && error.to_string().contains("binlog_format"),
        "{error}"
    );
}

#[tokio::test]
async fn a_large_transaction_is_sent_in_pieces_and_barriers_wait_for_its_end() {
    let mut db = Db::new("large").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nSET SESSION cte_max_recursion_depth = 1000000").await;
    let mut tail = Running::start(db.source()).await;
    db.run("INSERT INTO a WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) SELECT x, x FROM n").await;
    tail.barrier().await;
    assert_eq!(tail.folded.rows.len(), 200_000);
}

#[tokio::test]
async fn a_barrier_is_placed_on_an_idle_server() {
    let mut db = Db::new("idle").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut tail = Running::start(db.source()).await;
    tail.barrier().await;
    let before = std::time::Instant::now();
    tail.barrier().await;
    assert!(before.elapsed() < std::time::Duration::from_secs(2));
}
