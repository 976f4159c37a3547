//! Manifest lists: which manifests make up a snapshot.
//!
//! Source: `org.apache.paimon.manifest.ManifestFileMeta` and `ManifestList`.

use std::sync::LazyLock;

use apache_avro::Schema;
use serde::{Deserialize, Serialize};

use crate::{
    avro::{self, AvroFile, Record},
    data_file_meta::SimpleStats,
    error::{Error, Result},
    manifest::{StatsRecord, VERSION},
};

/// A manifest, as a manifest list names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFileMeta {
    /// Name within the folder `manifest`.
    pub file_name: String,
    /// Bytes.
    pub file_size: i64,
    /// Entries that add a file.
    pub num_added_files: i64,
    /// Entries that delete a file.
    pub num_deleted_files: i64,
    /// Minimum, maximum and null counts of the partition columns over all entries.
    pub partition_stats: SimpleStats,
    /// Schema of the table when the manifest was written.
    pub schema_id: i64,
    /// Smallest bucket in it; older writers leave it out, as with all that follow.
    pub min_bucket: Option<i32>,
    /// Greatest bucket in it.
    pub max_bucket: Option<i32>,
    /// Smallest level in it.
    pub min_level: Option<i32>,
    /// Greatest level in it.
    pub max_level: Option<i32>,
    /// Smallest row id, for tables with row tracking.
    pub min_row_id: Option<i64>,
    /// Greatest row id, for tables with row tracking.
    pub max_row_id: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "record")]
struct MetaRecord {
    #[serde(rename = "_VERSION", default)]
    version: i32,
    #[serde(rename = "_FILE_NAME")]
    file_name: String,
    #[serde(rename = "_FILE_SIZE")]
    file_size: i64,
    #[serde(rename = "_NUM_ADDED_FILES")]
    num_added_files: i64,
    #[serde(rename = "_NUM_DELETED_FILES")]
    num_deleted_files: i64,
    #[serde(rename = "_PARTITION_STATS")]
    partition_stats: Record<StatsRecord>,
    #[serde(rename = "_SCHEMA_ID")]
    schema_id: i64,
    #[serde(rename = "_MIN_BUCKET", default)]
    min_bucket: Option<i32>,
    #[serde(rename = "_MAX_BUCKET", default)]
    max_bucket: Option<i32>,
    #[serde(rename = "_MIN_LEVEL", default)]
    min_level: Option<i32>,
    #[serde(rename = "_MAX_LEVEL", default)]
    max_level: Option<i32>,
    #[serde(rename = "_MIN_ROW_ID", default)]
    min_row_id: Option<i64>,
    #[serde(rename = "_MAX_ROW_ID", default)]
    max_row_id: Option<i64>,
}

/// Encodes a manifest list, also an empty one.
pub(crate) fn encode(manifests: &[ManifestFileMeta]) -> Result<Vec<u8>> {
    let schema = SCHEMA
        .as_ref()
        .map_err(|error| Error::Internal(error.clone()))?;
    let mut file = AvroFile::new(schema)?;
    for meta in manifests {
        file.append(MetaRecord {
            version: VERSION,
            file_name: meta.file_name.clone(),
            file_size: meta.file_size,
            num_added_files: meta.num_added_files,
            num_deleted_files: meta.num_deleted_files,
            partition_stats: meta.partition_stats.clone().into(),
            schema_id: meta.schema_id,
            min_bucket: meta.min_bucket,
            max_bucket: meta.max_bucket,
            min_level: meta.min_level,
            max_level: meta.max_level,
            min_row_id: meta.min_row_id,
            max_row_id: meta.max_row_id,
        })?;
    }
    file.finish()
}

/// Decodes a manifest list; `path` is for errors.
pub(crate) fn decode(path: &str, bytes: &[u8]) -> Result<Vec<ManifestFileMeta>> {
    Ok(avro::decode::<MetaRecord>(path, bytes)?
        .into_iter()
        .map(|record| ManifestFileMeta {
            file_name: record.file_name,
            file_size: record.file_size,
            num_added_files: record.num_added_files,
            num_deleted_files: record.num_deleted_files,
            partition_stats: record.partition_stats.into(),
            schema_id: record.schema_id,
            min_bucket: record.min_bucket,
            max_bucket: record.max_bucket,
            min_level: record.min_level,
            max_level: record.max_level,
            min_row_id: record.min_row_id,
            max_row_id: record.max_row_id,
        })
        .collect())
}

static SCHEMA: LazyLock<Result<Schema, String>> =
    LazyLock::new(|| avro::schema(SCHEMA_TEXT).map_err(|error| error.to_string()));

const SCHEMA_TEXT: &str = r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":[
{"name":"_VERSION","type":"int"},
{"name":"_FILE_NAME","type":"string"},
{"name":"_FILE_SIZE","type":"long"},
{"name":"_NUM_ADDED_FILES","type":"long"},
{"name":"_NUM_DELETED_FILES","type":"long"},
{"name":"_PARTITION_STATS","type":{"type":"record","name":"record__PARTITION_STATS","fields":[
{"name":"_MIN_VALUES","type":"bytes"},
{"name":"_MAX_VALUES","type":"bytes"},
{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},
{"name":"_SCHEMA_ID","type":"long"},
{"name":"_MIN_BUCKET","type":["null","int"],"default":null},
{"name":"_MAX_BUCKET","type":["null","int"],"default":null},
{"name":"_MIN_LEVEL","type":["null","int"],"default":null},
{"name":"_MAX_LEVEL","type":["null","int"],"default":null},
{"name":"_MIN_ROW_ID","type":["null","long"],"default":null},
{"name":"_MAX_ROW_ID","type":["null","long"],"default":null}]}"#;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn meta() -> ManifestFileMeta {
        ManifestFileMeta {
            file_name: "manifest-x-0".into(),
            file_size: 7,
            num_added_files: 2,
            num_deleted_files: 1,
            partition_stats: SimpleStats {
                min_values: vec![0; 12],
                max_values: vec![0; 12],
                null_counts: vec![],
            },
            schema_id: 3,
            min_bucket: Some(0),
            max_bucket: Some(4),
            min_level: Some(0),
            max_level: Some(5),
            min_row_id: None,
            max_row_id: None,
        }
    }

    #[test]
    fn lists_read_back_what_they_write() {
        let meta = meta();
        let bytes = encode(std::slice::from_ref(&meta)).unwrap();
        assert_eq!(decode("x", &bytes).unwrap(), vec![meta]);
        assert_eq!(decode("x", &encode(&[]).unwrap()).unwrap(), vec![]);
        assert!(decode("x", &bytes[..bytes.len() / 2]).is_err());
        assert!(decode("x", b"").is_err());
    }
}
