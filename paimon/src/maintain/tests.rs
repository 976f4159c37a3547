use std::{collections::BTreeSet, sync::Arc, time::Duration};

use object_store::memory::InMemory;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    history::{Change, History},
    *,
};
use crate::{error::Error, storage::faulty::Faulty, table::Table};

fn keep(table: &Table, snapshots: i64) -> Retention {
    Retention::of(table.schema()).unwrap().keep(snapshots)
}

/// Twelve snapshots: appends, compactions, an upgrade, changelog and index files.
async fn busy(store: Arc<dyn object_store::ObjectStore>, options: &[(&str, &str)]) -> History {
    let mut history = History::new(store, options).await;
    for round in 0..4 {
        let names: Vec<String> = ["a", "b", "up"]
            .iter()
            .map(|name| format!("{name}{round}"))
            .collect();
        let change = |n: usize, level| (names[n].as_str(), level);
        let changes = [format!("c{round}"), format!("d{round}")];
        history
            .commit(Change {
                add: vec![change(0, 0), change(2, 0)],
                changelog: vec![&changes[0]],
                ..Change::default()
            })
            .await;
        history
            .commit(Change {
                add: vec![change(1, 0)],
                changelog: vec![&changes[1]],
                index: round % 2 == 0,
                ..Change::default()
            })
            .await;
        let merged = format!("m{round}");
        let before = format!("m{}", round - 1);
        let mut delete = vec![names[0].as_str(), names[1].as_str(), names[2].as_str()];
        if round > 0 {
            delete.push(&before);
        }
        history
            .commit(Change {
                add: vec![(&merged, 5), change(2, 4)],
                delete,
                index: true,
                ..Change::default()
            })
            .await;
    }
    history
}

#[tokio::test]
async fn expiry_leaves_what_is_needed_and_nothing_else() {
    for kept in [1, 2, 5, 11, 12, 20] {
        let history = busy(Arc::new(InMemory::new()), &[]).await;
        let table = &history.table;
        let expired = table.expire_snapshots(&keep(table, kept)).await.unwrap();
        let left = kept.min(12);
        assert_eq!(expired.snapshots as i64, 12 - left);
        assert_eq!(table.snapshot_ids().await.unwrap().len() as i64, left);
        assert_eq!(history.unneeded().await, BTreeSet::new(), "{kept} kept");
        let again = table.expire_snapshots(&keep(table, kept)).await.unwrap();
        assert_eq!(again, Expired::default());
    }
}

#[tokio::test]
async fn numbers_ages_limits_and_consumers_hold_snapshots() {
    let options = [
        ("snapshot.num-retained.min", "2"),
        ("snapshot.num-retained.max", "6"),
        ("snapshot.time-retained", "3 s"),
        ("snapshot.expire.limit", "4"),
        ("consumer.expiration-time", "1 d"),
    ];
    let history = busy(Arc::new(InMemory::new()), &options).await;
    let table = &history.table;
    let policy = Retention::of(table.schema()).unwrap();
    history.consumer(3).await;
    // The twelfth was made at 12 s.
    table.expire_at(&policy, 12_000).await.unwrap();
    assert_eq!(table.snapshot_ids().await.unwrap()[0], 3);
    history.consumer(100).await;
    table.expire_at(&policy, 12_000).await.unwrap();
    assert_eq!(table.snapshot_ids().await.unwrap()[0], 7, "the limit");
    // 8 was the newest until 9 s, three seconds ago.
    table.expire_at(&policy, 12_000).await.unwrap();
    assert_eq!(table.snapshot_ids().await.unwrap()[0], 8, "the age");
    history.consumer(1).await;
    let day = 86_400_000 + crate::schema::now_ms();
    let expired = table.expire_at(&policy, day + 20_000).await.unwrap();
    assert_eq!(expired.consumers, ["c"]);
    assert_eq!(table.snapshot_ids().await.unwrap(), [11, 12], "the minimum");
    assert_eq!(history.unneeded().await, BTreeSet::new());
}

