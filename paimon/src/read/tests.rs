use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use arrow_array::{
    ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, cast::AsArray,
    types::Int32Type,
};
use futures::TryStreamExt;
use object_store::{ObjectStore, memory::InMemory, path::Path};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::index::sample};

use super::*;
use crate::{
    binary_row::{Value, encode},
    commit::tests::key,
    data_file_meta::{DataFileMeta, SimpleStats},
    data_type::{DataField, DataType},
    error::{Error, Result},
    schema::Schema,
    table::Table,
};

mod filter;
mod groups;
mod slices;
mod stretches;

fn table() -> Table {
    table_with(&[])
}

fn table_with(options: &[(&str, &str)]) -> Table {
    table_in(Arc::new(InMemory::new()), options)
}

fn table_in(store: Arc<dyn ObjectStore>, options: &[(&str, &str)]) -> Table {
    let field = |name: &str, data_type| DataField {
        id: 0,
        name: name.into(),
        data_type,
        nullable: true,
        description: None,
        default_value: None,
    };
    let mut schema = Schema::create(
        vec![field("v", DataType::String), field("id", DataType::Int)],
        vec!["id".into()],
        vec![],
        BTreeMap::from([("bucket".to_owned(), "1".to_owned())]),
        None,
    )
    .unwrap();
    let options = options.iter();
    let options = options.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    schema.options.extend(options);
    Table::new("db.t", store, Path::from("db.db/t"), Arc::new(schema))
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: i32,
    sequence: i64,
    kind: i8,
    value: String,
}

/// Writes rows as a data file of the table.
async fn write(table: &Table, level: i32, rows: &[Row]) -> DataFileMeta {
    // Many row groups in one file.
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100));
    write_with(table, level, rows, properties.build()).await
}

async fn write_with(
    table: &Table,
    level: i32,
    rows: &[Row],
    properties: WriterProperties,
) -> DataFileMeta {
    let columns: [(&str, ArrayRef); 4] = [
        (
            "_SEQUENCE_NUMBER",
            Arc::new(Int64Array::from_iter_values(
                rows.iter().map(|row| row.sequence),
            )),
        ),
        (
            "_VALUE_KIND",
            Arc::new(Int8Array::from_iter_values(rows.iter().map(|row| row.kind))),
        ),
        (
            "v",
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|row| &row.value),
            )),
        ),
        (
            "id",
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.id))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let key_of = |row: &Row| key(i64::from(row.id));
    let meta = DataFileMeta {
        file_name: format!("data-{}-0.parquet", uuid::Uuid::new_v4()),
        file_size: bytes.len() as i64,
        row_count: rows.len() as i64,
        min_key: key_of(rows.first().unwrap()),
        max_key: key_of(rows.last().unwrap()),
        key_stats: stats(rows, false),
        value_stats: stats(rows, true),
        min_sequence_number: 0,
        max_sequence_number: 0,
        schema_id: 0,
        level,
        extra_files: vec![],
        creation_time_ms: None,
        delete_row_count: Some(rows.iter().filter(|row| row.kind == 3).count() as i64),
        embedded_index: None,
        file_source: None,
        value_stats_cols: None,
        external_path: None,
        first_row_id: None,
        write_cols: None,
    };
    let path = table.file_path(&[0; 12], 0, &meta).unwrap();
    crate::storage::put(table.store().as_ref(), &path, bytes)
        .await
        .unwrap();
    meta
}

/// Statistics of the key, or of all columns.
fn stats(rows: &[Row], values: bool) -> SimpleStats {
    let ids = || rows.iter().map(|row| Value::Int(row.id));
    let texts = || rows.iter().map(|row| row.value.as_bytes().to_vec());
    let row = |text: Option<Vec<u8>>, id: Option<Value>| match values {
        true => encode(
            &[Value::Bytes(text.unwrap()), id.unwrap()],
            &[DataType::String, DataType::Int],
        ),
        false => encode(&[id.unwrap()], &[DataType::Int]),
    };
    SimpleStats {
        min_values: row(texts().min(), ids().next()).unwrap(),
        max_values: row(texts().max(), ids().next_back()).unwrap(),
        null_counts: vec![Some(0); 1 + usize::from(values)],
    }
}

/// Files of a random tree, in the order of the manifest, and their rows in the order in which they
/// were written. Values are `<level>-<sequence number>`.
async fn tree(random: &mut StdRng, table: &Table) -> (Vec<DataFileMeta>, Vec<Row>) {
    let mut files = Vec::new();
    let mut all = Vec::new();
    let keys = random.random_range(10..3000usize);
    // Old data first: what is deeper is older, as in a tree.
    let mut levels: Vec<i32> = (1..=5).rev().filter(|_| random.random_bool(0.5)).collect();
    levels.extend(std::iter::repeat_n(0, random.random_range(0..12)));
    for level in levels {
        let count = random.random_range(1..=keys);
        let mut ids: Vec<i32> = sample(random, keys, count)
            .into_iter()
            .map(|id| id as i32)
            .collect();
        ids.sort_unstable();
        let first = all.len() as i64;
        let rows: Vec<Row> = ids
            .into_iter()
            .zip(first..)
            .map(|(id, sequence)| Row {
                id,
                sequence,
                kind: [0, 2, 3][random.random_range(0..3)],
                value: format!("{level}-{sequence}"),
            })
            .collect();
        let cut = if level == 0 {
            rows.len()
        } else {
            random.random_range(1..=rows.len())
        };
        for some in rows.chunks(cut) {
            files.push(write(table, level, some).await);
        }
        all.extend(rows);
    }
    // The order in the manifest says nothing where sequence numbers differ.
    if random.random_bool(0.5) {
        files.reverse();
    }
    (files, all)
}

