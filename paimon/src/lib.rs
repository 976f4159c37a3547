//! Apache Paimon tables: the format and its LSM engine, on Arrow, Parquet and `object_store`.
//!
//! Rows go in as Arrow batches with a kind and a sequence number each; they are sorted and written
//! as data files that nobody sees yet ([`WriteBuffer`], [`BulkWriter`], [`AppendWriter`]); a commit
//! makes them visible at once ([`TableCommitter`]). Compactions keep a table quick to read
//! ([`compact`]), expiry keeps it small ([`maintain`]), and rows come out as Arrow batches again,
//! merged on read ([`Table::read`]) or as they change ([`Table::stream`]). Nothing here knows where
//! rows come from.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod alter;
pub mod append;
mod avro;
pub mod binary_row;
pub mod bucket;
pub mod bulk;
pub mod catalog;
pub mod commit;
pub mod compact;
#[cfg(test)]
mod damage;
pub mod data_file;
pub mod data_file_meta;
pub mod data_type;
pub mod error;
#[cfg(test)]
mod fixture;
#[doc(hidden)]
pub mod fuzz;
pub mod index;
pub mod index_manifest;
pub mod maintain;
pub mod manifest;
pub mod manifest_list;
mod merge;
mod partition;
mod placement;
pub mod read;
pub mod rescale;
pub mod schema;
pub mod snapshot;
pub mod stats;
mod storage;
pub mod table;
pub mod table_options;
pub mod write_buffer;

pub use alter::{ColumnPlace, SchemaChange};
pub use append::AppendWriter;
pub use bulk::BulkWriter;
pub use catalog::{Catalog, Location, StoreOption, StoreOptions};
pub use commit::{
    CommitOutcome, CommitRequest, CompactOutcome, Expect, LiveFile, Scope, SortedRuns,
    TableCommitter,
};
pub use data_file_meta::{CommitMessage, CompactIncrement, DataFileMeta, SimpleStats};
pub use data_type::{DataField, DataType, Element};
pub use error::{Error, Result};
pub use index::{DeletionVector, DynamicBucketAssigner, IndexMemory, SharedBuckets};
pub use index_manifest::IndexFileMeta;
pub use maintain::{
    AutoTagger, CheckReport, CheckRequest, Expired, OrphanRequest, Orphans, PartitionExpiry,
    Retention, SnapshotRef, Tag, TagRequest,
};
pub use read::{ChangeBatch, Predicate, Split, TableChanges, TableRead};
pub use rescale::Rescaled;
pub use schema::Schema;
pub use snapshot::{CommitKind, PaimonSnapshot};
pub use table::Table;
pub use table_options::TableOptions;
pub use write_buffer::{WriteBuffer, WriteSettings};
