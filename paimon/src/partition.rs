//! Partitions: their folders and their statistics in manifest lists.
//!
//! Source: `org.apache.paimon.utils.PartitionPathUtils`, `InternalRowPartitionComputer`.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;

use crate::{
    binary_row::{RowView, Value, decode, encode},
    data_file_meta::{CommitMessage, DataFileMeta, SimpleStats},
    data_type::DataType,
    error::{Error, Result},
    schema::Schema,
    table::Table,
};

mod folder_name;

pub(crate) use folder_name::has_folder_name;

/// Folder name of NULL and of the empty text, unless option `partition.default-name` says another.
const DEFAULT_NAME: &str = "__DEFAULT_PARTITION__";

/// Files that are looked for at once.
const LOOKS_MAX: usize = 16;

/// Types of the partition columns, in order.
pub(crate) fn types(schema: &Schema) -> Vec<DataType> {
    schema
        .partition_keys
        .iter()
        .filter_map(|key| schema.field(key))
        .map(|(_, field)| field.data_type.clone())
        .collect()
}

/// Values of a partition as text, as Java's `toString` gives it; `None` is NULL.
pub(crate) fn texts(schema: &Schema, partition: &[u8]) -> Result<Vec<Option<String>>> {
    let types = types(schema);
    let values = decode(partition, &types).map_err(|reason| Error::Corrupt {
        path: "a partition of a manifest".into(),
        message: reason,
    })?;
    let texts = types.iter().zip(&values);
    texts
        .map(|(data_type, value)| folder_name::Style::Legacy.name(value, data_type))
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
            for file in &message.new_index_files {
                let path = self.index_path(&file.file_name);
                let _ = object_store::ObjectStoreExt::delete(&**self.store(), &path).await;
            }
        }
    }

    /// Files of these messages that are not in the store any more, by path. Ask before a commit
    /// that was prepared a while ago: another program may have taken them for orphans.
    pub async fn missing_files(&self, messages: &[CommitMessage]) -> Result<Vec<String>> {
        self.missing_of(messages, |_| true).await
    }

    /// As [`missing_files`](Self::missing_files), looking only for files that were made longer ago
    /// than that: nobody takes younger ones for orphans.
    pub async fn missing_old_files(
        &self,
        messages: &[CommitMessage],
        age: Duration,
    ) -> Result<Vec<String>> {
        let now = crate::data_file::local_wall_clock_ms();
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        // A clock that was set back makes files of the future.
        let is_young = |made: i64| (0..age).contains(&now.saturating_sub(made));
        let old = |file: &DataFileMeta| !file.creation_time_ms.is_some_and(is_young);
        self.missing_of(messages, old).await
    }

    async fn missing_of(
        &self,
        messages: &[CommitMessage],
        asked: impl Fn(&DataFileMeta) -> bool,
    ) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for message in messages {
            for file in message.new_files.iter().filter(|file| asked(file)) {
                paths.push(self.file_path(&message.partition, message.bucket, file)?);
            }
            for file in &message.new_index_files {
                paths.push(self.index_file_path(file)?);
            }
        }
        let store = self.store().as_ref();
        let looks = paths.into_iter().map(|path| async move {
            let there = crate::storage::exists(store, &path).await?;
            Ok::<_, Error>((!there).then(|| path.to_string()))
        });
        stream::iter(looks)
            .buffered(LOOKS_MAX)
            .try_filter_map(|missing| async move { Ok(missing) })
            .try_collect()
            .await
    }

    /// A partition as its folders say it, such as `d=2026-11-30/h=7`; empty where there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the row does not fit the schema.
    pub fn partition_name(&self, partition: &[u8]) -> Result<String> {
        Ok(self.partition_folders(partition)?.join("/"))
    }

    fn partition_folders(&self, partition: &[u8]) -> Result<Vec<String>> {
        let schema = self.schema();
        let types = types(schema);
        let values = decode(partition, &types).map_err(|reason| Error::Corrupt {
            path: self.path().to_string(),
            message: format!("a partition in its manifests does not fit its schema: {reason}"),
        })?;
        let default = schema
            .options
            .get("partition.default-name")
            .map_or(DEFAULT_NAME, String::as_str);
        let style = folder_name::Style::of(schema);
        schema
            .partition_keys
            .iter()
            .zip(types.iter().zip(&values))
            .map(|(key, (data_type, value))| {
                let name = style.name(value, data_type)?;
                let name = name
                    .filter(|name| !name.trim().is_empty())
                    .unwrap_or_else(|| default.to_owned());
                Ok(format!(
                    "{}={}",
                    folder_name::escape(key),
                    folder_name::escape(&name)
                ))
            })
            .collect()
    }
}

/// A segment as it is: `Path::join` would encode what is not ASCII, and percent signs once more.
pub(crate) fn segment(path: Path, name: &str) -> Result<Path> {
    let part = object_store::path::PathPart::parse(name)
        .map_err(|_| Error::Unsupported(format!("a folder or file of the name '{name}'")))?;
    Ok(path.join(part))
}

/// Statistics of the partition columns over the partitions of a manifest's entries.
pub(crate) fn stats<'a>(
    schema: &Schema,
    partitions: impl Iterator<Item = &'a [u8]>,
) -> Result<SimpleStats> {
    let types = types(schema);
    let mut min = vec![Value::<&[u8]>::Null; types.len()];
    let mut max = min.clone();
    let mut nulls = vec![Some(0i64); types.len()];
    let misfit = |reason: String| {
        Error::Internal(format!(
            "a partition that does not fit the table's schema: {reason}"
        ))
    };
    for partition in partitions {
        let row = RowView::new(partition, types.len()).map_err(misfit)?;
        let columns = min.iter_mut().zip(&mut max).zip(&mut nulls);
        for (field, (data_type, ((min, max), nulls))) in types.iter().zip(columns).enumerate() {
            let value = row.value(field, data_type).map_err(misfit)?;
            if value == Value::Null {
                *nulls = nulls.map(|count| count + 1);
                continue;
            }
            if *min == Value::Null || value.compare(min).is_lt() {
                *min = value;
            }
            if *max == Value::Null || value.compare(max).is_gt() {
                *max = value;
            }
        }
    }
    Ok(SimpleStats {
        min_values: encode(&min, &types)?,
        max_values: encode(&max, &types)?,
        null_counts: nulls,
    })
}
