use std::time::Duration;

use arrow_array::{Array, RecordBatch, cast::AsArray, types::Int32Type};
use headwater_connectors::{ChunkEnd, ChunkReader, Source, Split, TableSchema, mysql::MysqlSource};
use tokio::sync::mpsc;

use crate::server::Db;

pub type Reader = Box<dyn ChunkReader>;

/// Reads a chunk whole.
pub async fn chunk(
    reader: &mut Reader,
    schema: &TableSchema,
    split: &Split,
) -> (ChunkEnd, Vec<RecordBatch>) {
    let (out, mut received) = mpsc::channel(2);
    // As the job does: a batch of large rows waits until those before it were taken.
    let read = async {
        let end = reader.read(schema, split, &out).await.unwrap();
        drop(out);
        end
    };
    let taken = async {
        let mut batches = Vec::new();
        while let Some(batch) = received.recv().await {
            batches.push(batch);
        }
        batches
    };
    tokio::join!(read, taken)
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Column `n`.
fn numbers(batches: &[RecordBatch]) -> Vec<i32> {
    let columns = batches.iter().map(|b| b.column_by_name("n").unwrap());
    columns
        .flat_map(|column| column.as_primitive::<Int32Type>().values().to_vec())
        .collect()
}

/// Walks a table in chunks of two rows; gives column `n` of all rows, in the order read.
async fn walk(db: &Db, table: &str, splits: usize) -> Vec<i32> {
    let mut options = db.options();
    options.chunk_rows = 2;
    options.chunk_rows_max = 2;
    let source = MysqlSource::new(options);
    let found = source.discover().await.unwrap();
    let schema = found
        .captured
        .iter()
        .find(|schema| schema.name.table == table)
        .unwrap_or_else(|| panic!("{table}: {:?}", found.rejected))
        .clone();
    let mut reader = source.reader().await.unwrap();
    let mut seen = Vec::new();
    for mut split in source.splits(&schema, splits).await.unwrap() {
        for count in 0.. {
            assert!(count < 5000, "{table}: too many chunks");
            let (end, batches) = chunk(&mut reader, &schema, &split).await;
            seen.extend(numbers(&batches));
            match end {
                ChunkEnd::More(key) => {
                    assert_eq!(rows(&batches), 2, "{table}");
                    // Cursors survive a checkpoint.
                    let text = serde_json::to_string(&key).unwrap();
                    split.after = Some(serde_json::from_str(&text).unwrap());
                }
                ChunkEnd::Done => break,
            }
        }
    }
    seen
}

#[tokio::test]
async fn every_row_once_in_the_server_s_order_for_every_kind_of_key() {
    let mut db = Db::new("walk").await;
    let tables = [
        ("k_int", "k INT", "(-3),(0),(7),(2147483647),(-2147483648)"),
        (
            "k_ubig",
            "k BIGINT UNSIGNED",
            "(0),(18446744073709551615),(9223372036854775808),(5)",
        ),
        (
            "k_dec",
            "k DECIMAL(65,30)",
            "(0.5),(-12345678901234567890123456789012345.123456789012345678901234567890),(0.500000000000000000000000000001),(3)",
        ),
        (
            "k_ci",
            "k VARCHAR(9) COLLATE utf8mb4_0900_ai_ci",
            "('0000'),('1111'),('aaaa'),('bbbb'),('cccc'),('ZZZZ'),('é'),('')",
        ),
        (
            "k_pad",
            "k CHAR(9) COLLATE utf8mb4_general_ci",
            "('a'),('A b'),('b'),('ab'),('')",
        ),
        (
            "k_latin",
            "k VARCHAR(9) CHARACTER SET latin1",
            "('é'),('f'),('z'),('q'),('a''b')",
        ),
        (
            "k_gbk",
            "k VARCHAR(9) CHARACTER SET gbk",
            "('中文'),('啊'),('a'),('z')",
        ),
        (
            "k_bin",
            "k VARCHAR(9) COLLATE utf8mb4_bin",
            "('a'),('A'),('á'),('😀'),('z')",
        ),
        ("k_enum", "k ENUM('z','m','a')", "('z'),('m'),('a')"),
        (
            "k_set",
            "k SET('x','y','z')",
            "('x,z'),('y'),(''),('x,y,z'),('z')",
        ),
        (
            "k_float",
            "k FLOAT",
            "(0.1),(16777217),(-0.1),(3.4e38),(1e-38),(16777218)",
        ),
        (
            "k_double",
            "k DOUBLE",
            "(0.1),(0.30000000000000004),(0.3),(1.7e308),(-5e-324)",
        ),
        (
            "k_binary",
            "k BINARY(4)",
            "(x'AB000000'),(x'00000000'),(x'00000001'),(x'FF'),(x'27')",
        ),
        (
            "k_varbinary",
            "k VARBINARY(4)",
            "(x'AB'),(x'AB00'),(''),(x'00'),(x'0000')",
        ),
        ("k_bit", "k BIT(10)", "(0),(1),(512),(1023),(2)"),
        (
            "k_date",
            "k DATE",
            "('2024-02-29'),('1000-01-01'),('9999-12-31'),('1969-12-31')",
        ),
        (
            "k_datetime",
            "k DATETIME(6)",
            "('2024-02-29 01:02:03.000001'),('2024-02-29 01:02:03'),('1000-01-01')",
        ),
        (
            "k_stamp",
            "k TIMESTAMP(3)",
            "('2024-02-29 01:02:03.001'),('2024-02-29 01:02:03'),('1971-01-01')",
        ),
        (
            "k_time",
            "k TIME",
            "('-800:00:00'),('-1:00:00'),('00:00:01'),('23:59:59'),('100:00:00')",
        ),
        ("k_year", "k YEAR", "(2024),(1901),(2155),(1999)"),
    ];
    for (table, key, values) in tables {
        // TIME outside of a day cannot be held by the lake type; the walk is what counts here.
        let values = if table == "k_time" {
            "('00:00:00'),('00:00:01'),('23:59:59'),('12:00:00')"
        } else {
            values
        };
        db.run(&format!("CREATE TABLE {table} ({key} NOT NULL PRIMARY KEY, n INT NOT NULL UNIQUE AUTO_INCREMENT)")).await;
        db.run(&format!("INSERT INTO {table} (k) VALUES {values}"))
            .await;
    }
    for (table, key, _) in tables {
        let order = if key.starts_with("k ENUM") || key.starts_with("k SET") {
            "k + 0"
        } else {
            "k"
        };
        let expected = db
            .numbers(&format!("SELECT n FROM {table} ORDER BY {order}"))
            .await;
        let seen: Vec<i64> = walk(&db, table, 1)
            .await
            .into_iter()
            .map(i64::from)
            .collect();
        assert_eq!(seen, expected, "{table}");
    }
}

#[tokio::test]
async fn composite_keys_and_unique_keys() {
    let mut db = Db::new("walk2").await;
    db.run("CREATE TABLE c2 (a INT, b INT, n INT, PRIMARY KEY (b, a));\nCREATE TABLE c3 (a VARCHAR(3), b ENUM('q','c','b'), c INT, n INT, PRIMARY KEY (a, b, c));\nCREATE TABLE u (k VARCHAR(3) NOT NULL, o INT UNIQUE, n INT, UNIQUE KEY zz (k));\nCREATE TABLE `odd ``name:x?` (`order` INT PRIMARY KEY, `a ``:b?` INT, n INT)").await;
    let mut n = 0;
    for a in 0..5 {
        for b in 1..4 {
            n += 1;
            db.run(&format!("INSERT INTO c2 VALUES ({a}, {b}, {n});\nINSERT INTO c3 VALUES ('x{}', {b}, {a}, {n});\nINSERT INTO u VALUES ('k{n}', {n}, {n});\nINSERT INTO `odd ``name:x?` VALUES ({n}, 1, {n})", a / 2)).await;
        }
    }
    for (table, order) in [
        ("c2", "b, a"),
        ("c3", "a, b + 0, c"),
        ("u", "k"),
        ("odd `name:x?", "n"),
    ] {
        let quoted = table.replace('`', "``");
        let expected = db
            .numbers(&format!("SELECT n FROM `{quoted}` ORDER BY {order}"))
            .await;
        let seen: Vec<i64> = walk(&db, table, 1)
            .await
            .into_iter()
            .map(i64::from)
            .collect();
        assert_eq!(seen, expected, "{table}");
    }
}

#[tokio::test]
async fn sparse_keys_cost_nothing_and_splits_cover_all() {
    let mut db = Db::new("sparse").await;
    db.run("SET SESSION cte_max_recursion_depth = 1000000;\nCREATE TABLE s (k BIGINT PRIMARY KEY, n INT);\nINSERT INTO s WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 60000) SELECT IF(x < 100, x, 1000000000000 + x), x FROM c").await;
    let mut options = db.options();
    options.chunk_rows = 5000;
    let source = MysqlSource::new(options);
    let schema = source.discover().await.unwrap().captured[0].clone();
    let splits = source.splits(&schema, 4).await.unwrap();
    assert_eq!(splits.len(), 4);
    assert_eq!((&splits[0].after, &splits[3].upto), (&None, &None));
    let mut reader = source.reader().await.unwrap();
    let (mut seen, mut chunks) = (Vec::new(), 0);
    for mut split in splits {
        loop {
            chunks += 1;
            let (end, batches) = chunk(&mut reader, &schema, &split).await;
            seen.extend(numbers(&batches));
            match end {
                ChunkEnd::More(key) => split.after = Some(key),
                ChunkEnd::Done => break,
            }
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=60_000).collect::<Vec<i32>>());
    assert!(chunks < 30, "{chunks} chunks");
}

#[tokio::test]
async fn a_break_ends_a_chunk_behind_what_was_emitted_and_deleted_rows_do_not_disturb() {
    let mut db = Db::new("stop").await;
    db.run("SET SESSION cte_max_recursion_depth = 1000000;\nCREATE TABLE s (k INT PRIMARY KEY, n INT, pad VARCHAR(50));\nINSERT INTO s WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 40000) SELECT x, x, 'x' FROM c").await;
    let mut options = db.options();
    options.chunk_rows = 100_000;
    let source = MysqlSource::new(options);
    let schema = source.discover().await.unwrap().captured[0].clone();
    let mut reader = source.reader().await.unwrap();
    let mut split = Split {
        table: schema.name.clone(),
        id: 0,
        after: None,
        upto: None,
    };
    // Whoever takes the rows is slow.
    let (out, mut batches) = mpsc::channel::<RecordBatch>(1);
    let slow = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(2200)).await;
        let mut rows = 0;
        while let Some(batch) = batches.recv().await {
            rows += batch.num_rows();
        }
        rows
    });
    let end = reader.read(&schema, &split, &out).await.unwrap();
    drop(out);
    let first = slow.await.unwrap();
    let ChunkEnd::More(key) = end else {
        panic!("{end:?}")
    };
    assert!(
        first < 20_000 && key == vec![first.to_string()],
        "{first} {key:?}"
    );
    split.after = Some(key);
    db.run("DELETE FROM s WHERE k > 20000").await;
    let (end, batches) = chunk(&mut reader, &schema, &split).await;
    assert_eq!((end, first + rows(&batches)), (ChunkEnd::Done, 20_000));
    // A cursor that does not advance is an error, not an endless walk.
    split.after = Some(vec!["30000".into()]);
    let (end, _) = chunk(&mut reader, &schema, &split).await;
    assert_eq!(end, ChunkEnd::Done);
}

