//! Table options that decide what a writer does, and those that this crate refuses: under them rows
//! or files would mean something else than it writes.
//!
//! Source: `org.apache.paimon.CoreOptions`. What is refused was decided by looking at tables of
//! this crate with Java Paimon 1.4.2.

mod catalogue;
mod kept;
mod typed;
mod value;

pub(crate) use kept::check_kept;
pub use typed::{
    ChangelogOptions, ChangelogProducer, CommitOptions, CompactionOptions, DeletionVectorOptions,
    DynamicBucketOptions, FileOptions, ManifestOptions, MergeEngine, MergeOptions, TableOptions,
};
pub(crate) use value::{Reader, memory_size};

use crate::{
    compact,
    data_file::FileStyles,
    data_type::DataType,
    default_value,
    error::{Error, Result},
    maintain,
    schema::Schema,
    table::Table,
};

/// Options with the values that are fine, and why others are not.
const FINE: [(&str, &[&str], &str); 16] = [
    ("file.format", &["parquet"], FORMAT),
    ("changelog-file.format", &["parquet"], FORMAT),
    ("manifest.format", &["avro"], "manifests are Avro"),
    (
        "manifest.compression",
        &["zstd", "zstandard", "null", "deflate"],
        CODEC,
    ),
    ("metadata.iceberg.storage", &["disabled"], ICEBERG),
    ("bucket-function.type", &["default"], BUCKETS),
    ("data-file.external-paths.strategy", &["none"], ELSEWHERE),
    ("row-tracking.enabled", &["false"], NOT_YET),
    ("data-evolution.enabled", &["false"], NOT_YET),
    ("pk-clustering-override", &["false"], NOT_YET),
    ("type", &["table"], NOT_YET),
    ("branch", &["main"], NOT_YET),
    ("sequence.snapshot-ordering", &["false"], SEQUENCE),
    ("primary-key.nullable", &["false"], NOT_YET),
    ("chain-table.enabled", &["false"], NOT_YET),
    ("index-file-in-data-file-dir", &["false"], NOT_YET),
];

/// Options that must not be set at all.
const REFUSED: [(&str, &str); 16] = [
    ("file.format.per.level", FORMAT),
    ("data-file.path-directory", ELSEWHERE),
    ("data-file.external-paths", ELSEWHERE),
    ("path", ELSEWHERE),
    ("primary-key", KEYS),
    ("partition", KEYS),
    ("blob-field", TYPE),
    ("blob-descriptor-field", TYPE),
    ("blob-view-field", TYPE),
    ("vector-field", TYPE),
    ("vector.file.format", TYPE),
    ("pk-vector.index.columns", INDEX),
    ("pk-btree.index.columns", INDEX),
    ("pk-bitmap.index.columns", INDEX),
    ("pk-multivalue.index.columns", INDEX),
    ("pk-full-text.index.columns", INDEX),
];

/// What may follow `fields.<column>.` and is refused, but for the values that are fine.
const REFUSED_OF_COLUMNS: [(&str, &[&str], &str); 2] = [
    (".default-value", &[], DEFAULTS),
    (".map.storage-layout", &["default"], NOT_YET),
];

const FORMAT: &str = "only Parquet is written: set file.format to parquet, remove \
                      file.format.per.level and changelog-file.format, and compact the table fully \
                      with another engine where older files are not Parquet";
const BUCKETS: &str = "rows are placed by the default function";
const ELSEWHERE: &str = "data files stand in the table's own folder";
const CODEC: &str = "manifests of that codec are not read";
const DEFAULTS: &str = "NULL is written as NULL: give the column itself a default value";
const ICEBERG: &str =
    "metadata for Iceberg is not written, so that its readers would not see new rows";
const NOT_YET: &str = "not written yet";
const SEQUENCE: &str = "rows are ordered by when they were written";
const TYPE: &str = "columns of that type are not written";
const INDEX: &str = "indexes of a table with a primary key are not written";
const KEYS: &str = "the table's columns and keys are given apart from its options";

