use std::collections::BTreeMap;

use arrow_array::{Int8Array, Int32Array, Int64Array, RecordBatch};
use futures::TryStreamExt;
use proptest::prelude::*;

use super::*;
use crate::{
    Split,
    data_file::{FileLayout, KeyValueBatch, RollingWriter},
    fixture::{Fixture, fixture, int_rows},
};

const COLUMNS: [(&str, &str); 2] = [("id", "INT NOT NULL"), ("v", "INT")];

/// Key, sequence number, kind, value.
type Row = (i32, i64, i8, Option<i32>);

/// A bucket of a table `id INT, v INT`, and what is in it.
struct Bucket {
    fixture: Fixture,
    files: Vec<DataFileMeta>,
    model: BTreeMap<i32, Row>,
    sequence: i64,
}

impl Bucket {
    fn new(options: &[(&str, &str)]) -> Self {
        Self {
            fixture: fixture(&COLUMNS, &["id"], &[], options),
            files: Vec::new(),
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
        let mut messages = compactor.compact(scope, self.live()).await.unwrap();
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
        let seen: Vec<(i32, Option<i32>)> = batches
            .iter()
            .flat_map(|batch| {
                let keys = column(batch, 0).into_iter().flatten();
                keys.zip(column(batch, 1)).collect::<Vec<_>>()
            })
            .collect();
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
    let mut bucket = Bucket::new(&[]);
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
    assert_eq!(bucket.files[0].row_count, 7);
}

#[tokio::test]
async fn a_writer_compacts_in_the_background_and_commits_the_sum() {
    let mut bucket = Bucket::new(&[("num-sorted-run.compaction-trigger", "2")]);
    let compactor = bucket.compactor(false);
    let mut compaction = compactor.bucket(vec![0; 12], 0, 1, Vec::new()).unwrap();
    for round in 0..4 {
        for _ in 0..3 {
            let files = bucket.write(&all(0..50, round)).await;
            compaction.add(files);
        }
        assert!(compaction.trigger(CompactScope::Due));
        assert!(compaction.is_running());
        compaction.wait().await.unwrap();
        assert_eq!(compaction.sorted_runs(), 1);
        assert!(!compaction.must_wait());
    }
    let written = bucket.files.len();
    let message = compaction.take().unwrap();
    assert!(compaction.take().is_none());
    assert_eq!(message.compact.before.len(), written);
    assert_eq!(message.compact.after.len(), 1);
    bucket.apply(&message.compact);
    bucket.check().await;
    // Nothing of the compactions in between is left.
    assert_eq!(bucket.fixture.files(), written + 1);
    compactor.discard(&[message]).await;
    assert_eq!(bucket.fixture.files(), written);
}

#[tokio::test]
async fn the_stop_trigger_makes_writers_wait() {
    let mut bucket = Bucket::new(&[("num-sorted-run.stop-trigger", "5")]);
    let compactor = bucket.compactor(false);
    let mut compaction = compactor.bucket(vec![0; 12], 0, 1, Vec::new()).unwrap();
    for _ in 0..5 {
        compaction.add(bucket.write(&[(1, Some(1))]).await);
    }
    assert!(!compaction.must_wait());
    compaction.add(bucket.write(&[(1, Some(1))]).await);
    assert!(compaction.must_wait());
    compaction.trigger(CompactScope::Due);
    compaction.abort().await;
    assert_eq!(bucket.fixture.files(), 6);
    assert!(compaction.take().is_none());
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
    let result = compactor.compact(CompactScope::Full, bucket.live()).await;
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
        let messages = compactor.compact(CompactScope::Full, live.collect());
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
