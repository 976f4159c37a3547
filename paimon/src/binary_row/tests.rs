use std::{collections::BTreeMap, slice::from_ref, sync::Arc};

use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, Time32MillisecondArray,
};
use arrow_array::{TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray};

use super::*;

/// Rows that Java Paimon wrote into tables of 7 buckets, the bucket each landed in, and the key's
/// BinaryRow as Java serializes it.
#[derive(serde::Deserialize)]
pub(crate) struct Vector {
    pub(crate) table: String,
    pub(crate) buckets: i32,
    pub(crate) bucket: i32,
    types: Vec<String>,
    values: Vec<String>,
    row: String,
}

/// A table's key columns with what Java made of each row.
pub(crate) struct VectorTable {
    pub(crate) types: Vec<DataType>,
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) vectors: Vec<Vector>,
}

pub(crate) fn vector_tables() -> Vec<VectorTable> {
    let text = include_str!("../../tests/data/binary_rows.jsonl");
    let mut tables: BTreeMap<String, Vec<Vector>> = BTreeMap::new();
    for line in text.lines() {
        let vector: Vector = serde_json::from_str(line).unwrap();
        tables.entry(vector.table.clone()).or_default().push(vector);
    }
    tables
        .into_values()
        .map(|vectors| {
            let types: Vec<DataType> = vectors[0]
                .types
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
            let columns = types
                .iter()
                .enumerate()
                .map(|(at, data_type)| {
                    let texts: Vec<&str> =
                        vectors.iter().map(|row| row.values[at].as_str()).collect();
                    column(data_type, &texts)
                })
                .collect();
            VectorTable {
                types,
                columns,
                vectors,
            }
        })
        .collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn column(data_type: &DataType, texts: &[&str]) -> ArrayRef {
    fn all<T: std::str::FromStr<Err: std::fmt::Debug>>(texts: &[&str]) -> Vec<T> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }
    // "milliseconds,nanoseconds of the millisecond"
    let ticks = |per_milli: i64| -> Vec<i64> {
        texts
            .iter()
            .map(|text| {
                let (millis, nanos) = text.split_once(',').unwrap();
                let nanos: i64 = nanos.parse().unwrap();
                millis.parse::<i64>().unwrap() * per_milli + nanos * per_milli / 1_000_000
            })
            .collect()
    };
    let zone = match data_type {
        DataType::TimestampLtz(_) => Some("UTC"),
        _ => None,
    };
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(all::<bool>(texts))),
        DataType::TinyInt => Arc::new(Int8Array::from(all::<i8>(texts))),
        DataType::SmallInt => Arc::new(Int16Array::from(all::<i16>(texts))),
        DataType::Int => Arc::new(Int32Array::from(all::<i32>(texts))),
        DataType::Date => Arc::new(Date32Array::from(all::<i32>(texts))),
        DataType::Time(_) => Arc::new(Time32MillisecondArray::from(all::<i32>(texts))),
        DataType::BigInt => Arc::new(Int64Array::from(all::<i64>(texts))),
        DataType::Float => Arc::new(Float32Array::from(all::<f32>(texts))),
        DataType::Double => Arc::new(Float64Array::from(all::<f64>(texts))),
        DataType::Decimal(precision, scale) => Arc::new(
            Decimal128Array::from(all::<i128>(texts))
                .with_precision_and_scale(*precision, *scale as i8)
                .unwrap(),
        ),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => {
            Arc::new(StringArray::from(texts.to_vec()))
        }
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => Arc::new(
            BinaryArray::from_iter_values(texts.iter().map(|text| unhex(text))),
        ),
        DataType::Timestamp(digits) | DataType::TimestampLtz(digits) => match digits {
            0..=3 => Arc::new(TimestampMillisecondArray::from(ticks(1)).with_timezone_opt(zone)),
            4..=6 => {
                Arc::new(TimestampMicrosecondArray::from(ticks(1_000)).with_timezone_opt(zone))
            }
            _ => Arc::new(TimestampNanosecondArray::from(ticks(1_000_000)).with_timezone_opt(zone)),
        },
        DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => {
            unreachable!()
        }
    }
}

