//! The deletion vectors of a bucket, through a compaction: those of files that are gone go, rows
//! that were replaced are deleted, and what there is in the end is written anew.
//!
//! Source: `BucketedDvMaintainer`, `AppendDeleteFileMaintainer`.

use std::{collections::HashMap, sync::Arc};

use crate::{
    data_file_meta::CompactIncrement,
    error::Result,
    index::deletion_vector::DeletionVectors,
    index_manifest::{DELETION_VECTORS_INDEX, IndexFileMeta, IndexManifestEntry},
    table::Table,
};

/// Vectors of one bucket.
#[derive(Debug)]
pub(crate) struct BucketVectors {
    /// Files that they were read from.
    files: Vec<IndexFileMeta>,
    before: Arc<DeletionVectors>,
    now: DeletionVectors,
    is_changed: bool,
}

impl BucketVectors {
    /// Reads all vectors of these files. They stay in memory, compressed.
    pub(crate) async fn read(table: &Table, files: &[IndexFileMeta]) -> Result<Self> {
        let mut vectors = DeletionVectors::new();
        for file in files {
            vectors.extend(table.read_deletion_vectors(file).await?);
        }
        Ok(Self {
            files: files.to_vec(),
            now: vectors.clone(),
            before: Arc::new(vectors),
            is_changed: false,
        })
    }

    /// What they were in the beginning.
    pub(crate) fn before(&self) -> Arc<DeletionVectors> {
        self.before.clone()
    }

    /// A data file is gone.
    pub(crate) fn forget(&mut self, file: &str) {
        self.is_changed |= self.now.remove(file).is_some();
    }

    /// Deletes rows, by file.
    ///
    /// # Errors
    /// Those of [`DeletionVector::merge`](crate::index::DeletionVector::merge).
    pub(crate) fn delete(&mut self, rows: DeletionVectors) -> Result<()> {
        for (file, rows) in rows {
            if rows.is_empty() {
                continue;
            }
            self.is_changed = true;
            match self.now.get_mut(&file) {
                Some(vector) => vector.merge(&rows)?,
                None => {
                    self.now.insert(file, rows);
                }
            }
        }
        Ok(())
    }

    /// Writes what has changed, as new files in the place of the old ones.
    pub(crate) async fn write(&mut self, table: &Table, done: &mut CompactIncrement) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let vectors = std::mem::take(&mut self.now);
        done.new_index_files = table.write_deletion_vectors(vectors).await?;
        done.deleted_index_files = std::mem::take(&mut self.files);
        Ok(())
    }
}

/// Files of deletion vectors among the index files of a table, of one bucket.
pub(crate) fn of_bucket(
    index: &[IndexManifestEntry],
    partition: &[u8],
    bucket: i32,
) -> Vec<IndexFileMeta> {
    index
        .iter()
        .filter(|entry| {
            entry.bucket == bucket
                && entry.partition == partition
                && entry.index_file.index_type == DELETION_VECTORS_INDEX
        })
        .map(|entry| entry.index_file.clone())
        .collect()
}

/// Data files that have a vector, with the rows that it deletes, if that is known.
pub(crate) fn deleted_rows(index: &[IndexFileMeta]) -> HashMap<&str, Option<i64>> {
    let ranges = index
        .iter()
        .flat_map(|file| file.dv_ranges.iter().flatten());
    ranges
        .map(|range| (range.data_file_name.as_str(), range.cardinality))
        .collect()
}
