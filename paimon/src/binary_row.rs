//! BinaryRow: how keys, partitions and statistics stand in manifests, and what bucket hashes run
//! over. Encoding and decoding, to the byte.
//!
//! ```text
//! arity   | kind   null bits      | fixed part          | variable part
//! 4 B, BE | 1 B    from bit 8 on  | 8 B a field, LE     | words of 8 B, zero padded
//!         |<--- (arity+71)/64*8 B |
//! ```
//!
//! The arity stands in front only where a row is stored in a manifest; offsets count from behind
//! it. Up to 7 bytes of text stand in the field's own 8 bytes with `0x80 | length` as the last.
//! Decimals of more than 18 digits take 16 bytes of the variable part, timestamps of more than 3
//! digits 8, and they take them even when they are null.
//!
//! Source: `BinaryRow`, `AbstractBinaryWriter`, `SerializationUtils` of `paimon-common`; checked
//! against rows serialized by Java Paimon 1.4.2 (`tests/data/binary_rows.jsonl`).

use std::cmp::Ordering;

use arrow_array::ArrayRef;

use crate::{
    data_type::DataType,
    error::{Error, Result},
};

mod column;
mod view;

pub(crate) use column::{Column, timestamp};
pub use view::decode;
pub(crate) use view::{RowView, compare_keys};

/// Most digits of a decimal that fits the fixed part.
const COMPACT_DECIMAL_DIGITS_MAX: u8 = 18;
/// Most digits of a timestamp that fits the fixed part.
const COMPACT_TIMESTAMP_DIGITS_MAX: u8 = 3;
/// Most bytes of text that fit the fixed part.
const INLINE_BYTES_MAX: usize = 7;
/// Bytes of the arity in front of a serialized row.
const ARITY_BYTES: usize = 4;

/// A value of one field, whose bytes are its own or, with `B` a slice, stand in the row. `Null`
/// aside, which one it is follows from the field's type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<B = Vec<u8>> {
    /// NULL
    Null,
    /// BOOLEAN
    Boolean(bool),
    /// TINYINT
    TinyInt(i8),
    /// SMALLINT
    SmallInt(i16),
    /// INT; DATE in days and TIME in milliseconds
    Int(i32),
    /// BIGINT
    BigInt(i64),
    /// FLOAT
    Float(f32),
    /// DOUBLE
    Double(f64),
    /// DECIMAL, its digits without the point
    Decimal(i128),
    /// CHAR, VARCHAR and STRING in UTF-8; BINARY, VARBINARY and BYTES
    Bytes(B),
    /// Timestamps of both kinds
    Timestamp {
        /// Milliseconds since the epoch, rounded down.
        millis: i64,
        /// Nanoseconds within the millisecond.
        nanos: i32,
    },
}

impl Value<&[u8]> {
    /// The same, on its own.
    pub(crate) fn owned(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(it) => Value::Boolean(it),
            Self::TinyInt(it) => Value::TinyInt(it),
            Self::SmallInt(it) => Value::SmallInt(it),
            Self::Int(it) => Value::Int(it),
            Self::BigInt(it) => Value::BigInt(it),
            Self::Float(it) => Value::Float(it),
            Self::Double(it) => Value::Double(it),
            Self::Decimal(it) => Value::Decimal(it),
            Self::Bytes(it) => Value::Bytes(it.to_vec()),
            Self::Timestamp { millis, nanos } => Value::Timestamp { millis, nanos },
        }
    }
}

