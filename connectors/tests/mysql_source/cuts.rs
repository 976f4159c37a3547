//! The network goes down at any byte, and the server at any moment.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use headwater_connectors::{
    Source, SourceState,
    mysql::{Hosts, MysqlOptions, MysqlSource},
};
use rand::Rng;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::{fold::Running, server::Db};

/// Passes bytes on to a server, as many as it is told, then cuts everything off.
struct Wire {
    port: u16,
    left: Arc<AtomicI64>,
}

impl Wire {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Self {
            port: listener.local_addr().unwrap().port(),
            left: Arc::new(AtomicI64::new(i64::MAX)),
        };
        let left = wire.left.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                    tokio::spawn(pass(client, server, left.clone()));
                }
            }
        });
        wire
    }

    /// Cuts after so many bytes of the server's.
    fn cut_after(&self, bytes: i64) {
        self.left.store(bytes, Ordering::SeqCst);
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, left: Arc<AtomicI64>) {
    let (mut up, mut down) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => match read {
                Ok(n) if n > 0 => if server.write_all(&up[..n]).await.is_err() { return },
                _ => return,
            },
            read = server.read(&mut down) => match read {
                Ok(n) if n > 0 => {
                    let before = left.fetch_sub(n as i64, Ordering::SeqCst);
                    let passed = (n as i64).min(before.max(0)) as usize;
                    if client.write_all(&down[..passed]).await.is_err() || passed < n {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

/// A table with a transaction of many events, and a source behind a wire.
async fn prepared(name: &str) -> (Db, Wire, MysqlOptions) {
    let mut db = Db::new(name).await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT, pad VARCHAR(300))")
        .await;
    let mut options = db.options();
    let wire = Wire::to(options.hosts.current().port).await;
    options.hosts = Hosts::one("127.0.0.1", wire.port);
    options.connect_max_retries = 0;
    (db, wire, options)
}

const FILL: &str = "SET SESSION cte_max_recursion_depth = 1000000;\nINSERT INTO a WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 4000) SELECT x, x, REPEAT('x', 200) FROM r";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_is_cut_off_anywhere_is_taken_up_at_its_barrier() {
    let (mut db, wire, options) = prepared("cuttail").await;
    let mut tail = Running::start(MysqlSource::new(options.clone())).await;
    let state = tail.barrier().await;
    tail.kill();
    db.run(FILL).await;
    db.run("INSERT INTO a VALUES (0, 0, '')").await;
    let from = |state: &SourceState| {
        Running::from(Arc::new(MysqlSource::new(options.clone())), state.clone())
    };
    wire.cut_after(i64::MAX);
    let mut tail = from(&state);
    tail.barrier().await;
    assert_eq!(tail.folded.inserts, 4001);
    tail.kill();
    let all = i64::MAX - wire.left.load(Ordering::SeqCst);
    assert!(all > 800_000, "{all}");
    for _ in 0..40 {
        let bytes = rand::rng().random_range(0..all * 9 / 10);
        wire.cut_after(bytes);
        let error = from(&state).error().await;
        assert!(error.is_transient(), "after {bytes} bytes: {error}");
    }
    wire.cut_after(i64::MAX);
    let mut tail = from(&state);
    tail.barrier().await;
    assert_eq!(tail.folded.inserts, 4001);
    assert_eq!(tail.folded.rows.len(), 4001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_that_is_cut_off_anywhere_is_transient() {
    let (mut db, wire, options) = prepared("cutchunk").await;
    db.run(FILL).await;
    let source = MysqlSource::new(options);
    let schema = source.discover().await.unwrap().captured[0].clone();
    let split = source.splits(&schema, 1).await.unwrap().remove(0);
    for _ in 0..40 {
        let bytes = rand::rng().random_range(0..800_000);
        wire.cut_after(bytes);
        let (out, mut batches) = mpsc::channel(100);
        let error = match source.reader().await {
            Ok(mut reader) => reader.read(&schema, &split, &out).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.is_transient(), "after {bytes} bytes: {error}");
        batches.close();
        let error = source.round_high().await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    wire.cut_after(i64::MAX);
    source.round_high().await.unwrap();
}

/// The server is killed and started again by what `HEADWATER_TEST_MYSQL_RESTART` names, a command
/// that takes `kill9`, `stop` or `start` (`tests/services/mysql.sh`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs HEADWATER_TEST_MYSQL_PRIVATE and HEADWATER_TEST_MYSQL_RESTART"]
async fn a_server_that_is_killed_and_starts_again_is_taken_up() {
    let command = std::env::var("HEADWATER_TEST_MYSQL_RESTART").unwrap();
    let server = async |what: &str| {
        let status = tokio::process::Command::new("sh")
            .args(["-c", &format!("{command} {what}")])
            .status();
        assert!(status.await.unwrap().success());
    };
    let mut db = Db::on("HEADWATER_TEST_MYSQL_PRIVATE", "down").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT, pad VARCHAR(300))")
        .await;
    let mut options = db.options();
    options.connect_max_retries = 0;
    let source = MysqlSource::new(options.clone());
    let mut tail = Running::start(MysqlSource::new(options)).await;
    db.run(FILL).await;
    let mut state = tail.barrier().await;
    let schema = source.discover().await.unwrap().captured[0].clone();
    let split = source.splits(&schema, 1).await.unwrap().remove(0);
    let mut rows = tail.folded.rows.clone();
    for (next, how) in (10_000..).zip(["kill9", "stop", "kill9"]) {
        // One reader in the middle of a chunk, which nobody takes on, and one at rest.
        let mut reader = source.reader().await.unwrap();
        let mut resting = source.reader().await.unwrap();
        let (out, mut batches) = mpsc::channel(1);
        let reading = tokio::spawn({
            let (schema, split) = (schema.clone(), split.clone());
            async move { reader.read(&schema, &split, &out).await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        server(how).await;
        let error = tail.error().await;
        assert!(error.is_transient(), "{how}: {error}");
        while batches.recv().await.is_some() {}
        if let Err(error) = reading.await.unwrap() {
            assert!(error.is_transient(), "{how}: {error}");
        }
        let (out, _batches) = mpsc::channel(100);
        for error in [
            resting.read(&schema, &split, &out).await.unwrap_err(),
            source.round_high().await.unwrap_err(),
            source.verify_position(&state).await.unwrap_err(),
        ] {
            assert!(error.is_transient(), "{how}: {error}");
        }
        let again = Arc::new(MysqlSource::new(db.options()));
        let error = Running::from(again.clone(), state.clone()).error().await;
        assert!(error.is_transient(), "{how}: {error}");
        server("start").await;
        db.conn = db.session().await;
        db.run(&format!("INSERT INTO a VALUES ({next}, 1, '')"))
            .await;
        tail = Running::from(again, state);
        state = tail.barrier().await;
        rows.extend(tail.folded.rows.clone());
    }
    assert_eq!(rows.len(), 4003);
}
