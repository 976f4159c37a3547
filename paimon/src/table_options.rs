//! Table options that decide what a writer does, and those that this crate refuses: under them rows
//! or files would mean something else than it writes.
//!
//! Source: `org.apache.paimon.CoreOptions`. What is refused was decided by looking at tables of
//! this crate with Java Paimon 1.4.2.

use crate::{
    error::{Error, Result},
    schema::Schema,
    stats::StatsPlan,
    table::Table,
};

/// Options with the values that are fine, and why others are not.
const FINE: [(&str, &[&str], &str); 15] = [
    (
        "merge-engine",
        &["deduplicate"],
        "of rows with one key the last one counts, nothing else",
    ),
    (
        "changelog-producer",
        // The other two are made by compactions.
        &["none", "lookup", "full-compaction"],
        "no changelog files are written, so that who streams the table would miss every change",
    ),
    (
        "deletion-vectors.enabled",
        &["false"],
        "readers would not see new rows before someone compacts the table",
    ),
    ("ignore-delete", &["false"], DELETES),
    ("deduplicate.ignore-delete", &["false"], DELETES),
    ("file.format", &["parquet"], "data files are Parquet"),
    ("manifest.format", &["avro"], "manifests are Avro"),
    ("bucket-function.type", &["default"], BUCKETS),
    ("data-file.external-paths.strategy", &["none"], ELSEWHERE),
    ("row-tracking.enabled", &["false"], NOT_YET),
    ("data-evolution.enabled", &["false"], NOT_YET),
    ("pk-clustering-override", &["false"], NOT_YET),
    ("type", &["table"], NOT_YET),
    ("branch", &["main"], NOT_YET),
    ("sequence.snapshot-ordering", &["false"], SEQUENCE),
];

/// Options that must not be set at all.
const REFUSED: [(&str, &str); 9] = [
    ("sequence.field", SEQUENCE),
    (
        "rowkind.field",
        "each row says itself whether it is a delete",
    ),
    ("file.format.per.level", "data files are Parquet"),
    ("file.compression.per.level", NOT_YET),
    ("data-file.path-directory", ELSEWHERE),
    ("data-file.external-paths", ELSEWHERE),
    ("path", ELSEWHERE),
    ("primary-key", KEYS),
    ("partition", KEYS),
];

const DELETES: &str = "deleted rows would stay";
const BUCKETS: &str = "rows are placed by the default function";
const ELSEWHERE: &str = "data files stand in the table's own folder";
const NOT_YET: &str = "not written yet";
const SEQUENCE: &str = "rows are ordered by when they were written";
const KEYS: &str = "the table's columns and keys are given apart from its options";

/// Sizes and levels that a table's options set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Option `target-file-size`, bytes.
    pub(crate) target_file_bytes: Option<u64>,
    /// The highest level.
    pub(crate) top_level: i32,
}

impl Budget {
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        let option = |name: &str| schema.options.get(name).map(String::as_str);
        let number = |name: &str| {
            option(name)
                .map(|text| {
                    let number = text.trim().parse::<i32>().ok();
                    number
                        .filter(|number| *number > 0)
                        .ok_or_else(|| wrong(name, text))
                })
                .transpose()
        };
        let target = option("target-file-size")
            .map(|text| memory_size(text).ok_or_else(|| wrong("target-file-size", text)))
            .transpose()?;
        let runs = number("num-sorted-run.compaction-trigger")?.unwrap_or(5);
        let levels = number("num-levels")?.unwrap_or(runs.saturating_add(1));
        if levels < 2 {
            return Err(wrong("num-levels", &levels.to_string()));
        }
        Ok(Self {
            target_file_bytes: target,
            top_level: levels - 1,
        })
    }
}

fn wrong(name: &str, text: &str) -> Error {
    Error::Unsupported(format!("option {name} = {text}"))
}

