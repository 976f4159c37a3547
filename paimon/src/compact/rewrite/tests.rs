use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, Int8Array, Int32Array, Int64Array,
    StringArray,
};
use bytes::Bytes;
use futures::executor::block_on;
use object_store::{ObjectStoreExt, path::Path};
use parquet::file::{metadata::ParquetMetaDataReader, reader::ChunkReader};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    commit::LiveFile,
    compact::{CompactScope, CompactSettings, Compactor},
    fixture::{Fixture, fixture},
};

const COLUMNS: [(&str, &str); 6] = [
    ("id", "BIGINT NOT NULL"),
    ("t", "STRING"),
    ("b", "BYTES"),
    ("d", "DATE"),
    ("m", "DECIMAL(12, 2)"),
    ("n", "INT"),
];
const FOLDER: &str = "bucket-0";
/// Of so many rows a file is larger than what is worth to be copied.
const MANY: i64 = 60_000;

/// Rows with these keys; `n` is NULL in all of them unless it is said.
fn rows(keys: std::ops::Range<i64>, n: Option<i32>, random: &mut StdRng) -> KeyValueBatch {
    let count = (keys.end - keys.start) as usize;
    let nulls = |random: &mut StdRng| random.random_ratio(1, 50);
    let mut text = |long: usize| {
        (!nulls(random)).then(|| {
            let letters = 0..random.random_range(0..long);
            letters
                .map(|_| char::from_u32(random.random_range(0x20..0x2ff)).unwrap_or('x'))
                .collect::<String>()
        })
    };
    let texts: Vec<Option<String>> = (0..count).map(|_| text(40)).collect();
    let bytes: Vec<Option<Vec<u8>>> = (0..count)
        .map(|_| Some((0..100).map(|_| random.random::<u8>()).collect()))
        .collect();
    let days = (0..count).map(|_| (!nulls(random)).then(|| random.random_range(-9000..20_000)));
    let days: Vec<Option<i32>> = days.collect();
    let money = (0..count).map(|_| Some(i128::from(random.random_range(-1_000_000..9_000_000))));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys.clone())),
        Arc::new(StringArray::from(texts)),
        Arc::new(BinaryArray::from_iter(bytes)),
        Arc::new(Date32Array::from(days)),
        Arc::new(
            Decimal128Array::from_iter(money)
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(Int32Array::from(vec![n; count])),
    ];
    KeyValueBatch {
        columns,
        sequences: Int64Array::from_iter_values(keys.map(|key| 1_000_000 - key)),
        kinds: Int8Array::from(vec![0; count]),
    }
}

struct Files {
    fixture: Fixture,
    random: StdRng,
    files: Vec<DataFileMeta>,
    batches: Vec<KeyValueBatch>,
}

impl Files {
    fn new(options: &[(&str, &str)]) -> Self {
        let seed = rand::random();
        println!("seed {seed}");
        Self {
            fixture: fixture(&COLUMNS, &["id"], &[], options),
            random: StdRng::seed_from_u64(seed),
            files: Vec::new(),
            batches: Vec::new(),
        }
    }

    fn write_file(&self, level: i32, batches: &[KeyValueBatch]) -> DataFileMeta {
        let layout = FileLayout::new(&self.fixture.table).unwrap();
        let mut writer = RollingWriter::new(&layout, format!("t.db/t/{FOLDER}"), level, 1 << 30);
        block_on(async {
            for batch in batches {
                writer.write(batch).await.unwrap();
            }
            writer.finish().await.unwrap().remove(0)
        })
    }

    fn add(&mut self, keys: std::ops::Range<i64>, n: Option<i32>) {
        let batch = rows(keys, n, &mut self.random);
        self.files
            .push(self.write_file(0, std::slice::from_ref(&batch)));
        self.batches.push(batch);
    }

    async fn compact(&self) -> Vec<DataFileMeta> {
        let files = self.files.iter().map(|meta| LiveFile {
            partition: vec![0; 12],
            bucket: 0,
            total_buckets: 1,
            meta: meta.clone(),
        });
        let table = self.fixture.table.clone();
        let mut compactor = Compactor::new(table, CompactSettings::default()).unwrap();
        let done = compactor.compact(CompactScope::Full, files.collect(), &[]);
        done.await.unwrap().remove(0).compact.after
    }

    async fn row_groups(&self, file: &DataFileMeta) -> Vec<i64> {
        let path = Path::parse(format!("t.db/t/{FOLDER}/{}", file.file_name)).unwrap();
        let bytes: Bytes = self
            .fixture
            .table
            .store()
            .get(&path)
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap();
        assert!(bytes.get_bytes(0, 4).unwrap() == "PAR1");
        let footer = ParquetMetaDataReader::new().parse_and_finish(&bytes);
        let groups = footer.unwrap();
        groups.row_groups().iter().map(|it| it.num_rows()).collect()
    }
}

/// What a file written from all the rows says of them.
fn same_metadata(copied: &DataFileMeta, written: &DataFileMeta) {
    assert_eq!(copied.row_count, written.row_count);
    assert_eq!(copied.min_key, written.min_key);
    assert_eq!(copied.max_key, written.max_key);
    assert_eq!(copied.key_stats, written.key_stats);
    assert_eq!(copied.value_stats, written.value_stats);
    assert_eq!(copied.value_stats_cols, written.value_stats_cols);
    assert_eq!(copied.min_sequence_number, written.min_sequence_number);
    assert_eq!(copied.max_sequence_number, written.max_sequence_number);
    assert_eq!(copied.delete_row_count, Some(0));
    assert_eq!(copied.file_source, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_in_order_are_copied() {
    let mut table = Files::new(&[]);
    table.add(0..MANY, None);
    table.add(MANY..MANY + 500, None); // too small: decoded
    table.add(MANY + 500..2 * MANY, Some(7));
    table.add(3 * MANY..4 * MANY, Some(-3));
    let after = table.compact().await;
    assert_eq!(after.len(), 1);
    let groups = [MANY, 500, MANY - 500, MANY];
    assert_eq!(table.row_groups(&after[0]).await, groups);
    let whole = table.write_file(5, &table.batches);
    same_metadata(&after[0], &whole);
    let read = |file| table.fixture.read(FOLDER, file);
    assert!(read(&after[0]) == read(&whole));

    // What was copied is copied again.
    table.files = after;
    table.add(2 * MANY..2 * MANY + 9, None);
    let again = table.compact().await;
    assert_eq!(
        again.iter().map(|file| file.row_count).sum::<i64>(),
        3 * MANY + 9
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_on_the_way_is_read() {
    // Rows that go, another compression, statistics that the metadata does not have.
    let mut deletes = Files::new(&[]);
    deletes.add(0..MANY, None);
    let mut batch = rows(MANY..2 * MANY, None, &mut deletes.random);
    let kinds = (0..MANY).map(|row| if row == 77 { 3 } else { 0 });
    batch.kinds = Int8Array::from_iter_values(kinds);
    deletes.files.push(deletes.write_file(0, &[batch]));
    let after = deletes.compact().await;
    assert_eq!(deletes.row_groups(&after[0]).await, [MANY, MANY - 1]);

    for options in [
        ("file.compression.per.level", "5:lz4"),
        ("metadata.stats-mode", "full"),
    ] {
        let mut table = Files::new(&[options]);
        table.add(0..MANY, None);
        table.add(MANY..2 * MANY, None);
        let after = table.compact().await;
        assert_ne!(
            table.row_groups(&after[0]).await,
            [MANY, MANY],
            "{options:?}"
        );
        same_metadata(&after[0], &table.write_file(5, &table.batches));
    }
}
