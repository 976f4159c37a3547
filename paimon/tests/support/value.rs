//! Types and values of test tables: random ones, as Arrow arrays, and as the canonical text that all
//! readers of the tests print (`tests/oracle/src/Row.java`).

use std::{fmt, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, ListArray, MapArray,
    PrimitiveArray, StringArray, StructArray, cast::AsArray, types::*,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use rand::{Rng, rngs::StdRng};
use serde_json::{Value as Json, json};

/// A column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    Decimal(u8, u8),
    VarChar(u32),
    Text,
    Bytes,
    Date,
    Time(u8),
    Timestamp(u8),
    TimestampLtz(u8),
    Array(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Row(Vec<(&'static str, Type)>),
}

impl Type {
    /// As schema files have it.
    pub fn json(&self) -> Json {
        match self {
            Self::Array(item) => json!({"type": "ARRAY", "element": item.json()}),
            Self::Map(key, value) => {
                json!({"type": "MAP", "key": key.json(), "value": value.json()})
            }
            Self::Row(fields) => {
                let fields = (0..).zip(fields);
                let fields: Vec<Json> = fields
                    .map(|(id, (name, kind))| json!({"id": id, "name": name, "type": kind.json()}))
                    .collect();
                json!({"type": "ROW", "fields": fields})
            }
            plain => json!(plain.to_string()),
        }
    }
}

/// As SQL.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::TinyInt => f.write_str("TINYINT"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Int => f.write_str("INT"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal(precision, scale) => write!(f, "DECIMAL({precision}, {scale})"),
            Self::VarChar(length) => write!(f, "VARCHAR({length})"),
            Self::Text => f.write_str("STRING"),
            Self::Bytes => f.write_str("BYTES"),
            Self::Date => f.write_str("DATE"),
            Self::Time(digits) => write!(f, "TIME({digits})"),
            Self::Timestamp(digits) => write!(f, "TIMESTAMP({digits})"),
            Self::TimestampLtz(digits) => write!(f, "TIMESTAMP({digits}) WITH LOCAL TIME ZONE"),
            Self::Array(item) => write!(f, "ARRAY<{item}>"),
            Self::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
            Self::Row(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, kind)| format!("{name} {kind}"))
                    .collect();
                write!(f, "ROW<{}>", fields.join(", "))
            }
        }
    }
}

/// A value, without its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Boolean(bool),
    /// Integers, days of a DATE, milliseconds of a TIME, nanoseconds of a TIMESTAMP since the epoch.
    Int(i64),
    Float(f64),
    /// Without its scale.
    Decimal(i128),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Row(Vec<Value>),
}

