//! Tables that Java Paimon 1.4.2 wrote are read as Java reads them: merge on read over levels,
//! partitions, every type, files of older schemas.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::path::PathBuf;

use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, types::*};
use arrow_schema::{DataType, TimeUnit};
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, CommitRequest, DataField, DataType as Kind, SchemaChange, Table, WriteBuffer,
    WriteSettings,
};
use serde_json::{Value, json};

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

async fn table(name: &str) -> Table {
    table_of("java", name).await
}

async fn table_of(database: &str, name: &str) -> Table {
    let catalog = Catalog::local(data().join("warehouse")).unwrap();
    catalog.table(database, name).await.unwrap().unwrap()
}

/// Rows as Java printed them, without their kind.
fn expected(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data().join(format!("expected/{name}.jsonl"))).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["row"].clone())
        .collect()
}

async fn rows(table: &Table, projection: Option<&[&str]>) -> Vec<Value> {
    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    let mut rows = Vec::new();
    for split in table.scan(&snapshot).await.unwrap() {
        let batches: Vec<RecordBatch> = table
            .read_bucket(&split, projection)
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        for batch in batches {
            rows.extend((0..batch.num_rows()).map(|row| object(table, &batch, row)));
        }
    }
    rows
}

fn object(table: &Table, batch: &RecordBatch, row: usize) -> Value {
    let schema = batch.schema();
    let cells = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let (_, paimon) = table.schema().field(field.name()).unwrap();
            (field.name().clone(), cell(column, row, &paimon.data_type))
        });
    Value::Object(cells.collect())
}

fn cell(column: &ArrayRef, row: usize, kind: &Kind) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    let digits = match kind {
        Kind::Timestamp(digits) | Kind::TimestampLtz(digits) | Kind::Time(digits) => *digits,
        _ => 0,
    };
    macro_rules! primitive {
        ($t:ty) => {
            column.as_primitive::<$t>().value(row)
        };
    }
    match column.data_type() {
        DataType::Boolean => json!(column.as_boolean().value(row)),
        DataType::Int8 => json!(primitive!(Int8Type)),
        DataType::Int16 => json!(primitive!(Int16Type)),
        DataType::Int32 => json!(primitive!(Int32Type)),
        DataType::Int64 => json!(primitive!(Int64Type)),
        DataType::Float32 => float(primitive!(Float32Type).to_string().parse().unwrap()),
        DataType::Float64 => float(primitive!(Float64Type)),
        DataType::Decimal128(..) => {
            json!(column.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::Binary => json!(base64(column.as_binary::<i32>().value(row))),
        DataType::Date32 => {
            let text = date_time(i64::from(primitive!(Date32Type)) * 86400, 0, 0);
            json!(text[..10])
        }
        DataType::Time32(_) => {
            let millis = i64::from(primitive!(Time32MillisecondType));
            let text = date_time(millis / 1000, millis % 1000 * 1_000_000, digits);
            json!(text[11..])
        }
        DataType::Timestamp(unit, zone) => {
            let (ticks, per_second) = match unit {
                TimeUnit::Millisecond => (primitive!(TimestampMillisecondType), 1_000),
                TimeUnit::Microsecond => (primitive!(TimestampMicrosecondType), 1_000_000),
                TimeUnit::Nanosecond => (primitive!(TimestampNanosecondType), 1_000_000_000),
                TimeUnit::Second => panic!("no column is in seconds"),
            };
            let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
            let text = date_time(ticks.div_euclid(per_second), nanos, digits);
            json!(format!("{text}{}", if zone.is_some() { "Z" } else { "" }))
        }
        DataType::List(_) => {
            let Kind::Array(element) = kind else {
                panic!("a list as {kind}")
            };
            let items = column.as_list::<i32>().value(row);
            (0..items.len())
                .map(|item| cell(&items, item, &element.data_type))
                .collect()
        }
        DataType::Map(..) => {
            let (key, value) = match kind {
                Kind::Map(key, value) => (&key.data_type, &value.data_type),
                Kind::Multiset(element) => (&element.data_type, &Kind::Int),
                _ => panic!("a map as {kind}"),
            };
            let entries = column.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pair = |entry| json!([cell(keys, entry, key), cell(values, entry, value)]);
            let mut pairs: Vec<Value> = (0..entries.len()).map(pair).collect();
            // As Java prints them: files have any order.
            pairs.sort_by_key(Value::to_string);
            Value::Array(pairs)
        }
        DataType::Struct(_) => {
            let Kind::Row(fields) = kind else {
                panic!("a struct as {kind}")
            };
            let parts = fields.iter().zip(column.as_struct().columns());
            let parts =
                parts.map(|(field, part)| (field.name.clone(), cell(part, row, &field.data_type)));
            Value::Object(parts.collect())
        }
        other => panic!("no text for {other}"),
    }
}

/// What JSON has no number for is text.
fn float(value: f64) -> Value {
    match value {
        value if value.is_nan() => json!("NaN"),
        value if value.is_finite() => json!(value),
        value if value > 0.0 => json!("Infinity"),
        _ => json!("-Infinity"),
    }
}

fn date_time(seconds: i64, nanos: i64, digits: u8) -> String {
    let at = jiff::civil::date(1970, 1, 1)
        .at(0, 0, 0, 0)
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap();
    let fraction = match digits {
        0 => String::new(),
        digits => format!(".{}", &format!("{nanos:09}")[..usize::from(digits)]),
    };
    format!("{}{fraction}", at.strftime("%Y-%m-%d %H:%M:%S"))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|chunk| {
            let word = (0..3).fold(0u32, |word, at| {
                word << 8 | u32::from(*chunk.get(at).unwrap_or(&0))
            });
            let digit = move |at: u32| char::from(DIGITS[(word >> (18 - 6 * at) & 63) as usize]);
            (0..4).map(move |at| {
                if at as usize > chunk.len() {
                    '='
                } else {
                    digit(at)
                }
            })
        })
        .collect()
}

