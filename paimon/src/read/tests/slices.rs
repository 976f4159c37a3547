//! What is held of a file at a time does not grow with its row groups.

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{
    file::{POSITION, READ_BYTES},
    seek::matching_rows,
    *,
};
use crate::{
    index::deletion_vector::{DeletionVector, DeletionVectors, Width},
    storage::counting::Counting,
};

const ROWS: i32 = 20_000;

/// One row group of pages that are small and do not begin at the same rows, of 5 MB.
fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_write_batch_size(64)
        .set_data_page_row_count_limit(700)
        .set_data_page_size_limit(8 << 10)
        .build()
}

fn rows(ids: impl Iterator<Item = i32>, width: usize) -> Vec<Row> {
    ids.map(|id| Row {
        id,
        sequence: i64::from(id) + 7,
        kind: 0,
        // Formats pad to no such widths.
        value: "0".repeat(width) + &id.to_string(),
    })
    .collect()
}

fn counted() -> (Arc<Counting>, Table) {
    let store = Arc::new(Counting::default());
    let table = table_in(store.clone(), &[]);
    (store, table)
}

fn opener(table: &Table, memory_bytes: u64) -> FileOpener {
    FileOpener::new(table.clone(), vec![0; 12], 0).with_memory(memory_bytes)
}

/// All columns and the position.
fn wanted(table: &Table) -> Wanted {
    Wanted::new(table.schema().fields.clone(), &[SEQUENCE, POSITION])
}

/// Ids and positions, when all columns are those of the same row.
fn read(batches: &[RecordBatch]) -> Vec<(i32, i64)> {
    let mut rows = Vec::new();
    for batch in batches {
        let ids = batch.column(1).as_primitive::<Int32Type>();
        let values = batch.column(0).as_string::<i32>();
        let sequences = batch
            .column(2)
            .as_primitive::<arrow_array::types::Int64Type>();
        let positions = batch
            .column(3)
            .as_primitive::<arrow_array::types::Int64Type>();
        for row in 0..batch.num_rows() {
            let id = ids.value(row);
            assert_eq!(values.value(row).parse::<i32>().unwrap(), id);
            assert_eq!(sequences.value(row), i64::from(id) + 7);
            rows.push((id, positions.value(row)));
        }
    }
    rows
}

async fn batches(opener: &FileOpener, file: &DataFileMeta) -> Vec<RecordBatch> {
    let wanted = wanted(opener.table());
    let stream = opener.open(file, &wanted, 8192).await.unwrap();
    stream.try_collect().await.unwrap()
}

#[tokio::test]
async fn a_large_row_group_is_fetched_in_pieces_as_small_as_the_memory_says() {
    let (store, table) = counted();
    let file = write_with(&table, 0, &rows(0..ROWS, 240), properties()).await;
    let bytes = file.file_size as u64;
    let all: Vec<(i32, i64)> = (0..ROWS).map(|id| (id, i64::from(id))).collect();

    store.read();
    assert_eq!(
        read(&batches(&opener(&table, READ_BYTES), &file).await),
        all
    );
    let (total, most) = store.read();
    assert!(
        most > bytes / 2 && total < bytes * 3 / 2,
        "{most} {total} {bytes}"
    );

    for memory_bytes in [2 << 20, 512 << 10, 256 << 10] {
        let few = batches(&opener(&table, memory_bytes), &file).await;
        let (total, most) = store.read();
        assert_eq!(read(&few), all);
        assert!(most <= memory_bytes / 2, "{most} of {memory_bytes}");
        assert!(total < bytes * 2, "{total} of {bytes}");
        let largest = few.iter().map(RecordBatch::num_rows).max().unwrap();
        let row_bytes = bytes as usize / ROWS as usize;
        assert!(
            largest * row_bytes <= memory_bytes as usize / 5,
            "{largest}"
        );
    }
}

#[tokio::test]
async fn wide_rows_come_in_small_batches_and_are_merged_in_small_pieces() {
    let (_, table) = counted();
    let mut files = Vec::new();
    for file in 0..3 {
        let rows = rows((0..60).map(|id| id * 3 + file), 1 << 20);
        let properties = properties().into_builder().set_write_batch_size(1);
        files.push(write_with(&table, 0, &rows, properties.build()).await);
    }
    let opener = opener(&table, 24 << 20);
    let alone = batches(&opener, &files[0]).await;
    assert!(alone.iter().all(|batch| batch.num_rows() <= 4));

    let columns = &table.schema().fields;
    let section = sections(&plan::key_types(table.schema()), &files).unwrap();
    assert_eq!(section.len(), 1);
    let function = crate::merge::function(table.schema()).unwrap();
    let keys = plan::key_fields(table.schema());
    let section = section.into_iter().next().unwrap();
    let merge = SortedMerge::open(opener, section, columns, &keys, function);
    let mut merge = merge.await.unwrap();
    let mut next = 0;
    while let Some(merged) = merge.next().await.unwrap() {
        assert!(merged.rows.rows() <= 8);
        for id in merged.rows.columns[1].as_primitive::<Int32Type>().values() {
            assert_eq!(*id, next);
            next += 1;
        }
        assert!(merge.held_bytes() < 30 << 20, "{}", merge.held_bytes());
    }
    assert_eq!(next, 180);
}

