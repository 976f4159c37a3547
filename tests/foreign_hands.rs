//! What other programs do to a table while a checkpoint of the job is prepared and not committed:
//! Java expires, compacts, cleans, rolls back, rescales, truncates, drops, alters. The job goes on and
//! source and lake are equal, or it ends with an error that names the table and what to do.

mod scene;

use std::time::Duration;

use self::scene::{LIMIT, Scene};
use crate::{
    exactness::aborts_at,
    support::{Headwater, eventually},
};

/// The schema of `t` as the job makes it.
const SCHEMA: &str = r#"{"columns":[["id","INT NOT NULL"],["v","VARCHAR(20)"],["n","INT"]],"primaryKeys":["id"],"options":{"bucket":"2"}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_expired_and_files_compacted() {
    let scene = Scene::prepared("hands_expire").await;
    scene.java("expire", &["--retain", "1"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_compact").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    // What nothing refers to goes, unless it is young.
    scene.java("orphan", &["--delete", "--older-than-s", "3600"], "");
    scene.goes_on().await;
    scene.lake.assert_equal(&scene.database).await;
}

/// Committed, and killed before the job knows: the snapshot and the files of the commit are gone
/// behind a compaction, and must not be committed again, nor missed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_is_compacted_and_expired() {
    let scene = Scene::killed_at("hands_done", "after-table-commits").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    scene.java("orphan", &["--delete"], "");
    scene.goes_on().await;

    let scene = Scene::killed_at("hands_half", "between-table-commits").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    scene.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_files_are_deleted_as_orphans() {
    let scene = Scene::prepared("hands_orphan").await;
    let deleted = scene.orphans(&["--delete"]);
    assert!(!deleted.is_empty());
    scene
        .refuses(&["files that are gone", "orphan", "state"])
        .await;
    scene.lake.assert_sound(&scene.table("t"));
    scene.begins_anew().await;
}

/// The process stands still for a while, as that of a machine that sleeps.
#[tokio::test(flavor = "multi_thread")]
async fn prepared_files_are_deleted_while_the_job_stands_still() {
    let scene = Scene::stopped("hands_asleep").await;
    scene.changes().await;
    let job = scene.job.clone().at_the_log_end();
    let mut process = Headwater::run_until(&job, &scene.lake, "after-record:1:stop");
    eventually("it stands still", LIMIT, async || {
        process.assert_runs();
        process.is_stopped()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(!scene.orphans(&["--delete"]).is_empty());
    process.signal("CONT");
    let status = process.ended(LIMIT).await;
    let said = process.output();
    scene.ended_definitely(status.code(), &said, &["files that are gone", "orphan"]);
    scene.lake.assert_sound(&scene.table("t"));
    scene.refuses(&["files that are gone"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_rolled_back() {
    let scene = Scene::prepared("hands_back").await;
    let before = scene.newest() - 1;
    scene.java("rollback", &[&before.to_string()], "");
    scene.refuses(&["rolled back", "state"]).await;
    // Others write until the numbers are as high again.
    for id in [1, 2, 3] {
        let row = format!(r#"{{"id":{id},"v":"other","n":0}}"#);
        scene.java("write", &["--commit-user", "java"], &row);
    }
    scene.refuses(&["rolled back", "state"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_dropped_and_made_again() {
    let scene = Scene::prepared("hands_drop").await;
    scene.java("drop", &[], "");
    scene.refuses(&["gone", "state"]).await;
    scene.java("create", &[], SCHEMA);
    scene.refuses(&["gone", "state"]).await;
    scene.java(
        "write",
        &["--commit-user", "java"],
        r#"{"id":1,"v":"other","n":0}"#,
    );
    scene.refuses(&["gone", "state"]).await;
    scene.begins_anew().await;

    // Nothing is prepared that could be missing.
    let scene = Scene::stopped("hands_drop_idle").await;
    scene.java("drop", &[], "");
    scene.refuses(&["gone", "state"]).await;
    scene.java("create", &[], SCHEMA);
    scene.refuses(&["made anew", "state"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_truncated() {
    let scene = Scene::prepared("hands_truncate").await;
    let before = scene.newest();
    scene.java("truncate", &[], "");
    scene
        .refuses(&["took all rows away", "roll the table back"])
        .await;
    scene.java("rollback", &[&before.to_string()], "");
    scene.goes_on().await;

    // A table that has only deletes is as empty as it says.
    let scene = Scene::stopped("hands_empty").await;
    let mut process = scene.run();
    scene.database.run("DELETE FROM t").await;
    scene.caught_up(&mut process).await;
    process.stop().await;
    scene
        .database
        .run("INSERT INTO t VALUES (1, 'again', 1)")
        .await;
    aborts_at("after-record", &scene.job, &scene.lake).await;
    scene.java("truncate", &[], "");
    scene.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_added_and_widened() {
    let scene = Scene::prepared("hands_columns").await;
    scene.java("alter", &["add", "x", "INT"], "");
    scene.java("alter", &["type", "v", "VARCHAR(200)"], "");
    let mut process = scene.run();
    scene.caught_up(&mut process).await;
    process.stop().await;
    let rows = scene.lake.read(&scene.table("t"), None);
    assert!(rows.iter().all(|row| row.ends_with(r#","x":null}"#)));
    scene.java("alter", &["drop", "x"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_widen").await;
    scene.java("alter", &["type", "n", "BIGINT"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_narrow").await;
    scene.java("alter", &["type", "n", "SMALLINT"], "");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["column n", "SMALLINT"]);
    scene.refuses(&["column n", "SMALLINT"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_is_renamed_or_dropped() {
    let scene = Scene::prepared("hands_rename").await;
    scene.java("alter", &["rename", "v", "w"], "");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["column v", "state"]);
    scene.refuses(&["column v", "renamed"]).await;
    scene.java("alter", &["rename", "w", "v"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_dropped").await;
    scene.java("alter", &["drop", "v"], "");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["column v", "state"]);
    scene.refuses(&["column v", "dropped"]).await;
    scene.begins_anew().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_set() {
    let scene = Scene::prepared("hands_options").await;
    for (name, value) in [
        ("num-sorted-run.compaction-trigger", "3"),
        ("target-file-size", "1 mb"),
        ("snapshot.num-retained.min", "2"),
    ] {
        scene.java("alter", &["set", name, value], "");
    }
    scene.goes_on().await;

    // The count alone: rows stand where they stood.
    let scene = Scene::prepared("hands_bucket").await;
    scene.java("alter", &["set", "bucket", "3"], "");
    scene.refuses(&["bucket", "rescale"]).await;
    scene.java("alter", &["set", "bucket", "2"], "");
    scene.goes_on().await;

    let scene = Scene::prepared("hands_bucket_on").await;
    scene.java("alter", &["set", "bucket", "3"], "");
    scene.refuses(&["bucket", "rescale"]).await;
    scene.ours("rescale", &["--buckets", "3"]);
    scene.goes_on().await;
}

/// Prepared files are of the old count: their rows, deletes among them, move to the new buckets.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_rescaled() {
    for buckets in ["1", "3", "4"] {
        let scene = Scene::prepared("hands_rescale").await;
        rescale_by_java(&scene, buckets);
        scene.goes_on().await;

        let scene = Scene::prepared("hands_rescale_ours").await;
        scene.ours("rescale", &["--buckets", buckets]);
        // Killed again while it does that.
        for point in ["between-table-commits", "after-table-commits"] {
            if buckets == "3" {
                aborts_at(point, &scene.job, &scene.lake).await;
            }
        }
        scene.goes_on().await;
        let files = scene.java("files", &[], "");
        let all = format!("\"totalBuckets\":{buckets},");
        assert!(files.lines().all(|line| line.contains(&all)), "{files}");
    }
}

/// Rows of the snapshot are prepared, and others are still to come.
#[tokio::test(flavor = "multi_thread")]
async fn hands_meet_a_snapshot_under_way() {
    let scene = Scene::reading("hands_reading").await;
    scene.java("compact", &["--full", "--commit-user", "java"], "");
    scene.java("expire", &["--retain", "1"], "");
    scene.goes_on().await;

    let scene = Scene::reading("hands_reading_rescale").await;
    scene.ours("rescale", &["--buckets", "3"]);
    scene.goes_on().await;

    // Rows to come would be hidden by those that are there.
    let scene = Scene::reading("hands_reading_over").await;
    rescale_by_java(&scene, "3");
    let mut process = scene.run();
    let status = process.ended(LIMIT).await;
    scene.ended_definitely(status.code(), &process.output(), &["snapshot", "state"]);
    scene.refuses(&["snapshot was under way", "state"]).await;
    scene.begins_anew().await;

    let scene = Scene::reading("hands_reading_orphan").await;
    assert!(!scene.orphans(&["--delete"]).is_empty());
    scene.refuses(&["files that are gone", "state"]).await;
    scene.begins_anew().await;
}

/// INSERT OVERWRITE of the table with itself.
fn rescale_by_java(scene: &Scene, buckets: &str) {
    let rows = scene.java("read", &[], "");
    scene.java("alter", &["set", "bucket", buckets], "");
    let words = ["--commit-user", "java", "--overwrite", "*"];
    scene.java("write", &words, &rows);
}

/// The job runs meanwhile, goes on by itself, and writes into the new buckets.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_rescaled_under_a_running_job() {
    let scene = Scene::stopped("hands_live").await;
    let mut process = scene.run();
    scene.caught_up(&mut process).await;
    for buckets in ["3", "5", "1"] {
        scene.ours("rescale", &["--buckets", buckets]);
        scene.changes_behind().await;
        scene
            .database
            .run("UPDATE t SET v = CONCAT('r', id) WHERE id % 20 = 1")
            .await;
        scene.all_caught_up(&mut process).await;
        scene.equal().await;
    }
    process.stop().await;
    let files = scene.java("files", &[], "");
    assert!(
        files
            .lines()
            .all(|line| line.contains("\"totalBuckets\":1,")),
        "{files}"
    );
    scene.goes_on().await;
}

/// A row of another writer, with a number above those of the job's next rows, in a bucket that a
/// running job and a prepared checkpoint write to: the source's rows are the newer ones.
#[tokio::test(flavor = "multi_thread")]
async fn others_write_rows() {
    // Those that the source has.
    let rows: Vec<String> = (1..=30)
        .filter(|id| ![5, 6].contains(id))
        .map(|id| format!(r#"{{"id":{id},"v":"other","n":0}}"#))
        .collect();
    let scene = Scene::prepared("hands_write").await;
    for _ in 0..3 {
        scene.java("write", &["--commit-user", "java"], &rows.join("\n"));
    }
    let mut process = scene.run();
    scene
        .database
        .run("UPDATE t SET v = 'mine' WHERE id <= 30")
        .await;
    scene.all_caught_up(&mut process).await;
    for round in 0..3 {
        for _ in 0..3 {
            scene.java("write", &["--commit-user", "java"], &rows.join("\n"));
        }
        let change = format!("UPDATE t SET v = 'mine {round}' WHERE id <= 30");
        scene.database.run(&change).await;
        scene.all_caught_up(&mut process).await;
    }
    process.stop().await;
    scene.equal().await;
}
