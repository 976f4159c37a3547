//! The `headwater` program as a child of a test.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::{Database, Lake, Server, mysql::unique};

/// A job file in the making: a Flink CDC pipeline file, and keys of ours.
#[derive(Debug, Clone)]
pub struct JobFile {
    source: Vec<(String, String)>,
    sink: Vec<(String, String)>,
    pipeline: Vec<(String, String)>,
    tail: String,
    name: String,
}

/// A number that no other job of this run has, nor one of a run beside it on a given server.
pub fn server_id() -> u32 {
    1_000_000 + std::process::id() * 200 + unique()
}

impl JobFile {
    /// All tables of a database into the lake, with small chunks and quick checkpoints.
    pub fn new(server: &Server, database: &Database, lake: &Lake) -> Self {
        let pair = |key: &str, value: String| (key.to_owned(), value);
        Self {
            source: vec![
                pair("hostname", server.host.clone()),
                pair("port", server.port.to_string()),
                pair("username", server.user.clone()),
                pair("password", server.password.clone()),
                pair("tables", format!("{}.\\.*", database.name)),
                pair("server-id", server_id().to_string()),
                pair("scan.incremental.snapshot.chunk.size", "97".into()),
            ],
            sink: vec![
                pair("catalog.properties.metastore", "filesystem".into()),
                pair("catalog.properties.warehouse", lake.warehouse()),
                // The tests look at every checkpoint.
                pair(
                    "table.properties.snapshot.num-retained.max",
                    "100000".into(),
                ),
                pair(
                    "table.properties.snapshot.num-retained.min",
                    "100000".into(),
                ),
                pair("table.properties.bucket", "2".into()),
            ],
            pipeline: Vec::new(),
            tail: "checkpoint:\n  interval: 400ms\nserver:\n  listen: \"off\"\n".into(),
            name: "test".into(),
        }
    }

    fn set(pairs: &mut Vec<(String, String)>, key: &str, value: &str) {
        pairs.retain(|(name, _)| name != key);
        pairs.push((key.to_owned(), value.to_owned()));
    }

    /// Sets a key of the source.
    pub fn source(mut self, key: &str, value: &str) -> Self {
        Self::set(&mut self.source, key, value);
        self
    }

    /// Sets a key of the sink.
    pub fn sink(mut self, key: &str, value: &str) -> Self {
        Self::set(&mut self.sink, key, value);
        self
    }

    /// Sets a key of the pipeline.
    pub fn pipeline(mut self, key: &str, value: &str) -> Self {
        Self::set(&mut self.pipeline, key, value);
        self
    }

    /// So rarely takes checkpoints that a job which goes on takes its first one where it finds the log's
    /// end, and not before.
    pub fn at_the_log_end(mut self) -> Self {
        self.tail = self.tail.replace("interval: 400ms", "interval: 5min");
        self
    }

    /// Adds lines at the end of the file.
    pub fn with(mut self, text: &str) -> Self {
        self.tail.push_str(text);
        self
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let block = |pairs: &[(String, String)]| -> String {
            pairs
                .iter()
                .map(|(key, value)| format!("  {key}: \"{}\"\n", value.replace('\\', "\\\\")))
                .collect()
        };
        format!(
            "source:\n  type: mysql\n{}\nsink:\n  type: paimon\n{}\npipeline:\n  name: {}\n{}\n{}",
            block(&self.source),
            block(&self.sink),
            self.name,
            block(&self.pipeline),
            self.tail
        )
    }

    /// Writes it into the lake's folder.
    pub fn write(&self, lake: &Lake) -> PathBuf {
        let path = lake.folder().join(format!("job-{}.yaml", unique()));
        std::fs::write(&path, self.text()).unwrap();
        path
    }
}

/// A running `headwater`; killed when dropped.
#[derive(Debug)]
pub struct Headwater {
    child: Child,
    log: PathBuf,
}

impl Headwater {
    /// `headwater run` of a job file.
    pub fn run(job: &JobFile, lake: &Lake) -> Self {
        Self::start("run", job, lake, None)
    }

    /// As [`Headwater::run`], aborting itself at a named point.
    pub fn run_until(job: &JobFile, lake: &Lake, failpoint: &str) -> Self {
        Self::start("run", job, lake, Some(failpoint))
    }

    /// Any verb of the program that takes a job file.
    pub fn start(verb: &str, job: &JobFile, lake: &Lake, failpoint: Option<&str>) -> Self {
        Self::spawn(verb, job, lake, &[], failpoint)
    }

    fn spawn(
        verb: &str,
        job: &JobFile,
        lake: &Lake,
        words: &[&str],
        failpoint: Option<&str>,
    ) -> Self {
        let log = lake.folder().join(format!("log-{}", unique()));
        let file = File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .arg(verb)
            .arg(job.write(lake))
            .args(words)
            .current_dir(lake.folder())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        if let Some(name) = failpoint {
            command.env("HEADWATER_FAILPOINT", name);
        }
        Self {
            child: command.spawn().unwrap(),
            log,
        }
    }

    /// A verb that takes a job file and more words.
    pub fn ask(verb: &str, job: &JobFile, lake: &Lake, words: &[&str]) -> Self {
        Self::spawn(verb, job, lake, words, None)
    }

    /// Waits until it has ended well.
    pub async fn succeeds(mut self) {
        let status = self.ended(Duration::from_secs(180)).await;
        assert!(status.success(), "{status}:\n{}", self.output());
    }

    /// Everything it has printed so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// It must not have ended by itself.
    pub fn assert_runs(&mut self) {
        assert!(self.is_running(), "it ended by itself:\n{}", self.output());
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(status.unwrap().success());
    }

    /// Whether it stands still after SIGSTOP.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }

    /// SIGKILL.
    pub fn kill9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                start.elapsed() < limit,
                "still running after {limit:?}:\n{}",
                self.output()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// SIGTERM: a last checkpoint and exit code 0.
    pub async fn stop(mut self) {
        self.assert_runs();
        self.signal("TERM");
        let status = self.ended(Duration::from_secs(60)).await;
        assert!(status.success(), "{status} on SIGTERM:\n{}", self.output());
    }

    /// Waits until it has ended with an error; the message must hold every one of `words`
    /// (without regard to case). Returns the output.
    pub async fn fails_naming(mut self, words: &[&str]) -> String {
        let status = self.ended(Duration::from_secs(60)).await;
        let output = self.output();
        assert!(!status.success(), "it ended well:\n{output}");
        assert!(
            !output.contains("panicked"),
            "a panic is no message:\n{output}"
        );
        for word in words {
            assert!(
                output.to_lowercase().contains(&word.to_lowercase()),
                "{word:?} is not in the message:\n{output}"
            );
        }
        output
    }
}

impl Drop for Headwater {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- output of headwater\n{}", self.output());
        }
    }
}
