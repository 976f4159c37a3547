use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, Int32Array, StringArray, cast::AsArray, types::Int32Type};
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroOcfFormat;
use arrow_schema::{DataType, Field, Schema};
use object_store::memory::InMemory;

use super::*;

const ROWS: usize = 1000;

fn batch() -> RecordBatch {
    let numbers = Int32Array::from_iter_values(0..ROWS as i32);
    let texts: StringArray = (0..ROWS)
        .map(|row| (row % 3 > 0).then(|| "text ".repeat(row % 40)))
        .collect();
    let fields = vec![
        Field::new("n", DataType::Int32, false),
        Field::new("t", DataType::Utf8, true),
    ];
    let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// A file of several blocks.
fn file(codec: Option<CompressionCodec>) -> Vec<u8> {
    let batch = batch();
    let mut writer = WriterBuilder::new(batch.schema().as_ref().clone())
        .with_compression(codec)
        .build::<_, AvroOcfFormat>(Vec::new())
        .unwrap();
    for first in (0..ROWS).step_by(300) {
        let rows = batch.slice(first, 300.min(ROWS - first));
        writer.write(&rows).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner()
}

async fn read(bytes: &[u8], rows: u64, columns: &[&str]) -> Result<Vec<RecordBatch>> {
    let store = InMemory::new();
    let path = Path::from("data-x-0.avro");
    store.put(&path, bytes.to_vec().into()).await.unwrap();
    let source = Source {
        store: Arc::new(store),
        path,
        size: bytes.len() as u64,
        rows,
    };
    let mut rows = Rows::open(source, 128, |names| {
        let at: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
        Ok(columns.iter().map(|name| at[name]).collect())
    })
    .await?;
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await? {
        batches.push(batch);
    }
    Ok(batches)
}

#[tokio::test]
async fn rows_come_back_whatever_the_codec() {
    use CompressionCodec::*;
    for codec in [None, Some(ZStandard), Some(Deflate), Some(Snappy)] {
        let bytes = file(codec);
        let batches = read(&bytes, ROWS as u64, &["t", "n"]).await.unwrap();
        assert_eq!(batches[0].num_rows(), 128, "{codec:?}");
        let (mut row, wanted) = (0, batch());
        for batch in batches {
            for (name, column) in [("n", 0), ("t", 1)] {
                let read = batch.column_by_name(name).unwrap();
                let wanted = wanted.column(column).slice(row, batch.num_rows());
                assert_eq!(read, &wanted, "{codec:?}");
            }
            row += batch.num_rows();
        }
        assert_eq!(row, ROWS, "{codec:?}");
    }
}

#[tokio::test]
async fn columns_that_are_not_wanted_are_skipped() {
    let bytes = file(None);
    let batches = read(&bytes, ROWS as u64, &["n"]).await.unwrap();
    assert_eq!(batches[0].num_columns(), 1);
    let last = batches
        .last()
        .unwrap()
        .column(0)
        .as_primitive::<Int32Type>();
    assert_eq!(last.value(last.len() - 1), ROWS as i32 - 1);
    let counted = read(&bytes, ROWS as u64, &[]).await.unwrap();
    let rows: usize = counted.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, ROWS);
}

/// Nothing in a file says how many rows it has: one that was cut between blocks looks whole.
#[tokio::test]
async fn a_file_of_fewer_rows_than_recorded_is_damaged() {
    let bytes = file(None);
    let sync = &bytes[bytes.len() - SYNC..];
    let block_ends: Vec<usize> = (0..bytes.len() - SYNC)
        .filter(|at| bytes[*at..].starts_with(sync))
        .map(|at| at + SYNC)
        .collect();
    assert_eq!(block_ends.len(), 4);
    let cut = &bytes[..block_ends[2]];
    for (bytes, recorded, message) in [
        (cut, 1000, "600 rows, 1000 are recorded"),
        (&bytes[..], 999, "more rows than the 999"),
        (&bytes[..bytes.len() - 1], 1000, "ends within a block"),
        (&b"PAR1 and nothing else"[..], 1000, "magic"),
        (&b""[..], 1000, "EOF"),
    ] {
        let error = read(bytes, recorded, &["n"]).await.unwrap_err().to_string();
        let is_named = error.contains(message) && error.contains("data-x-0.avro is damaged");
        assert!(is_named, "{message}: {error}");
    }
}

#[test]
fn schemas_without_bytes_are_refused() {
    let record = |fields: &str| format!(r#"{{"type":"record","name":"r","fields":[{fields}]}}"#);
    for (fields, fine) in [
        (r#"{"name":"a","type":"int"}"#, true),
        (
            r#"{"name":"a","type":["null",{"type":"array","items":["null","int"]}]}"#,
            true,
        ),
        (
            r#"{"name":"a","type":{"type":"map","values":"long"}}"#,
            true,
        ),
        ("", false),
        (r#"{"name":"a","type":"null"}"#, false),
        (
            r#"{"name":"a","type":{"type":"array","items":"null"}}"#,
            false,
        ),
        (
            r#"{"name":"a","type":{"type":"array","items":{"type":"record","name":"s","fields":[]}}}"#,
            false,
        ),
        (
            r#"{"name":"a","type":["null",{"type":"array","items":{"type":"fixed","name":"f","size":0}}]}"#,
            false,
        ),
    ] {
        assert_eq!(names(&record(fields)).is_ok(), fine, "{fields}");
    }
}

#[test]
fn a_snappy_length_is_not_believed() {
    for bytes in [
        &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0][..],
        &[4, 0x0c, b'a', b'b'],
        &[4, 0x01, 0x04, 0, 0, 0, 0],
        &[],
    ] {
        assert!(snappy::decompress(bytes).is_err(), "{bytes:?}");
    }
}
