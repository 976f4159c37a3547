//! Foreign bytes in place of the table's metadata: an error or other values, never a panic.
//!
//! Runs for about a second with a new seed each time; `HEADWATER_DAMAGE_SEED` gives one again.

use rand::{SeedableRng, rngs::StdRng};

use crate::{
    DataType, PaimonSnapshot, Schema,
    binary_row::{self, Value},
    catalog, commit, manifest, manifest_list,
};

#[path = "../tests/support/mutation.rs"]
mod mutation;

use mutation::damaged;

const ROUNDS: usize = 3000;

/// Feeds damaged versions of `good` to a reader; says the seed when it panics.
fn survive(what: &str, good: &[u8], mut read: impl FnMut(&[u8])) {
    let given = std::env::var("HEADWATER_DAMAGE_SEED").ok();
    let seed = given.map_or_else(rand::random, |seed| seed.parse().unwrap());
    println!("{what}: HEADWATER_DAMAGE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    read(good);
    for _ in 0..ROUNDS {
        read(&damaged(&mut rng, good));
    }
}

#[test]
fn damaged_manifests_do_no_harm() {
    let entries: Vec<_> = (0..4)
        .map(|level| manifest::tests::entry("data-x.parquet", manifest::FileKind::Add, level))
        .collect();
    let good = manifest::encode(&entries, 1 << 20).unwrap().remove(0).bytes;
    let mut refused = 0;
    survive("manifest", &good, |bytes| {
        refused += usize::from(manifest::decode("x", bytes).is_err());
    });
    assert!(refused > ROUNDS / 2, "{refused}");
}

#[test]
fn damaged_manifest_lists_do_no_harm() {
    let metas: Vec<_> = (0..4).map(|_| manifest_list::tests::meta()).collect();
    let good = manifest_list::encode(&metas).unwrap();
    let mut refused = 0;
    survive("manifest list", &good, |bytes| {
        refused += usize::from(manifest_list::decode("x", bytes).is_err());
    });
    assert!(refused > ROUNDS / 2, "{refused}");
}

#[test]
fn damaged_snapshots_and_schemas_do_no_harm() {
    let schema = commit::tests::schema(&[("bucket-key", "id")]);
    let good = serde_json::to_vec_pretty(&schema).unwrap();
    survive("schema", &good, |bytes| {
        let Ok(schema) = serde_json::from_slice::<Schema>(bytes) else {
            return;
        };
        // What is done with a schema before anything else is.
        let _ = (schema.buckets(), schema.unsupported_options());
        let _ = (schema.arrow(), schema.trimmed_primary_keys());
    });
    let good = crate::snapshot::tests::JAVA.as_bytes();
    survive("snapshot", good, |bytes| {
        let _ = serde_json::from_slice::<PaimonSnapshot>(bytes);
    });
}

#[test]
fn damaged_rows_do_no_harm() {
    let types = [
        DataType::Int,
        DataType::String,
        DataType::Decimal(38, 2),
        DataType::Timestamp(6),
        DataType::Bytes,
        DataType::Double,
    ];
    let row: [Value<&[u8]>; 6] = [
        Value::Int(-1),
        Value::Bytes(b"longer than seven"),
        Value::Decimal(i128::MIN),
        Value::Timestamp {
            millis: -1,
            nanos: 999_999,
        },
        Value::Bytes(b"short"),
        Value::Null,
    ];
    let good = binary_row::encode(&row, &types).unwrap();
    survive("row", &good, |bytes| {
        let _ = binary_row::decode(bytes, &types);
        let _ = binary_row::compare_keys(&types, bytes, &good);
        // A damaged partition that can be read names a folder or is refused.
        for data_type in [DataType::Timestamp(9), DataType::Time(3), DataType::Date] {
            let _ = catalog::tests::partitioned(data_type).bucket_path(bytes, 0);
        }
    });
}
