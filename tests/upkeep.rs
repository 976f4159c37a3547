//! Compaction, expiry and tags beside a job: tables stay small, and exact. What is looked at is
//! looked at by `headwater table`, and by Java at the end.

use std::{process::Command, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;

use crate::{
    exactness::finish,
    support::{Headwater, JobFile, Lake, Server, Workload, env_number},
};

/// `headwater table VERB WAREHOUSE TABLE …`; its output must be JSON, and it must end well.
fn table(verb: &str, lake: &Lake, name: &str, more: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["table", verb, &lake.warehouse(), name, "--json"])
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{verb} {name}: {text}{said}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{verb} {name}: {error}: {text}"))
}

fn strings(value: &Value, member: &str) -> Vec<String> {
    let items = value.as_array().unwrap().iter();
    items
        .map(|item| item[member].as_str().unwrap().to_owned())
        .collect()
}

/// A job that compacts all the time, keeps few snapshots and makes a tag a second is killed again
/// and again.
#[tokio::test(flavor = "multi_thread")]
async fn tables_stay_small_and_equal_through_kills() {
    let seed = env_number("SEED", 5);
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("upkeep").await;
    let workload = Workload::create(&database, 10_000).await;
    let job = JobFile::new(server, &database, &lake)
        .sink("table.properties.num-sorted-run.compaction-trigger", "3")
        .sink("table.properties.snapshot.num-retained.min", "3")
        .sink("table.properties.snapshot.num-retained.max", "6")
        .with("checkpoint.tag-interval: 1s\n");
    let running = workload.start(3, seed, Duration::from_millis(5)).await;
    for _ in 0..6 {
        let mut process = Headwater::run(&job, &lake);
        tokio::time::sleep(Duration::from_millis(random.random_range(500..4000))).await;
        process.assert_runs();
        process.kill9();
    }
    // Some time without a kill: what was left behind is made up for.
    let mut process = Headwater::run(&job, &lake);
    tokio::time::sleep(Duration::from_secs(8)).await;
    process.assert_runs();
    process.kill9();
    running.stop().await;
    finish(&job, &lake, &database, &workload).await;

    let mut tags: Option<Vec<String>> = None;
    for name in database.tables().await {
        let name = workload.table(&name);
        let checked = table("check", &lake, &name, &[]);
        assert_eq!(checked["problems"], serde_json::json!([]), "{name}");
        let info = table("info", &lake, &name, &[]);
        let runs = info["sorted_runs_max"].as_u64().unwrap();
        assert!(runs <= 8, "{name} has {runs} sorted runs");
        let snapshots = info["snapshot_count"].as_u64().unwrap();
        assert!(snapshots <= 60, "{name} has {snapshots} snapshots");
        let listed = table("tag", &lake, &name, &["list"]);
        let listed = strings(&listed["tags"], "name");
        assert!(listed.len() > 1, "{name} has tags {listed:?}");
        let first = tags.get_or_insert_with(|| listed.clone());
        assert_eq!(*first, listed, "{name}: one tag on all tables");
    }

    // At each tag the money is all there: transfers move it between the tables.
    for tag in tags.unwrap() {
        let cents: f64 = ["checking", "saving"]
            .map(|name| money_cents(&lake, &workload.table(name), &tag))
            .iter()
            .sum();
        assert_eq!(cents.round() as u64, workload.money_cents(), "tag {tag}");
    }
}

fn money_cents(lake: &Lake, name: &str, tag: &str) -> f64 {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["table", "read", &lake.warehouse(), name, "--tag", tag])
        .args(["--columns", "money", "--format", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let money = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let money = &row["money"];
        let number = money
            .as_str()
            .map_or(money.as_f64(), |text| text.parse().ok());
        (number.unwrap() * 100.0).round()
    });
    money.sum()
}

/// Many small commits become few files, and another compactor finds nothing wrong with that.
#[tokio::test(flavor = "multi_thread")]
async fn a_compactor_of_its_own_works_beside_a_job_that_only_writes() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("compactor").await;
    let workload = Workload::create(&database, 5_000).await;
    let job = JobFile::new(server, &database, &lake).sink("table.properties.write-only", "true");
    let running = workload.start(2, 11, Duration::from_millis(5)).await;
    let mut process = Headwater::run(&job, &lake);
    let job_path = job.write(&lake);
    for round in 0..6 {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let full = ["--full"];
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("compact")
            .arg(&job_path)
            .args(match round % 2 {
                0 => &full[..],
                _ => &[],
            })
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    process.assert_runs();
    process.kill9();
    running.stop().await;
    finish(&job, &lake, &database, &workload).await;
    for name in database.tables().await {
        let name = workload.table(&name);
        let done = table("compact", &lake, &name, &["--full"]);
        assert_eq!(done["tables"][0]["problem"], Value::Null);
        let info = table("info", &lake, &name, &[]);
        assert!(info["sorted_runs_max"].as_u64().unwrap() <= 1, "{name}");
        assert_eq!(
            table("check", &lake, &name, &[])["problems"],
            serde_json::json!([])
        );
    }
    lake.assert_equal(&database).await;
}
