//! The text of a partition's value in the name of its folder.
//!
//! Every name here was seen in folders that Java Paimon 1.4.2 made. With option
//! `partition.legacy-name` (on unless switched off) it is what Java's `toString` gives for the
//! value inside: days for DATE, milliseconds for TIME, ISO text of the shortest form for
//! timestamps. Without, it is the value as SQL casts it to text.
//!
//! Source: `InternalRowPartitionComputer`, `CastExecutors`, `LocalDateTime.toString`.

use std::fmt::Write as _;

use jiff::{SignedDuration, civil};

use crate::{
    binary_row::Value,
    data_type::DataType,
    error::{Error, Result},
    schema::Schema,
};

/// How values are named in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Legacy,
    Cast,
}

/// Whether a column of this type can be a partition column of the table.
pub(crate) fn has_folder_name(schema: &Schema, data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::TinyInt
        | DataType::SmallInt
        | DataType::Int
        | DataType::BigInt
        | DataType::Decimal(..)
        | DataType::Date
        | DataType::Time(_)
        | DataType::Timestamp(_)
        | DataType::Char(_)
        | DataType::VarChar(_)
        | DataType::String => true,
        // Cast, it depends on the time zone of the process.
        DataType::TimestampLtz(_) => Style::of(schema) == Style::Legacy,
        // Floats have Java's own digits; binary is named after an address in memory.
        DataType::Float
        | DataType::Double
        | DataType::Binary(_)
        | DataType::VarBinary(_)
        | DataType::Bytes
        | DataType::Array(_)
        | DataType::Map(..)
        | DataType::Multiset(_)
        | DataType::Row(_) => false,
    }
}

impl Style {
    pub(super) fn of(schema: &Schema) -> Self {
        let option = schema.options.get("partition.legacy-name");
        match option.is_some_and(|value| value.eq_ignore_ascii_case("false")) {
            true => Self::Cast,
            false => Self::Legacy,
        }
    }

    /// The name, not escaped yet; `None` for NULL.
    ///
    /// # Errors
    /// A type or a value that has no sure name.
    pub(super) fn name(self, value: &Value<&[u8]>, data_type: &DataType) -> Result<Option<String>> {
        let name = match (value, data_type) {
            (Value::Null, _) => return Ok(None),
            (Value::Boolean(value), _) => Some(value.to_string()),
            (Value::TinyInt(value), _) => Some(value.to_string()),
            (Value::SmallInt(value), _) => Some(value.to_string()),
            (Value::BigInt(value), _) => Some(value.to_string()),
            (Value::Int(value), DataType::Int) => Some(value.to_string()),
            (Value::Int(value), DataType::Date | DataType::Time(_)) if self == Self::Legacy => {
                Some(value.to_string())
            }
            (Value::Int(days), DataType::Date) => {
                date_time(i64::from(*days) * 86_400_000, 0).map(|then| then.date().to_string())
            }
            (Value::Int(millis), DataType::Time(digits)) => {
                date_time(i64::from(*millis), 0).map(|then| time(then, *digits))
            }
            (Value::Decimal(digits), DataType::Decimal(_, scale)) => Some(decimal(*digits, *scale)),
            (Value::Timestamp { millis, nanos }, DataType::TimestampLtz(_))
                if self == Self::Legacy =>
            {
                date_time(*millis, *nanos).map(iso)
            }
            (Value::Timestamp { millis, nanos }, DataType::Timestamp(digits)) => {
                date_time(*millis, *nanos).map(|then| match self {
                    Self::Legacy => iso(then),
                    Self::Cast => sql(then, *digits),
                })
            }
            (Value::Bytes(bytes), DataType::Char(_) | DataType::VarChar(_) | DataType::String) => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        };
        name.map(Some).ok_or_else(|| {
            Error::Unsupported(format!(
                "a partition of value {value:?} in a column of type {data_type}"
            ))
        })
    }
}

/// `None` outside of the years 0 to 9999, whose names nobody has seen.
fn date_time(millis: i64, nanos: i32) -> Option<civil::DateTime> {
    let since = SignedDuration::from_millis(millis)
        .checked_add(SignedDuration::from_nanos(i64::from(nanos)))?;
    let then = civil::date(1970, 1, 1).at(0, 0, 0, 0).checked_add(since);
    then.ok().filter(|then| then.year() >= 0)
}

/// `2024-02-29T12:00`; seconds when there are any, fractions in groups of three digits.
fn iso(then: civil::DateTime) -> String {
    let mut text = format!("{}T{:02}:{:02}", then.date(), then.hour(), then.minute());
    let nanos = then.subsec_nanosecond();
    // Writing to a String can't fail.
    if then.second() != 0 || nanos != 0 {
        let _ = write!(text, ":{:02}", then.second());
    }
    let _ = match nanos {
        0 => Ok(()),
        nanos if nanos % 1_000_000 == 0 => write!(text, ".{:03}", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => write!(text, ".{:06}", nanos / 1_000),
        nanos => write!(text, ".{nanos:09}"),
    };
    text
}

/// `2024-02-29 12:00:00.000`, with as many digits as the type has.
fn sql(then: civil::DateTime, digits: u8) -> String {
    let clock = format!("{} {}", then.date(), clock(then));
    match fraction(then, digits) {
        fraction if fraction.is_empty() => clock,
        fraction => format!("{clock}.{fraction}"),
    }
}

/// `12:30:00.5`: no zeros behind the last digit, but one digit at least unless the type has none.
fn time(then: civil::DateTime, digits: u8) -> String {
    let all = fraction(then, digits);
    if all.is_empty() {
        return clock(then);
    }
    match all.trim_end_matches('0') {
        "" => format!("{}.0", clock(then)),
        some => format!("{}.{some}", clock(then)),
    }
}

fn clock(then: civil::DateTime) -> String {
    format!(
        "{:02}:{:02}:{:02}",
        then.hour(),
        then.minute(),
        then.second()
    )
}

/// The first digits of the second's fraction.
fn fraction(then: civil::DateTime, digits: u8) -> String {
    let mut all = format!("{:09}", then.subsec_nanosecond());
    all.truncate(usize::from(digits));
    all
}

/// The digits with their point: `-0.05`.
fn decimal(digits: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let sign = if digits < 0 { "-" } else { "" };
    let text = format!("{:0>width$}", digits.unsigned_abs(), width = scale + 1);
    match text.split_at_checked(text.len() - scale) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{text}"),
    }
}

/// Characters that the format (and Hive) write as `%XX`.
pub(super) fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        let special = matches!(
            character,
            '\u{1}'
                ..='\u{1f}'
                    | '"'
                    | '#'
                    | '%'
                    | '\''
                    | '*'
                    | '/'
                    | ':'
                    | '='
                    | '?'
                    | '\\'
                    | '\u{7f}'
                    | '{'
                    | '}'
                    | '['
                    | ']'
                    | '^'
        );
        if special {
            // Writing to a String can't fail.
            let _ = write!(escaped, "%{:02X}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}
