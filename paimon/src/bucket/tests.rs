use std::{collections::BTreeMap, sync::Arc};

use arrow_array::Int64Array;

use super::*;
use crate::{binary_row::tests::vector_tables, data_type::DataField};

fn schema(types: &[DataType], buckets: i32) -> Schema {
    let fields: Vec<DataField> = types
        .iter()
        .enumerate()
        .map(|(at, data_type)| DataField {
            id: at as i32,
            name: format!("c{at}"),
            data_type: data_type.clone(),
            nullable: false,
            description: None,
            default_value: None,
        })
        .collect();
    Schema {
        version: 3,
        id: 0,
        highest_field_id: fields.len() as i32,
        primary_keys: fields.iter().map(|field| field.name.clone()).collect(),
        fields,
        partition_keys: Vec::new(),
        options: BTreeMap::from([("bucket".to_owned(), buckets.to_string())]),
        comment: None,
        time_millis: 0,
    }
}

#[test]
fn rows_land_where_java_puts_them() {
    for table in vector_tables() {
        let schema = schema(&table.types, table.vectors[0].buckets);
        let assigned = BucketAssigner::new(&schema)
            .unwrap()
            .assign(&table.columns)
            .unwrap();
        for (bucket, vector) in assigned.into_iter().zip(&table.vectors) {
            assert_eq!(bucket, vector.bucket, "{}", vector.table);
        }
    }
}

#[test]
fn the_short_way_of_one_integer_is_the_long_way() {
    for value in [0, 1, -1, i64::MIN, i64::MAX, 77_777_777_777] {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let encoder = RowEncoder::new([(&column, &DataType::BigInt)]).unwrap();
        let mut writer = BinaryRowWriter::new(1);
        encoder.encode(0, &mut writer);
        assert_eq!(hash(writer.row()), hash_of_word(value as u64));
    }
    assert_eq!(bucket_of(i32::MIN, 1), 0);
    assert_eq!(bucket_of(i32::MIN, 7), 2);
}

#[test]
fn other_bucket_modes_are_refused() {
    for buckets in [-2, -1, 0] {
        assert!(BucketAssigner::new(&schema(&[DataType::Int], buckets)).is_err());
    }
}