#[tokio::test]
async fn rows_are_found_by_the_keys_of_a_batch() {
    let mut db = Db::new("lookup").await;
    db.run("CREATE TABLE t (a VARCHAR(9) CHARACTER SET latin1, b DECIMAL(9,2), c DATETIME(3), d BINARY(3), e ENUM('x','y'), n INT, PRIMARY KEY (a, b, c, d, e));\nINSERT INTO t VALUES ('é''', 1.50, '2024-02-29 01:02:03.004', x'AB', 'y', 1), ('', -0.01, '1969-01-01', x'00', 'x', 2), ('z', 0, '9999-12-31', x'27', 'x', 3)").await;
    let source = db.source();
    let schema = source.discover().await.unwrap().captured[0].clone();
    let mut reader = source.reader().await.unwrap();
    let split = Split {
        table: schema.name.clone(),
        id: 0,
        after: None,
        upto: None,
    };
    let (_, batches) = chunk(&mut reader, &schema, &split).await;
    let keys: Vec<Vec<String>> = (0..2)
        .map(|row| source.key_of(&schema, &batches[0], row).unwrap())
        .collect();
    let found = source.lookup(&schema, &keys).await.unwrap();
    assert_eq!(found.num_rows(), 2);
    assert_eq!(found, batches[0].slice(0, 2));
    assert_eq!(source.lookup(&schema, &[]).await.unwrap().num_rows(), 0);
    let _: &dyn Array = found.column(0);
}

