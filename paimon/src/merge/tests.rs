use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray,
};
use serde_json::Value;

use super::{order::SequenceOrder, *};
use crate::{DataType, Schema, data_file::kind, fixture::fixture};

/// A table that Java Paimon 1.4.2 wrote without compacting, and what it reads from it.
#[derive(serde::Deserialize)]
struct Case {
    name: String,
    columns: Vec<(String, String)>,
    options: std::collections::BTreeMap<String, String>,
    /// Of each commit its rows: the kind, then the values.
    commits: Vec<Vec<Vec<Value>>>,
    expected: Vec<Vec<Value>>,
}

fn schema(case: &Case) -> Schema {
    let columns: Vec<(&str, &str)> = case
        .columns
        .iter()
        .map(|(name, data_type)| (name.as_str(), data_type.as_str()))
        .collect();
    let options: Vec<(&str, &str)> = case
        .options
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let fixture = fixture(&columns, &["id"], &[], &options);
    fixture.table.schema().as_ref().clone()
}

/// Digits of a decimal as Java prints it.
fn digits(value: &Value, scale: u8) -> Option<i128> {
    let text = value.as_str()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = format!("{fraction:0<width$}", width = usize::from(scale));
    Some(format!("{whole}{fraction}").parse().unwrap())
}

fn array(data_type: &DataType, values: &[&Value]) -> ArrayRef {
    let ints = || values.iter().map(|value| value.as_i64());
    let floats = || values.iter().map(|value| value.as_f64());
    match data_type {
        DataType::TinyInt => Arc::new(Int8Array::from_iter(ints().map(|v| v.map(|v| v as i8)))),
        DataType::SmallInt => Arc::new(Int16Array::from_iter(ints().map(|v| v.map(|v| v as i16)))),
        DataType::Int => Arc::new(Int32Array::from_iter(ints().map(|v| v.map(|v| v as i32)))),
        DataType::BigInt => Arc::new(Int64Array::from_iter(ints())),
        DataType::Float => Arc::new(Float32Array::from_iter(
            floats().map(|v| v.map(|v| v as f32)),
        )),
        DataType::Double => Arc::new(Float64Array::from_iter(floats())),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            values.iter().map(|value| value.as_bool()),
        )),
        DataType::String => Arc::new(StringArray::from_iter(
            values.iter().map(|value| value.as_str()),
        )),
        DataType::Decimal(precision, scale) => {
            let values = values.iter().map(|value| digits(value, *scale));
            let array = Decimal128Array::from_iter(values);
            Arc::new(
                array
                    .with_precision_and_scale(*precision, *scale as i8)
                    .unwrap(),
            )
        }
        other => panic!("{other}"),
    }
}

fn columns(schema: &Schema, rows: &[&[Value]]) -> Vec<ArrayRef> {
    let fields = schema.fields.iter().enumerate();
    fields
        .map(|(at, field)| {
            let values: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
            array(&field.data_type, &values)
        })
        .collect()
}

fn kind_of(name: &str) -> i8 {
    match name {
        "+I" => kind::INSERT,
        "-U" => kind::UPDATE_BEFORE,
        "+U" => kind::UPDATE_AFTER,
        "-D" => kind::DELETE,
        other => panic!("{other}"),
    }
}

/// The rows of a case in the order in which they are merged, with the ends of the groups.
fn groups(case: &Case, schema: &Schema) -> (KeyValueBatch, Vec<usize>) {
    let rows: Vec<(usize, &Vec<Value>)> = case
        .commits
        .iter()
        .enumerate()
        .flat_map(|(commit, rows)| rows.iter().map(move |row| (commit, row)))
        .collect();
    let values: Vec<&[Value]> = rows.iter().map(|(_, row)| &row[1..]).collect();
    let by_columns = SequenceOrder::new(schema).unwrap();
    let by_columns = by_columns.rows(&columns(schema, &values)).unwrap();
    let key = |at: usize| values[at][0].as_i64().unwrap();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| {
        let columns = by_columns.as_ref();
        let columns = columns.map(|rows| rows.row(*a).cmp(&rows.row(*b)));
        key(*a)
            .cmp(&key(*b))
            .then(columns.unwrap_or(std::cmp::Ordering::Equal))
            .then(rows[*a].0.cmp(&rows[*b].0))
    });
    let sorted: Vec<&[Value]> = order.iter().map(|at| values[*at]).collect();
    let ends = (1..=order.len()).filter(|end| {
        let next = order.get(*end).map(|at| key(*at));
        next != Some(key(order[end - 1]))
    });
    let kinds = order
        .iter()
        .map(|at| kind_of(rows[*at].1[0].as_str().unwrap()));
    let sequences = order.iter().map(|at| rows[*at].0 as i64);
    let batch = KeyValueBatch {
        columns: columns(schema, &sorted),
        sequences: Int64Array::from_iter_values(sequences),
        kinds: Int8Array::from_iter_values(kinds),
    };
    (batch, ends.collect())
}

