use super::*;
use crate::{
    BulkWriter, Catalog, CommitRequest, TableCommitter, WriteBuffer, WriteSettings,
    fixture::{INT_COLUMNS, fixture, int_batch},
};

const NO_PARTITION: [u8; 12] = [0; 12];

#[test]
fn new_keys_fill_bucket_after_bucket_and_known_ones_stay() {
    let limits = Limits {
        target_rows: 10,
        initial: 1,
        max: None,
    };
    let mut index = PartitionIndex::default();
    let assigned: Vec<i16> = (0..25)
        .map(|n| index.assign(n * 7, limits).unwrap())
        .collect();
    let expected: Vec<i16> = (0..25).map(|n| n / 10).collect();
    assert_eq!(assigned, expected);
    let again: Vec<i16> = (0..25)
        .map(|n| index.assign(n * 7, limits).unwrap())
        .collect();
    assert_eq!(again, expected);
    // Spread from the start; and never more than there may be.
    let limits = Limits {
        target_rows: 2,
        initial: 3,
        max: Some(4),
    };
    let mut index = PartitionIndex::default();
    let assigned: Vec<i16> = (0..100).map(|n| index.assign(n, limits).unwrap()).collect();
    assert_eq!(assigned[..3], [0, 1, 2]);
    assert_eq!(assigned.iter().max(), Some(&3));
    let mut full = PartitionIndex {
        open: i16::MAX,
        ..PartitionIndex::default()
    };
    for bucket in 0..i16::MAX {
        let state = full.buckets.entry(bucket).or_default();
        state.rows = 2;
    }
    let limits = Limits {
        target_rows: 2,
        initial: 1,
        max: None,
    };
    assert_eq!(full.assign(1, limits), None);
}

#[test]
fn damaged_files_are_errors() {
    assert!(decode(&[0; 7]).is_err());
    let hashes: Vec<i32> = decode(&[0, 0, 0, 5, 255, 255, 255, 255]).unwrap().collect();
    assert_eq!(hashes, [5, -1]);
}

fn commit(identifier: i64, messages: Vec<CommitMessage>) -> CommitRequest {
    CommitRequest {
        user: "u".into(),
        identifier,
        messages,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    }
}

#[tokio::test]
async fn a_key_keeps_its_bucket_over_flushes_and_restarts() {
    let options = [("bucket", "-1"), ("dynamic-bucket.target-row-num", "10")];
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &options);
    let table = &fixture.table;
    table.create_schema(table.schema()).await.unwrap();
    let mut committer = TableCommitter::new(table.clone());
    let mut sequence = 0;
    let mut write = async |buffer: &mut WriteBuffer, ids: std::ops::Range<i32>| {
        let rows: Vec<_> = ids.map(|id| (id, Some(sequence as i32))).collect();
        buffer.write(&int_batch(&rows), None, sequence).unwrap();
        sequence += rows.len() as i64;
        buffer.flush().await.unwrap()
    };
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    // Two flushes in one commit.
    let mut messages = write(&mut buffer, 0..15).await;
    messages.extend(write(&mut buffer, 5..25).await);
    committer.commit(&commit(1, messages)).await.unwrap();
    // Another process.
    let mut stale = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    let first = write(&mut stale, 30..31).await;
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    let messages = write(&mut buffer, 0..26).await;
    let buckets: Vec<i32> = messages.iter().map(|message| message.bucket).collect();
    assert!(buckets.contains(&0) && buckets.contains(&1) && buckets.contains(&2));
    committer.commit(&commit(2, messages)).await.unwrap();
    let lost = committer.commit(&commit(3, first)).await.unwrap_err();
    assert!(
        lost.to_string().contains("another writer changed"),
        "{lost}"
    );
    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    let files = table.index_files(&snapshot).await.unwrap();
    let mut counts: Vec<(i32, i64)> = files
        .iter()
        .map(|entry| (entry.bucket, entry.index_file.row_count))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(0, 10), (1, 10), (2, 6)]);
    let live = table.live_files(&snapshot).await.unwrap();
    let rows: i64 = live.iter().map(|file| file.meta.row_count).sum();
    assert_eq!(rows, 15 + 20 + 26);
    // All versions of a key are in one bucket: reading finds each key once.
    let mut ids = 0;
    for split in table.scan(&snapshot).await.unwrap() {
        use futures::TryStreamExt;
        let batches = table.read_bucket(&split, None).unwrap();
        let batches: Vec<_> = batches.try_collect().await.unwrap();
        ids += batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
    }
    assert_eq!(ids, 26);
}

