//! A job whose warehouse and state are on a real S3 server.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    exactness::aborts_at,
    support::{Headwater, JobFile, Lake, Server, Workload, dump, mysql::unique, script},
};

/// The server and a warehouse of its own there.
#[derive(Debug)]
struct Bucket {
    options: [(&'static str, String); 4],
    warehouse: String,
}

impl Bucket {
    /// `None`, and a word on it, where there is no server.
    fn new(test: &str) -> Option<Self> {
        let Ok(url) = std::env::var("HEADWATER_TEST_S3") else {
            eprintln!("{test} is left out: HEADWATER_TEST_S3 names no server (run.sh starts one)");
            return None;
        };
        let rest = url.trim_end_matches('/').strip_prefix("http://").unwrap();
        let (keys, address) = rest.rsplit_once('@').unwrap();
        let (key, secret) = keys.split_once(':').unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        Some(Self {
            options: [
                ("s3.endpoint", format!("http://{address}")),
                ("s3.path.style.access", "true".into()),
                ("s3.access-key", key.into()),
                ("s3.secret-key", secret.into()),
            ],
            warehouse: format!("s3://headwater/job-{now}-{}", unique()),
        })
    }

    fn job(&self, job: JobFile) -> JobFile {
        let job = job.sink("catalog.properties.warehouse", &self.warehouse);
        self.options.iter().fold(job, |job, (key, value)| {
            job.sink(&format!("catalog.properties.{key}"), value)
        })
    }

    fn secret(&self) -> &str {
        &self.options[3].1
    }

    /// Java Paimon on the bucket.
    fn assert_java(&self, verb: &str, table: &str, input: &str) {
        let mut command = Command::new(script("oracle/oracle.sh"));
        command.args([verb, &self.warehouse, table]);
        for (key, value) in &self.options {
            command.args(["--conf", &format!("{key}={value}")]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{verb} {table}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

async fn ends(verb: &str, job: &JobFile, lake: &Lake, code: i32) -> String {
    let mut process = Headwater::start(verb, job, lake, None);
    let status = process.ended(Duration::from_secs(120)).await;
    let output = process.output();
    assert_eq!(status.code(), Some(code), "{verb}:\n{output}");
    output
}

/// Snapshot and tail beside a workload, killed at any moment and between the steps of a commit;
/// then every row is compared: by `verify`, and by Java Paimon on the bucket.
#[tokio::test(flavor = "multi_thread")]
async fn tables_on_s3_equal_the_source_after_kills() {
    let Some(bucket) = Bucket::new("tables_on_s3_equal_the_source_after_kills") else {
        return;
    };
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("s3").await;
    let workload = Workload::create(&database, 3000).await;
    let job = bucket.job(JobFile::new(server, &database, &lake));
    let checked = ends("check", &job, &lake, 0).await;
    assert!(checked.contains(&bucket.warehouse), "{checked}");
    let running = workload.start(3, 11, Duration::from_millis(5)).await;
    for point in ["after-record", "between-table-commits"] {
        let mut process = Headwater::run(&job, &lake);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        process.assert_runs();
        process.kill9();
        aborts_at(point, &job, &lake).await;
    }
    let mut process = Headwater::run(&job, &lake);
    tokio::time::sleep(Duration::from_secs(2)).await;
    running.stop().await;
    workload.mark().await;
    // It waits until the running job has come as far as the source.
    ends("verify", &job, &lake, 0).await;
    process.assert_runs();
    assert!(!process.output().contains(bucket.secret()));
    process.stop().await;
    for table in database.tables().await {
        let lines = dump::lines(&database, &table).await;
        let name = format!("{}.{table}", database.name);
        bucket.assert_java("diff", &name, &lines.join("\n"));
        bucket.assert_java("fsck", &name, "");
    }
    assert!(
        !std::path::Path::new(&lake.warehouse()).exists(),
        "something was written on this machine"
    );
}

/// What cannot be used is found by `check`, and by `run` before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn keys_and_buckets_are_checked_and_never_shown() {
    let Some(bucket) = Bucket::new("keys_and_buckets_are_checked_and_never_shown") else {
        return;
    };
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("s3check").await;
    database.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let good = bucket.job(JobFile::new(server, &database, &lake));
    let cases = [
        ("s3.secret-key", "hunter2hunter2", "refuses the keys"),
        (
            "warehouse",
            "s3://headwater-no-such-bucket/w",
            "no such bucket",
        ),
        ("s3.endpoint", "http://127.0.0.1:9", "127.0.0.1:9"),
    ];
    for (key, value, said) in cases {
        let job = good
            .clone()
            .sink(&format!("catalog.properties.{key}"), value);
        // A run waits for a server that is away.
        let verbs: &[&str] = match key {
            "s3.endpoint" => &["check"],
            _ => &["check", "run"],
        };
        for verb in verbs {
            let mut process = Headwater::start(verb, &job, &lake, None);
            let status = process.ended(Duration::from_secs(150)).await;
            let output = process.output();
            assert!(!status.success(), "{verb}: {output}");
            assert!(output.contains(said), "{verb}: {output}");
            for secret in ["hunter2", bucket.secret()] {
                assert!(!output.contains(secret), "{verb}: {output}");
            }
        }
    }
}
