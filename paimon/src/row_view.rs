//! Reads and makes the short rows that metadata holds: keys and partitions, BinaryRows with a
//! 4-byte big-endian arity in front.
//!
//! Source: `org.apache.paimon.data.BinaryRow`, `AbstractBinaryWriter`, `SerializationUtils`.

use std::cmp::Ordering;

use crate::data_type::DataType;

/// A value in such a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Datum<'a> {
    Null,
    Boolean(bool),
    /// Integers, DATE, TIME, DECIMAL up to 18 digits, timestamps of up to 3 digits.
    Long(i64),
    Float(f32),
    Double(f64),
    /// DECIMAL beyond 18 digits.
    Decimal(i128),
    /// Milliseconds and the nanoseconds within.
    Timestamp(i64, i32),
    /// Text and binary.
    Bytes(&'a [u8]),
}

impl Datum<'_> {
    /// Order of the table's keys; NULL first. Floats as Java orders them: -0 below 0, NaN last.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Less,
            (_, Self::Null) => Ordering::Greater,
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Long(a), Self::Long(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => canonical32(*a).total_cmp(&canonical32(*b)),
            (Self::Double(a), Self::Double(b)) => canonical64(*a).total_cmp(&canonical64(*b)),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            (Self::Timestamp(a, nanos), Self::Timestamp(b, other)) => (a, nanos).cmp(&(b, other)),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            // Rows of one table have one type a column; see `RowView::datum`.
            _ => Ordering::Equal,
        }
    }
}

fn canonical32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

fn canonical64(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// A row in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowView<'a> {
    /// Without the arity prefix.
    bytes: &'a [u8],
    arity: usize,
}

/// Header and null bits.
fn null_bytes(arity: usize) -> usize {
    arity.saturating_add(71) / 64 * 8
}

impl<'a> RowView<'a> {
    /// Looks at a serialized row; `None` when it doesn't have `arity` fields or is too short.
    pub(crate) fn new(serialized: &'a [u8], arity: usize) -> Option<Self> {
        let (prefix, bytes) = serialized.split_first_chunk::<4>()?;
        let whole = usize::try_from(u32::from_be_bytes(*prefix)).ok()? == arity
            && bytes.len() >= null_bytes(arity) + arity * 8;
        whole.then_some(Self { bytes, arity })
    }

    fn is_null(&self, field: usize) -> bool {
        let bit = field + 8;
        self.bytes
            .get(bit / 8)
            .is_none_or(|byte| byte & (1 << (bit % 8)) != 0)
    }

    fn slot(&self, field: usize) -> Option<&'a [u8; 8]> {
        let at = null_bytes(self.arity) + field * 8;
        self.bytes.get(at..)?.first_chunk::<8>()
    }

    /// Bytes of a field of variable length.
    fn variable(&self, field: usize) -> Option<&'a [u8]> {
        let slot = self.slot(field)?;
        let [.., top] = slot;
        if top & 0x80 != 0 {
            return slot.get(..usize::from(top & 0x7f));
        }
        let word = u64::from_le_bytes(*slot);
        let (offset, length) = ((word >> 32) as usize, (word & 0xffff_ffff) as usize);
        self.bytes.get(offset..offset.checked_add(length)?)
    }

    /// The value of a field; `None` when the row is damaged or the type has no place in keys.
    pub(crate) fn datum(&self, field: usize, data_type: &DataType) -> Option<Datum<'a>> {
        if self.is_null(field) {
            return Some(Datum::Null);
        }
        let slot = self.slot(field)?;
        let word = i64::from_le_bytes(*slot);
        let [low, ..] = *slot;
        Some(match data_type {
            DataType::Boolean => Datum::Boolean(low != 0),
            DataType::TinyInt => Datum::Long(i64::from(word as i8)),
            DataType::SmallInt => Datum::Long(i64::from(word as i16)),
            DataType::Int | DataType::Date | DataType::Time(_) => {
                Datum::Long(i64::from(word as i32))
            }
            DataType::BigInt => Datum::Long(word),
            DataType::Float => Datum::Float(f32::from_bits(word as u32)),
            DataType::Double => Datum::Double(f64::from_bits(word as u64)),
            DataType::Decimal(precision, _) if *precision <= 18 => Datum::Long(word),
            DataType::Decimal(..) => Datum::Decimal(big_endian(self.variable(field)?)?),
            DataType::Timestamp(digits) | DataType::TimestampLtz(digits) if *digits <= 3 => {
                Datum::Timestamp(word, 0)
            }
            DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
                let at = (word as u64 >> 32) as usize;
                let millis = self.bytes.get(at..)?.first_chunk::<8>()?;
                Datum::Timestamp(i64::from_le_bytes(*millis), word as i32)
            }
            DataType::Char(_)
            | DataType::VarChar(_)
            | DataType::String
            | DataType::Binary(_)
            | DataType::VarBinary(_)
            | DataType::Bytes => Datum::Bytes(self.variable(field)?),
            DataType::Array(_) => return None,
        })
    }
}

/// A two's complement number of up to 16 bytes.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first()? & 0x80 != 0;
    let mut whole = [if negative { 0xff } else { 0 }; 16];
    let start = 16usize.checked_sub(bytes.len())?;
    whole.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