#[tokio::test]
async fn who_waits_for_a_tag_finds_its_success_file() {
    let options = [("tag.create-success-file", "true")];
    let history = busy(Arc::new(InMemory::new()), &options).await;
    let table = &history.table;
    table.create_tag("t", &TagRequest::default()).await.unwrap();
    let path = table.success_path("t");
    assert!(path.as_ref().ends_with("tag/tag-success-file/t_SUCCESS"));
    let store = table.store().as_ref();
    let text = crate::storage::read(store, &path).await.unwrap();
    let text: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert!(text["creationTime"].as_i64() > Some(0));
    assert_eq!(table.tags().await.unwrap().len(), 1);
    table.delete_tag("t").await.unwrap();
    assert!(!crate::storage::exists(store, &path).await.unwrap());
}

#[tokio::test]
async fn tags_and_branches_keep_their_files() {
    let history = busy(Arc::new(InMemory::new()), &[]).await;
    let table = &history.table;
    for id in [2, 5, 6, 9] {
        let request = TagRequest {
            snapshot: Some(id),
            ..TagRequest::default()
        };
        table.create_tag(&format!("t{id}"), &request).await.unwrap();
    }
    table.create_branch("b", Some("t5")).await.unwrap();
    table.expire_snapshots(&keep(table, 1)).await.unwrap();
    history.needed(0).await;
    assert_eq!(history.unneeded().await, BTreeSet::new());
    // The branch keeps what its tag kept.
    for name in ["t6", "t5", "t2"] {
        assert!(table.delete_tag(name).await.unwrap());
        history.needed(0).await;
        assert_eq!(history.unneeded().await, BTreeSet::new(), "{name}");
    }
    assert!(!table.delete_tag("t2").await.unwrap());
    table.rename_tag("t9", "nine").await.unwrap();
    assert!(table.rename_tag("t9", "x").await.is_err());
    assert_eq!(table.tags().await.unwrap()[0].name, "nine");
    assert_eq!(table.branches().await.unwrap(), ["b"]);
    table.delete_branch("b").await.unwrap();
    table.delete_tag("nine").await.unwrap();
    // What only the branch needed is left to orphan cleaning.
    let all = OrphanRequest {
        older_than_ms: Some(crate::schema::now_ms()),
        force: true,
        delete: true,
    };
    tokio::time::sleep(Duration::from_millis(5)).await;
    let all = OrphanRequest {
        older_than_ms: Some(crate::schema::now_ms()),
        ..all
    };
    assert!(!table.clean_orphans(&all).await.unwrap().files.is_empty());
    assert_eq!(history.unneeded().await, BTreeSet::new());
    history.needed(0).await;
}

#[tokio::test]
async fn a_name_is_given_once() {
    let history = busy(Arc::new(InMemory::new()), &[]).await;
    let table = &history.table;
    let on = |snapshot, ignore_if_exists| TagRequest {
        snapshot: Some(snapshot),
        ignore_if_exists,
        ..TagRequest::default()
    };
    table.create_tag("t", &on(3, false)).await.unwrap();
    assert!(table.create_tag("t", &on(4, true)).await.is_err());
    table.create_tag("t", &on(3, true)).await.unwrap();
    for wrong in ["", " ", "a/b"] {
        assert!(table.create_tag(wrong, &on(3, false)).await.is_err());
    }
    let error = table.create_tag("u", &on(99, false)).await.unwrap_err();
    assert!(error.to_string().contains("snapshot 99"), "{error}");
    table.expire_snapshots(&keep(table, 1)).await.unwrap();
    // It has expired, and lives on in the other tag.
    table.create_tag("again", &on(3, false)).await.unwrap();
    table.delete_tag("t").await.unwrap();
    history.needed(0).await;
    table.delete_tag("again").await.unwrap();
    assert_eq!(history.unneeded().await, BTreeSet::new());
}

#[tokio::test]
async fn tags_end_with_their_time() {
    let history = busy(
        Arc::new(InMemory::new()),
        &[("tag.default-time-retained", "2 h")],
    )
    .await;
    let table = &history.table;
    table
        .create_tag("two", &TagRequest::default())
        .await
        .unwrap();
    let long = TagRequest {
        time_retained: Some(Duration::from_secs(4 * 3600)),
        ..TagRequest::default()
    };
    table.create_tag("four", &long).await.unwrap();
    assert_eq!(table.expire_tags().await.unwrap(), Vec::<String>::new());
    let later = tag::local_now() + jiff::SignedDuration::from_hours(3);
    assert_eq!(table.expire_tags_at(later).await.unwrap(), ["two"]);
    assert_eq!(table.tags().await.unwrap()[0].name, "four");
}

