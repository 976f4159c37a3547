//! Index files of a snapshot: hashes of dynamic buckets and deletion vectors.
//!
//! Source: `org.apache.paimon.index.IndexFileMeta`, `org.apache.paimon.manifest.IndexManifestEntry`.

use serde::{Deserialize, Serialize};

use crate::manifest::FileKind;

/// An index file of one bucket. It stands in the table's folder `index`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFileMeta {
    /// `HASH`, `DELETION_VECTORS`, or what later versions of the format know.
    pub index_type: String,
    /// Name.
    pub file_name: String,
    /// Bytes.
    pub file_size: i64,
    /// Hashes, or data files that have a vector.
    pub row_count: i64,
    /// Where the deletion vector of each data file stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dv_ranges: Option<Vec<DeletionVectorRange>>,
    /// Where the file stands when not in the folder `index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_path: Option<String>,
}

/// Where a data file's deletion vector stands in an index file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionVectorRange {
    /// The data file.
    pub data_file_name: String,
    /// Where its size prefix stands, bytes from the start of the file.
    pub offset: i32,
    /// Bytes of magic and bitmap, without the size and the checksum.
    pub length: i32,
    /// Rows that it deletes.
    pub cardinality: Option<i64>,
}

/// One line of an index manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexManifestEntry {
    /// Added or deleted; what is deleted is normally just left out.
    pub kind: FileKind,
    /// Partition, a serialized BinaryRow (with the arity prefix).
    pub partition: Vec<u8>,
    /// Bucket.
    pub bucket: i32,
    /// The file.
    pub index_file: IndexFileMeta,
}
