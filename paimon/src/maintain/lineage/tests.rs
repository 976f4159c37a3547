use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    maintain::{
        Retention,
        history::{Change, History},
    },
    storage::{counting::Counting, faulty::Faulty},
};

/// So many snapshots that add a file each.
async fn snapshots(store: Arc<dyn object_store::ObjectStore>, count: usize) -> History {
    let mut history = History::new(store, &[]).await;
    for number in 0..count {
        let name = format!("f{number}");
        let add = vec![(name.as_str(), 0)];
        history
            .commit(Change {
                add,
                ..Change::default()
            })
            .await;
    }
    history
}

/// A history costs nothing where nothing of it expires, whether anything ever has or not; and where
/// something does, only that is looked at.
#[tokio::test]
async fn an_expiry_lists_no_snapshots_but_once() {
    const SNAPSHOTS: usize = 200;
    let store = Arc::new(Counting::default());
    let mut history = snapshots(store.clone(), SNAPSHOTS).await;
    let table = history.table.clone();
    let all = Retention {
        snapshots_max: 1000,
        changelogs_max: 1000,
        ..Retention::of(table.schema()).unwrap()
    };
    let expire = async |keep: &Retention| {
        store.listed();
        let expired = table.expire_at(keep, 200_000).await.unwrap();
        (expired.snapshots, store.listed())
    };
    // No expiry has left a hint: the folder is listed, and the hint is written.
    let (expired, listed) = expire(&all).await;
    assert!(expired == 0 && listed >= SNAPSHOTS, "{expired} {listed}");
    assert_eq!(expire(&all).await, (0, 0));
    history.commit(Change::default()).await;
    assert_eq!(expire(&all).await, (0, 0));
    let fewer = Retention {
        snapshots_max: 150,
        changelogs_max: 150,
        ..all
    };
    let (expired, listed) = expire(&fewer).await;
    assert_eq!((expired, listed), (50, 0));
    let (expired, listed) = expire(&fewer).await;
    assert_eq!((expired, listed), (1, 0));
    assert_eq!(
        table.snapshot_ids().await.unwrap(),
        Vec::from_iter(52..=201)
    );
    assert_eq!(history.unneeded().await.len(), 0);
}

/// Hints that are old, damaged, ahead or gone, and snapshots that are missing in between, change
/// nothing about what expires.
#[tokio::test]
async fn hints_say_nothing_about_what_expires() {
    let scene = Arc::new(Faulty::default());
    let before = snapshots(scene.clone(), 20).await;
    let policy = Retention::of(before.table.schema()).unwrap();
    before.table.expire_at(&policy.keep(16), 0).await.unwrap();
    let mut random = StdRng::seed_from_u64(3);
    let mut expired = 0;
    for round in 0..300 {
        let min = random.random_range(1..8);
        let policy = Retention {
            snapshots_min: min,
            snapshots_max: random.random_range(min..20),
            snapshot_age_max: std::time::Duration::from_secs(random.random_range(0..20)),
            expire_limit: random.random_range(1..20),
            ..policy
        };
        let missing = random.random_bool(0.3).then(|| random.random_range(6..20));
        // The first snapshot is 5; one that an expiry left behind has a hint before it.
        let earliest = random.random_range(-1..=5).to_string();
        // One that stands right before a gap is believed, by every reader.
        let latest = random.random_range(0..=25);
        let latest = missing.map_or(latest, |missing| match latest + 1 == missing {
            true => 20,
            false => latest,
        });
        let latest = latest.to_string();
        let mut left = Vec::new();
        for hints in [false, true] {
            let store = Arc::new(scene.fork());
            let history = before.on(store.clone());
            let main = Lineage::main(&history.table);
            for (name, text) in [("EARLIEST", &earliest), ("LATEST", &latest)] {
                let path = main.hint_path(Record::Snapshot, name);
                match (hints, text.as_str()) {
                    (false, _) | (true, "0") => storage::delete(&*store, &path).await.unwrap(),
                    (true, "1") => storage::put(&*store, &path, b"x".to_vec()).await.unwrap(),
                    (true, text) => storage::put(&*store, &path, text.into()).await.unwrap(),
                }
            }
            if let Some(id) = missing {
                let path = main.record_path(Record::Snapshot, id);
                storage::delete(&*store, &path).await.unwrap();
            }
            let done = history.table.expire_at(&policy, 22_000).await.unwrap();
            expired += done.snapshots;
            left.push((history.objects().await, done));
        }
        assert_eq!(
            left[0], left[1],
            "{round}: EARLIEST {earliest}, LATEST {latest}, without {missing:?}, {policy:?}"
        );
    }
    assert!(expired > 300, "{expired}");
}