/// What this crate does about an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It does as the option says; [`TableOptions`] has most of them.
    Honoured,
    /// Readers or engines look at it, or it cannot change rows: it is kept in the schema.
    Kept,
    /// It is refused, unless its value says what this crate does anyway; with the reason.
    Refused(&'static str),
}

impl Treatment {
    /// What becomes of the option of a name; `None` for a name that the format doesn't know.
    pub fn of(name: &str) -> Option<Self> {
        let fine = FINE.iter().map(|(name, _, why)| (*name, *why));
        let mut refused = fine.chain(REFUSED);
        if let Some((_, why)) = refused.find(|(refused, _)| *refused == name) {
            return Some(Self::Refused(why));
        }
        if catalogue::HONOURED.contains(&name) {
            return Some(Self::Honoured);
        }
        let prefixed = |prefix: &&str| name.starts_with(*prefix);
        if catalogue::KEPT.contains(&name) || catalogue::PREFIXES.iter().any(prefixed) {
            return Some(Self::Kept);
        }
        let of_column = name.strip_prefix("fields.")?;
        let mut refused = REFUSED_OF_COLUMNS.iter();
        if let Some((_, _, why)) = refused.find(|(suffix, _, _)| of_column.ends_with(suffix)) {
            return Some(Self::Refused(why));
        }
        let (_, suffix) = of_column.rsplit_once('.')?;
        let mut suffixes = catalogue::FIELD_SUFFIXES.iter();
        suffixes
            .find(|(known, _)| *known == suffix)
            .map(|(_, honoured)| match honoured {
                true => Self::Honoured,
                false => Self::Refused(NOT_YET),
            })
    }
}

/// Whether an option must not change once the table has rows. `bucket` has rules of its own.
/// Source: `CoreOptions.IMMUTABLE_OPTIONS`.
pub(crate) fn is_immutable(name: &str) -> bool {
    catalogue::IMMUTABLE.contains(&name)
}

/// The known name that is nearest to an unknown one; none when nothing is near.
fn nearest(unknown: &str) -> Option<&'static str> {
    let fine = FINE.iter().map(|(name, _, _)| *name);
    fine.chain(REFUSED.iter().map(|(name, _)| *name))
        .chain(catalogue::HONOURED)
        .chain(catalogue::KEPT)
        .map(|known| (edits(unknown, known), known))
        .min()
        .filter(|(edits, _)| *edits <= (unknown.len() / 4).max(2))
        .map(|(_, known)| known)
}

/// Bytes to insert, delete or replace to make one name of the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(row.first_mut().unwrap_or(&mut 0), at + 1);
        let mut left = at + 1;
        for (cell, there) in row.iter_mut().skip(1).zip(other.bytes()) {
            let replaced = diagonal + usize::from(byte != there);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(left + 1);
            left = *cell;
        }
    }
    row.last().copied().unwrap_or(0)
}

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
        let options = TableOptions::of(schema)?;
        let set = schema.options.contains_key("target-file-size");
        Ok(Self {
            target_file_bytes: set.then_some(options.files.target_bytes),
            top_level: options.compaction.top_level(),
        })
    }
}

impl Schema {
    /// The options under which this crate does not write the table, each with the reason; empty
    /// when it does. The bucket count is looked at when a table is made, and by writers.
    pub fn unsupported_options(&self) -> Vec<String> {
        self.unsupported(|_, _| false)
    }

