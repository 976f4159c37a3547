//! What becomes of the rows of one key: the merge engines.
//!
//! Whoever merges (the sort buffer, a compaction, a reader) brings rows in order, whole groups at a
//! time; a merge function makes one row, or none, of each group, column by column. Where rows come
//! from and how they are ordered is not decided here.

use crate::{data_file::KeyValueBatch, error::Result};

/// Rows of one key each, one group behind the other.
///
/// Rows stand in the order of their key; those of one key from the oldest to the newest: by
/// `sequence.field` if the table has one, then by sequence number, then by place in the manifest.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    /// The rows.
    pub(crate) rows: &'a KeyValueBatch,
    /// Where each group ends (exclusive), ascending; the last is the number of rows.
    pub(crate) ends: &'a [usize],
}

/// Makes one row of the rows of a key.
pub(crate) trait MergeFunction: Send + Sync + std::fmt::Debug {
    /// One row a group at most, in order, deletes included: whether a delete may be dropped is the
    /// caller's to decide. Second: for each row that comes out, the number of its group.
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)>;

    /// True when the last row of a group is all that counts and comes out as it is: then callers
    /// may pick it without gathering the others.
    fn takes_the_last(&self) -> bool {
        false
    }
}
