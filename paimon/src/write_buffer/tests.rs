use arrow_array::{Array, StringArray, cast::AsArray};

use super::*;
use crate::{
    binary_row::tests::unhex,
    fixture::{ALL_TYPES, INT_COLUMNS, all_types_rows, files_of, fixture, int_batch, int_rows},
};

const SETTINGS: WriteSettings = WriteSettings {
    max_buffered_bytes: 8 << 20,
    target_file_bytes: 128 << 20,
    parallelism: 2,
};

/// What Java Paimon says about a file of the same rows.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct JavaMeta {
    table: String,
    min_key: String,
    max_key: String,
    key_stats: (String, String, Vec<Option<i64>>),
    value_stats: (String, String, Vec<Option<i64>>),
    value_stats_cols: Option<Vec<String>>,
}

fn assert_same(file: &DataFileMeta, java: &JavaMeta) {
    let name = &java.table;
    assert_eq!(file.min_key, unhex(&java.min_key), "{name}");
    assert_eq!(file.max_key, unhex(&java.max_key), "{name}");
    for (ours, theirs) in [
        (&file.key_stats, &java.key_stats),
        (&file.value_stats, &java.value_stats),
    ] {
        assert_eq!(ours.min_values, unhex(&theirs.0), "{name}: min");
        assert_eq!(ours.max_values, unhex(&theirs.1), "{name}: max");
        assert_eq!(ours.null_counts, theirs.2, "{name}: nulls");
    }
    assert_eq!(file.value_stats_cols, java.value_stats_cols, "{name}");
}

fn java_metas() -> Vec<JavaMeta> {
    include_str!("../../tests/data/file_stats.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn keys_and_statistics_are_byte_for_byte_what_java_writes() {
    let options = |name: &str| -> Vec<(&str, &str)> {
        match name {
            "types" => vec![],
            "none" => vec![("metadata.stats-mode", "none")],
            "counts" => vec![("metadata.stats-mode", "counts")],
            "full" => vec![("metadata.stats-mode", "full")],
            "fields" => vec![
                ("metadata.stats-mode", "none"),
                ("fields.vc.stats-mode", "truncate(3)"),
                ("fields.st.stats-mode", "full"),
            ],
            "dense" => vec![("metadata.stats-dense-store", "false")],
            _ => unreachable!(),
        }
    };
    for java in java_metas().iter().filter(|java| java.table != "key") {
        let fixture = fixture(&ALL_TYPES, &["id"], &[], &options(&java.table));
        let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
        buffer.write(&all_types_rows(), None, 0).unwrap();
        let messages = buffer.flush().await.unwrap();
        let [(_, file)] = files_of(&messages)[..] else {
            panic!()
        };
        assert_same(file, java);
        assert_eq!((file.row_count, file.delete_row_count), (3, Some(0)));
        assert_eq!((file.min_sequence_number, file.max_sequence_number), (0, 2));
    }
}

#[tokio::test]
async fn statistics_of_several_key_columns_are_whole() {
    let columns = [
        ("a", "STRING NOT NULL"),
        ("v", "INT"),
        ("b", "DECIMAL(20, 2) NOT NULL"),
    ];
    let fixture = fixture(&columns, &["b", "a"], &[], &[]);
    let a: ArrayRef = Arc::new(StringArray::from(vec![
        "a long key of more than sixteen",
        "b",
    ]));
    let v: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![Some(1), None]));
    let b = arrow_array::Decimal128Array::from(vec![150, -200]);
    let b: ArrayRef = Arc::new(b.with_precision_and_scale(20, 2).unwrap());
    let rows = RecordBatch::try_from_iter([("a", a), ("v", v), ("b", b)]).unwrap();
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    buffer.write(&rows, None, 0).unwrap();
    let messages = buffer.flush().await.unwrap();
    let [(_, file)] = files_of(&messages)[..] else {
        panic!()
    };
    let java = java_metas().into_iter().find(|java| java.table == "key");
    assert_same(file, &java.unwrap());
}

