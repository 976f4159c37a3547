use std::collections::BTreeMap;

use arrow_array::{Int8Array, Int32Array, Int64Array, RecordBatch};
use futures::TryStreamExt;
use proptest::prelude::*;

use super::*;
use crate::{
    Split,
    data_file::{FileLayout, KeyValueBatch, RollingWriter},
    fixture::{Fixture, fixture, int_rows},
    index::deletion_vector::{DeletionVector, Width},
    read::DeletionFile,
};

const COLUMNS: [(&str, &str); 2] = [("id", "INT NOT NULL"), ("v", "INT")];

/// Key, sequence number, kind, value.
type Row = (i32, i64, i8, Option<i32>);

/// A bucket of a table `id INT, v INT`, and what is in it.
struct Bucket {
    fixture: Fixture,
    files: Vec<DataFileMeta>,
    index: Vec<IndexManifestEntry>,
    model: BTreeMap<i32, Row>,
    sequence: i64,
}

impl Bucket {
    fn new(options: &[(&str, &str)]) -> Self {
        Self {
            fixture: fixture(&COLUMNS, &["id"], &[], options),
            files: Vec::new(),
            index: Vec::new(),
            model: BTreeMap::new(),
            sequence: 0,
        }
    }

    fn batch(rows: &[Row]) -> KeyValueBatch {
        KeyValueBatch {
            columns: vec![
                Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0))),
                Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.3))),
            ],
            sequences: Int64Array::from_iter_values(rows.iter().map(|row| row.1)),
            kinds: Int8Array::from_iter_values(rows.iter().map(|row| row.2)),
        }
    }

    /// Rows to level 0, values `None` are deletes.
    async fn write(&mut self, values: &[(i32, Option<i32>)]) -> Vec<DataFileMeta> {
        let mut rows: BTreeMap<i32, Row> = BTreeMap::new();
        for (key, value) in values {
            self.sequence += 1;
            let kind = if value.is_some() { 0 } else { 3 };
            rows.insert(*key, (*key, self.sequence, kind, *value));
        }
        let rows: Vec<Row> = rows.into_values().collect();
        let files = self.file(0, &rows).await;
        self.files.extend(files.clone());
        files
    }

    async fn file(&mut self, level: i32, rows: &[Row]) -> Vec<DataFileMeta> {
        let layout = FileLayout::new(&self.fixture.table).unwrap();
        let mut writer = RollingWriter::new(&layout, "t.db/t/bucket-0".into(), level, 1 << 30);
        writer.write(&Self::batch(rows)).await.unwrap();
        for row in rows {
            let newest = self.model.entry(row.0).or_insert(*row);
            if row.1 > newest.1 {
                *newest = *row;
            }
        }
        writer.finish().await.unwrap()
    }

    fn live(&self) -> Vec<LiveFile> {
        let live = |meta: &DataFileMeta| LiveFile {
            partition: vec![0; 12],
            bucket: 0,
            total_buckets: 1,
            meta: meta.clone(),
        };
        self.files.iter().map(live).collect()
    }

    fn compactor(&self, keep_deletes: bool) -> Compactor {
        let settings = CompactSettings {
            keep_deletes,
            ..CompactSettings::default()
        };
        Compactor::new(self.fixture.table.clone(), settings).unwrap()
    }

    async fn compact(&mut self, scope: CompactScope) -> CompactIncrement {
        let mut compactor = self.compactor(false);
        self.compact_with(&mut compactor, scope).await
    }

    async fn compact_with(
        &mut self,
        compactor: &mut Compactor,
        scope: CompactScope,
    ) -> CompactIncrement {
        let mut messages = compactor
            .compact(scope, self.live(), &self.index)
            .await
            .unwrap();
        assert!(messages.len() <= 1);
        let done = messages.pop().map(|message| message.compact);
        let done = done.unwrap_or_default();
        self.apply(&done);
        done
    }

    /// As a commit does.
    fn apply(&mut self, done: &CompactIncrement) {
        for old in &done.before {
            let at = self.files.iter().position(|file| file == old).unwrap();
            self.files.remove(at);
        }
        self.files.extend(done.after.clone());
        for old in &done.deleted_index_files {
            let is = |entry: &IndexManifestEntry| &entry.index_file == old;
            let at = self.index.iter().position(is).unwrap();
            self.index.remove(at);
        }
        for new in &done.new_index_files {
            assert!(self.index.is_empty(), "a bucket has one");
            self.index.push(IndexManifestEntry {
                kind: crate::manifest::FileKind::Add,
                partition: vec![0; 12],
                bucket: 0,
                index_file: new.clone(),
            });
        }
    }

    fn index_files(&self) -> Vec<IndexFileMeta> {
        let files = self.index.iter().map(|entry| entry.index_file.clone());
        files.collect()
    }

    /// Where the vectors of files stand.
    fn deletions(&self) -> BTreeMap<String, DeletionFile> {
        let mut deletions = BTreeMap::new();
        for entry in &self.index {
            for range in entry.index_file.dv_ranges.iter().flatten() {
                let file = DeletionFile {
                    index_file: entry.index_file.file_name.clone(),
                    offset: range.offset,
                    length: range.length,
                    cardinality: range.cardinality,
                };
                let name = range.data_file_name.clone();
                assert!(deletions.insert(name, file).is_none());
            }
        }
        deletions
    }

    /// Rows that vectors delete, by file.
    fn deleted(&self) -> BTreeMap<String, i64> {
        let deletions = self.deletions().into_iter();
        deletions
            .map(|(file, vector)| (file, vector.cardinality.unwrap()))
            .collect()
    }

    fn rows(&self, file: &DataFileMeta) -> Vec<Row> {
        let batch = self.fixture.read("bucket-0", file);
        int_rows(&batch)
    }

    /// What a reader sees is what was written, and levels are what the format says.
    async fn check(&self) {
        let split = Split {
            partition: vec![0; 12],
            bucket: 0,
            files: self.files.clone(),
            deletions: self.deletions(),
        };
        let batches: Vec<RecordBatch> = self
            .fixture
            .table
            .read_bucket(&split, None)
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        let column = |batch: &RecordBatch, at: usize| {
            let column = batch.column(at).as_any();
            let column = column.downcast_ref::<Int32Array>().unwrap();
            column.iter().collect::<Vec<_>>()
        };
        let mut seen: Vec<(i32, Option<i32>)> = batches
            .iter()
            .flat_map(|batch| {
                let keys = column(batch, 0).into_iter().flatten();
                keys.zip(column(batch, 1)).collect::<Vec<_>>()
            })
            .collect();
        if self.fixture.table.schema().options.contains_key(VECTORS.0) {
            // Files are read one after the other.
            seen.sort_unstable();
        }
        let live = self.model.values().filter(|row| row.2 == 0);
        let expected: Vec<_> = live.map(|row| (row.0, row.3)).collect();
        assert_eq!(seen, expected);
        self.check_levels();
    }

    fn check_levels(&self) {
        let mut ranges: BTreeMap<i32, Vec<(i32, i32)>> = BTreeMap::new();
        for file in &self.files {
            let rows = self.rows(file);
            assert_eq!(file.row_count, rows.len() as i64);
            let deletes = rows.iter().filter(|row| row.2 == 3).count();
            assert_eq!(file.delete_row_count, Some(deletes as i64));
            for row in &rows {
                let newest = self.model.get(&row.0).unwrap();
                assert!(row.1 < newest.1 || row == newest, "a row nobody wrote");
            }
            if file.level > 0 {
                let range = (rows[0].0, rows.last().unwrap().0);
                ranges.entry(file.level).or_default().push(range);
            }
        }
        for ranges in ranges.values_mut() {
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }

    fn levels(&self) -> Vec<i32> {
        let mut levels: Vec<i32> = self.files.iter().map(|file| file.level).collect();
        levels.sort_unstable();
        levels
    }
}

