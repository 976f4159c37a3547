//! What a table's options say about compaction.
//!
//! Source: `MergeTreeCompactManagerFactory`, `LookupStrategy`, `CoreOptions.compactionFileSize`.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    schema::Schema,
    table_options::TableOptions,
};

use super::pick::{EarlyFull, ForceLevel0, OffPeak, Universal};

/// Newer runs may have so many percent of the oldest's bytes, where the table does not say. The format's
/// default is 200: readers then merge up to three times the rows that there are, and under small
/// commits compactions write more too: five runs that may grow far are merged with each other again
/// and again before they are merged away (`docs/performance.md` has the figures).
const SIZE_AMPLIFICATION_PERCENT: u64 = 25;
/// The format's, for tables that are read without merging: more compactions would gain nothing.
const SIZE_AMPLIFICATION_PERCENT_WITH_VECTORS: u64 = 200;

/// A table's options, as far as compactions go by them.
#[derive(Debug, Clone)]
pub(crate) struct CompactOptions {
    pub(crate) table: TableOptions,
    pub(crate) universal: Universal,
    /// Files smaller than this are small: rewritten with their neighbours.
    pub(crate) small_file_bytes: u64,
}

impl CompactOptions {
    /// Of a table's schema.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the name of an option whose value cannot be read.
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        let table = TableOptions::of(schema)?;
        let options = &table.compaction;
        let clamped = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let early = EarlyFull {
            interval_ms: options.optimization_interval.map(milliseconds),
            total_bytes: options.total_size_threshold_bytes.map(clamped),
            incremental_bytes: options.incremental_size_threshold_bytes.map(clamped),
        };
        let amplification_unset = match table.deletion_vectors.enabled {
            true => SIZE_AMPLIFICATION_PERCENT_WITH_VECTORS,
            false => SIZE_AMPLIFICATION_PERCENT,
        };
        let amplification = options.max_size_amplification_percent;
        let universal = Universal {
            size_amplification_percent: clamped(amplification.unwrap_or(amplification_unset)),
            size_ratio_percent: i32::try_from(options.size_ratio_percent).unwrap_or(i32::MAX),
            trigger: options.run_trigger,
            early: (early != EarlyFull::default()).then_some(early),
            off_peak: off_peak(schema)?,
            level0: force_level0(&table),
        };
        Ok(Self {
            universal,
            small_file_bytes: (table.files.target_bytes as f64 * options.small_file_ratio) as u64,
            table,
        })
    }
}

fn force_level0(table: &TableOptions) -> ForceLevel0 {
    if !table.looks_up() {
        return match table.compaction.force_up_level_0 {
            true => ForceLevel0::Always,
            false => ForceLevel0::Never,
        };
    }
    match table.changelog.lookup_gentle {
        true => ForceLevel0::Every(table.changelog.lookup_gentle_interval),
        false => ForceLevel0::Always,
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Source: `OffPeakHours.create`.
fn off_peak(schema: &Schema) -> Result<Option<OffPeak>> {
    let number = |name: &str, unset: i32| match schema.options.get(name) {
        None => Ok(unset),
        Some(text) => text.trim().parse::<i32>().map_err(|_| {
            Error::Unsupported(format!(
                "option {name} = {text}: a whole number is expected"
            ))
        }),
    };
    let start_hour = number("compaction.offpeak.start.hour", -1)?;
    let end_hour = number("compaction.offpeak.end.hour", -1)?;
    let ratio_percent = number("compaction.offpeak-ratio", 0)?;
    let set = start_hour != -1 && end_hour != -1 && start_hour != end_hour;
    Ok(set.then_some(OffPeak {
        start_hour,
        end_hour,
        ratio_percent,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(set: &[(&str, &str)]) -> Result<CompactOptions> {
        let set = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        CompactOptions::new(&Schema {
            options: set.collect(),
            primary_keys: vec!["id".into()],
            ..Schema::empty()
        })
    }

    #[test]
    fn defaults_are_those_of_the_format_but_for_the_size_amplification() {
        let defaults = options(&[]).unwrap();
        assert_eq!(defaults.table.compaction.levels, 6);
        assert_eq!(defaults.universal.trigger, 5);
        assert_eq!(defaults.universal.size_amplification_percent, 25);
        assert_eq!(defaults.universal.size_ratio_percent, 1);
        assert_eq!(defaults.universal.early, None);
        assert_eq!(defaults.universal.level0, ForceLevel0::Never);
        assert_eq!(defaults.small_file_bytes, 93_952_409);
        assert!(!defaults.table.looks_up());
    }

    #[test]
    fn options_change_what_is_decided() {
        let set = options(&[
            ("num-sorted-run.compaction-trigger", "7"),
            ("compaction.optimization-interval", "1 h"),
            ("compaction.total-size-threshold", "10 mb"),
            ("compaction.offpeak.start.hour", "1"),
            ("compaction.offpeak.end.hour", "5"),
            ("compaction.offpeak-ratio", "20"),
            ("changelog-producer", "lookup"),
            ("lookup-compact", "GENTLE"),
        ])
        .unwrap();
        let early = set.universal.early.unwrap();
        assert_eq!(early.interval_ms, Some(3_600_000));
        assert_eq!(early.total_bytes, Some(10 << 20));
        assert_eq!(set.universal.off_peak.unwrap().ratio_percent, 20);
        assert_eq!(set.universal.level0, ForceLevel0::Every(14));
        let vectors = options(&[("deletion-vectors.enabled", "true")]).unwrap();
        assert_eq!(vectors.universal.level0, ForceLevel0::Always);
        assert_eq!(vectors.universal.size_amplification_percent, 200);
        let name = "compaction.max-size-amplification-percent";
        let set = options(&[(name, "70")]).unwrap();
        assert_eq!(set.universal.size_amplification_percent, 70);
        let up = options(&[("compaction.force-up-level-0", "true")]).unwrap();
        assert_eq!(up.universal.level0, ForceLevel0::Always);
    }

    #[test]
    fn values_that_cannot_be_read_are_named() {
        for name in ["compaction.size-ratio", "compaction.offpeak.start.hour"] {
            let error = options(&[(name, "soon")]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("soon"), "{error}");
        }
    }
}
