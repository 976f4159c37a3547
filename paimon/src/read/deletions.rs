//! Deletion vectors of a snapshot: where they stand, and which rows of a file they leave.
//!
//! Source: `DeletionVectorsIndexFile`, `DeletionVector`, `DeletionFile`, `IndexFileHandler`.

use std::{collections::HashMap, ops::Range};

use object_store::ObjectStoreExt;
use parquet::arrow::arrow_reader::RowSelection;
use roaring::{RoaringBitmap, RoaringTreemap};

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
        let path = self.path().clone().join("index").join(&*file.index_file);
        let damaged = |message: String| Error::Corrupt {
            path: path.to_string(),
            message: format!("deletion vector at byte {}: {message}", file.offset),
        };
        let (Ok(offset), Ok(length)) = (u64::try_from(file.offset), u64::try_from(file.length))
        else {
            return Err(damaged(format!("a length of {} bytes", file.length)));
        };
        // Behind it stands a checksum; the size in front of it is part of the length or not.
        let range = offset..offset + length + SIZE_BYTES as u64;
        let bytes = self.store().get_range(&path, range).await;
        let bytes = bytes.map_err(|error| Error::store("cannot read", &path, error))?;
        let rows = positions(&bytes).map_err(damaged)?;
        match file.cardinality {
            Some(count) if usize::try_from(count) != Ok(rows.len()) => Err(damaged(format!(
                "it deletes {} rows, and the index manifest says {count}",
                rows.len()
            ))),
            _ => Ok(rows),
        }
    }
}

/// Bytes of the size in front of a vector.
const SIZE_BYTES: usize = 4;
/// Bytes of the number that says what kind of vector it is.
const MAGIC_BYTES: usize = 4;
/// 32-bit vectors, big endian.
const MAGIC_32: u32 = 1_581_511_376;
/// 64-bit vectors, little endian.
const MAGIC_64: u32 = 1_681_511_377;

/// The positions of a vector, from its size on; the error says what is wrong.
fn positions(bytes: &[u8]) -> Result<Vec<u64>, String> {
    let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    let (Some(size), Some(magic)) = (word(0), word(SIZE_BYTES)) else {
        return Err("it is cut off".into());
    };
    let end = usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX);
    let end = end.saturating_add(SIZE_BYTES);
    let bitmap = bytes.get(SIZE_BYTES + MAGIC_BYTES..end);
    let bitmap = bitmap.ok_or("it is cut off")?;
    if u32::from_be_bytes(*magic) == MAGIC_32 {
        let rows = RoaringBitmap::deserialize_from(bitmap).map_err(|error| error.to_string())?;
        Ok(rows.iter().map(u64::from).collect())
    } else if u32::from_le_bytes(*magic) == MAGIC_64 {
        let rows = RoaringTreemap::deserialize_from(bitmap).map_err(|error| error.to_string())?;
        Ok(rows.iter().collect())
    } else {
        Err(format!("of an unknown kind: {magic:?}"))
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
    fn damaged_vectors_are_errors() {
        let mut bitmap = Vec::new();
        RoaringBitmap::from_iter([1, 5, 70_000])
            .serialize_into(&mut bitmap)
            .unwrap();
        let mut vector = (bitmap.len() as u32 + 4).to_be_bytes().to_vec();
        vector.extend(MAGIC_32.to_be_bytes());
        vector.extend(bitmap);
        assert_eq!(positions(&vector).unwrap(), [1, 5, 70_000]);
        for cut in 0..vector.len() {
            assert!(positions(&vector[..cut]).is_err(), "cut at {cut}");
        }
        vector[4] ^= 1;
        assert!(positions(&vector).unwrap_err().contains("unknown kind"));
    }

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
