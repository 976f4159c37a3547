//! Which schemas can be: the format's rules, and what this crate does not write.
//!
//! Source of the rules: `org.apache.paimon.schema.SchemaValidation`.

use std::collections::HashSet;

use super::Schema;
use crate::{
    data_type::DataType,
    error::{Error, Result},
    partition,
    table_options::{ChangelogProducer, MergeEngine, TableOptions, check_kept},
};

/// Names of columns that the format keeps for itself. Source: `SpecialFields`.
const RESERVED: [&str; 5] = [
    "_SEQUENCE_NUMBER",
    "_VALUE_KIND",
    "_LEVEL",
    "_ROW_ID",
    "rowkind",
];

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported(message.into()))
}

impl Schema {
    /// The format's rules, whatever this crate writes of what they allow.
    pub(crate) fn check_rules(&self) -> Result<()> {
        self.check_columns()?;
        self.check_keys()?;
        let options = TableOptions::of(self)?;
        self.check_buckets(&options)?;
        self.check_merging(&options)?;
        if self.options.contains_key("partition.expiration-time") && self.partition_keys.is_empty()
        {
            return refuse("option partition.expiration-time on a table without partitions");
        }
        check_kept(self)?;
        self.check_field_options()
    }

    /// Kinds of tables that this crate does not write.
    pub(super) fn check_kind(&self) -> Result<()> {
        if self.primary_keys.is_empty() {
            return Ok(());
        }
        for key in &self.partition_keys {
            if !self.primary_keys.contains(key) {
                return refuse(format!(
                    "partition column '{key}' outside of the primary key: rows of one key could \
                     stand in two partitions (cross-partition upsert); put it into the primary key"
                ));
            }
        }
        match self.buckets() {
            -2 => refuse(
                "option 'bucket' of -2 (postponed buckets): set it to a number above 0, or to -1 \
                 for dynamic buckets",
            ),
            _ => Ok(()),
        }
    }

    fn check_columns(&self) -> Result<()> {
        let mut seen = HashSet::new();
        for field in &self.fields {
            if field.name.is_empty() {
                return refuse("a column without a name");
            }
            if RESERVED.contains(&field.name.as_str()) || field.name.starts_with("_KEY_") {
                return refuse(format!(
                    "column '{}': Paimon keeps that name for itself",
                    field.name
                ));
            }
            if !seen.insert(field.name.to_lowercase()) {
                return refuse(format!(
                    "columns whose names differ in case only: '{}' is there twice",
                    field.name
                ));
            }
            check_names(&field.name, &field.data_type)?;
        }
        Ok(())
    }

    fn check_keys(&self) -> Result<()> {
        for (what, keys) in [
            ("primary key", &self.primary_keys),
            ("partition", &self.partition_keys),
        ] {
            let mut seen = HashSet::new();
            for key in keys {
                let Some((_, field)) = self.field(key) else {
                    return refuse(format!("{what} column '{key}', which is not a column"));
                };
                if !seen.insert(key) {
                    return refuse(format!("{what} column '{key}' is named twice"));
                }
                let in_folder = self.partition_keys.contains(key);
                if field.data_type.is_nested()
                    || in_folder && !partition::has_folder_name(self, &field.data_type)
                {
                    let what = if in_folder {
                        "partition"
                    } else {
                        "primary key"
                    };
                    return refuse(format!("{what} column '{key}' of type {}", field.data_type));
                }
            }
        }
        if !self.primary_keys.is_empty() && self.trimmed_primary_keys().is_empty() {
            return refuse(
                "a primary key that holds only partition columns: each partition could hold one \
                 row only",
            );
        }
        Ok(())
    }

    fn check_buckets(&self, options: &TableOptions) -> Result<()> {
        let set = self.options.get("bucket").map(String::as_str);
        let number = set.map_or(Ok(-1), |text| text.trim().parse::<i32>());
        let has_key = self.options.contains_key("bucket-key");
        match number {
            Ok(-1) if has_key => {
                return refuse(
                    "option bucket-key without fixed buckets: set option bucket to a number above 0",
                );
            }
            Ok(-1)
                if self.primary_keys.is_empty()
                    && options.compaction.full_delta_commits.is_some() =>
            {
                return refuse(
                    "option full-compaction.delta-commits on a table without buckets and primary key",
                );
            }
            Ok(-1) => return Ok(()),
            Ok(-2) if !self.primary_keys.is_empty() => {}
            Ok(1..=i32::MAX) => {}
            _ => {
                return refuse(format!(
                    "option 'bucket' of '{}': set it to a number above 0",
                    set.unwrap_or_default()
                ));
            }
        }
        if self.primary_keys.is_empty() && !has_key {
            return refuse(
                "fixed buckets without option bucket-key: a table without a primary key needs one",
            );
        }
        for key in self.bucket_keys() {
            let field = self.field(key);
            let Some((_, field)) = field else {
                return refuse(format!("bucket key '{key}', which is not a column"));
            };
            if field.data_type.is_nested() {
                return refuse(format!("bucket key '{key}' of type {}", field.data_type));
            }
            let outside =
                !self.primary_keys.is_empty() && !self.trimmed_primary_keys().contains(&key);
            if outside || self.partition_keys.iter().any(|partition| partition == key) {
                return refuse(format!(
                    "bucket key '{key}' outside of the primary key, or a partition column"
                ));
            }
        }
        Ok(())
    }

