//! Reads a snapshot back: buckets, merged on read, as a reader of the table would see them.
//!
//! A bucket's files are cut into sections that share no keys. A section of one file is streamed as
//! it is; in the others the sorted runs are merged and each key keeps the row with the highest
//! sequence number. For tables with merge engine `deduplicate` and Parquet files.
//!
//! Source: `org.apache.paimon.operation.MergeFileSplitRead`, `IntervalPartition`.

mod bind;
mod bucket;
pub(crate) mod cast;
mod file;
mod merge;
mod run;
mod section;

use std::collections::HashMap;

use crate::{
    data_file_meta::DataFileMeta,
    error::{Error, Result},
    snapshot::PaimonSnapshot,
    table::Table,
};

pub use self::bucket::BatchStream;
#[expect(unused_imports, reason = "compaction is about to use them")]
pub(crate) use self::{
    file::{FileOpener, FileStream, KIND, SEQUENCE, Wanted},
    merge::{KeyGroups, Merged, SortedMerge},
    run::RowSource,
    section::{OrderedFile, Section, SortedRun, sections},
};

/// The files of a snapshot in one bucket.
#[derive(Debug, Clone)]
pub struct Split {
    /// Partition, a serialized BinaryRow (with the arity prefix).
    pub partition: Vec<u8>,
    /// Bucket.
    pub bucket: i32,
    /// Files, in the order in which they were added.
    pub files: Vec<DataFileMeta>,
}

impl Table {
    /// What is to be read for a snapshot, by partition and bucket.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables that need more than keeping the newest row of a key.
    pub async fn scan(&self, snapshot: &PaimonSnapshot) -> Result<Vec<Split>> {
        self.check_readable(snapshot)?;
        let mut splits: Vec<Split> = Vec::new();
        let mut at: HashMap<(Vec<u8>, i32), usize> = HashMap::new();
        for file in self.live_files(snapshot).await? {
            let index = *at
                .entry((file.partition.clone(), file.bucket))
                .or_insert(splits.len());
            if index == splits.len() {
                splits.push(Split {
                    partition: file.partition,
                    bucket: file.bucket,
                    files: Vec::new(),
                });
            }
            if let Some(split) = splits.get_mut(index) {
                split.files.push(file.meta);
            }
        }
        splits.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
        Ok(splits)
    }

    fn check_readable(&self, snapshot: &PaimonSnapshot) -> Result<()> {
        let schema = self.schema();
        let option = |name: &str| schema.options.get(name).map(String::as_str);
        let reason = if schema.primary_keys.is_empty() {
            "has no primary key"
        } else if option("merge-engine").is_some_and(|engine| engine != "deduplicate") {
            "has a merge engine other than deduplicate"
        } else if option("sequence.field").is_some() {
            "has a sequence field"
        } else if option("deletion-vectors.enabled") == Some("true")
            && snapshot.index_manifest.is_some()
        {
            "has deletion vectors"
        } else if schema.buckets() == -2 {
            "has postponed buckets"
        } else {
            return Ok(());
        };
        Err(Error::Unsupported(format!(
            "reading table {}, which {reason}",
            self.name()
        )))
    }
}

#[cfg(test)]
mod tests;
