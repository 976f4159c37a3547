//! Table options that decide what a writer does, and those that this crate refuses.

use crate::{
    error::{Error, Result},
    schema::Schema,
};

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

/// Bytes of a text such as `128 mb`. Source: `org.apache.paimon.options.MemorySize`.
fn memory_size(text: &str) -> Option<u64> {
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

/// Refuses options under which rows or files would mean something else than this crate writes.
pub(crate) fn check_options(schema: &Schema) -> Result<()> {
    /// Options with the values that are fine.
    const FINE: [(&str, &[&str]); 7] = [
        ("file.format", &["parquet"]),
        ("merge-engine", &["deduplicate"]),
        // The other two are made by compactions.
        ("changelog-producer", &["none", "lookup", "full-compaction"]),
        ("ignore-delete", &["false"]),
        ("row-tracking.enabled", &["false"]),
        ("data-evolution.enabled", &["false"]),
        ("pk-clustering-override", &["false"]),
    ];
    /// Options that must not be set at all.
    const REFUSED: [&str; 4] = [
        "sequence.field",
        "rowkind.field",
        "file.format.per.level",
        "file.compression.per.level",
    ];
    for (name, fine) in FINE {
        if let Some(value) = schema.options.get(name)
            && !fine
                .iter()
                .any(|fine| value.trim().eq_ignore_ascii_case(fine))
        {
            return Err(wrong(name, value));
        }
    }
    for name in REFUSED {
        if let Some(value) = schema.options.get(name) {
            return Err(wrong(name, value));
        }
    }
    Ok(())
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
}
