//! Private MySQL servers, started by `tests/services/mysql.sh`, and databases in them.

use std::{
    collections::HashMap,
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};

use super::script;

/// A server of this run of the tests; it ends with the process.
#[derive(Debug)]
pub struct Server {
    name: String,
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
}

/// Numbers what the tests create, so that names never meet.
pub fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Server {
    /// The server that most tests share, each with databases of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("shared", &[]))
    }

    /// A server for a test that restarts it or changes its global settings. Do not use it where
    /// `HEADWATER_TEST_MYSQL` gives the server: see [`Server::is_given`].
    pub fn private(purpose: &str, options: &[&str]) -> Self {
        Self::start(&format!("{purpose}-{}", unique()), options)
    }

    /// Whether the server is one that the user runs, which tests must not restart or reconfigure.
    pub fn is_given() -> bool {
        std::env::var_os("HEADWATER_TEST_MYSQL").is_some_and(|url| !url.is_empty())
    }

    fn start(purpose: &str, options: &[&str]) -> Self {
        let name = format!("test-{}-{purpose}", std::process::id());
        let mut args = vec!["start", &name, "auto"];
        args.extend(options);
        run(&args);
        let env: HashMap<String, String> = run(&["env", &name])
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self {
            host: env["host"].clone(),
            port: env["port"].parse().unwrap(),
            user: env["user"].clone(),
            password: env["password"].clone(),
            name,
        }
    }

    /// Ends the server politely; [`Server::start_again`] brings it back on the same port.
    pub fn stop(&self) {
        run(&["stop", &self.name]);
    }

    /// Ends the server with SIGKILL.
    pub fn kill9(&self) {
        run(&["kill9", &self.name]);
    }

    /// Starts a stopped server on its port with its data.
    pub fn start_again(&self) {
        run(&["start", &self.name, &self.port.to_string()]);
    }

    /// A connection as an administrator, to no database.
    pub async fn connect(&self) -> Conn {
        Conn::new(self.options(None)).await.unwrap()
    }

    fn options(&self, database: Option<&str>) -> Opts {
        OptsBuilder::default()
            .ip_or_hostname(self.host.clone())
            .tcp_port(self.port)
            .user(Some(self.user.clone()))
            .pass(Some(self.password.clone()))
            .db_name(database.map(str::to_owned))
            .prefer_socket(false)
            .init(vec!["SET time_zone = '+00:00'"])
            .into()
    }

    /// A new empty database whose name begins with `prefix`.
    pub async fn database(&'static self, prefix: &str) -> Database {
        self.database_of(prefix).await
    }

    /// As [`Server::database`], for a server that does not live for ever.
    pub async fn database_of(&self, prefix: &str) -> Database {
        let name = format!("{prefix}_{}_{}", std::process::id(), unique());
        let mut conn = self.connect().await;
        conn.query_drop(format!("CREATE DATABASE `{name}`"))
            .await
            .unwrap();
        Database {
            options: self.options(Some(&name)),
            name,
        }
    }
}

/// A database of one test.
#[derive(Debug, Clone)]
pub struct Database {
    pub name: String,
    options: Opts,
}

impl Database {
    /// The database of this name on another server.
    pub fn at(&self, server: &Server) -> Self {
        Self {
            name: self.name.clone(),
            options: server.options(Some(&self.name)),
        }
    }

    /// A new session in this database.
    pub async fn connect(&self) -> Conn {
        Conn::new(self.options.clone()).await.unwrap()
    }

    /// Runs statements separated by `;` at the ends of lines.
    pub async fn run(&self, statements: &str) {
        let mut conn = self.connect().await;
        for statement in statements.split(";\n").map(str::trim) {
            let statement = statement.trim_end_matches(';');
            if !statement.is_empty() {
                conn.query_drop(statement)
                    .await
                    .unwrap_or_else(|e| panic!("{statement}: {e}"));
            }
        }
    }

    /// Names of its tables.
    pub async fn tables(&self) -> Vec<String> {
        let mut conn = self.connect().await;
        conn.exec(
            "SELECT table_name FROM information_schema.tables \
             WHERE table_schema = ? AND table_type = 'BASE TABLE' ORDER BY 1",
            (&self.name,),
        )
        .await
        .unwrap()
    }
}

fn run(args: &[&str]) -> String {
    let output = Command::new(script("services/mysql.sh"))
        .args(args)
        .env("HEADWATER_OWNER", std::process::id().to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "mysql.sh {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
