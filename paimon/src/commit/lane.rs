//! The bulk lane: which files of a request may stand above level 0.
//!
//! A file above level 0 must not overlap another of its level in its bucket, or every later writer
//! of the table fails ("SortedRun is not sorted"); Java's commit does not check that of an append.
//! Where compactions make the changelog, it must stand on level 0 or they would not see it. And
//! where readers do not merge files above level 0, one key must not stand in two of them.

use std::{cmp::Ordering, collections::HashMap};

use crate::{
    binary_row::compare_keys,
    data_file_meta::CommitMessage,
    data_type::DataType,
    manifest::{FileKind, ManifestEntry},
    schema::Schema,
};

use super::view::View;

/// Smallest and greatest key.
pub(super) type KeyRange<'a> = (&'a [u8], &'a [u8]);

/// Entries for the files of a request, in order, each with the level that it may have.
pub(super) fn place(
    schema: &Schema,
    view: &View,
    messages: &[CommitMessage],
) -> Vec<ManifestEntry> {
    let types = key_types(schema);
    let merging = is_read_with_merging(schema);
    let changelog = changelog_is_compacted(schema);
    // By partition, bucket and level.
    let mut taken: HashMap<(&[u8], i32, i32), Vec<KeyRange<'_>>> = HashMap::new();
    let mut entries = Vec::new();
    for message in messages {
        let bucket = view.bucket(&message.partition, message.bucket);
        let empty = bucket.is_none_or(|bucket| bucket.files == 0);
        for new in &message.new_files {
            let mut file = new.clone();
            if file.level > 0 {
                let others = taken
                    .entry((&message.partition, message.bucket, file.level))
                    .or_default();
                let live = bucket
                    .iter()
                    .flat_map(|bucket| &bucket.ranges)
                    .filter(|range| range.level == file.level)
                    .map(|range| (range.min_key.as_slice(), range.max_key.as_slice()));
                let fits = (merging || empty)
                    && !changelog
                    && live.chain(others.iter().copied()).all(|(min, max)| {
                        apart(&types, (&file.min_key, &file.max_key), (min, max))
                    });
                if fits {
                    others.push((&new.min_key, &new.max_key));
                } else {
                    file.level = 0;
                }
            }
            entries.push(ManifestEntry {
                kind: FileKind::Add,
                partition: message.partition.clone(),
                bucket: message.bucket,
                total_buckets: message.total_buckets,
                file,
            });
        }
    }
    entries
}

/// Types of the columns of a data file's keys.
pub(super) fn key_types(schema: &Schema) -> Vec<DataType> {
    schema
        .trimmed_primary_keys()
        .iter()
        .filter_map(|key| schema.field(key))
        .map(|(_, field)| field.data_type.clone())
        .collect()
}

/// True when one range ends before the other begins. Keys that can't be read are never apart.
pub(super) fn apart(types: &[DataType], a: KeyRange<'_>, b: KeyRange<'_>) -> bool {
    compare_keys(types, a.1, b.0) == Some(Ordering::Less)
        || compare_keys(types, b.1, a.0) == Some(Ordering::Less)
}

/// False for tables whose readers take files above level 0 as they are.
fn is_read_with_merging(schema: &Schema) -> bool {
    option(schema, "deletion-vectors.enabled").as_deref() != Some("true")
        && option(schema, "merge-engine").as_deref() != Some("first-row")
}

/// Whether compactions write the changelog, of what they find on level 0.
fn changelog_is_compacted(schema: &Schema) -> bool {
    matches!(
        option(schema, "changelog-producer").as_deref(),
        Some("lookup" | "full-compaction")
    )
}

fn option(schema: &Schema, name: &str) -> Option<String> {
    let value = schema.options.get(name)?;
    Some(value.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
