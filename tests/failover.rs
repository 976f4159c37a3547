//! A server is gone for good and its replica takes its place (B4): the job goes on there by GTID.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;

use crate::support::{
    Headwater, JobFile, Lake, Server, eventually, small::arrives_within, values::settles,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Seconds from the new server's first row to the lake, checkpoint interval and reader included.
const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over() {
    if Server::is_given() {
        return;
    }
    let old = Server::private("old", &[]);
    let new = Server::private("new", &["--log-bin=other", "--read-only=ON"]);
    let mut replica = new.connect().await;
    replica
        .query_drop(format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = '{}', \
             SOURCE_PASSWORD = '{}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
            old.host, old.port, old.user, old.password
        ))
        .await
        .unwrap();
    replica.query_drop("START REPLICA").await.unwrap();

    let lake = Lake::new();
    let database = old.database_of("failover").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\nINSERT INTO t VALUES (1, 'a'), (2, 'b')")
        .await;
    let hosts = format!("{}:{},{}:{}", old.host, old.port, new.host, new.port);
    let job = JobFile::new(&old, &database, &lake).source("hostname", &hosts);
    let mut process = Headwater::run(&job, &lake);
    arrives_within(MINUTE, &lake, &database, 2, &mut process).await;
    for id in 10..200 {
        database
            .run(&format!(
                "INSERT INTO t VALUES ({id}, 'old');\nUPDATE t SET v = 'x' WHERE id = {id} - 3"
            ))
            .await;
    }
    let executed: Option<String> = old
        .connect()
        .await
        .query_first("SELECT @@global.gtid_executed")
        .await
        .unwrap();
    let caught_up: Option<i64> = replica
        .query_first(format!(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', 60)",
            executed.unwrap()
        ))
        .await
        .unwrap();
    assert_eq!(caught_up, Some(0));
    old.kill9();
    replica.query_drop("STOP REPLICA").await.unwrap();
    replica
        .query_drop("SET GLOBAL read_only = OFF")
        .await
        .unwrap();

    let promoted = database.at(&new);
    let answered = Instant::now();
    promoted.run("INSERT INTO t VALUES (1000, 'new');\nDELETE FROM t WHERE id < 50;\nALTER TABLE t ADD w INT").await;
    eventually("the new server's row is in the lake", MINUTE, async || {
        process.assert_runs();
        process.output().contains("ALTER TABLE t ADD w INT")
    })
    .await;
    let took = answered.elapsed();
    println!("tailing again {took:?} after the new server's first row");
    assert!(took < WITHIN, "{took:?}:\n{}", process.output());
    promoted.run("UPDATE t SET w = id").await;
    settles(&lake, &promoted, &["t"], &mut process).await;
    // It stays there, also after a start with the old address in front, whose server is gone.
    process.kill9();
    let mut process = Headwater::run(&job, &lake);
    promoted
        .run("INSERT INTO t VALUES (2000, 'again', 1)")
        .await;
    settles(&lake, &promoted, &["t"], &mut process).await;
    process.stop().await;
    lake.assert_equal(&promoted).await;
}
