use std::collections::BTreeSet;

use object_store::{ObjectStore, memory::InMemory, path::Path};

use super::*;
use crate::{
    binary_row::{self, Value},
    data_file_meta::{DataFileMeta, SimpleStats},
    data_type::{DataField, DataType},
    manifest::FileKind,
    schema::Schema,
    snapshot::{CommitKind, PaimonSnapshot},
    storage::faulty::{Fault, Faulty},
};

pub(crate) fn schema(options: &[(&str, &str)]) -> Schema {
    let mut all = BTreeMap::from([("bucket".to_owned(), "1".to_owned())]);
    all.extend(
        options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    Schema {
        version: 3,
        id: 0,
        fields: vec![DataField {
            id: 0,
            name: "id".into(),
            data_type: DataType::Int,
            nullable: false,
            description: None,
            default_value: None,
        }],
        highest_field_id: 0,
        partition_keys: vec![],
        primary_keys: vec!["id".into()],
        options: all,
        comment: None,
        time_millis: 0,
    }
}

pub(super) async fn table(store: Arc<dyn ObjectStore>, schema: Schema) -> Table {
    let table = Table::new("db.t", store, Path::from("db.db/t"), Arc::new(schema));
    let bytes = serde_json::to_vec(table.schema().as_ref()).unwrap();
    crate::storage::put(table.store().as_ref(), &table.schema_path(0), bytes)
        .await
        .unwrap();
    table
}

async fn memory_table(options: &[(&str, &str)]) -> Table {
    table(Arc::new(InMemory::new()), schema(options)).await
}

pub(crate) fn key(value: i64) -> Vec<u8> {
    binary_row::encode(&[Value::<&[u8]>::Int(value as i32)], &[DataType::Int]).unwrap()
}

pub(crate) fn file(name: &str, level: i32, keys: std::ops::RangeInclusive<i64>) -> DataFileMeta {
    let stats = SimpleStats {
        min_values: key(*keys.start()),
        max_values: key(*keys.end()),
        null_counts: vec![Some(0)],
    };
    DataFileMeta {
        file_name: name.into(),
        file_size: 100,
        row_count: 10,
        min_key: key(*keys.start()),
        max_key: key(*keys.end()),
        key_stats: stats.clone(),
        value_stats: stats,
        min_sequence_number: 0,
        max_sequence_number: 9,
        schema_id: 0,
        level,
        extra_files: vec![],
        creation_time_ms: Some(0),
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(0),
        value_stats_cols: None,
        external_path: None,
        first_row_id: None,
        write_cols: None,
    }
}

pub(super) fn message(files: Vec<DataFileMeta>) -> CommitMessage {
    CommitMessage {
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        new_files: files,
        ..Default::default()
    }
}

fn request(user: &str, identifier: i64, files: Vec<DataFileMeta>) -> CommitRequest {
    CommitRequest {
        user: user.into(),
        identifier,
        messages: vec![message(files)],
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    }
}

fn already(snapshot: i64) -> CommitOutcome {
    CommitOutcome::AlreadyCommitted {
        snapshot,
        compacted: CompactOutcome::Nothing,
    }
}

fn committed(outcome: CommitOutcome) -> i64 {
    match outcome {
        CommitOutcome::Committed { snapshot, .. } => snapshot,
        other => panic!("{other:?}"),
    }
}

async fn names(table: &Table) -> Vec<(String, i32)> {
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    let files = table.live_files(&latest).await.unwrap();
    files
        .into_iter()
        .map(|file| (file.meta.file_name, file.meta.level))
        .collect()
}

async fn objects(table: &Table) -> BTreeSet<String> {
    use futures::TryStreamExt;
    let all: Vec<_> = table.store().list(None).try_collect().await.unwrap();
    all.into_iter()
        .map(|object| object.location.to_string())
        .collect()
}

#[tokio::test]
async fn a_commit_is_made_once() {
    let table = memory_table(&[]).await;
    let mut first = request("u", 1, vec![file("a", 0, 1..=5)]);
    first.watermark_ms = Some(50);
    first
        .properties
        .insert("headwater.position".into(), "x".into());
    assert_eq!(committed(table.commit(&first).await.unwrap()), 1);
    assert_eq!(table.commit(&first).await.unwrap(), already(1));
    let mut second = request("u", 2, vec![file("b", 0, 1..=5)]);
    second.watermark_ms = Some(40);
    assert_eq!(committed(table.commit(&second).await.unwrap()), 2);
    assert_eq!(table.commit(&first).await.unwrap(), already(1));
    assert_eq!(table.find_commit("u", 2).await.unwrap(), Some(2));
    assert_eq!(table.find_commit("other", 2).await.unwrap(), None);
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(latest.watermark, Some(50));
    assert_eq!(
        (latest.total_record_count, latest.delta_record_count),
        (Some(20), Some(10))
    );
    assert_eq!(names(&table).await, [("a".into(), 0), ("b".into(), 0)]);
    let first = table.snapshot(1).await.unwrap().unwrap();
    assert_eq!(first.properties.unwrap()["headwater.position"], "x");
}

/// Two committers, 100 commits each; every third with a file on the top level.
async fn race(store: Arc<dyn ObjectStore>) {
    let table = table(store, schema(&[])).await;
    let tasks = ["left", "right"].map(|user| {
        let mut committer = TableCommitter::new(table.clone());
        tokio::spawn(async move {
            for n in 1..=100 {
                let level = if n % 3 == 0 { 5 } else { 0 };
                let name = format!("{user}-{n}");
                let request = request(user, n, vec![file(&name, level, n * 10..=n * 10 + 5)]);
                committed(committer.commit(&request).await.unwrap());
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    let ids = table.snapshot_ids().await.unwrap();
    assert_eq!(ids, (1..=200).collect::<Vec<_>>());
    let mut seen = BTreeSet::new();
    let mut used = BTreeSet::new();
    for id in ids {
        let snapshot = table.snapshot(id).await.unwrap().unwrap();
        assert!(seen.insert((snapshot.commit_user.clone(), snapshot.commit_identifier)));
        used.insert(
            table
                .manifest_path(&snapshot.base_manifest_list)
                .to_string(),
        );
        used.insert(
            table
                .manifest_path(&snapshot.delta_manifest_list)
                .to_string(),
        );
        for meta in table.manifests(&snapshot).await.unwrap() {
            used.insert(table.manifest_path(&meta.file_name).to_string());
        }
    }
    assert_eq!(seen.len(), 200);
    let live = names(&table).await;
    assert_eq!(live.len(), 200);
    // Both write the same ranges to the top level: one of each pair had to go to level 0.
    assert_eq!(live.iter().filter(|(_, level)| *level == 5).count(), 33);
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(latest.total_record_count, Some(2000));
    assert!(
        table.manifests(&latest).await.unwrap().len() <= 31,
        "manifests are merged"
    );
    let left: BTreeSet<String> = objects(&table)
        .await
        .into_iter()
        .filter(|path| path.contains("/manifest/") && !used.contains(path))
        .collect();
    assert!(left.is_empty(), "left by lost races: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_committers_lose_nothing_in_memory() {
    race(Arc::new(InMemory::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_committers_lose_nothing_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = crate::catalog::Catalog::local(folder.path()).unwrap();
    race(catalog.store().clone()).await;
}

async fn faulty_table() -> (Arc<Faulty>, Table) {
    let store = Arc::new(Faulty::default());
    let table = table(store.clone(), schema(&[])).await;
    (store, table)
}

#[tokio::test]
async fn an_unclear_answer_is_settled_by_reading_back() {
    for fault in [Fault::AnswerLost, Fault::FoundItself] {
        let (store, table) = faulty_table().await;
        store.add("snapshot-1", fault);
        let request = request("u", 1, vec![file("a", 0, 1..=2)]);
        assert_eq!(committed(table.commit(&request).await.unwrap()), 1);
        assert_eq!(names(&table).await.len(), 1);
    }
}

#[tokio::test]
async fn a_failed_commit_can_be_made_again() {
    for what in ["manifest/manifest-", "manifest-list-", "snapshot-1"] {
        let (store, table) = faulty_table().await;
        store.add(what, Fault::Refused);
        let mut committer = TableCommitter::new(table.clone());
        let request = request("u", 1, vec![file("a", 0, 1..=2)]);
        assert!(committer.commit(&request).await.unwrap_err().is_transient());
        assert_eq!(table.latest_snapshot().await.unwrap(), None);
        assert_eq!(committed(committer.commit(&request).await.unwrap()), 1);
        assert_eq!(names(&table).await, [("a".to_owned(), 0)]);
    }
}

fn conflict(result: Result<CommitOutcome>) -> String {
    match result {
        Err(Error::Conflict { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_does_not_fit_the_table_is_refused() {
    let table = memory_table(&[]).await;
    table
        .commit(&request("u", 1, vec![file("a", 0, 1..=2)]))
        .await
        .unwrap();
    let before = objects(&table).await;
    let mut rescaled = request("u", 2, vec![file("b", 0, 1..=2)]);
    rescaled.messages[0].total_buckets = 2;
    assert!(conflict(table.commit(&rescaled).await).contains("2 buckets"));
    let mut newer = file("b", 0, 1..=2);
    newer.schema_id = 7;
    assert!(conflict(table.commit(&request("u", 2, vec![newer])).await).contains("schema 7"));
    let twice = request("other", 2, vec![file("a", 0, 1..=2)]);
    assert!(conflict(table.commit(&twice).await).contains("already"));
    assert_eq!(objects(&table).await, before, "nothing is left behind");
}

#[tokio::test]
async fn a_table_whose_files_stand_elsewhere_is_refused() {
    let table = memory_table(&[("data-file.path-directory", "data")]).await;
    let result = table
        .commit(&request("u", 1, vec![file("a", 0, 1..=2)]))
        .await;
    assert!(matches!(result, Err(Error::Unsupported(_))));
}

#[tokio::test]
async fn a_table_that_was_rolled_back_or_made_anew_is_refused() {
    let table = memory_table(&[]).await;
    let expecting = |identifier: i64, last: i64| CommitRequest {
        expect: Some(Expect {
            last_snapshot: Some(last),
            last_user: "u".into(),
            last_identifier: last,
        }),
        ..request(
            "u",
            identifier,
            vec![file(&format!("f{identifier}"), 0, 1..=2)],
        )
    };
    for n in 1..=3 {
        table
            .commit(&request("u", n, vec![file(&format!("f{n}"), 0, 1..=2)]))
            .await
            .unwrap();
    }
    let mut committer = TableCommitter::new(table.clone());
    assert_eq!(
        committed(committer.commit(&expecting(4, 3)).await.unwrap()),
        4
    );
    for id in [3, 4] {
        crate::storage::delete(table.store().as_ref(), &table.snapshot_path(id))
            .await
            .unwrap();
    }
    assert!(conflict(committer.commit(&expecting(5, 4)).await).contains("rolled"));
    // Another writer takes the numbers.
    for n in 3..=4 {
        let other = request("other", n, vec![file(&format!("o{n}"), 0, 1..=2)]);
        assert_eq!(committed(table.commit(&other).await.unwrap()), n);
    }
    assert!(conflict(committer.commit(&expecting(5, 4)).await).contains("'other'"));
    // Without an expectation it goes on from what is there.
    assert_eq!(
        committed(committer.commit(&request("u", 6, vec![])).await.unwrap()),
        5
    );
    assert_eq!(names(&table).await.len(), 4);
}

#[tokio::test]
async fn a_commit_whose_snapshot_has_expired_is_found_by_its_files() {
    let table = memory_table(&[]).await;
    let first = request("u", 1, vec![file("a", 0, 1..=2)]);
    table.commit(&first).await.unwrap();
    for n in 1..=4 {
        let other = request("other", n, vec![file(&format!("o{n}"), 0, 1..=2)]);
        table.commit(&other).await.unwrap();
    }
    for id in [1, 2] {
        crate::storage::delete(table.store().as_ref(), &table.snapshot_path(id))
            .await
            .unwrap();
    }
    assert_eq!(table.commit(&first).await.unwrap(), already(5));
    let mut committer = TableCommitter::new(table.clone());
    assert_eq!(committer.find_commit(&first).await.unwrap(), Some(5));
    let new = request("u", 2, vec![file("b", 0, 1..=2)]);
    assert_eq!(committer.find_commit(&new).await.unwrap(), None);
    assert_eq!(committed(table.commit(&new).await.unwrap()), 6);
}

/// What another engine's compaction commits: a file replaced by another.
async fn compact(table: &Table, old: DataFileMeta, new: DataFileMeta) {
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    let entry = |kind: FileKind, file: DataFileMeta| ManifestEntry {
        kind,
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        file,
    };
    let entries = Arc::new(vec![
        entry(FileKind::Delete, old),
        entry(FileKind::Add, new),
    ]);
    let delta = table
        .write_manifests(&mut Names::of("compact"), &entries, 1 << 20, 0)
        .await
        .unwrap();
    let base = table.manifests(&latest).await.unwrap();
    for (name, manifests) in [("base", &base), ("delta", &delta)] {
        table
            .write_manifest_list(name.into(), manifests)
            .await
            .unwrap();
    }
    let snapshot = PaimonSnapshot {
        id: latest.id + 1,
        base_manifest_list: "base".into(),
        delta_manifest_list: "delta".into(),
        commit_user: "compactor".into(),
        commit_kind: CommitKind::Compact,
        ..latest
    };
    let bytes = serde_json::to_vec(&snapshot).unwrap();
    crate::storage::put(
        table.store().as_ref(),
        &table.snapshot_path(snapshot.id),
        bytes,
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_commit_that_expired_and_was_compacted_away_is_found() {
    let table = memory_table(&[("manifest.merge-min-count", "3")]).await;
    let first = request("u", 1, vec![file("a", 0, 1..=2)]);
    table.commit(&first).await.unwrap();
    compact(&table, file("a", 0, 1..=2), file("a2", 5, 1..=2)).await;
    for n in 1..=2 {
        let other = request("other", n, vec![file(&format!("o{n}"), 0, 1..=2)]);
        table.commit(&other).await.unwrap();
    }
    // The newest manifests do not name the file any more.
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    let mut named = Vec::new();
    let manifests = table.manifests(&latest).await.unwrap();
    let names = |entry: ManifestEntry| entry.file.file_name;
    table
        .for_each_manifest(&manifests, |entries| {
            named.extend(entries.into_iter().map(names))
        })
        .await
        .unwrap();
    assert_eq!(named, ["a2", "o1", "o2"]);
    for id in [1, 2] {
        crate::storage::delete(table.store().as_ref(), &table.snapshot_path(id))
            .await
            .unwrap();
    }
    // The file is gone, and nothing is lost.
    assert_eq!(table.missing_files(&first.messages).await.unwrap().len(), 1);
    assert_eq!(table.find_commit("u", 1).await.unwrap(), None);
    let mut committer = TableCommitter::new(table.clone());
    assert_eq!(committer.find_commit(&first).await.unwrap(), Some(4));
    assert_eq!(committer.commit(&first).await.unwrap(), already(4));
    let new = request("u", 2, vec![file("b", 0, 1..=2)]);
    assert_eq!(committer.find_commit(&new).await.unwrap(), None);
}

/// The tail of a commit, by one who has looked before.
async fn publish(committer: &mut TableCommitter, request: &CommitRequest) -> Result<Published> {
    let change = committer.plan(request, Part::Append).await?.unwrap();
    committer
        .publish(request, change, &mut Names::new(), &mut None)
        .await
}

/// A process sleeps between looking and creating, others commit and expire: its create succeeds.
#[tokio::test]
async fn a_snapshot_made_after_its_number_expired_is_void() {
    let table = memory_table(&[]).await;
    let mut sleeper = TableCommitter::new(table.clone());
    for n in 1..=2 {
        sleeper
            .commit(&request("u", n, vec![file(&format!("f{n}"), 0, 1..=2)]))
            .await
            .unwrap();
    }
    // The sleeper has looked: what follows is the tail of its commit.
    for n in 3..=9 {
        let other = request("other", n, vec![file(&format!("o{n}"), 0, 1..=2)]);
        table.commit(&other).await.unwrap();
    }
    for id in 1..=7 {
        crate::storage::delete(table.store().as_ref(), &table.snapshot_path(id))
            .await
            .unwrap();
    }
    let late = request("u", 3, vec![file("late", 0, 1..=2)]);
    let before = objects(&table).await;
    match publish(&mut sleeper, &late).await {
        Err(Error::Conflict { message, .. }) => assert!(message.contains("withdrawn")),
        _ => panic!("the void snapshot counted"),
    }
    assert_eq!(table.snapshot_ids().await.unwrap(), [8, 9]);
    assert!(!names(&table).await.iter().any(|(name, _)| name == "late"));
    assert_eq!(objects(&table).await, before, "nothing is left behind");
    // Expired up to right before the next: still void.
    sleeper.view.snapshot.as_mut().unwrap().id = 6;
    assert!(publish(&mut sleeper, &late).await.is_err());
    assert_eq!(table.snapshot_ids().await.unwrap(), [8, 9]);
    assert_eq!(committed(sleeper.commit(&late).await.unwrap()), 10);
}

#[tokio::test]
async fn a_predecessor_that_expires_at_once_does_not_void_the_snapshot() {
    let table = memory_table(&[]).await;
    let mut committer = TableCommitter::new(table.clone());
    committer
        .commit(&request("u", 1, vec![file("a", 0, 1..=2)]))
        .await
        .unwrap();
    crate::storage::delete(table.store().as_ref(), &table.snapshot_path(1))
        .await
        .unwrap();
    let next = request("u", 2, vec![file("b", 0, 1..=2)]);
    assert!(matches!(
        publish(&mut committer, &next).await.unwrap(),
        Published::Yes(2)
    ));
    assert_eq!(names(&table).await.len(), 2);
}

#[tokio::test]
async fn a_committer_follows_others_and_knows_their_sequence_numbers() {
    let table = memory_table(&[("manifest.merge-min-count", "3")]).await;
    let mut committer = TableCommitter::new(table.clone());
    committer
        .commit(&request("u", 1, vec![file("a", 5, 1..=2)]))
        .await
        .unwrap();
    let mut foreign = file("b", 5, 3..=4);
    foreign.max_sequence_number = 500;
    table
        .commit(&request("other", 1, vec![foreign]))
        .await
        .unwrap();
    assert_eq!(committer.max_sequence_number().await.unwrap(), Some(500));
    assert_eq!(table.max_sequence_number().await.unwrap(), Some(500));
    // The range of the foreign file is known without reading all manifests again.
    let outcome = committer
        .commit(&request("u", 2, vec![file("c", 5, 4..=5)]))
        .await
        .unwrap();
    let expected = CommitOutcome::Committed {
        snapshot: 3,
        max_sequence_number: Some(500),
        compacted: CompactOutcome::Nothing,
    };
    assert_eq!(outcome, expected);
    committer
        .commit(&request("u", 3, vec![file("d", 5, 5..=6)]))
        .await
        .unwrap();
    let live = names(&table).await;
    let level = |name: &str| live.iter().find(|(other, _)| other == name).unwrap().1;
    assert_eq!((level("b"), level("c"), level("d")), (5, 0, 5));
}