fn sorted(mut rows: Vec<Value>) -> Vec<String> {
    let mut texts: Vec<String> = rows.drain(..).map(|row| row.to_string()).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn tables_read_as_java_reads_them() {
    for name in [
        "fixed",
        "thin",
        "partitioned",
        "types",
        "keys",
        "evolved",
        "casts",
        "nested",
    ] {
        let table = table(name).await;
        let ours = sorted(rows(&table, None).await);
        assert!(!ours.is_empty());
        assert_eq!(ours, sorted(expected(name)), "{name}");
    }
}

#[tokio::test]
async fn projections_come_in_the_order_named() {
    let table = table("keys").await;
    let narrow = sorted(rows(&table, Some(&["v", "s"])).await);
    let wanted = expected("keys")
        .into_iter()
        .map(|row| json!({"v": row["v"], "s": row["s"]}))
        .collect();
    assert_eq!(narrow, sorted(wanted));
    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    let splits = table.scan(&snapshot).await.unwrap();
    assert!(table.read_bucket(&splits[0], Some(&["nowhere"])).is_err());
}

/// Table `nested` was changed by Java from its first schema to its second.
#[tokio::test]
async fn schemas_change_as_java_changes_them() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::local(folder.path()).unwrap();
    let java = table("nested").await;
    let first = java.schema_of(0).await.unwrap().as_ref().clone();
    let table = catalog.create_table("d", "t", first).await.unwrap();
    use headwater_paimon::DataType::*;
    let retype = |path, data_type| SchemaChange::UpdateColumnType { path, data_type };
    let add = |path, data_type| SchemaChange::AddColumn {
        path,
        data_type,
        description: None,
        place: None,
    };
    let changed = table
        .alter(&[
            add(&["r", "c", "z"], BigInt),
            SchemaChange::DropColumn { path: &["r", "a"] },
            SchemaChange::RenameColumn {
                path: &["r", "b"],
                name: "bb",
            },
            retype(&["r", "c", "x"], BigInt),
            SchemaChange::DropColumn {
                path: &["l", "element", "a"],
            },
            add(&["l", "element", "a"], String),
            retype(&["l", "element", "b"], Double),
            retype(&["m", "value", "p"], Double),
            add(&["m", "value", "n"], Int),
            retype(&["ln", "element"], BigInt),
            retype(&["ll", "element", "element"], String),
            retype(&["mm", "value", "element"], VarChar(1)),
            SchemaChange::RenameColumn {
                path: &["v"],
                name: "w",
            },
            add(&["nr"], Row(vec![DataField::new("e", Int)])),
        ])
        .await
        .unwrap();
    let (ours, theirs) = (changed.schema(), java.schema());
    assert_eq!(ours.fields, theirs.fields);
    assert_eq!(ours.highest_field_id, theirs.highest_field_id);
    assert_eq!((ours.id, &ours.options), (theirs.id, &theirs.options));
}

