//! Index manifests: which index files (deletion vectors, hashes of dynamic buckets) belong to a
//! snapshot. One file holds all of them, and a commit that changes any writes a new one.
//!
//! Source: `org.apache.paimon.manifest.IndexManifestEntry`, `org.apache.paimon.index.IndexFileMeta`
//! and `DeletionVectorMeta`; record names as in the files of Java 1.4.2.

use std::sync::LazyLock;

use apache_avro::Schema;
use serde::{Deserialize, Serialize};

use crate::{
    avro::{self, AvroFile, Record},
    error::{Error, Result},
    manifest::FileKind,
};

/// Version of the records in index manifests.
const VERSION: i32 = 1;

/// [`IndexFileMeta::index_type`] of a file of hashes of keys, for dynamic buckets.
pub const HASH_INDEX: &str = "HASH";
/// [`IndexFileMeta::index_type`] of a file of deletion vectors.
pub const DELETION_VECTORS_INDEX: &str = "DELETION_VECTORS";

/// An index file of one bucket. It stands in the table's folder `index`, or beside the data files
/// with option `index-file-in-data-file-dir`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFileMeta {
    /// [`HASH_INDEX`], [`DELETION_VECTORS_INDEX`], or what later versions of the format know.
    pub index_type: String,
    /// Name.
    pub file_name: String,
    /// Bytes.
    pub file_size: i64,
    /// Hashes, or data files that have a vector.
    pub row_count: i64,
    /// Where the deletion vector of each data file stands, in the order of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dv_ranges: Option<Vec<DeletionVectorRange>>,
    /// Where the file stands when elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_path: Option<String>,
}

/// Where a data file's deletion vector stands in an index file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionVectorRange {
    /// The data file.
    pub data_file_name: String,
    /// Where its size prefix stands, bytes from the start of the file; 1 for the first.
    pub offset: i32,
    /// Bytes: of a 32-bit vector magic number and bitmap, without size and checksum; of a 64-bit
    /// one all.
    pub length: i32,
    /// Rows that it deletes; older writers leave it out.
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

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename = "record__DELETIONS_VECTORS_RANGES")]
struct RangeRecord {
    #[serde(rename = "f0")]
    data_file_name: String,
    #[serde(rename = "f1")]
    offset: i32,
    #[serde(rename = "f2")]
    length: i32,
    #[serde(rename = "_CARDINALITY", default)]
    cardinality: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename = "record")]
struct EntryRecord {
    #[serde(rename = "_VERSION", default)]
    version: i32,
    #[serde(rename = "_KIND")]
    kind: i32,
    #[serde(rename = "_PARTITION", with = "apache_avro::serde::bytes")]
    partition: Vec<u8>,
    #[serde(rename = "_BUCKET")]
    bucket: i32,
    #[serde(rename = "_INDEX_TYPE")]
    index_type: String,
    #[serde(rename = "_FILE_NAME")]
    file_name: String,
    #[serde(rename = "_FILE_SIZE")]
    file_size: i64,
    #[serde(rename = "_ROW_COUNT")]
    row_count: i64,
    #[serde(rename = "_DELETIONS_VECTORS_RANGES", default)]
    dv_ranges: Option<Vec<Option<Record<RangeRecord>>>>,
    #[serde(rename = "_EXTERNAL_PATH", default)]
    external_path: Option<String>,
    /// Only tables with row tracking have it, which this crate does not write.
    #[serde(rename = "_GLOBAL_INDEX", default, skip_deserializing)]
    global_index: Option<()>,
}

impl From<&IndexManifestEntry> for EntryRecord {
    fn from(entry: &IndexManifestEntry) -> Self {
        let file = &entry.index_file;
        let range = |range: &DeletionVectorRange| {
            Some(Record(RangeRecord {
                data_file_name: range.data_file_name.clone(),
                offset: range.offset,
                length: range.length,
                cardinality: range.cardinality,
            }))
        };
        Self {
            version: VERSION,
            kind: match entry.kind {
                FileKind::Add => 0,
                FileKind::Delete => 1,
            },
            partition: entry.partition.clone(),
            bucket: entry.bucket,
            index_type: file.index_type.clone(),
            file_name: file.file_name.clone(),
            file_size: file.file_size,
            row_count: file.row_count,
            dv_ranges: file
                .dv_ranges
                .as_ref()
                .map(|ranges| ranges.iter().map(range).collect()),
            external_path: file.external_path.clone(),
            global_index: None,
        }
    }
}

impl EntryRecord {
    fn into_entry(self, path: &str) -> Result<IndexManifestEntry> {
        let damaged = |message: String| Error::Corrupt {
            path: path.to_owned(),
            message,
        };
        if self.version != VERSION {
            return Err(damaged(format!(
                "index manifest of version {}, this program knows {VERSION}",
                self.version
            )));
        }
        let kind = FileKind::from_number(path, self.kind)?;
        let range = |Record(range): Record<RangeRecord>| DeletionVectorRange {
            data_file_name: range.data_file_name,
            offset: range.offset,
            length: range.length,
            cardinality: range.cardinality,
        };
        Ok(IndexManifestEntry {
            kind,
            partition: self.partition,
            bucket: self.bucket,
            index_file: IndexFileMeta {
                index_type: self.index_type,
                file_name: self.file_name,
                file_size: self.file_size,
                row_count: self.row_count,
                dv_ranges: self
                    .dv_ranges
                    .map(|ranges| ranges.into_iter().flatten().map(range).collect()),
                external_path: self.external_path,
            },
        })
    }
}

