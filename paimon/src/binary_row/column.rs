//! Arrow columns as the row format sees them.

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array,
    cast::AsArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType,
    },
};
use arrow_buffer::NullBuffer;

use super::{COMPACT_DECIMAL_DIGITS_MAX, Value};
use crate::{
    data_type::DataType,
    error::{Error, Result},
};

/// An Arrow column as the row format sees it: fewer kinds, nothing copied.
#[derive(Debug, Clone)]
pub(crate) enum Column {
    Boolean(BooleanArray),
    TinyInt(Int8Array),
    SmallInt(Int16Array),
    Int(Int32Array),
    BigInt(Int64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal {
        digits: Decimal128Array,
        compact: bool,
    },
    Text(BinaryArray),
    Bytes(BinaryArray),
    /// In units of which so many make a millisecond.
    Timestamp {
        ticks: Int64Array,
        per_milli: i64,
    },
    /// A type that rows of keys and statistics do not hold.
    Nested(ArrayRef),
}

impl Column {
    pub(crate) fn new(array: &ArrayRef, data_type: &DataType) -> Result<Self> {
        if *array.data_type() != data_type.arrow() {
            return Err(Error::Internal(format!(
                "an Arrow column of {} for {data_type}",
                array.data_type()
            )));
        }
        Ok(match data_type {
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::TinyInt => Self::TinyInt(array.as_primitive::<Int8Type>().clone()),
            DataType::SmallInt => Self::SmallInt(array.as_primitive::<Int16Type>().clone()),
            DataType::Int => Self::Int(array.as_primitive::<Int32Type>().clone()),
            DataType::Date => Self::Int(array.as_primitive::<Date32Type>().reinterpret_cast()),
            DataType::Time(_) => Self::Int(
                array
                    .as_primitive::<Time32MillisecondType>()
                    .reinterpret_cast(),
            ),
            DataType::BigInt => Self::BigInt(array.as_primitive::<Int64Type>().clone()),
            DataType::Float => Self::Float(array.as_primitive::<Float32Type>().clone()),
            DataType::Double => Self::Double(array.as_primitive::<Float64Type>().clone()),
            DataType::Decimal(precision, _) => Self::Decimal {
                digits: array.as_primitive::<Decimal128Type>().clone(),
                compact: *precision <= COMPACT_DECIMAL_DIGITS_MAX,
            },
            DataType::Char(_) | DataType::VarChar(_) | DataType::String => {
                Self::Text(BinaryArray::from(array.as_string::<i32>().clone()))
            }
            DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => {
                Self::Bytes(array.as_binary::<i32>().clone())
            }
            DataType::Timestamp(digits) | DataType::TimestampLtz(digits) => match digits {
                0..=3 => Self::Timestamp {
                    ticks: array
                        .as_primitive::<TimestampMillisecondType>()
                        .reinterpret_cast(),
                    per_milli: 1,
                },
                4..=6 => Self::Timestamp {
                    ticks: array
                        .as_primitive::<TimestampMicrosecondType>()
                        .reinterpret_cast(),
                    per_milli: 1_000,
                },
                _ => Self::Timestamp {
                    ticks: array
                        .as_primitive::<TimestampNanosecondType>()
                        .reinterpret_cast(),
                    per_milli: 1_000_000,
                },
            },
            DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => {
                Self::Nested(array.clone())
            }
        })
    }

    pub(crate) fn array(&self) -> &dyn Array {
        match self {
            Self::Boolean(array) => array,
            Self::TinyInt(array) => array,
            Self::SmallInt(array) => array,
            Self::Int(array) => array,
            Self::BigInt(array) => array,
            Self::Float(array) => array,
            Self::Double(array) => array,
            Self::Decimal { digits, .. } => digits,
            Self::Text(array) | Self::Bytes(array) => array,
            Self::Timestamp { ticks, .. } => ticks,
            Self::Nested(array) => array,
        }
    }

    pub(super) fn nulls(&self) -> Option<&NullBuffer> {
        self.array().nulls()
    }

    pub(super) fn words_of_null(&self) -> usize {
        match self {
            Self::Decimal { compact: false, .. } => 2,
            Self::Timestamp { per_milli, .. } if *per_milli > 1 => 1,
            _ => 0,
        }
    }

    /// The value of a row; `row` is below the column's length.
    pub(crate) fn value(&self, row: usize) -> Value {
        if self.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        match self {
            Self::Boolean(array) => Value::Boolean(array.value(row)),
            Self::TinyInt(array) => Value::TinyInt(array.value(row)),
            Self::SmallInt(array) => Value::SmallInt(array.value(row)),
            Self::Int(array) => Value::Int(array.value(row)),
            Self::BigInt(array) => Value::BigInt(array.value(row)),
            Self::Float(array) => Value::Float(array.value(row)),
            Self::Double(array) => Value::Double(array.value(row)),
            Self::Decimal { digits, .. } => Value::Decimal(digits.value(row)),
            Self::Text(array) | Self::Bytes(array) => Value::Bytes(array.value(row).to_vec()),
            Self::Timestamp { ticks, per_milli } => timestamp(ticks.value(row), *per_milli),
            Self::Nested(_) => Value::Null,
        }
    }
}

pub(crate) fn timestamp(ticks: i64, per_milli: i64) -> Value {
    Value::Timestamp {
        millis: ticks.div_euclid(per_milli),
        nanos: (ticks.rem_euclid(per_milli) * (1_000_000 / per_milli)) as i32,
    }
}
