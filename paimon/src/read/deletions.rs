//! Deletion vectors of a snapshot: where they stand, and which rows of a file they leave.
//!
//! Source: `DeletionVectorsIndexFile`, `DeletionVector`, `DeletionFile`, `IndexFileHandler`.

use std::{collections::HashMap, ops::Range};

use arrow_array::Int64Array;
use object_store::ObjectStoreExt;

use crate::{
    error::{Error, Result},
    index::DeletionVector,
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
    pub(crate) async fn find_deletions(&self, manifest: &str, splits: &mut [Split]) -> Result<()> {
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

    /// The vector that stands in a place; reads no more than that.
    pub(super) async fn deleted_rows(&self, file: &DeletionFile) -> Result<DeletionVector> {
        let path = self.index_path(&file.index_file);
        let damaged = |message: String| Error::Corrupt {
            path: path.to_string(),
            message: format!("deletion vector at byte {}: {message}", file.offset),
        };
        let (Ok(offset), Ok(length)) = (u64::try_from(file.offset), u64::try_from(file.length))
        else {
            return Err(damaged(format!("a length of {} bytes", file.length)));
        };
        // The size in front and the checksum behind are part of the length or not.
        let range = offset..offset + length + FRAME_BYTES;
        let bytes = self.store().get_range(&path, range).await;
        let bytes = bytes.map_err(|error| Error::store("cannot read", &path, error))?;
        let vector = DeletionVector::decode(&bytes, file.length).map_err(damaged)?;
        match file.cardinality {
            Some(count) if u64::try_from(count) != Ok(vector.cardinality()) => {
                Err(damaged(format!(
                    "it deletes {} rows, and the index manifest says {count}",
                    vector.cardinality()
                )))
            }
            _ => Ok(vector),
        }
    }
}

/// Bytes of the size in front of a vector and of the checksum behind it.
const FRAME_BYTES: u64 = 8;

/// The rows of a file that are left: those of `groups` (ascending) that a vector does not delete.
/// Takes a few bytes for each that is deleted.
pub(super) fn left(groups: &[Range<u64>], deleted: Option<&DeletionVector>) -> Vec<Range<usize>> {
    let mut left: Vec<Range<usize>> = Vec::with_capacity(groups.len());
    let mut push = |range: Range<u64>| {
        if !range.is_empty() {
            left.push(range.start as usize..range.end as usize);
        }
    };
    let mut deleted = deleted
        .into_iter()
        .flat_map(|vector| vector.positions())
        .peekable();
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
    left
}

/// Positions of the rows that are left, handed out in pieces.
#[derive(Debug)]
pub(super) struct Positions {
    left: std::vec::IntoIter<Range<usize>>,
    open: Range<usize>,
}

impl Positions {
    pub(super) fn new(left: Vec<Range<usize>>) -> Self {
        Self {
            left: left.into_iter(),
            open: 0..0,
        }
    }

    /// The next ones; fewer when there are no more.
    pub(super) fn take(&mut self, count: usize) -> Int64Array {
        let mut positions = Vec::with_capacity(count);
        while positions.len() < count {
            let end = self
                .open
                .end
                .min(self.open.start + (count - positions.len()));
            positions.extend((self.open.start..end).map(|row| row as i64));
            self.open.start = end;
            if self.open.is_empty() {
                match self.left.next() {
                    Some(next) => self.open = next,
                    None => break,
                }
            }
        }
        positions.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::deletion_vector::Width;

    #[test]
    fn what_is_deleted_or_in_no_group_is_left_out() {
        let rows = |groups: &[(u64, u64)], deleted: &[u64]| {
            let groups: Vec<_> = groups.iter().map(|(start, end)| *start..*end).collect();
            let mut vector = DeletionVector::new(Width::Bits32);
            for row in deleted {
                vector.insert(*row).unwrap();
            }
            let left = left(&groups, Some(&vector));
            let rows: Vec<usize> = left.iter().cloned().flatten().collect();
            for piece in [1, 2, 3, 100] {
                let mut positions = Positions::new(left.clone());
                let mut taken = Vec::new();
                loop {
                    let piece = positions.take(piece);
                    if piece.is_empty() {
                        break;
                    }
                    taken.extend(piece.values().iter().map(|row| *row as usize));
                }
                assert_eq!(taken, rows);
            }
            rows
        };
        assert_eq!(rows(&[(0, 10)], &[]), (0..10).collect::<Vec<_>>());
        assert_eq!(rows(&[(0, 4), (8, 10)], &[0, 1, 3, 5, 9]), [2, 8]);
        assert_eq!(rows(&[(4, 8)], &[0, 1, 3]), [4, 5, 6, 7]);
        assert_eq!(rows(&[(0, 2)], &[0, 1]), [0usize; 0]);
    }
}