/// Rows that are no deletes.
fn alive(batch: &KeyValueBatch) -> Vec<ArrayRef> {
    let alive = batch
        .kinds
        .iter()
        .map(|kind| kind.map(|kind| !pick::is_retract(kind)));
    let alive = BooleanArray::from_iter(alive);
    let columns = batch.columns.iter();
    columns
        .map(|column| arrow_select::filter::filter(column, &alive).unwrap())
        .collect()
}

fn cases() -> Vec<Case> {
    include_str!("../../tests/data/merge_engines.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn rows_of_a_key_become_what_java_makes_of_them() {
    let mut failed = Vec::new();
    for case in cases() {
        let schema = schema(&case);
        check(&schema).unwrap();
        let (batch, ends) = groups(&case, &schema);
        assert!(ends.len() > 30, "{}", case.name);
        let function = function(&schema).unwrap();
        let groups = Groups {
            rows: &batch,
            ends: &ends,
        };
        let (merged, numbers) = function.merge(&groups).unwrap();
        assert_eq!(merged.rows(), numbers.len());
        let ours = alive(&merged);
        let expected: Vec<&[Value]> = case.expected.iter().map(Vec::as_slice).collect();
        let theirs = columns(&schema, &expected);
        for (field, (ours, theirs)) in schema.fields.iter().zip(ours.iter().zip(&theirs)) {
            if ours != theirs {
                failed.push(format!(
                    "{}.{}:\n{ours:?}\n{theirs:?}",
                    case.name, field.name
                ));
            }
        }
        // However the rows are cut into batches, whole keys come out the same.
        let half = ends.len() / 2;
        let split = ends[half - 1];
        let second: Vec<usize> = ends[half..].iter().map(|end| end - split).collect();
        let parts = [
            (batch.slice(0, split), ends[..half].to_vec()),
            (batch.slice(split, batch.rows() - split), second),
        ];
        let parts = parts.map(|(rows, ends)| {
            let groups = Groups {
                rows: &rows,
                ends: &ends,
            };
            function.merge(&groups).unwrap().0
        });
        let kinds: Vec<i8> = parts
            .iter()
            .flat_map(|p| p.kinds.values().to_vec())
            .collect();
        assert_eq!(&kinds[..], &merged.kinds.values()[..], "{}", case.name);
        let sequences: Vec<i64> = parts
            .iter()
            .flat_map(|p| p.sequences.values().to_vec())
            .collect();
        assert_eq!(
            &sequences[..],
            &merged.sequences.values()[..],
            "{}",
            case.name
        );
        for (at, column) in merged.columns.iter().enumerate() {
            let halves: Vec<&dyn Array> = parts.iter().map(|p| p.columns[at].as_ref()).collect();
            let whole = arrow_select::concat::concat(&halves).unwrap();
            assert_eq!(&whole, column, "{}", case.name);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A table `id INT, v …` with options, and what its function makes of one key's rows.
fn merge_one(
    data_type: &str,
    options: &[(&str, &str)],
    rows: &[(i8, Value)],
) -> Result<(KeyValueBatch, Vec<usize>)> {
    let columns = [("id", "INT NOT NULL"), ("v", data_type)];
    let fixture = fixture(&columns, &["id"], &[], options);
    let schema = fixture.table.schema();
    let values: Vec<Vec<Value>> = rows
        .iter()
        .map(|row| vec![1.into(), row.1.clone()])
        .collect();
    let values: Vec<&[Value]> = values.iter().map(Vec::as_slice).collect();
    let batch = KeyValueBatch {
        columns: self::columns(schema, &values),
        sequences: Int64Array::from_iter_values(0..rows.len() as i64),
        kinds: Int8Array::from_iter_values(rows.iter().map(|row| row.0)),
    };
    function(schema)?.merge(&Groups {
        rows: &batch,
        ends: &[rows.len()],
    })
}

#[test]
fn what_an_engine_cannot_do_is_an_error_that_says_what_to_set() {
    let aggregate = |function| {
        [
            ("merge-engine", "aggregation"),
            ("fields.v.aggregate-function", function),
        ]
    };
    let two = |a: i32, b: i32| [(0, a.into()), (0, b.into())];
    let deleted = [(0, 1.into()), (3, 1.into())];
    for (data_type, options, rows, says) in [
        (
            "TINYINT",
            aggregate("sum").to_vec(),
            two(127, 1),
            "column v, aggregate function sum",
        ),
        (
            "INT",
            aggregate("product").to_vec(),
            two(1 << 30, 2),
            "give it a wider one",
        ),
        (
            "INT",
            aggregate("max").to_vec(),
            deleted.clone(),
            "ignore-retract",
        ),
        (
            "STRING",
            aggregate("sum").to_vec(),
            two(1, 1),
            "needs a number",
        ),
        (
            "INT",
            aggregate("listagg").to_vec(),
            two(1, 1),
            "needs a STRING",
        ),
        (
            "INT",
            aggregate("count").to_vec(),
            two(1, 1),
            "no such function",
        ),
        (
            "INT",
            vec![("merge-engine", "partial-update")],
            deleted.clone(),
            "ignore-delete",
        ),
        (
            "INT",
            vec![("merge-engine", "first-row")],
            deleted.clone(),
            "ignore-delete",
        ),
        (
            "INT",
            vec![("merge-engine", "last-row")],
            two(1, 1),
            "merge-engine",
        ),
        (
            "INT",
            vec![
                ("merge-engine", "partial-update"),
                ("fields.x.sequence-group", "v"),
            ],
            two(1, 1),
            "column x",
        ),
        (
            "INT",
            vec![
                ("merge-engine", "partial-update"),
                ("fields.v.sequence-group", "id"),
            ],
            two(1, 1),
            "key column id",
        ),
    ] {
        let error = merge_one(data_type, &options, &rows)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn deletes_that_are_ignored_leave_no_row_and_one_row_stays_as_it_is() {
    let rows = [(3, 1.into()), (1, 2.into())];
    for engine in ["deduplicate", "first-row"] {
        let options = [("merge-engine", engine), ("ignore-delete", "true")];
        let (merged, numbers) = merge_one("INT", &options, &rows).unwrap();
        assert_eq!((merged.rows(), numbers.len()), (0, 0), "{engine}");
        let (merged, _) = merge_one("INT", &options, &rows[..1]).unwrap();
        assert_eq!(merged.kinds.values(), &[kind::DELETE], "{engine}");
    }
    let options = [("merge-engine", "partial-update")];
    let (merged, _) = merge_one("INT", &options, &rows[..1]).unwrap();
    assert_eq!(merged.kinds.values(), &[kind::DELETE]);
}

#[test]
fn a_first_delete_of_an_aggregate_is_taken_from_nothing() {
    let options = [
        ("merge-engine", "aggregation"),
        ("fields.v.aggregate-function", "sum"),
    ];
    let rows = [(3, 5.into()), (0, 2.into())];
    let (merged, _) = merge_one("INT", &options, &rows).unwrap();
    assert_eq!(merged.columns[1].as_ref(), &Int32Array::from(vec![-3]));
    assert_eq!((merged.kinds.value(0), merged.sequences.value(0)), (0, 1));
}

fn list(rows: &[Option<&[i32]>]) -> ArrayRef {
    let rows = rows
        .iter()
        .map(|row| row.map(|row| row.iter().map(|value| Some(*value)).collect::<Vec<_>>()));
    let list =
        arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>(rows);
    let field = arrow_schema::Field::new("element", arrow_schema::DataType::Int32, true);
    let (_, offsets, values, nulls) = list.into_parts();
    Arc::new(arrow_array::ListArray::new(
        field.into(),
        offsets,
        values,
        nulls,
    ))
}

#[test]
fn arrays_are_put_together_and_taken_apart() {
    let rows: [Option<&[i32]>; 5] = [
        Some(&[1, 2, 2]),
        None,
        Some(&[2, 3]),
        Some(&[2, 9]),
        Some(&[]),
    ];
    for (distinct, expected) in [
        ("false", [1, 2, 2, 3].as_slice()),
        ("true", [1, 3].as_slice()),
    ] {
        let options = [
            ("merge-engine", "aggregation"),
            ("fields.v.aggregate-function", "collect"),
            ("fields.v.distinct", distinct),
        ];
        let fixture = fixture(
            &[("id", "INT NOT NULL"), ("v", "ARRAY<INT>")],
            &["id"],
            &[],
            &options,
        );
        let batch = KeyValueBatch {
            columns: vec![Arc::new(Int32Array::from(vec![1; 5])), list(&rows)],
            sequences: Int64Array::from_iter_values(0..5),
            kinds: Int8Array::from(vec![0, 0, 2, 3, 0]),
        };
        let groups = Groups {
            rows: &batch,
            ends: &[5],
        };
        let function = function(fixture.table.schema()).unwrap();
        let (merged, _) = function.merge(&groups).unwrap();
        assert_eq!(&merged.columns[1], &list(&[Some(expected)]), "{distinct}");
    }
}
