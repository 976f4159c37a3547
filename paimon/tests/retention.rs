//! Tables that Java Paimon 1.4.2 wrote, looked after by this crate: what their tags, snapshots and
//! deletion vectors need stays, and a check finds what is damaged.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, CheckRequest, CommitOutcome, CommitRequest, CompactOutcome, OrphanRequest,
    PaimonSnapshot, Retention, SnapshotRef, Table, TagRequest,
    compact::{CompactScope, CompactSettings, Compactor},
    maintain::{CheckReport, ProblemKind},
};

/// A copy of a table that may be changed.
struct Copy {
    folder: tempfile::TempDir,
    table: Table,
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

async fn table(name: &str) -> Copy {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/warehouse/java.db");
    let folder = tempfile::tempdir().unwrap();
    copy(&data.join(name), &folder.path().join("java.db").join(name));
    let catalog = Catalog::local(folder.path()).unwrap();
    let table = catalog.table("java", name).await.unwrap().unwrap();
    Copy { folder, table }
}

impl Copy {
    fn path(&self) -> PathBuf {
        let name = self.table.name().split_once('.').unwrap().1;
        self.folder.path().join("java.db").join(name)
    }

    /// Files of a folder whose names begin so, sorted.
    fn files(&self, folder: &str, prefix: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join(folder)).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| {
            file.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(prefix)
        });
        files.sort();
        files
    }

    async fn check(&self) -> CheckReport {
        self.table.check(&CheckRequest::default()).await.unwrap()
    }

    async fn kinds(&self) -> BTreeSet<ProblemKind> {
        let report = self.check().await;
        report.problems.iter().map(|problem| problem.kind).collect()
    }
}

async fn rows(table: &Table, snapshot: &PaimonSnapshot) -> Vec<String> {
    let mut rows = Vec::new();
    for split in table.scan(snapshot).await.unwrap() {
        let batches: Vec<_> = table
            .read_bucket(&split, None)
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        for batch in batches {
            let rows_of = (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1)));
            rows.extend(rows_of);
        }
    }
    rows
}

const TABLES: [&str; 9] = [
    "fixed",
    "thin",
    "partitioned",
    "types",
    "keys",
    "evolved",
    "tagged",
    "dv32",
    "changelog_input",
];

