//! Manifests: which data files are added to and deleted from the table.
//!
//! Source: `org.apache.paimon.manifest.ManifestEntry` and `ManifestFile`; record names, order of
//! fields and defaults as in the files of Java 1.4.2.

use std::sync::LazyLock;

use apache_avro::Schema;
use serde::{Deserialize, Serialize};

use crate::{
    avro::{self, AvroFile, Record},
    data_file_meta::{DataFileMeta, SimpleStats},
    error::{Error, Result},
};

/// Version of the records in manifests and manifest lists.
pub(crate) const VERSION: i32 = 2;

/// What a manifest entry says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// The file belongs to the table from now on.
    Add,
    /// The file does not belong to the table any more.
    Delete,
}

impl FileKind {
    /// From its number in a manifest or index manifest; `path` is for errors.
    pub(crate) fn from_number(path: &str, number: i32) -> Result<Self> {
        match number {
            0 => Ok(Self::Add),
            1 => Ok(Self::Delete),
            other => Err(Error::Corrupt {
                path: path.to_owned(),
                message: format!("entry of kind {other}"),
            }),
        }
    }
}

/// One line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Added or deleted.
    pub kind: FileKind,
    /// Partition, a serialized BinaryRow (with the arity prefix).
    pub partition: Vec<u8>,
    /// Bucket.
    pub bucket: i32,
    /// Buckets of the partition when the file was written; -1 and -2 for dynamic and postponed.
    pub total_buckets: i32,
    /// The file.
    pub file: DataFileMeta,
}

/// The record of a file's statistics; also the partition statistics in manifest lists.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatsRecord {
    #[serde(rename = "_MIN_VALUES", with = "apache_avro::serde::bytes")]
    min_values: Vec<u8>,
    #[serde(rename = "_MAX_VALUES", with = "apache_avro::serde::bytes")]
    max_values: Vec<u8>,
    #[serde(rename = "_NULL_COUNTS", default)]
    null_counts: Option<Vec<Option<i64>>>,
}

impl From<SimpleStats> for Record<StatsRecord> {
    fn from(stats: SimpleStats) -> Self {
        Self(StatsRecord {
            min_values: stats.min_values,
            max_values: stats.max_values,
            null_counts: Some(stats.null_counts),
        })
    }
}

impl From<Record<StatsRecord>> for SimpleStats {
    fn from(Record(record): Record<StatsRecord>) -> Self {
        Self {
            min_values: record.min_values,
            max_values: record.max_values,
            null_counts: record.null_counts.unwrap_or_default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "record__FILE")]
struct FileRecord {
    #[serde(rename = "_FILE_NAME")]
    file_name: String,
    #[serde(rename = "_FILE_SIZE")]
    file_size: i64,
    #[serde(rename = "_ROW_COUNT")]
    row_count: i64,
    #[serde(rename = "_MIN_KEY", with = "apache_avro::serde::bytes")]
    min_key: Vec<u8>,
    #[serde(rename = "_MAX_KEY", with = "apache_avro::serde::bytes")]
    max_key: Vec<u8>,
    #[serde(rename = "_KEY_STATS")]
    key_stats: Record<StatsRecord>,
    #[serde(rename = "_VALUE_STATS")]
    value_stats: Record<StatsRecord>,
    #[serde(rename = "_MIN_SEQUENCE_NUMBER")]
    min_sequence_number: i64,
    #[serde(rename = "_MAX_SEQUENCE_NUMBER")]
    max_sequence_number: i64,
    #[serde(rename = "_SCHEMA_ID")]
    schema_id: i64,
    #[serde(rename = "_LEVEL")]
    level: i32,
    #[serde(rename = "_EXTRA_FILES", default)]
    extra_files: Vec<String>,
    #[serde(rename = "_CREATION_TIME", default)]
    creation_time: Option<i64>,
    #[serde(rename = "_DELETE_ROW_COUNT", default)]
    delete_row_count: Option<i64>,
    #[serde(
        rename = "_EMBEDDED_FILE_INDEX",
        with = "apache_avro::serde::bytes_opt",
        default
    )]
    embedded_index: Option<Vec<u8>>,
    #[serde(rename = "_FILE_SOURCE", default)]
    file_source: Option<i32>,
    #[serde(rename = "_VALUE_STATS_COLS", default)]
    value_stats_cols: Option<Vec<String>>,
    #[serde(rename = "_EXTERNAL_PATH", default)]
    external_path: Option<String>,
    #[serde(rename = "_FIRST_ROW_ID", default)]
    first_row_id: Option<i64>,
    #[serde(rename = "_WRITE_COLS", default)]
    write_cols: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
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
    #[serde(rename = "_TOTAL_BUCKETS")]
    total_buckets: i32,
    #[serde(rename = "_FILE")]
    file: Record<FileRecord>,
}

impl From<DataFileMeta> for FileRecord {
    fn from(file: DataFileMeta) -> Self {
        Self {
            file_name: file.file_name,
            file_size: file.file_size,
            row_count: file.row_count,
            min_key: file.min_key,
            max_key: file.max_key,
            key_stats: file.key_stats.into(),
            value_stats: file.value_stats.into(),
            min_sequence_number: file.min_sequence_number,
            max_sequence_number: file.max_sequence_number,
            schema_id: file.schema_id,
            level: file.level,
            extra_files: file.extra_files,
            creation_time: file.creation_time_ms,
            delete_row_count: file.delete_row_count,
            embedded_index: file.embedded_index,
            file_source: file.file_source,
            value_stats_cols: file.value_stats_cols,
            external_path: file.external_path,
            first_row_id: file.first_row_id,
            write_cols: file.write_cols,
        }
    }
}

