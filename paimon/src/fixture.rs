//! Tables, rows and readers that this crate's tests share.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
    builder::{ListBuilder, StringBuilder},
    types::Int32Type,
};
use arrow_schema::Field;
use object_store::{local::LocalFileSystem, path::Path};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::{CommitMessage, DataField, DataFileMeta, Schema, Table};

/// A table in a folder of its own.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) table: Table,
}

pub(crate) fn fixture(
    columns: &[(&str, &str)],
    primary: &[&str],
    partition: &[&str],
    options: &[(&str, &str)],
) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let fields: Vec<DataField> = columns
        .iter()
        .enumerate()
        .map(|(id, (name, text))| {
            let array = text
                .strip_prefix("ARRAY<")
                .and_then(|rest| rest.strip_suffix('>'));
            let json = match array {
                Some(item) => serde_json::json!({"type": "ARRAY", "element": item}),
                None => serde_json::json!(text),
            };
            let (data_type, nullable) = crate::DataType::from_json(&json).unwrap();
            DataField {
                id: id as i32,
                name: (*name).to_owned(),
                data_type,
                nullable,
                description: None,
                default_value: None,
            }
        })
        .collect();
    let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let mut all = BTreeMap::from([("bucket".to_owned(), "1".to_owned())]);
    all.extend(
        options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    let schema = Schema {
        version: 3,
        id: 0,
        highest_field_id: fields.len() as i32 - 1,
        fields,
        partition_keys: text(partition),
        primary_keys: text(primary),
        options: all,
        comment: None,
        time_millis: 0,
    };
    let path = Path::from("t.db/t");
    Fixture {
        table: Table::new("t.t", store, path, Arc::new(schema)),
        folder,
    }
}

impl Fixture {
    /// All rows of a data file: the file's columns.
    pub(crate) fn read(&self, folder: &str, file: &DataFileMeta) -> RecordBatch {
        let path = self
            .folder
            .path()
            .join("t.db/t")
            .join(folder)
            .join(&file.file_name);
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            file.file_size as u64
        );
        let file = std::fs::File::open(path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let schema = reader.schema().clone();
        let batches: Vec<_> = reader
            .build()
            .unwrap()
            .map(|batch| batch.unwrap())
            .collect();
        arrow_select::concat::concat_batches(&schema, &batches).unwrap()
    }

    /// How many files stand below the table's folder, half written ones included.
    pub(crate) fn files(&self) -> usize {
        fn count(path: &std::path::Path) -> usize {
            let Ok(entries) = std::fs::read_dir(path) else {
                return 0;
            };
            entries
                .map(|entry| entry.unwrap().path())
                .map(|path| if path.is_dir() { count(&path) } else { 1 })
                .sum()
        }
        count(self.folder.path())
    }
}

/// `(key, sequence, kind, value)` of a file of a table `id INT, v INT`.
pub(crate) fn int_rows(batch: &RecordBatch) -> Vec<(i32, i64, i8, Option<i32>)> {
    use arrow_array::{
        Array,
        cast::AsArray,
        types::{Int8Type, Int64Type},
    };
    let keys = batch
        .column_by_name("_KEY_id")
        .unwrap()
        .as_primitive::<Int32Type>();
    let ids = batch
        .column_by_name("id")
        .unwrap()
        .as_primitive::<Int32Type>();
    assert_eq!(keys, ids);
    let sequences = batch.column_by_name("_SEQUENCE_NUMBER").unwrap();
    let sequences = sequences.as_primitive::<Int64Type>();
    let kinds = batch
        .column_by_name("_VALUE_KIND")
        .unwrap()
        .as_primitive::<Int8Type>();
    let values = batch
        .column_by_name("v")
        .unwrap()
        .as_primitive::<Int32Type>();
    (0..batch.num_rows())
        .map(|row| {
            let value = values.is_valid(row).then(|| values.value(row));
            (
                keys.value(row),
                sequences.value(row),
                kinds.value(row),
                value,
            )
        })
        .collect()
}

pub(crate) fn int_batch(rows: &[(i32, Option<i32>)]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.1)));
    RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("v", values, true)]).unwrap()
}

pub(crate) const INT_COLUMNS: [(&str, &str); 2] = [("id", "INT NOT NULL"), ("v", "INT")];

/// Files of messages, with their folder within the table's.
pub(crate) fn files_of(messages: &[CommitMessage]) -> Vec<(String, &DataFileMeta)> {
    let folder = |message: &CommitMessage| format!("bucket-{}", message.bucket);
    messages
        .iter()
        .flat_map(|message| {
            message
                .new_files
                .iter()
                .map(move |file| (folder(message), file))
        })
        .collect()
}

