//! Every checkpoint shows the whole database at one position of the source.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    exactness::finish,
    support::{Headwater, JobFile, Lake, Server, Workload, lake::TableSnapshot},
};

/// Money moves between two tables all the time, through snapshot, tail and kills: at every
/// committed checkpoint the sum over both is the same.
#[tokio::test(flavor = "multi_thread")]
async fn money_is_constant_at_every_checkpoint() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("cut").await;
    let workload = Workload::create(&database, 6000).await;
    let job = JobFile::new(server, &database, &lake);
    let running = workload.start(4, 11, Duration::from_millis(3)).await;
    for _ in 0..3 {
        let mut process = Headwater::run(&job, &lake);
        tokio::time::sleep(Duration::from_secs(5)).await;
        process.assert_runs();
        process.kill9();
    }
    running.stop().await;
    finish(&job, &lake, &database, &workload).await;

    let names = [workload.table("checking"), workload.table("saving")];
    let tables = names.each_ref().map(|name| lake.checkpoints(name));
    for (name, table) in names.iter().zip(&tables) {
        for (id, snapshot) in table {
            let position = snapshot.property("headwater.position");
            assert!(
                position.is_some_and(|p| !p.is_empty()),
                "{name}, checkpoint {id}"
            );
        }
    }
    let ids: BTreeSet<u64> = tables
        .iter()
        .flat_map(|table| table.keys().copied())
        .collect();
    let mut compared = 0;
    for id in ids {
        let at = tables
            .each_ref()
            .map(|table| table.range(..=id).next_back().map(|(_, s)| s));
        let [Some(checking), Some(saving)] = at else {
            continue; // one table is not there yet
        };
        if checking.checkpoint_id() == saving.checkpoint_id() {
            assert_eq!(
                checking.property("headwater.position"),
                saving.property("headwater.position"),
                "checkpoint {id}: two positions"
            );
        }
        let (rows, cents) = money(&lake, &names, [checking, saving]);
        if rows.iter().any(|rows| *rows < workload.accounts()) {
            continue; // the snapshot phase has not yet brought both
        }
        assert_eq!(rows, [workload.accounts(); 2], "checkpoint {id}");
        assert_eq!(
            cents,
            i128::from(workload.money_cents()),
            "checkpoint {id}: the sum is wrong"
        );
        compared += 1;
    }
    assert!(
        compared >= 10,
        "only {compared} checkpoints could be compared"
    );
}

/// Rows of each table, and the cents in both.
fn money(lake: &Lake, names: &[String; 2], at: [&TableSnapshot; 2]) -> ([usize; 2], i128) {
    let mut rows = [0; 2];
    let mut cents = 0;
    for (i, (name, snapshot)) in names.iter().zip(at).enumerate() {
        for line in lake.read(name, Some(snapshot.id)) {
            let row: serde_json::Value = serde_json::from_str(&line).unwrap();
            let text = row["money"].as_str().unwrap().replace('.', "");
            cents += text.parse::<i128>().unwrap();
            rows[i] += 1;
        }
    }
    (rows, cents)
}
