//! The order of keys: keys as numbers, or as bytes, that compare as the format compares keys.
//!
//! Most keys are integers, or a few of them: together no more than 8 or 16 bytes. Those become one
//! number, which is compared in one step and sorted digit by digit. All others become bytes.

use std::cmp::Ordering;

use arrow_array::{
    Array, ArrayRef, PrimitiveArray,
    cast::AsArray,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType,
    },
};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use crate::{
    data_type::DataField,
    error::{Error, Result},
};

mod sort;

use sort::Number;
pub(crate) use sort::Sorted;

/// How keys of some columns compare.
#[derive(Debug)]
pub(crate) enum KeyOrder {
    /// As numbers of 8 bytes.
    Narrow,
    /// As numbers of 16 bytes.
    Wide,
    /// As bytes.
    Bytes(RowConverter),
}

/// Keys of rows, in the order of the rows; no more than `u32` counts.
#[derive(Debug)]
pub(crate) enum Keys {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Bytes(Rows),
}

/// One key by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Narrow(u64),
    Wide(u128),
    Bytes(Vec<u8>),
}

impl KeyOrder {
    /// Of key columns.
    pub(crate) fn new<'a>(fields: impl IntoIterator<Item = &'a DataField>) -> Result<Self> {
        let fields: Vec<&DataField> = fields.into_iter().collect();
        let types = fields.iter().map(|field| field.data_type.arrow());
        let types: Vec<ArrowType> = types.collect();
        let widths = fields.iter().zip(&types);
        let widths = widths.map(|(field, data_type)| match field.nullable {
            true => None,
            false => bits(data_type),
        });
        let total = widths.sum::<Option<u32>>();
        Ok(match total {
            Some(..=64) => Self::Narrow,
            Some(..=128) => Self::Wide,
            _ => Self::Bytes(RowConverter::new(
                types.into_iter().map(SortField::new).collect(),
            )?),
        })
    }

    /// Whether keys are bytes.
    pub(crate) fn is_bytes(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }

    /// No keys yet.
    pub(crate) fn none(&self) -> Keys {
        match self {
            Self::Narrow => Keys::Narrow(Vec::new()),
            Self::Wide => Keys::Wide(Vec::new()),
            Self::Bytes(converter) => Keys::Bytes(converter.empty_rows(0, 0)),
        }
    }

    /// Adds the keys of a batch: its key columns, in order.
    pub(crate) fn append(&self, keys: &mut Keys, columns: &[ArrayRef]) -> Result<()> {
        match (self, keys) {
            (Self::Narrow, Keys::Narrow(keys)) => append_numbers(keys, columns),
            (Self::Wide, Keys::Wide(keys)) => append_numbers(keys, columns),
            (Self::Bytes(converter), Keys::Bytes(keys)) => Ok(converter.append(keys, columns)?),
            _ => Err(Error::Internal("keys of another order".into())),
        }
    }

    /// Bytes of memory that sorting so many rows takes beside them, with keys of `key_bytes`.
    pub(crate) fn sort_bytes(&self, rows: usize, key_bytes: usize) -> usize {
        // Keys; entries, twice; numbers of rows before and behind, and ends of keys.
        let (keys, entry) = match self {
            Self::Narrow => (8 * rows, 16),
            Self::Wide => (16 * rows, 32),
            Self::Bytes(_) => (2 * key_bytes, 16),
        };
        keys + rows * (2 * entry + 12)
    }

    /// As [`keys`](Self::keys), numbers always with 16 bytes.
    pub(crate) fn wide_keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        match self {
            Self::Narrow | Self::Wide => {
                let mut keys = Vec::new();
                append_numbers(&mut keys, columns)?;
                Ok(Keys::Wide(keys))
            }
            Self::Bytes(_) => self.keys(columns),
        }
    }

    /// The keys of a batch: its key columns, in order.
    pub(crate) fn keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        if let Self::Bytes(converter) = self {
            return Ok(Keys::Bytes(converter.convert_columns(columns)?));
        }
        let mut keys = self.none();
        self.append(&mut keys, columns)?;
        Ok(keys)
    }
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Narrow(keys) => keys.len(),
            Self::Wide(keys) => keys.len(),
            Self::Bytes(rows) => rows.num_rows(),
        }
    }

    /// The key of a row there is.
    pub(crate) fn get(&self, row: usize) -> Option<Key> {
        Some(match self {
            Self::Narrow(keys) => Key::Narrow(*keys.get(row)?),
            Self::Wide(keys) => Key::Wide(*keys.get(row)?),
            Self::Bytes(rows) if row < rows.num_rows() => {
                Key::Bytes(rows.row(row).as_ref().to_vec())
            }
            Self::Bytes(_) => return None,
        })
    }

    /// How the keys of two rows compare.
    pub(crate) fn compare(&self, left: usize, right: usize) -> Ordering {
        match self {
            Self::Narrow(keys) => keys.get(left).cmp(&keys.get(right)),
            Self::Wide(keys) => keys.get(left).cmp(&keys.get(right)),
            Self::Bytes(rows) => rows.row(left).cmp(&rows.row(right)),
        }
    }

    /// How a key compares with that of a row.
    pub(crate) fn compare_with(&self, key: &Key, row: usize) -> Ordering {
        match (key, self) {
            (Key::Narrow(key), Self::Narrow(keys)) => Some(key).cmp(&keys.get(row)),
            (Key::Wide(key), Self::Wide(keys)) => Some(key).cmp(&keys.get(row)),
            (Key::Bytes(key), Self::Bytes(rows)) => key.as_slice().cmp(rows.row(row).as_ref()),
            // Keys of one table have one order.
            _ => Ordering::Equal,
        }
    }

    /// Whether each key is behind the one before.
    pub(crate) fn is_strictly_ascending(&self) -> bool {
        match self {
            Self::Narrow(keys) => keys.is_sorted_by(|key, next| key < next),
            Self::Wide(keys) => keys.is_sorted_by(|key, next| key < next),
            Self::Bytes(rows) => rows.iter().is_sorted_by(|key, next| key < next),
        }
    }

    /// The keys of some rows, which all exist; `None` for keys as bytes.
    pub(crate) fn take(&self, rows: &[u32]) -> Option<Self> {
        fn of<K: Copy>(keys: &[K], rows: &[u32]) -> Vec<K> {
            let at = |row: &u32| keys.get(*row as usize).copied();
            rows.iter().filter_map(at).collect()
        }
        match self {
            Self::Narrow(keys) => Some(Self::Narrow(of(keys, rows))),
            Self::Wide(keys) => Some(Self::Wide(of(keys, rows))),
            Self::Bytes(_) => None,
        }
    }
}