impl Value {
    /// Any value of the type but NULL.
    pub fn random(kind: &Type, rng: &mut StdRng) -> Self {
        let mut edge = |values: &[i64]| {
            let at = rng.random_range(0..values.len() * 2);
            let some = rng.random_range(-100..100);
            Self::Int(values.get(at).copied().unwrap_or(some))
        };
        match kind {
            Type::Boolean => Self::Boolean(rng.random()),
            Type::TinyInt => edge(&[-128, 127]),
            Type::SmallInt => edge(&[-32768, 32767]),
            // Not the greatest, so that sums stay within the type.
            Type::Int => edge(&[-1_000_000, 1_000_000]),
            Type::BigInt => edge(&[i64::MIN / 1024, i64::MAX / 1024]),
            // Quarters are the same number in both.
            Type::Float | Type::Double => {
                Self::Float(f64::from(rng.random_range(-4000i32..4000)) / 4.0)
            }
            Type::Decimal(precision, _) => {
                let bound = 10i128.pow(u32::from(*precision) - 3);
                Self::Decimal(rng.random_range(-bound..bound))
            }
            Type::VarChar(_) | Type::Text => {
                let texts = ["", "a", "wörld", "水🚀", "q\"\\\n", "zzzzzzz", "8 bytes!"];
                let mut text = texts[rng.random_range(0..texts.len())].to_owned();
                if *kind == Type::Text && rng.random_bool(0.2) {
                    text.push_str(&"x".repeat(rng.random_range(0..60)));
                }
                Self::Text(text)
            }
            Type::Bytes => {
                let length = rng.random_range(0..20);
                Self::Bytes((0..length).map(|_| rng.random()).collect())
            }
            Type::Date => Self::Int(rng.random_range(-30_000..40_000)),
            Type::Time(digits) => {
                let step = 10i64.pow(3 - u32::from(*digits).min(3));
                Self::Int(rng.random_range(0..86_400_000) / step * step)
            }
            Type::Timestamp(digits) | Type::TimestampLtz(digits) => {
                let step = 10i64.pow(9 - u32::from(*digits));
                let nanos = rng.random_range(-4_000_000_000i64..8_000_000_000) * 1_000_000_000
                    + rng.random_range(0..1_000_000_000i64);
                Self::Int(nanos.div_euclid(step) * step)
            }
            Type::Array(item) => {
                let length = rng.random_range(0..4);
                Self::List((0..length).map(|_| Self::maybe(item, rng)).collect())
            }
            Type::Map(key, value) => {
                let length = rng.random_range(0..4);
                let key = |at: i64| match **key {
                    Type::Text => Self::Text(format!("k{at}")),
                    _ => Self::Int(at * 1000 - 1000),
                };
                let pairs = (0..length)
                    .map(|at| (key(at), Self::maybe(value, rng)))
                    .collect();
                Self::Map(pairs)
            }
            Type::Row(fields) => Self::Row(
                fields
                    .iter()
                    .map(|(_, kind)| Self::maybe(kind, rng))
                    .collect(),
            ),
        }
    }

    /// Any value of the type, now and then NULL.
    pub fn maybe(kind: &Type, rng: &mut StdRng) -> Self {
        match rng.random_bool(0.2) {
            true => Self::Null,
            false => Self::random(kind, rng),
        }
    }

    /// Canonical text.
    pub fn text(&self, kind: &Type) -> String {
        match (self, kind) {
            (Self::Null, _) => "null".to_owned(),
            (Self::Boolean(value), _) => value.to_string(),
            (Self::Int(days), Type::Date) => quoted(&date_time(days * 86_400, 0, 0)[..10]),
            (Self::Int(millis), Type::Time(digits)) => {
                let nanos = millis % 1000 * 1_000_000;
                quoted(&date_time(millis / 1000, nanos, *digits)[11..])
            }
            (Self::Int(nanos), Type::Timestamp(digits) | Type::TimestampLtz(digits)) => {
                let seconds = nanos.div_euclid(1_000_000_000);
                let zone = match kind {
                    Type::TimestampLtz(_) => "Z",
                    _ => "",
                };
                let text = date_time(seconds, nanos.rem_euclid(1_000_000_000), *digits);
                quoted(&(text + zone))
            }
            (Self::Int(value), _) => value.to_string(),
            (Self::Float(value), _) => format!("{value:e}"),
            (Self::Decimal(value), Type::Decimal(_, scale)) => {
                let digits = format!(
                    "{:0>1$}",
                    value.unsigned_abs().to_string(),
                    usize::from(*scale) + 1
                );
                let (whole, rest) = digits.split_at(digits.len() - usize::from(*scale));
                let sign = if *value < 0 { "-" } else { "" };
                let point = if *scale > 0 { "." } else { "" };
                quoted(&format!("{sign}{whole}{point}{rest}"))
            }
            (Self::Text(text), _) => quoted(text),
            (Self::Bytes(bytes), _) => quoted(&base64(bytes)),
            (Self::List(items), Type::Array(item)) => {
                let items: Vec<String> = items.iter().map(|value| value.text(item)).collect();
                format!("[{}]", items.join(","))
            }
            (Self::Map(pairs), Type::Map(key, item)) => {
                let mut pairs: Vec<String> = pairs
                    .iter()
                    .map(|(name, value)| format!("[{},{}]", name.text(key), value.text(item)))
                    .collect();
                pairs.sort();
                format!("[{}]", pairs.join(","))
            }
            (Self::Row(values), Type::Row(fields)) => object(
                fields
                    .iter()
                    .zip(values)
                    .map(|((name, kind), value)| (*name, kind, value)),
            ),
            (value, kind) => panic!("{value:?} is no {kind}"),
        }
    }

