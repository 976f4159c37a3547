use std::{sync::atomic::Ordering, time::Duration};

use super::*;

mod world;

use world::{Bench, Table, World, batch};

const ROWS: std::ops::Range<i32> = 0..3_000;

fn keys(report: &Report) -> Vec<(String, Difference)> {
    let mut keys: Vec<_> = report.tables[0]
        .keys
        .iter()
        .map(|listed| (listed.key.clone(), listed.difference))
        .collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn equal_tables_are_equal() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    let report = bench.verify().await.unwrap();
    assert!(
        report.equal() && !report.job_running,
        "{}",
        report.to_text()
    );
    assert_eq!(
        (report.tables[0].source_rows, report.tables[0].lake_rows),
        (3_000, 3_000)
    );
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_breaks_off_counts_once() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    bench.world.broken_reads.store(4, Ordering::Relaxed);
    let report = bench.verify().await.unwrap();
    assert!(report.equal(), "{}", report.to_text());
    assert_eq!(report.tables[0].source_rows, 3_000);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_difference_is_told_by_key() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    let (mut rows, _) = bench.world.now();
    rows.remove(&17);
    rows.insert(-5, 1);
    rows.insert(2_999, 1);
    let again = Table::from([(40, 400), (-5, 1)]);
    bench.lake.put(1, vec![batch(&rows), batch(&again)]);
    let report = bench.verify().await.unwrap();
    assert_eq!(
        keys(&report),
        [
            ("k=-5".to_owned(), Difference::Extra),
            ("k=17".to_owned(), Difference::Missing),
            ("k=2999".to_owned(), Difference::Different),
            ("k=40".to_owned(), Difference::Doubled),
        ]
    );
    let table = &report.tables[0];
    assert_eq!(
        (table.missing, table.extra, table.different, table.doubled),
        (1, 1, 1, 1)
    );
    assert_eq!((table.verdict, report.exit_code()), (Verdict::Different, 1));
}

#[tokio::test(start_paused = true)]
async fn an_empty_lake_lacks_everything_and_lists_some() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, Table::clear).await;
    let report = bench.verify().await.unwrap();
    let table = &report.tables[0];
    assert_eq!(
        (table.missing, table.keys.len(), table.at_least),
        (3_000, 20, false)
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_into_memory_is_a_lower_bound() {
    let mut bench = Bench::new(World::new(ROWS));
    bench.options.memory_rows = 400;
    bench
        .checkpoint(1, |rows| rows.values_mut().for_each(|value| *value += 1))
        .await;
    let report = bench.verify().await.unwrap();
    let table = &report.tables[0];
    assert!(
        table.at_least && table.different > 100 && table.different <= 400,
        "{table:?}"
    );
    assert_eq!(table.verdict, Verdict::Different);
}

#[tokio::test(start_paused = true)]
async fn several_passes_find_everything() {
    let mut bench = Bench::new(World::new(ROWS));
    // Half of it for one table: 300 differing groups take two passes.
    bench.options.memory_rows = 400;
    bench
        .checkpoint(1, |rows| rows.retain(|key, _| key % 10 != 0))
        .await;
    let report = bench.verify().await.unwrap();
    let table = &report.tables[0];
    assert_eq!(
        (table.missing, table.different, table.at_least),
        (300, 0, false)
    );
}

/// Changes about one key in ten with every look, also inserting and deleting.
fn stir(rows: &mut Table, look: u32) {
    for key in (0..3_000).filter(|key| (key * 7 + look as i32).rem_euclid(10) == 0) {
        match (key + look as i32) % 3 {
            0 => rows.remove(&key),
            _ => rows.insert(key, i64::from(look) << 32),
        };
    }
}

#[tokio::test(start_paused = true)]
async fn a_moving_source_is_equal_when_it_comes_to_rest() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    // The reads of both passes and the first two lookups.
    bench.world.moved_by(|rows, look| {
        if look < 90 {
            stir(rows, look);
        }
    });
    let report = bench.verify_beside(|_| {}).await;
    assert!(report.equal() && report.job_running, "{}", report.to_text());
    assert!(report.checkpoint > 1);
}

