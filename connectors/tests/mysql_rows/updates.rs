//! Updates, deletes, key changes, and images that are not whole.

use std::sync::Arc;

use arrow_array::{Array, cast::AsArray, types::Int32Type};
use headwater_connectors::{ChangeBatch, RowKind, RowKinds, mysql::select::SelectPlan};
use mysql_async::{Row, prelude::Queryable};

use crate::phases::Bench;

fn changes(batches: &[ChangeBatch]) -> Vec<(i8, String, Option<i32>)> {
    let mut all = Vec::new();
    for batch in batches {
        for row in 0..batch.rows.num_rows() {
            let kind = match &batch.kinds {
                RowKinds::Inserts => RowKind::Insert as i8,
                RowKinds::Each(kinds) => kinds[row],
            };
            let key = batch
                .rows
                .column(0)
                .as_string::<i32>()
                .value(row)
                .to_owned();
            let value = batch.rows.column(1).as_primitive::<Int32Type>();
            all.push((kind, key, value.is_valid(row).then(|| value.value(row))));
        }
    }
    all
}

#[tokio::test]
async fn an_update_is_one_row_unless_the_bytes_of_the_key_differ() {
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id varchar(9) primary key, v int) COLLATE utf8mb4_0900_ai_ci")
        .await;
    let from = bench.position().await;
    for statement in [
        "INSERT INTO t VALUES ('a', 1), ('b', NULL)",
        "UPDATE t SET v = v + 1",
        "UPDATE t SET v = 7 WHERE id = 'b'",
        "UPDATE t SET id = 'A' WHERE id = 'a'",
        "UPDATE t SET id = 'c', v = 9 WHERE id = 'b'",
        "DELETE FROM t",
    ] {
        bench.run(statement).await;
    }
    let table = Arc::new(bench.table("t").await);
    let batches = bench.tail(&table, from).await.unwrap();
    assert_eq!(batches[0].kinds, RowKinds::Inserts);
    let row = |kind: RowKind, key: &str, value| (kind as i8, key.to_owned(), value);
    assert_eq!(
        changes(&batches),
        [
            row(RowKind::Insert, "a", Some(1)),
            row(RowKind::Insert, "b", None),
            row(RowKind::UpdateAfter, "a", Some(2)),
            row(RowKind::UpdateAfter, "b", Some(7)),
            row(RowKind::Delete, "a", Some(2)),
            row(RowKind::Insert, "A", Some(2)),
            row(RowKind::Delete, "b", Some(7)),
            row(RowKind::Insert, "c", Some(9)),
            row(RowKind::Delete, "A", Some(2)),
            row(RowKind::Delete, "c", Some(9)),
        ]
    );
    bench.close().await;
}

#[tokio::test]
async fn keys_are_the_same_in_both_phases() {
    let mut bench = Bench::open().await;
    for (key, values) in [
        ("enum('z','m','a')", "('z'),('m'),('a')"),
        ("float", "(0.1),(16777217),(-0.5)"),
        ("binary(4)", "(x'AB000000'),(x'00000000'),(x'0000AB00')"),
        ("decimal(20,5)", "(1.5),(-2)"),
        ("timestamp(6)", "('2024-01-01 00:00:00.5')"),
        ("char(3)", "('a'),('b '),('')"),
        ("set('a','b')", "(''),('a,b')"),
    ] {
        bench.run("DROP TABLE IF EXISTS t").await;
        bench
            .run(format!("CREATE TABLE t (id {key} primary key)"))
            .await;
        let from = bench.position().await;
        bench.run(format!("INSERT INTO t VALUES {values} ")).await;
        let table = Arc::new(bench.table("t").await);
        let selected = bench.select(&table).await.unwrap();
        let tailed = bench.tail(&table, from).await.unwrap();
        assert_eq!(tailed.len(), 1, "{key}");
        let spelled = |batch: &arrow_array::RecordBatch| {
            let rows = 0..batch.num_rows();
            let mut rows: Vec<String> = rows
                .map(|row| format!("{:?}", batch.column(0).slice(row, 1)))
                .collect();
            rows.sort();
            rows
        };
        assert_eq!(spelled(&selected), spelled(&tailed[0].rows), "{key}");
    }
    bench.close().await;
}