/// Bits of a type whose values are integers of a fixed width.
fn bits(data_type: &ArrowType) -> Option<u32> {
    Some(match data_type {
        ArrowType::Int8 => 8,
        ArrowType::Int16 => 16,
        ArrowType::Int32 | ArrowType::Date32 | ArrowType::Time32(TimeUnit::Millisecond) => 32,
        ArrowType::Int64 | ArrowType::Timestamp(TimeUnit::Millisecond, _) => 64,
        ArrowType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => 64,
        ArrowType::Decimal128(..) => 128,
        _ => return None,
    })
}

fn append_numbers<K: Number>(keys: &mut Vec<K>, columns: &[ArrayRef]) -> Result<()> {
    let start = keys.len();
    let rows = columns.first().map_or(0, |column| column.len());
    keys.resize(start + rows, K::default());
    let added = keys.get_mut(start..).unwrap_or_default();
    for column in columns {
        if column.null_count() > 0 || column.len() != rows {
            return Err(Error::Internal("a key column with NULLs".into()));
        }
        match column.data_type() {
            ArrowType::Int8 => shift_in::<K, Int8Type>(added, column),
            ArrowType::Int16 => shift_in::<K, Int16Type>(added, column),
            ArrowType::Int32 => shift_in::<K, Int32Type>(added, column),
            ArrowType::Int64 => shift_in::<K, Int64Type>(added, column),
            ArrowType::Date32 => shift_in::<K, Date32Type>(added, column),
            ArrowType::Time32(TimeUnit::Millisecond) => {
                shift_in::<K, Time32MillisecondType>(added, column);
            }
            ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
                shift_in::<K, TimestampMillisecondType>(added, column);
            }
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
                shift_in::<K, TimestampMicrosecondType>(added, column);
            }
            ArrowType::Timestamp(TimeUnit::Nanosecond, _) => {
                shift_in::<K, TimestampNanosecondType>(added, column);
            }
            ArrowType::Decimal128(..) => shift_in::<K, Decimal128Type>(added, column),
            other => return Err(Error::Internal(format!("a number of {other}"))),
        }
    }
    Ok(())
}

/// A column's values as the least digits of the keys, the sign turned so that they compare as
/// numbers without one.
fn shift_in<K: Number, T: ArrowPrimitiveType>(keys: &mut [K], column: &ArrayRef)
where
    T::Native: Into<i128>,
{
    let bits = 8 * size_of::<T::Native>() as u32;
    let sign = 1_u128 << (bits - 1);
    let mask = u128::MAX >> (128 - bits);
    let column: &PrimitiveArray<T> = column.as_primitive();
    for (key, value) in keys.iter_mut().zip(column.values()) {
        let value: i128 = (*value).into();
        *key = key.shifted_in(bits, (value as u128 & mask) ^ sign);
    }
}

/// Keys as bytes that compare as the format compares keys.
pub(crate) fn key_rows(columns: &[ArrayRef]) -> Result<Rows> {
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?.convert_columns(columns)?)
}

#[cfg(test)]
mod tests;
