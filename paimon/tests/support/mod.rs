//! What the randomised tests share: values and tables, a model of a table in memory, and the two
//! engines: this crate behind one small module, so that a change of its interface costs one place,
//! and Java Paimon.

pub mod model;
pub mod ours;
pub mod value;

#[path = "../../../tests/support/oracle.rs"]
pub mod oracle;

use std::path::{Path, PathBuf};

/// A script of the end-to-end tests.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests")
        .join(name)
}

/// A number from the environment.
pub fn env_number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}