fn all(keys: std::ops::Range<i32>, value: i32) -> Vec<(i32, Option<i32>)> {
    keys.map(|key| (key, Some(value))).collect()
}

#[tokio::test]
async fn runs_become_one_file_without_deletes_and_superseded_rows() {
    let mut bucket = Bucket::new(&[]);
    bucket.write(&all(0..10, 1)).await;
    bucket.write(&[(3, None), (4, Some(7))]).await;
    bucket.write(&[(20, None)]).await;
    let nothing = bucket.compact(CompactScope::Due).await;
    assert!(nothing.is_empty(), "three runs are not too many");
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!((done.before.len(), done.after.len()), (3, 1));
    let file = &done.after[0];
    assert_eq!((file.level, file.file_source), (5, Some(1)));
    let rows = bucket.rows(file);
    assert_eq!(rows.len(), 9);
    assert!(rows.contains(&(4, 12, 0, Some(7))), "{rows:?}");
    assert!(rows.contains(&(9, 10, 0, Some(1))), "sequence numbers stay");
    bucket.check().await;
    assert!(bucket.compact(CompactScope::Full).await.is_empty());
}

#[tokio::test]
async fn deletes_stay_while_older_rows_are_below() {
    let mut bucket = Bucket::new(&[("compaction.max-size-amplification-percent", "200")]);
    bucket.write(&all(0..2000, 1)).await;
    bucket.compact(CompactScope::Full).await;
    // By size ratio, above a large run.
    for key in 0..5 {
        bucket.write(&[(key, None)]).await;
    }
    let done = bucket.compact(CompactScope::Due).await;
    assert_eq!((done.before.len(), done.after.len()), (5, 1));
    assert_eq!(done.after[0].level, 4);
    assert_eq!(done.after[0].delete_row_count, Some(5));
    bucket.check().await;
    bucket.compact(CompactScope::Full).await;
    assert_eq!(bucket.levels(), [5]);
    assert_eq!(bucket.files[0].row_count, 1995);
    bucket.check().await;
}

