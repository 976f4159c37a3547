//! Partitions: their folders and their statistics in manifest lists.
//!
//! Source: `org.apache.paimon.utils.PartitionPathUtils`, `InternalRowPartitionComputer`.

use std::fmt::Write as _;

use object_store::path::Path;

use crate::{
    data_file_meta::{CommitMessage, DataFileMeta, SimpleStats},
    data_type::DataType,
    error::{Error, Result},
    row_view::{Datum, RowView, serialize},
    schema::Schema,
    table::Table,
};

/// Folder name of NULL and of the empty text, unless option `partition.default-name` says another.
const DEFAULT_NAME: &str = "__DEFAULT_PARTITION__";

/// Types of the partition columns, in order.
pub(crate) fn types(schema: &Schema) -> Vec<DataType> {
    schema
        .partition_keys
        .iter()
        .filter_map(|key| schema.field(key))
        .map(|(_, field)| field.data_type.clone())
        .collect()
}

impl Table {
    /// Folder of a bucket: `k=v` a partition column, then `bucket-<n>`.
    ///
    /// # Errors
    /// A partition row that does not fit the schema, or a type that has no folder name yet.
    pub(crate) fn bucket_path(&self, partition: &[u8], bucket: i32) -> Result<Path> {
        let mut path = self.path().clone();
        if let Some(folders) = self.schema().options.get("data-file.path-directory") {
            for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
                path = segment(path, folder)?;
            }
        }
        for folder in self.partition_folders(partition)? {
            path = segment(path, &folder)?;
        }
        Ok(match bucket {
            -2 => path.join("bucket-postpone"),
            bucket => path.join(format!("bucket-{bucket}")),
        })
    }

    /// Where a data file stands.
    pub(crate) fn file_path(
        &self,
        partition: &[u8],
        bucket: i32,
        file: &DataFileMeta,
    ) -> Result<Path> {
        if let Some(path) = &file.external_path {
            return Err(Error::Unsupported(format!(
                "data file outside of the table's folder: {path}"
            )));
        }
        segment(self.bucket_path(partition, bucket)?, &file.file_name)
    }

    /// Deletes files that no commit was ever asked to add. Best effort: what stays is invisible.
    pub async fn discard(&self, messages: &[CommitMessage]) {
        for message in messages {
            for file in &message.new_files {
                if let Ok(path) = self.file_path(&message.partition, message.bucket, file) {
                    let _ = object_store::ObjectStoreExt::delete(&**self.store(), &path).await;
                }
            }
        }
    }

    /// Files of these messages that are not in the store any more, by path. Ask before a commit
    /// that was prepared a while ago: another program may have taken them for orphans.
    pub async fn missing_files(&self, messages: &[CommitMessage]) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for message in messages {
            for file in &message.new_files {
                let path = self.file_path(&message.partition, message.bucket, file)?;
                if !crate::storage::exists(self.store().as_ref(), &path).await? {
                    missing.push(path.to_string());
                }
            }
        }
        Ok(missing)
    }

    fn partition_folders(&self, partition: &[u8]) -> Result<Vec<String>> {
        let schema = self.schema();
        let types = types(schema);
        let damaged = || Error::Corrupt {
            path: self.path().to_string(),
            message: "a partition in its manifests does not fit its schema".into(),
        };
        let row = RowView::new(partition, types.len()).ok_or_else(damaged)?;
        let default = schema
            .options
            .get("partition.default-name")
            .map_or(DEFAULT_NAME, String::as_str);
        let legacy = schema
            .options
            .get("partition.legacy-name")
            .is_none_or(|value| value != "false");
        schema
            .partition_keys
            .iter()
            .zip(&types)
            .enumerate()
            .map(|(field, (key, data_type))| {
                let datum = row.datum(field, data_type).ok_or_else(damaged)?;
                let value = text(&datum, data_type, legacy)?;
                let value = value
                    .filter(|value| !value.trim().is_empty())
                    .unwrap_or_else(|| default.to_owned());
                Ok(format!("{}={}", escape(key), escape(&value)))
            })
            .collect()
    }
}

/// Whether a column of this type can be a partition column; see [`text`].
pub(crate) fn has_folder_name(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Date
            | DataType::Char(_)
            | DataType::VarChar(_)
            | DataType::String
    )
}

/// A segment as it is: `Path::join` would encode what is not ASCII, and percent signs once more.
pub(crate) fn segment(path: Path, name: &str) -> Result<Path> {
    let part = object_store::path::PathPart::parse(name)
        .map_err(|_| Error::Unsupported(format!("a folder or file of the name '{name}'")))?;
    Ok(path.join(part))
}

fn text(datum: &Datum<'_>, data_type: &DataType, legacy: bool) -> Result<Option<String>> {
    Ok(Some(match (datum, data_type) {
        (Datum::Null, _) => return Ok(None),
        (Datum::Boolean(value), _) => value.to_string(),
        (
            Datum::Long(value),
            DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt,
        ) => value.to_string(),
        (Datum::Long(days), DataType::Date) if legacy => days.to_string(),
        (Datum::Long(days), DataType::Date) => {
            let date = i32::try_from(*days).ok().and_then(|days| {
                jiff::civil::date(1970, 1, 1)
                    .checked_add(jiff::Span::new().try_days(days).ok()?)
                    .ok()
            });
            date.ok_or_else(|| Error::Unsupported(format!("partition of day {days}")))?
                .to_string()
        }
        (Datum::Bytes(bytes), DataType::Char(_) | DataType::VarChar(_) | DataType::String) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        (_, other) => {
            return Err(Error::Unsupported(format!(
                "a partition column of type {other}"
            )));
        }
    }))
}

/// Characters that the format (and Hive) write as `%XX`.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        let special = matches!(
            character,
            '\u{1}'
                ..='\u{1f}'
                    | '"'
                    | '#'
                    | '%'
                    | '\''
                    | '*'
                    | '/'
                    | ':'
                    | '='
                    | '?'
                    | '\\'
                    | '\u{7f}'
                    | '{'
                    | '}'
                    | '['
                    | ']'
                    | '^'
        );
        if special {
            // Writing to a String can't fail.
            let _ = write!(escaped, "%{:02X}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Statistics of the partition columns over the partitions of a manifest's entries.
pub(crate) fn stats<'a>(
    schema: &Schema,
    partitions: impl Iterator<Item = &'a [u8]>,
) -> Result<SimpleStats> {
    let types = types(schema);
    let mut min = vec![Datum::Null; types.len()];
    let mut max = vec![Datum::Null; types.len()];
    let mut nulls = vec![Some(0i64); types.len()];
    for partition in partitions {
        let row = RowView::new(partition, types.len());
        let columns = min.iter_mut().zip(&mut max).zip(&mut nulls);
        for (field, (data_type, ((min, max), nulls))) in types.iter().zip(columns).enumerate() {
            let datum = row
                .and_then(|row| row.datum(field, data_type))
                .ok_or_else(|| {
                    Error::Internal("a partition that does not fit the table's schema".into())
                })?;
            if datum == Datum::Null {
                *nulls = nulls.map(|count| count + 1);
                continue;
            }
            if *min == Datum::Null || datum.compare(min).is_lt() {
                *min = datum;
            }
            if *max == Datum::Null || datum.compare(max).is_gt() {
                *max = datum;
            }
        }
    }
    Ok(SimpleStats {
        min_values: serialize(&types, &min),
        max_values: serialize(&types, &max),
        null_counts: nulls,
    })
}
