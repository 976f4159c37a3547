use headwater_connectors::{Position, Source};
use mysql_async::prelude::Queryable;

use crate::{fold::Running, server::Db};

/// Rule 2 and 3: what was emitted is in L, and H is behind everything that could be read.
#[tokio::test]
async fn low_lags_and_high_leads() {
    let mut db = Db::new("rounds").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let mut tail = Running::start(db.source()).await;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let mut conn = db.session().await;
        writers.push(tokio::spawn(async move {
            for n in 0..100 {
                let id = writer * 1000 + n;
                conn.query_drop(format!("INSERT INTO a VALUES ({id}, {id})"))
                    .await
                    .unwrap();
            }
        }));
    }
    for _ in 0..10 {
        let edge = tail.barrier().await;
        let low = tail.source.round_low(&edge.position).await.unwrap();
        assert!(edge.position.is_contained_in(&low));
        // Everything that the tail has emitted can be read now.
        let read = db.numbers("SELECT COUNT(*) FROM a").await[0];
        assert!(read as usize >= tail.folded.rows.len());
        let high = tail.source.round_high().await.unwrap();
        let behind = tail.barrier().await;
        assert!(behind.position.is_at_or_after(&high));
        assert!(tail.folded.rows.len() >= read as usize);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    tail.barrier().await;
    assert_eq!(tail.folded.rows.len(), 400);
}

#[tokio::test]
async fn a_position_that_the_server_does_not_have_is_refused() {
    let mut db = Db::new("history").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let source = db.source();
    let found = source.discover().await.unwrap();
    let mut state = source.start(&found.captured).await.unwrap();
    source.verify_position(&state).await.unwrap();
    if let Position::Mysql(position) = &mut state.position {
        let lost = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5".parse().unwrap();
        position.gtid_set.as_mut().unwrap().extend(&lost);
    }
    let error = source.verify_position(&state).await.unwrap_err();
    assert!(!error.is_transient());
    assert!(error.to_string().contains("3e11fa47"), "{error}");
}
