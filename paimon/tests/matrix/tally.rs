//! What the cases did and what was refused.

use std::{collections::BTreeMap, sync::Mutex};

/// What this crate may refuse today; each entry is a part of the reason. The list only gets shorter.
const EXPECTED: &[(&str, &str)] = &[("create", "only Parquet is written")];

#[derive(Debug, Default)]
pub struct Tally {
    counts: Mutex<BTreeMap<(&'static str, String), u64>>,
}

impl Tally {
    fn count(&self, what: &'static str, text: String) {
        *self.counts.lock().unwrap().entry((what, text)).or_default() += 1;
    }

    /// This crate did it.
    pub fn did(&self, what: &str) {
        self.count("done", what.to_owned());
    }

    /// This crate does not do it.
    pub fn refused(&self, what: &str, reason: &str) {
        self.count("refused", format!("{what}: {reason}"));
    }

    /// Java does not take such a table.
    pub fn java_refused(&self, reason: &str) {
        self.count("java refused", reason.to_owned());
    }

    /// Prints all; what was refused and should not have been.
    pub fn report(&self) -> Vec<String> {
        let counts = self.counts.lock().unwrap();
        let mut unexpected = Vec::new();
        let mut is_met = vec![false; EXPECTED.len()];
        for ((what, text), n) in counts.iter() {
            println!("{what}: {text} × {n}");
            if *what != "refused" {
                continue;
            }
            let met = EXPECTED
                .iter()
                .position(|(verb, reason)| text.starts_with(verb) && text.contains(reason));
            match met {
                Some(at) => is_met[at] = true,
                None => unexpected.push(format!("{text} × {n}")),
            }
        }
        for ((verb, reason), _) in EXPECTED.iter().zip(is_met).filter(|(_, met)| !met) {
            println!("no longer refused, so take it from the list: {verb}: {reason}");
        }
        unexpected
    }

    /// How often this crate did it.
    pub fn done(&self, what: &str) -> u64 {
        let counts = self.counts.lock().unwrap();
        counts.get(&("done", what.to_owned())).copied().unwrap_or(0)
    }
}