/// Every type but arrays of timestamps.
pub(crate) const ALL_TYPES: [(&str, &str); 27] = [
    ("id", "BIGINT NOT NULL"),
    ("bo", "BOOLEAN"),
    ("ti", "TINYINT"),
    ("si", "SMALLINT"),
    ("i", "INT"),
    ("f", "FLOAT"),
    ("d", "DOUBLE"),
    ("de", "DECIMAL(9, 2)"),
    ("dm", "DECIMAL(18, 4)"),
    ("dl", "DECIMAL(38, 18)"),
    ("ch", "CHAR(30)"),
    ("vc", "VARCHAR(50)"),
    ("st", "STRING"),
    ("bn", "BINARY(3)"),
    ("vb", "VARBINARY(10)"),
    ("by", "BYTES"),
    ("da", "DATE"),
    ("tm", "TIME(3)"),
    ("t0", "TIMESTAMP(0)"),
    ("t3", "TIMESTAMP(3)"),
    ("t6", "TIMESTAMP(6)"),
    ("t9", "TIMESTAMP(9)"),
    ("l3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("l6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("l9", "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
    ("ar", "ARRAY<INT>"),
    ("as", "ARRAY<STRING>"),
];

/// The three rows of which Java Paimon made `tests/data/file_stats.jsonl`.
pub(crate) fn all_types_rows() -> RecordBatch {
    let decimal = |values: [Option<i128>; 3], precision, scale| -> ArrayRef {
        let array = Decimal128Array::from(values.to_vec());
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    let text =
        |values: [Option<&str>; 3]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let bytes =
        |values: [Option<&[u8]>; 3]| -> ArrayRef { Arc::new(BinaryArray::from(values.to_vec())) };
    let millis = |values: [Option<i64>; 3]| TimestampMillisecondArray::from(values.to_vec());
    let micros = |values: [Option<i64>; 3]| TimestampMicrosecondArray::from(values.to_vec());
    let nanos = |values: [Option<i64>; 3]| TimestampNanosecondArray::from(values.to_vec());
    let accents = "é".repeat(17);
    let faces = format!("{}\u{10ffff}\u{10ffff}", "😀".repeat(15));
    let ints = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        Some(vec![]),
        None,
    ]);
    let mut texts = ListBuilder::new(StringBuilder::new());
    texts.append_value([Some("x"), Some("")]);
    texts.append_null();
    texts.append_null();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        Arc::new(Int8Array::from(vec![Some(-128), Some(5), None])),
        Arc::new(Int16Array::from(vec![Some(32767), Some(-7), None])),
        Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(99), None])),
        Arc::new(Float32Array::from(vec![Some(1.5), Some(f32::NAN), None])),
        Arc::new(Float64Array::from(vec![
            Some(-2.25E-300),
            Some(f64::NEG_INFINITY),
            None,
        ])),
        decimal([Some(-123_456_789), Some(1), None], 9, 2),
        decimal([Some(123_456_789_012_345_678), Some(-1), None], 18, 4),
        decimal(
            [
                Some(12_345_678_901_234_567_890_123_456_789_012_345_678),
                Some(-3_500_000_000_000_000_000),
                None,
            ],
            38,
            18,
        ),
        text([Some("abc"), Some("abcdefghijklmnopqrst"), None]),
        text([Some("zzzzzzzzzzzzzzzzzzzz"), Some(&accents), None]),
        text([Some("水🚀 \"q\""), Some(&faces), None]),
        bytes([Some(b"\x01\x02\x03"), Some(b"\0\0\0"), None]),
        bytes([Some(b"\0\xff"), Some(b""), None]),
        bytes([Some(b""), Some(b"\x01"), None]),
        Arc::new(Date32Array::from(vec![Some(-1), Some(19_782), None])),
        Arc::new(Time32MillisecondArray::from(vec![
            Some(86_399_999),
            Some(0),
            None,
        ])),
        Arc::new(millis([Some(1_709_208_000_000), Some(-1_000), None])),
        Arc::new(millis([Some(-1), Some(1_704_067_200_001), None])),
        Arc::new(micros([Some(1_704_067_200_000_001), Some(-1), None])),
        Arc::new(nanos([Some(i64::MAX), Some(0), None])),
        Arc::new(millis([Some(1_709_208_000_001), Some(-1), None]).with_timezone("UTC")),
        Arc::new(
            micros([
                Some(-11_676_095_999_999_999),
                Some(1_709_208_000_000_001),
                None,
            ])
            .with_timezone("UTC"),
        ),
        Arc::new(nanos([Some(-1), Some(1_709_208_000_000_000_001), None]).with_timezone("UTC")),
        Arc::new(ints),
        Arc::new(texts.finish()),
    ];
    let fields: Vec<Field> = ALL_TYPES
        .iter()
        .zip(&columns)
        .map(|((name, _), column)| Field::new(*name, column.data_type().clone(), *name != "id"))
        .collect();
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap()
}