#[tokio::test(start_paused = true)]
async fn beside_a_moving_source_only_wrong_keys_count() {
    let bench = Bench::new(World::new(ROWS));
    bench.world.moved_by(|rows, look| {
        if look < 90 {
            stir(rows, look);
        }
        rows.insert(11, 110);
        rows.insert(12, 120);
        rows.remove(&13);
    });
    let wrong = |rows: &mut Table| {
        rows.remove(&11);
        rows.insert(12, 1);
        rows.insert(13, 1);
    };
    bench.checkpoint(1, wrong).await;
    let report = bench.verify_beside(wrong).await;
    assert_eq!(
        keys(&report),
        [
            ("k=11".to_owned(), Difference::Missing),
            ("k=12".to_owned(), Difference::Different),
            ("k=13".to_owned(), Difference::Extra),
        ]
    );
    assert_eq!(report.tables[0].undecided, 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_never_rests_is_undecided() {
    let mut bench = Bench::new(World::new(ROWS));
    bench.options.timeout = Duration::from_secs(20);
    bench.checkpoint(1, |_| {}).await;
    bench
        .world
        .moved_by(|rows, _| *rows.get_mut(&5).unwrap() += 1);
    // The checkpoint has a value that no lookup sees: between two of them.
    let report = bench
        .verify_beside(|rows| *rows.get_mut(&5).unwrap() = -1)
        .await;
    assert_eq!(keys(&report), [("k=5".to_owned(), Difference::Undecided)]);
    assert_eq!(report.tables[0].verdict, Verdict::Undecided);
    assert_eq!(report.exit_code(), 1);
}

/// A row that is away at both lookups and back in between is not different.
#[tokio::test(start_paused = true)]
async fn one_difference_is_not_enough_beside_a_moving_source() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    bench.world.moved_by(|rows, _| _ = rows.remove(&5));
    let checkpoints = std::sync::atomic::AtomicI64::new(0);
    // The next four checkpoints have the row, each another one; later ones do not.
    let back = |rows: &mut Table| {
        let number = checkpoints.fetch_add(1, Ordering::Relaxed);
        if number < 4 {
            rows.insert(5, number);
        }
    };
    let report = bench.verify_beside(back).await;
    assert!(report.equal(), "{}", report.to_text());
}

#[tokio::test(start_paused = true)]
async fn a_standing_job_behind_its_source_says_so() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    bench.world.change(|rows| _ = rows.insert(1, 0));
    let report = bench.verify().await.unwrap();
    assert_eq!(keys(&report), [("k=1".to_owned(), Difference::Different)]);
    assert_eq!(report.notes.len(), 1);
    assert!(
        report.notes[0].contains("not running") && report.notes[0].contains("4 min ago"),
        "{}",
        report.notes[0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_started_meanwhile_is_waited_for() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    bench.world.change(|rows| _ = rows.insert(1, 0));
    let (look, mut looked) = tokio::sync::mpsc::unbounded_channel();
    bench.world.moved_by(move |_, _| _ = look.send(()));
    let start = async {
        looked.recv().await;
        bench.job(|_| {}).await;
    };
    let report = tokio::select! {
        report = bench.verify() => report.unwrap(),
        () = start => unreachable!(),
    };
    assert!(report.equal() && report.job_running, "{}", report.to_text());
}

#[tokio::test(start_paused = true)]
async fn without_a_checkpoint_or_a_whole_snapshot_nothing_is_equal() {
    let bench = Bench::new(World::new(ROWS));
    let error = bench.verify().await.unwrap_err().to_string();
    assert!(error.contains("no committed checkpoint in s"), "{error}");

    bench.record(1, bench.world.now().1, false).await;
    let report = bench.verify().await.unwrap();
    assert_eq!(report.tables[0].verdict, Verdict::Incomplete);
    assert!(!report.equal());
}

#[tokio::test(start_paused = true)]
async fn a_table_that_cannot_be_read_fails_alone() {
    let bench = Bench::new(World::new(ROWS));
    bench.checkpoint(1, |_| {}).await;
    bench.world.broken_reads.store(u32::MAX, Ordering::Relaxed);
    let report = bench.verify().await.unwrap();
    let table = &report.tables[0];
    assert_eq!(table.verdict, Verdict::Failed);
    assert!(
        table
            .error
            .as_ref()
            .unwrap()
            .contains("the network is gone")
    );
}
