//! The tests' own tools: were they wrong, everything else would prove nothing.

use std::time::Duration;

use mysql_async::prelude::Queryable;

use crate::support::{Lake, Server, Workload, dump, oracle};

/// The three readers print what the dump of the source prints, for every type of the workload:
/// written by Java from the dump, read by all.
#[tokio::test(flavor = "multi_thread")]
async fn dump_and_readers_agree() {
    let database = Server::shared().database("self").await;
    let workload = Workload::create(&database, 300).await;
    let lake = Lake::new();
    for (table, columns, keys) in [
        (
            "orders",
            r#"[["id","BIGINT NOT NULL"],["customer","INT"],["amount","DECIMAL(10,2)"],["state","STRING"],["paid","BOOLEAN"],["at","TIMESTAMP(6) WITH LOCAL TIME ZONE"],["doc","STRING"],["note","STRING"]]"#,
            r#"["id"]"#,
        ),
        (
            "items",
            r#"[["order_id","INT NOT NULL"],["sku","VARCHAR(20) NOT NULL"],["quantity","INT"],["price","DOUBLE"],["weight","FLOAT"]]"#,
            r#"["order_id","sku"]"#,
        ),
        (
            "readings",
            r#"[["at","TIMESTAMP(3) NOT NULL"],["sensor","DECIMAL(8,3) NOT NULL"],["value","DOUBLE"],["quality","TINYINT"],["day","DATE"]]"#,
            r#"["at","sensor"]"#,
        ),
    ] {
        let name = workload.table(table);
        let definition =
            format!(r#"{{"columns":{columns},"primaryKeys":{keys},"options":{{"bucket":"2"}}}}"#);
        oracle::java("create", &[&lake.warehouse(), &name], &definition);
        let lines = dump::lines(&database, table).await;
        assert!(lines.len() >= 300, "{table} has {} rows", lines.len());
        oracle::java("write", &[&lake.warehouse(), &name], &lines.join("\n"));
        lake.assert_holds(&[(name, lines)]);
    }
    // What is wrong is found.
    let name = workload.table("orders");
    let mut lines = dump::lines(&database, "orders").await;
    lines.pop();
    let answer = oracle::java("diff", &[&lake.warehouse(), &name], &lines.join("\n"));
    assert!(
        !answer.good && answer.text.contains("1 rows differ"),
        "{}",
        answer.text
    );
}

/// The workload changes every table, leaves the sum of the money as it was, and the dump of a
/// resting server does not change.
#[tokio::test(flavor = "multi_thread")]
async fn workload_works_and_rests() {
    let database = Server::shared().database("work").await;
    let workload = Workload::create(&database, 2000).await;
    let tables = database.tables().await;
    let mut before = Vec::new();
    for table in &tables {
        before.push(dump::lines(&database, table).await);
    }
    let running = workload.start(4, 1, Duration::from_millis(1)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let transactions = running.stop().await;
    assert!(transactions > 100, "only {transactions} transactions");
    assert_eq!(workload.mark().await, 1);
    for (table, before) in tables.iter().zip(before) {
        let after = dump::lines(&database, table).await;
        assert_ne!(before, after, "{table} did not change");
        assert_eq!(
            after,
            dump::lines(&database, table).await,
            "{table} is not stable"
        );
    }
    let mut conn = database.connect().await;
    let money: String = conn
        .query_first("SELECT (SELECT SUM(money) FROM checking) + (SELECT SUM(money) FROM saving)")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(money.replace('.', ""), workload.money_cents().to_string());
}

/// Kill and restart of a private server keep its data and its port.
#[tokio::test(flavor = "multi_thread")]
async fn private_server_survives_kill() {
    if Server::is_given() {
        return;
    }
    let server = Server::private("restart", &[]);
    let database = server.database_of("kept").await;
    database
        .run("CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1), (2)")
        .await;
    server.kill9();
    server.start_again();
    assert_eq!(
        dump::lines(&database, "t").await,
        [r#"{"id":1}"#, r#"{"id":2}"#]
    );
    server.stop();
}