    /// The value in a row of an array.
    pub fn at(array: &ArrayRef, row: usize) -> Self {
        macro_rules! int {
            ($t:ty) => {
                Self::Int(i64::from(array.as_primitive::<$t>().value(row)))
            };
        }
        if array.is_null(row) {
            return Self::Null;
        }
        let all = |items: ArrayRef| -> Vec<Self> {
            (0..items.len())
                .map(|item| Self::at(&items, item))
                .collect()
        };
        match array.data_type() {
            ArrowType::Boolean => Self::Boolean(array.as_boolean().value(row)),
            ArrowType::Int8 => int!(Int8Type),
            ArrowType::Int16 => int!(Int16Type),
            ArrowType::Int32 => int!(Int32Type),
            ArrowType::Int64 => int!(Int64Type),
            ArrowType::Float32 => {
                Self::Float(array.as_primitive::<Float32Type>().value(row).into())
            }
            ArrowType::Float64 => Self::Float(array.as_primitive::<Float64Type>().value(row)),
            ArrowType::Decimal128(..) => {
                Self::Decimal(array.as_primitive::<Decimal128Type>().value(row))
            }
            ArrowType::Utf8 => Self::Text(array.as_string::<i32>().value(row).to_owned()),
            ArrowType::Binary => Self::Bytes(array.as_binary::<i32>().value(row).to_vec()),
            ArrowType::Date32 => int!(Date32Type),
            ArrowType::Time32(_) => int!(Time32MillisecondType),
            ArrowType::Timestamp(unit, _) => Self::Int(match unit {
                TimeUnit::Second => panic!("no column is in seconds"),
                TimeUnit::Millisecond => {
                    array.as_primitive::<TimestampMillisecondType>().value(row) * 1_000_000
                }
                TimeUnit::Microsecond => {
                    array.as_primitive::<TimestampMicrosecondType>().value(row) * 1_000
                }
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
            }),
            ArrowType::List(_) => Self::List(all(array.as_list::<i32>().value(row))),
            ArrowType::Map(..) => {
                let entries = array.as_map().value(row);
                let keys = all(entries.column(0).clone());
                Self::Map(
                    keys.into_iter()
                        .zip(all(entries.column(1).clone()))
                        .collect(),
                )
            }
            ArrowType::Struct(_) => {
                let columns = array.as_struct().columns().iter();
                Self::Row(columns.map(|column| Self::at(column, row)).collect())
            }
            other => panic!("no value of {other}"),
        }
    }

    fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }
}