    fn check_merging(&self, options: &TableOptions) -> Result<()> {
        let is_on = |name: &str| {
            let value = self.options.get(name);
            value.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        };
        let (engine, producer) = (options.merge.engine, options.changelog.producer);
        let by_compaction = matches!(
            producer,
            ChangelogProducer::Lookup | ChangelogProducer::FullCompaction
        );
        if self.primary_keys.is_empty() && producer != ChangelogProducer::None {
            return refuse("option changelog-producer on a table without a primary key");
        }
        if is_on("streaming-read-overwrite") && by_compaction {
            return refuse(
                "option streaming-read-overwrite with a changelog-producer of lookup or \
                 full-compaction: changes would be read twice",
            );
        }
        if options.compaction.full_delta_commits.is_some() && producer == ChangelogProducer::Lookup
        {
            return refuse(
                "option full-compaction.delta-commits with changelog-producer = lookup: use \
                 full-compaction, or remove it",
            );
        }
        if engine == MergeEngine::FirstRow
            && !matches!(
                producer,
                ChangelogProducer::None | ChangelogProducer::Lookup
            )
        {
            return refuse(
                "merge-engine = first-row with a changelog-producer other than none or lookup",
            );
        }
        if options.deletion_vectors.enabled {
            if producer == ChangelogProducer::FullCompaction {
                return refuse("deletion vectors with changelog-producer = full-compaction");
            }
            if engine == MergeEngine::FirstRow {
                return refuse(
                    "deletion vectors with merge-engine = first-row, which deletes nothing",
                );
            }
        }
        self.check_sequence(options)?;
        if let Some(name) = &options.merge.rowkind_field
            && self.field(name).is_none()
        {
            return refuse(format!(
                "option rowkind.field = {name}, which is not a column"
            ));
        }
        if let Some(name) = &options.merge.record_time_field {
            let data_type = self.field(name).map(|(_, field)| &field.data_type);
            let fine = matches!(
                data_type,
                Some(
                    DataType::Int
                        | DataType::BigInt
                        | DataType::Timestamp(_)
                        | DataType::TimestampLtz(_)
                )
            );
            if !fine {
                return refuse(format!(
                    "option record-level.time-field = {name}: a column of type INT, BIGINT or \
                     TIMESTAMP is expected"
                ));
            }
        }
        Ok(())
    }

    fn check_sequence(&self, options: &TableOptions) -> Result<()> {
        let fields = &options.merge.sequence_fields;
        let mut seen = HashSet::new();
        for name in fields {
            let why = if self.field(name).is_none() {
                "which is not a column"
            } else if self
                .options
                .contains_key(&format!("fields.{name}.aggregate-function"))
            {
                "which is aggregated"
            } else if !seen.insert(name) {
                "which is named twice"
            } else {
                continue;
            };
            return refuse(format!("sequence field '{name}', {why}"));
        }
        if fields.is_empty() {
            return Ok(());
        }
        if options.merge.engine == MergeEngine::FirstRow {
            return refuse("option sequence.field with merge-engine = first-row");
        }
        let mut partitions = self.partition_keys.iter();
        if !self.primary_keys.is_empty() && partitions.any(|key| !self.primary_keys.contains(key)) {
            return refuse(
                "option sequence.field with partition columns outside of the primary key",
            );
        }
        Ok(())
    }

    /// Options `fields.<column>.…` name columns.
    fn check_field_options(&self) -> Result<()> {
        for option in self.options.keys() {
            let Some((columns, _)) = option
                .strip_prefix("fields.")
                .and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            let known = columns.split(',').all(|column| {
                // Some options have points in their own names.
                let whole = self.field(column.trim()).is_some();
                whole
                    || self
                        .fields
                        .iter()
                        .any(|field| column.starts_with(&format!("{}.", field.name)))
            });
            if !known {
                return refuse(format!("option {option}: '{columns}' is not a column"));
            }
        }
        Ok(())
    }
}

/// Fields of a ROW are told apart by their names.
fn check_names(column: &str, data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Row(fields) => {
            let mut seen = HashSet::new();
            for field in fields {
                if field.name.is_empty() || !seen.insert(&field.name) {
                    return refuse(format!(
                        "column '{column}' with a field '{}' twice, or without a name",
                        field.name
                    ));
                }
                check_names(column, &field.data_type)?;
            }
            Ok(())
        }
        DataType::Array(element) | DataType::Multiset(element) => {
            check_names(column, &element.data_type)
        }
        DataType::Map(key, value) => {
            check_names(column, &key.data_type)?;
            check_names(column, &value.data_type)
        }
        _ => Ok(()),
    }
}
