//! Ways in for the fuzz targets: the readers of files that other programs may have written.

use std::sync::Arc;

use futures::{TryStreamExt, executor::block_on};
use object_store::{memory::InMemory, path::Path};

use crate::{
    DataFileMeta, DataType, DeletionVector, PaimonSnapshot, Result, Retention, Schema, SimpleStats,
    Table, binary_row,
    index::hash,
    manifest, manifest_list,
    read::{FileOpener, KIND, SEQUENCE, Wanted},
    storage,
};

/// A manifest, and a manifest list.
pub fn manifests(bytes: &[u8]) {
    let _ = manifest::decode("fuzz", bytes);
    let _ = manifest_list::decode("fuzz", bytes);
}

/// A snapshot, and a schema.
pub fn json(bytes: &[u8]) {
    let _ = serde_json::from_slice::<PaimonSnapshot>(bytes);
    if let Ok(schema) = serde_json::from_slice::<Schema>(bytes) {
        let _ = (schema.arrow(), schema.unsupported_options());
    }
}

/// A row of some types.
pub fn row(bytes: &[u8]) {
    let types = [
        DataType::Int,
        DataType::String,
        DataType::Decimal(38, 2),
        DataType::Timestamp(6),
        DataType::Bytes,
        DataType::Double,
    ];
    if let Ok(values) = binary_row::decode(bytes, &types) {
        // What was read can be written and is the same then.
        let written = binary_row::encode(&values, &types);
        debug_assert!(written.is_ok_and(|bytes| binary_row::decode(&bytes, &types).is_ok()));
    }
}

/// An index manifest.
pub fn index_manifest(bytes: &[u8]) {
    let _ = crate::index_manifest::decode("fuzz", bytes);
}

/// A vector of an index file, and the bitmap of one whose size and checksum are right.
pub fn deletion_vector(bytes: &[u8]) {
    let mut framed = (bytes.len() as u32).to_be_bytes().to_vec();
    framed.extend(bytes);
    framed.extend(crc32fast::hash(bytes).to_be_bytes());
    for vector in [bytes, &framed] {
        let size = vector
            .first_chunk()
            .map_or(0, |size| i32::from_be_bytes(*size));
        // The length of a 64-bit vector is with its frame.
        for length in [size, size.saturating_add(8)] {
            if let Ok(vector) = DeletionVector::decode(vector, length) {
                let _ = (vector.cardinality(), vector.is_deleted(7));
                let _ = (vector.live(0, 1000), vector.live(1 << 40, 1000));
            }
        }
    }
}

/// A hash index.
pub fn hash_index(bytes: &[u8]) {
    if let Ok(hashes) = hash::decode(bytes) {
        let _ = hashes.count();
    }
}

/// A tag, consumer, changelog, or snapshot of a branch.
pub fn records(bytes: &[u8]) {
    let schema = Arc::new(Schema::empty());
    for name in [
        "tag/tag-t",
        "consumer/consumer-c",
        "changelog/changelog-1",
        "branch/branch-b/snapshot/snapshot-1",
    ] {
        let store = Arc::new(InMemory::new());
        let table = Table::new("fuzz.t", store, Path::from("fuzz.db/t"), schema.clone());
        let _: Result<()> = block_on(async {
            let path = Path::from(format!("fuzz.db/t/{name}"));
            storage::put(table.store().as_ref(), &path, bytes.to_vec()).await?;
            let _ = (table.tags().await, table.branches().await);
            let _ = table.expire_snapshots(&Retention::of(&schema)?).await;
            let _ = table.stream(Some(1))?.next().await;
            Ok(())
        });
    }
}

/// Rows that are read of a file at most: a few bytes may stand for any number of them.
const ROWS_MAX: i64 = 1 << 20;

/// A data file of this name, which says its format, in a table of this schema.
pub fn data_file(schema: &str, name: &str, bytes: &[u8]) {
    let Ok(schema) = serde_json::from_str::<Schema>(schema) else {
        return;
    };
    let store = Arc::new(InMemory::new());
    let table = Table::new("fuzz.t", store, Path::from("fuzz.db/t"), Arc::new(schema));
    let _ = block_on(read_file(&table, name, bytes));
}

async fn read_file(table: &Table, name: &str, bytes: &[u8]) -> Result<()> {
    let meta = file_meta(table, name, bytes.len() as i64);
    let partition = vec![0; 12];
    let path = table.file_path(&partition, 0, &meta)?;
    storage::put(table.store().as_ref(), &path, bytes.to_vec()).await?;
    let opener = FileOpener::new(table.clone(), partition, 0);
    let fields = &table.schema().fields;
    let first = fields.iter().take(1).cloned().collect();
    for wanted in [
        Wanted::new(fields.clone(), &[SEQUENCE, KIND]),
        Wanted::new(first, &[]),
    ] {
        let mut batches = opener.open(&meta, &wanted, 1024).await?;
        let mut rows = 0;
        while rows < ROWS_MAX
            && let Some(batch) = batches.try_next().await?
        {
            rows += batch.num_rows() as i64;
        }
    }
    Ok(())
}

fn file_meta(table: &Table, name: &str, size: i64) -> DataFileMeta {
    DataFileMeta {
        file_name: name.into(),
        file_size: size,
        row_count: ROWS_MAX,
        min_key: Vec::new(),
        max_key: Vec::new(),
        key_stats: SimpleStats::default(),
        value_stats: SimpleStats::default(),
        min_sequence_number: 0,
        max_sequence_number: 0,
        schema_id: table.schema().id,
        level: 0,
        extra_files: Vec::new(),
        creation_time_ms: None,
        delete_row_count: None,
        embedded_index: None,
        file_source: None,
        value_stats_cols: None,
        external_path: None,
        first_row_id: None,
        write_cols: None,
    }
}