#[tokio::test]
async fn a_bucket_of_deletes_becomes_empty() {
    let mut bucket = Bucket::new(&[]);
    bucket.write(&[(1, None)]).await;
    bucket.write(&[(1, None)]).await;
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!((done.before.len(), done.after.len()), (2, 0));
    assert!(bucket.files.is_empty());
    assert_eq!(bucket.fixture.files(), 2, "no empty file is written");
}

#[tokio::test]
async fn large_files_that_overlap_nothing_only_change_level() {
    // All files are large.
    let mut bucket = Bucket::new(&[("target-file-size", "1 b")]);
    bucket.write(&all(0..10, 1)).await;
    bucket.write(&all(10..20, 1)).await;
    bucket.write(&all(20..30, 1)).await;
    bucket.write(&[(25, Some(2))]).await;
    bucket.write(&[(40, None), (41, Some(1))]).await;
    let names: Vec<String> = bucket
        .files
        .iter()
        .map(|file| file.file_name.clone())
        .collect();
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!(done.before.len(), 5);
    let moved: Vec<&DataFileMeta> = done
        .after
        .iter()
        .filter(|file| names.contains(&file.file_name))
        .collect();
    assert_eq!(moved.len(), 2, "not the file with a delete");
    assert!(
        moved
            .iter()
            .all(|file| (file.level, file.file_source) == (5, Some(0)))
    );
    bucket.check().await;
    assert_eq!(bucket.levels(), [5, 5, 5, 5]);
}

