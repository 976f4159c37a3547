//! Deletion vectors of a snapshot: where they stand, and which rows of a file they leave.
//!
//! Source: `DeletionVectorsIndexFile`, `DeletionFile`, `IndexFileHandler`.

use std::{collections::HashMap, ops::Range};

use parquet::arrow::arrow_reader::RowSelection;

use crate::{
    error::{Error, Result},
    index_manifest::{self, DELETION_VECTORS_INDEX},
    storage,
    table::Table,
};

use super::plan::Split;

/// Where the deletion vector of a data file stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionFile {
    /// Name of the file in the table's folder `index`.
    pub index_file: String,
    /// Where the vector begins in it, bytes.
    pub offset: i32,
    /// How long it is, bytes.
    pub length: i32,
    /// How many rows it deletes, if that is known.
    pub cardinality: Option<i64>,
}

impl Table {
    /// Fills in where the vectors of the splits' files stand.
    pub(super) async fn find_deletions(&self, manifest: &str, splits: &mut [Split]) -> Result<()> {
        if splits.is_empty() {
            return Ok(());
        }
        let path = self.path().clone().join("manifest").join(manifest);
        let bytes = storage::read(self.store().as_ref(), &path).await?;
        let entries = index_manifest::decode(path.as_ref(), &bytes)?;
        let mut at: HashMap<(&[u8], i32), Vec<_>> = HashMap::new();
        for entry in &entries {
            if entry.index_file.index_type == DELETION_VECTORS_INDEX {
                let place = (entry.partition.as_slice(), entry.bucket);
                at.entry(place).or_default().push(&entry.index_file);
            }
        }
        for split in splits {
            let place = (split.partition.as_slice(), split.bucket);
            for index in at.get(&place).into_iter().flatten() {
                if let Some(path) = &index.external_path {
                    return Err(Error::Unsupported(format!(
                        "deletion vectors outside of the table's folder: {path}"
                    )));
                }
                for range in index.dv_ranges.iter().flatten() {
                    let file = DeletionFile {
                        index_file: index.file_name.clone(),
                        offset: range.offset,
                        length: range.length,
                        cardinality: range.cardinality,
                    };
                    split.deletions.insert(range.data_file_name.clone(), file);
                }
            }
        }
        Ok(())
    }

    /// The positions that a vector deletes, ascending.
    pub(super) async fn deleted_rows(&self, file: &DeletionFile) -> Result<Vec<u64>> {
        Err(Error::Unsupported(format!(
            "reading the deletion vectors of {}",
            file.index_file
        )))
    }
}

/// The rows of a file that are left: those of `groups` (ascending) that are not `deleted`
/// (ascending).
pub(super) fn selection(groups: &[Range<u64>], deleted: &[u64], rows: u64) -> RowSelection {
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut push = |range: Range<u64>| {
        if !range.is_empty() {
            kept.push(range.start as usize..range.end as usize);
        }
    };
    let mut deleted = deleted.iter().copied().peekable();
    for group in groups {
        let mut start = group.start;
        while let Some(row) = deleted.next_if(|row| *row < group.end) {
            if row >= start {
                push(start..row);
                start = row + 1;
            }
        }
        push(start..group.end);
    }
    RowSelection::from_consecutive_ranges(kept.into_iter(), rows as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deleted_or_in_no_group_is_left_out() {
        let rows = |groups: &[Range<u64>], deleted: &[u64]| {
            let mut at = 0;
            let mut rows = Vec::new();
            for selector in selection(groups, deleted, 10).iter() {
                if !selector.skip {
                    rows.extend(at..at + selector.row_count);
                }
                at += selector.row_count;
            }
            rows
        };
        assert_eq!(rows(&[0..10], &[]), (0..10).collect::<Vec<_>>());
        assert_eq!(rows(&[0..4, 8..10], &[0, 1, 3, 5, 9]), [2, 8]);
        assert_eq!(rows(&[4..8], &[0, 1, 3]), [4, 5, 6, 7]);
        assert_eq!(rows(&[0..2], &[0, 1]), [0usize; 0]);
    }
}
