//! Hazards of exactness, each by itself: killed while it begins, killed twice, taken for dead, a
//! full disk.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    exactness::{aborts_at, finish},
    support::{
        Headwater, JobFile, Lake, Server, Workload, env_number, eventually,
        job::server_id,
        small::{arrives, small},
    },
};

/// Killed during the very first begin, before and behind the first record, and again; rows change
/// meanwhile, and the position of the killed run must not be the one of the next.
#[tokio::test(flavor = "multi_thread")]
async fn killed_during_the_first_begin() {
    let server = Server::shared();
    for point in [
        "before-first-record",
        "after-first-record",
        "after-first-marker",
    ] {
        let (database, lake) = (small(server, "begin").await, Lake::new());
        let job = JobFile::new(server, &database, &lake);
        aborts_at(point, &job, &lake).await;
        database
            .run("INSERT INTO t VALUES (3, 'c');\nUPDATE t SET v = 'd' WHERE id = 1;\nDELETE FROM t WHERE id = 2")
            .await;
        // A first record stands or not: then the same begin is killed again, or the next one.
        let next = match point {
            "before-first-record" => point,
            _ => "after-take-over",
        };
        aborts_at(next, &job, &lake).await;
        database
            .run("INSERT INTO t VALUES (2, 'again'), (5, 'e');\nUPDATE t SET id = 4 WHERE id = 3")
            .await;
        let mut process = Headwater::run(&job, &lake);
        arrives(&lake, &database, 4, &mut process).await;
        process.stop().await;
        lake.assert_equal(&database).await;
    }
}

/// Killed between two steps of a commit, and once or twice more while it takes up what that left.
#[tokio::test(flavor = "multi_thread")]
async fn killed_again_while_it_recovers() {
    let mut random = StdRng::seed_from_u64(env_number("SEED", 1));
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("again").await;
    let workload = Workload::create(&database, 3000).await;
    let job = JobFile::new(server, &database, &lake);
    let running = workload.start(3, 17, Duration::from_millis(5)).await;
    for (round, point) in [
        "after-record",
        "between-table-commits",
        "after-table-commits",
    ]
    .iter()
    .cycle()
    .take(6)
    .enumerate()
    {
        aborts_at(point, &job, &lake).await;
        if round % 2 == 0 {
            // In the middle of finishing the record that the first kill left.
            aborts_at("after-table-commits", &job, &lake).await;
        }
        let process = Headwater::run(&job, &lake);
        tokio::time::sleep(Duration::from_millis(random.random_range(10..400))).await;
        process.kill9();
    }
    running.stop().await;
    finish(&job, &lake, &database, &workload).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_wakes_up_before_its_record_is_fenced() {
    taken_over_at("after-flush:3:stop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_wakes_up_behind_its_record_is_fenced() {
    taken_over_at("after-record:3:stop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_wakes_up_behind_its_commit_is_fenced() {
    taken_over_at("between-table-commits:2:stop").await;
}

/// An instance stands still for so long that another one takes the job over, and then wakes up in
/// the middle of a checkpoint: it commits nothing that the other does not know, says why it ends,
/// and leaves the lease to the newer one.
async fn taken_over_at(point: &str) {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = small(server, "fenced").await;
    let job = JobFile::new(server, &database, &lake);
    let other = || job.clone().source("server-id", &server_id().to_string());
    let mut first = Headwater::run_until(&job, &lake, point);
    let mut rows = 2;
    eventually("it stands still", Duration::from_secs(60), async || {
        assert!(
            first.is_running(),
            "it ended by itself:\n{}",
            first.output()
        );
        rows += 1;
        database
            .run(&format!("INSERT INTO t VALUES ({rows}, 'first')"))
            .await;
        first.is_stopped()
    })
    .await;
    // A process of this machine would be seen to live: let it be one of another.
    let lease = find(Path::new(&lake.warehouse()), "lease.json");
    let text = std::fs::read_to_string(&lease).unwrap();
    let mut held: serde_json::Value = serde_json::from_str(&text).unwrap();
    held["host"] = "elsewhere".into();
    std::fs::write(&lease, held.to_string()).unwrap();

    let mut second = Headwater::run(&other(), &lake);
    arrives(&lake, &database, rows, &mut second).await;
    database
        .run("UPDATE t SET v = 'second' WHERE id % 2 = 0;\nDELETE FROM t WHERE id = 1")
        .await;
    arrives(&lake, &database, rows - 1, &mut second).await;

    first.signal("CONT");
    database.run("INSERT INTO t VALUES (1, 'both')").await;
    let status = first.ended(Duration::from_secs(60)).await;
    assert_eq!(status.code(), Some(5), "{}", first.output());
    let mut third = Headwater::run(&other(), &lake);
    let status = third.ended(Duration::from_secs(60)).await;
    assert_eq!(status.code(), Some(5), "{}", third.output());

    database
        .run("INSERT INTO t VALUES (100000, 'second')")
        .await;
    arrives(&lake, &database, rows + 1, &mut second).await;
    second.stop().await;
    lake.assert_equal(&database).await;
}

/// The file of that name below a folder.
fn find(folder: &Path, name: &str) -> PathBuf {
    let output = Command::new("find")
        .arg(folder)
        .args(["-name", name])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(text.lines().next().unwrap())
}

/// A small file system of its own; unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None` where we may not mount.
    fn mount(folder: &str, megabytes: u32) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let size = format!("size={megabytes}m");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs", folder])
            .status();
        status.ok()?.success().then(|| Self(folder.into()))
    }

    /// Leaves no byte.
    fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The warehouse's disk is full for a moment, in the tail: the job says so, waits, and goes on by
/// itself, from files that may be cut off anywhere.
#[tokio::test(flavor = "multi_thread")]
async fn disk_full_for_a_moment() {
    let (server, lake) = (Server::shared(), Lake::new());
    let Some(disk) = Disk::mount(&lake.warehouse(), 32) else {
        eprintln!("left out: a file system of its own cannot be mounted here (not root?)");
        return;
    };
    let database = small(server, "full").await;
    let job = JobFile::new(server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    arrives(&lake, &database, 2, &mut process).await;
    let mut rows = 2;
    for round in 0..3 {
        let filler = disk.fill();
        let known = process.output().len();
        for id in 0..20 {
            let id = 10 + 20 * round + id;
            database
                .run(&format!("INSERT INTO t VALUES ({id}, 'full')"))
                .await;
        }
        database
            .run("UPDATE t SET v = CONCAT(v, '!') WHERE id < 3")
            .await;
        rows += 20;
        eventually("it says so", Duration::from_secs(60), async || {
            process.assert_runs();
            process.output()[known..].contains("No space left")
        })
        .await;
        if round == 2 {
            // A longer one: it waits longer between its attempts, and goes on all the same.
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        std::fs::remove_file(filler).unwrap();
        arrives(&lake, &database, rows, &mut process).await;
    }
    process.stop().await;
    lake.assert_equal(&database).await;
}