#[tokio::test]
async fn the_top_level_is_left_alone_while_older_rows_are_to_come() {
    let mut bucket = Bucket::new(&[("num-sorted-run.compaction-trigger", "2")]);
    let mut compactor = bucket.compactor(true);
    bucket.write(&[(1, None)]).await;
    bucket.write(&[(2, None), (3, Some(3))]).await;
    let done = bucket
        .compact_with(&mut compactor, CompactScope::Full)
        .await;
    assert_eq!(done.after[0].level, 1, "levels are 0, 1 and the top");
    assert_eq!(done.after[0].delete_row_count, Some(2));
    // A chunk with rows that are older, straight at the top level.
    let chunk: Vec<Row> = (0..9).map(|key| (key, 0, 0, Some(0))).collect();
    let chunk = bucket.file(2, &chunk).await;
    bucket.files.extend(chunk.clone());
    bucket.check().await;
    bucket.write(&[(4, None)]).await;
    let done = bucket
        .compact_with(&mut compactor, CompactScope::Full)
        .await;
    assert!(!done.is_empty() && !done.before.contains(&chunk[0]));
    bucket.check().await;
    bucket.compact(CompactScope::Full).await;
    bucket.check().await;
    assert_eq!(bucket.files[0].row_count, 6);
}

#[tokio::test]
async fn a_compaction_that_fails_leaves_nothing_behind() {
    let mut bucket = Bucket::new(&[]);
    for value in 0..3 {
        bucket.write(&all(0..100, value)).await;
    }
    let lost = bucket.files[1].file_name.clone();
    let folder = bucket.fixture.folder.path().join("t.db/t/bucket-0");
    std::fs::remove_file(folder.join(&lost)).unwrap();
    let mut compactor = bucket.compactor(false);
    let result = compactor
        .compact(CompactScope::Full, bucket.live(), &[])
        .await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains(&lost), "{error}");
    assert_eq!(bucket.fixture.files(), 2);
}

#[tokio::test]
async fn a_full_compaction_says_what_changed_since_the_last() {
    let options = [("changelog-producer", "full-compaction")];
    let mut bucket = Bucket::new(&options);
    bucket.write(&[(1, Some(1)), (2, Some(2)), (3, None)]).await;
    let done = bucket.compact(CompactScope::Full).await;
    let changes = |bucket: &Bucket, done: &CompactIncrement| -> Vec<(i32, i8, Option<i32>)> {
        let files = done.changelog_files.iter();
        assert!(
            files
                .clone()
                .all(|file| file.file_name.starts_with("changelog-"))
        );
        let rows = files.flat_map(|file| bucket.rows(file));
        rows.map(|row| (row.0, row.2, row.3)).collect()
    };
    assert_eq!(changes(&bucket, &done), [(1, 0, Some(1)), (2, 0, Some(2))]);
    bucket.write(&[(1, Some(1)), (4, None)]).await;
    bucket.write(&[(2, None), (4, Some(4)), (5, None)]).await;
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!(
        changes(&bucket, &done),
        [
            (1, 1, Some(1)),
            (1, 2, Some(1)),
            (2, 3, Some(2)),
            (4, 0, Some(4))
        ]
    );
    bucket.check().await;
}

#[tokio::test]
async fn files_that_only_move_to_the_top_are_in_the_changelog() {
    let options = [
        ("changelog-producer", "full-compaction"),
        ("changelog-producer.row-deduplicate", "true"),
        ("target-file-size", "1 b"),
    ];
    let mut bucket = Bucket::new(&options);
    bucket.write(&[(1, Some(1))]).await;
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!(done.before[0].file_name, done.after[0].file_name);
    assert_eq!(bucket.rows(&done.changelog_files[0]), [(1, 1, 0, Some(1))]);
    // Equal rows are no change.
    bucket.write(&[(1, Some(1))]).await;
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!((done.before.len(), done.changelog_files.len()), (2, 0));
    bucket.write(&[(1, Some(2))]).await;
    let done = bucket.compact(CompactScope::Full).await;
    let rows = bucket.rows(&done.changelog_files[0]);
    assert_eq!(rows, [(1, 2, 1, Some(1)), (1, 3, 2, Some(2))]);
}