impl<B: AsRef<[u8]>> Value<B> {
    /// The order of values of one type, as in keys: NULL first, bytes unsigned; floats as Java
    /// orders them, -0 below 0 and NaN last.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Less,
            (_, Self::Null) => Ordering::Greater,
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::TinyInt(a), Self::TinyInt(b)) => a.cmp(b),
            (Self::SmallInt(a), Self::SmallInt(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::BigInt(a), Self::BigInt(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => order_f32(a, b),
            (Self::Double(a), Self::Double(b)) => order_f64(a, b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.as_ref().cmp(b.as_ref()),
            (
                Self::Timestamp { millis, nanos },
                Self::Timestamp {
                    millis: other_millis,
                    nanos: other_nanos,
                },
            ) => (millis, nanos).cmp(&(other_millis, other_nanos)),
            // Values of one column have one type.
            _ => Ordering::Equal,
        }
    }
}

/// The order of FLOAT.
pub(crate) fn order_f32(left: &f32, right: &f32) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(right),
        (left, right) => left.cmp(&right),
    }
}

/// The order of DOUBLE.
pub(crate) fn order_f64(left: &f64, right: &f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(right),
        (left, right) => left.cmp(&right),
    }
}

/// Writes one row after the other into one buffer.
#[derive(Debug)]
pub struct BinaryRowWriter {
    bytes: Vec<u8>,
    arity: usize,
}

impl BinaryRowWriter {
    /// A writer of rows with that many fields.
    pub fn new(arity: usize) -> Self {
        let mut writer = Self {
            bytes: Vec::new(),
            arity,
        };
        writer.reset();
        writer
    }

