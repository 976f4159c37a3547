//! Reads a snapshot back as a reader of the table would see it, or the changes from one snapshot
//! to the next.
//!
//! [`Table::read`](crate::Table::read) says which columns and rows; it gives splits (a bucket of a partition each), and
//! a stream of Arrow batches for each. A bucket's files are cut into sections that share no keys. A
//! file that stands alone is streamed as it is; in the others the sorted runs are merged, and what
//! becomes of the rows of a key is the table's merge engine's to say.
//!
//! | table | what is read |
//! |---|---|
//! | primary key | all levels, merged |
//! | `first-row`, deletion vectors | files above level 0, each for itself, less what vectors delete |
//! | no primary key | all files, one after the other |
//! | `bucket` = -2 | only what was moved to a real bucket |
//!
//! Option `record-level.expire-time` does nothing here: the format drops such rows in compactions.
//!
//! Source: `org.apache.paimon.operation.MergeFileSplitRead`, `RawFileSplitRead`,
//! `IntervalPartition`.

mod bind;
mod bucket;
pub(crate) mod cast;
mod changes;
mod deletions;
mod file;
mod key_groups;
mod layout;
mod merge;
mod pages;
mod parquet_file;
mod picked;
mod plan;
mod predicate;
mod prune;
mod request;
pub(crate) mod row_groups;
mod run;
mod run_queue;
mod section;
mod seek;
mod slices;
mod spill;

pub use self::{
    bucket::BatchStream,
    changes::{ChangeBatch, TableChanges},
    deletions::DeletionFile,
    plan::Split,
    predicate::Predicate,
    request::TableRead,
};
#[allow(unused_imports, reason = "lookup is about to use them")]
pub(crate) use self::{
    file::{FileOpener, FileStream, KIND, SEQUENCE, Wanted},
    key_groups::KeyGroups,
    merge::SortedMerge,
    run::RowSource,
    section::{OrderedFile, Section, SortedRun, sections},
    seek::matching_rows,
    spill::{Inputs, Spill, SpillShape, SpillWriter},
};

#[cfg(test)]
mod tests;
