//! What the catalog says of tables, and columns that it does not show as they are.

use headwater_connectors::{
    TableName,
    mysql::{
        catalog,
        table::{Generated, MysqlTable},
    },
};

use crate::{phases::Bench, types::text};

/// Labels outside the basic plane, which the information schema shows as `?`: read from the log's
/// own metadata, or refused where the server does not write that.
#[tokio::test]
async fn labels_that_the_catalog_hides_are_exact_or_refused() {
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id int primary key, e enum('what?','\u{1f600}'))")
        .await;
    let insert = "INSERT INTO t VALUES (1, 'what?'), (2, '\u{1f600}'), (3, NULL)".to_owned();
    if bench.full_metadata().await {
        let batch = bench.both("t", &[insert]).await;
        assert_eq!(
            text(&batch, "e"),
            [Some("what?".into()), Some("\u{1f600}".into()), None]
        );
    } else {
        let from = bench.position().await;
        bench.run(insert).await;
        let table = std::sync::Arc::new(bench.table("t").await);
        let error = bench.tail(&table, from).await.unwrap_err().to_string();
        assert!(error.contains("binlog_row_metadata=FULL"), "{error}");
    }
    bench.close().await;
}

/// Columns that nobody declared: hidden ones of functional indexes are in neither phase, generated
/// invisible keys are in both.
#[tokio::test]
async fn undeclared_columns_are_handled_alike() {
    let mut bench = Bench::open().await;
    bench
        .run(
            "CREATE TABLE t (id int primary key, a int, j json, index f ((a + 1)), \
             index m ((cast(j->'$.x' as unsigned array))), v int as (a * 2) virtual, index (v))",
        )
        .await;
    let batch = bench
        .both(
            "t",
            &["INSERT INTO t (id, a, j) VALUES (1, 2, '{\"x\": [1, 2]}')".into()],
        )
        .await;
    assert_eq!(batch.num_columns(), 4);
    bench
        .run("SET SESSION sql_generate_invisible_primary_key = ON")
        .await;
    bench.run("CREATE TABLE g (id int, a int)").await;
    let batch = bench
        .both("g", &["INSERT INTO g VALUES (1, 2), (2, 3)".into()])
        .await;
    assert_eq!(batch.num_columns(), 3);
    let table = bench.table("g").await;
    assert_eq!(table.primary_key, ["my_row_id"]);
    assert!(table.columns[0].invisible);
    bench.close().await;
}

/// Comments, engine and key order, and what a wildcard sees.
#[tokio::test]
async fn the_catalog_describes_tables() {
    let mut bench = Bench::open().await;
    bench.options.include_comments = true;
    bench
        .run(
            "CREATE TABLE `T x` (a int, B varchar(20) comment 'of b', v int as (a) stored, \
             primary key (B(3), a)) comment 'of t' CHARACTER SET latin1 COLLATE latin1_bin",
        )
        .await;
    bench.run("CREATE VIEW w AS SELECT 1 AS x").await;
    let all = catalog::list_tables(&mut bench.conn).await.unwrap();
    let ours: Vec<_> = all
        .iter()
        .filter(|name| name.database == bench.database)
        .collect();
    assert_eq!(ours.len(), 1);
    let table = bench.table("T x").await;
    assert_eq!(table.primary_key, ["B", "a"]);
    assert_eq!(table.comment.as_deref(), Some("of t"));
    assert_eq!(table.column("b").unwrap().comment.as_deref(), Some("of b"));
    assert_eq!(
        (table.engine.as_str(), table.charset.as_str()),
        ("InnoDB", "latin1")
    );
    assert_eq!(table.collation, "latin1_bin");
    assert_eq!(table.columns[2].generated, Some(Generated::Stored));
    let json = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<MysqlTable>(&json).unwrap(), table);

    bench
        .run("CREATE TABLE s (id int primary key, t text character set swe7)")
        .await;
    let name = TableName::new(&bench.database, "s");
    let inspected = catalog::inspect_tables(&mut bench.conn, &[name], &bench.options).await;
    let error = inspected.unwrap().pop().unwrap().1.unwrap_err().to_string();
    for part in ["swe7", ".s", "column t", "utf8mb4"] {
        assert!(error.contains(part), "{error}");
    }
    bench.close().await;
}