/// Encodes an index manifest.
pub(crate) fn encode(entries: &[IndexManifestEntry]) -> Result<Vec<u8>> {
    let schema = SCHEMA
        .as_ref()
        .map_err(|error| Error::Internal(error.clone()))?;
    let mut file = AvroFile::new(schema)?;
    for entry in entries {
        file.append(EntryRecord::from(entry))?;
    }
    file.finish()
}

/// Decodes an index manifest; `path` is for errors.
pub(crate) fn decode(path: &str, bytes: &[u8]) -> Result<Vec<IndexManifestEntry>> {
    avro::decode::<EntryRecord>(path, bytes)?
        .into_iter()
        .map(|record| record.into_entry(path))
        .collect()
}

static SCHEMA: LazyLock<Result<Schema, String>> =
    LazyLock::new(|| avro::schema(SCHEMA_TEXT).map_err(|error| error.to_string()));

const SCHEMA_TEXT: &str = r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":[
{"name":"_VERSION","type":"int"},
{"name":"_KIND","type":"int"},
{"name":"_PARTITION","type":"bytes"},
{"name":"_BUCKET","type":"int"},
{"name":"_INDEX_TYPE","type":"string"},
{"name":"_FILE_NAME","type":"string"},
{"name":"_FILE_SIZE","type":"long"},
{"name":"_ROW_COUNT","type":"long"},
{"name":"_DELETIONS_VECTORS_RANGES","type":["null",{"type":"array","items":["null",{"type":"record","name":"record__DELETIONS_VECTORS_RANGES","fields":[
{"name":"f0","type":"string"},
{"name":"f1","type":"int"},
{"name":"f2","type":"int"},
{"name":"_CARDINALITY","type":["null","long"],"default":null}]}]}],"default":null},
{"name":"_EXTERNAL_PATH","type":["null","string"],"default":null},
{"name":"_GLOBAL_INDEX","type":["null",{"type":"record","name":"record__GLOBAL_INDEX","fields":[
{"name":"_ROW_RANGE_START","type":"long"},
{"name":"_ROW_RANGE_END","type":"long"},
{"name":"_INDEX_FIELD_ID","type":"int"},
{"name":"_EXTRA_FIELD_IDS","type":["null",{"type":"array","items":"int"}],"default":null},
{"name":"_INDEX_META","type":["null","bytes"],"default":null}]}],"default":null}]}"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<IndexManifestEntry> {
        let file = |index_type: &str| IndexFileMeta {
            index_type: index_type.into(),
            file_name: format!("index-{index_type}"),
            file_size: 30,
            row_count: 2,
            dv_ranges: None,
            external_path: None,
        };
        let range = |name: &str, offset, cardinality| DeletionVectorRange {
            data_file_name: name.into(),
            offset,
            length: 22,
            cardinality,
        };
        let mut vectors = file(DELETION_VECTORS_INDEX);
        vectors.dv_ranges = Some(vec![range("a", 1, Some(1)), range("b", 31, None)]);
        let mut global = file("btree");
        global.external_path = Some("s3://x/y".into());
        [
            (FileKind::Add, file(HASH_INDEX)),
            (FileKind::Add, vectors),
            (FileKind::Delete, global),
        ]
        .into_iter()
        .map(|(kind, index_file)| IndexManifestEntry {
            kind,
            partition: vec![0; 12],
            bucket: 3,
            index_file,
        })
        .collect()
    }

    #[test]
    fn index_manifests_read_back_what_they_write() {
        let bytes = encode(&entries()).unwrap();
        assert_eq!(decode("x", &bytes).unwrap(), entries());
        assert_eq!(decode("x", &encode(&[]).unwrap()).unwrap(), vec![]);
        for cut in [0, 3, 100, bytes.len() / 2, bytes.len() - 20] {
            assert!(decode("x", &bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    fn java(name: &str) -> Vec<IndexManifestEntry> {
        let path = format!("{}/tests/data/index/{name}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(&path).unwrap();
        let entries = decode(&path, &bytes).unwrap();
        // Ours has the schema of theirs, so that every reader of theirs reads it.
        let schema = |bytes: &[u8]| {
            apache_avro::Reader::new(bytes)
                .unwrap()
                .writer_schema()
                .clone()
        };
        let ours = encode(&entries).unwrap();
        assert_eq!(schema(&ours), schema(&bytes));
        assert_eq!(decode("x", &ours).unwrap(), entries);
        entries
    }

    #[test]
    fn what_java_wrote_is_read() {
        // A 32-bit vector has its size and its checksum beside the length, a 64-bit one in it.
        for (name, beside) in [("dv32", 8), ("dv64", 0)] {
            let entries = java(name);
            assert_eq!(entries.len(), 1, "{name}");
            let file = &entries[0].index_file;
            assert_eq!(file.index_type, DELETION_VECTORS_INDEX);
            let ranges = file.dv_ranges.as_ref().unwrap();
            assert_eq!(ranges.len() as i64, file.row_count);
            assert_eq!(ranges[0].offset, 1);
            assert!(ranges[0].cardinality.unwrap() > 0);
            let bytes: i64 = ranges
                .iter()
                .map(|range| i64::from(range.length) + beside)
                .sum();
            assert_eq!(file.file_size, 1 + bytes);
        }
        let entries = java("dynamic");
        assert!(entries.iter().any(|entry| entry.bucket > 0));
        for entry in entries {
            assert_eq!(entry.kind, FileKind::Add);
            assert_eq!(entry.index_file.index_type, HASH_INDEX);
            assert_eq!(entry.index_file.file_size, entry.index_file.row_count * 4);
            assert_eq!(entry.index_file.dv_ranges, None);
        }
    }
}
