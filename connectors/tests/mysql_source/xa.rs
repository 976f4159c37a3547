use headwater_connectors::Source;
use mysql_async::prelude::Queryable;

use crate::{fold::Running, server::Db};

#[tokio::test]
async fn rows_of_an_xa_transaction_arrive_at_its_commit_also_around_a_restart() {
    let mut db = Db::new("xa").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut tail = Running::start(db.source()).await;
    let mut xa = db.session().await;
    for sql in [
        "XA START 'mt1'",
        "INSERT INTO a VALUES (1, 1)",
        "XA END 'mt1'",
        "XA PREPARE 'mt1'",
    ] {
        xa.query_drop(sql).await.unwrap();
    }
    let mut dropped = db.session().await;
    for sql in [
        "XA START 'mt2'",
        "INSERT INTO a VALUES (2, 2)",
        "XA END 'mt2'",
        "XA PREPARE 'mt2'",
    ] {
        dropped.query_drop(sql).await.unwrap();
    }
    db.run("INSERT INTO a VALUES (3, 3)").await;
    let state = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 1, "prepared rows are not visible");
    let source = tail.source.clone();
    tail.kill();

    let mut tail = Running::from(source.clone(), state);
    tail.barrier().await;
    assert_eq!(tail.folded.inserts, 0);
    xa.query_drop("XA COMMIT 'mt1'").await.unwrap();
    dropped.query_drop("XA ROLLBACK 'mt2'").await.unwrap();
    for sql in [
        "XA START 'mt3'",
        "INSERT INTO a VALUES (5, 5)",
        "XA END 'mt3'",
        "XA COMMIT 'mt3' ONE PHASE",
    ] {
        xa.query_drop(sql).await.unwrap();
    }
    let state = tail.barrier().await;
    assert_eq!(tail.folded.inserts, 2);
    let low = source.round_low(&state.position).await.unwrap();
    assert!(state.position.is_contained_in(&low));
    assert_eq!(db.numbers("SELECT id FROM a ORDER BY id").await, [1, 3, 5]);
    // Everything of them is in the position: a restart brings nothing again.
    tail.kill();
    let mut tail = Running::from(source, state);
    tail.barrier().await;
    assert_eq!(tail.folded.inserts, 0);
}
