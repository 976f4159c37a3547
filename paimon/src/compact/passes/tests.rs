use std::cell::RefCell;

use arrow_array::{ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_select::concat::concat_batches;
use object_store::{ObjectStoreExt, PutPayload};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::index::sample};

use super::*;
use crate::{
    compact::{
        BucketVectors,
        options::CompactOptions,
        rewrite::{BucketPlace, Rewriter, Unit},
    },
    data_file::{FileLayout, KeyValueBatch, RollingWriter},
    data_file_meta::{CompactIncrement, DataFileMeta},
    data_type::DataType,
    fixture::{ALL_TYPES, Fixture, all_types_rows, files_of, fixture},
    write_buffer::{WriteBuffer, WriteSettings},
};

thread_local! {
    /// What the runs of each pass took together.
    pub(super) static PASSES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

const FOLDER: &str = "bucket-0";
const KEYS: usize = 150;
const PLENTY: u64 = 1 << 30;

/// Ways to merge, as table options.
const TABLES: [&[(&str, &str)]; 14] = [
    &[],
    &[("ignore-delete", "true")],
    &[("sequence.field", "c")],
    &[
        ("sequence.field", "c"),
        ("sequence.field.sort-order", "descending"),
        ("ignore-delete", "true"),
    ],
    &[
        ("merge-engine", "partial-update"),
        ("ignore-delete", "true"),
    ],
    &[
        ("merge-engine", "partial-update"),
        ("fields.c.sequence-group", "a,b"),
    ],
    &AGGREGATION,
    &[
        ("merge-engine", "first-row"),
        ("ignore-delete", "true"),
        ("changelog-producer", "lookup"),
    ],
    &[("changelog-producer", "full-compaction")],
    &[
        ("changelog-producer", "full-compaction"),
        AGGREGATION[0],
        AGGREGATION[1],
        AGGREGATION[2],
        AGGREGATION[3],
    ],
    &[("changelog-producer", "lookup"), ("sequence.field", "c")],
    &[
        ("changelog-producer", "lookup"),
        AGGREGATION[0],
        AGGREGATION[1],
        AGGREGATION[2],
        AGGREGATION[3],
    ],
    &[("deletion-vectors.enabled", "true")],
    &[
        ("deletion-vectors.enabled", "true"),
        ("changelog-producer", "lookup"),
        ("merge-engine", "partial-update"),
        ("ignore-delete", "true"),
    ],
];

/// The order of the rows decides about `b`, and retracts about `a`.
const AGGREGATION: [(&str, &str); 4] = [
    ("merge-engine", "aggregation"),
    ("fields.a.aggregate-function", "sum"),
    ("fields.b.aggregate-function", "listagg"),
    ("fields.b.ignore-retract", "true"),
];

struct Bucket {
    fixture: Fixture,
    random: StdRng,
    sequence: i64,
}

impl Bucket {
    fn new(options: &[(&str, &str)]) -> Self {
        Self::with_key("INT NOT NULL", options)
    }

    fn with_key(key_type: &str, options: &[(&str, &str)]) -> Self {
        let seed = rand::random();
        println!("seed {seed}, key {key_type}, options {options:?}");
        let columns = [
            ("id", key_type),
            ("a", "INT"),
            ("b", "STRING"),
            ("c", "INT"),
        ];
        Self {
            fixture: fixture(&columns, &["id"], &[], options),
            random: StdRng::seed_from_u64(seed),
            sequence: 0,
        }
    }

    /// Rows of these keys with values of up to so many letters; some have the sequence numbers of
    /// others.
    fn rows(&mut self, keys: &[i32], letters: usize) -> KeyValueBatch {
        let random = &mut self.random;
        let count = keys.len();
        let numbers = |random: &mut StdRng, nulls: f64| -> ArrayRef {
            let number = |_| (!random.random_bool(nulls)).then(|| random.random_range(0..9));
            Arc::new(Int32Array::from_iter((0..count).map(number)))
        };
        let (a, c) = (numbers(random, 0.3), numbers(random, 0.2));
        let mut text = |_| {
            let length = random.random_range(0..=letters);
            let letters = (0..length).map(|_| random.random_range('a'..='z'));
            let text: String = letters.collect();
            random.random_bool(0.8).then_some(text)
        };
        let texts = StringArray::from_iter((0..count).map(&mut text));
        self.sequence += random.random_range(0..3);
        let first = self.sequence;
        self.sequence += count as i64 / 2;
        let kind = |_| [0, 0, 0, 2, 2, 1, 3][random.random_range(0..7)];
        let key_column: ArrayRef = match self.fixture.table.schema().fields[0].data_type {
            DataType::Int => Arc::new(Int32Array::from(keys.to_vec())),
            // All begin with the same bytes.
            _ => Arc::new(StringArray::from_iter_values(
                keys.iter()
                    .map(|key| format!("as many bytes as a head {key:03}")),
            )),
        };
        KeyValueBatch {
            columns: vec![key_column, a, Arc::new(texts), c],
            sequences: Int64Array::from_iter_values(first..first + count as i64),
            kinds: Int8Array::from_iter_values((0..count).map(kind)),
        }
    }

    async fn write(&self, level: i32, rows: &KeyValueBatch) -> DataFileMeta {
        let layout = FileLayout::new(&self.fixture.table).unwrap();
        let folder = format!("t.db/t/{FOLDER}");
        let mut writer = RollingWriter::new(&layout, folder, level, PLENTY);
        writer.write(rows).await.unwrap();
        writer.finish().await.unwrap().remove(0)
    }

    fn some_keys(&mut self, count: usize) -> Vec<i32> {
        let keys = sample(&mut self.random, KEYS, count).into_vec();
        let mut keys: Vec<i32> = keys.into_iter().map(|key| key as i32).collect();
        keys.sort_unstable();
        keys
    }

    /// Files of a bucket: some at the top, one below, many of level 0.
    async fn files(&mut self) -> Vec<DataFileMeta> {
        let mut files = Vec::new();
        for part in 0..3 {
            let keys: Vec<i32> = (part * 50..part * 50 + 50).step_by(2).collect();
            let mut rows = self.rows(&keys, 20);
            rows.kinds = Int8Array::from(vec![0; keys.len()]);
            files.push(self.write(5, &rows).await);
        }
        let keys = self.some_keys(60);
        let mut rows = self.rows(&keys, 20);
        rows.kinds = Int8Array::from(vec![2; keys.len()]);
        files.push(self.write(4, &rows).await);
        for _ in 0..self.random.random_range(10..25) {
            let count = self.random.random_range(1..60);
            let keys = self.some_keys(count);
            let rows = self.rows(&keys, 20);
            files.push(self.write(0, &rows).await);
        }
        files
    }

    async fn compact(&self, unit: &Unit, memory_bytes: u64) -> crate::Result<CompactIncrement> {
        let table = &self.fixture.table;
        let options = CompactOptions::new(table.schema()).unwrap();
        let place = BucketPlace {
            partition: vec![0; 12],
            bucket: 0,
        };
        let rewriter = Rewriter::new(table, &options).unwrap();
        rewriter.compact(&place, unit, memory_bytes).await
    }

    /// Rows of files and of changes, and which rows above are deleted.
    async fn told(&self, done: &CompactIncrement) -> Told {
        let rows = |files: &[DataFileMeta]| {
            let rows: Vec<RecordBatch> = files
                .iter()
                .map(|file| self.fixture.read(FOLDER, file))
                .collect();
            let first = rows.first()?;
            Some(concat_batches(&first.schema(), &rows).unwrap())
        };
        let table = &self.fixture.table;
        let vectors = BucketVectors::read(table, &done.new_index_files).await;
        let vectors = vectors.unwrap().before();
        let mut deleted: Vec<(String, Vec<u64>)> = vectors
            .iter()
            .map(|(file, rows)| (file.clone(), rows.positions().collect()))
            .collect();
        deleted.sort();
        Told {
            rows: rows(&done.after),
            changes: rows(&done.changelog_files),
            deleted,
        }
    }
}

#[derive(Debug, PartialEq)]
struct Told {
    rows: Option<RecordBatch>,
    changes: Option<RecordBatch>,
    deleted: Vec<(String, Vec<u64>)>,
}

fn unit(files: &[DataFileMeta], output_level: i32) -> Unit {
    let (own, upper) = files
        .iter()
        .cloned()
        .partition(|file| file.level <= output_level);
    Unit {
        files: own,
        output_level,
        top_level: 5,
        drop_deletes: output_level == 5,
        file_by_file: false,
        upper,
        index: Vec::new(),
    }
}

fn passes() -> Vec<u64> {
    PASSES.take()
}

#[tokio::test]
async fn many_passes_make_what_one_makes() {
    for options in TABLES {
        let (mut changes, mut deleted) = (0, 0);
        for round in 0..8 {
            let key_type = match round < 6 {
                true => "INT NOT NULL",
                false => "STRING NOT NULL",
            };
            let mut bucket = Bucket::with_key(key_type, options);
            let files = bucket.files().await;
            let unit = unit(&files, if round % 2 == 0 { 5 } else { 4 });
            let before = bucket.fixture.files();
            passes();
            let one = bucket.compact(&unit, PLENTY).await.unwrap();
            assert!(passes().is_empty());
            let between = bucket.fixture.files();
            let many = bucket.compact(&unit, 9 << 10).await.unwrap();
            assert!(passes().len() > 1, "{options:?}");
            // Nothing else is left.
            assert_eq!(bucket.fixture.files() - between, between - before);
            let told = bucket.told(&one).await;
            changes += told.changes.as_ref().map_or(0, RecordBatch::num_rows);
            deleted += told.deleted.len();
            assert!(told.rows.as_ref().is_some_and(|rows| rows.num_rows() > 50));
            assert_eq!(bucket.told(&many).await, told, "{options:?}");
        }
        let has = |name: &str| options.iter().any(|(option, _)| *option == name);
        assert_eq!(changes > 0, has("changelog-producer"));
        assert_eq!(deleted > 0, has("deletion-vectors.enabled"));
    }
}

#[tokio::test]
async fn any_number_of_runs_of_wide_rows_stays_within_the_memory() {
    const MEMORY: u64 = 1 << 20;
    for options in [&[][..], &AGGREGATION] {
        let mut bucket = Bucket::new(options);
        let mut files = Vec::new();
        for _ in 0..200 {
            let keys = bucket.some_keys(8);
            let rows = bucket.rows(&keys, 20_000);
            files.push(bucket.write(0, &rows).await);
        }
        let unit = unit(&files, 5);
        passes();
        let many = bucket.compact(&unit, MEMORY).await.unwrap();
        let passes = passes();
        assert!(passes.len() > 10 && passes.len() < 150, "{passes:?}");
        let most = passes.iter().max().unwrap();
        assert!(*most <= MEMORY, "{most}");
        let one = bucket.compact(&unit, PLENTY).await.unwrap();
        assert_eq!(bucket.told(&many).await, bucket.told(&one).await);
    }
}

#[tokio::test]
async fn rows_of_all_types_are_merged_in_passes() {
    let fixture = fixture(&ALL_TYPES, &["id"], &[], &[("ignore-delete", "true")]);
    let bucket = Bucket {
        fixture,
        random: StdRng::seed_from_u64(0),
        sequence: 0,
    };
    let rows = all_types_rows();
    let mut files = Vec::new();
    for file in 0..9 {
        let first = file % 3;
        let settings = WriteSettings::default();
        let mut buffer = WriteBuffer::new(bucket.fixture.table.clone(), settings).unwrap();
        let rows = rows.slice(first, 3 - first);
        buffer.write(&rows, None, file as i64).unwrap();
        let messages = buffer.flush().await.unwrap();
        files.extend(
            files_of(&messages)
                .into_iter()
                .map(|(_, file)| file.clone()),
        );
    }
    let unit = unit(&files, 5);
    passes();
    let many = bucket.compact(&unit, 1).await.unwrap();
    assert_eq!(passes().len(), 7);
    let one = bucket.compact(&unit, PLENTY).await.unwrap();
    assert_eq!(bucket.told(&many).await, bucket.told(&one).await);
    assert_eq!(many.after.first().map(|file| file.row_count), Some(3));
}

#[tokio::test]
async fn a_pass_that_fails_leaves_nothing_behind() {
    let mut bucket = Bucket::new(&[]);
    let files = bucket.files().await;
    let unit = unit(&files, 5);
    // The last that is opened: the largest run is.
    let largest = files.iter().max_by_key(|file| file.file_size).unwrap();
    let path = Path::parse(format!("t.db/t/{FOLDER}/{}", largest.file_name)).unwrap();
    let store = bucket.fixture.table.store().clone();
    let mut bytes = store
        .get(&path)
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap()
        .to_vec();
    bytes[4..200].fill(0xff);
    store.put(&path, PutPayload::from(bytes)).await.unwrap();
    let before = bucket.fixture.files();
    passes();
    let error = bucket.compact(&unit, 9 << 10).await.unwrap_err();
    assert!(error.to_string().contains(&largest.file_name), "{error}");
    assert!(passes().len() > 1);
    assert_eq!(bucket.fixture.files(), before);
}
