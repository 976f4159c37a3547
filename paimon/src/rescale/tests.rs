use std::collections::BTreeMap;

use arrow_array::{RecordBatch, cast::AsArray, types::Int32Type};

use super::*;
use crate::{
    CommitKind, Schema, WriteBuffer,
    bucket::BucketAssigner,
    fixture::{Fixture, INT_COLUMNS, fixture, int_batch},
};

type Row = (i32, Option<i32>);

async fn made(primary: &[&str], partition: &[&str], options: &[(&str, &str)]) -> Fixture {
    let fixture = fixture(&INT_COLUMNS, primary, partition, options);
    let table = &fixture.table;
    table.create_schema(table.schema()).await.unwrap();
    fixture
}

async fn commit(table: &Table, identifier: i64, messages: Vec<CommitMessage>) -> Result<()> {
    let request = CommitRequest {
        user: "u".into(),
        identifier,
        messages,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    };
    table.commit(&request).await.map(|_| ())
}

/// Rows of a kind, as the next commit.
async fn write(table: &Table, rows: &[Row], kind: i8) -> Result<()> {
    let newest = table.latest_snapshot().await?.map_or(0, |it| it.id);
    let messages = match table.schema().primary_keys.is_empty() {
        true => {
            let settings = WriteSettings::default();
            let mut writer = AppendWriter::new(table.clone(), settings).await?;
            writer.write(&int_batch(rows)).await?;
            writer.prepare().await?
        }
        false => {
            let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
            let kinds = vec![kind; rows.len()];
            buffer.write(&int_batch(rows), Some(&kinds), newest * 1000)?;
            buffer.flush().await?
        }
    };
    commit(table, newest + 1, messages).await
}

/// All rows, in order; each must stand in the bucket of its key.
async fn rows(table: &Table) -> Vec<Row> {
    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    let mut rows = Vec::new();
    for split in table.scan(&snapshot).await.unwrap() {
        let live = table.live_files(&snapshot).await.unwrap();
        let of = live.iter().find(|file| file.partition == split.partition);
        let mut schema: Schema = table.schema().as_ref().clone();
        let buckets = of.unwrap().total_buckets.to_string();
        schema.options.insert("bucket".into(), buckets);
        let assigner = BucketAssigner::new(&schema).unwrap();
        let batches = table.read_bucket(&split, None).unwrap();
        let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
        for batch in batches {
            let places = assigner.assign(batch.columns()).unwrap();
            assert!(places.iter().all(|bucket| *bucket == split.bucket));
            let ids = batch.column(0).as_primitive::<Int32Type>();
            let values = batch.column(1).as_primitive::<Int32Type>();
            rows.extend(ids.iter().zip(values).map(|(id, v)| (id.unwrap(), v)));
        }
    }
    rows.sort_unstable();
    rows
}

async fn files(table: &Table) -> Vec<LiveFile> {
    table.newest_files().await.unwrap()
}

fn ids(ids: std::ops::Range<i32>, value: i32) -> Vec<Row> {
    ids.map(|id| (id, Some(value))).collect()
}

#[tokio::test]
async fn rows_move_to_more_and_to_fewer_buckets() {
    for engine in ["deduplicate", "first-row", "partial-update"] {
        let fixture = made(&["id"], &[], &[("bucket", "2"), ("merge-engine", engine)]).await;
        let mut table = fixture.table.clone();
        write(&table, &ids(0..500, 1), 0).await.unwrap();
        write(&table, &ids(300..700, 2), 0).await.unwrap();
        if engine == "deduplicate" {
            write(&table, &ids(100..120, 0), 3).await.unwrap();
        }
        let mut expected: Vec<Row> = ids(0..700, 1);
        for (id, value) in &mut expected {
            if *id >= 500 || *id >= 300 && engine != "first-row" {
                *value = Some(2);
            }
        }
        expected.retain(|(id, _)| engine != "deduplicate" || !(100..120).contains(id));
        for buckets in [3, 6, 1, 4, 2] {
            let sequences = |files: &[LiveFile]| {
                let range = |file: &LiveFile| file.meta.max_sequence_number;
                files.iter().map(range).max()
            };
            let before = files(&table).await;
            let old = table.clone();
            let done = table.rescale(buckets, None).await.unwrap();
            table = table.reload().await.unwrap();
            assert_eq!(table.schema().buckets(), buckets);
            assert_eq!(rows(&table).await, expected, "{engine}, {buckets} buckets");
            let after = files(&table).await;
            assert_eq!(after.len(), buckets as usize);
            assert!(after.iter().all(|it| it.total_buckets == buckets
                && it.meta.level == 5
                && it.meta.delete_row_count == Some(0)));
            assert_eq!(done.rows, expected.len() as i64);
            assert_eq!(done.partitions, 1);
            if engine == "deduplicate" {
                assert_eq!(
                    sequences(&after),
                    Some(1399),
                    "before: {:?}",
                    sequences(&before)
                );
            }
            let snapshot = table.latest_snapshot().await.unwrap().unwrap();
            assert_eq!(snapshot.commit_kind, CommitKind::Overwrite);
            assert_eq!(Some(snapshot.id), done.snapshot);
            assert_eq!(
                snapshot.total_record_count,
                Some(expected.len() as i64),
                "nothing of the old buckets is left"
            );
            // Once more is nothing.
            let again = table.rescale(buckets, None).await.unwrap();
            assert_eq!(again, Rescaled::default());
            // Who goes on with the old buckets is told.
            let late = write(&old, &ids(900..901, 9), 0).await.unwrap_err();
            assert!(
                late.to_string().contains("headwater table rescale"),
                "{late}"
            );
        }
        write(&table, &ids(1000..1010, 5), 0).await.unwrap();
        if engine != "first-row" {
            expected.extend(ids(1000..1010, 5));
        }
        assert_eq!(rows(&table).await, expected);
    }
}

