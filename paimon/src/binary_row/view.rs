//! Reads rows in place.

use std::cmp::Ordering;

use super::{
    ARITY_BYTES, COMPACT_DECIMAL_DIGITS_MAX, COMPACT_TIMESTAMP_DIGITS_MAX, INLINE_BYTES_MAX, Value,
    null_part_bytes,
};
use crate::data_type::DataType;

/// A serialized row (with the arity prefix), in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowView<'a> {
    /// Without the arity.
    row: &'a [u8],
    arity: usize,
}

impl<'a> RowView<'a> {
    /// Looks at a row that should have so many fields; the error says why it is none.
    pub(crate) fn new(serialized: &'a [u8], arity: usize) -> Result<Self, String> {
        let (found, row) = serialized
            .split_first_chunk::<ARITY_BYTES>()
            .ok_or("shorter than its arity")?;
        let found = u32::from_be_bytes(*found);
        if usize::try_from(found) != Ok(arity) {
            return Err(format!("{found} fields, {arity} expected"));
        }
        if row.len() < null_part_bytes(arity) + 8 * arity {
            return Err("shorter than its fields".to_owned());
        }
        Ok(Self { row, arity })
    }

    /// The value of a field; the error says what is wrong with the row or the type.
    pub(crate) fn value(
        &self,
        position: usize,
        data_type: &DataType,
    ) -> Result<Value<&'a [u8]>, String> {
        if position >= self.arity {
            return Err(format!("no field {position} in the row"));
        }
        let bit = position + 8;
        let nulls = self.row.get(bit / 8).ok_or("no null bits")?;
        if nulls & (1 << (bit % 8)) != 0 {
            return Ok(Value::Null);
        }
        let at = null_part_bytes(self.arity) + 8 * position;
        let word = self.row.get(at..).and_then(<[u8]>::first_chunk::<8>);
        field(self.row, word.ok_or("no word")?, data_type)
    }
}

/// The value in a field's word. Text that stands in the word itself is found there.
fn field<'a>(
    row: &'a [u8],
    word: &'a [u8; 8],
    data_type: &DataType,
) -> Result<Value<&'a [u8]>, String> {
    let long = i64::from_le_bytes(*word);
    let low = long as u32;
    let offset = (long as u64 >> 32) as usize;
    let variable = |bytes: usize| {
        row.get(offset..)
            .and_then(|rest| rest.get(..bytes))
            .ok_or_else(|| "a field reaches beyond the row".to_owned())
    };
    Ok(match data_type {
        DataType::Boolean => Value::Boolean(long as u8 != 0),
        DataType::TinyInt => Value::TinyInt(long as i8),
        DataType::SmallInt => Value::SmallInt(long as i16),
        DataType::Int | DataType::Date | DataType::Time(_) => Value::Int(long as i32),
        DataType::BigInt => Value::BigInt(long),
        DataType::Float => Value::Float(f32::from_bits(low)),
        DataType::Double => Value::Double(f64::from_bits(long as u64)),
        DataType::Decimal(precision, _) if *precision <= COMPACT_DECIMAL_DIGITS_MAX => {
            Value::Decimal(i128::from(long))
        }
        DataType::Decimal(..) => {
            let bytes = variable(low as usize)?;
            if bytes.is_empty() || bytes.len() > 16 {
                return Err(format!("a decimal of {} bytes", bytes.len()));
            }
            let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
            let start = if negative { -1 } else { 0 };
            Value::Decimal(
                bytes
                    .iter()
                    .fold(start, |digits, byte| (digits << 8) | i128::from(*byte)),
            )
        }
        DataType::Char(_)
        | DataType::VarChar(_)
        | DataType::String
        | DataType::Binary(_)
        | DataType::VarBinary(_)
        | DataType::Bytes => {
            let [.., mark] = word;
            if mark & 0x80 != 0 {
                let inline = word.get(..usize::from(mark & 0x7f));
                let inline = inline.filter(|bytes| bytes.len() <= INLINE_BYTES_MAX);
                Value::Bytes(inline.ok_or("more than 7 bytes inline")?)
            } else {
                Value::Bytes(variable(low as usize)?)
            }
        }
        DataType::Timestamp(digits) | DataType::TimestampLtz(digits)
            if *digits <= COMPACT_TIMESTAMP_DIGITS_MAX =>
        {
            Value::Timestamp {
                millis: long,
                nanos: 0,
            }
        }
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let millis = variable(8)?.try_into().map_err(|_| "no timestamp")?;
            Value::Timestamp {
                millis: i64::from_le_bytes(millis),
                nanos: low as i32,
            }
        }
        DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => {
            return Err("nested values are not read".into());
        }
    })
}

/// Reads a serialized row (with the arity prefix). Bytes that are not such a row give the reason.
pub fn decode<'a>(bytes: &'a [u8], types: &[DataType]) -> Result<Vec<Value<&'a [u8]>>, String> {
    let row = RowView::new(bytes, types.len())?;
    let fields = types.iter().enumerate();
    fields
        .map(|(position, data_type)| row.value(position, data_type))
        .collect()
}

/// Compares two serialized keys; `None` when one of them can't be read.
pub(crate) fn compare_keys(types: &[DataType], a: &[u8], b: &[u8]) -> Option<Ordering> {
    let a = RowView::new(a, types.len()).ok()?;
    let b = RowView::new(b, types.len()).ok()?;
    for (position, data_type) in types.iter().enumerate() {
        let left = a.value(position, data_type).ok()?;
        let right = b.value(position, data_type).ok()?;
        match left.compare(&right) {
            Ordering::Equal => {}
            order => return Some(order),
        }
    }
    Some(Ordering::Equal)
}
