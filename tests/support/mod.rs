//! What the end-to-end tests share: servers, the program as a child, the lake and its readers,
//! and the random workload.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub mod dump;
pub mod job;
pub mod lake;
pub mod mysql;
pub mod oracle;
pub mod small;
pub mod values;
pub mod workload;

pub use job::{Headwater, JobFile};
pub use lake::Lake;
pub use mysql::{Database, Server};
pub use workload::Workload;

/// The top folder of the tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A script of the tests.
pub fn script(name: &str) -> PathBuf {
    root().join("tests").join(name)
}

/// A number from the environment.
pub fn env_number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}

/// Polls until `condition` holds; panics with `what` when it takes too long.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
