//! Values of binary rows, borrowed from the packet.
//!
//! Source: MySQL Internals, "Binary Protocol Resultset Row" and "Binary Protocol Value".

use mysql_async::{
    Column, Value,
    consts::{ColumnFlags, ColumnType},
};

/// The bytes of a row are not what its columns say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mysql) struct Damaged;

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::mysql) enum Cell<'a> {
    Null,
    Int(i64),
    /// Above `i64::MAX`; smaller ones may come as [`Self::Int`].
    UInt(u64),
    Float(f32),
    Double(f64),
    /// Text in the connection's character set, and all else that has no form of its own.
    Bytes(&'a [u8]),
    /// Year, month, day, hour, minute, second, microseconds.
    Date(u16, u8, u8, u8, u8, u8, u32),
    /// Whether negative, days, hours, minutes, seconds, microseconds.
    Time(bool, u32, u8, u8, u8, u32),
}

impl<'a> From<&'a Value> for Cell<'a> {
    fn from(value: &'a Value) -> Self {
        match *value {
            Value::NULL => Self::Null,
            Value::Bytes(ref bytes) => Self::Bytes(bytes),
            Value::Int(number) => Self::Int(number),
            Value::UInt(number) => Self::UInt(number),
            Value::Float(number) => Self::Float(number),
            Value::Double(number) => Self::Double(number),
            Value::Date(y, m, d, h, i, s, u) => Self::Date(y, m, d, h, i, s, u),
            Value::Time(negative, d, h, i, s, u) => Self::Time(negative, d, h, i, s, u),
        }
    }
}

/// How a column's values stand in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mysql) enum Wire {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// Behind a length.
    Bytes,
    Date,
    Time,
    /// Nothing but NULLs.
    Null,
}

impl Wire {
    /// How values of a column stand; `None` for a type that no row may have.
    pub(in crate::mysql) fn of(column: &Column) -> Option<Self> {
        use ColumnType as T;
        let unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
        let signed_or = |signed, other| if unsigned { other } else { signed };
        Some(match column.column_type() {
            T::MYSQL_TYPE_STRING
            | T::MYSQL_TYPE_VAR_STRING
            | T::MYSQL_TYPE_VARCHAR
            | T::MYSQL_TYPE_TINY_BLOB
            | T::MYSQL_TYPE_MEDIUM_BLOB
            | T::MYSQL_TYPE_LONG_BLOB
            | T::MYSQL_TYPE_BLOB
            | T::MYSQL_TYPE_SET
            | T::MYSQL_TYPE_ENUM
            | T::MYSQL_TYPE_DECIMAL
            | T::MYSQL_TYPE_NEWDECIMAL
            | T::MYSQL_TYPE_BIT
            | T::MYSQL_TYPE_GEOMETRY
            | T::MYSQL_TYPE_VECTOR
            | T::MYSQL_TYPE_JSON => Self::Bytes,
            T::MYSQL_TYPE_TINY => signed_or(Self::I8, Self::U8),
            T::MYSQL_TYPE_SHORT | T::MYSQL_TYPE_YEAR => signed_or(Self::I16, Self::U16),
            T::MYSQL_TYPE_LONG | T::MYSQL_TYPE_INT24 => signed_or(Self::I32, Self::U32),
            T::MYSQL_TYPE_LONGLONG => signed_or(Self::I64, Self::U64),
            T::MYSQL_TYPE_FLOAT => Self::F32,
            T::MYSQL_TYPE_DOUBLE => Self::F64,
            T::MYSQL_TYPE_TIMESTAMP
            | T::MYSQL_TYPE_DATE
            | T::MYSQL_TYPE_NEWDATE
            | T::MYSQL_TYPE_DATETIME => Self::Date,
            T::MYSQL_TYPE_TIME => Self::Time,
            T::MYSQL_TYPE_NULL => Self::Null,
            _ => return None,
        })
    }

    /// Takes the value that `rest` starts with.
    #[inline]
    pub(in crate::mysql) fn read<'a>(self, rest: &mut &'a [u8]) -> Result<Cell<'a>, Damaged> {
        Ok(match self {
            Self::I8 => Cell::Int(i64::from(i8::from_le_bytes(fixed(rest)?))),
            Self::U8 => Cell::Int(i64::from(u8::from_le_bytes(fixed(rest)?))),
            Self::I16 => Cell::Int(i64::from(i16::from_le_bytes(fixed(rest)?))),
            Self::U16 => Cell::Int(i64::from(u16::from_le_bytes(fixed(rest)?))),
            Self::I32 => Cell::Int(i64::from(i32::from_le_bytes(fixed(rest)?))),
            Self::U32 => Cell::Int(i64::from(u32::from_le_bytes(fixed(rest)?))),
            Self::I64 => Cell::Int(i64::from_le_bytes(fixed(rest)?)),
            Self::U64 => {
                let number = u64::from_le_bytes(fixed(rest)?);
                i64::try_from(number).map_or(Cell::UInt(number), Cell::Int)
            }
            Self::F32 => Cell::Float(f32::from_le_bytes(fixed(rest)?)),
            Self::F64 => Cell::Double(f64::from_le_bytes(fixed(rest)?)),
            Self::Bytes => Cell::Bytes(read_bytes(rest)?),
            Self::Date => {
                let (y, m, d, h, i, s, u) = read_date(rest)?;
                Cell::Date(y, m, d, h, i, s, u)
            }
            Self::Time => read_time(rest)?,
            Self::Null => Cell::Null,
        })
    }
}

/// So many bytes as a number has.
#[inline]
pub(in crate::mysql) fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Damaged> {
    let (value, tail) = rest.split_first_chunk::<N>().ok_or(Damaged)?;
    *rest = tail;
    Ok(*value)
}

