use super::*;

pub(crate) fn entry(name: &str, kind: FileKind, level: i32) -> ManifestEntry {
    let stats = SimpleStats {
        min_values: vec![0; 12],
        max_values: vec![1; 12],
        null_counts: vec![Some(3), None],
    };
    ManifestEntry {
        kind,
        partition: vec![0; 12],
        bucket: 1,
        total_buckets: 2,
        file: DataFileMeta {
            file_name: name.into(),
            file_size: 1000,
            row_count: 10,
            min_key: vec![2; 20],
            max_key: vec![3; 20],
            key_stats: stats.clone(),
            value_stats: stats,
            min_sequence_number: 4,
            max_sequence_number: 13,
            schema_id: 0,
            level,
            extra_files: vec!["changelog-x".into()],
            creation_time_ms: Some(1_796_003_294_420),
            delete_row_count: Some(2),
            embedded_index: Some(vec![9]),
            file_source: Some(0),
            value_stats_cols: Some(vec![]),
            external_path: None,
            first_row_id: None,
            write_cols: None,
        },
    }
}

#[test]
fn manifests_read_back_what_they_write() {
    let entries = [
        entry("a", FileKind::Add, 0),
        entry("b", FileKind::Delete, 5),
    ];
    let manifests = encode(&entries, 1 << 20).unwrap();
    assert_eq!(manifests.len(), 1);
    assert_eq!(decode("x", &manifests[0].bytes).unwrap(), entries);
}

#[test]
fn manifests_close_at_their_size() {
    let entries: Vec<_> = (0..5000)
        .map(|n| entry(&format!("{}-{n}", uuid::Uuid::new_v4()), FileKind::Add, 0))
        .collect();
    let manifests = encode(&entries, 32 << 10).unwrap();
    assert!(manifests.len() > 2, "{}", manifests.len());
    let back: Vec<_> = manifests
        .iter()
        .flat_map(|manifest| decode("x", &manifest.bytes).unwrap())
        .collect();
    assert_eq!(back, entries);
}

#[test]
fn older_manifests_without_optional_columns_are_read() {
    const OLD: &str = r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":[
{"name":"_VERSION","type":"int"},{"name":"_KIND","type":"int"},{"name":"_PARTITION","type":"bytes"},
{"name":"_BUCKET","type":"int"},{"name":"_TOTAL_BUCKETS","type":"int"},
{"name":"_FILE","type":{"type":"record","name":"record__FILE","fields":[
{"name":"_FILE_NAME","type":"string"},{"name":"_FILE_SIZE","type":"long"},{"name":"_ROW_COUNT","type":"long"},
{"name":"_MIN_KEY","type":"bytes"},{"name":"_MAX_KEY","type":"bytes"},
{"name":"_KEY_STATS","type":{"type":"record","name":"KeyStats","fields":[
{"name":"_MIN_VALUES","type":"bytes"},{"name":"_MAX_VALUES","type":"bytes"},
{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},
{"name":"_VALUE_STATS","type":{"type":"record","name":"record__FILE__VALUE_STATS","fields":[
{"name":"_MIN_VALUES","type":"bytes"},{"name":"_MAX_VALUES","type":"bytes"},
{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},
{"name":"_MIN_SEQUENCE_NUMBER","type":"long"},{"name":"_MAX_SEQUENCE_NUMBER","type":"long"},
{"name":"_SCHEMA_ID","type":"long"},{"name":"_LEVEL","type":"int"},
{"name":"_EXTRA_FILES","type":{"type":"array","items":"string"}},
{"name":"_CREATION_TIME","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null}]}}]}"#;
    #[derive(Serialize)]
    #[serde(rename = "record__FILE")]
    struct OldFile {
        #[serde(rename = "_FILE_NAME")]
        file_name: &'static str,
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
        #[serde(rename = "_EXTRA_FILES")]
        extra_files: Vec<String>,
        #[serde(rename = "_CREATION_TIME")]
        creation_time: Option<i64>,
    }
    #[derive(Serialize)]
    #[serde(rename = "record")]
    struct OldEntry {
        #[serde(rename = "_VERSION")]
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
        file: OldFile,
    }
    let schema = avro::schema(OLD).unwrap();
    let mut file = AvroFile::new(&schema).unwrap();
    file.append(OldEntry {
        version: 2,
        kind: 0,
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        file: OldFile {
            file_name: "old",
            file_size: 1,
            row_count: 2,
            min_key: vec![],
            max_key: vec![],
            key_stats: SimpleStats::default().into(),
            value_stats: SimpleStats::default().into(),
            min_sequence_number: 0,
            max_sequence_number: 1,
            schema_id: 0,
            level: 0,
            extra_files: vec![],
            creation_time: None,
        },
    })
    .unwrap();
    let entries = decode("x", &file.finish().unwrap()).unwrap();
    assert_eq!(entries[0].file.file_name, "old");
    assert_eq!(entries[0].file.delete_row_count, None);
    assert_eq!(entries[0].file.value_stats_cols, None);
}

#[test]
fn damaged_manifests_are_errors() {
    let manifests = encode(&[entry("a", FileKind::Add, 0)], 1 << 20).unwrap();
    let bytes = &manifests[0].bytes;
    for cut in [0, 3, 100, bytes.len() / 2, bytes.len() - 20] {
        assert!(decode("x", &bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn flipped_bytes_never_panic() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let entries = [
        entry("a", FileKind::Add, 0),
        entry("b", FileKind::Delete, 5),
    ];
    let good = encode(&entries, 1 << 20).unwrap().remove(0).bytes;
    let mut random = StdRng::seed_from_u64(1);
    let mut wrong = 0;
    for _ in 0..3000 {
        let mut bytes = good.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        wrong += usize::from(decode("x", &bytes).is_err());
    }
    assert!(wrong > 1000, "{wrong}");
}
