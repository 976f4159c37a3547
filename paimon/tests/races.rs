//! Eight processes commit to one table as fast as they can, and Java beside them: every commit that
//! was acknowledged is there once, and no other. On a file system, and on the S3 server that
//! `HEADWATER_TEST_S3` names.
//!
//! `COMMITS` (100; 15 on S3) is how many each process makes; `make races` makes 500. On S3 Java's
//! commit is a copy that replaces what is there, so that Java may only commit while nobody else does:
//! a file lock stands for the lock of its catalog, shared among our processes and exclusive for Java.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]
#![allow(dead_code, reason = "the support is shared by several test programs")]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use headwater_paimon::{
    Catalog, CommitOutcome, CommitRequest, SnapshotRef, StoreOptions, TableCommitter, WriteBuffer,
    WriteSettings,
};

use self::support::{
    env_number,
    model::{Change, Column, Definition, Kind, difference},
    oracle::java,
    ours::{Ours, batch},
    value::{Type, Value},
};

const PROCESSES: usize = 8;
const JAVA_COMMITS: i64 = 20;
const TABLE: &str = "t";

fn definition() -> Definition {
    let column = |name: &str, nullable| Column {
        name: name.to_owned(),
        kind: Type::BigInt,
        nullable,
    };
    Definition {
        columns: vec![column("k", false), column("v", true)],
        primary_keys: vec!["k".to_owned()],
        partition_keys: Vec::new(),
        // Java only writes here.
        options: [("bucket", "8"), ("write-only", "true")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}

fn row(writer: i64, commit: i64) -> Vec<Value> {
    vec![Value::Int(writer * 1_000_000 + commit), Value::Int(commit)]
}

/// Where the race is.
struct Place {
    warehouse: String,
    /// Of the store; none on a file system.
    options: Vec<(&'static str, String)>,
    /// Held by whoever commits, where Java cannot race.
    lock: Option<PathBuf>,
}

impl Place {
    fn new(warehouse: &str, lock: Option<PathBuf>) -> Self {
        let mut options = Vec::new();
        if warehouse.starts_with("s3://") {
            let url = std::env::var("HEADWATER_TEST_S3").unwrap();
            let rest = url.trim_end_matches('/').strip_prefix("http://").unwrap();
            let (keys, address) = rest.rsplit_once('@').unwrap();
            let (key, secret) = keys.split_once(':').unwrap();
            options = vec![
                ("s3.endpoint", format!("http://{address}")),
                ("s3.path.style.access", "true".to_owned()),
                ("s3.access-key", key.to_owned()),
                ("s3.secret-key", secret.to_owned()),
            ];
        }
        Self {
            warehouse: warehouse.to_owned(),
            options,
            lock,
        }
    }

    fn ours(&self) -> Ours {
        if self.options.is_empty() {
            return Ours::new(Path::new(&self.warehouse), "races");
        }
        let mut options = StoreOptions::new();
        for (name, value) in &self.options {
            options.insert(*name, value.clone());
        }
        let location = self.warehouse.parse().unwrap();
        Ours::of(Catalog::open(&location, &options).unwrap(), "races")
    }

    fn locked(&self) -> Option<File> {
        self.lock.as_ref().map(|path| File::create(path).unwrap())
    }

    /// Java adds a row.
    fn java_writes(&self, line: &str) {
        // Java gives up after ten lost races, and waits ever longer between them.
        let words = [
            &*self.warehouse,
            "races.t",
            "--commit-user",
            "java",
            "--opt",
            "commit.max-retries=100000",
            "--opt",
            "commit.max-retry-wait=20ms",
        ];
        if self.options.is_empty() {
            java("write", &words, line);
            return;
        }
        let mut command = Command::new(support::script("oracle/oracle.sh"));
        command.arg("write").args(words);
        for (name, value) in &self.options {
            command.args(["--conf", &format!("{name}={value}")]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = child.as_mut().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        drop(input);
        assert!(child.wait().unwrap().success(), "Java could not write");
    }

    fn commits(&self) -> i64 {
        let default = if self.options.is_empty() { 100 } else { 15 };
        env_number("COMMITS", default) as i64
    }
}

/// One of the processes; prints the commits that were acknowledged.
#[tokio::test]
#[ignore = "a part of every_acknowledged_commit_is_there"]
async fn one_process() {
    let Ok(warehouse) = std::env::var("RACE_WAREHOUSE") else {
        return;
    };
    let lock = std::env::var_os("RACE_LOCK").map(PathBuf::from);
    let place = Place::new(&warehouse, lock);
    let writer = env_number("RACE_WRITER", 0) as i64;
    let table = place.ours().table(TABLE).await.unwrap();
    let mut committer = TableCommitter::new(table.clone());
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    let lock = place.locked();
    for commit in 1..=place.commits() {
        let changes: [Change; 1] = [(Kind::Insert, row(writer, commit))];
        let rows = batch(&table, &definition(), &changes).unwrap();
        buffer.write(&rows, None, commit).unwrap();
        let request = CommitRequest {
            user: format!("process-{writer}"),
            identifier: commit,
            messages: buffer.flush().await.unwrap(),
            watermark_ms: None,
            properties: BTreeMap::new(),
            expect: None,
        };
        if let Some(lock) = &lock {
            lock.lock_shared().unwrap();
        }
        let outcome = committer.commit(&request).await.unwrap();
        if let Some(lock) = &lock {
            lock.unlock().unwrap();
        }
        match outcome {
            CommitOutcome::Committed { snapshot, .. } => println!("ack {snapshot} {commit}"),
            other => panic!("a new commit was answered {other:?}"),
        }
    }
}

#[tokio::test]
async fn every_acknowledged_commit_is_there() {
    let folder = tempfile::tempdir().unwrap();
    race(&Place::new(folder.path().to_str().unwrap(), None)).await;
}

#[tokio::test]
async fn every_acknowledged_commit_is_there_on_s3() {
    if std::env::var_os("HEADWATER_TEST_S3").is_none() {
        eprintln!("left out: HEADWATER_TEST_S3 names no server (tests/run.sh starts one)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let warehouse = format!("s3://headwater/races-{}", uuid::Uuid::new_v4());
    race(&Place::new(&warehouse, Some(folder.path().join("lock")))).await;
}

async fn race(place: &Place) {
    let ours = place.ours();
    ours.create(TABLE, &definition()).await.unwrap();
    let lock = place.locked();
    let children: Vec<_> = (0..PROCESSES)
        .map(|writer| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            if let Some(lock) = &place.lock {
                command.env("RACE_LOCK", lock);
            }
            command
                .args(["--exact", "one_process", "--ignored", "--nocapture"])
                .env("RACE_WAREHOUSE", &place.warehouse)
                .env("RACE_WRITER", writer.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut rows: Vec<String> = Vec::new();
    for commit in 1..=JAVA_COMMITS {
        let line = definition().line(&row(PROCESSES as i64, commit));
        if let Some(lock) = &lock {
            lock.lock().unwrap();
        }
        place.java_writes(&line);
        if let Some(lock) = &lock {
            lock.unlock().unwrap();
        }
        rows.push(line);
    }
    let mut acknowledged = BTreeSet::new();
    for (writer, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "process {writer} failed");
        let text = String::from_utf8(output.stdout).unwrap();
        for (_, ack) in text.lines().filter_map(|line| line.split_once("ack ")) {
            let (snapshot, commit) = ack.split_once(' ').unwrap();
            let commit: i64 = commit.parse().unwrap();
            let user = format!("process-{writer}");
            acknowledged.insert((snapshot.parse::<i64>().unwrap(), user, commit));
            rows.push(definition().line(&row(writer as i64, commit)));
        }
    }
    let commits = PROCESSES * place.commits() as usize;
    assert_eq!(acknowledged.len(), commits);

    let table = ours.table(TABLE).await.unwrap();
    let ids = table.snapshot_ids().await.unwrap();
    let last = (commits as i64) + JAVA_COMMITS;
    assert_eq!(ids, (1..=last).collect::<Vec<_>>());
    let mut found = BTreeSet::new();
    for id in ids {
        let snapshot = table.snapshot(id).await.unwrap().unwrap();
        if snapshot.commit_user != "java" {
            found.insert((id, snapshot.commit_user, snapshot.commit_identifier));
        }
    }
    assert!(
        found == acknowledged,
        "other commits than those acknowledged"
    );
    rows.sort();
    let read = ours
        .read(TABLE, &definition(), &SnapshotRef::Latest)
        .await
        .unwrap();
    assert_eq!(difference(&rows, &read), None);
}