/// What was read is written to a table of the same schema, and read back. `HEADWATER_KEEP` names a
/// folder in which the table is left, for Java to read.
#[tokio::test]
async fn what_java_wrote_is_written_back() {
    let folder = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("HEADWATER_KEEP").map(PathBuf::from);
    let catalog = Catalog::local(kept.as_deref().unwrap_or(folder.path())).unwrap();
    for name in ["nested", "types", "casts"] {
        let java = table(name).await;
        let schema = headwater_paimon::Schema {
            id: 0,
            ..java.schema().as_ref().clone()
        };
        let ours = catalog.create_table("ours", name, schema).await.unwrap();
        let mut buffer = WriteBuffer::new(ours.clone(), WriteSettings::default()).unwrap();
        let snapshot = java.latest_snapshot().await.unwrap().unwrap();
        for split in java.scan(&snapshot).await.unwrap() {
            let mut batches = java.read_bucket(&split, None).unwrap();
            while let Some(batch) = batches.try_next().await.unwrap() {
                buffer.write(&batch, None, 0).unwrap();
            }
        }
        let messages = buffer.flush().await.unwrap();
        let commit = CommitRequest {
            user: "test".into(),
            identifier: 1,
            messages,
            watermark_ms: None,
            properties: Default::default(),
            expect: None,
        };
        ours.commit(&commit).await.unwrap();
        let back = sorted(rows(&ours, None).await);
        assert_eq!(back, sorted(expected(name)), "{name}");
    }
}

#[tokio::test]
async fn every_older_snapshot_can_be_read() {
    let table = table("keys").await;
    for id in table.snapshot_ids().await.unwrap() {
        let snapshot = table.snapshot(id).await.unwrap().unwrap();
        let files = table.live_files(&snapshot).await.unwrap();
        let physical: i64 = files.iter().map(|file| file.meta.row_count).sum();
        assert_eq!(Some(physical), snapshot.total_record_count, "snapshot {id}");
        for split in table.scan(&snapshot).await.unwrap() {
            let batches: Vec<RecordBatch> = table
                .read_bucket(&split, None)
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert!(batches.iter().map(RecordBatch::num_rows).sum::<usize>() > 0);
        }
    }
    let newest = table.latest_snapshot().await.unwrap().unwrap();
    let files = table.live_files(&newest).await.unwrap();
    let none: Vec<String> = table
        .missing_files(
            &files
                .iter()
                .map(|file| headwater_paimon::CommitMessage {
                    partition: file.partition.clone(),
                    bucket: file.bucket,
                    total_buckets: file.total_buckets,
                    new_files: vec![file.meta.clone()],
                    ..Default::default()
                })
                .collect::<Vec<_>>(),
        )
        .await
        .unwrap();
    assert!(none.is_empty(), "{none:?}");
}

#[tokio::test]
async fn tables_of_every_kind_read_as_java_reads_them() {
    for name in [
        "aggregation",
        "append_part",
        "append_streams_overwrite",
        "avro",
        "avro_types",
        "keys_part",
        "append_bucket",
        "changelog_full_compaction",
        "changelog_input",
        "changelog_lookup",
        "changelog_none",
        "dv32",
        "dv64",
        "dynamic",
        "first_row",
        "full",
        "part_date",
        "partial_update",
        "postpone",
        "sequence_field",
    ] {
        let table = table_of("kinds", name).await;
        let ours = sorted(rows(&table, None).await);
        assert_eq!(ours, sorted(expected(&format!("kinds/{name}"))), "{name}");
    }
}