    /// Begins a new row; every field must be set once, in order.
    pub fn reset(&mut self) {
        self.bytes.clear();
        let arity = u32::try_from(self.arity).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&arity.to_be_bytes());
        self.bytes.resize(
            ARITY_BYTES + null_part_bytes(self.arity) + 8 * self.arity,
            0,
        );
    }

    /// The row without the arity: what hashes run over.
    pub fn row(&self) -> &[u8] {
        self.bytes.get(ARITY_BYTES..).unwrap_or_default()
    }

    /// The row behind its arity: what manifests hold.
    pub fn serialized(&self) -> &[u8] {
        &self.bytes
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "positions are below the arity: the callers walk the fields"
    )]
    fn set_fixed(&mut self, position: usize, word: [u8; 8]) {
        let at = ARITY_BYTES + null_part_bytes(self.arity) + 8 * position;
        self.bytes[at..at + 8].copy_from_slice(&word);
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "positions are below the arity: the callers walk the fields"
    )]
    fn set_null_bit(&mut self, position: usize) {
        let bit = position + 8;
        self.bytes[ARITY_BYTES + bit / 8] |= 1 << (bit % 8);
    }

    /// Appends to the variable part, in whole words of at least `words`, and gives the offset.
    fn append(&mut self, bytes: &[u8], words: usize) -> u32 {
        let offset = self.bytes.len() - ARITY_BYTES;
        self.bytes.extend_from_slice(bytes);
        let end = ARITY_BYTES + offset + (bytes.len().div_ceil(8).max(words)) * 8;
        self.bytes.resize(end, 0);
        u32::try_from(offset).unwrap_or(u32::MAX)
    }

    fn set_offset(&mut self, position: usize, offset: u32, low: u32) {
        let word = (u64::from(offset) << 32) | u64::from(low);
        self.set_fixed(position, word.to_le_bytes());
    }

    fn set_small(&mut self, position: usize, bytes: &[u8]) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.set_fixed(position, word);
    }

    fn set_bytes(&mut self, position: usize, bytes: &[u8]) {
        if bytes.len() <= INLINE_BYTES_MAX {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(bytes) {
                *to = *from;
            }
            if let Some(mark) = word.last_mut() {
                *mark = 0x80 | bytes.len() as u8;
            }
            self.set_fixed(position, word);
        } else {
            let offset = self.append(bytes, 0);
            self.set_offset(position, offset, bytes.len() as u32);
        }
    }

    fn set_wide_decimal(&mut self, position: usize, digits: i128) {
        let bytes = digits.to_be_bytes();
        let skip = sign_bytes(&bytes);
        let bytes = bytes.get(skip..).unwrap_or_default();
        let offset = self.append(bytes, 2);
        self.set_offset(position, offset, bytes.len() as u32);
    }

    fn set_wide_timestamp(&mut self, position: usize, millis: i64, nanos: i32) {
        let offset = self.append(&millis.to_le_bytes(), 1);
        self.set_offset(position, offset, nanos as u32);
    }

    /// Sets a field to NULL; `words` is what the type takes in the variable part all the same.
    fn set_null(&mut self, position: usize, words: usize) {
        self.set_null_bit(position);
        if words > 0 {
            let offset = self.append(&[], words);
            self.set_offset(position, offset, 0);
        }
    }

    /// Sets a field. A value that is not of the type is an error.
    pub fn set<B: AsRef<[u8]> + std::fmt::Debug>(
        &mut self,
        position: usize,
        value: &Value<B>,
        data_type: &DataType,
    ) -> Result<()> {
        if position >= self.arity {
            return Err(Error::Internal(format!("no field {position} in the row")));
        }
        match (value, data_type) {
            (Value::Null, data_type) => self.set_null(position, words_of_null(data_type)),
            (Value::Boolean(value), DataType::Boolean) => {
                self.set_small(position, &[u8::from(*value)]);
            }
            (Value::TinyInt(value), DataType::TinyInt) => {
                self.set_small(position, &value.to_le_bytes());
            }
            (Value::SmallInt(value), DataType::SmallInt) => {
                self.set_small(position, &value.to_le_bytes());
            }
            (Value::Int(value), DataType::Int | DataType::Date | DataType::Time(_)) => {
                self.set_small(position, &value.to_le_bytes());
            }
            (Value::BigInt(value), DataType::BigInt) => {
                self.set_fixed(position, value.to_le_bytes());
            }
            (Value::Float(value), DataType::Float) => {
                self.set_small(position, &value.to_le_bytes());
            }
            (Value::Double(value), DataType::Double) => {
                self.set_fixed(position, value.to_le_bytes());
            }
            (Value::Decimal(digits), DataType::Decimal(precision, _)) => {
                if *precision <= COMPACT_DECIMAL_DIGITS_MAX {
                    self.set_fixed(position, (*digits as i64).to_le_bytes());
                } else {
                    self.set_wide_decimal(position, *digits);
                }
            }
            (
                Value::Bytes(bytes),
                DataType::Char(_)
                | DataType::VarChar(_)
                | DataType::String
                | DataType::Binary(_)
                | DataType::VarBinary(_)
                | DataType::Bytes,
            ) => self.set_bytes(position, bytes.as_ref()),
            (
                Value::Timestamp { millis, nanos },
                DataType::Timestamp(digits) | DataType::TimestampLtz(digits),
            ) => {
                if *digits <= COMPACT_TIMESTAMP_DIGITS_MAX {
                    self.set_fixed(position, millis.to_le_bytes());
                } else {
                    self.set_wide_timestamp(position, *millis, *nanos);
                }
            }
            (value, data_type) => {
                return Err(Error::Internal(format!("{value:?} is not a {data_type}")));
            }
        }
        Ok(())
    }
}

/// Serializes values (with the arity prefix).
pub fn encode<B: AsRef<[u8]> + std::fmt::Debug>(
    values: &[Value<B>],
    types: &[DataType],
) -> Result<Vec<u8>> {
    let mut writer = BinaryRowWriter::new(types.len());
    if values.len() != types.len() {
        return Err(Error::Internal("as many values as types, please".into()));
    }
    for (position, (value, data_type)) in values.iter().zip(types).enumerate() {
        writer.set(position, value, data_type)?;
    }
    Ok(writer.bytes)
}

/// Bytes of the header and the null bits.
const fn null_part_bytes(arity: usize) -> usize {
    (arity + 71) / 64 * 8
}

