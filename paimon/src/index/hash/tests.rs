use super::*;
use crate::{
    Catalog, CommitRequest, TableCommitter, WriteBuffer, WriteSettings,
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
    let mut assigner = DynamicBucketAssigner::new(&fixture.table).unwrap();
    assigner.memory_max = 10 * HASH_BYTES;
    assigner.load(&[vec![1]]).await.unwrap();
    for hash in 0..20 {
        assigner.assign(&[1], hash).unwrap();
    }
    let error = assigner.load(&[vec![2]]).await.unwrap_err();
    assert!(error.to_string().contains("hash index"), "{error}");
    let unknown = fixture.table.schema().buckets();
    assert_eq!(unknown, -1);
    assert!(assigner.assign(&[9], 1).is_err());
    let outside = crate::fixture::fixture(&columns, &["id"], &["p"], &[("bucket", "-1")]);
    let error = DynamicBucketAssigner::new(&outside.table).unwrap_err();
    assert!(error.to_string().contains("cross-partition"), "{error}");
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