#[tokio::test]
async fn every_type_reads_back() {
    let fixture = fixture(&ALL_TYPES, &["id"], &[], &[]);
    let rows = all_types_rows();
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    buffer.write(&rows, None, 0).unwrap();
    let messages = buffer.flush().await.unwrap();
    let [(folder, file)] = &files_of(&messages)[..] else {
        panic!()
    };
    let read = fixture.read(folder, file);
    let names: Vec<&str> = read
        .schema_ref()
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .collect();
    assert_eq!(&names[..3], ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND"]);
    for (name, _) in ALL_TYPES {
        let (ours, back) = (rows.column_by_name(name), read.column_by_name(name));
        let (ours, back) = (ours.unwrap(), back.unwrap());
        match name {
            // INT96 has no zone.
            "l9" => {
                let back = back.as_primitive::<arrow_array::types::TimestampNanosecondType>();
                assert_eq!(
                    &back.clone().with_timezone("UTC").into_data(),
                    &ours.to_data()
                );
            }
            "ar" | "as" => {
                let (ours, back) = (ours.as_list::<i32>(), back.as_list::<i32>());
                assert_eq!(ours.offsets(), back.offsets(), "{name}");
                assert_eq!(ours.values(), back.values(), "{name}");
                assert_eq!(ours.nulls(), back.nulls(), "{name}");
            }
            _ => assert_eq!(ours, back, "{name}"),
        }
    }
}

#[tokio::test]
async fn the_last_row_of_each_key_stays() {
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[]);
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    let rows = |rows: &[(i32, i32)]| {
        int_batch(
            &rows
                .iter()
                .map(|(id, v)| (*id, Some(*v)))
                .collect::<Vec<_>>(),
        )
    };
    buffer
        .write(
            &rows(&[(5, 50), (1, 10), (5, 51), (5, 52)]),
            Some(&[0, 0, 1, 2]),
            100,
        )
        .unwrap();
    // Written later, and older.
    buffer.write(&rows(&[(1, 9), (7, 70)]), None, 90).unwrap();
    buffer
        .write(&rows(&[(7, 70), (-3, 0), (9, 90)]), Some(&[3, 3, 1]), 104)
        .unwrap();
    assert!(buffer.buffered_bytes() > 0);
    let messages = buffer.flush().await.unwrap();
    assert_eq!(buffer.buffered_bytes(), 0);
    let [(folder, file)] = &files_of(&messages)[..] else {
        panic!()
    };
    assert_eq!(
        int_rows(&fixture.read(folder, file)),
        [
            (-3, 105, 3, Some(0)),
            (1, 101, 0, Some(10)),
            (5, 103, 2, Some(52)),
            (7, 104, 3, Some(70)),
        ]
    );
    assert_eq!((file.row_count, file.delete_row_count), (4, Some(2)));
    assert_eq!(
        (file.min_sequence_number, file.max_sequence_number),
        (101, 105)
    );
    assert_eq!((file.level, file.file_source), (0, Some(0)));
    assert!(buffer.flush().await.unwrap().is_empty());
}