#[test]
fn rows_are_byte_for_byte_what_java_writes_and_read_back() {
    let mut rows = 0;
    for table in vector_tables() {
        let encoder = RowEncoder::new(table.columns.iter().zip(&table.types)).unwrap();
        let mut writer = BinaryRowWriter::new(encoder.arity());
        for (row, vector) in table.vectors.iter().enumerate() {
            let expected = unhex(&vector.row);
            encoder.encode(row, &mut writer);
            assert_eq!(writer.serialized(), expected, "{} {row}", vector.table);
            let values = decode(&expected, &table.types).unwrap();
            assert_eq!(encode(&values, &table.types).unwrap(), expected);
            let columns = table.columns.iter().zip(&table.types);
            for ((array, data_type), value) in columns.zip(values) {
                let own = Column::new(array, data_type).unwrap().value(row);
                assert_eq!(
                    encode(&[own], from_ref(data_type)).unwrap(),
                    encode(&[value], from_ref(data_type)).unwrap()
                );
            }
            rows += 1;
        }
    }
    assert!(rows > 150);
}

#[test]
fn nulls_set_their_bit_and_keep_their_place() {
    let types = [
        DataType::Int,
        DataType::Decimal(38, 2),
        DataType::Timestamp(6),
        DataType::String,
    ];
    let null = Value::<&[u8]>::Null;
    let bytes = encode(&[null; 4], &types).unwrap();
    assert_eq!(bytes.len(), 4 + 8 + 4 * 8 + 16 + 8);
    assert_eq!(bytes[5], 0b1111);
    // The offsets of the decimal and the timestamp.
    assert_eq!((bytes[24], bytes[32]), (40, 56));
    assert_eq!(decode(&bytes, &types).unwrap(), [null; 4]);
    let many = vec![DataType::Int; 57];
    let bytes = encode(&[null; 57], &many).unwrap();
    assert_eq!(bytes.len(), 4 + 16 + 57 * 8);
    assert_eq!(decode(&bytes, &many).unwrap().len(), 57);
}

#[test]
fn no_row_is_twelve_zero_bytes() {
    assert_eq!(encode::<Vec<u8>>(&[], &[]).unwrap(), [0; 12]);
}

#[test]
fn keys_have_the_order_of_java() {
    let order = |data_type: DataType, a: Value<&[u8]>, b: Value<&[u8]>| {
        let types = [data_type];
        let row = |value| encode(&[value], &types).unwrap();
        compare_keys(&types, &row(a), &row(b)).unwrap()
    };
    use Ordering::{Greater, Less};
    assert_eq!(order(DataType::Int, Value::Int(-1), Value::Int(1)), Less);
    let (z, e) = (Value::Bytes(&b"Z"[..]), Value::Bytes("é".as_bytes()));
    assert_eq!(order(DataType::String, z, e), Less);
    let (low, high) = (Value::Double(-0.0), Value::Double(0.0));
    assert_eq!(order(DataType::Double, low, high), Less);
    let (nan, infinity) = (Value::Float(-f32::NAN), Value::Float(f32::INFINITY));
    assert_eq!(order(DataType::Float, nan, infinity), Greater);
    assert_eq!(
        order(DataType::Int, Value::Null, Value::Int(i32::MIN)),
        Less
    );
    let types = [DataType::Int];
    assert_eq!(compare_keys(&types, &[0; 12], &[0; 12]), None);
}

proptest::proptest! {
    #[test]
    fn any_decimal_reads_back(digits: i128) {
        let types = [DataType::Decimal(38, 0)];
        let bytes = encode(&[Value::<&[u8]>::Decimal(digits)], &types).unwrap();
        proptest::prop_assert_eq!(decode(&bytes, &types).unwrap(), [Value::Decimal(digits)]);
    }

    #[test]
    fn foreign_bytes_never_panic(bytes: Vec<u8>) {
        let types = [
            DataType::Int, DataType::String, DataType::Decimal(38, 2), DataType::Timestamp(6),
        ];
        let mut framed = 4_u32.to_be_bytes().to_vec();
        framed.extend(&bytes);
        let _ = decode(&bytes, &types);
        let _ = decode(&framed, &types);
    }
}
