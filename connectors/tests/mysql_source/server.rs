//! A database on the server for each test, and a source on it.

use headwater_connectors::mysql::{
    MysqlOptions, MysqlSource, Password, TableFilter,
};
use mysql_async::{Conn, Opts, prelude::Queryable};

fn opts() -> Opts {
    let url = std::env::var("HEADWATER_TEST_MYSQL")
        .expect("HEADWATER_TEST_MYSQL must name a server: mysql://root@127.0.0.1:3306/");
    Opts::from_url(&url).unwrap()
}

/// A database that is empty at first.
pub struct Db {
    pub name: String,
    pub conn: Conn,
}

impl Db {
    pub async fn new(name: &str) -> Self {
        let name = format!("mt_{name}");
        let mut conn = Conn::new(opts()).await.unwrap();
        conn.query_drop(format!("DROP DATABASE IF EXISTS {name}")).await.unwrap();
        conn.query_drop(format!("CREATE DATABASE {name}")).await.unwrap();
        conn.query_drop(format!("USE {name}")).await.unwrap();
        Self { name, conn }
    }

    /// Another session in the same database.
    pub async fn session(&self) -> Conn {
        let mut conn = Conn::new(opts()).await.unwrap();
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
        let opts = opts();
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