#[tokio::test]
async fn an_image_that_is_not_whole_is_refused() {
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id varchar(9) primary key, v int, w int)")
        .await;
    let from = bench.position().await;
    for statement in [
        "SET SESSION binlog_row_image='MINIMAL'",
        "INSERT INTO t (id, v) VALUES ('a', 1)",
        "UPDATE t SET v = 2",
        "SET SESSION binlog_row_image='FULL'",
    ] {
        bench.run(statement).await;
    }
    let table = Arc::new(bench.table("t").await);
    let error = bench.tail(&table, from).await.unwrap_err().to_string();
    for part in ["lacks a column", "column w", "binlog_row_image=FULL"] {
        assert!(error.contains(part), "{error}");
    }
    bench.close().await;
}

#[tokio::test]
async fn a_partial_json_update_is_refused() {
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id varchar(9) primary key, v int, j json)")
        .await;
    bench
        .run("INSERT INTO t VALUES ('a', 1, '{\"a\": 1, \"long\": \"xxxxxxxxxxxxxxxxxxxxxxxxx\"}')")
        .await;
    let from = bench.position().await;
    bench
        .run("SET SESSION binlog_row_value_options='PARTIAL_JSON'")
        .await;
    bench.run("UPDATE t SET j = JSON_SET(j, '$.a', 2)").await;
    let table = Arc::new(bench.table("t").await);
    let error = bench.tail(&table, from).await.unwrap_err().to_string();
    assert!(error.contains("binlog_row_value_options=''"), "{error}");
    bench.close().await;
}

#[tokio::test]
async fn a_map_that_is_another_table_s_is_refused() {
    let mut bench = Bench::open().await;
    for (before, after, part) in [
        ("v int", "v int unsigned", "signed"),
        ("v int", "v bigint", "the log's type"),
        ("v int", "v int, w int", "columns"),
        (
            "v varchar(9) character set latin1",
            "v varchar(9) character set gbk",
            "character set",
        ),
        ("v decimal(10,2)", "v decimal(10,3)", "the log's type"),
        ("v enum('a','b')", "v enum('b','a')", "labels"),
    ] {
        if part == "labels" && !bench.full_metadata().await {
            continue;
        }
        bench.run("DROP TABLE IF EXISTS t").await;
        bench
            .run(format!(
                "CREATE TABLE t (id varchar(9) primary key, {before})"
            ))
            .await;
        let table = Arc::new(bench.table("t").await);
        bench.run("DROP TABLE t").await;
        bench
            .run(format!(
                "CREATE TABLE t (id varchar(9) primary key, {after})"
            ))
            .await;
        let from = bench.position().await;
        bench.run("INSERT INTO t (id, v) VALUES ('a', 1)").await;
        let error = bench.tail(&table, from).await.unwrap_err().to_string();
        assert!(error.contains(part), "{before} → {after}: {error}");
    }
    bench.close().await;
}

/// The table map lists character sets by position among the columns that have one: those kinds of
/// columns must be counted as the server counts them.
#[tokio::test]
async fn character_sets_of_a_map_stay_with_their_columns() {
    let mut bench = Bench::open().await;
    let mut wrong = Vec::new();
    for kind in [
        "geometry",
        "point",
        "json",
        "vector(3)",
        "blob",
        "tinytext",
        "varbinary(9)",
        "binary(9)",
        "year",
        "bit(3)",
        "enum('a')",
        "set('a')",
        "longtext",
        "time",
        "decimal(3,1)",
    ] {
        bench.run("DROP TABLE IF EXISTS t").await;
        bench
            .run(format!(
                "CREATE TABLE t (id varchar(9) character set gbk primary key, x {kind}, \
                 v varchar(9) character set latin1, w int unsigned, z text character set koi8r)"
            ))
            .await;
        let from = bench.position().await;
        bench.run("INSERT INTO t (id, v) VALUES ('a', 'é')").await;
        let table = Arc::new(bench.table("t").await);
        if let Err(error) = bench.tail(&table, from).await {
            wrong.push(format!("{kind}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    bench.close().await;
}

#[tokio::test]
async fn zero_dates_are_counted() {
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id int primary key, d date, n date not null, t timestamp not null)")
        .await;
    bench
        .run("INSERT INTO t VALUES (1, '0000-00-00', '2024-02-00', '0000-00-00'), (2, NULL, '2024-02-01', '2024-02-01')")
        .await;
    let table = bench.table("t").await;
    let plan = SelectPlan::new(&table).unwrap();
    let mut builder = plan.builder();
    let statement = format!("SELECT {} FROM {}", plan.columns_sql(), table.name);
    let rows: Vec<Row> = bench.conn.exec(statement, ()).await.unwrap();
    for row in rows {
        builder.push(row).unwrap();
    }
    assert_eq!((builder.rows(), builder.zero_dates()), (2, 3));
    bench.close().await;
}
