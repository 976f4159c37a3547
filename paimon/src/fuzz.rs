//! Ways in for the fuzz targets: the readers of files that other programs may have written.

use crate::{DataType, PaimonSnapshot, Schema, binary_row, manifest, manifest_list};

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
