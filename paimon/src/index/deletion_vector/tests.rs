use proptest::prelude::*;

use super::*;
use crate::{fixture, index_manifest};

fn vector(width: Width, positions: &[u64]) -> DeletionVector {
    let mut vector = DeletionVector::new(width);
    for position in positions {
        vector.insert(*position).unwrap();
    }
    vector
}

fn round(vectors: &DeletionVectors, target: usize) -> (usize, DeletionVectors) {
    let files = encode_files(vectors, target).unwrap();
    let read = files
        .iter()
        .flat_map(|(bytes, ranges)| decode_file("x", bytes, ranges).unwrap())
        .collect();
    (files.len(), read)
}

#[test]
fn vectors_read_back_what_they_write() {
    for width in [Width::Bits32, Width::Bits64] {
        let all: Vec<u64> = (0..100_000).collect();
        let vectors = DeletionVectors::from([
            ("a".into(), vector(width, &[0, 5, 70_000, i32::MAX as u64])),
            ("b".into(), vector(width, &all)),
            ("c".into(), vector(width, &[])),
        ]);
        assert_eq!(round(&vectors, usize::MAX), (1, vectors.clone()));
        assert_eq!(round(&vectors, 1), (3, vectors.clone()));
        let (bytes, _) = &encode_files(&vectors, usize::MAX).unwrap()[0];
        assert!(bytes.len() < 300, "runs are runs: {}", bytes.len());
    }
    let wide = DeletionVectors::from([(
        "a".into(),
        vector(Width::Bits64, &[1, (5 << 32) + 3, i64::MAX as u64]),
    )]);
    assert_eq!(round(&wide, usize::MAX).1, wide);
    let mut narrow = DeletionVector::new(Width::Bits32);
    assert!(narrow.insert(1 << 31).is_err());
    assert!(narrow.merge(&wide["a"]).is_err());
}

#[test]
fn masks_say_which_rows_stay() {
    let narrow = vector(Width::Bits32, &[0, 3, 9]);
    let mask = narrow.live(2, 4);
    assert_eq!(
        mask.values().iter().collect::<Vec<_>>(),
        [true, false, true, true]
    );
    let high = (1u64 << 32) - 2;
    let wide = vector(Width::Bits64, &[high, high + 2, high + 5, 1]);
    let mask = wide.live(high - 1, 5);
    assert_eq!(
        mask.values().iter().collect::<Vec<_>>(),
        [true, false, true, false, true]
    );
    assert_eq!(wide.live(0, 0).len(), 0);
    assert_eq!(wide.live(u64::MAX - 1, 1).true_count(), 1);
    assert_eq!(
        wide.positions().collect::<Vec<_>>(),
        [1, high, high + 2, high + 5]
    );
}

/// Manifests and index files of Java's: read, and written again byte by byte.
#[test]
fn what_java_wrote_is_read_and_written_alike() {
    let folder = format!("{}/tests/data/index", env!("CARGO_MANIFEST_DIR"));
    for (name, width) in [("dv32", Width::Bits32), ("dv64", Width::Bits64)] {
        let manifest = std::fs::read(format!("{folder}/{name}")).unwrap();
        for entry in index_manifest::decode(name, &manifest).unwrap() {
            let file = entry.index_file;
            let path = format!("{folder}/files/{}", file.file_name);
            let bytes = std::fs::read(&path).unwrap();
            let ranges = file.dv_ranges.unwrap();
            let vectors = decode_file(&path, &bytes, &ranges).unwrap();
            assert_eq!(vectors.len() as i64, file.row_count);
            for range in &ranges {
                let vector = &vectors[&range.data_file_name];
                assert_eq!(vector.width(), width);
                assert_eq!(Some(vector.cardinality() as i64), range.cardinality);
                let mut ours = Vec::new();
                assert_eq!(vector.encode(&mut ours).unwrap(), range.length);
                let from = range.offset as usize;
                assert_eq!(ours, bytes[from..from + ours.len()]);
            }
        }
    }
}

proptest! {
    #[test]
    fn damaged_bytes_are_errors(
        at in 0usize..200,
        flip in 1u8..,
        cut in 0usize..200,
        wide in any::<bool>(),
    ) {
        let width = if wide { Width::Bits64 } else { Width::Bits32 };
        let positions: Vec<u64> = (0..40).map(|n| n * n * 70).collect();
        let vectors = DeletionVectors::from([("a".into(), vector(width, &positions))]);
        let (bytes, ranges) = encode_files(&vectors, usize::MAX).unwrap().remove(0);
        let mut damaged = bytes.clone();
        let at = at % bytes.len();
        damaged[at] ^= flip;
        prop_assert!(decode_file("x", &damaged, &ranges).is_err());
        let cut = cut % bytes.len();
        prop_assert!(decode_file("x", &bytes[..cut], &ranges).is_err());
        // With a checksum that fits: no panic, whatever is found.
        let end = bytes.len() - 4;
        let sum = crc32fast::hash(&damaged[5..end]).to_be_bytes();
        damaged[end..].copy_from_slice(&sum);
        let _ = decode_file("x", &damaged, &ranges);
    }
}

#[tokio::test]
async fn a_vector_is_read_alone() {
    let fixture = fixture::fixture(&fixture::INT_COLUMNS, &["id"], &[], &[]);
    let table = &fixture.table;
    for width in [Width::Bits32, Width::Bits64] {
        let vectors = DeletionVectors::from([
            ("a".into(), vector(width, &[1, 2])),
            ("b".into(), vector(width, &[3])),
            ("none".into(), vector(width, &[])),
        ]);
        let files = table.write_deletion_vectors(vectors.clone()).await.unwrap();
        assert_eq!((files.len(), files[0].row_count), (1, 2));
        for range in files[0].dv_ranges.as_ref().unwrap() {
            let alone = table.read_deletion_vector(&files[0], range).await.unwrap();
            assert_eq!(alone, vectors[&range.data_file_name]);
        }
        let all = table.read_deletion_vectors(&files[0]).await.unwrap();
        assert_eq!(all.len(), 2);
    }
    assert!(
        table
            .write_deletion_vectors(DeletionVectors::new())
            .await
            .unwrap()
            .is_empty()
    );
}