/// Values of one column as an array of that type.
pub fn array(values: &[Value], kind: &ArrowType) -> ArrayRef {
    macro_rules! ints {
        ($t:ty) => {
            Arc::new(
                values
                    .iter()
                    .map(|value| value.int().map(|value| value.try_into().unwrap()))
                    .collect::<PrimitiveArray<$t>>()
                    .with_data_type(kind.clone()),
            ) as ArrayRef
        };
        ($t:ty, $nanos:expr) => {
            Arc::new(
                values
                    .iter()
                    .map(|value| value.int().map(|value| value.div_euclid($nanos)))
                    .collect::<PrimitiveArray<$t>>()
                    .with_data_type(kind.clone()),
            ) as ArrayRef
        };
    }
    let nulls = || NullBuffer::from_iter(values.iter().map(|value| *value != Value::Null));
    match kind {
        ArrowType::Boolean => Arc::new(BooleanArray::from_iter(values.iter().map(
            |value| match value {
                Value::Boolean(value) => Some(*value),
                _ => None,
            },
        ))),
        ArrowType::Int8 => ints!(Int8Type),
        ArrowType::Int16 => ints!(Int16Type),
        ArrowType::Int32 => ints!(Int32Type),
        ArrowType::Int64 => ints!(Int64Type),
        ArrowType::Date32 => ints!(Date32Type),
        ArrowType::Time32(TimeUnit::Millisecond) => ints!(Time32MillisecondType),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
            ints!(TimestampMillisecondType, 1_000_000)
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => ints!(TimestampMicrosecondType, 1_000),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => ints!(TimestampNanosecondType, 1),
        ArrowType::Float32 => Arc::new(PrimitiveArray::<Float32Type>::from_iter(
            values.iter().map(|value| value.float().map(|v| v as f32)),
        )),
        ArrowType::Float64 => Arc::new(PrimitiveArray::<Float64Type>::from_iter(
            values.iter().map(Value::float),
        )),
        ArrowType::Decimal128(precision, scale) => Arc::new(
            Decimal128Array::from_iter(values.iter().map(|value| match value {
                Value::Decimal(value) => Some(*value),
                _ => None,
            }))
            .with_precision_and_scale(*precision, *scale)
            .unwrap(),
        ),
        ArrowType::Utf8 => Arc::new(StringArray::from_iter(values.iter().map(
            |value| match value {
                Value::Text(text) => Some(text),
                _ => None,
            },
        ))),
        ArrowType::Binary => Arc::new(BinaryArray::from_iter(values.iter().map(
            |value| match value {
                Value::Bytes(bytes) => Some(bytes),
                _ => None,
            },
        ))),
        ArrowType::List(item) => {
            let lists = values.iter().map(|value| match value {
                Value::List(items) => items.clone(),
                _ => Vec::new(),
            });
            let lists: Vec<Vec<Value>> = lists.collect();
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
            let items = array(&lists.concat(), item.data_type());
            Arc::new(ListArray::new(item.clone(), offsets, items, Some(nulls())))
        }
        ArrowType::Map(entry, sorted) => {
            let maps = values.iter().map(|value| match value {
                Value::Map(pairs) => pairs.clone(),
                _ => Vec::new(),
            });
            let maps: Vec<Vec<(Value, Value)>> = maps.collect();
            let offsets = OffsetBuffer::from_lengths(maps.iter().map(Vec::len));
            let (keys, items): (Vec<Value>, Vec<Value>) = maps.concat().into_iter().unzip();
            let ArrowType::Struct(fields) = entry.data_type() else {
                panic!("a map of {entry}")
            };
            let columns = vec![
                array(&keys, fields[0].data_type()),
                array(&items, fields[1].data_type()),
            ];
            let entries = StructArray::new(fields.clone(), columns, None);
            Arc::new(MapArray::new(
                entry.clone(),
                offsets,
                entries,
                Some(nulls()),
                *sorted,
            ))
        }
        ArrowType::Struct(fields) => {
            let columns = fields.iter().enumerate().map(|(at, field)| {
                let column = values.iter().map(|value| match value {
                    Value::Row(values) => values[at].clone(),
                    _ => Value::Null,
                });
                array(&column.collect::<Vec<_>>(), field.data_type())
            });
            let columns = columns.collect();
            Arc::new(StructArray::new(fields.clone(), columns, Some(nulls())))
        }
        other => panic!("no array of {other}"),
    }
}

/// Named values as a JSON object.
pub fn object<'a>(members: impl Iterator<Item = (&'a str, &'a Type, &'a Value)>) -> String {
    let members =
        members.map(|(name, kind, value)| format!("{}:{}", quoted(name), value.text(kind)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn date_time(seconds: i64, nanos: i64, digits: u8) -> String {
    let at = jiff::civil::date(1970, 1, 1)
        .at(0, 0, 0, 0)
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap();
    let fraction = match digits {
        0 => String::new(),
        digits => format!(".{}", &format!("{nanos:09}")[..usize::from(digits)]),
    };
    format!("{}{fraction}", at.strftime("%Y-%m-%d %H:%M:%S"))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, at| {
            word << 8 | u32::from(*chunk.get(at).unwrap_or(&0))
        });
        for at in 0..4 {
            text.push(match at > chunk.len() {
                true => '=',
                false => char::from(DIGITS[(word >> (18 - 6 * at) & 63) as usize]),
            });
        }
    }
    text
}
