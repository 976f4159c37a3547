//! Commits with compactions, overwrites and index files.

use super::*;
use crate::{
    data_file_meta::CompactIncrement,
    index_manifest::{HASH_INDEX, IndexFileMeta},
    manifest_list::ManifestFileMeta,
};

/// A compaction in bucket 0 of `before` to `after`, whose files are written.
async fn compaction(
    table: &Table,
    before: Vec<DataFileMeta>,
    after: Vec<DataFileMeta>,
) -> CommitMessage {
    for file in &after {
        let path = table.file_path(&[0; 12], 0, file).unwrap();
        crate::storage::put(table.store().as_ref(), &path, vec![1])
            .await
            .unwrap();
    }
    CommitMessage {
        compact: CompactIncrement {
            before,
            after,
            ..Default::default()
        },
        ..message(vec![])
    }
}

fn rows(mut file: DataFileMeta, rows: i64) -> DataFileMeta {
    file.row_count = rows;
    file
}

async fn exists(table: &Table, name: &str) -> bool {
    let objects = objects(table).await;
    objects.iter().any(|path| path.ends_with(name))
}

fn compacted(outcome: CommitOutcome) -> CompactOutcome {
    match outcome {
        CommitOutcome::Committed { compacted, .. }
        | CommitOutcome::AlreadyCommitted { compacted, .. } => compacted,
        other => panic!("{other:?}"),
    }
}

/// An APPEND of b and a COMPACT of a and b to c, under (u, 2).
async fn both(table: &Table) -> CommitRequest {
    table
        .commit(&request("u", 1, vec![file("a", 0, 1..=5)]))
        .await
        .unwrap();
    let before = vec![file("a", 0, 1..=5), file("b", 0, 1..=5)];
    let mut message = compaction(table, before, vec![rows(file("c", 5, 1..=5), 12)]).await;
    message.new_files = vec![file("b", 0, 1..=5)];
    message.changelog_files = vec![rows(file("changelog-b", 0, 1..=5), 7)];
    message.compact.changelog_files = vec![rows(file("changelog-c", 5, 1..=5), 3)];
    let mut request = request("u", 2, vec![]);
    request.messages = vec![message];
    request.watermark_ms = Some(9);
    request.properties.insert("k".into(), "v".into());
    request
}

async fn check_both(table: &Table) {
    assert_eq!(names(table).await, [("c".to_owned(), 5)]);
    let append = table.snapshot(2).await.unwrap().unwrap();
    let compact = table.snapshot(3).await.unwrap().unwrap();
    assert_eq!(append.commit_kind, CommitKind::Append);
    assert_eq!(compact.commit_kind, CommitKind::Compact);
    let counts = |it: &PaimonSnapshot| {
        (
            it.delta_record_count,
            it.total_record_count,
            it.changelog_record_count,
        )
    };
    assert_eq!(counts(&append), (Some(10), Some(20), Some(7)));
    assert_eq!(counts(&compact), (Some(-8), Some(12), Some(3)));
    for snapshot in [&append, &compact] {
        assert_eq!(snapshot.commit_user, "u");
        assert_eq!(snapshot.commit_identifier, 2);
        assert_eq!(snapshot.watermark, Some(9));
        assert_eq!(snapshot.properties.as_ref().unwrap()["k"], "v");
        let list = snapshot.changelog_manifest_list.as_ref().unwrap();
        let manifests: Vec<ManifestFileMeta> = table.read_manifest_list(list).await.unwrap();
        assert_eq!(manifests.len(), 1);
    }
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(latest.id, 3);
}

#[tokio::test]
async fn an_append_and_its_compaction_are_two_snapshots_of_one_commit() {
    let table = memory_table(&[]).await;
    let request = both(&table).await;
    let mut committer = TableCommitter::new(table.clone());
    let outcome = committer.commit(&request).await.unwrap();
    let done = CompactOutcome::Done {
        snapshot: 3,
        stale: 0,
    };
    assert_eq!(committed(outcome), 2);
    assert_eq!(compacted(outcome), done);
    check_both(&table).await;
    let (append, compact) = (
        table.snapshot(2).await.unwrap().unwrap(),
        table.snapshot(3).await.unwrap().unwrap(),
    );
    let id = append.base_manifest_list.strip_suffix("-0").unwrap();
    let list = |n: u32| format!("{id}-{n}");
    assert_eq!(append.delta_manifest_list, list(1));
    assert_eq!(append.changelog_manifest_list, Some(list(2)));
    assert_eq!(compact.base_manifest_list, list(3));
    assert_eq!(compact.delta_manifest_list, list(4));
    assert_eq!(compact.changelog_manifest_list, Some(list(5)));
    // Again, by the same and by another process.
    let again = CommitOutcome::AlreadyCommitted {
        snapshot: 2,
        compacted: done,
    };
    assert_eq!(committer.commit(&request).await.unwrap(), again);
    assert_eq!(table.commit(&request).await.unwrap(), again);
    check_both(&table).await;
    assert_eq!(table.find_commit("u", 2).await.unwrap(), Some(3));
}