/// Changes as Java printed them: what of each row does not depend on the order within a snapshot.
fn expected_changes(name: &str) -> Vec<String> {
    let path = format!("expected/kinds/{name}.stream.jsonl");
    let text = std::fs::read_to_string(data().join(path)).unwrap();
    let lines = text.lines();
    sorted(
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

async fn changes(table: &Table, from: Option<i64>) -> Vec<String> {
    let mut changes = table.stream(from).unwrap();
    let mut found = Vec::new();
    while let Some(batch) = changes.next().await.unwrap() {
        for row in 0..batch.rows.num_rows() {
            let op = ["+I", "-U", "+U", "-D"][batch.kinds.value(row) as usize];
            let row = object(table, &batch.rows, row);
            found.push(json!({"op": op, "row": row, "snapshot": batch.snapshot}));
        }
    }
    // It stays at its place, and there is nothing more.
    let newest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(changes.next_snapshot(), Some(newest.id + 1));
    assert!(changes.next().await.unwrap().is_none());
    sorted(found)
}

#[tokio::test]
async fn changes_stream_as_java_streams_them() {
    for name in [
        "append_part",
        "append_streams_overwrite",
        "changelog_none",
        "changelog_input",
        "changelog_lookup",
        "changelog_full_compaction",
        "keys_part",
    ] {
        let table = table_of("kinds", name).await;
        assert_eq!(
            changes(&table, Some(1)).await,
            expected_changes(name),
            "{name}"
        );
        // From the newest snapshot on: what is there, as inserts.
        let newest = table.latest_snapshot().await.unwrap().unwrap();
        let there = expected(&format!("kinds/{name}")).into_iter();
        let there = there.map(|row| json!({"op": "+I", "row": row, "snapshot": newest.id}));
        assert_eq!(
            changes(&table, None).await,
            sorted(there.collect()),
            "{name}"
        );
    }
}

#[tokio::test]
async fn data_files_of_another_format_are_refused_before_anything_is_read() {
    let table = table_of("kinds", "orc").await;
    let error = table.read().splits().await.unwrap_err().to_string();
    assert!(
        error.contains("format orc") && error.contains("table kinds.orc"),
        "{error}"
    );
}

/// Filters leave the same rows whether statistics are looked at or every row is.
#[tokio::test]
async fn filters_leave_the_rows_that_match() {
    use headwater_paimon::{Predicate, binary_row::Value};
    let table = table_of("kinds", "append_bucket").await;
    let all = expected("kinds/append_bucket");
    let id = |row: &Value_| row["id"].as_i64().unwrap();
    let none = |row: &Value_| row["v"].is_null();
    type Value_ = serde_json::Value;
    type Test = Box<dyn Fn(&Value_) -> bool>;
    let cases: Vec<(Predicate, Test)> = vec![
        (
            Predicate::Eq("id".into(), Value::Int(3)),
            Box::new(move |row| id(row) == 3),
        ),
        (
            Predicate::Ge("id".into(), Value::BigInt(11)),
            Box::new(move |row| id(row) >= 11),
        ),
        (Predicate::IsNull("v".into()), Box::new(none)),
        (
            Predicate::Not(Box::new(Predicate::StartsWith("v".into(), "x".into()))),
            // NULL does not begin with x, and does not not begin with it.
            Box::new(|_| false),
        ),
        (
            Predicate::And(vec![
                Predicate::In("id".into(), vec![Value::Int(1), Value::Int(12)]),
                Predicate::IsNotNull("v".into()),
            ]),
            Box::new(move |row| id(row) == 1),
        ),
    ];
    for (predicate, wanted) in cases {
        let read = table.read().filter(predicate.clone()).columns(["id", "v"]);
        let batches: Vec<RecordBatch> = read.all(2).await.unwrap().try_collect().await.unwrap();
        let mut ours = Vec::new();
        for batch in &batches {
            ours.extend((0..batch.num_rows()).map(|row| object(&table, batch, row)));
        }
        let wanted = all.iter().filter(|row| wanted(row)).cloned().collect();
        assert_eq!(sorted(ours), sorted(wanted), "{predicate:?}");
    }
    let few: Vec<RecordBatch> = table
        .read()
        .limit(5)
        .all(2)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(few.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    let parts = table_of("kinds", "keys_part").await;
    let part = parts
        .read()
        .filter(Predicate::Le("d".into(), Value::Int(1)));
    let splits = part.splits().await.unwrap();
    assert!(!splits.is_empty() && splits.len() < parts.read().splits().await.unwrap().len());
    assert!(
        splits
            .iter()
            .all(|split| split.partition == splits[0].partition)
    );
    let one = table
        .read()
        .filter(Predicate::Eq("id".into(), Value::Int(3)));
    assert_eq!(one.splits().await.unwrap().len(), 1, "the bucket is known");
}
