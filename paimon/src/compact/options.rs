//! What a table's options say about compaction.
//!
//! Source: `org.apache.paimon.CoreOptions`, `MergeTreeCompactManagerFactory`, `LookupStrategy`,
//! `TimeUtils`.

use std::str::FromStr;

use crate::{
    error::{Error, Result},
    schema::Schema,
    table_options::memory_size,
};

use super::pick::{EarlyFull, ForceLevel0, OffPeak, Universal};

/// Default size of a data file of a table with a primary key, and of one without.
const TARGET_FILE_BYTES: u64 = 128 << 20;
const TARGET_FILE_BYTES_APPEND: u64 = 256 << 20;

/// Which changelog compactions write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangelogProducer {
    /// None: the table has no changelog, or writers make it.
    None,
    Lookup,
    FullCompaction,
}

/// A table's options, as far as compactions go by them.
#[derive(Debug, Clone)]
pub(crate) struct CompactOptions {
    pub(crate) universal: Universal,
    /// Number of levels, level 0 included.
    pub(crate) levels: i32,
    /// Sorted runs of a bucket at which its writer has to wait.
    pub(crate) stop_trigger: usize,
    /// Bytes at which a file ends.
    pub(crate) target_file_bytes: u64,
    /// Files smaller than this are small: rewritten with their neighbours.
    pub(crate) small_file_bytes: u64,
    /// No file is only moved to another level.
    pub(crate) force_rewrite: bool,
    pub(crate) changelog: ChangelogProducer,
    /// Updates that change nothing are left out of the changelog.
    pub(crate) deduplicate_changelog: bool,
    /// Columns that do not count as a change.
    pub(crate) deduplicate_ignores: Vec<String>,
    pub(crate) deletion_vectors: bool,
    pub(crate) first_row: bool,
    /// `force-lookup`: level 0 is emptied even if nobody needs it.
    pub(crate) force_lookup: bool,
    /// Append tables: how many small files are worth rewriting.
    pub(crate) min_file_count: usize,
    /// Append tables with deletion vectors: share of deleted rows at which a file is rewritten.
    pub(crate) delete_ratio: f64,
    /// Append tables: files looked at at a time.
    pub(crate) file_count_limit: usize,
}

