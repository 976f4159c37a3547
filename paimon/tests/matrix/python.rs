//! The tables that the cases left, read by the two readers in Python.

use std::path::Path;

use crate::{
    run::{DATABASE, Outcome},
    support::{
        model::difference,
        oracle::{PythonReader, python},
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

/// What differs.
pub fn look(warehouse: &Path, outcomes: &[Outcome]) -> Vec<String> {
    let mut failures = Vec::new();
    for reader in [PythonReader::Pure, PythonReader::Rust] {
        let read: Vec<&Outcome> = outcomes.iter().filter(|it| reads(reader, it)).collect();
        if read.is_empty() {
            continue;
        }
        let names: Vec<String> = read
            .iter()
            .map(|outcome| format!("{DATABASE}.{}", outcome.name))
            .collect();
        println!("{reader:?} reads {} tables", names.len());
        let found = python(reader, warehouse.to_str().unwrap(), &names);
        for (outcome, lines) in read.iter().zip(found) {
            if let Some(found) = difference(&outcome.lines, &lines) {
                failures.push(format!(
                    "{reader:?} {} ({}): {found}",
                    outcome.name, outcome.case
                ));
            }
        }
    }
    failures
}