#[tokio::test]
async fn changelogs_outlive_their_snapshots() {
    for producer in ["none", "input"] {
        let options = [
            ("changelog-producer", producer),
            ("changelog.num-retained.max", "2147483647"),
            ("changelog.time-retained", "1 d"),
        ];
        let history = busy(Arc::new(InMemory::new()), &options).await;
        let table = &history.table;
        let policy = Retention {
            snapshots_min: 2,
            snapshots_max: 2,
            changelogs_min: 2,
            ..Retention::of(table.schema()).unwrap()
        };
        assert!(policy.changelog_is_decoupled());
        let expired = table.expire_at(&policy, 12_000).await.unwrap();
        assert_eq!((expired.snapshots, expired.changelogs), (10, 0));
        history.needed(0).await;
        // All but the newest one go with their time.
        let late = Retention {
            changelog_age_max: Duration::from_secs(5),
            snapshot_age_max: Duration::ZERO,
            ..policy
        };
        let expired = table.expire_at(&late, 12_000).await.unwrap();
        assert_eq!(expired.changelogs, 6, "{producer}");
        history.needed(0).await;
        let expired = table.expire_at(&late, 1_000_000).await.unwrap();
        assert_eq!(expired.changelogs, 3, "{producer}");
        history.needed(0).await;
        if producer == "input" {
            assert_eq!(history.unneeded().await, BTreeSet::new());
        }
    }
}

async fn crash_scene(store: &Arc<Faulty>, options: &[(&str, &str)]) -> History {
    let history = busy(store.clone(), options).await;
    let on = |snapshot| TagRequest {
        snapshot: Some(snapshot),
        ..TagRequest::default()
    };
    history.table.create_tag("t4", &on(4)).await.unwrap();
    history.table.create_tag("t8", &on(8)).await.unwrap();
    history.table.create_branch("b", Some("t4")).await.unwrap();
    history.table.delete_tag("t4").await.unwrap();
    history
}