fn split(files: Vec<DataFileMeta>) -> Split {
    Split {
        partition: vec![0; 12],
        bucket: 0,
        files,
        ..Split::default()
    }
}

async fn read(table: &Table, files: Vec<DataFileMeta>) -> Result<Vec<(i32, String)>> {
    let batches: Vec<RecordBatch> = table
        .read_bucket(&split(files), Some(&["id", "v"]))?
        .try_collect()
        .await?;
    Ok(rows_of(&batches))
}

/// Rows of batches with columns `id`, `v`.
fn rows_of(batches: &[RecordBatch]) -> Vec<(i32, String)> {
    let mut rows = Vec::new();
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int32Type>();
        let values = batch.column(1).as_string::<i32>();
        rows.extend((0..ids.len()).map(|row| (ids.value(row), values.value(row).to_owned())));
    }
    rows
}

/// Random trees against a map: levels with runs of several files, level 0, deletes, batches that
/// end anywhere.
#[tokio::test]
async fn merging_keeps_the_newest_row_of_each_key() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let table = table();
        let (files, all) = tree(&mut random, &table).await;
        let bound = random.random_range(0..=all.len() as i64);
        let mut model: BTreeMap<i32, (i64, String)> = BTreeMap::new();
        for row in all {
            match row.kind {
                3 => model.remove(&row.id),
                _ => model.insert(row.id, (row.sequence, row.value)),
            };
        }
        let rows = read(&table, files.clone()).await.unwrap();
        let all = model.iter().map(|(id, (_, value))| (*id, value.clone()));
        assert_eq!(rows, all.collect::<Vec<_>>(), "seed {seed}");
        // Those alone that nobody has written since.
        let old = table.read().columns(["id", "v"]).older_than(bound);
        let old = old.open(&split(files)).unwrap();
        let old: Vec<RecordBatch> = old.try_collect().await.unwrap();
        model.retain(|_, (sequence, _)| *sequence < bound);
        let want = model.into_iter().map(|(id, (_, value))| (id, value));
        assert_eq!(rows_of(&old), want.collect::<Vec<_>>(), "seed {seed}");
    }
}

fn row(id: i32, sequence: i64, kind: i8, value: &str) -> Row {
    Row {
        id,
        sequence,
        kind,
        value: value.into(),
    }
}

#[tokio::test]
async fn of_equal_sequence_numbers_the_later_in_the_manifest_wins() {
    let table = table();
    let first = write(&table, 0, &[row(1, 5, 0, "first"), row(2, 5, 0, "kept")]).await;
    let second = write(&table, 0, &[row(1, 5, 2, "second")]).await;
    let rows = read(&table, vec![first, second]).await.unwrap();
    assert_eq!(rows, [(1, "second".to_owned()), (2, "kept".to_owned())]);
}

#[tokio::test]
async fn deletes_of_a_file_that_stands_alone_are_dropped() {
    let table = table();
    let alone = [
        row(1, 1, 0, "a"),
        row(2, 2, 3, "b"),
        row(3, 3, 1, "c"),
        row(4, 4, 2, "d"),
    ];
    let file = write(&table, 0, &alone).await;
    let rows = read(&table, vec![file]).await.unwrap();
    assert_eq!(rows, [(1, "a".to_owned()), (4, "d".to_owned())]);
}

#[tokio::test]
async fn damaged_files_are_errors() {
    let table = table();
    let good = write(&table, 0, &[row(1, 1, 0, "a"), row(2, 1, 0, "a")]).await;
    // Keys that descend would silently lose rows in a merge.
    let unsorted = write(
        &table,
        0,
        &[row(1, 2, 0, "a"), row(3, 3, 0, "c"), row(2, 3, 0, "b")],
    )
    .await;
    assert!(matches!(
        read(&table, vec![good.clone(), unsorted]).await,
        Err(Error::Corrupt { .. })
    ));
    let mut cut = good.clone();
    cut.file_size -= 9;
    assert!(matches!(
        read(&table, vec![cut]).await,
        Err(Error::Corrupt { .. })
    ));
    let mut gone = good.clone();
    gone.file_name = "data-gone-0.parquet".into();
    let error = read(&table, vec![gone]).await.unwrap_err();
    assert!(error.to_string().contains("data-gone-0.parquet"), "{error}");
    let mut no_key = good;
    no_key.min_key = vec![1, 2, 3];
    let other = write(&table, 0, &[row(1, 1, 0, "a")]).await;
    assert!(read(&table, vec![no_key, other]).await.is_err());
}

#[test]
fn files_that_share_no_keys_stand_in_sections_of_their_own() {
    let file = |level: i32, keys: std::ops::RangeInclusive<i64>| DataFileMeta {
        level,
        min_key: key(*keys.start()),
        max_key: key(*keys.end()),
        ..crate::commit::tests::file("x", level, keys)
    };
    let files = [
        file(5, 0..=9),
        file(5, 10..=19),
        file(5, 20..=29),
        file(0, 15..=22),
        file(5, 30..=39),
        // A writer broke the rule of level 5.
        file(5, 39..=50),
        // One run of three levels; the other two share a key of it each.
        file(0, 60..=60),
        file(5, 61..=70),
        file(0, 60..=65),
        file(3, 71..=75),
        file(0, 70..=71),
    ];
    let sections = section::sections(&[DataType::Int], &files).unwrap();
    let shape: Vec<Vec<usize>> = sections
        .iter()
        .map(|section| section.iter().map(|run| run.len()).collect())
        .collect();
    assert_eq!(shape, [vec![1], vec![2, 1], vec![1, 1], vec![3, 2]]);
    let orders: HashSet<usize> = sections
        .iter()
        .flatten()
        .flatten()
        .map(|file| file.order)
        .collect();
    assert_eq!(orders.len(), files.len());
}