#[tokio::test]
async fn appended_rows_move_too() {
    let fixture = made(&[], &[], &[("bucket", "2"), ("bucket-key", "id")]).await;
    let table = &fixture.table;
    for value in 0..3 {
        write(table, &ids(0..50, value), 0).await.unwrap();
    }
    let before = rows(table).await;
    assert_eq!(before.len(), 150);
    table.rescale(5, None).await.unwrap();
    let table = table.reload().await.unwrap();
    assert_eq!(rows(&table).await, before);
    write(&table, &ids(0..1, 9), 0).await.unwrap();
    assert_eq!(rows(&table).await.len(), 151);
}

#[tokio::test]
async fn partitions_are_rescaled_one_by_one() {
    let fixture = made(&["id", "v"], &["v"], &[("bucket", "1")]).await;
    let table = &fixture.table;
    for value in 1..4 {
        write(table, &ids(0..20, value), 0).await.unwrap();
    }
    let expected = rows(table).await;
    let one = [("v".to_owned(), "2".to_owned())];
    let found = table.find_partitions(&one).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(table.partition_name(&found[0]).unwrap(), "v=2");
    let unknown = [("x".to_owned(), "2".to_owned())];
    assert!(table.find_partitions(&unknown).await.is_err());
    let done = table.rescale(2, Some(&found)).await.unwrap();
    assert_eq!((done.partitions, done.rows), (1, 20));
    // As after a crash between two partitions: all is read, and who writes is told what to do.
    let table = table.reload().await.unwrap();
    assert_eq!(rows(&table).await, expected);
    write(&table, &ids(0..20, 2), 0).await.unwrap();
    let refused = write(&table, &ids(0..1, 3), 0).await.unwrap_err();
    assert!(
        refused.to_string().contains("headwater table rescale"),
        "{refused}"
    );
    let done = table.rescale(2, None).await.unwrap();
    assert_eq!((done.partitions, done.rows), (2, 40));
    write(&table, &ids(0..1, 3), 0).await.unwrap();
    assert_eq!(rows(&table).await, expected);
}

#[tokio::test]
async fn a_partition_that_changed_meanwhile_is_not_replaced() {
    let fixture = made(&["id"], &[], &[("bucket", "1")]).await;
    let table = &fixture.table;
    write(table, &ids(0..10, 1), 0).await.unwrap();
    let partition = files(table).await[0].partition.clone();
    let read = Content::of(table, &partition).await.unwrap();
    write(table, &ids(10..20, 1), 0).await.unwrap();
    let messages = super::write(table, &partition, &read).await.unwrap();
    let names = |files: &[LiveFile]| -> BTreeSet<String> {
        files.iter().map(|it| it.meta.file_name.clone()).collect()
    };
    let mut request = CommitRequest {
        user: "r".into(),
        identifier: 1,
        messages,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    };
    let mut scope = Scope::Unchanged {
        partition: partition.clone(),
        files: names(&read.files),
        index: BTreeSet::new(),
    };
    let late = table.overwrite(&request, &scope).await.unwrap_err();
    assert!(matches!(late, Error::Conflict { .. }), "{late}");
    assert_eq!(rows(table).await.len(), 20);
    table.discard(&request.messages).await;
    let read = Content::of(table, &partition).await.unwrap();
    request.messages = super::write(table, &partition, &read).await.unwrap();
    scope = Scope::Unchanged {
        partition,
        files: names(&read.files),
        index: BTreeSet::new(),
    };
    table.overwrite(&request, &scope).await.unwrap();
    assert_eq!(rows(table).await.len(), 20);
    assert_eq!(files(table).await.len(), 1);
}

