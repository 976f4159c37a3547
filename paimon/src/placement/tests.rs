use std::sync::Arc;

use arrow_array::{BooleanArray, Date32Array, Int32Array, StringArray};

use super::*;
use crate::fixture::fixture;

/// The folder of a row whose partition column has this value.
fn folder(data_type: &str, value: ArrayRef) -> String {
    let columns = [("p", data_type), ("id", "INT NOT NULL")];
    let fixture = fixture(&columns, &["p", "id"], &["p"], &[]);
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
    assert_eq!(
        folder("DATE", Arc::new(Date32Array::from(vec![19_782]))),
        "19782"
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
    for data_type in ["DECIMAL(10, 2)", "TIMESTAMP(3)", "DOUBLE", "BYTES"] {
        let columns = [("p", data_type), ("id", "INT NOT NULL")];
        let fixture = fixture(&columns, &["p", "id"], &["p"], &[]);
        let error = Placement::new(&fixture.table).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{data_type}");
    }
}