#[tokio::test]
async fn any_rows_are_read_in_any_pieces() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (_, table) = counted();
    let file = write_with(&table, 0, &rows(0..ROWS, 240), properties()).await;
    for _ in 0..40 {
        let mut deleted = DeletionVector::new(Width::Bits32);
        let share: f64 = [0.0, 0.001, 0.3, 0.99][random.random_range(0..4)];
        for row in 0..ROWS as u64 {
            if random.random_bool(share) {
                deleted.insert(row).unwrap();
            }
        }
        let mut selected = Vec::new();
        let mut at = random.random_range(0..3000);
        let most = [3, 300, 30_000][random.random_range(0..3)];
        while at < ROWS as u64 {
            let end = (at + random.random_range(1..=most)).min(ROWS as u64);
            selected.push(at..end);
            at = end + random.random_range(1..=most);
        }
        let left: Vec<(i32, i64)> = selected
            .iter()
            .cloned()
            .flatten()
            .filter(|row| !deleted.is_deleted(*row))
            .map(|row| (row as i32, row as i64))
            .collect();
        let vectors = DeletionVectors::from([(file.file_name.clone(), deleted)]);
        let opener = opener(&table, random.random_range(1..8 << 20))
            .without_rows(Arc::new(vectors))
            .only([(file.file_name.clone(), selected)].into());
        assert_eq!(read(&batches(&opener, &file).await), left);
    }
}

#[tokio::test]
async fn of_rows_that_are_looked_up_little_more_is_read_than_the_keys() {
    let (store, table) = counted();
    let ids = (0..ROWS).map(|id| id * 2);
    let large = write_with(&table, 5, &rows(ids, 1000), properties()).await;
    let few = [
        write(&table, 0, &rows([-4, 10, 11, 9998, 39_998].into_iter(), 5)).await,
        write(
            &table,
            0,
            &rows([10, 12, 20_000, 20_001, 50_000].into_iter(), 5),
        )
        .await,
    ];
    let keys = plan::key_fields(table.schema());
    let opener = opener(&table, READ_BYTES);
    store.read();
    let others = [large.clone()];
    let selected = matching_rows(&opener, &keys, &few, &others).await.unwrap();
    let selected = selected.unwrap();
    assert_eq!(
        selected[&large.file_name],
        [5..7, 4999..5000, 10_000..10_001, 19_999..20_000]
    );
    let opener = opener.only(selected);
    let found: Vec<i32> = read(&batches(&opener, &large).await)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(found, [10, 12, 9998, 20_000, 39_998]);
    let (total, _) = store.read();
    assert!(
        total < large.file_size as u64 / 20,
        "{total} of {}",
        large.file_size
    );
    // As many keys as rows: then all is read.
    let same = matching_rows(&opener, &keys, &others, &others)
        .await
        .unwrap();
    assert!(same.is_none());
}

/// What the crate writes can be cut: its files say where pages stand.
#[tokio::test]
async fn own_files_say_where_their_pages_stand() {
    let fixture = crate::fixture::fixture(&[("id", "INT NOT NULL")], &["id"], &[], &[]);
    let layout = crate::data_file::FileLayout::new(&fixture.table).unwrap();
    let mut writer =
        crate::data_file::RollingWriter::new(&layout, "t.db/t/bucket-0".into(), 0, 1 << 30);
    let rows = crate::data_file::KeyValueBatch {
        columns: vec![Arc::new(Int32Array::from_iter_values(0..50_000))],
        sequences: Int64Array::from_iter_values(0..50_000),
        kinds: Int8Array::from_value(0, 50_000),
    };
    writer.write(&rows).await.unwrap();
    let file = writer.finish().await.unwrap().remove(0);
    let path = fixture
        .folder
        .path()
        .join("t.db/t/bucket-0")
        .join(&file.file_name);
    let reader = SerializedFileReader::new(Bytes::from(std::fs::read(path).unwrap())).unwrap();
    for group in reader.metadata().row_groups() {
        for column in group.columns() {
            assert!(column.offset_index_length().is_some_and(|bytes| bytes > 0));
        }
    }
}