#[tokio::test]
async fn partitions_that_are_committed_make_room() {
    let columns = [("p", "INT NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")];
    let fixture = fixture(&columns, &["p", "id"], &["p"], &[("bucket", "-1")]);
    let memory = IndexMemory::new(100);
    let mut assigner = DynamicBucketAssigner::within(&fixture.table, memory.clone()).unwrap();
    assigner.load(&[vec![1]]).await.unwrap();
    for hash in 0..20 {
        assigner.assign(&[1], hash).unwrap();
    }
    let error = assigner.load(&[vec![1], vec![2]]).await.unwrap_err();
    assert!(error.to_string().contains("bucket = -1"), "{error}");
    assert!(memory.is_over());
    let unknown = fixture.table.schema().buckets();
    assert_eq!(unknown, -1);
    assert!(assigner.assign(&[9], 1).is_err());
    drop(assigner);
    assert!(!memory.is_over());
    let outside = crate::fixture::fixture(&columns, &["id"], &["p"], &[("bucket", "-1")]);
    let error = DynamicBucketAssigner::new(&outside.table).unwrap_err();
    assert!(error.to_string().contains("cross-partition"), "{error}");
}

/// Rows of a snapshot and changes beside them, through two writers at once, with a foreign writer
/// between two commits: each key is in one bucket.
#[tokio::test]
async fn writers_that_share_buckets_agree() {
    let options = [("bucket", "-1"), ("dynamic-bucket.target-row-num", "7")];
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &options);
    let table = &fixture.table;
    table.create_schema(table.schema()).await.unwrap();
    let share = || SharedBuckets::new(DynamicBucketAssigner::new(table).unwrap());
    let settings = WriteSettings::default();
    let rows = |ids: std::ops::Range<i32>| {
        let rows: Vec<_> = ids.map(|id| (id, Some(id))).collect();
        int_batch(&rows)
    };
    let buckets = share();
    for number in 1..=3 {
        let from = number as i32 * 20;
        let mut bulk =
            BulkWriter::with_buckets(table.clone(), settings, 0, buckets.clone()).unwrap();
        let mut buffer =
            WriteBuffer::with_buckets(table.clone(), settings, buckets.clone()).unwrap();
        buffer
            .write(&rows(from + 5..from + 30), None, number * 100)
            .unwrap();
        let (bulk, changes) = tokio::join!(
            async {
                bulk.write(&rows(from..from + 10)).await.unwrap();
                bulk.write(&rows(from + 10..from + 20)).await.unwrap();
                bulk.finish().await.unwrap()
            },
            buffer.flush()
        );
        let mut messages = bulk;
        messages.extend(changes.unwrap());
        let partitions = [NO_PARTITION.to_vec()];
        // Somebody else adds keys that are not ours.
        let mut foreign = WriteBuffer::new(table.clone(), settings).unwrap();
        let id = 1000 + number as i32;
        foreign.write(&rows(id..id + 1), None, 1).unwrap();
        let theirs = foreign.flush().await.unwrap();
        if number < 3 {
            table.commit(&commit(100 + number, theirs)).await.unwrap();
            messages.extend(buckets.prepare(&partitions).await.unwrap());
            table
                .commit(&commit(number, messages.clone()))
                .await
                .unwrap();
        } else {
            // Behind what was prepared: refused, and made again.
            messages.extend(buckets.prepare(&partitions).await.unwrap());
            table.commit(&commit(100 + number, theirs)).await.unwrap();
            let refused = table.commit(&commit(number, messages.clone())).await;
            assert!(
                matches!(refused, Err(Error::Conflict { .. })),
                "{refused:?}"
            );
            messages = table.prepare_index_again(&messages).await.unwrap();
            table
                .commit(&commit(number, messages.clone()))
                .await
                .unwrap();
        }
    }
    assert_eq!(once_each(table).await, 20 * 3 + 10 + 3);
    // An index that knows every key, and no other.
    let assigner = share();
    let mut assigner = assigner.lock().await;
    assigner.load(&[NO_PARTITION.to_vec()]).await.unwrap();
    let indexed: u64 = assigner.partitions[&NO_PARTITION.to_vec()]
        .buckets
        .values()
        .map(|bucket| bucket.rows)
        .sum();
    assert_eq!(indexed, 73);
}

