//! What is done with a column's values, compiled once: shared by the rows of the binlog and those
//! of a SELECT, so that both give the same value.

use super::{
    buffer::{ColumnBuffer, Fault, Handled, advised, fault},
    charset::{Charset, Converted, NotText},
    decimal::{self, Packed},
    geometry, json,
    table::MysqlColumn,
    temporal::{Moment, Span},
    types::Physical,
};
use crate::{
    error::{Error, Result},
    schema::DataType,
};

/// How values of a column become those of the lake.
#[derive(Debug)]
pub(crate) enum Codec {
    Int {
        bytes: u8,
        unsigned: bool,
    },
    Float,
    Double,
    /// Into DECIMAL when the lake has it, else as text.
    Decimal {
        packed: Packed,
        scale: u8,
        text: bool,
    },
    /// Bits as bytes, or one bit as BOOLEAN.
    Bit {
        boolean: bool,
    },
    Text(Charset),
    /// Bytes, padded with zeros to this many (0: as they are).
    Bytes {
        width: usize,
    },
    Date,
    Time {
        digits: u8,
        text: bool,
    },
    /// DATETIME, and TIMESTAMP in UTC.
    DateTime {
        digits: u8,
    },
    Timestamp {
        digits: u8,
    },
    Year,
    Enum(Box<[Box<str>]>),
    Set(Box<[Box<str>]>),
    Json,
    Geometry,
    Vector,
}

impl Codec {
    /// Compiles a column.
    pub(crate) fn new(column: &MysqlColumn) -> Result<Self> {
        let is_text = matches!(
            column.lake,
            DataType::String | DataType::Char(_) | DataType::VarChar(_)
        );
        let labels = |labels: Vec<String>| labels.into_iter().map(String::into_boxed_str).collect();
        let physical = column.physical()?;
        if !physical.fits(&column.lake) {
            return Err(Error::definite(format!(
                "type '{}' does not fit {:?}, the column's type in the lake",
                column.column_type, column.lake
            ))
            .column(&column.name));
        }
        Ok(match physical {
            Physical::Int {
                bytes, unsigned, ..
            } => Self::Int { bytes, unsigned },
            Physical::Float => Self::Float,
            Physical::Double => Self::Double,
            Physical::Decimal { precision, scale } => Self::Decimal {
                packed: Packed::new(precision, scale),
                scale,
                text: is_text,
            },
            Physical::Bit(_) => Self::Bit {
                boolean: column.lake == DataType::Boolean,
            },
            Physical::Char(_) | Physical::VarChar(_) | Physical::Text => {
                let name = column.charset.as_deref().unwrap_or("utf8mb4");
                Self::Text(Charset::named(name).ok_or_else(|| {
                    Error::definite(format!("character set '{name}' is not supported"))
                        .column(&column.name)
                        .advice("Convert the column to utf8mb4, or leave the table out")
                })?)
            }
            Physical::Binary(length) => Self::Bytes {
                width: length as usize,
            },
            Physical::VarBinary(_) | Physical::Blob => Self::Bytes { width: 0 },
            Physical::Date => Self::Date,
            Physical::Time(digits) => Self::Time {
                digits,
                text: is_text,
            },
            Physical::DateTime(digits) => Self::DateTime { digits },
            Physical::Timestamp(digits) => Self::Timestamp { digits },
            Physical::Year => Self::Year,
            Physical::Enum(values) => Self::Enum(labels(values)),
            Physical::Set(values) => Self::Set(labels(values)),
            Physical::Json => Self::Json,
            Physical::Geometry => Self::Geometry,
            Physical::Vector(_) => Self::Vector,
        })
    }
}

