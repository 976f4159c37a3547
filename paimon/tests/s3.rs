//! A warehouse on a real S3 server: `HEADWATER_TEST_S3=http://key:secret@host:port`, which
//! `tests/run.sh` starts; without it these tests are left out and say so.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, ColumnPlace, CommitOutcome, CommitRequest, DataField, DataType, Location, Schema,
    StoreOptions, Table, WriteBuffer, WriteSettings,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const BUCKET: &str = "headwater";

#[derive(Debug, Clone)]
struct Server {
    key: String,
    secret: String,
    address: String,
}

/// The server, or none, and a word on that.
fn server(test: &str) -> Option<Server> {
    let Ok(url) = std::env::var("HEADWATER_TEST_S3") else {
        eprintln!(
            "{test} is left out: HEADWATER_TEST_S3 names no server (tests/run.sh starts one)"
        );
        return None;
    };
    let rest = url.trim_end_matches('/').strip_prefix("http://").unwrap();
    let (keys, address) = rest.rsplit_once('@').unwrap();
    let (key, secret) = keys.split_once(':').unwrap();
    Some(Server {
        key: key.into(),
        secret: secret.into(),
        address: address.into(),
    })
}

impl Server {
    fn options(&self) -> StoreOptions {
        let mut options = StoreOptions::new();
        options.insert("s3.endpoint", format!("http://{}", self.address));
        options.insert("s3.path.style.access", "true");
        options.insert("s3.access-key", &*self.key);
        options.insert("s3.secret-key", &*self.secret);
        options
    }

    fn open(&self, warehouse: &str) -> Catalog {
        Catalog::open(&warehouse.parse().unwrap(), &self.options()).unwrap()
    }
}

fn new_warehouse() -> String {
    format!("s3://{BUCKET}/paimon-{}", uuid::Uuid::new_v4())
}

fn field(name: &str, data_type: DataType) -> DataField {
    DataField::new(name, data_type)
}

fn schema() -> Schema {
    Schema::create(
        vec![field("id", DataType::BigInt), field("v", DataType::BigInt)],
        vec!["id".into()],
        vec![],
        BTreeMap::from([("bucket".into(), "2".into())]),
        None,
    )
    .unwrap()
}

/// A request that adds some rows; its files are written.
async fn request(table: &Table, user: &str, identifier: i64, ids: &[i64]) -> CommitRequest {
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    let id: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let v: ArrayRef = Arc::new(Int64Array::from(vec![identifier; ids.len()]));
    let rows = RecordBatch::try_from_iter([("id", id), ("v", v)]).unwrap();
    buffer.write(&rows, None, identifier * 1000).unwrap();
    CommitRequest {
        user: user.into(),
        identifier,
        messages: buffer.flush().await.unwrap(),
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    }
}

