//! No row lost, doubled or changed, whenever the process is killed.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::support::{
    Database, Headwater, JobFile, Lake, Server, Workload, env_number, eventually,
};

/// Between every two steps of the two-phase commit. The process aborts itself there when
/// `HEADWATER_FAILPOINT` names the point.
const FAILPOINTS: [&str; 5] = [
    "after-flush",
    "after-record",
    "between-table-commits",
    "after-table-commits",
    "after-marker",
];

/// A random workload runs through snapshot and tail while the process is killed `KILLS` times
/// (default 20), every other time at a named point, else at a random moment.
#[tokio::test(flavor = "multi_thread")]
async fn tables_equal_the_source_after_kills() {
    let kills = env_number("KILLS", 20);
    let seed = env_number("SEED", 1);
    eprintln!("seed {seed}, {kills} kills");
    let mut random = StdRng::seed_from_u64(seed);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("kills").await;
    let workload = Workload::create(&database, 20_000).await;
    let job = JobFile::new(server, &database, &lake);
    let running = workload.start(4, seed, Duration::from_millis(5)).await;

    for kill in 0..kills {
        if kill % 2 == 1 {
            let point = FAILPOINTS[(kill as usize / 2) % FAILPOINTS.len()];
            aborts_at(point, &job, &lake).await;
        } else {
            let mut process = Headwater::run(&job, &lake);
            let moment = random.random_range(20..4000);
            tokio::time::sleep(Duration::from_millis(moment)).await;
            process.assert_runs();
            process.kill9();
        }
    }
    let transactions = running.stop().await;
    assert!(transactions > 100, "only {transactions} transactions");
    finish(&job, &lake, &database, &workload).await;
}

/// Without kills: snapshot beside a workload, then the tail, and the tables that the workload's
/// sessions change all the time are equal at the end.
#[tokio::test(flavor = "multi_thread")]
async fn snapshot_and_tail_meet() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("meet").await;
    let workload = Workload::create(&database, 30_000).await;
    let job = JobFile::new(server, &database, &lake);
    let running = workload.start(3, 7, Duration::from_millis(2)).await;
    let mut process = Headwater::run(&job, &lake);
    tokio::time::sleep(Duration::from_secs(12)).await;
    running.stop().await;
    process.assert_runs();
    drop(process);
    finish(&job, &lake, &database, &workload).await;
}

/// A job that is told to stop at once, many times, gets on all the same.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_is_a_checkpoint() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("term").await;
    let workload = Workload::create(&database, 3000).await;
    let job = JobFile::new(server, &database, &lake);
    let running = workload.start(2, 3, Duration::from_millis(5)).await;
    for _ in 0..4 {
        let process = Headwater::run(&job, &lake);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        process.stop().await;
    }
    running.stop().await;
    finish(&job, &lake, &database, &workload).await;
}

/// The server restarts, once politely and once not; the job goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn server_restarts() {
    if Server::is_given() {
        return;
    }
    let (server, lake) = (Server::private("restarts", &[]), Lake::new());
    let database = server.database_of("restarts").await;
    let workload = Workload::create(&database, 3000).await;
    let job = JobFile::new(&server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    for kill in [false, true] {
        let running = workload.start(2, 5, Duration::from_millis(5)).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        running.stop().await;
        if kill {
            server.kill9();
        } else {
            server.stop();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.start_again();
    }
    seen(&lake, &workload, &mut process).await;
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// Runs the job until it aborts itself at a named point.
pub async fn aborts_at(point: &str, job: &JobFile, lake: &Lake) {
    let mut process = Headwater::run_until(job, lake, point);
    let status = process.ended(Duration::from_secs(120)).await;
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(6),
        "{point}: not aborted but {status}:\n{}",
        process.output()
    );
}

/// Runs the job until the lake has everything, ends it politely and compares.
pub async fn finish(job: &JobFile, lake: &Lake, database: &Database, workload: &Workload) {
    let mut process = Headwater::run(job, lake);
    seen(lake, workload, &mut process).await;
    process.stop().await;
    lake.assert_equal(database).await;
}

/// Waits until the lake has all that is committed in the source now.
pub async fn seen(lake: &Lake, workload: &Workload, process: &mut Headwater) {
    let row = format!(r#"{{"id":1,"n":{}}}"#, workload.mark().await);
    let table = workload.table("sentinel");
    eventually(
        "the lake catches up",
        Duration::from_secs(120),
        async || {
            process.assert_runs();
            lake.read(&table, None) == [row.as_str()]
        },
    )
    .await;
}