/// The store fails at every single write, clearly or not, and the same request is made again.
#[tokio::test]
async fn a_crash_between_any_two_steps_is_made_good_by_the_same_request() {
    let writes = [
        "snapshot-2",
        "snapshot-3",
        "-0",
        "-1",
        "-2",
        "-3",
        "-4",
        "-5",
    ];
    for fault in [Fault::Refused, Fault::AnswerLost] {
        for write in writes {
            let (store, table) = faulty_table().await;
            let request = both(&table).await;
            let ending = match write.starts_with('-') {
                true => write.to_owned(),
                false => format!("snapshot/{write}"),
            };
            store.add(&ending, fault);
            let mut failed = 0;
            let outcome = loop {
                // A new process each time.
                match table.commit(&request).await {
                    Ok(outcome) => break outcome,
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
                failed += 1;
            };
            assert!(failed <= 1, "{write}");
            let done = compacted(outcome);
            assert!(matches!(done, CompactOutcome::Done { snapshot: 3, .. }));
            check_both(&table).await;
        }
    }
}

#[tokio::test]
async fn a_stale_compaction_is_dropped_and_its_files_are_deleted() {
    let table = memory_table(&[]).await;
    let request = both(&table).await;
    // Another engine compacts a while ours waits.
    let theirs = compaction(&table, vec![file("a", 0, 1..=5)], vec![file("x", 5, 1..=5)]).await;
    let mut other = super::request("other", 1, vec![]);
    other.messages = vec![theirs];
    assert_eq!(committed(table.commit(&other).await.unwrap()), 2);
    assert!(exists(&table, "/c").await);
    let outcome = table.commit(&request).await.unwrap();
    assert_eq!(committed(outcome), 3);
    assert_eq!(compacted(outcome), CompactOutcome::Stale);
    assert!(!exists(&table, "/c").await);
    assert!(exists(&table, "/x").await);
    assert_eq!(names(&table).await, [("x".into(), 5), ("b".into(), 0)]);
    // And stays so.
    assert_eq!(
        compacted(table.commit(&request).await.unwrap()),
        CompactOutcome::Stale
    );
    // Only a compaction: nothing is left to commit.
    let mut only = super::request("u", 3, vec![]);
    only.messages =
        vec![compaction(&table, vec![file("a", 0, 1..=5)], vec![file("y", 5, 1..=5)]).await];
    let before = table.latest_snapshot().await.unwrap();
    assert_eq!(table.commit(&only).await.unwrap(), CommitOutcome::Dropped);
    assert_eq!(table.latest_snapshot().await.unwrap(), before);
    assert!(!exists(&table, "/y").await);
}

#[tokio::test]
async fn compactions_that_do_not_fit_are_left_out_alone() {
    let table = memory_table(&[]).await;
    let files = vec![
        file("a", 0, 1..=5),
        file("top", 5, 10..=20),
        file("up", 0, 30..=40),
    ];
    table.commit(&request("u", 1, files)).await.unwrap();
    let cases = [
        // Its output was cleaned away.
        (file("a", 0, 1..=5), file("gone", 5, 1..=5)),
        // At another level than it says.
        (file("a", 1, 1..=5), file("l", 5, 1..=5)),
        // Its output overlaps one that stays.
        (file("a", 0, 1..=5), file("wide", 5, 1..=15)),
    ];
    for (before, after) in cases {
        let name = after.file_name.clone();
        let stale = compaction(&table, vec![before], vec![after.clone()]).await;
        if name == "gone" {
            let path = table.file_path(&[0; 12], 0, &after).unwrap();
            crate::storage::delete(table.store().as_ref(), &path)
                .await
                .unwrap();
        }
        let mut only = request("c", 1, vec![]);
        only.messages = vec![stale];
        let outcome = table.commit(&only).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Dropped, "{name}");
    }
    // An upgrade beside one that does not fit.
    let upgrade = compaction(
        &table,
        vec![file("up", 0, 30..=40)],
        vec![file("up", 5, 30..=40)],
    );
    let stale = compaction(
        &table,
        vec![file("no", 0, 1..=2)],
        vec![file("z", 5, 1..=2)],
    );
    let mut some = request("c", 2, vec![]);
    some.messages = vec![upgrade.await, stale.await];
    let outcome = table.commit(&some).await.unwrap();
    assert_eq!(
        compacted(outcome),
        CompactOutcome::Done {
            snapshot: 2,
            stale: 1
        }
    );
    assert_eq!(
        names(&table).await,
        [("a".into(), 0), ("top".into(), 5), ("up".into(), 5)]
    );
    assert!(exists(&table, "/up").await && !exists(&table, "/z").await);
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(latest.delta_record_count, Some(0));
    // A commit that replaces what is gone is a conflict.
    let mut replace = request("u", 2, vec![file("n", 0, 1..=2)]);
    replace.messages[0].deleted_files = vec![file("up", 0, 30..=40)];
    assert!(conflict(table.commit(&replace).await).contains("file up"));
}

