use std::sync::Arc;

use arrow_array::{
    BooleanArray, Date32Array, Decimal128Array, Int32Array, StringArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};

use super::*;
use crate::fixture::fixture;

/// The folder of a row whose partition column has this value.
fn folder_of(data_type: &str, value: ArrayRef, options: &[(&str, &str)]) -> String {
    let columns = [("p", data_type), ("id", "INT NOT NULL")];
    let fixture = fixture(&columns, &["p", "id"], &["p"], options);
    let mut placement = Placement::new(&fixture.table).unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let places = placement.place(&[value, ids]).unwrap();
    assert_eq!(places, Some(vec![0]));
    let folder = placement.places()[0].folder.strip_prefix("t.db/t/p=");
    folder
        .unwrap()
        .strip_suffix("/bucket-0")
        .unwrap()
        .to_owned()
}

fn folder(data_type: &str, value: ArrayRef) -> String {
    folder_of(data_type, value, &[])
}

/// The same without option `partition.legacy-name`.
fn cast(data_type: &str, value: ArrayRef) -> String {
    folder_of(data_type, value, &[("partition.legacy-name", "false")])
}

/// The names were seen in tables of Java Paimon 1.4.2.
#[test]
fn folders_of_partitions_are_named_as_java_names_them() {
    let text = |text: &str| folder("STRING", Arc::new(StringArray::from(vec![text])));
    assert_eq!(text("a b"), "a b");
    assert_eq!(text("é"), "é");
    assert_eq!(text("x/y=z%"), "x%2Fy%3Dz%25");
    assert_eq!(
        text("q\"u'o*?:<>|{}[]^\\#"),
        "q%22u%27o%2A%3F%3A<>|%7B%7D%5B%5D%5E%5C%23"
    );
    assert_eq!(text("a\tb"), "a%09b");
    assert_eq!(text(""), "__DEFAULT_PARTITION__");
    let none = Arc::new(Int32Array::from(vec![None]));
    assert_eq!(folder("INT", none), "__DEFAULT_PARTITION__");
    assert_eq!(
        folder("BOOLEAN", Arc::new(BooleanArray::from(vec![true]))),
        "true"
    );
    let date: ArrayRef = Arc::new(Date32Array::from(vec![19_782]));
    assert_eq!(folder("DATE", date.clone()), "19782");
    assert_eq!(cast("DATE", date), "2024-02-29");
}

/// As above.
#[test]
fn folders_of_times_and_decimals_are_named_as_java_names_them() {
    let time = |millis: i32| -> ArrayRef { Arc::new(Time32MillisecondArray::from(vec![millis])) };
    assert_eq!(folder("TIME(3)", time(45_000_500)), "45000500");
    assert_eq!(cast("TIME(0)", time(45_045_000)), "12%3A30%3A45");
    assert_eq!(cast("TIME(3)", time(45_000_500)), "12%3A30%3A00.5");
    assert_eq!(cast("TIME(3)", time(45_045_001)), "12%3A30%3A45.001");
    assert_eq!(cast("TIME(3)", time(0)), "00%3A00%3A00.0");
    let decimal = |data_type: &str, digits: i128, precision: u8, scale: i8| {
        let array = Decimal128Array::from(vec![digits]);
        let array = array.with_precision_and_scale(precision, scale).unwrap();
        let array: ArrayRef = Arc::new(array);
        assert_eq!(
            cast(data_type, array.clone()),
            folder(data_type, array.clone())
        );
        folder(data_type, array)
    };
    assert_eq!(decimal("DECIMAL(10, 2)", 1230, 10, 2), "12.30");
    assert_eq!(decimal("DECIMAL(10, 2)", -5, 10, 2), "-0.05");
    assert_eq!(decimal("DECIMAL(10, 2)", 0, 10, 2), "0.00");
    assert_eq!(decimal("DECIMAL(5, 0)", 5, 5, 0), "5");
    let wide = 123_456_789_012_345_678_901_234_567_000;
    assert_eq!(
        decimal("DECIMAL(30, 4)", wide, 30, 4),
        "12345678901234567890123456.7000"
    );
}

/// As above.
#[test]
fn folders_of_timestamps_are_named_as_java_names_them() {
    let noon = 1_709_208_000_000;
    let millis =
        |millis: i64| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(vec![millis])) };
    let legacy = |value: i64| folder("TIMESTAMP(3)", millis(value));
    assert_eq!(legacy(noon), "2024-02-29T12%3A00");
    assert_eq!(legacy(noon + 10), "2024-02-29T12%3A00%3A00.010");
    assert_eq!(legacy(noon + 1000), "2024-02-29T12%3A00%3A01");
    assert_eq!(legacy(-1), "1969-12-31T23%3A59%3A59.999");
    assert_eq!(legacy(-62_135_596_800_000), "0001-01-01T00%3A00");
    let micros =
        |micros: i64| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![micros])) };
    assert_eq!(
        folder("TIMESTAMP(6)", micros(noon * 1000 + 1)),
        "2024-02-29T12%3A00%3A00.000001"
    );
    assert_eq!(
        folder("TIMESTAMP(6)", micros(253_402_300_799_999_999)),
        "9999-12-31T23%3A59%3A59.999999"
    );
    let local: ArrayRef =
        Arc::new(TimestampMillisecondArray::from(vec![noon + 1500]).with_timezone("UTC"));
    let data_type = "TIMESTAMP(3) WITH LOCAL TIME ZONE";
    assert_eq!(folder(data_type, local), "2024-02-29T12%3A00%3A01.500");
    assert_eq!(
        cast("TIMESTAMP(0)", millis(noon)),
        "2024-02-29 12%3A00%3A00"
    );
    assert_eq!(
        cast("TIMESTAMP(3)", millis(noon)),
        "2024-02-29 12%3A00%3A00.000"
    );
    assert_eq!(
        cast("TIMESTAMP(6)", micros(noon * 1000 + 1_500_000)),
        "2024-02-29 12%3A00%3A01.500000"
    );
}

#[test]
fn rows_of_one_partition_and_bucket_share_a_place() {
    let columns = [("p", "STRING NOT NULL"), ("id", "INT NOT NULL")];
    let fixture = fixture(&columns, &["p", "id"], &["p"], &[("bucket", "2")]);
    let mut placement = Placement::new(&fixture.table).unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a", "b", "a"]));
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1, 1, 1]));
    let places = placement.place(&[texts.clone(), ids.clone()]).unwrap();
    assert_eq!(places, Some(vec![0, 1, 0, 1, 0]));
    assert_eq!(placement.place(&[texts, ids]).unwrap(), places);
    assert_eq!(placement.places().len(), 2);
}

#[test]
fn partitions_without_a_sure_name_are_refused_at_once() {
    for data_type in ["DOUBLE", "FLOAT", "BYTES", "BINARY(3)"] {
        let columns = [("p", data_type), ("id", "INT NOT NULL")];
        let fixture = fixture(&columns, &["p", "id"], &["p"], &[]);
        let error = Placement::new(&fixture.table).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{data_type}");
    }
}
