//! What a job does to its source: no locks, little speed where that is asked for, and no more privileges
//! than the quickstart names.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;

use crate::support::{Headwater, JobFile, Lake, Server, small::arrives_within, values::settles};

const MINUTE: Duration = Duration::from_secs(60);

/// How statements of a job may begin. None of them locks more than a reader's metadata.
const ALLOWED: [&str; 8] = [
    "SELECT ",
    "SHOW ",
    "SET NAMES ",
    "SET SESSION ",
    "SET @",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "XA RECOVER",
];

/// What none may hold, wherever.
const LOCKING: [&str; 9] = [
    "FOR UPDATE",
    "FOR SHARE",
    "LOCK IN SHARE MODE",
    "LOCK TABLE",
    "LOCK INSTANCE",
    "FLUSH ",
    "GET_LOCK",
    "SERIALIZABLE",
    "SET GLOBAL",
];

/// Snapshot, tail, a schema change and a resync, under the quickstart's account: every statement that the
/// server has seen from it is read.
#[tokio::test(flavor = "multi_thread")]
async fn no_lock_is_taken() {
    if Server::is_given() {
        return;
    }
    let (server, lake) = (Server::private("locks", &[]), Lake::new());
    let database = server.database_of("locks").await;
    database
        .run(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, 'b');\n\
             CREATE TABLE s (k VARCHAR(20) PRIMARY KEY, v JSON);\nINSERT INTO s VALUES ('x', '{}')",
        )
        .await;
    let mut admin = server.connect().await;
    for statement in [
        "CREATE USER reader IDENTIFIED BY 'reader'".to_owned(),
        format!("GRANT SELECT ON `{}`.* TO reader", database.name),
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader".to_owned(),
        "GRANT XA_RECOVER_ADMIN ON *.* TO reader".to_owned(),
        "SET GLOBAL log_output = 'TABLE'".to_owned(),
        "SET GLOBAL general_log = ON".to_owned(),
    ] {
        admin.query_drop(&statement).await.unwrap();
    }
    let job = JobFile::new(&server, &database, &lake)
        .source("username", "reader")
        .source("password", "reader");
    let mut process = Headwater::run(&job, &lake);
    arrives_within(MINUTE, &lake, &database, 2, &mut process).await;
    database
        .run("INSERT INTO t VALUES (3, 'c');\nALTER TABLE t ADD d INT NOT NULL DEFAULT 7;\nDELETE FROM t WHERE id = 1")
        .await;
    Headwater::ask(
        "resync",
        &job,
        &lake,
        &[&format!("{}.s", database.name), "--wait"],
    )
    .succeeds()
    .await;
    settles(&lake, &database, &["t"], &mut process).await;
    process.stop().await;

    admin
        .query_drop("SET GLOBAL general_log = OFF")
        .await
        .unwrap();
    let seen: Vec<(String, String)> = admin
        .query(
            "SELECT command_type, CONVERT(argument USING utf8mb4) FROM mysql.general_log \
             WHERE user_host LIKE 'reader%'",
        )
        .await
        .unwrap();
    let kinds = ["Query", "Execute", "Prepare"];
    let statements: Vec<&str> = seen
        .iter()
        .filter(|(kind, _)| kinds.contains(&kind.as_str()))
        .map(|(_, statement)| statement.as_str())
        .collect();
    for table in ["t", "s"] {
        let name = format!("`{table}`");
        let read = |statement: &&&str| statement.starts_with("SELECT") && statement.contains(&name);
        assert!(
            statements.iter().find(read).is_some(),
            "{table} was read: {statements:#?}"
        );
    }
    assert!(
        seen.iter().any(|(kind, _)| kind.contains("Dump")),
        "{seen:#?}"
    );
    for statement in statements {
        let upper = statement.trim().trim_start_matches('(').to_uppercase();
        assert!(
            ALLOWED.iter().any(|start| upper.starts_with(start)),
            "{statement}"
        );
        assert!(
            !LOCKING.iter().any(|word| upper.contains(word)),
            "{statement}"
        );
    }
    lake.assert_equal(&database).await;
}

/// `limits.source.bytes-per-second` slows the snapshot down, and nothing is lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_a_second_are_kept_to() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("rate").await;
    database
        .run(
            "CREATE TABLE t (id INT PRIMARY KEY, v TEXT);\nSET SESSION cte_max_recursion_depth = 100000;\n\
             INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20000) \
             SELECT i, REPEAT('x', 500) FROM s",
        )
        .await;
    let job = JobFile::new(server, &database, &lake)
        .source("scan.startup.mode", "snapshot")
        .with("limits:\n  source:\n    bytes-per-second: 2MB\n");
    let start = Instant::now();
    let mut process = Headwater::run(&job, &lake);
    let status = process.ended(MINUTE).await;
    assert!(status.success(), "{status}:\n{}", process.output());
    // 10 MB of texts and 80 kB of keys.
    let took = start.elapsed();
    assert!(took > Duration::from_millis(4500), "{took:?}");
    lake.assert_equal(&database).await;
}