async fn ids(table: &Table) -> Vec<i64> {
    let snapshot = table.latest_snapshot().await.unwrap().unwrap();
    let mut ids = Vec::new();
    for split in table.scan(&snapshot).await.unwrap() {
        let batches: Vec<RecordBatch> = table
            .read_bucket(&split, Some(&["id"]))
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        for batch in batches {
            ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
    }
    ids.sort_unstable();
    ids
}

/// `(user, identifier)` of every snapshot, which must be numbered without a gap.
async fn commits(table: &Table) -> Vec<(String, i64)> {
    let numbers = table.snapshot_ids().await.unwrap();
    assert!(
        numbers.iter().copied().eq(1..=numbers.len() as i64),
        "{numbers:?}"
    );
    let mut commits = Vec::new();
    for number in numbers {
        let snapshot = table.snapshot(number).await.unwrap().unwrap();
        commits.push((snapshot.commit_user, snapshot.commit_identifier));
    }
    commits
}

#[tokio::test]
async fn a_table_is_made_written_changed_and_read() {
    let Some(server) = server("a_table_is_made_written_changed_and_read") else {
        return;
    };
    let warehouse = new_warehouse();
    let catalog = server.open(&warehouse);
    assert_eq!(catalog.location(), warehouse);
    catalog.probe().await.unwrap();
    assert!(catalog.list_databases().await.unwrap().is_empty());
    assert!(catalog.table("db", "t").await.unwrap().is_none());
    let table = catalog.create_table("db", "t", schema()).await.unwrap();
    let error = catalog.create_table("db", "t", schema()).await.unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");

    // Many rows, so that files and manifests are real ones.
    let many: Vec<i64> = (0..20_000).collect();
    let first = request(&table, "u", 1, &many).await;
    let outcome = table.commit(&first).await.unwrap();
    assert!(matches!(
        outcome,
        CommitOutcome::Committed { snapshot: 1, .. }
    ));
    assert!(matches!(
        table.commit(&first).await.unwrap(),
        CommitOutcome::AlreadyCommitted { snapshot: 1, .. }
    ));
    let table = table
        .add_columns(&[(field("w", DataType::Int), ColumnPlace::Last)])
        .await
        .unwrap();
    assert_eq!(table.schema().id, 1);

    let other = server.open(&warehouse);
    assert_eq!(other.list_databases().await.unwrap(), ["db"]);
    assert_eq!(other.list_tables("db").await.unwrap(), ["t"]);
    let table = other.table("db", "t").await.unwrap().unwrap();
    assert_eq!(table.schema().fields.len(), 3);
    assert_eq!(ids(&table).await, many);
}

#[tokio::test]
async fn what_cannot_be_used_is_told_without_the_keys() {
    let Some(server) = server("what_cannot_be_used_is_told_without_the_keys") else {
        return;
    };
    let wrong_secret = Server {
        secret: "hunter2hunter2".into(),
        ..server.clone()
    };
    let wrong_key = Server {
        key: "hunter2hunter2".into(),
        ..server.clone()
    };
    let nobody = Server {
        address: "127.0.0.1:9".into(),
        ..server.clone()
    };
    let here = new_warehouse();
    let cases = [
        (&wrong_secret, here.as_str(), "refuses the keys", false),
        (&wrong_key, here.as_str(), "refuses the keys", false),
        (
            &server,
            "s3://no-such-bucket-here/w",
            "no such bucket",
            false,
        ),
        (&nobody, here.as_str(), "127.0.0.1:9", true),
    ];
    for (server, warehouse, said, transient) in cases {
        let start = std::time::Instant::now();
        let error = server.open(warehouse).probe().await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(error.is_transient(), transient, "{error}");
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
    }
}

/// Several processes commit at the same time; one is killed in the middle and another goes on for
/// it with the same requests. Every acknowledged commit is there once, and no other.
#[tokio::test]
async fn committers_in_processes_race() {
    const RACERS: i64 = 5;
    let Some(server) = server("committers_in_processes_race") else {
        return;
    };
    let warehouse = new_warehouse();
    let catalog = server.open(&warehouse);
    let table = catalog.create_table("db", "t", schema()).await.unwrap();
    let start = |racer: i64| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "racer", "--ignored", "--nocapture"])
            .env("RACER", racer.to_string())
            .env("RACE_IN", &warehouse)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut threads = Vec::new();
    for racer in (0..RACERS).rev() {
        let mut child = start(racer);
        let mut acknowledged = Vec::new();
        if racer == 0 {
            let output = std::io::BufReader::new(child.stdout.take().unwrap());
            let lines = output.lines().map_while(Result::ok);
            acknowledged.extend(lines.filter_map(|line| acknowledgement(&line)).take(4));
            child.kill().unwrap();
            child.wait().unwrap();
            child = start(racer);
        }
        threads.push(std::thread::spawn(move || collect(child, acknowledged)));
    }
    let mut acknowledged = Vec::new();
    for thread in threads {
        acknowledged.extend(thread.join().unwrap());
    }
    let mut commits = commits(&table).await;
    commits.sort();
    let all: BTreeSet<(String, i64)> = acknowledged.into_iter().collect();
    assert_eq!(all.len() as i64, RACERS * COMMITS);
    assert!(commits.iter().eq(all.iter()), "{commits:?}\n{all:?}");
    let rows: Vec<i64> = (0..RACERS * COMMITS * 3).collect();
    assert_eq!(ids(&table).await, rows);
}

const COMMITS: i64 = 10;

fn acknowledgement(line: &str) -> Option<(String, i64)> {
    let (_, rest) = line.split_once("acknowledged ")?;
    let (user, identifier) = rest.split_once(' ')?;
    Some((user.to_owned(), identifier.trim().parse().ok()?))
}

