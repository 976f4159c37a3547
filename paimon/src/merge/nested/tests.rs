use arrow_array::{Int8Array, Int32Array, Int64Array, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{Field, Fields};

use super::*;
use crate::{
    DataType, Schema,
    data_file::KeyValueBatch,
    data_type::{DataField, Element},
    fixture::fixture,
    merge::{Groups, function},
};

/// `k`, `v` and `t` of an element; `None`: the element is NULL.
type Item = Option<(Option<i32>, Option<&'static str>, Option<i32>)>;

fn fields() -> Vec<DataField> {
    let types = [DataType::Int, DataType::String, DataType::Int];
    let field = |(id, (name, data_type))| DataField {
        id,
        name: String::from(name),
        data_type,
        nullable: true,
        description: None,
        default_value: None,
    };
    (10..)
        .zip(["k", "v", "t"].into_iter().zip(types))
        .map(field)
        .collect()
}

fn list(rows: &[Option<&[Item]>]) -> ArrayRef {
    let items: Vec<Item> = rows.iter().flatten().flat_map(|row| row.to_vec()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            items
                .iter()
                .map(|item| item.and_then(|it| it.0))
                .collect::<Int32Array>(),
        ),
        Arc::new(
            items
                .iter()
                .map(|item| item.and_then(|it| it.1))
                .collect::<StringArray>(),
        ),
        Arc::new(
            items
                .iter()
                .map(|item| item.and_then(|it| it.2))
                .collect::<Int32Array>(),
        ),
    ];
    let DataType::Array(element) = column() else {
        panic!("an array");
    };
    let arrow = element.data_type.arrow();
    let ArrowType::Struct(fields) = &arrow else {
        panic!("a struct");
    };
    let fields: Fields = fields.clone();
    let valid = items.iter().map(Option::is_some);
    let valid = Some(NullBuffer::from_iter(valid)).filter(|valid| valid.null_count() > 0);
    let values = StructArray::new(fields, columns, valid);
    let lengths = rows.iter().map(|row| row.map_or(0, <[Item]>::len));
    let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let field = Field::new("element", arrow, true);
    Arc::new(ListArray::new(
        field.into(),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(values),
        Some(nulls).filter(|nulls| nulls.null_count() > 0),
    ))
}

fn column() -> DataType {
    DataType::Array(Box::new(Element {
        data_type: DataType::Row(fields()),
        nullable: true,
    }))
}

fn schema(function: &str, options: &[(&str, &str)]) -> Schema {
    let mut all = vec![
        ("merge-engine", "aggregation"),
        ("fields.v.aggregate-function", function),
    ];
    all.extend(options);
    let columns = [("id", "INT NOT NULL"), ("v", "INT")];
    let fixture = fixture(&columns, &["id"], &[], &all);
    let mut schema = fixture.table.schema().as_ref().clone();
    schema.fields[1].data_type = column();
    schema
}

/// What a function makes of rows of one key, kinds in front.
fn merged(schema: &Schema, rows: &[(i8, Option<&[Item]>)]) -> Result<ArrayRef> {
    let values: Vec<Option<&[Item]>> = rows.iter().map(|row| row.1).collect();
    let batch = KeyValueBatch {
        columns: vec![
            Arc::new(Int32Array::from(vec![1; rows.len()])),
            list(&values),
        ],
        sequences: Int64Array::from_iter_values(0..rows.len() as i64),
        kinds: Int8Array::from_iter_values(rows.iter().map(|row| row.0)),
    };
    let groups = Groups {
        rows: &batch,
        ends: &[rows.len()],
    };
    let (merged, _) = function(schema)?.merge(&groups)?;
    Ok(merged.columns[1].clone())
}

const A1: Item = Some((Some(1), Some("a"), Some(5)));
const B1: Item = Some((Some(1), Some("b"), Some(3)));
const C1: Item = Some((Some(1), Some("c"), Some(5)));
const A2: Item = Some((Some(2), Some("x"), None));
const B2: Item = Some((Some(2), None, Some(9)));
const NO_KEY: Item = Some((None, Some("n"), Some(1)));

#[test]
fn elements_replace_those_with_their_key() {
    let plain = schema("nested_update", &[("fields.v.nested-key", "k")]);
    let rows: [(i8, Option<&[Item]>); 4] = [
        (0, Some(&[A1, A2])),
        (0, None),
        (0, Some(&[B1, None, NO_KEY])),
        (2, Some(&[B2])),
    ];
    let expected = list(&[Some(&[B1, B2, NO_KEY])]);
    assert_eq!(&merged(&plain, &rows).unwrap(), &expected);

    let taken: [(i8, Option<&[Item]>); 3] = [(0, Some(&[A1, A2])), (3, Some(&[B1])), (3, None)];
    assert_eq!(&merged(&plain, &taken).unwrap(), &list(&[Some(&[A2])]));

    let options = [
        ("fields.v.nested-key", "k"),
        ("fields.v.nested-sequence-field", "t"),
    ];
    let ordered = schema("nested_update", &options);
    let rows: [(i8, Option<&[Item]>); 3] = [
        (0, Some(&[A1, A2])),
        (0, Some(&[B1, B2])),
        (0, Some(&[C1, A2])),
    ];
    let expected = list(&[Some(&[C1, B2])]);
    assert_eq!(&merged(&ordered, &rows).unwrap(), &expected);
}

#[test]
fn keys_that_are_null_are_as_the_option_says() {
    let rows: [(i8, Option<&[Item]>); 2] = [(0, Some(&[A1, NO_KEY])), (0, Some(&[NO_KEY]))];
    for function in ["nested_update", "nested_partial_update"] {
        for (strategy, expected) in [("merge", [A1, NO_KEY].as_slice()), ("ignore", &[A1])] {
            let options = [
                ("fields.v.nested-key", "k"),
                ("fields.v.nested-key-null-strategy", strategy),
            ];
            let found = merged(&schema(function, &options), &rows).unwrap();
            assert_eq!(&found, &list(&[Some(expected)]), "{function} {strategy}");
        }
        let options = [
            ("fields.v.nested-key", "k"),
            ("fields.v.nested-key-null-strategy", "error"),
        ];
        let error = merged(&schema(function, &options), &rows).unwrap_err();
        assert!(error.to_string().contains("column v"), "{error}");
    }
}

#[test]
fn arrays_without_a_nested_key_are_put_together_up_to_the_limit() {
    let rows: [(i8, Option<&[Item]>); 3] = [
        (0, Some(&[A1, None, A1])),
        (0, Some(&[A2, B1])),
        (0, Some(&[C1])),
    ];
    let all = merged(&schema("nested_update", &[]), &rows).unwrap();
    assert_eq!(&all, &list(&[Some(&[A1, A1, A2, B1, C1])]));
    for (limit, expected) in [("3", [A1, A1, A2].as_slice()), ("1", &[A1]), ("0", &[])] {
        let limited = schema("nested_update", &[("fields.v.count-limit", limit)]);
        let found = merged(&limited, &rows).unwrap();
        assert_eq!(&found, &list(&[Some(expected)]), "{limit}");
    }
    let keyed = [("fields.v.nested-key", "k"), ("fields.v.count-limit", "1")];
    let rows: [(i8, Option<&[Item]>); 2] = [(0, Some(&[A1])), (0, Some(&[A2, B1]))];
    let found = merged(&schema("nested_update", &keyed), &rows).unwrap();
    assert_eq!(&found, &list(&[Some(&[B1])]));
    // All equal elements are taken back.
    let rows: [(i8, Option<&[Item]>); 2] = [(0, Some(&[A1, A2, A1])), (3, Some(&[A1]))];
    let found = merged(&schema("nested_update", &[]), &rows).unwrap();
    assert_eq!(&found, &list(&[Some(&[A2])]));
}

#[test]
fn values_that_are_not_null_replace_those_of_their_element() {
    let options = [("fields.v.nested-key", "k")];
    let schema = schema("nested_partial_update", &options);
    let rows: [(i8, Option<&[Item]>); 3] = [
        (0, Some(&[A2, A1, None])),
        (0, Some(&[B2])),
        (0, Some(&[B1, NO_KEY])),
    ];
    let both = Some((Some(2), Some("x"), Some(9)));
    let expected = list(&[Some(&[both, B1, NO_KEY])]);
    assert_eq!(&merged(&schema, &rows).unwrap(), &expected);
    let deleted: [(i8, Option<&[Item]>); 2] = [(0, Some(&[A2])), (3, Some(&[A2]))];
    let error = merged(&schema, &deleted).unwrap_err().to_string();
    assert!(error.contains("ignore-retract"), "{error}");
}

#[test]
fn options_that_do_not_fit_are_named() {
    for (function, options, says) in [
        ("nested_partial_update", vec![], "nested-key"),
        (
            "nested_update",
            vec![("fields.v.nested-key", "z")],
            "names z",
        ),
        (
            "nested_update",
            vec![("fields.v.nested-sequence-field", "t")],
            "option nested-key",
        ),
        (
            "nested_update",
            vec![("fields.v.count-limit", "-1")],
            "count-limit",
        ),
        ("rbm32", vec![], "VARBINARY"),
        ("merge_map_with_keytime", vec![], "a MAP"),
        ("hll_sketch", vec![], "sketches"),
    ] {
        let error = crate::merge::function(&schema(function, &options)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
