//! Eight processes commit to one table as fast as they can, and Java beside them: every commit that
//! was acknowledged is there once, and no other.
//!
//! `COMMITS` (100) is how many each process makes. Java's commit on a file system is a rename that
//! replaces what is there, so that Java may only commit while nobody else does: a file lock stands
//! for the lock of its catalog, shared among our processes and exclusive for Java.

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
    path::Path,
    process::{Command, Stdio},
};

use headwater_paimon::{
    CommitOutcome, CommitRequest, SnapshotRef, TableCommitter, WriteBuffer, WriteSettings,
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

fn lock(warehouse: &Path) -> File {
    File::create(warehouse.join("lock")).unwrap()
}

/// One of the processes; prints the commits that were acknowledged.
#[tokio::test]
#[ignore = "a part of every_acknowledged_commit_is_there"]
async fn one_process() {
    let Ok(warehouse) = std::env::var("RACE_WAREHOUSE") else {
        return;
    };
    let warehouse = Path::new(&warehouse);
    let writer = env_number("RACE_WRITER", 0) as i64;
    let ours = Ours::new(warehouse, "races");
    let table = ours.table(TABLE).await.unwrap();
    let mut committer = TableCommitter::new(table.clone());
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    let lock = lock(warehouse);
    for commit in 1..=env_number("COMMITS", 100) as i64 {
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
        lock.lock_shared().unwrap();
        let outcome = committer.commit(&request).await.unwrap();
        lock.unlock().unwrap();
        match outcome {
            CommitOutcome::Committed { snapshot, .. } => println!("ack {snapshot} {commit}"),
            other => panic!("a new commit was answered {other:?}"),
        }
    }
}

#[tokio::test]
async fn every_acknowledged_commit_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Ours::new(folder.path(), "races");
    ours.create(TABLE, &definition()).await.unwrap();
    let lock = lock(folder.path());
    let children: Vec<_> = (0..PROCESSES)
        .map(|writer| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "one_process", "--ignored", "--nocapture"])
                .env("RACE_WAREHOUSE", folder.path())
                .env("RACE_WRITER", writer.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut rows: Vec<String> = Vec::new();
    for commit in 1..=JAVA_COMMITS {
        let line = definition().line(&row(PROCESSES as i64, commit));
        lock.lock().unwrap();
        let warehouse = folder.path().to_str().unwrap();
        java(
            "write",
            &[warehouse, "races.t", "--commit-user", "java"],
            &line,
        );
        lock.unlock().unwrap();
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
    let commits = PROCESSES * env_number("COMMITS", 100) as usize;
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