#[tokio::test]
async fn rows_of_many_buckets_are_spread_and_files_roll() {
    let options = [("bucket", "4"), ("target-file-size", "64 kb")];
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &options);
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    for start in 0..10 {
        let rows: Vec<_> = (0..20_000_i32)
            .map(|row| {
                (
                    ((row * 7_919) % 200_000) ^ (start << 1),
                    Some(row.wrapping_mul(77_777_777)),
                )
            })
            .collect();
        buffer
            .write(&int_batch(&rows), None, i64::from(start) * 20_000)
            .unwrap();
    }
    let messages = buffer.flush().await.unwrap();
    assert_eq!(messages.len(), 4);
    let mut keys = Vec::new();
    for message in &messages {
        assert_eq!(message.total_buckets, 4);
        assert!(message.new_files.len() > 1);
        let mut last = None;
        for file in &message.new_files {
            let rows = int_rows(&fixture.read(&format!("bucket-{}", message.bucket), file));
            assert_eq!(rows.len() as i64, file.row_count);
            for (key, ..) in rows {
                assert!(last.is_none_or(|last| last < key));
                last = Some(key);
                keys.push(key);
            }
        }
    }
    keys.sort_unstable();
    let mut expected: Vec<i32> = (0..10)
        .flat_map(|start| (0..20_000).map(move |row| ((row * 7_919) % 200_000) ^ (start << 1)))
        .collect();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn partitions_have_their_folders() {
    let columns = [
        ("p", "STRING NOT NULL"),
        ("id", "INT NOT NULL"),
        ("v", "INT"),
    ];
    let fixture = fixture(&columns, &["p", "id"], &["p"], &[]);
    let p: ArrayRef = Arc::new(StringArray::from(vec!["a/b", "", "a/b"]));
    let id: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![1, 1, 2]));
    let rows = RecordBatch::try_from_iter([("id", id), ("p", p)]).unwrap();
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    buffer.write(&rows, None, 0).unwrap();
    let messages = buffer.flush().await.unwrap();
    let found: Vec<_> = messages
        .iter()
        .zip(["p=a%2Fb/bucket-0", "p=__DEFAULT_PARTITION__/bucket-0"])
        .map(|(message, folder)| int_rows(&fixture.read(folder, &message.new_files[0])).len())
        .collect();
    assert_eq!(found, [2, 1]);
}

#[tokio::test]
async fn rows_that_do_not_fit_are_refused_whole() {
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[]);
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    let ints: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![1]));
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    for (columns, word) in [
        (
            vec![("id", ints.clone()), ("x", ints.clone())],
            "no column x",
        ),
        (vec![("v", ints.clone())], "NOT NULL and missing"),
        (vec![("id", longs)], "gets Arrow"),
    ] {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let error = buffer.write(&rows, None, 0).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let rows = RecordBatch::try_from_iter([("id", ints)]).unwrap();
    assert!(buffer.write(&rows, Some(&[4]), 0).is_err());
    assert!(buffer.write(&rows, None, -1).is_err());
    assert_eq!(buffer.buffered_bytes(), 0);
    assert!(buffer.flush().await.unwrap().is_empty());
}

#[test]
fn options_that_change_the_meaning_are_refused() {
    for (name, value) in [
        ("file.format", "orc"),
        ("merge-engine", "last-row"),
        ("changelog-producer", "output"),
        ("sequence.field", "w"),
        ("rowkind.field", "v"),
        ("bucket", "-2"),
        ("file.compression", "gzip"),
        ("metadata.stats-mode", "truncate(0)"),
        ("target-file-size", "much"),
    ] {
        let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[(name, value)]);
        let error = WriteBuffer::new(fixture.table, SETTINGS).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{name}");
    }
}

#[tokio::test]
async fn files_end_at_a_number_of_rows() {
    let options = [("target-file-row-num", "7")];
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &options);
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    let rows: Vec<_> = (0..20).map(|row| (row, None)).collect();
    buffer.write(&int_batch(&rows), None, 0).unwrap();
    let messages = buffer.flush().await.unwrap();
    let counts = files_of(&messages)
        .into_iter()
        .map(|(_, file)| file.row_count);
    assert_eq!(counts.collect::<Vec<_>>(), [7, 7, 6]);
}

#[tokio::test]
async fn a_failed_flush_loses_nothing_and_leaves_nothing() {
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[("bucket", "3")]);
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    let rows: Vec<_> = (0..100).map(|row| (row, None)).collect();
    buffer.write(&int_batch(&rows), None, 0).unwrap();
    // A file stands where a bucket's folder should be.
    let blocked = fixture.folder.path().join("t.db/t/bucket-1");
    std::fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    std::fs::write(&blocked, "in the way").unwrap();
    assert!(buffer.flush().await.is_err());
    assert_eq!(fixture.files(), 1);
    std::fs::remove_file(&blocked).unwrap();
    let messages = buffer.flush().await.unwrap();
    let rows: i64 = files_of(&messages)
        .iter()
        .map(|(_, file)| file.row_count)
        .sum();
    assert_eq!((rows, fixture.files()), (100, 3));
}