impl Schema {
    /// The options under which this crate does not write the table, each with the reason; empty
    /// when it does. The bucket count is looked at when a table is made, and by writers.
    pub fn unsupported_options(&self) -> Vec<String> {
        let option = |name: &str| self.options.get(name).map(|value| value.trim());
        let mut found = Vec::new();
        for (name, fine, why) in FINE {
            if let Some(value) = option(name)
                && !fine.iter().any(|fine| value.eq_ignore_ascii_case(fine))
            {
                found.push(format!("option {name} = {value}: {why}"));
            }
        }
        for (name, why) in REFUSED {
            if let Some(value) = option(name) {
                found.push(format!("option {name} = {value}: {why}"));
            }
        }
        for (name, value) in &self.options {
            if name.starts_with("fields.") && name.ends_with(".default-value") {
                found.push(format!(
                    "option {name} = {value}: NULL is written as NULL, not as another value"
                ));
            }
        }
        let unreadable = [Budget::new(self).err(), StatsPlan::new(self).err()];
        found.extend(unreadable.into_iter().flatten().map(|error| match error {
            Error::Unsupported(text) => text,
            error => error.to_string(),
        }));
        found
    }

    /// Refuses options under which rows or files would mean something else than this crate writes.
    pub(crate) fn check_options(&self) -> Result<()> {
        match self.unsupported_options().into_iter().next() {
            Some(reason) => Err(Error::Unsupported(reason)),
            None => Ok(()),
        }
    }
}

impl Table {
    /// As [`Schema::check_options`], with the table's name.
    pub(crate) fn check_options(&self) -> Result<()> {
        match self.schema().unsupported_options().into_iter().next() {
            Some(reason) => Err(Error::Unsupported(format!(
                "table {}: {reason}",
                self.name()
            ))),
            None => Ok(()),
        }
    }
}

/// Bytes of a text such as `128 mb`. Source: `org.apache.paimon.options.MemorySize`.
pub(crate) fn memory_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.trim() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return None,
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_java_reads_them() {
        assert_eq!(memory_size("128 mb"), Some(128 << 20));
        assert_eq!(memory_size("1GB"), Some(1 << 30));
        assert_eq!(memory_size("4096"), Some(4096));
        for wrong in [
            "",
            "mb",
            "0",
            "-1 mb",
            "1 xb",
            "99999999999999999999",
            "9999999999 tb",
        ] {
            assert_eq!(memory_size(wrong), None, "{wrong}");
        }
    }

    fn found(name: &str, value: &str) -> Vec<String> {
        let schema = Schema {
            options: [(name.to_owned(), value.to_owned())].into(),
            ..Schema::empty()
        };
        schema.unsupported_options()
    }

    #[test]
    fn options_that_would_change_the_data_are_named() {
        for (name, value) in [
            ("merge-engine", "aggregation"),
            ("merge-engine", "partial-update"),
            ("merge-engine", "first-row"),
            ("sequence.field", "v"),
            ("rowkind.field", "v"),
            ("ignore-delete", "TRUE"),
            ("changelog-producer", "input"),
            ("deletion-vectors.enabled", "true"),
            ("bucket-function.type", "mod"),
            ("file.format", "orc"),
            ("manifest.format", "orc"),
            ("fields.v.default-value", "7"),
            ("target-file-size", "much"),
            ("num-levels", "1"),
        ] {
            let found = found(name, value);
            assert_eq!(found.len(), 1, "{name}");
            let start = format!("option {name} = {value}");
            assert!(found[0].starts_with(&start), "{found:?}");
        }
        for (name, value) in [
            ("merge-engine", "deduplicate"),
            ("changelog-producer", "lookup"),
            ("changelog-producer", "full-compaction"),
            ("file.format", "Parquet"),
            ("snapshot.num-retained.max", "100"),
            ("file.compression", "zstd"),
            ("write-only", "true"),
        ] {
            assert_eq!(found(name, value), Vec::<String>::new());
        }
    }
}
