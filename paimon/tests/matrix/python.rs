//! The tables that the cases left, read by the two readers in Python.

use std::path::Path;

use crate::{
    run::{DATABASE, Outcome},
    support::{
        model::difference,
        oracle::{PythonReader, python_within},
    },
};

/// What those readers are known to read right: see their gaps in the notes of each condition.
fn reads(reader: PythonReader, outcome: &Outcome) -> bool {
    let case = &outcome.case;
    match reader {
        // Timestamps are cut to microseconds, vectors of 64 bits are not known, maps not by all.
        PythonReader::Pure => {
            case.of("values") == "plain"
                && case.of("vectors") != "64"
                && case.of("engine") == "deduplicate"
                && case.of("history") != "mixed"
        }
        PythonReader::Rust => case.of("values") == "plain" && case.of("engine") == "deduplicate",
    }
}

/// Tables that pypaimon reads at most, one by one.
const PURE_TABLES: usize = 10;
/// Seconds that it may take for one of them.
const PURE_SECONDS: u64 = 20;
/// Seconds that pypaimon-rust may take for all tables.
const RUST_SECONDS: u64 = 60;

/// What differs. A table that takes a reader too long is left out, and said.
pub fn look(warehouse: &Path, outcomes: &[Outcome]) -> Vec<String> {
    let mut failures = Vec::new();
    for reader in [PythonReader::Pure, PythonReader::Rust] {
        let mut read: Vec<&Outcome> = outcomes.iter().filter(|it| reads(reader, it)).collect();
        let (at_a_time, seconds) = match reader {
            PythonReader::Pure => (1, PURE_SECONDS),
            PythonReader::Rust => (read.len().max(1), RUST_SECONDS),
        };
        if matches!(reader, PythonReader::Pure) {
            let step = read.len().div_ceil(PURE_TABLES).max(1);
            read = read.into_iter().step_by(step).collect();
        }
        let mut done = 0;
        for some in read.chunks(at_a_time) {
            let names: Vec<String> = some
                .iter()
                .map(|outcome| format!("{DATABASE}.{}", outcome.name))
                .collect();
            let warehouse = warehouse.to_str().unwrap();
            let Some(found) = python_within(reader, warehouse, &names, seconds) else {
                println!(
                    "{reader:?} took more than {seconds} s for {}",
                    names.join(" ")
                );
                continue;
            };
            done += some.len();
            for (outcome, lines) in some.iter().zip(found) {
                if let Some(found) = difference(&outcome.lines, &lines) {
                    failures.push(format!(
                        "{reader:?} {} ({}): {found}",
                        outcome.name, outcome.case
                    ));
                }
            }
        }
        println!("{reader:?} read {done} of {} tables", read.len());
        if done == 0 && !read.is_empty() {
            failures.push(format!("{reader:?} read no table in time"));
        }
    }
    failures
}