    /// As [`Schema::unsupported_options`], without what `is_taken` takes nevertheless.
    fn unsupported(&self, is_taken: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let option = |name: &str| self.options.get(name).map(|value| value.trim());
        let mut found = Vec::new();
        for (name, fine, why) in FINE {
            if let Some(value) = option(name)
                && !fine.iter().any(|fine| value.eq_ignore_ascii_case(fine))
                && !is_taken(name, value)
            {
                found.push(format!("option {name} = {value}: {why}"));
            }
        }
        for (name, why) in REFUSED {
            if let Some(value) = option(name)
                && !is_taken(name, value)
            {
                found.push(format!("option {name} = {value}: {why}"));
            }
        }
        for (name, value) in &self.options {
            for (suffix, fine, why) in REFUSED_OF_COLUMNS {
                let is_fine = fine
                    .iter()
                    .any(|fine| value.trim().eq_ignore_ascii_case(fine));
                if name.starts_with("fields.") && name.ends_with(suffix) && !is_fine {
                    found.push(format!("option {name} = {value}: {why}"));
                }
            }
        }
        let fine_times = self
            .fields
            .iter()
            .filter(|field| has_fine_times(&field.data_type));
        found.extend(fine_times.map(|field| {
            format!(
                "column {} of type {}: timestamps of more than 6 digits are not written within others",
                field.name, field.data_type
            )
        }));
        found.extend(self.vectors_without_use());
        let unreadable = [
            TableOptions::of(self).err(),
            FileStyles::new(self).err(),
            crate::merge::check(self).err(),
            compact::check_expiry(self).err(),
            default_value::check(self).err(),
            maintain::check_options(self).err(),
        ];
        for error in unreadable.into_iter().flatten() {
            let text = match error {
                Error::Unsupported(text) => text,
                error => error.to_string(),
            };
            // Several look at the same option.
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    /// Why a table with a primary key has no deletion vectors, if its options ask for them
    /// nevertheless. Source: `SchemaValidation.validateForDeletionVectors`.
    fn vectors_without_use(&self) -> Option<String> {
        let is = |name: &str, value: &str| {
            let option = self.options.get(name).map(|value| value.trim());
            option.is_some_and(|option| option.eq_ignore_ascii_case(value))
        };
        if self.primary_keys.is_empty() || !is("deletion-vectors.enabled", "true") {
            return None;
        }
        let why = if is("merge-engine", "first-row") {
            "with merge-engine = first-row no row is ever replaced"
        } else if is("changelog-producer", "full-compaction") {
            "with changelog-producer = full-compaction replaced rows must stay until then"
        } else {
            return None;
        };
        Some(format!("option deletion-vectors.enabled = true: {why}"))
    }

    /// Options whose names the format doesn't know, each with the nearest name that it knows. They
    /// are kept, since an engine may know them, but do nothing.
    pub fn unknown_options(&self) -> Vec<String> {
        self.options
            .keys()
            .filter(|name| Treatment::of(name).is_none())
            .map(|name| match nearest(name) {
                Some(known) => format!("option {name} is not known: is {known} meant?"),
                None => format!("option {name} is not known"),
            })
            .collect()
    }

    /// Refuses options under which rows or files would mean something else than this crate writes,
    /// for a new table.
    pub(crate) fn check_options(&self) -> Result<()> {
        match self.unsupported_options().into_iter().next() {
            Some(reason) => Err(Error::Unsupported(reason)),
            None => Ok(()),
        }
    }

    /// As [`Schema::check_options`], for a table that is there. One whose files others write as
    /// Avro is taken: files may be of any format, and those of this crate are Parquet.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.unsupported(is_avro).into_iter().next() {
            Some(reason) => Err(Error::Unsupported(reason)),
            None => Ok(()),
        }
    }
}

/// Whether a nested type holds timestamps that Parquet files of the format have as INT96.
fn has_fine_times(data_type: &DataType) -> bool {
    let fine = |inner: &DataType| {
        matches!(
            inner,
            DataType::Timestamp(7..) | DataType::TimestampLtz(7..)
        ) || has_fine_times(inner)
    };
    match data_type {
        DataType::Array(element) | DataType::Multiset(element) => fine(&element.data_type),
        DataType::Map(key, value) => fine(&key.data_type) || fine(&value.data_type),
        DataType::Row(fields) => fields.iter().any(|field| fine(&field.data_type)),
        _ => false,
    }
}