impl CompactOptions {
    /// Of a table's schema.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the name of an option whose value cannot be read.
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        let options = Reader { schema };
        let trigger = options
            .number::<i32>("num-sorted-run.compaction-trigger")?
            .unwrap_or(5);
        if trigger < 1 {
            return Err(options.wrong("num-sorted-run.compaction-trigger"));
        }
        let levels = options
            .number("num-levels")?
            .unwrap_or(trigger.saturating_add(1));
        if levels < 2 {
            return Err(options.wrong("num-levels"));
        }
        let stop_trigger = options
            .number("num-sorted-run.stop-trigger")?
            .unwrap_or(trigger.saturating_add(3))
            .max(trigger);
        let default_target = if schema.primary_keys.is_empty() {
            TARGET_FILE_BYTES_APPEND
        } else {
            TARGET_FILE_BYTES
        };
        let target_file_bytes = options.bytes("target-file-size")?.unwrap_or(default_target);
        let small_ratio = options
            .number::<f64>("compaction.small-file-ratio")?
            .unwrap_or(0.7);
        let mut options = Self {
            universal: Universal {
                size_amplification_percent: options
                    .number("compaction.max-size-amplification-percent")?
                    .unwrap_or(200),
                size_ratio_percent: options.number("compaction.size-ratio")?.unwrap_or(1),
                trigger: usize::try_from(trigger).unwrap_or(usize::MAX),
                early: options.early_full()?,
                off_peak: options.off_peak()?,
                level0: ForceLevel0::Never,
            },
            levels,
            stop_trigger: usize::try_from(stop_trigger).unwrap_or(usize::MAX),
            target_file_bytes,
            small_file_bytes: (target_file_bytes as f64 * small_ratio) as u64,
            force_rewrite: options.flag("compaction.force-rewrite-all-files")?,
            changelog: options.changelog()?,
            deduplicate_changelog: options.flag("changelog-producer.row-deduplicate")?,
            deduplicate_ignores: options
                .text("changelog-producer.row-deduplicate-ignore-fields")
                .map(|names| {
                    let names = names.split(',').map(|name| name.trim().to_owned());
                    names.filter(|name| !name.is_empty()).collect()
                })
                .unwrap_or_default(),
            deletion_vectors: options.flag("deletion-vectors.enabled")?,
            first_row: options
                .text("merge-engine")
                .is_some_and(|engine| engine.eq_ignore_ascii_case("first-row")),
            force_lookup: options.flag("force-lookup")?,
            min_file_count: options.number("compaction.min.file-num")?.unwrap_or(5),
            delete_ratio: options
                .number("compaction.delete-ratio-threshold")?
                .unwrap_or(0.2),
            file_count_limit: options
                .number("compaction.file-num-limit")?
                .unwrap_or(100_000),
        };
        options.universal.level0 = options.force_level0(&Reader { schema }, trigger)?;
        Ok(options)
    }

    /// Whether older rows of a key are looked up in the levels above when level 0 is compacted.
    pub(crate) fn needs_lookup(&self) -> bool {
        self.changelog == ChangelogProducer::Lookup
            || self.deletion_vectors
            || self.first_row
            || self.force_lookup
    }

    fn force_level0(&self, options: &Reader<'_>, trigger: i32) -> Result<ForceLevel0> {
        if !self.needs_lookup() {
            return Ok(match options.flag("compaction.force-up-level-0")? {
                true => ForceLevel0::Always,
                false => ForceLevel0::Never,
            });
        }
        match options.text("lookup-compact") {
            None => Ok(ForceLevel0::Always),
            Some(mode) if mode.eq_ignore_ascii_case("radical") => Ok(ForceLevel0::Always),
            Some(mode) if mode.eq_ignore_ascii_case("gentle") => {
                let interval = options
                    .number("lookup-compact.max-interval")?
                    .unwrap_or(trigger.saturating_mul(2))
                    .max(trigger);
                Ok(ForceLevel0::Every(interval.unsigned_abs()))
            }
            Some(_) => Err(options.wrong("lookup-compact")),
        }
    }
}

/// Reads option values.
struct Reader<'a> {
    schema: &'a Schema,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.schema.options.get(name).map(|text| text.trim())
    }

    fn wrong(&self, name: &str) -> Error {
        let value = self.text(name).unwrap_or_default();
        Error::Unsupported(format!("option {name} = {value}"))
    }

    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        self.text(name)
            .map(|text| parse(text).ok_or_else(|| self.wrong(name)))
            .transpose()
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.parsed(name, |text| text.parse().ok())
    }

    fn bytes(&self, name: &str) -> Result<Option<u64>> {
        self.parsed(name, memory_size)
    }

    fn flag(&self, name: &str) -> Result<bool> {
        let flag = self.parsed(name, |text| text.to_ascii_lowercase().parse().ok())?;
        Ok(flag.unwrap_or(false))
    }

    fn early_full(&self) -> Result<Option<EarlyFull>> {
        let bytes = |name| {
            let bytes = self.bytes(name)?;
            Ok::<_, Error>(bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)))
        };
        let early = EarlyFull {
            interval_ms: self.parsed("compaction.optimization-interval", duration_ms)?,
            total_bytes: bytes("compaction.total-size-threshold")?,
            incremental_bytes: bytes("compaction.incremental-size-threshold")?,
        };
        Ok((early != EarlyFull::default()).then_some(early))
    }

    fn off_peak(&self) -> Result<Option<OffPeak>> {
        let start_hour = self.number("compaction.offpeak.start.hour")?.unwrap_or(-1);
        let end_hour = self.number("compaction.offpeak.end.hour")?.unwrap_or(-1);
        let ratio_percent = self.number("compaction.offpeak-ratio")?.unwrap_or(0);
        let set = start_hour != -1 && end_hour != -1 && start_hour != end_hour;
        Ok(set.then_some(OffPeak {
            start_hour,
            end_hour,
            ratio_percent,
        }))
    }

    fn changelog(&self) -> Result<ChangelogProducer> {
        match self.text("changelog-producer") {
            None => Ok(ChangelogProducer::None),
            Some(text) => match text.to_ascii_lowercase().as_str() {
                "none" | "input" => Ok(ChangelogProducer::None),
                "lookup" => Ok(ChangelogProducer::Lookup),
                "full-compaction" => Ok(ChangelogProducer::FullCompaction),
                _ => Err(self.wrong("changelog-producer")),
            },
        }
    }
}