/// Dies at every call of an expiry: nothing that is needed is gone, and the next one ends it.
#[tokio::test]
async fn an_expiry_may_die_anywhere() {
    for options in [
        &[][..],
        &[
            ("changelog.num-retained.min", "11"),
            ("changelog-producer", "input"),
        ],
    ] {
        let scene = Arc::new(Faulty::default());
        let before = crash_scene(&scene, options).await;
        let policy = keep(&before.table, 3);
        let store = Arc::new(scene.fork());
        let history = before.on(store.clone());
        store.die_after(1 << 40);
        history.table.expire_snapshots(&policy).await.unwrap();
        let calls = store.calls(1 << 40);
        store.revive();
        let whole = history.objects().await;
        let mut failed = 0;
        for call in 0..calls {
            let store = Arc::new(scene.fork());
            let history = before.on(store.clone());
            store.die_after(call);
            let result = history.table.expire_snapshots(&policy).await;
            failed += usize::from(result.is_err());
            store.revive();
            // With changelogs that outlive them the first one goes too.
            history.needed_from(10, 2).await;
            history.table.expire_snapshots(&policy).await.unwrap();
            assert_eq!(history.objects().await, whole, "died at call {call}");
            history.needed(0).await;
        }
        assert!(failed > 50, "{failed} of {calls}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_may_expire_at_once() {
    for _ in 0..5 {
        let history = busy(Arc::new(InMemory::new()), &[]).await;
        let one = TagRequest {
            snapshot: Some(4),
            ..TagRequest::default()
        };
        history.table.create_tag("t", &one).await.unwrap();
        let all = [2, 3, 2, 7].map(|kept| {
            let table = history.table.clone();
            tokio::spawn(async move { table.expire_snapshots(&keep(&table, kept)).await })
        });
        for task in all {
            task.await.unwrap().unwrap();
        }
        assert_eq!(history.table.snapshot_ids().await.unwrap(), [11, 12]);
        assert_eq!(history.unneeded().await, BTreeSet::new());
    }
}

#[tokio::test]
async fn rollback_makes_a_former_snapshot_the_newest() {
    let mut history = busy(Arc::new(InMemory::new()), &[]).await;
    let table = history.table.clone();
    let on = |snapshot| TagRequest {
        snapshot: Some(snapshot),
        ..TagRequest::default()
    };
    for id in [3, 7, 11] {
        table.create_tag(&format!("t{id}"), &on(id)).await.unwrap();
    }
    table.rollback_to_snapshot(8).await.unwrap();
    assert_eq!(table.latest_snapshot().await.unwrap().unwrap().id, 8);
    assert_eq!(table.tags().await.unwrap().len(), 2);
    history.needed(0).await;
    history.resume().await;
    history
        .commit(Change {
            add: vec![("after", 0)],
            ..Change::default()
        })
        .await;
    table.expire_snapshots(&keep(&table, 1)).await.unwrap();
    history.needed(0).await;
    // Expired: taken from its tag. Another that never was is refused.
    assert!(table.rollback_to_snapshot(5).await.is_err());
    table.rollback_to_snapshot(3).await.unwrap();
    assert_eq!(table.snapshot_ids().await.unwrap(), [3]);
    history.needed(0).await;
    assert!(table.rollback_to_tag("t7").await.is_err());
    let latest = table.latest_snapshot().await.unwrap().unwrap();
    assert_eq!(table.live_files(&latest).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_moment_is_found() {
    let history = busy(Arc::new(InMemory::new()), &[]).await;
    let table = &history.table;
    table
        .create_tag(
            "t",
            &TagRequest {
                snapshot: Some(2),
                ..TagRequest::default()
            },
        )
        .await
        .unwrap();
    table.expire_snapshots(&keep(table, 6)).await.unwrap();
    let id = |moment: SnapshotRef| async move {
        table.snapshot_at(&moment).await.map(|snapshot| snapshot.id)
    };
    use SnapshotRef::*;
    assert_eq!(id(Latest).await.unwrap(), 12);
    assert_eq!(id(Id(9)).await.unwrap(), 9);
    assert_eq!(id(Id(2)).await.unwrap(), 2);
    assert_eq!(id(Tag("t".into())).await.unwrap(), 2);
    assert_eq!(id(TimestampMs(9_500)).await.unwrap(), 9);
    assert_eq!(id(TimestampMs(9_000)).await.unwrap(), 9);
    assert_eq!(id(TimestampMs(i64::MAX)).await.unwrap(), 12);
    assert_eq!(id(WatermarkMs(95)).await.unwrap(), 10);
    assert_eq!(id(WatermarkMs(0)).await.unwrap(), 7);
    for (moment, says) in [
        (Id(3), "snapshots 7 to 12"),
        (Tag("u".into()), "it has t"),
        (TimestampMs(6_999), "6999"),
        (WatermarkMs(121), "121"),
    ] {
        let error = id(moment).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn orphans_are_of_a_safe_age() {
    let history = busy(Arc::new(InMemory::new()), &[]).await;
    let table = &history.table;
    let request = |older_than_ms, force| OrphanRequest {
        older_than_ms: Some(older_than_ms),
        force,
        delete: true,
    };
    let now = crate::schema::now_ms();
    for (time, force) in [
        (now + 60_000, true),
        (now + 60_000, false),
        (now - 60_000, false),
    ] {
        let error = table
            .clean_orphans(&request(time, force))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Table { .. }), "{error}");
    }
    for path in [
        "bucket-0/data-lost.parquet",
        "manifest/manifest-lost",
        "index/index-lost",
        "snapshot/.snapshot-13.x.tmp",
        "schema/.schema-1.x.tmp",
        "bucket-7/.data-x.parquet.y.tmp",
        "branch/branch-b/snapshot/.x.tmp",
    ] {
        let path = object_store::path::Path::from(format!("db.db/t/{path}"));
        crate::storage::put(table.store().as_ref(), &path, vec![7; 10])
            .await
            .unwrap();
    }
    for path in [
        "metadata/v1.json",
        "README",
        "bucket-x/y/z",
        "schema/notes",
        "tag-success-file/a",
    ] {
        let path = object_store::path::Path::from(format!("db.db/t/{path}"));
        crate::storage::put(table.store().as_ref(), &path, vec![7; 10])
            .await
            .unwrap();
    }
    let before = history.objects().await;
    // A day old by default: nothing is.
    let found = table
        .clean_orphans(&OrphanRequest {
            delete: true,
            ..OrphanRequest::default()
        })
        .await;
    assert_eq!(found.unwrap().files, vec![]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let now = crate::schema::now_ms();
    let dry = OrphanRequest {
        delete: false,
        ..request(now, true)
    };
    let found = table.clean_orphans(&dry).await.unwrap();
    assert_eq!((found.files.len(), found.bytes()), (7, 70), "{found:?}");
    assert_eq!(history.objects().await, before);
    assert_eq!(
        table
            .clean_orphans(&request(now, true))
            .await
            .unwrap()
            .files,
        found.files
    );
    assert_eq!(history.objects().await.len(), before.len() - 7);
    history.needed(0).await;
}

/// Whatever is done in whatever order, nothing that is needed goes.
#[tokio::test]
async fn a_random_past_keeps_what_it_needs() {
    for seed in 0..8 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut history = History::new(Arc::new(InMemory::new()), &[]).await;
        let table = history.table.clone();
        let mut log = Vec::new();
        for step in 0..40 {
            let what = random.random_range(0..14);
            log.push(what);
            random_step(&mut history, &mut random, step, what).await;
            let context = format!("seed {seed}, steps {log:?}");
            let checked = std::panic::AssertUnwindSafe(history.needed(0));
            if futures::FutureExt::catch_unwind(checked).await.is_err() {
                panic!("{context}");
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
        let all = OrphanRequest {
            older_than_ms: Some(crate::schema::now_ms()),
            force: true,
            delete: true,
        };
        table.clean_orphans(&all).await.unwrap();
        history.needed(0).await;
    }
}

async fn random_step(history: &mut History, random: &mut StdRng, step: usize, what: usize) {
    let table = history.table.clone();
    let live: Vec<String> = history.live.keys().cloned().collect();
    let tags = table.tags().await.unwrap();
    let ids = table.snapshot_ids().await.unwrap();
    match what {
        0..=3 => {
            let (name, changes) = (format!("f{step}"), format!("c{step}"));
            let change = Change {
                add: vec![(&name, 0)],
                changelog: vec![&changes],
                index: what == 0,
                ..Change::default()
            };
            history.commit(change).await;
        }
        4..=6 if live.len() > 1 => {
            let count = random.random_range(2..=live.len().min(4));
            let name = format!("m{step}");
            let change = Change {
                add: vec![(&name, 5)],
                delete: live.iter().take(count).map(String::as_str).collect(),
                ..Change::default()
            };
            history.commit(change).await;
        }
        7 if !live.is_empty() => {
            let name = &live[random.random_range(0..live.len())];
            let level = 1 + step as i32;
            let change = Change {
                add: vec![(name, level)],
                delete: vec![name],
                ..Change::default()
            };
            history.commit(change).await;
        }
        8 | 9 if !ids.is_empty() => {
            let request = TagRequest {
                snapshot: Some(ids[random.random_range(0..ids.len())]),
                ..TagRequest::default()
            };
            table
                .create_tag(&format!("t{step}"), &request)
                .await
                .unwrap();
        }
        10 if !tags.is_empty() => {
            let name = &tags[random.random_range(0..tags.len())].name;
            if random.random() {
                table
                    .create_branch(&format!("b{step}"), Some(name))
                    .await
                    .unwrap();
            } else {
                table.delete_tag(name).await.unwrap();
            }
        }
        11 if ids.len() > 2 && random.random() => {
            let id = ids[random.random_range(0..ids.len())];
            table.rollback_to_snapshot(id).await.unwrap();
            history.resume().await;
        }
        12 | 13 => {
            let kept = random.random_range(1..6);
            table.expire_snapshots(&keep(&table, kept)).await.unwrap();
        }
        _ => {}
    }
}