#[tokio::test]
async fn tables_of_java_are_whole_and_stay_so() {
    for name in TABLES {
        let copy = table(name).await;
        let table = &copy.table;
        let report = copy.check().await;
        assert_eq!(report.problems, [], "{name}");
        assert!(report.rows > 0 && report.files > 0, "{name}: {report:?}");
        let latest = table.latest_snapshot().await.unwrap().unwrap();
        let readable = name != "dv32" && name != "changelog_input";
        let before = match readable {
            true => rows(table, &latest).await,
            false => Vec::new(),
        };
        let policy = Retention::of(table.schema()).unwrap().keep(1);
        table.expire_snapshots(&policy).await.unwrap();
        assert_eq!(table.snapshot_ids().await.unwrap(), [latest.id]);
        let earliest = std::fs::read_to_string(copy.path().join("snapshot/EARLIEST"));
        assert_eq!(earliest.unwrap(), latest.id.to_string());
        assert_eq!(copy.check().await.problems, [], "{name} after expiry");
        if readable {
            assert_eq!(rows(table, &latest).await, before, "{name}");
        }
        // Nothing is left behind either.
        let all = OrphanRequest {
            older_than_ms: Some(now_ms()),
            force: true,
            delete: false,
        };
        let orphans = table.clean_orphans(&all).await.unwrap();
        assert_eq!(orphans.files, [], "{name}");
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_millis() as i64
}

#[tokio::test]
async fn tags_of_java_keep_what_they_show() {
    let copy = table("tagged").await;
    let table = &copy.table;
    let tags = table.tags().await.unwrap();
    let ids: Vec<_> = tags
        .iter()
        .map(|tag| (&*tag.name, tag.snapshot.id))
        .collect();
    assert_eq!(ids, [("t1", 2), ("t4", 6)]);
    let t1 = table
        .snapshot_at(&SnapshotRef::Tag("t1".into()))
        .await
        .unwrap();
    let t4 = table.snapshot_at(&SnapshotRef::Id(6)).await.unwrap();
    let before = (rows(table, &t1).await, rows(table, &t4).await);
    assert!(!before.0.is_empty() && before.0 != before.1);
    let policy = Retention::of(table.schema()).unwrap().keep(1);
    table.expire_snapshots(&policy).await.unwrap();
    assert_eq!((rows(table, &t1).await, rows(table, &t4).await), before);
    assert!(table.delete_tag("t1").await.unwrap());
    assert_eq!(rows(table, &t4).await, before.1);
    assert_eq!(copy.check().await.problems, []);
    table.rollback_to_tag("t4").await.unwrap();
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(rows(table, &latest).await, before.1);
    assert_eq!(copy.check().await.problems, []);
}

#[tokio::test]
async fn empty_folders_go_with_their_files() {
    let copy = table("partitioned").await;
    let table = &copy.table;
    let empty = copy.path().join("dt=2020-01-01/h=5/bucket-0");
    std::fs::create_dir_all(&empty).unwrap();
    std::fs::create_dir_all(copy.path().join("metadata")).unwrap();
    let request = OrphanRequest::default();
    let found = table.clean_orphans(&request).await.unwrap();
    assert_eq!(found.empty_folders.len(), 1, "{found:?}");
    assert!(empty.exists());
    let request = OrphanRequest {
        delete: true,
        ..request
    };
    table.clean_orphans(&request).await.unwrap();
    assert!(!copy.path().join("dt=2020-01-01").exists());
    assert!(copy.path().join("metadata").exists());
    assert_eq!(copy.check().await.problems, []);
}

#[tokio::test]
async fn damage_is_found_and_named() {
    use ProblemKind::*;
    let copy = table("keys").await;
    std::fs::remove_file(&copy.files("bucket-0", "data-")[0]).unwrap();
    assert_eq!(copy.kinds().await, [Missing].into());

    let copy = table("keys").await;
    let file = &copy.files("bucket-0", "data-")[0];
    let bytes = std::fs::read(file).unwrap();
    std::fs::write(file, &bytes[..bytes.len() - 9]).unwrap();
    assert_eq!(copy.kinds().await, [Unreadable, Size].into());

    // Another file of the table in its place.
    let copy = table("keys").await;
    let files = copy.files("bucket-1", "data-");
    std::fs::copy(&files[0], &files[1]).unwrap();
    let kinds = copy.kinds().await;
    assert!(kinds.contains(&Statistics), "{kinds:?}");
    assert!(kinds.contains(&Sequence), "{kinds:?}");

    let copy = table("fixed").await;
    std::fs::remove_file(&copy.files("manifest", "manifest-list")[0]).unwrap();
    assert_eq!(copy.kinds().await, [Missing].into());

    let copy = table("fixed").await;
    let snapshot = copy.path().join("snapshot/snapshot-3");
    let text = std::fs::read_to_string(&snapshot).unwrap();
    let wrong = text.replace("\"totalRecordCount\" : 8", "\"totalRecordCount\" : 9");
    assert_ne!(text, wrong, "{text}");
    std::fs::write(&snapshot, wrong).unwrap();
    assert_eq!(copy.kinds().await, [Snapshot].into());

    let copy = table("dv32").await;
    let index = &copy.files("index", "index-")[0];
    std::fs::write(index, b"\x01").unwrap();
    assert_eq!(copy.kinds().await, [Size].into());
}

#[tokio::test]
async fn orphans_are_found_when_they_are_old() {
    let copy = table("fixed").await;
    let young = copy.path().join("bucket-0/data-young.parquet");
    let old = copy.path().join("bucket-0/data-old.parquet");
    for path in [&young, &old] {
        std::fs::write(path, b"12345").unwrap();
    }
    let day = SystemTime::now() - Duration::from_secs(25 * 3600);
    let file = std::fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(day).unwrap();
    let report = copy.check().await;
    assert_eq!((report.problems.len(), report.orphans.len()), (0, 1));
    assert!(report.orphans[0].path.ends_with("data-old.parquet"));
    let request = OrphanRequest {
        delete: true,
        ..OrphanRequest::default()
    };
    let gone = copy.table.clean_orphans(&request).await.unwrap();
    assert_eq!((gone.files.len(), gone.bytes()), (1, 5));
    assert!(young.exists() && !old.exists());
    copy.table
        .create_tag("t", &TagRequest::default())
        .await
        .unwrap();
    assert_eq!(copy.check().await.problems, []);
}

/// Partitions expire after a compaction has read them and before it commits: what it did to those
/// is left out and deleted, what it did to others stays; when all are gone there is nothing to commit.
#[tokio::test]
async fn partitions_expire_while_they_are_compacted() {
    for all in [false, true] {
        let copy = table("partitioned").await;
        let table = &copy.table;
        let mut compactor = Compactor::new(table.clone(), CompactSettings::default()).unwrap();
        let messages = compactor.run(CompactScope::Full, |_| true).await.unwrap();
        assert!(messages.len() > 2, "{}", messages.len());
        // The one whose files are merged, not only moved to another level.
        let merged = messages.iter().find(|it| it.compact.before.len() > 1);
        let merged = merged.unwrap().partition.clone();
        let count = messages.len();
        let gone = match all {
            true => messages.iter().map(|it| it.partition.clone()).collect(),
            false => vec![merged.clone()],
        };
        table.drop_partitions("expiry", 1, gone).await.unwrap();
        let latest = table.latest_snapshot().await.unwrap().unwrap();
        let before = rows(table, &latest).await;

        let request = CommitRequest::new("compactor", 1, messages);
        let outcome = table.commit(&request).await.unwrap();
        match outcome {
            CommitOutcome::Dropped => assert!(all),
            CommitOutcome::Committed { compacted, .. } => {
                assert!(!all);
                let CompactOutcome::Done { stale, .. } = compacted else {
                    panic!("{compacted:?}");
                };
                assert_eq!(stale, 1, "of {count}");
            }
            other => panic!("{other:?}"),
        }
        let latest = table.latest_snapshot().await.unwrap().unwrap();
        let mut after = rows(table, &latest).await;
        let mut before = before;
        after.sort();
        before.sort();
        assert_eq!(after, before);
        assert_eq!(copy.check().await.problems, []);
        // What the stale compaction wrote is deleted.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let orphans = OrphanRequest {
            older_than_ms: Some(now_ms()),
            force: true,
            delete: false,
        };
        let orphans = table.clean_orphans(&orphans).await.unwrap();
        assert_eq!(orphans.files, []);
        // And what is left can be compacted again.
        let mut compactor = Compactor::new(table.clone(), CompactSettings::default()).unwrap();
        let messages = compactor.run(CompactScope::Full, |_| true).await.unwrap();
        if !messages.is_empty() {
            let request = CommitRequest::new("compactor", 2, messages);
            table.commit(&request).await.unwrap();
        }
        assert_eq!(copy.check().await.problems, []);
    }
}

/// A cut-off in the future would take files that are being written now; one that is too young is
/// taken only by those who insist.
#[tokio::test]
async fn orphans_of_the_future_are_refused() {
    let copy = table("fixed").await;
    let new = copy.path().join("bucket-0/data-new.parquet");
    std::fs::write(&new, b"12345").unwrap();
    let request = |older_than_ms, force| OrphanRequest {
        older_than_ms: Some(older_than_ms),
        force,
        delete: true,
    };
    let minute = 60_000;
    for (cutoff, force, word) in [
        (now_ms() + minute, false, "future"),
        (now_ms() + minute, true, "future"),
        (now_ms() - minute, false, "hour"),
    ] {
        let error = copy.table.clean_orphans(&request(cutoff, force)).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(new.exists());
    }
    let gone = copy
        .table
        .clean_orphans(&request(now_ms() - minute, true))
        .await;
    assert_eq!(gone.unwrap().files, []);
    assert!(new.exists());
}