/// Rows of a table, after a look at the buckets of their keys.
async fn once_each(table: &Table) -> usize {
    use arrow_array::{cast::AsArray, types::Int32Type};
    use futures::TryStreamExt;

    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    let mut seen = std::collections::HashSet::new();
    for split in table.scan(&snapshot).await.unwrap() {
        let batches = table.read_bucket(&split, None).unwrap();
        let batches: Vec<_> = batches.try_collect().await.unwrap();
        for batch in batches {
            for id in batch.column(0).as_primitive::<Int32Type>().values() {
                assert!(seen.insert(*id), "key {id} is in two buckets");
            }
        }
    }
    seen.len()
}

/// Two writers put a key into two buckets: the second one is told, before and at its commit.
#[tokio::test]
async fn a_key_in_two_buckets_is_refused() {
    let options = [("bucket", "-1"), ("dynamic-bucket.target-row-num", "3")];
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &options);
    let table = &fixture.table;
    table.create_schema(table.schema()).await.unwrap();
    let settings = WriteSettings::default();
    for late in [false, true] {
        let from = if late { 100 } else { 0 };
        let buckets = SharedBuckets::new(DynamicBucketAssigner::new(table).unwrap());
        let mut ours = WriteBuffer::with_buckets(table.clone(), settings, buckets.clone()).unwrap();
        let rows: Vec<_> = (from..from + 10).map(|id| (id, Some(1))).collect();
        ours.write(&int_batch(&rows), None, 1).unwrap();
        let mut messages = ours.flush().await.unwrap();
        let mut theirs = WriteBuffer::new(table.clone(), settings).unwrap();
        // The last of ours is the first of theirs.
        theirs
            .write(&int_batch(&[(from + 9, Some(2))]), None, 1)
            .unwrap();
        let theirs = commit(i64::from(from) + 1, theirs.flush().await.unwrap());
        if !late {
            table.commit(&theirs).await.unwrap();
            let error = buckets.prepare(&[]).await.unwrap_err();
            assert!(
                error.to_string().contains("one writer at a time"),
                "{error}"
            );
            continue;
        }
        messages.extend(buckets.prepare(&[]).await.unwrap());
        table.commit(&theirs).await.unwrap();
        let error = table
            .commit(&commit(1000, messages.clone()))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("another writer"), "{error}");
        let error = table.prepare_index_again(&messages).await.unwrap_err();
        assert!(
            error.to_string().contains("one writer at a time"),
            "{error}"
        );
    }
}

/// Hashes of a table that Java wrote: ours of its keys are the same.
#[tokio::test]
async fn hashes_are_those_of_java() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/warehouse");
    let catalog = Catalog::local(samples).unwrap();
    let table = catalog.table("kinds", "dynamic").await.unwrap().unwrap();
    let mut assigner = DynamicBucketAssigner::new(&table).unwrap();
    assigner.load(&[NO_PARTITION.to_vec()]).await.unwrap();
    let known = assigner.memory_bytes();
    assert!(known > 0);
    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    for split in table.scan(&snapshot).await.unwrap() {
        use futures::TryStreamExt;
        let batches = table.read_bucket(&split, None).unwrap();
        let batches: Vec<_> = batches.try_collect().await.unwrap();
        for batch in batches {
            let columns = crate::placement::bind(&table, &batch).unwrap();
            let hashes = crate::bucket::key_hashes(table.schema(), &columns).unwrap();
            for hash in hashes {
                let bucket = assigner.assign(&NO_PARTITION, hash).unwrap();
                assert_eq!(bucket, split.bucket);
            }
        }
    }
    assert_eq!(assigner.memory_bytes(), known, "no key was new");
}