#[tokio::test]
async fn files_of_an_append_table_are_put_together_in_order() {
    let options = [("compaction.min.file-num", "2"), ("bucket-key", "id")];
    for buckets in ["1", "-1"] {
        let mut options = options.to_vec();
        options.push(("bucket", buckets));
        if buckets == "-1" {
            options.remove(1);
        }
        let fixture = fixture(&COLUMNS, &[], &[], &options);
        let layout = FileLayout::new(&fixture.table).unwrap();
        let mut files = Vec::new();
        for n in 0..3i64 {
            let mut writer = RollingWriter::new(&layout, "t.db/t/bucket-0".into(), 0, 1 << 30);
            let rows: Vec<Row> = (0..4)
                .map(|at| (n as i32, n * 4 + at, 0, Some(at as i32)))
                .collect();
            writer.write(&Bucket::batch(&rows)).await.unwrap();
            files.extend(writer.finish().await.unwrap());
        }
        assert_eq!(files[0].min_key, vec![0; 12]);
        assert_eq!(fixture.read("bucket-0", &files[0]).num_columns(), 2);
        let live = files.iter().map(|meta| LiveFile {
            partition: vec![0; 12],
            bucket: 0,
            total_buckets: buckets.parse().unwrap(),
            meta: meta.clone(),
        });
        let table = fixture.table.clone();
        let mut compactor = Compactor::new(table, CompactSettings::default()).unwrap();
        let messages = compactor.compact(CompactScope::Full, live.collect(), &[]);
        let messages = messages.await.unwrap();
        let done = &messages[0].compact;
        assert_eq!((done.before.len(), done.after.len()), (3, 1));
        let file = &done.after[0];
        assert_eq!((file.level, file.file_source), (0, Some(1)));
        assert_eq!(
            (file.min_sequence_number, file.max_sequence_number),
            (0, 11)
        );
        let batch = fixture.read("bucket-0", file);
        let keys = batch.column(0).as_any().downcast_ref::<Int32Array>();
        let expected = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
        assert_eq!(keys.unwrap().values().to_vec(), expected);
    }
}

fn changes(bucket: &Bucket, done: &CompactIncrement) -> Vec<(i32, i8, Option<i32>)> {
    let files = done.changelog_files.iter();
    let rows = files.flat_map(|file| bucket.rows(file));
    rows.map(|row| (row.0, row.2, row.3)).collect()
}

#[tokio::test]
async fn level_0_is_compared_with_what_is_above_for_a_lookup_changelog() {
    for target in ["128 mb", "1 b"] {
        let mut bucket = Bucket::new(&[
            ("changelog-producer", "lookup"),
            ("changelog-producer.row-deduplicate", "true"),
            ("target-file-size", target),
        ]);
        bucket.write(&all(0..1000, 1)).await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(changes(&bucket, &done).len(), 1000);
        assert_eq!(bucket.levels(), [5], "level 0 is emptied at once");
        bucket
            .write(&[
                (1, Some(1)),
                (2, Some(2)),
                (3, None),
                (2000, None),
                (2001, Some(1)),
            ])
            .await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(
            changes(&bucket, &done),
            [
                (2, 1, Some(1)),
                (2, 2, Some(2)),
                (3, 3, Some(1)),
                (2001, 0, Some(1))
            ]
        );
        assert_eq!(bucket.levels(), [4, 5], "the large file above stays");
        bucket.write(&[(2, Some(3)), (3, Some(4)), (4, None)]).await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(
            changes(&bucket, &done),
            [
                (2, 1, Some(2)),
                (2, 2, Some(3)),
                (3, 0, Some(4)),
                (4, 3, Some(1))
            ]
        );
        bucket.check().await;
        let done = bucket.compact(CompactScope::Full).await;
        assert!(
            done.changelog_files.is_empty(),
            "nothing comes from level 0"
        );
        bucket.check().await;
    }
}