/// Bytes behind their length.
#[inline]
pub(in crate::mysql) fn read_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Damaged> {
    let length = match rest.split_first() {
        Some((short, tail)) if *short < 0xFB => {
            *rest = tail;
            usize::from(*short)
        }
        _ => usize::try_from(read_length(rest)?).map_err(|_| Damaged)?,
    };
    let (value, tail) = rest.split_at_checked(length).ok_or(Damaged)?;
    *rest = tail;
    Ok(value)
}

/// A length-encoded number.
pub(super) fn read_length(rest: &mut &[u8]) -> Result<u64, Damaged> {
    Ok(match fixed(rest)? {
        [0xFC] => u64::from(u16::from_le_bytes(fixed(rest)?)),
        [0xFD] => {
            let [a, b, c] = fixed(rest)?;
            u64::from(u32::from_le_bytes([a, b, c, 0]))
        }
        [0xFE] => u64::from_le_bytes(fixed(rest)?),
        [0xFB | 0xFF] => return Err(Damaged),
        [short] => u64::from(short),
    })
}

/// A date and time: parts that are all zero are left out.
#[inline]
#[expect(clippy::type_complexity, reason = "the parts of Cell::Date")]
pub(in crate::mysql) fn read_date(
    rest: &mut &[u8],
) -> Result<(u16, u8, u8, u8, u8, u8, u32), Damaged> {
    Ok(match fixed(rest)? {
        [0] => (0, 0, 0, 0, 0, 0, 0),
        [4] => {
            let [y, z, m, d] = fixed(rest)?;
            (u16::from_le_bytes([y, z]), m, d, 0, 0, 0, 0)
        }
        [7] => {
            let [y, z, m, d, h, i, s] = fixed(rest)?;
            (u16::from_le_bytes([y, z]), m, d, h, i, s, 0)
        }
        [11] => {
            let [y, z, m, d, h, i, s, u @ ..] = fixed::<11>(rest)?;
            let micros = u32::from_le_bytes(u);
            (u16::from_le_bytes([y, z]), m, d, h, i, s, micros)
        }
        _ => return Err(Damaged),
    })
}

/// A span: parts that are all zero are left out.
fn read_time<'a>(rest: &mut &[u8]) -> Result<Cell<'a>, Damaged> {
    let (span, micros) = match fixed(rest)? {
        [0] => return Ok(Cell::Time(false, 0, 0, 0, 0, 0)),
        [8] => (fixed::<8>(rest)?, 0),
        [12] => (fixed::<8>(rest)?, u32::from_le_bytes(fixed(rest)?)),
        _ => return Err(Damaged),
    };
    let [sign, a, b, c, d, hours, minutes, seconds] = span;
    let days = u32::from_le_bytes([a, b, c, d]);
    Ok(Cell::Time(sign == 1, days, hours, minutes, seconds, micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(wire: Wire, bytes: &[u8]) -> Result<Cell<'_>, Damaged> {
        let mut rest = bytes;
        let cell = wire.read(&mut rest)?;
        assert!(rest.is_empty(), "{wire:?} leaves {rest:?}");
        Ok(cell)
    }

    #[test]
    fn values_are_those_of_the_protocol() {
        assert_eq!(read(Wire::I8, &[0xFF]), Ok(Cell::Int(-1)));
        assert_eq!(read(Wire::U8, &[0xFF]), Ok(Cell::Int(255)));
        assert_eq!(read(Wire::I16, &[0, 0x80]), Ok(Cell::Int(-32_768)));
        assert_eq!(read(Wire::U32, &[0xFF; 4]), Ok(Cell::Int(4_294_967_295)));
        assert_eq!(read(Wire::U64, &[0xFF; 8]), Ok(Cell::UInt(u64::MAX)));
        assert_eq!(read(Wire::I64, &[0xFF; 8]), Ok(Cell::Int(-1)));
        assert_eq!(read(Wire::Bytes, b"\x02ab"), Ok(Cell::Bytes(b"ab")));
        assert_eq!(read(Wire::Bytes, b"\xFC\x02\x00ab"), Ok(Cell::Bytes(b"ab")));
        assert_eq!(
            read(Wire::Bytes, b"\xFD\x02\x00\x00ab"),
            Ok(Cell::Bytes(b"ab"))
        );
        // From the protocol's documentation.
        let moment = [11, 0xDA, 7, 10, 17, 19, 27, 30, 1, 0, 0, 0];
        let expected = Cell::Date(2010, 10, 17, 19, 27, 30, 1);
        assert_eq!(read(Wire::Date, &moment), Ok(expected));
        let span = [12, 1, 0x78, 0, 0, 0, 0x13, 0x1B, 0x1E, 1, 0, 0, 0];
        let expected = Cell::Time(true, 120, 19, 27, 30, 1);
        assert_eq!(read(Wire::Time, &span), Ok(expected));
        assert_eq!(read(Wire::Date, &[0]), Ok(Cell::Date(0, 0, 0, 0, 0, 0, 0)));
    }

    #[test]
    fn damage_is_seen() {
        for (wire, bytes) in [
            (Wire::I32, &[1, 2, 3][..]),
            (Wire::Bytes, &[]),
            (Wire::Bytes, &[3, 1, 2]),
            (Wire::Bytes, &[0xFB]),
            (Wire::Bytes, &[0xFF, 1]),
            (Wire::Bytes, &[0xFC, 1]),
            (
                Wire::Bytes,
                &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            ),
            (Wire::Date, &[5, 1, 2, 3, 4, 5]),
            (Wire::Date, &[7, 1, 2]),
            (Wire::Time, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Wire::Time, &[12, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(wire.read(&mut &bytes[..]), Err(Damaged), "{bytes:?}");
        }
    }
}