/// Text of the column's character set.
#[inline]
pub(crate) fn push_text(charset: &Charset, bytes: &[u8], buffer: &mut ColumnBuffer) -> Handled {
    let key = buffer.is_key();
    if key && !charset.is_one_to_one(bytes) {
        return Err(advised(
            "a key column holds a character in a code that is not its first: another key could \
             be the same text",
            "Write the value with the character's other code, or convert the column to utf8mb4",
        ));
    }
    buffer.push_with(|out| match charset.append(bytes, out) {
        Ok(Converted::Exact) => Ok(()),
        Ok(Converted::Replaced) if !key => Ok(()),
        Ok(Converted::Replaced) => Err(fault(
            "a key column holds a code that has no character in its character set",
        )),
        Err(NotText) => Err(fault("text that is not of the column's character set")),
    })
}

/// Bytes, padded with zeros to `width`.
#[inline]
pub(crate) fn push_padded(width: usize, bytes: &[u8], buffer: &mut ColumnBuffer) -> Handled {
    buffer.push_with(|out| {
        out.extend_from_slice(bytes);
        let missing = width.saturating_sub(bytes.len());
        out.resize(out.len() + missing, 0);
        Ok(())
    })
}

/// Bits, big endian.
pub(crate) fn push_bits(boolean: bool, bytes: &[u8], buffer: &mut ColumnBuffer) -> Handled {
    if boolean {
        buffer.push_int(i64::from(bytes.iter().any(|byte| *byte != 0)))
    } else {
        buffer.push_bytes(bytes)
    }
}

/// A DECIMAL in the protocol's text.
pub(crate) fn push_decimal_text(
    scale: u8,
    as_text: bool,
    text: &[u8],
    buffer: &mut ColumnBuffer,
) -> Handled {
    if as_text {
        buffer.push_with(|out| decimal::write_text(text, out))
    } else {
        buffer.push_decimal(decimal::parse_unscaled(text, scale)?)
    }
}

/// A date and time without a zone, or an instant in UTC.
#[inline]
pub(crate) fn push_moment(moment: &Moment, buffer: &mut ColumnBuffer) -> Handled {
    match moment.micros() {
        Some(micros) => buffer.push_timestamp(micros),
        None => buffer.push_zero_date(),
    }
}

/// A TIME.
pub(crate) fn push_span(span: &Span, digits: u8, text: bool, buffer: &mut ColumnBuffer) -> Handled {
    if text {
        return buffer.push_with(|out| {
            span.write(digits, out);
            Ok(())
        });
    }
    match span.day_millis() {
        Some(millis) => buffer.push_int(i64::from(millis)),
        None => {
            let mut text = Vec::new();
            span.write(digits, &mut text);
            let text = String::from_utf8_lossy(&text).into_owned();
            Err(advised(
                format!("TIME {text} is not a time of day"),
                "Set time.as-string.enabled: true, which makes TIME columns STRING",
            ))
        }
    }
}

/// An ENUM by its number; 0 is the empty label of a value that was not valid.
#[inline]
pub(crate) fn push_label(labels: &[Box<str>], number: u64, buffer: &mut ColumnBuffer) -> Handled {
    let Some(at) = number.checked_sub(1) else {
        if buffer.is_key() && labels.iter().any(|label| label.is_empty()) {
            return Err(two_empty_labels());
        }
        return buffer.push_bytes(b"");
    };
    let label = usize::try_from(at).ok().and_then(|at| labels.get(at));
    match label {
        Some(label) => buffer.push_bytes(label.as_bytes()),
        None => Err(fault(format!("ENUM value {number} has no label"))),
    }
}

/// The label of a value that was not valid is empty, and so is one of the column's own.
#[cold]
pub(crate) fn two_empty_labels() -> Box<Fault> {
    fault("a key column holds an ENUM value that is not valid, and has an empty label, too")
}

/// A spatial value in storage form.
pub(crate) fn push_geometry(bytes: &[u8], buffer: &mut ColumnBuffer) -> Handled {
    buffer.push_with(|out| geometry::write(bytes, out))
}

/// A JSON document in storage form.
pub(crate) fn push_json(bytes: &[u8], buffer: &mut ColumnBuffer) -> Handled {
    buffer.push_with(|out| json::write(bytes, out))
}
