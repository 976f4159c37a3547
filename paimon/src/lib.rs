//! Apache Paimon tables: the format and its LSM engine, on Arrow, Parquet and `object_store`.
//!
//! Rows go in as Arrow batches with a kind and a sequence number each; they are sorted and written
//! as data files that nobody sees yet; a commit makes them visible at once. Compactions keep a
//! table quick to read, expiry keeps it small, and rows come out as Arrow batches again, merged on
//! read or as they change. Nothing here knows where rows come from. Tables are those of Java
//! Paimon, which reads, writes and compacts them in turns with this crate.
//!
//! # What can be done
//!
//! | to | begin with | example |
//! |---|---|---|
//! | open a warehouse, list, make and find tables | [`Catalog`], [`Schema::create`] | `write_table` |
//! | write changes of a table with a primary key | [`WriteBuffer`] | `write_table` |
//! | load rows that come in the order of the key | [`BulkWriter`] | `write_table` |
//! | append rows to a table without a key | [`AppendWriter`] | `append_table` |
//! | make files visible, exactly once | [`Table::commit`], [`CommitRequest`] | all of them |
//! | replace or remove rows as a whole | [`Table::overwrite`], [`Table::truncate`], [`Table::drop_partitions`] | `rescale_table` |
//! | read, with a filter, as it is or was | [`Table::read`], [`Predicate`], [`Table::snapshot_at`] | `read_table` |
//! | follow the changes | [`Table::stream`], [`TableChanges`] | `read_table` |
//! | compact | [`compact::Compactor`] | `compact_table` |
//! | change the schema | [`Table::alter`], [`SchemaChange`] | `alter_table` |
//! | give a table another number of buckets | [`Table::rescale`] | `rescale_table` |
//! | let buckets grow with the keys | [`DynamicBucketAssigner`] | `dynamic_buckets` |
//! | expire, tag, go back, clean up, check | [`Retention`], [`Table::create_tag`], [`Table::rollback_to_tag`], [`Table::clean_orphans`], [`Table::check`] | `maintain` |
//! | know what an option of a table does here | [`table_options::Treatment`], [`TableOptions`] | |
//!
//! The examples need nothing: `cargo run --example write_table`. All merge engines, changelog
//! producers and bucket modes of the format are read; what is refused is refused by name
//! ([`Error::Unsupported`]), before anything is written. Data files are written as Parquet; those
//! that others wrote as Parquet or Avro are read.
//!
//! # A table, from its making to its rows
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//!
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use futures::TryStreamExt;
//! use headwater_paimon::{
//!     Catalog, CommitRequest, DataField, DataType, Schema, WriteBuffer, WriteSettings,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let schema = Schema::create(
//!     vec![
//!         DataField::new("id", DataType::BigInt),
//!         DataField::new("name", DataType::String),
//!     ],
//!     vec!["id".into()],
//!     vec![],
//!     BTreeMap::from([("bucket".into(), "1".into())]),
//!     None,
//! )?;
//! let catalog = Catalog::local(folder.path())?;
//! let table = catalog.create_table("shop", "articles", schema).await?;
//!
//! let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
//! let names: ArrayRef = Arc::new(StringArray::from(vec!["pear", "plum"]));
//! let rows = RecordBatch::try_from_iter([("id", ids), ("name", names)])?;
//! let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
//! buffer.write(&rows, None, 0)?;
//! let request = CommitRequest::new("me", 1, buffer.flush().await?);
//! table.commit(&request).await?;
//!
//! let batches: Vec<RecordBatch> = table.read().all(1).await?.try_collect().await?;
//! assert_eq!(batches[0].num_rows(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//!
//! Those of the format: a commit makes a *snapshot*; a *bucket* is an LSM tree of *sorted runs* on
//! *levels*, level 0 being the newest; a *commit user* and its *identifier* name a commit, so that
//! one that is tried again takes place once; *sequence numbers* order the rows of a key.
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
#[doc(hidden)]
pub mod data_file;
pub mod data_file_meta;
pub mod data_type;
mod default_value;
pub mod error;
#[cfg(test)]
mod fixture;
#[doc(hidden)]
pub mod fuzz;
pub mod index;
pub mod index_manifest;
mod key_order;
pub mod maintain;
#[doc(hidden)]
pub mod manifest;
#[doc(hidden)]
pub mod manifest_list;
mod merge;
mod partition;
mod placement;
pub mod read;
pub mod rescale;
mod row_numbers;
pub mod schema;
pub mod snapshot;
#[doc(hidden)]
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