impl From<FileRecord> for DataFileMeta {
    fn from(record: FileRecord) -> Self {
        Self {
            file_name: record.file_name,
            file_size: record.file_size,
            row_count: record.row_count,
            min_key: record.min_key,
            max_key: record.max_key,
            key_stats: record.key_stats.into(),
            value_stats: record.value_stats.into(),
            min_sequence_number: record.min_sequence_number,
            max_sequence_number: record.max_sequence_number,
            schema_id: record.schema_id,
            level: record.level,
            extra_files: record.extra_files,
            creation_time_ms: record.creation_time,
            delete_row_count: record.delete_row_count,
            embedded_index: record.embedded_index,
            file_source: record.file_source,
            value_stats_cols: record.value_stats_cols,
            external_path: record.external_path,
            first_row_id: record.first_row_id,
            write_cols: record.write_cols,
        }
    }
}

/// One encoded manifest and how many of the entries it holds.
pub(crate) struct EncodedManifest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: usize,
}

/// Encodes entries as manifests, in order; a new one begins when `target_size` bytes are reached.
pub(crate) fn encode(
    entries: &[ManifestEntry],
    target_size: usize,
) -> Result<Vec<EncodedManifest>> {
    let schema = SCHEMA
        .as_ref()
        .map_err(|error| Error::Internal(error.clone()))?;
    let mut manifests = Vec::new();
    let mut open: Option<(AvroFile<'_>, usize)> = None;
    for entry in entries {
        let (file, count) = match &mut open {
            Some(open) => open,
            None => open.insert((AvroFile::new(schema)?, 0)),
        };
        file.append(EntryRecord {
            version: VERSION,
            kind: match entry.kind {
                FileKind::Add => 0,
                FileKind::Delete => 1,
            },
            partition: entry.partition.clone(),
            bucket: entry.bucket,
            total_buckets: entry.total_buckets,
            file: Record(entry.file.clone().into()),
        })?;
        *count += 1;
        if file.size() >= target_size {
            close(&mut open, &mut manifests)?;
        }
    }
    close(&mut open, &mut manifests)?;
    Ok(manifests)
}

fn close(
    open: &mut Option<(AvroFile<'_>, usize)>,
    manifests: &mut Vec<EncodedManifest>,
) -> Result<()> {
    if let Some((file, entries)) = open.take() {
        manifests.push(EncodedManifest {
            bytes: file.finish()?,
            entries,
        });
    }
    Ok(())
}

/// Decodes a manifest; `path` is for errors.
pub(crate) fn decode(path: &str, bytes: &[u8]) -> Result<Vec<ManifestEntry>> {
    avro::decode::<EntryRecord>(path, bytes)?
        .into_iter()
        .map(|record| {
            Ok(ManifestEntry {
                kind: FileKind::from_number(path, record.kind)?,
                partition: record.partition,
                bucket: record.bucket,
                total_buckets: record.total_buckets,
                file: record.file.0.into(),
            })
        })
        .collect()
}

static SCHEMA: LazyLock<Result<Schema, String>> =
    LazyLock::new(|| avro::schema(SCHEMA_TEXT).map_err(|error| error.to_string()));

const SCHEMA_TEXT: &str = r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":[
{"name":"_VERSION","type":"int"},
{"name":"_KIND","type":"int"},
{"name":"_PARTITION","type":"bytes"},
{"name":"_BUCKET","type":"int"},
{"name":"_TOTAL_BUCKETS","type":"int"},
{"name":"_FILE","type":{"type":"record","name":"record__FILE","fields":[
{"name":"_FILE_NAME","type":"string"},
{"name":"_FILE_SIZE","type":"long"},
{"name":"_ROW_COUNT","type":"long"},
{"name":"_MIN_KEY","type":"bytes"},
{"name":"_MAX_KEY","type":"bytes"},
{"name":"_KEY_STATS","type":{"type":"record","name":"record__FILE__KEY_STATS","fields":[
{"name":"_MIN_VALUES","type":"bytes"},
{"name":"_MAX_VALUES","type":"bytes"},
{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},
{"name":"_VALUE_STATS","type":{"type":"record","name":"record__FILE__VALUE_STATS","fields":[
{"name":"_MIN_VALUES","type":"bytes"},
{"name":"_MAX_VALUES","type":"bytes"},
{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},
{"name":"_MIN_SEQUENCE_NUMBER","type":"long"},
{"name":"_MAX_SEQUENCE_NUMBER","type":"long"},
{"name":"_SCHEMA_ID","type":"long"},
{"name":"_LEVEL","type":"int"},
{"name":"_EXTRA_FILES","type":{"type":"array","items":"string"}},
{"name":"_CREATION_TIME","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},
{"name":"_DELETE_ROW_COUNT","type":["null","long"],"default":null},
{"name":"_EMBEDDED_FILE_INDEX","type":["null","bytes"],"default":null},
{"name":"_FILE_SOURCE","type":["null","int"],"default":null},
{"name":"_VALUE_STATS_COLS","type":["null",{"type":"array","items":"string"}],"default":null},
{"name":"_EXTERNAL_PATH","type":["null","string"],"default":null},
{"name":"_FIRST_ROW_ID","type":["null","long"],"default":null},
{"name":"_WRITE_COLS","type":["null",{"type":"array","items":"string"}],"default":null}]}}]}"#;

#[cfg(test)]
pub(crate) mod tests;