/// Every chunk is a range of the index in its order: nothing is sorted, nothing is read twice.
#[tokio::test]
async fn chunks_are_ranges_of_the_index() {
    let mut db = Db::new("ranges").await;
    db.run("CREATE TABLE s (a VARCHAR(9), b ENUM('x','y','z'), c INT, n INT, PRIMARY KEY (a, b, c));\nSET SESSION cte_max_recursion_depth = 1000000;\nINSERT INTO s WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 3000) SELECT CONCAT('k', x DIV 700), x MOD 3 + 1, x, x FROM r").await;
    let mut options = db.options();
    (options.chunk_rows, options.chunk_rows_max) = (100, 100);
    let source = MysqlSource::new(options);
    let schema = source.discover().await.unwrap().captured[0].clone();
    let mut reader = source.reader().await.unwrap();
    let mut split = Split {
        table: schema.name.clone(),
        id: 0,
        after: None,
        upto: None,
    };
    let (mut read, mut chunks) = (0, 0);
    loop {
        let (end, batches) = chunk(&mut reader, &schema, &split).await;
        read += rows(&batches);
        let ChunkEnd::More(key) = end else {
            break;
        };
        chunks += 1;
        let (a, b, c) = (&key[0], &key[1], &key[2]);
        let later: Vec<String> = (b.parse::<u32>().unwrap() + 1..=3)
            .map(|n| n.to_string())
            .collect();
        let later = if later.is_empty() {
            "FALSE".into()
        } else {
            format!("b IN ({})", later.join(","))
        };
        let plan: String = mysql_async::prelude::Queryable::query_first(
            &mut db.conn,
            format!(
                "EXPLAIN FORMAT=TREE SELECT * FROM s AS t FORCE INDEX (PRIMARY) WHERE \
                 (a > {a}) OR (a = {a} AND {later}) OR (a = {a} AND b = {b} AND c > {c}) \
                 ORDER BY t.a, t.b, t.c LIMIT 100"
            ),
        )
        .await
        .unwrap()
        .unwrap();
        assert!(
            plan.contains("Index range scan") && !plan.contains("Sort"),
            "{plan}"
        );
        split.after = Some(key);
    }
    assert_eq!((read, chunks), (3000, 30));
}
