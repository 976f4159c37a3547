use super::*;
use crate::fixture::{Fixture, INT_COLUMNS, files_of, fixture, int_batch, int_rows};

const SETTINGS: WriteSettings = WriteSettings {
    max_buffered_bytes: 8 << 20,
    target_file_bytes: 128 << 20,
    parallelism: 2,
};

fn batch(keys: impl IntoIterator<Item = i32>) -> RecordBatch {
    let rows: Vec<_> = keys.into_iter().map(|key| (key, Some(key ^ 1))).collect();
    int_batch(&rows)
}

fn keys(fixture: &Fixture, messages: &[CommitMessage]) -> Vec<i32> {
    let mut keys = Vec::new();
    for (folder, file) in files_of(messages) {
        let rows = int_rows(&fixture.read(&folder, file));
        assert_eq!((file.level, file.delete_row_count), (5, Some(0)));
        assert_eq!(
            (file.min_sequence_number, file.max_sequence_number),
            (77, 77)
        );
        assert_eq!(file.row_count, rows.len() as i64);
        let ascending = rows
            .iter()
            .zip(rows.iter().skip(1))
            .all(|(row, next)| row.0 < next.0);
        assert!(ascending);
        for (key, sequence, kind, value) in rows {
            assert_eq!((sequence, kind, value), (77, 0, Some(key ^ 1)));
            keys.push(key);
        }
    }
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn ordered_rows_stream_into_one_file_a_bucket() {
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[("bucket", "3")]);
    let mut writer = BulkWriter::new(fixture.table.clone(), SETTINGS, 77).unwrap();
    for start in 0..30 {
        writer
            .write(&batch(start * 1000 - 500..start * 1000 + 500))
            .await
            .unwrap();
    }
    let messages = writer.finish().await.unwrap();
    assert_eq!(files_of(&messages).len(), 3);
    assert_eq!(
        keys(&fixture, &messages),
        (-500..29_500).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn rows_out_of_order_are_sorted_from_there_on() {
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[]);
    let mut writer = BulkWriter::new(fixture.table.clone(), SETTINGS, 77).unwrap();
    writer.write(&batch([1, 2, 10, 5, 7, 30])).await.unwrap();
    writer.write(&batch([20, 3])).await.unwrap();
    let messages = writer.finish().await.unwrap();
    let files = files_of(&messages);
    let rows: Vec<i64> = files.iter().map(|(_, file)| file.row_count).collect();
    assert_eq!(rows, [3, 5]);
    assert_eq!(keys(&fixture, &messages), [1, 2, 3, 5, 7, 10, 20, 30]);
}

#[tokio::test]
async fn a_key_that_comes_twice_is_an_error_that_names_it() {
    for batches in [vec![vec![1, 2], vec![2, 3]], vec![vec![9, 8, 4, 8]]] {
        let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[]);
        let mut writer = BulkWriter::new(fixture.table.clone(), SETTINGS, 77).unwrap();
        let mut failure = None;
        for keys in batches {
            failure = failure.or(writer.write(&batch(keys)).await.err());
        }
        let error = match failure {
            Some(error) => {
                writer.abort().await;
                error
            }
            None => writer.finish().await.unwrap_err(),
        };
        let text = error.to_string();
        assert!(text.contains("t.t") && text.contains("id = Int("), "{text}");
        assert_eq!(fixture.files(), 0);
    }
}

#[tokio::test]
async fn memory_stays_within_bounds_with_many_buckets() {
    let settings = WriteSettings {
        max_buffered_bytes: 1 << 20,
        ..SETTINGS
    };
    for scramble in [0, 0x5a5a] {
        let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[("bucket", "64")]);
        let mut writer = BulkWriter::new(fixture.table.clone(), settings, 77).unwrap();
        for start in 0..60 {
            writer
                .write(&batch((0..5000).map(|row| (start * 5000 + row) ^ scramble)))
                .await
                .unwrap();
            assert!(writer.buffered_bytes() <= settings.max_buffered_bytes);
        }
        let messages = writer.finish().await.unwrap();
        let mut expected: Vec<i32> = (0..300_000).map(|row| row ^ scramble).collect();
        expected.sort_unstable();
        assert_eq!(keys(&fixture, &messages), expected);
    }
}

#[tokio::test]
async fn an_abort_leaves_nothing() {
    let options = [("target-file-size", "16 kb"), ("num-levels", "3")];
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &options);
    let mut writer = BulkWriter::new(fixture.table.clone(), SETTINGS, 77).unwrap();
    writer.write(&batch(0..100_000)).await.unwrap();
    assert!(fixture.files() > 0);
    writer.abort().await;
    assert_eq!(fixture.files(), 0);
    let mut writer = BulkWriter::new(fixture.table.clone(), SETTINGS, 77).unwrap();
    writer.write(&batch(0..10)).await.unwrap();
    let messages = writer.finish().await.unwrap();
    assert_eq!(files_of(&messages)[0].1.level, 2);
}