/// Words in the variable part that a NULL of the type takes: Java's writer keeps them for a later
/// update in place.
fn words_of_null(data_type: &DataType) -> usize {
    match data_type {
        DataType::Decimal(precision, _) if *precision > COMPACT_DECIMAL_DIGITS_MAX => 2,
        DataType::Timestamp(digits) | DataType::TimestampLtz(digits)
            if *digits > COMPACT_TIMESTAMP_DIGITS_MAX =>
        {
            1
        }
        _ => 0,
    }
}

/// How many leading bytes of a big-endian number say nothing but its sign once more.
fn sign_bytes(bytes: &[u8; 16]) -> usize {
    bytes
        .iter()
        .zip(bytes.iter().skip(1))
        .take_while(|(byte, next)| match byte {
            0x00 => **next & 0x80 == 0,
            0xff => **next & 0x80 != 0,
            _ => false,
        })
        .count()
}

/// Encodes rows of Arrow columns, without an allocation a row.
#[derive(Debug)]
pub struct RowEncoder {
    columns: Vec<Column>,
}

impl RowEncoder {
    /// Of columns and their types. Nested ones are refused.
    pub fn new<'a>(
        columns: impl IntoIterator<Item = (&'a ArrayRef, &'a DataType)>,
    ) -> Result<Self> {
        let columns = columns
            .into_iter()
            .map(|(array, data_type)| match data_type {
                data_type if data_type.is_nested() => Err(Error::Unsupported(format!(
                    "{data_type} in a key or a partition"
                ))),
                data_type => Column::new(array, data_type),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { columns })
    }

    /// How many fields the rows have.
    pub fn arity(&self) -> usize {
        self.columns.len()
    }

    /// Writes one row, replacing what the writer held. The writer must have the same arity, and
    /// `row` be below the length of the columns.
    pub fn encode(&self, row: usize, writer: &mut BinaryRowWriter) {
        debug_assert_eq!(writer.arity, self.columns.len());
        writer.reset();
        for (position, column) in self.columns.iter().enumerate() {
            if column.nulls().is_some_and(|nulls| nulls.is_null(row)) {
                writer.set_null(position, column.words_of_null());
                continue;
            }
            match column {
                Column::Boolean(array) => {
                    writer.set_small(position, &[u8::from(array.value(row))]);
                }
                Column::TinyInt(array) => {
                    writer.set_small(position, &array.value(row).to_le_bytes());
                }
                Column::SmallInt(array) => {
                    writer.set_small(position, &array.value(row).to_le_bytes());
                }
                Column::Int(array) => {
                    writer.set_small(position, &array.value(row).to_le_bytes());
                }
                Column::BigInt(array) => {
                    writer.set_fixed(position, array.value(row).to_le_bytes());
                }
                Column::Float(array) => {
                    writer.set_small(position, &array.value(row).to_le_bytes());
                }
                Column::Double(array) => {
                    writer.set_fixed(position, array.value(row).to_le_bytes());
                }
                Column::Decimal { digits, compact } => {
                    if *compact {
                        writer.set_fixed(position, (digits.value(row) as i64).to_le_bytes());
                    } else {
                        writer.set_wide_decimal(position, digits.value(row));
                    }
                }
                Column::Text(array) | Column::Bytes(array) => {
                    writer.set_bytes(position, array.value(row));
                }
                Column::Timestamp { ticks, per_milli } => {
                    let ticks = ticks.value(row);
                    if *per_milli == 1 {
                        writer.set_fixed(position, ticks.to_le_bytes());
                    } else if let Value::Timestamp { millis, nanos } = timestamp(ticks, *per_milli)
                    {
                        writer.set_wide_timestamp(position, millis, nanos);
                    }
                }
                // Refused by `new`.
                Column::Nested(_) => writer.set_null(position, 0),
            }
        }
    }

    /// The row, serialized (with the arity prefix).
    pub fn serialize(&self, row: usize) -> Vec<u8> {
        let mut writer = BinaryRowWriter::new(self.columns.len());
        self.encode(row, &mut writer);
        writer.bytes
    }
}

#[cfg(test)]
pub(crate) mod tests;
