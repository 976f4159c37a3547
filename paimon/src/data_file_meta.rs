//! What manifests say about a data file, and what a writer hands to a commit.
//!
//! Source: `org.apache.paimon.io.DataFileMeta` and `org.apache.paimon.stats.SimpleStats`.

use serde::{Deserialize, Serialize};

use crate::index_manifest::IndexFileMeta;

/// Minimum and maximum of columns in a file, as serialized BinaryRows (with the arity prefix), and
/// how many nulls each has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimpleStats {
    /// One field a column; null where it is not known.
    #[serde(rename = "_MIN_VALUES", with = "hex_bytes")]
    pub min_values: Vec<u8>,
    /// One field a column; null where it is not known.
    #[serde(rename = "_MAX_VALUES", with = "hex_bytes")]
    pub max_values: Vec<u8>,
    /// One count a column.
    #[serde(rename = "_NULL_COUNTS")]
    pub null_counts: Vec<Option<i64>>,
}

/// A data file. Sequence numbers, counts and sizes are inclusive and in rows or bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFileMeta {
    /// Name within its bucket's folder.
    #[serde(rename = "_FILE_NAME")]
    pub file_name: String,
    /// Bytes.
    #[serde(rename = "_FILE_SIZE")]
    pub file_size: i64,
    /// Rows, deletes and superseded versions included.
    #[serde(rename = "_ROW_COUNT")]
    pub row_count: i64,
    /// Smallest key, a serialized BinaryRow (with the arity prefix).
    #[serde(rename = "_MIN_KEY", with = "hex_bytes")]
    pub min_key: Vec<u8>,
    /// Greatest key, a serialized BinaryRow (with the arity prefix).
    #[serde(rename = "_MAX_KEY", with = "hex_bytes")]
    pub max_key: Vec<u8>,
    /// Statistics of the key columns, whole.
    #[serde(rename = "_KEY_STATS")]
    pub key_stats: SimpleStats,
    /// Statistics of the value columns, text cut.
    #[serde(rename = "_VALUE_STATS")]
    pub value_stats: SimpleStats,
    /// Smallest sequence number.
    #[serde(rename = "_MIN_SEQUENCE_NUMBER")]
    pub min_sequence_number: i64,
    /// Greatest sequence number.
    #[serde(rename = "_MAX_SEQUENCE_NUMBER")]
    pub max_sequence_number: i64,
    /// Schema the file was written with.
    #[serde(rename = "_SCHEMA_ID")]
    pub schema_id: i64,
    /// Level in the LSM tree; 0 holds overlapping sorted runs.
    #[serde(rename = "_LEVEL")]
    pub level: i32,
    /// Changelog and index files that belong to it.
    #[serde(rename = "_EXTRA_FILES")]
    pub extra_files: Vec<String>,
    /// The writer's local wall clock as if it were UTC, milliseconds since the epoch.
    #[serde(rename = "_CREATION_TIME")]
    pub creation_time_ms: Option<i64>,
    /// Rows that are deletes (or before images): decides about raw reads, so it must be right.
    #[serde(rename = "_DELETE_ROW_COUNT")]
    pub delete_row_count: Option<i64>,
    /// Embedded file index.
    #[serde(rename = "_EMBEDDED_FILE_INDEX", with = "hex_bytes_option")]
    pub embedded_index: Option<Vec<u8>>,
    /// 0: written by an append; 1: by a compaction.
    #[serde(rename = "_FILE_SOURCE")]
    pub file_source: Option<i32>,
    /// Columns that the value statistics cover; `None`: all.
    #[serde(rename = "_VALUE_STATS_COLS")]
    pub value_stats_cols: Option<Vec<String>>,
    /// Where the file stands when not in its bucket's folder.
    #[serde(rename = "_EXTERNAL_PATH")]
    pub external_path: Option<String>,
    /// First row id, for tables with row tracking.
    #[serde(rename = "_FIRST_ROW_ID")]
    pub first_row_id: Option<i64>,
    /// Columns the file holds when not all.
    #[serde(rename = "_WRITE_COLS")]
    pub write_cols: Option<Vec<String>>,
}

/// What one writer changes in one bucket. Serializable, so that a checkpoint record can hold it
/// between the flush and the commit. The order of messages and files is the order in the manifest.
///
/// Source: `org.apache.paimon.table.sink.CommitMessageImpl`, `DataIncrement`, `CompactIncrement`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitMessage {
    /// Partition, a serialized BinaryRow (with the arity prefix); 12 zero bytes for none.
    #[serde(with = "hex_bytes")]
    pub partition: Vec<u8>,
    /// Bucket.
    pub bucket: i32,
    /// Buckets of the table when the files were written.
    pub total_buckets: i32,
    /// New files.
    pub new_files: Vec<DataFileMeta>,
    /// Files that the APPEND snapshot takes away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_files: Vec<DataFileMeta>,
    /// Changelog files of the APPEND snapshot (changelog producer `input`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changelog_files: Vec<DataFileMeta>,
    /// Index files that the APPEND snapshot adds: hashes of dynamic buckets, deletion vectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_index_files: Vec<IndexFileMeta>,
    /// Index files that the APPEND snapshot takes away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_index_files: Vec<IndexFileMeta>,
    /// Bucket and name of every file of hashes that the partition had when the rows of this commit
    /// were given their buckets. Where others stand there now, another writer may have put a key
    /// into another bucket, and the APPEND is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_index_files: Option<Vec<(i32, String)>>,
    /// What a compaction did, for the COMPACT snapshot behind the APPEND.
    #[serde(default, skip_serializing_if = "CompactIncrement::is_empty")]
    pub compact: CompactIncrement,
}

/// What a compaction replaced in one bucket. A file that only changes level stands in both lists,
/// with its old and its new level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactIncrement {
    /// Files taken away.
    pub before: Vec<DataFileMeta>,
    /// Files in their place.
    pub after: Vec<DataFileMeta>,
    /// Changelog files (changelog producers `lookup` and `full-compaction`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changelog_files: Vec<DataFileMeta>,
    /// Index files added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_index_files: Vec<IndexFileMeta>,
    /// Index files taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_index_files: Vec<IndexFileMeta>,
}

impl CompactIncrement {
    /// Nothing was replaced.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
            && self.after.is_empty()
            && self.changelog_files.is_empty()
            && self.new_index_files.is_empty()
            && self.deleted_index_files.is_empty()
    }
}

/// Bytes as hexadecimal text, for records that people read.
mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::hex(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::unhex(&text).ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

mod hex_bytes_option {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_some(&super::hex(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            Some(text) => super::unhex(&text)
                .map(Some)
                .ok_or_else(|| D::Error::custom("not hexadecimal")),
            None => Ok(None),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}