fn collect(
    mut child: std::process::Child,
    mut acknowledged: Vec<(String, i64)>,
) -> Vec<(String, i64)> {
    let output = child.stdout.take().unwrap();
    // On a thread: reading a pipe blocks.
    for line in std::io::BufReader::new(output).lines() {
        acknowledged.extend(acknowledgement(&line.unwrap()));
    }
    assert!(child.wait().unwrap().success());
    acknowledged
}

/// One of the racers, in a process of its own.
#[tokio::test]
#[ignore = "a part of committers_in_processes_race"]
async fn racer() {
    let Ok(racer) = std::env::var("RACER") else {
        return;
    };
    let warehouse = std::env::var("RACE_IN").unwrap();
    let catalog = server("racer").unwrap().open(&warehouse);
    let table = catalog.table("db", "t").await.unwrap().unwrap();
    let mut committer = headwater_paimon::TableCommitter::new(table.clone());
    let user = format!("racer-{racer}");
    let first = racer.parse::<i64>().unwrap() * COMMITS * 3;
    for identifier in 0..COMMITS {
        let ids: Vec<i64> = (0..3).map(|row| first + identifier * 3 + row).collect();
        let request = request(&table, &user, identifier, &ids).await;
        committer.commit(&request).await.unwrap();
        println!("acknowledged {user} {identifier}");
    }
}

/// How the way to the server misbehaves.
#[derive(Debug, Default)]
struct Way {
    /// Connections are refused or cut at once.
    closed: AtomicBool,
    /// The next creation of a snapshot reaches the server, and its answer is lost.
    lose_answer: AtomicBool,
    lost: AtomicBool,
}

/// A way to the server that can be closed and loses answers.
async fn way(server: &Server, way: Arc<Way>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let to = server.address.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            if !way.closed.load(Ordering::SeqCst) {
                tokio::spawn(carry(client, to.clone(), way.clone()));
            }
        }
    });
    Server {
        address,
        ..server.clone()
    }
}

async fn carry(mut client: TcpStream, to: String, way: Arc<Way>) {
    let Ok(mut server) = TcpStream::connect(to).await else {
        return;
    };
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut doomed = false;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(count @ 1..) = read else { return };
                let text = String::from_utf8_lossy(&up[..count]);
                if way.closed.load(Ordering::SeqCst) {
                    return;
                }
                if text.starts_with("PUT ") && text.contains("/snapshot/snapshot-") {
                    doomed = way.lose_answer.swap(false, Ordering::SeqCst);
                }
                if server.write_all(&up[..count]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(count @ 1..) = read else { return };
                if doomed {
                    way.lost.store(true, Ordering::SeqCst);
                    return;
                }
                if client.write_all(&down[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The store refuses for some seconds in the middle of commits, and the answer to the creation of
/// a snapshot is lost: nothing is lost or doubled.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_lost_answers_are_survived() {
    let Some(server) = server("refusals_and_lost_answers_are_survived") else {
        return;
    };
    let state = Arc::new(Way::default());
    let catalog = way(&server, state.clone()).await.open(&new_warehouse());
    let table = catalog.create_table("db", "t", schema()).await.unwrap();
    let mut committer = headwater_paimon::TableCommitter::new(table.clone());
    for identifier in 0..6 {
        let ids = [identifier * 2, identifier * 2 + 1];
        let request = request(&table, "u", identifier, &ids).await;
        match identifier {
            2 => {
                state.closed.store(true, Ordering::SeqCst);
                let state = state.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(4)).await;
                    state.closed.store(false, Ordering::SeqCst);
                });
            }
            4 => state.lose_answer.store(true, Ordering::SeqCst),
            _ => {}
        }
        // An unclear answer is settled by asking again.
        while let Err(error) = committer.commit(&request).await {
            assert!(error.is_transient(), "{error}");
        }
    }
    assert!(state.lost.load(Ordering::SeqCst), "no answer was lost");
    let wanted: Vec<(String, i64)> = (0..6).map(|id| ("u".to_owned(), id)).collect();
    assert_eq!(commits(&table).await, wanted);
    assert_eq!(ids(&table).await, (0..12).collect::<Vec<i64>>());
    assert!(matches!("s3://b/w".parse(), Ok(Location::S3 { .. })));
}