/// A lane file in the same request lands where the compaction's output would stand.
#[tokio::test]
async fn a_lane_file_and_a_compaction_in_one_request_never_overlap() {
    let table = memory_table(&[]).await;
    table
        .commit(&request("u", 1, vec![file("a", 0, 1..=5)]))
        .await
        .unwrap();
    let mut message =
        compaction(&table, vec![file("a", 0, 1..=5)], vec![file("c", 5, 1..=5)]).await;
    message.new_files = vec![file("lane", 5, 3..=9)];
    let mut both = request("u", 2, vec![]);
    both.messages = vec![message];
    let outcome = table.commit(&both).await.unwrap();
    assert_eq!(compacted(outcome), CompactOutcome::Stale);
    assert_eq!(names(&table).await, [("a".into(), 0), ("lane".into(), 5)]);
}

fn index(name: &str) -> IndexFileMeta {
    IndexFileMeta {
        index_type: HASH_INDEX.into(),
        file_name: name.into(),
        file_size: 4,
        row_count: 1,
        dv_ranges: None,
        external_path: None,
    }
}

async fn index_names(table: &Table) -> Vec<String> {
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    let files = table.index_files(&latest).await.unwrap();
    files
        .into_iter()
        .map(|entry| entry.index_file.file_name)
        .collect()
}

#[tokio::test]
async fn index_files_are_replaced_only_by_who_knows_them() {
    let table = memory_table(&[]).await;
    let with = |n: i64, deleted: &[&str], new: &[&str]| {
        let mut request = request("u", n, vec![file(&format!("f{n}"), 0, 1..=2)]);
        let message = &mut request.messages[0];
        message.deleted_index_files = deleted.iter().copied().map(index).collect();
        message.new_index_files = new.iter().copied().map(index).collect();
        request
    };
    table.commit(&with(1, &[], &["i1"])).await.unwrap();
    assert_eq!(index_names(&table).await, ["i1"]);
    table.commit(&with(2, &[], &[])).await.unwrap();
    assert_eq!(index_names(&table).await, ["i1"], "kept");
    assert!(conflict(table.commit(&with(3, &[], &["i3"])).await).contains("i1"));
    assert!(conflict(table.commit(&with(3, &["i0"], &["i3"])).await).contains("i0"));
    table.commit(&with(3, &["i1"], &["i3"])).await.unwrap();
    assert_eq!(index_names(&table).await, ["i3"]);
    table.truncate("u", 4).await.unwrap();
    assert!(index_names(&table).await.is_empty());
}

#[tokio::test]
async fn an_overwrite_replaces_its_scope_whatever_came_meanwhile() {
    let table = memory_table(&[]).await;
    let mut early = TableCommitter::new(table.clone());
    early
        .commit(&request("u", 1, vec![file("a", 0, 1..=5)]))
        .await
        .unwrap();
    table
        .commit(&request("other", 1, vec![file("b", 5, 1..=5)]))
        .await
        .unwrap();
    let new = request("u", 2, vec![file("n", 5, 1..=9)]);
    let outcome = early.overwrite(&new, &Scope::Table).await.unwrap();
    assert_eq!(committed(outcome), 3);
    assert_eq!(names(&table).await, [("n".to_owned(), 5)]);
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(latest.commit_kind, CommitKind::Overwrite);
    assert_eq!(
        (latest.delta_record_count, latest.total_record_count),
        (Some(-10), Some(10))
    );
    assert_eq!(
        table.overwrite(&new, &Scope::Table).await.unwrap(),
        already(3)
    );
    let none = request("u", 3, vec![]);
    assert_eq!(
        table.overwrite(&none, &Scope::Touched).await.unwrap(),
        CommitOutcome::Dropped
    );
    let elsewhere = Scope::Partitions(vec![vec![9]]);
    let more = request("u", 3, vec![file("m", 0, 1..=2)]);
    let refused = table.overwrite(&more, &elsewhere).await;
    assert!(matches!(refused, Err(Error::Table { .. })));
    // The committer knows what is gone: its ranges are free again.
    table.truncate("u", 4).await.unwrap();
    let lane = request("u", 5, vec![file("l", 5, 1..=9)]);
    early.commit(&lane).await.unwrap();
    assert_eq!(names(&table).await, [("l".to_owned(), 5)]);
}