/// Compares two serialized keys; `None` when one of them can't be read.
pub(crate) fn compare_keys(types: &[DataType], a: &[u8], b: &[u8]) -> Option<Ordering> {
    let a = RowView::new(a, types.len())?;
    let b = RowView::new(b, types.len())?;
    for (field, data_type) in types.iter().enumerate() {
        let order = a
            .datum(field, data_type)?
            .compare(&b.datum(field, data_type)?);
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

/// Serializes a row, with the arity prefix.
pub(crate) fn serialize(types: &[DataType], row: &[Datum<'_>]) -> Vec<u8> {
    let arity = types.len();
    let fixed = null_bytes(arity);
    let mut nulls = vec![0u8; fixed];
    let mut slots = Vec::with_capacity(arity * 8);
    let mut tail: Vec<u8> = Vec::new();
    for (field, datum) in row.iter().enumerate() {
        let offset = (fixed + arity * 8 + tail.len()) as u64;
        let word: u64 = match datum {
            Datum::Null => {
                if let Some(byte) = nulls.get_mut((field + 8) / 8) {
                    *byte |= 1 << ((field + 8) % 8);
                }
                0
            }
            Datum::Boolean(value) => u64::from(*value),
            Datum::Long(value) => match types.get(field) {
                Some(DataType::TinyInt) => u64::from(*value as u8),
                Some(DataType::SmallInt) => u64::from(*value as u16),
                Some(DataType::Int | DataType::Date | DataType::Time(_)) => {
                    u64::from(*value as u32)
                }
                _ => *value as u64,
            },
            Datum::Float(value) => u64::from(value.to_bits()),
            Datum::Double(value) => value.to_bits(),
            Datum::Decimal(value) => {
                // The shortest two's complement form in a room of 16 bytes.
                let bytes = value.to_be_bytes();
                let spare = if *value < 0 {
                    value.leading_ones()
                } else {
                    value.leading_zeros()
                };
                let skip = (spare.saturating_sub(1) / 8) as usize;
                let short = bytes.get(skip..).unwrap_or_default();
                tail.extend_from_slice(short);
                tail.resize(tail.len() + 16 - short.len(), 0);
                (offset << 32) | short.len() as u64
            }
            Datum::Timestamp(millis, nanos) => match types.get(field) {
                Some(DataType::Timestamp(0..=3) | DataType::TimestampLtz(0..=3)) => *millis as u64,
                _ => {
                    tail.extend_from_slice(&millis.to_le_bytes());
                    (offset << 32) | u64::from(*nanos as u32)
                }
            },
            Datum::Bytes(bytes) if bytes.len() <= 7 => {
                let mut slot = [0u8; 8];
                for (to, from) in slot.iter_mut().zip(bytes.iter()) {
                    *to = *from;
                }
                u64::from_le_bytes(slot) | (0x80 | bytes.len() as u64) << 56
            }
            Datum::Bytes(bytes) => {
                tail.extend_from_slice(bytes);
                tail.resize(tail.len().next_multiple_of(8), 0);
                (offset << 32) | bytes.len() as u64
            }
        };
        slots.extend_from_slice(&word.to_le_bytes());
    }
    let mut serialized = (arity as u32).to_be_bytes().to_vec();
    serialized.extend_from_slice(&nulls);
    serialized.extend_from_slice(&slots);
    serialized.extend_from_slice(&tail);
    serialized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_what_they_hold() {
        let types = [
            DataType::Boolean,
            DataType::SmallInt,
            DataType::BigInt,
            DataType::Double,
            DataType::Decimal(20, 2),
            DataType::Timestamp(6),
            DataType::String,
            DataType::String,
            DataType::Date,
        ];
        let row = [
            Datum::Boolean(true),
            Datum::Long(-3),
            Datum::Long(i64::MIN),
            Datum::Double(-0.5),
            Datum::Decimal(-12_345_678_901_234_567_890),
            Datum::Timestamp(-1, 999_000),
            Datum::Bytes(b"short"),
            Datum::Bytes(b"longer than seven"),
            Datum::Null,
        ];
        let bytes = serialize(&types, &row);
        let view = RowView::new(&bytes, types.len()).unwrap();
        for (field, data_type) in types.iter().enumerate() {
            assert_eq!(view.datum(field, data_type).unwrap(), row[field]);
        }
        assert_eq!(serialize(&[], &[]), [0; 12]);
        for cut in 0..bytes.len() {
            if let Some(view) = RowView::new(&bytes[..cut], types.len()) {
                for (field, data_type) in types.iter().enumerate() {
                    let _ = view.datum(field, data_type);
                }
            }
        }
    }

    #[test]
    fn keys_have_the_order_of_java() {
        let order = |data_type: DataType, a: Datum<'_>, b: Datum<'_>| {
            let types = [data_type];
            compare_keys(&types, &serialize(&types, &[a]), &serialize(&types, &[b])).unwrap()
        };
        use Ordering::*;
        assert_eq!(order(DataType::Int, Datum::Long(-1), Datum::Long(1)), Less);
        assert_eq!(
            order(
                DataType::String,
                Datum::Bytes(b"Z"),
                Datum::Bytes("é".as_bytes())
            ),
            Less
        );
        assert_eq!(
            order(DataType::Double, Datum::Double(-0.0), Datum::Double(0.0)),
            Less
        );
        assert_eq!(
            order(
                DataType::Float,
                Datum::Float(-f32::NAN),
                Datum::Float(f32::INFINITY)
            ),
            Greater
        );
        assert_eq!(
            order(DataType::Int, Datum::Null, Datum::Long(i64::from(i32::MIN))),
            Less
        );
    }
}