#[tokio::test]
async fn rows_in_key_order_are_written_as_they_came_and_only_those() {
    // Ascending over two batches; a key again at the seam; a step back at the seam.
    // Keys of two batches; keys and sequence numbers that are written.
    type Case<'a> = ([i32; 2], [i32; 2], &'a [(i32, i64)]);
    let cases: [Case; 3] = [
        ([1, 4], [5, 9], &[(1, 10), (4, 11), (5, 12), (9, 13)]),
        ([1, 4], [4, 9], &[(1, 10), (4, 12), (9, 13)]),
        ([1, 4], [3, 9], &[(1, 10), (3, 12), (4, 11), (9, 13)]),
    ];
    for (first, second, expected) in cases {
        let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[]);
        let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
        let rows = |ids: [i32; 2]| int_batch(&ids.map(|id| (id, Some(id * 10))));
        buffer.write(&rows(first), None, 10).unwrap();
        buffer.write(&rows(second), Some(&[0, 3]), 12).unwrap();
        let messages = buffer.flush().await.unwrap();
        let [(folder, file)] = &files_of(&messages)[..] else {
            panic!()
        };
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, sequence)| (*id, *sequence, i8::from(*id == 9) * 3, Some(id * 10)))
            .collect();
        assert_eq!(int_rows(&fixture.read(folder, file)), expected);
        assert_eq!(file.row_count, expected.len() as i64);
    }
}

/// What a flush writes of rows `(key, value)` with kinds, from sequence number 10: the data files'
/// rows and the changelog files'.
async fn flushed(
    options: &[(&str, &str)],
    rows: &[(i32, Option<i32>)],
    kinds: &[i8],
) -> Result<[Vec<(i32, i64, i8, Option<i32>)>; 2]> {
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], options);
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS)?;
    buffer.write(&int_batch(rows), Some(kinds), 10)?;
    let messages = buffer.flush().await?;
    let read = |files: &[DataFileMeta]| {
        let files = files.iter();
        files
            .flat_map(|file| int_rows(&fixture.read("bucket-0", file)))
            .collect::<Vec<_>>()
    };
    let message = messages.first().cloned().unwrap_or_default();
    for file in &message.changelog_files {
        assert!(
            file.file_name.starts_with("changelog-"),
            "{}",
            file.file_name
        );
        assert_eq!((file.level, file.file_source), (0, Some(0)));
    }
    Ok([read(&message.new_files), read(&message.changelog_files)])
}

#[tokio::test]
async fn rows_of_a_key_are_merged_by_the_engine() {
    let rows = [(2, Some(5)), (1, Some(7)), (2, None), (2, Some(3))];
    let kinds = [0, 0, 2, 2];
    let first = (1, 11, 0, Some(7));
    for (options, second) in [
        (vec![], (2, 13, 2, Some(3))),
        (
            vec![("merge-engine", "partial-update")],
            (2, 13, 0, Some(3)),
        ),
        (vec![("merge-engine", "first-row")], (2, 10, 0, Some(5))),
        (vec![("sequence.field", "v")], (2, 10, 0, Some(5))),
        (
            vec![
                ("sequence.field", "v"),
                ("sequence.field.sort-order", "descending"),
            ],
            (2, 13, 2, Some(3)),
        ),
        (
            vec![
                ("merge-engine", "aggregation"),
                ("fields.v.aggregate-function", "sum"),
            ],
            (2, 13, 0, Some(8)),
        ),
    ] {
        let [data, changelog] = flushed(&options, &rows, &kinds).await.unwrap();
        assert_eq!(data, [first, second], "{options:?}");
        assert_eq!(changelog, [], "{options:?}");
    }
}

