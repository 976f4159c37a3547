//! A thousand tables.

use std::time::Instant;

use headwater_connectors::Source;

use crate::server::Db;

#[tokio::test]
#[ignore = "needs HEADWATER_TEST_MYSQL_PRIVATE; creates 1,000 tables and counts statements"]
async fn a_thousand_tables_take_few_statements() {
    let mut db = Db::on("HEADWATER_TEST_MYSQL_PRIVATE", "many").await;
    for number in 0..1000 {
        db.run(&format!("CREATE TABLE t{number} (id INT PRIMARY KEY, a VARCHAR(50), b DECIMAL(9,2), c DATETIME, d INT);\nINSERT INTO t{number} WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 10) SELECT x, 'text', x, '2024-01-01', x FROM r")).await;
    }
    let source = db.source();
    let before = questions(&mut db).await;
    let mut started = Instant::now();
    let mut step = |name: &str| {
        println!("{name}: {:?}", started.elapsed());
        started = Instant::now();
    };
    let found = source.discover().await.unwrap();
    step("discover");
    assert_eq!(found.captured.len(), 1000);
    let state = source.start(&found.captured).await.unwrap();
    step("start");
    let schemas = source.tables(&state).unwrap();
    step("tables");
    for schema in &schemas {
        assert!(source.estimate(schema).await.unwrap().1 > 0);
    }
    step("estimates");
    for schema in &schemas {
        assert_eq!(source.splits(schema, 4).await.unwrap().len(), 1);
    }
    step("splits");
    let count = questions(&mut db).await - before;
    println!("{count} statements");
    assert!(count < 150, "{count} statements");
}

async fn questions(db: &mut Db) -> i64 {
    let row: Option<(String, i64)> = mysql_async::prelude::Queryable::query_first(
        &mut db.conn,
        "SHOW GLOBAL STATUS LIKE 'Questions'",
    )
    .await
    .unwrap();
    row.unwrap().1
}
