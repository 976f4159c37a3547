//! Keeps the base manifest list short: small manifests are merged, so that the cost of a commit and
//! of a read does not grow with the number of commits.
//!
//! Source of the thresholds: `org.apache.paimon.operation.ManifestFileMerger` and options
//! `manifest.target-file-size`, `manifest.merge-min-count`,
//! `manifest.full-compaction-threshold-size`.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::Result,
    manifest::{FileKind, ManifestEntry},
    manifest_list::ManifestFileMeta,
    schema::Schema,
    table::Table,
    table_options::memory_size,
};

use super::names::Names;

#[derive(Debug, Clone, Copy)]
pub(super) struct Thresholds {
    /// Bytes.
    pub(super) target_size: i64,
    /// Small manifests that are merged together.
    pub(super) merge_min_count: usize,
    /// Bytes of manifests that are small or hold deletes, from which all is written anew.
    pub(super) full_size: i64,
}

impl Thresholds {
    pub(super) fn of(schema: &Schema) -> Self {
        let option = |name: &str| schema.options.get(name).map(String::as_str);
        let size = |name: &str, default: i64| {
            let bytes = option(name).and_then(memory_size);
            bytes.map_or(default, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
        };
        Self {
            target_size: size("manifest.target-file-size", 8 << 20).max(1),
            merge_min_count: option("manifest.merge-min-count")
                .and_then(|count| count.parse().ok())
                .unwrap_or(30)
                .max(2),
            full_size: size("manifest.full-compaction-threshold-size", 16 << 20),
        }
    }
}

/// Which manifests, by position, become one; the others stay. In order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Keep(usize),
    Merge(std::ops::Range<usize>),
}

/// Decides what to merge.
pub(super) fn plan(manifests: &[ManifestFileMeta], thresholds: Thresholds) -> Vec<Step> {
    let loose: i64 = manifests
        .iter()
        .filter(|meta| meta.num_deleted_files > 0 || meta.file_size < thresholds.target_size)
        .map(|meta| meta.file_size)
        .sum();
    let deletes = manifests.iter().any(|meta| meta.num_deleted_files > 0);
    if loose >= thresholds.full_size && deletes {
        return vec![Step::Merge(0..manifests.len())];
    }
    let mut steps = Vec::new();
    let mut start = 0;
    let mut size = 0;
    let mut close = |range: std::ops::Range<usize>, merge: bool| {
        if merge && range.len() > 1 {
            steps.push(Step::Merge(range));
        } else {
            steps.extend(range.map(Step::Keep));
        }
    };
    for (at, meta) in manifests.iter().enumerate() {
        size += meta.file_size;
        if size >= thresholds.target_size {
            close(start..at + 1, true);
            start = at + 1;
            size = 0;
        }
    }
    let rest = start..manifests.len();
    let enough = rest.len() >= thresholds.merge_min_count;
    close(rest, enough);
    steps
}

/// Entries of several manifests as one list: an add and its delete cancel each other, a delete
/// whose add is elsewhere stays. The order of what stays is kept.
#[derive(Default)]
pub(super) struct Merged {
    entries: Vec<Option<ManifestEntry>>,
    /// Where the add of a file stands.
    adds: HashMap<FileId, usize>,
}

type FileId = (Vec<u8>, i32, i32, String);

impl Merged {
    pub(super) fn push(&mut self, entry: ManifestEntry) {
        let id = (
            entry.partition.clone(),
            entry.bucket,
            entry.file.level,
            entry.file.file_name.clone(),
        );
        match entry.kind {
            FileKind::Add => {
                self.adds.insert(id, self.entries.len());
                self.entries.push(Some(entry));
            }
            FileKind::Delete => match self.adds.remove(&id) {
                Some(at) => {
                    if let Some(add) = self.entries.get_mut(at) {
                        *add = None;
                    }
                }
                None => self.entries.push(Some(entry)),
            },
        }
    }

    /// What stays; without deletes when `whole`, since then no add of theirs is elsewhere.
    pub(super) fn finish(self, whole: bool) -> Vec<ManifestEntry> {
        self.entries
            .into_iter()
            .flatten()
            .filter(|entry| !whole || entry.kind == FileKind::Add)
            .collect()
    }
}

/// A base list and the manifests that were written for it.
pub(super) struct Base {
    pub(super) manifests: Vec<ManifestFileMeta>,
    pub(super) written: Vec<String>,
}

/// Merges what the plan says.
pub(super) async fn merge(
    table: &Table,
    manifests: &[ManifestFileMeta],
    names: &mut Names,
    schema_id: i64,
) -> Result<Base> {
    let thresholds = Thresholds::of(table.schema());
    let mut base = Base {
        manifests: Vec::new(),
        written: Vec::new(),
    };
    for step in plan(manifests, thresholds) {
        match step {
            Step::Keep(at) => base.manifests.extend(manifests.get(at).cloned()),
            Step::Merge(range) => {
                let whole = range.start == 0;
                let mut merged = Merged::default();
                table
                    .for_each_manifest(manifests.get(range).unwrap_or_default(), |entries| {
                        entries.into_iter().for_each(|entry| merged.push(entry));
                    })
                    .await?;
                let metas = table
                    .write_manifests(
                        names,
                        &Arc::new(merged.finish(whole)),
                        usize::try_from(thresholds.target_size).unwrap_or(usize::MAX),
                        schema_id,
                    )
                    .await?;
                base.written
                    .extend(metas.iter().map(|meta| meta.file_name.clone()));
                base.manifests.extend(metas);
            }
        }
    }
    Ok(base)
}

#[cfg(test)]
mod tests;