#[tokio::test]
async fn a_first_row_stays_the_only_one_of_its_key() {
    for target in ["128 mb", "1 b"] {
        let mut bucket = Bucket::new(&[
            ("merge-engine", "first-row"),
            ("changelog-producer", "lookup"),
            ("target-file-size", target),
        ]);
        bucket.write(&all(0..1000, 1)).await;
        bucket.compact(CompactScope::Due).await;
        bucket.write(&[(1, Some(2)), (2000, Some(2))]).await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(changes(&bucket, &done), [(2000, 0, Some(2))]);
        assert_eq!(bucket.levels(), [4, 5]);
        bucket.write(&[(1, Some(3)), (2000, Some(3))]).await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(changes(&bucket, &done), []);
        let mut rows: Vec<Row> = bucket
            .files
            .iter()
            .flat_map(|file| bucket.rows(file))
            .collect();
        rows.sort_unstable();
        let keys: Vec<i32> = rows.iter().map(|row| row.0).collect();
        let expected: Vec<i32> = (0..1000).chain([2000]).collect();
        assert_eq!(keys, expected, "readers do not merge levels");
        assert_eq!(rows[1].3, Some(1));
        assert_eq!(rows[1000].3, Some(2));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(i32, Option<i32>)>),
    Compact(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let row = (0..60i32, proptest::option::weighted(0.8, 0..9i32));
    prop_oneof![
        3 => proptest::collection::vec(row, 1..40).prop_map(Step::Write),
        2 => any::<u8>().prop_map(|full| Step::Compact(full < 40)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn compacting_changes_nothing_that_a_reader_sees(
        steps in proptest::collection::vec(step(), 1..25),
        trigger in 1..4i32,
        target in prop_oneof![Just("1 b"), Just("2000 b"), Just("128 mb")],
        keep_deletes in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let trigger = trigger.to_string();
        runtime.block_on(async {
            let mut bucket = Bucket::new(&[
                ("num-sorted-run.compaction-trigger", &trigger),
                ("num-levels", "5"),
                ("target-file-size", target),
            ]);
            let mut compactor = bucket.compactor(keep_deletes);
            for step in &steps {
                match step {
                    Step::Write(rows) => {
                        bucket.write(rows).await;
                    }
                    Step::Compact(full) => {
                        let scope = if *full { CompactScope::Full } else { CompactScope::Due };
                        bucket.compact_with(&mut compactor, scope).await;
                        let top = if keep_deletes { 3 } else { 4 };
                        prop_assert!(bucket.files.iter().all(|file| file.level <= top));
                        if *full && !keep_deletes {
                            let is_done = |file: &DataFileMeta| {
                                (file.level, file.delete_row_count) == (top, Some(0))
                            };
                            prop_assert!(bucket.files.iter().all(is_done));
                        }
                        if keep_deletes {
                            // Whoever was written last is still there, deletes too.
                            let mut newest: BTreeMap<i32, Row> = BTreeMap::new();
                            for row in bucket.files.iter().flat_map(|file| bucket.rows(file)) {
                                let entry = newest.entry(row.0).or_insert(row);
                                if row.1 > entry.1 {
                                    *entry = row;
                                }
                            }
                            prop_assert_eq!(&newest, &bucket.model);
                        }
                    }
                }
                bucket.check().await;
            }
            Ok(())
        })?;
    }
}

const VECTORS: (&str, &str) = ("deletion-vectors.enabled", "true");

#[tokio::test]
async fn rows_above_are_deleted_by_vectors() {
    for (target, wide) in [("128 mb", "false"), ("1 b", "true")] {
        let mut bucket = Bucket::new(&[
            VECTORS,
            ("deletion-vectors.bitmap64", wide),
            ("target-file-size", target),
            ("changelog-producer", "lookup"),
        ]);
        bucket.write(&all(0..1000, 1)).await;
        bucket.compact(CompactScope::Due).await;
        assert_eq!((bucket.levels(), bucket.index.len()), (vec![5], 0));
        let top = bucket.files[0].file_name.clone();
        bucket.write(&[(3, Some(2)), (7, Some(2))]).await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(changes(&bucket, &done).len(), 4);
        assert_eq!(bucket.levels(), [4, 5]);
        assert_eq!(bucket.deleted(), [(top.clone(), 2)].into());
        let vectors = bucket.index_files();
        let vectors = bucket.fixture.table.read_deletion_vectors(&vectors[0]);
        let vectors = vectors.await.unwrap();
        assert_eq!(vectors[&top].positions().collect::<Vec<_>>(), [3, 7]);
        bucket.check().await;
        // A delete leaves nothing but its position in the vectors.
        bucket.write(&[(3, None), (8, None), (5000, None)]).await;
        let done = bucket.compact(CompactScope::Due).await;
        assert_eq!(changes(&bucket, &done), [(3, 3, Some(2)), (8, 3, Some(1))]);
        assert_eq!(done.deleted_index_files.len(), 1);
        assert_eq!(bucket.deleted()[&top], 3);
        bucket.check().await;
        bucket.compact(CompactScope::Full).await;
        // Rows are merged in pieces, and where the target is a byte each is a file.
        assert!(bucket.levels().iter().all(|level| *level == 5));
        assert!(bucket.index.is_empty());
        let rows = bucket.files.iter().map(|file| file.row_count);
        assert_eq!(rows.sum::<i64>(), 998);
        bucket.check().await;
        assert!(bucket.compact(CompactScope::Full).await.is_empty());
    }
}

#[tokio::test]
async fn a_full_compaction_rewrites_top_files_with_deleted_rows_only() {
    let mut bucket = Bucket::new(&[VECTORS, ("target-file-size", "1 b")]);
    for keys in [0..1000, 1000..2000] {
        bucket.write(&all(keys, 1)).await;
        bucket.compact(CompactScope::Full).await;
    }
    assert_eq!(bucket.levels(), [5, 5]);
    bucket.write(&[(5, None)]).await;
    let done = bucket.compact(CompactScope::Due).await;
    assert_eq!((done.before.len(), done.after.len()), (1, 0));
    assert_eq!(bucket.deleted().len(), 1);
    bucket.check().await;
    let done = bucket.compact(CompactScope::Full).await;
    assert_eq!((done.before.len(), done.after.len()), (1, 1));
    assert_eq!(done.after[0].row_count, 999);
    assert!(bucket.index.is_empty());
    bucket.check().await;
}

/// A chunk of a snapshot that must stand on level 0 has older rows than what was compacted before.
#[tokio::test]
async fn rows_that_come_late_delete_no_newer_ones() {
    let mut bucket = Bucket::new(&[VECTORS, ("target-file-size", "1 b")]);
    bucket.sequence = 10_000;
    bucket.write(&all(0..1000, 1)).await;
    bucket.compact(CompactScope::Due).await;
    let chunk: Vec<Row> = (990..1010).map(|key| (key, 0, 0, Some(0))).collect();
    let chunk = bucket.file(0, &chunk).await;
    bucket.files.extend(chunk);
    bucket.compact(CompactScope::Due).await;
    assert_eq!(bucket.levels(), [4, 5]);
    bucket.check().await;
}

#[tokio::test]
async fn deleted_rows_of_append_tables_are_left_out() {
    for buckets in ["1", "-1"] {
        let mut options = vec![VECTORS, ("bucket", buckets)];
        if buckets == "1" {
            options.push(("bucket-key", "id"));
        }
        let fixture = fixture(&COLUMNS, &[], &[], &options);
        let layout = FileLayout::new(&fixture.table).unwrap();
        let mut files = Vec::new();
        for n in 0..2 {
            let mut writer = RollingWriter::new(&layout, "t.db/t/bucket-0".into(), 0, 1 << 30);
            let rows: Vec<Row> = (0..10).map(|at| (n, at, 0, Some(at as i32))).collect();
            writer.write(&Bucket::batch(&rows)).await.unwrap();
            files.extend(writer.finish().await.unwrap());
        }
        let vector = |rows: &[u64]| {
            let mut vector = DeletionVector::new(Width::Bits32);
            rows.iter()
                .for_each(|row| assert!(vector.insert(*row).unwrap()));
            vector
        };
        let names = [0, 1].map(|at: usize| files[at].file_name.clone());
        let vectors = [
            (names[0].clone(), vector(&[0, 4, 9])),
            (names[1].clone(), vector(&[5])),
        ];
        let index = fixture.table.write_deletion_vectors(vectors.into());
        let index = index.await.unwrap();
        let entries: Vec<IndexManifestEntry> = index
            .iter()
            .map(|file| IndexManifestEntry {
                kind: crate::manifest::FileKind::Add,
                partition: vec![0; 12],
                bucket: 0,
                index_file: file.clone(),
            })
            .collect();
        let live = files.iter().map(|meta| LiveFile {
            partition: vec![0; 12],
            bucket: 0,
            total_buckets: buckets.parse().unwrap(),
            meta: meta.clone(),
        });
        let settings = CompactSettings::default();
        let mut compactor = Compactor::new(fixture.table.clone(), settings).unwrap();
        let messages = compactor.compact(CompactScope::Due, live.collect(), &entries);
        let done = &messages.await.unwrap()[0].compact;
        assert_eq!(done.deleted_index_files, index);
        let batch = fixture.read("bucket-0", &done.after[0]);
        let values = batch.column(1).as_any().downcast_ref::<Int32Array>();
        let values = values.unwrap().values().to_vec();
        match buckets {
            // Without buckets both are small, and put together.
            "-1" => {
                assert_eq!((done.before.len(), done.new_index_files.len()), (2, 0));
                assert_eq!(values.len(), 16);
            }
            _ => {
                assert_eq!(done.before, files[..1]);
                assert_eq!(values, [1, 2, 3, 5, 6, 7, 8]);
                let left = done.new_index_files[0].dv_ranges.as_ref().unwrap();
                assert_eq!((left.len(), &left[0].data_file_name), (1, &names[1]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn readers_need_not_merge_where_vectors_delete(
        steps in proptest::collection::vec(step(), 1..25),
        trigger in 1..4i32,
        target in prop_oneof![Just("1 b"), Just("2000 b"), Just("128 mb")],
        wide in any::<bool>(),
        changelog in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let trigger = trigger.to_string();
        runtime.block_on(async {
            let mut bucket = Bucket::new(&[
                VECTORS,
                ("deletion-vectors.bitmap64", if wide { "true" } else { "false" }),
                ("changelog-producer", if changelog { "lookup" } else { "none" }),
                ("num-sorted-run.compaction-trigger", &trigger),
                ("num-levels", "5"),
                ("target-file-size", target),
            ]);
            // A large bottom, which small compactions leave where it is.
            bucket.write(&all(0..60, 1)).await;
            bucket.write(&all(1000..3000, 1)).await;
            let mut compactor = bucket.compactor(false);
            bucket.compact_with(&mut compactor, CompactScope::Full).await;
            for step in &steps {
                let full = match step {
                    Step::Write(rows) => {
                        bucket.write(rows).await;
                        continue;
                    }
                    Step::Compact(full) => *full,
                };
                let scope = if full { CompactScope::Full } else { CompactScope::Due };
                let done = bucket.compact_with(&mut compactor, scope).await;
                prop_assert!(bucket.files.iter().all(|file| file.level > 0));
                prop_assert!(bucket.files.iter().all(|file| file.delete_row_count == Some(0)));
                prop_assert!(changelog || done.changelog_files.is_empty());
                if full {
                    prop_assert!(bucket.index.is_empty());
                }
                // What vectors leave is there once: nothing was merged to count it.
                let names: Vec<&str> =
                    bucket.files.iter().map(|file| file.file_name.as_str()).collect();
                let deleted = bucket.deleted();
                prop_assert!(deleted.keys().all(|name| names.contains(&name.as_str())));
                let rows: i64 = bucket.files.iter().map(|file| file.row_count).sum();
                let live = bucket.model.values().filter(|row| row.2 == 0).count();
                prop_assert_eq!(rows - deleted.values().sum::<i64>(), live as i64);
                bucket.check().await;
            }
            Ok(())
        })?;
    }
}
