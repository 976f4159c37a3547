//! Every example runs: those in this package, but for the benchmarks.
//!
//! `cargo test` builds them before any test runs; a test that is run alone needs `cargo build
//! --examples` before.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{path::Path, process::Command};

#[test]
fn every_example_runs() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    // Beside this program: target/PROFILE/deps and target/PROFILE/examples.
    let this = std::env::current_exe().unwrap();
    let built = this.ancestors().nth(2).unwrap().join("examples");
    let mut names: Vec<String> = std::fs::read_dir(sources)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .filter(|name| !name.contains("bench"))
        .collect();
    names.sort();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let output = Command::new(built.join(&name))
            .output()
            .unwrap_or_else(|error| panic!("{name}: {error}; cargo build --examples makes it"));
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{text}{error}");
        assert!(!text.is_empty(), "{name} says nothing");
    }
}