#[tokio::test]
async fn rows_that_vectors_delete_do_not_come_back() {
    for bits in ["false", "true"] {
        let options = [
            ("bucket", "2"),
            ("deletion-vectors.enabled", "true"),
            ("deletion-vectors.bitmap64", bits),
        ];
        let fixture = made(&["id"], &[], &options).await;
        let mut table = fixture.table.clone();
        let compact = async |scope| {
            let settings = CompactSettings::default();
            let mut compactor = Compactor::new(table.clone(), settings).unwrap();
            let messages = compactor.run(scope, |_| true).await.unwrap();
            let newest = table.latest_snapshot().await.unwrap().unwrap().id;
            commit(&table, newest + 1, messages).await.unwrap();
        };
        // Large enough to be left alone by the next compaction.
        write(&table, &ids(0..20_000, 1), 0).await.unwrap();
        compact(CompactScope::Full).await;
        write(&table, &ids(20..40, 2), 0).await.unwrap();
        write(&table, &ids(60..70, 0), 3).await.unwrap();
        compact(CompactScope::Due).await;
        let newest = table.latest_snapshot().await.unwrap().unwrap();
        let index = table.index_files(&newest).await.unwrap();
        assert!(!index.is_empty());
        // Not yet compacted: nobody sees it.
        write(&table, &ids(80..90, 3), 0).await.unwrap();
        let mut expected = [ids(0..20, 1), ids(20..40, 2), ids(40..60, 1)].concat();
        expected.extend([ids(70..80, 1), ids(80..90, 3), ids(90..20_000, 1)].concat());
        for buckets in [3, 1, 2] {
            table.rescale(buckets, None).await.unwrap();
            table = table.reload().await.unwrap();
            assert!(rows(&table).await == expected, "{buckets} {bits}");
            let newest = table.latest_snapshot().await.unwrap().unwrap();
            assert!(table.index_files(&newest).await.unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn deletes_that_came_meanwhile_are_not_overwritten() {
    let options = [("bucket", "1"), ("deletion-vectors.enabled", "true")];
    let fixture = made(&["id"], &[], &options).await;
    let table = &fixture.table;
    write(table, &ids(0..10, 1), 0).await.unwrap();
    let partition = files(table).await[0].partition.clone();
    let read = Content::of(table, &partition).await.unwrap();
    let scope = Scope::Unchanged {
        partition,
        files: read.files.into_iter().map(|it| it.meta.file_name).collect(),
        index: BTreeSet::from(["index-of-another".to_owned()]),
    };
    let request = CommitRequest::new("r", 1, Vec::new());
    let late = table.overwrite(&request, &scope).await.unwrap_err();
    assert!(matches!(late, Error::Conflict { .. }), "{late}");
}

#[tokio::test]
async fn changes_that_await_a_compaction_are_not_lost() {
    for producer in ["lookup", "full-compaction"] {
        let options = [("bucket", "1"), ("changelog-producer", producer)];
        let fixture = made(&["id"], &[], &options).await;
        let table = &fixture.table;
        write(table, &ids(0..10, 1), 0).await.unwrap();
        table.rescale(2, None).await.unwrap();
        let table = table.reload().await.unwrap();
        let mut changes = 0;
        for id in table.snapshot_ids().await.unwrap() {
            let snapshot = table.snapshot(id).await.unwrap().unwrap();
            changes += snapshot.changelog_record_count.unwrap_or(0);
        }
        assert_eq!(changes, 10, "{producer}");
        assert_eq!(rows(&table).await, ids(0..10, 1));
        assert!(files(&table).await.iter().all(|it| it.meta.level == 5));
    }
}

#[tokio::test]
async fn tables_that_cannot_be_rescaled_say_so() {
    for (primary, options, why) in [
        (vec![], vec![("bucket", "-1")], "no buckets"),
        (vec!["id"], vec![("bucket", "-1")], "dynamic"),
        (vec!["id"], vec![("bucket", "-2")], "wait"),
    ] {
        let fixture = made(&primary, &[], &options).await;
        let error = fixture.table.rescale(2, None).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let fixture = made(&["id"], &[], &[]).await;
    assert!(fixture.table.rescale(0, None).await.is_err());
}

/// Files that wait for their commit, deletes among them, while the table is rescaled, and while
/// someone writes all of it anew with greater sequence numbers.
#[tokio::test]
async fn prepared_files_follow_the_table() {
    for (buckets, above) in [
        (3, None),
        (1, Some(99_999)),
        (2, Some(99_999)),
        (2, Some(1)),
    ] {
        let fixture = made(&["id"], &[], &[("bucket", "2")]).await;
        let table = fixture.table.clone();
        write(&table, &ids(0..200, 1), 0).await.unwrap();
        let prepared = async |rows: &[Row], kind: i8, sequence: i64| {
            let settings = WriteSettings::default();
            let mut buffer = WriteBuffer::new(table.clone(), settings).unwrap();
            let kinds = vec![kind; rows.len()];
            buffer
                .write(&int_batch(rows), Some(&kinds), sequence)
                .unwrap();
            buffer.flush().await.unwrap()
        };
        // Two files a bucket: the second is of later rows.
        let mut messages = prepared(&ids(150..250, 2), 0, 5000).await;
        messages.extend(prepared(&ids(190..195, 0), 3, 6000).await);
        messages.extend(prepared(&ids(240..242, 3), 0, 6100).await);
        if buckets != 2 {
            table.rescale(buckets, None).await.unwrap();
        }
        let table = table.reload().await.unwrap();
        let anew = table.prepare_anew(&messages, above).await.unwrap();
        let is_as_before = buckets == 2 && above == Some(1);
        assert_eq!(anew == messages, is_as_before);
        let files: Vec<_> = anew.iter().flat_map(|it| &it.new_files).collect();
        assert!(files.iter().all(|file| file.level == 0));
        let lowest = files.iter().map(|file| file.min_sequence_number).min();
        assert_eq!(
            lowest,
            Some(if above == Some(99_999) { 100_000 } else { 5000 })
        );
        assert_eq!(
            files
                .iter()
                .filter_map(|it| it.delete_row_count)
                .sum::<i64>(),
            5
        );
        commit(&table, 100, anew).await.unwrap();
        let mut expected = ids(0..150, 1);
        expected.extend(ids(150..190, 2));
        expected.extend(ids(195..250, 2));
        for row in &mut expected {
            if (240..242).contains(&row.0) {
                row.1 = Some(3);
            }
        }
        assert_eq!(rows(&table).await, expected, "{buckets} buckets, {above:?}");
    }
}

#[tokio::test]
async fn prepared_files_without_keys_are_refused() {
    let fixture = made(&[], &[], &[("bucket", "2"), ("bucket-key", "id")]).await;
    let table = fixture.table.clone();
    let settings = WriteSettings::default();
    let mut writer = AppendWriter::new(table.clone(), settings).await.unwrap();
    writer.write(&int_batch(&ids(0..20, 1))).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(table.prepare_anew(&messages, None).await.unwrap(), messages);
    table.rescale(3, None).await.unwrap();
    let table = table.reload().await.unwrap();
    let refused = table.prepare_anew(&messages, None).await;
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
}

/// What was there last is gone, and a commit that believes in it is refused; unless nothing was.
#[tokio::test]
async fn a_commit_behind_a_truncate_is_refused() {
    for empty in [false, true] {
        let fixture = made(&["id"], &[], &[("bucket", "1")]).await;
        let table = fixture.table.clone();
        write(&table, &ids(0..9, 1), 0).await.unwrap();
        if empty {
            write(&table, &ids(0..9, 1), 3).await.unwrap();
        }
        let last = table.latest_snapshot().await.unwrap().unwrap();
        table.truncate("other", 1).await.unwrap();
        let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
        buffer.write(&int_batch(&ids(3..4, 2)), None, 5000).unwrap();
        let mut request = CommitRequest::new("u", 77, buffer.flush().await.unwrap());
        request.expect = Some(crate::Expect {
            last_snapshot: Some(last.id),
            last_user: last.commit_user,
            last_identifier: last.commit_identifier,
        });
        match table.commit(&request).await {
            Ok(_) => assert!(empty),
            Err(Error::Conflict { message, .. }) => {
                assert!(
                    !empty && message.contains("took all rows away"),
                    "{message}"
                );
                let to = format!("snapshot {}", last.id);
                assert!(message.contains(&to), "{message}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
