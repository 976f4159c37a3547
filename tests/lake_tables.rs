//! Tables written by `headwater_paimon` alone, looked at by Java: what the end-to-end tests do not
//! reach by way of a MySQL table.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, Decimal128Array, Int32Array, RecordBatch, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use headwater_paimon::{
    Catalog, ColumnPlace, CommitRequest, DataField, DataType, Schema, Table, WriteBuffer,
    WriteSettings,
};

use crate::support::{Lake, oracle};

fn field(name: &str, text: &str) -> DataField {
    let (data_type, nullable) = DataType::from_json(&serde_json::json!(text)).unwrap();
    DataField {
        id: 0,
        name: name.into(),
        data_type,
        nullable,
        description: None,
        default_value: None,
    }
}

async fn create(
    lake: &Lake,
    name: &str,
    columns: &[(&str, &str)],
    partition: &[&str],
    options: &[(&str, &str)],
) -> Table {
    let mut all = BTreeMap::from([("bucket".to_owned(), "1".to_owned())]);
    all.extend(
        options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    let mut key: Vec<String> = partition.iter().map(|key| (*key).to_owned()).collect();
    let partition = key.clone();
    key.push("id".into());
    let fields = columns
        .iter()
        .map(|(name, text)| field(name, text))
        .collect();
    let schema = Schema::create(fields, key, partition, all, None).unwrap();
    let catalog = Catalog::local(lake.warehouse()).unwrap();
    catalog.create_table("own", name, schema).await.unwrap()
}

/// Commits rows as commit `number`.
async fn commit(table: &Table, number: i64, columns: Vec<(&str, ArrayRef)>) {
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default()).unwrap();
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    buffer.write(&rows, None, number * 1000).unwrap();
    let request = CommitRequest {
        user: "own".into(),
        identifier: number,
        messages: buffer.flush().await.unwrap(),
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    };
    table.commit(&request).await.unwrap();
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn java_lines(lake: &Lake, table: &str) -> Vec<String> {
    let answer = oracle::java("read", &[&lake.warehouse(), table], "");
    answer.text.lines().map(str::to_owned).collect()
}

/// Folders of partitions, sorted.
fn folders(lake: &Lake, table: &str) -> Vec<String> {
    let folder = format!("{}/own.db/{table}", lake.warehouse());
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains('='))
        .collect();
    names.sort_unstable();
    names
}

/// Java reads every partition, and what it writes into the same ones goes to the same folders.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_times_and_decimals_stand_where_java_looks() {
    let lake = Lake::new();
    let noon = 1_709_208_000_000;
    let decimals = Decimal128Array::from(vec![1230, -5, 0]);
    let micros =
        |values: &[i64]| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(values.to_vec())) };
    let millis = vec![noon, noon + 10, -1];
    let cases: [(&str, ArrayRef, [&str; 3]); 5] = [
        (
            "TIME(0)",
            Arc::new(Time32MillisecondArray::from(vec![
                0, 45_000_000, 45_045_000,
            ])),
            ["00:00:00", "12:30:00", "12:30:45"],
        ),
        (
            "TIME(3)",
            Arc::new(Time32MillisecondArray::from(vec![
                0, 45_000_500, 45_045_001,
            ])),
            ["00:00:00.000", "12:30:00.500", "12:30:45.001"],
        ),
        (
            "DECIMAL(10, 2)",
            Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()),
            ["12.30", "-0.05", "0.00"],
        ),
        (
            "TIMESTAMP(3)",
            Arc::new(TimestampMillisecondArray::from(millis)),
            [
                "2024-02-29 12:00:00.000",
                "2024-02-29 12:00:00.010",
                "1969-12-31 23:59:59.999",
            ],
        ),
        (
            "TIMESTAMP(6)",
            micros(&[noon * 1000, noon * 1000 + 1, 253_402_300_799_999_999]),
            [
                "2024-02-29 12:00:00.000000",
                "2024-02-29 12:00:00.000001",
                "9999-12-31 23:59:59.999999",
            ],
        ),
    ];
    for legacy in ["true", "false"] {
        for (number, (data_type, values, texts)) in cases.iter().enumerate() {
            let name = format!("t{number}_{legacy}");
            let not_null = format!("{data_type} NOT NULL");
            let columns = [("p", not_null.as_str()), ("id", "INT NOT NULL")];
            let options = [("partition.legacy-name", legacy)];
            let table = create(&lake, &name, &columns, &["p"], &options).await;
            let rows = vec![("p", values.clone()), ("id", ints(&[1, 2, 3]))];
            commit(&table, 1, rows).await;
            let ours = folders(&lake, &name);
            assert_eq!(ours.len(), 3, "{ours:?}");

            let full = format!("own.{name}");
            let line = |id: usize, text: &str| format!(r#"{{"p":"{text}","id":{id}}}"#);
            let mut expected: Vec<String> = (1..)
                .zip(texts.iter())
                .map(|(id, text)| line(id, text))
                .collect();
            let theirs: Vec<String> = texts.iter().map(|text| line(7, text)).collect();
            oracle::java("write", &[&lake.warehouse(), &full], &theirs.join("\n"));
            expected.extend(theirs);
            expected.sort_unstable();
            let mut read = java_lines(&lake, &full);
            read.sort_unstable();
            assert_eq!(read, expected, "{data_type}, legacy {legacy}");
            assert_eq!(folders(&lake, &name), ours, "{data_type}, legacy {legacy}");
            lake.assert_sound(&full);
        }
    }
}

/// Java sees added columns where they were put, and NULL in the rows before.
#[tokio::test(flavor = "multi_thread")]
async fn added_columns_stand_where_they_were_put() {
    let lake = Lake::new();
    let columns = [("id", "INT NOT NULL"), ("v", "INT")];
    let table = create(&lake, "wide", &columns, &[], &[]).await;
    commit(&table, 1, vec![("id", ints(&[1])), ("v", ints(&[10]))]).await;
    let table = table
        .add_columns(&[(field("x", "INT"), ColumnPlace::First)])
        .await
        .unwrap();
    let table = table
        .add_columns(&[
            (field("y", "INT"), ColumnPlace::After("x")),
            (field("z", "INT"), ColumnPlace::Last),
        ])
        .await
        .unwrap();
    let rows = ["x", "y", "id", "v", "z"].map(|name| (name, ints(&[2])));
    commit(&table, 2, rows.to_vec()).await;
    assert_eq!(
        java_lines(&lake, "own.wide"),
        [
            r#"{"x":2,"y":2,"id":2,"v":2,"z":2}"#,
            r#"{"x":null,"y":null,"id":1,"v":10,"z":null}"#
        ]
    );
    lake.assert_sound("own.wide");
}
