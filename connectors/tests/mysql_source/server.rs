//! A database on the server for each test, and a source on it.

use headwater_connectors::mysql::{MysqlOptions, MysqlSource, Password, TableFilter};
use mysql_async::{Conn, Opts, prelude::Queryable};

fn opts(variable: &str) -> Opts {
    // A server for these tests only may have a variable of its own.
    let url = std::env::var(format!("{variable}_SOURCE"))
        .or_else(|_| std::env::var(variable))
        .unwrap_or_else(|_| panic!("{variable} must name a server: mysql://root@127.0.0.1:3306/"));
    Opts::from_url(&url).unwrap()
}

/// A statement that is logged as text stops every tail on the server: the test of that holds this
/// for writing, tests that run for long for reading.
pub static LOG: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// A database that is empty at first.
pub struct Db {
    pub name: String,
    pub conn: Conn,
    opts: Opts,
}

impl Db {
    pub async fn new(name: &str) -> Self {
        Self::on("HEADWATER_TEST_MYSQL", name).await
    }

    /// On the server that an environment variable names.
    pub async fn on(variable: &str, name: &str) -> Self {
        let name = format!("mt_{name}");
        let opts = opts(variable);
        let mut conn = Conn::new(opts.clone()).await.unwrap();
        conn.query_drop(format!("DROP DATABASE IF EXISTS {name}"))
            .await
            .unwrap();
        conn.query_drop(format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        conn.query_drop(format!("USE {name}")).await.unwrap();
        Self { name, conn, opts }
    }

    /// Another session in the same database.
    pub async fn session(&self) -> Conn {
        let mut conn = Conn::new(self.opts.clone()).await.unwrap();
        conn.query_drop(format!("USE {}", self.name)).await.unwrap();
        conn
    }

    pub async fn run(&mut self, sql: &str) {
        for statement in sql.split(";\n").filter(|part| !part.trim().is_empty()) {
            self.conn
                .query_drop(statement)
                .await
                .unwrap_or_else(|e| panic!("{statement}: {e}"));
        }
    }

    pub async fn numbers(&mut self, sql: &str) -> Vec<i64> {
        self.conn.query(sql).await.unwrap()
    }

    pub fn options(&self) -> MysqlOptions {
        let opts = &self.opts;
        let user = opts.user().unwrap_or("root");
        let mut options = MysqlOptions::new(opts.ip_or_hostname(), opts.tcp_port(), user);
        options.password = Password::new(opts.pass().unwrap_or_default());
        options.tables = TableFilter::parse(&format!(r"{}.\.*", self.name), None).unwrap();
        options
    }

    pub fn source(&self) -> MysqlSource {
        MysqlSource::new(self.options())
    }
}