/// Milliseconds of a text such as `1 h`; without a unit it is milliseconds.
fn duration_ms(text: &str) -> Option<i64> {
    let text = text.trim().to_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number: i64 = number.parse().ok()?;
    let per_unit = match unit.trim() {
        "d" | "day" | "days" => 86_400_000,
        "h" | "hour" | "hours" => 3_600_000,
        "m" | "min" | "minute" | "minutes" => 60_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "µs" | "micro" | "micros" | "microsecond" | "microseconds" => return Some(number / 1000),
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => {
            return Some(number / 1_000_000);
        }
        _ => return None,
    };
    number.checked_mul(per_unit)
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
    fn defaults_are_those_of_the_format() {
        let defaults = options(&[]).unwrap();
        assert_eq!((defaults.levels, defaults.stop_trigger), (6, 8));
        assert_eq!(defaults.universal.trigger, 5);
        assert_eq!(defaults.universal.size_amplification_percent, 200);
        assert_eq!(defaults.universal.size_ratio_percent, 1);
        assert_eq!(defaults.universal.early, None);
        assert_eq!(defaults.universal.level0, ForceLevel0::Never);
        assert_eq!(defaults.target_file_bytes, 128 << 20);
        assert_eq!(defaults.small_file_bytes, 93_952_409);
        assert!(!defaults.needs_lookup());
    }

    #[test]
    fn options_change_what_is_decided() {
        let set = options(&[
            ("num-sorted-run.compaction-trigger", "7"),
            ("num-sorted-run.stop-trigger", "2"),
            ("compaction.optimization-interval", "1 h"),
            ("compaction.total-size-threshold", "10 mb"),
            ("compaction.offpeak.start.hour", "1"),
            ("compaction.offpeak.end.hour", "5"),
            ("compaction.offpeak-ratio", "20"),
            ("changelog-producer", "Lookup"),
            ("lookup-compact", "GENTLE"),
        ])
        .unwrap();
        assert_eq!((set.levels, set.stop_trigger), (8, 7));
        let early = set.universal.early.unwrap();
        assert_eq!(early.interval_ms, Some(3_600_000));
        assert_eq!(early.total_bytes, Some(10 << 20));
        assert_eq!(set.universal.off_peak.unwrap().ratio_percent, 20);
        assert_eq!(set.universal.level0, ForceLevel0::Every(14));
        let vectors = options(&[("deletion-vectors.enabled", "true")]).unwrap();
        assert_eq!(vectors.universal.level0, ForceLevel0::Always);
    }

    #[test]
    fn values_that_cannot_be_read_are_named() {
        for (name, value) in [
            ("num-levels", "1"),
            ("num-sorted-run.compaction-trigger", "0"),
            ("compaction.size-ratio", "one"),
            ("compaction.optimization-interval", "soon"),
            ("compaction.force-up-level-0", "perhaps"),
            ("changelog-producer", "magic"),
        ] {
            let error = options(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn durations_are_read_as_java_reads_them() {
        for (text, ms) in [
            ("5", 5),
            ("2 min", 120_000),
            ("1D", 86_400_000),
            ("1500 µs", 1),
        ] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for wrong in ["", "h", "-1 h", "1 y", "9999999999999999 d"] {
            assert_eq!(duration_ms(wrong), None, "{wrong}");
        }
    }
}