#[tokio::test]
async fn before_images_take_back_what_an_aggregate_gathered() {
    let options = [
        ("merge-engine", "aggregation"),
        ("fields.v.aggregate-function", "sum"),
    ];
    let rows = [(1, Some(5)), (1, Some(5)), (1, Some(6)), (2, Some(9))];
    let [data, _] = flushed(&options, &rows, &[0, 1, 2, 1]).await.unwrap();
    assert_eq!(data, [(1, 12, 0, Some(6)), (2, 13, 1, Some(9))]);
}

#[tokio::test]
async fn every_row_stands_in_the_changelog_of_producer_input() {
    let rows = [(2, Some(1)), (1, Some(2)), (2, Some(1)), (2, Some(4))];
    let options = [("changelog-producer", "input")];
    let [data, changelog] = flushed(&options, &rows, &[0, 0, 1, 2]).await.unwrap();
    assert_eq!(data, [(1, 11, 0, Some(2)), (2, 13, 2, Some(4))]);
    let all = [
        (1, 11, 0, Some(2)),
        (2, 10, 0, Some(1)),
        (2, 12, 1, Some(1)),
        (2, 13, 2, Some(4)),
    ];
    assert_eq!(changelog, all);
    // Rows that are sorted already take another way.
    let [data, changelog] = flushed(&options, &rows[1..3], &[0, 3]).await.unwrap();
    assert_eq!(data, [(1, 10, 0, Some(2)), (2, 11, 3, Some(1))]);
    assert_eq!(data, changelog);
}

#[tokio::test]
async fn rows_that_options_ignore_are_not_written() {
    let rows = [(1, Some(1)), (1, Some(2)), (2, Some(3)), (1, Some(4))];
    let kinds = [0, 3, 3, 1];
    let input = ("changelog-producer", "input");
    let [data, changelog] = flushed(&[("ignore-delete", "true"), input], &rows, &kinds)
        .await
        .unwrap();
    assert_eq!(data, [(1, 10, 0, Some(1))]);
    assert_eq!(data, changelog);
    let [_, changelog] = flushed(&[("ignore-update-before", "true"), input], &rows, &kinds)
        .await
        .unwrap();
    assert_eq!(
        changelog,
        [
            (1, 10, 0, Some(1)),
            (1, 11, 3, Some(2)),
            (2, 12, 3, Some(3))
        ]
    );
    let [data, _] = flushed(&[("ignore-delete", "true")], &rows[1..], &kinds[1..])
        .await
        .unwrap();
    assert_eq!(data, []);
}

#[tokio::test]
async fn a_column_may_say_what_kind_a_row_is() {
    let columns = [("id", "INT NOT NULL"), ("v", "INT"), ("k", "STRING")];
    let fixture = fixture(&columns, &["id"], &[], &[("rowkind.field", "k")]);
    let batch = |kinds: Vec<Option<&str>>| {
        let rows: Vec<_> = (0..kinds.len() as i32).map(|id| (id, None)).collect();
        let rows = int_batch(&rows);
        let kinds: ArrayRef = Arc::new(StringArray::from(kinds));
        RecordBatch::try_from_iter_with_nullable([
            ("id", rows.column(0).clone(), false),
            ("v", rows.column(1).clone(), true),
            ("k", kinds, true),
        ])
        .unwrap()
    };
    let mut buffer = WriteBuffer::new(fixture.table.clone(), SETTINGS).unwrap();
    for wrong in [None, Some("D")] {
        let error = buffer.write(&batch(vec![wrong]), None, 0).unwrap_err();
        assert!(error.to_string().contains("column k"), "{error}");
    }
    let kinds = vec![Some("+I"), Some("-U"), Some("+U"), Some("-D")];
    buffer.write(&batch(kinds), None, 0).unwrap();
    let messages = buffer.flush().await.unwrap();
    let read = int_rows(&fixture.read("bucket-0", &messages[0].new_files[0]));
    let kinds: Vec<_> = read.iter().map(|row| (row.0, row.2)).collect();
    assert_eq!(kinds, [(0, 0), (2, 2), (3, 3)]);
}