/// Whether an option says that data files are Avro, or Parquet, on some levels.
fn is_avro(name: &str, value: &str) -> bool {
    let is_read = |format: &str| ["avro", "parquet"].contains(&format.trim());
    let value = value.to_ascii_lowercase();
    match name {
        "file.format" => is_read(&value),
        "file.format.per.level" => value.split(',').all(|level| {
            level
                .split_once(':')
                .is_some_and(|(_, format)| is_read(format))
        }),
        _ => false,
    }
}

impl Table {
    /// As [`Schema::check_writable`], with the table's name.
    pub(crate) fn check_options(&self) -> Result<()> {
        self.schema().check_writable().map_err(|error| match error {
            Error::Unsupported(reason) => {
                Error::Unsupported(format!("table {}: {reason}", self.name()))
            }
            error => error,
        })
    }

    /// Refuses a table whose rows are appended, for writers that sort them by key.
    pub(crate) fn check_has_key(&self) -> Result<()> {
        match self.schema().primary_keys.is_empty() {
            true => Err(Error::Unsupported(format!(
                "table {} has no primary key: its rows are appended (AppendWriter), not merged",
                self.name()
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: &str) -> Vec<String> {
        let schema = Schema {
            options: [(name.to_owned(), value.to_owned())].into(),
            ..Schema::empty()
        };
        schema.unsupported_options()
    }

    #[test]
    fn deletion_vectors_go_with_most_options() {
        for (name, value, fine) in [
            ("merge-engine", "aggregation", true),
            ("merge-engine", "first-row", false),
            ("changelog-producer", "lookup", true),
            ("changelog-producer", "full-compaction", false),
        ] {
            let options = [("deletion-vectors.enabled", "true"), (name, value)];
            let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut schema = Schema {
                options: options.into(),
                primary_keys: vec!["id".into()],
                ..Schema::empty()
            };
            assert_eq!(schema.vectors_without_use().is_none(), fine, "{value}");
            schema.primary_keys.clear();
            assert_eq!(schema.vectors_without_use(), None);
        }
    }

    #[test]
    fn options_that_would_change_the_data_are_named() {
        for (name, value) in [
            ("bucket-function.type", "mod"),
            ("file.format", "orc"),
            ("manifest.format", "orc"),
            ("fields.v.default-value", "7"),
            ("file.format.per.level", "0:avro"),
            ("target-file-size", "much"),
            ("num-levels", "1"),
            ("changelog-file.format", "avro"),
            ("manifest.compression", "snappy"),
            ("metadata.stats-mode", "all"),
            ("fields.v.map.storage-layout", "shared-shredding"),
            ("tag.automatic-creation", "sometimes"),
            ("partition.expiration-time", "soon"),
            ("snapshot.time-retained", "long"),
        ] {
            let found = found(name, value);
            assert_eq!(found.len(), 1, "{name}");
            let start = format!("option {name} = {value}");
            assert!(found[0].starts_with(&start), "{found:?}");
        }
        for (name, value) in [
            ("merge-engine", "deduplicate"),
            ("merge-engine", "aggregation"),
            ("merge-engine", "partial-update"),
            ("merge-engine", "first-row"),
            ("rowkind.field", "v"),
            ("ignore-delete", "TRUE"),
            ("changelog-producer", "input"),
            ("changelog-producer", "lookup"),
            ("changelog-producer", "full-compaction"),
            ("file.format", "Parquet"),
            ("snapshot.num-retained.max", "100"),
            ("file.compression", "zstd"),
            ("write-only", "true"),
            ("deletion-vectors.enabled", "true"),
        ] {
            assert_eq!(found(name, value), Vec::<String>::new());
        }
    }

    #[test]
    fn tables_with_files_in_avro_are_taken_and_not_made() {
        for (name, value, taken) in [
            ("file.format", "avro", true),
            ("file.format", "AVRO", true),
            ("file.format", "orc", false),
            ("file.format.per.level", "0:avro,5:parquet", true),
            ("file.format.per.level", "0:avro, 5:orc", false),
            ("file.format.per.level", "avro", false),
        ] {
            let schema = Schema {
                options: [(name.to_owned(), value.to_owned())].into(),
                ..Schema::empty()
            };
            assert!(schema.check_options().is_err(), "{value}");
            assert_eq!(schema.check_writable().is_ok(), taken, "{value}");
        }
    }

    #[test]
    fn names_that_the_format_does_not_know_are_reported_with_the_nearest() {
        let schema = Schema {
            options: [
                "num-sorted-runs.compaction-trigger",
                "target-file-sise",
                "file-index.bloom-filter.columns",
                "fields.v.aggregate-function",
                "fields.v.agregate-function",
                "sink.parallelism",
                "something-else-altogether",
            ]
            .map(|name| (name.to_owned(), "1".to_owned()))
            .into(),
            ..Schema::empty()
        };
        assert_eq!(
            schema.unknown_options(),
            [
                "option fields.v.agregate-function is not known",
                "option num-sorted-runs.compaction-trigger is not known: is \
                 num-sorted-run.compaction-trigger meant?",
                "option something-else-altogether is not known",
                "option target-file-sise is not known: is target-file-size meant?",
            ]
        );
        assert_eq!(Treatment::of("write-only"), Some(Treatment::Honoured));
        assert_eq!(Treatment::of("scan.parallelism"), Some(Treatment::Kept));
        assert!(matches!(
            Treatment::of("data-file.external-paths"),
            Some(Treatment::Refused(_))
        ));
    }

    /// Rust sources below a folder, but for the list of names itself.
    fn sources(folder: &std::path::Path, into: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|it| it == "rs");
            if path.is_dir() {
                sources(&path, into);
            } else if is_source && !path.ends_with("catalogue.rs") && !path.ends_with("tests.rs") {
                into.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn options_that_are_honoured_are_read_somewhere() {
        let mut text = String::new();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        sources(std::path::Path::new(folder), &mut text);
        let is_read = |name: &str| text.contains(&format!("\"{name}\""));
        let unread: Vec<&str> = catalogue::HONOURED
            .into_iter()
            .filter(|name| !is_read(name))
            .collect();
        assert_eq!(unread, Vec::<&str>::new());
    }

    #[test]
    fn every_name_is_in_one_list() {
        let fine = FINE.iter().map(|(name, _, _)| *name);
        let refused = REFUSED.iter().map(|(name, _)| *name);
        let names = fine.chain(refused);
        let mut names: Vec<&str> = names
            .chain(catalogue::HONOURED)
            .chain(catalogue::KEPT)
            .collect();
        names.sort_unstable();
        let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
        assert_eq!(twice.count(), 0);
    }

    #[test]
    fn what_is_not_set_is_as_in_java() {
        let mut schema = Schema::empty();
        let options = TableOptions::of(&schema).unwrap();
        assert_eq!(options.compaction.stop_trigger, 8);
        assert_eq!(options.compaction.levels, 6);
        assert_eq!(options.files.target_bytes, 256 << 20);
        schema.primary_keys = vec!["k".into()];
        for (name, value) in [
            ("num-sorted-run.compaction-trigger", "9"),
            ("num-sorted-run.stop-trigger", "4"),
            ("partial-update.ignore-delete", "TRUE"),
            ("merge-engine", "PARTIAL_UPDATE"),
            ("sequence.field", "a, b"),
        ] {
            schema.options.insert(name.into(), value.into());
        }
        let options = TableOptions::of(&schema).unwrap();
        assert_eq!(options.compaction.stop_trigger, 9);
        assert_eq!(options.compaction.levels, 10);
        assert_eq!(options.files.target_bytes, 128 << 20);
        assert_eq!(options.merge.engine, MergeEngine::PartialUpdate);
        assert_eq!(options.merge.sequence_fields, ["a", "b"]);
        assert!(options.merge.ignore_delete);
    }
}
