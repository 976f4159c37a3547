//! Values as text and bytes.

use std::{fmt::Write, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BinaryArray, StringArray,
    builder::{BinaryBuilder, StringBuilder},
    cast::AsArray,
    types::{Date32Type, Decimal128Type, Float32Type, Float64Type, Time32MillisecondType},
};

use super::{is_integer, number, time};
use crate::{
    data_type::DataType,
    error::{Error, Result},
};

const MILLIS_PER_DAY: i64 = 86_400_000;

pub(super) fn to_text(column: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef> {
    let texts = texts(column, from)?;
    Ok(match to {
        // Bytes become text as they are.
        _ if super::is_binary(from) => Arc::new(texts),
        DataType::VarChar(length) => Arc::new(fit(&texts, *length, false)),
        DataType::Char(length) => Arc::new(fit(&texts, *length, true)),
        _ => Arc::new(texts),
    })
}

fn texts(column: &ArrayRef, from: &DataType) -> Result<StringArray> {
    let mut builder = StringBuilder::with_capacity(column.len(), column.len() * 8);
    let mut buffer = String::new();
    match from {
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => {
            return Ok(column.as_string::<i32>().clone());
        }
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => {
            let bytes = column.as_binary::<i32>().clone();
            return StringArray::try_from_binary(bytes).map_err(|error| {
                Error::Unsupported(format!("reading {from} as text: not UTF-8: {error}"))
            });
        }
        DataType::Boolean => {
            let values = column.as_boolean().iter();
            return Ok(values
                .map(|value| value.map(|value| if value { "true" } else { "false" }))
                .collect());
        }
        from if is_integer(from) => {
            for value in &number::integers(column, from)? {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write!(out, "{value}")
                });
            }
        }
        DataType::Float => {
            for value in column.as_primitive::<Float32Type>() {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write_float(out, value.is_nan(), format_args!("{value:e}"))
                });
            }
        }
        DataType::Double => {
            for value in column.as_primitive::<Float64Type>() {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write_float(out, value.is_nan(), format_args!("{value:e}"))
                });
            }
        }
        DataType::Decimal(_, scale) => {
            for value in column.as_primitive::<Decimal128Type>() {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write_decimal(out, value, *scale)
                });
            }
        }
        DataType::Date => {
            for value in column.as_primitive::<Date32Type>() {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write_date(out, i64::from(value))
                });
            }
        }
        DataType::Time(digits) => {
            for value in column.as_primitive::<Time32MillisecondType>() {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write_time(out, i64::from(value), *digits)
                });
            }
        }
        DataType::Timestamp(digits) => {
            let unit = time::per_milli(*digits);
            for value in &time::ticks(column)? {
                append(&mut builder, &mut buffer, value, |out, value| {
                    write_timestamp(out, value, unit, *digits)
                });
            }
        }
        from => return Err(Error::Internal(format!("no cast of {from} to text"))),
    }
    Ok(builder.finish())
}

fn append<T>(
    builder: &mut StringBuilder,
    buffer: &mut String,
    value: Option<T>,
    write: impl FnOnce(&mut String, T) -> std::fmt::Result,
) {
    match value {
        Some(value) => {
            buffer.clear();
            // Writing to memory does not fail.
            let _ = write(buffer, value);
            builder.append_value(&*buffer);
        }
        None => builder.append_null(),
    }
}

/// As `Double.toString` and `Float.toString`: the shortest digits, plain from 0.001 to below 10⁷.
fn write_float(out: &mut String, nan: bool, shortest: std::fmt::Arguments<'_>) -> std::fmt::Result {
    if nan {
        return out.write_str("NaN");
    }
    let mut text = [0_u8; 40];
    let mut cursor = Cursor {
        text: &mut text,
        len: 0,
    };
    cursor.write_fmt(shortest)?;
    let len = cursor.len;
    let text = text
        .get(..len)
        .and_then(|text| std::str::from_utf8(text).ok());
    let text = text.unwrap_or_default();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    out.push_str(sign);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return out.write_str("Infinity");
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zero = first == "0";
    if zero {
        return out.write_str("0.0");
    }
    match exponent {
        0..=6 => {
            let whole = usize::try_from(exponent).unwrap_or(0);
            out.push_str(first);
            let (before, after) = rest.split_at(whole.min(rest.len()));
            out.push_str(before);
            (before.len()..whole).for_each(|_| out.push('0'));
            out.push('.');
            out.push_str(if after.is_empty() { "0" } else { after });
        }
        -3..=-1 => {
            out.push_str("0.");
            (exponent + 1..0).for_each(|_| out.push('0'));
            out.push_str(first);
            out.push_str(rest);
        }
        _ => {
            let rest = if rest.is_empty() { "0" } else { rest };
            write!(out, "{first}.{rest}E{exponent}")?;
        }
    }
    Ok(())
}

/// Writes into a few bytes on the stack.
struct Cursor<'a> {
    text: &'a mut [u8],
    len: usize,
}

impl Write for Cursor<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let place = self.text.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn write_decimal(out: &mut String, value: i128, scale: u8) -> std::fmt::Result {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs();
    match number::power(scale).map(i128::unsigned_abs) {
        Some(power) if scale > 0 => write!(
            out,
            "{sign}{}.{:0width$}",
            digits / power,
            digits % power,
            width = usize::from(scale)
        ),
        _ => write!(out, "{sign}{digits}"),
    }
}

fn write_date(out: &mut String, days: i64) -> std::fmt::Result {
    let (year, month, day) = civil(days);
    write!(out, "{:04}-{month:02}-{day:02}", year.rem_euclid(10_000))
}

/// Year, month and day of days since the epoch.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years that begin in March, in eras of 400 of them.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

fn write_clock(out: &mut String, millis: i64) -> std::fmt::Result {
    let seconds = millis / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    write!(out, "{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// One digit behind the point at least, unless the type has none.
fn write_time(out: &mut String, millis: i64, digits: u8) -> std::fmt::Result {
    let millis = millis.rem_euclid(MILLIS_PER_DAY);
    write_clock(out, millis)?;
    if digits > 0 {
        out.push('.');
    }
    let mut rest = millis % 1000;
    for _ in 0..digits {
        write!(out, "{}", rest / 100)?;
        rest = rest % 100 * 10;
        if rest == 0 {
            break;
        }
    }
    Ok(())
}

fn write_timestamp(out: &mut String, ticks: i64, per_milli: i64, digits: u8) -> std::fmt::Result {
    let (millis, part) = (ticks.div_euclid(per_milli), ticks.rem_euclid(per_milli));
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    write_date(out, millis.div_euclid(MILLIS_PER_DAY))?;
    out.push(' ');
    write_clock(out, of_day)?;
    let mut nanos = of_day % 1000 * 1_000_000 + part * (1_000_000 / per_milli);
    let mut width = 9;
    while width > usize::from(digits) && nanos % 10 == 0 {
        nanos /= 10;
        width -= 1;
    }
    match width {
        0 => Ok(()),
        width => write!(out, ".{nanos:0width$}"),
    }
}

/// Texts cut to so many characters, shorter ones filled with blanks if wanted.
fn fit(texts: &StringArray, length: u32, fill: bool) -> StringArray {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let long = |text: &str| text.len() > length && text.chars().nth(length).is_some();
    if !fill && !texts.iter().flatten().any(long) {
        return texts.clone();
    }
    let bytes = texts.value_data().len();
    let mut builder = StringBuilder::with_capacity(texts.len(), bytes);
    for text in texts {
        let Some(text) = text else {
            builder.append_null();
            continue;
        };
        let end = text
            .char_indices()
            .nth(length)
            .map_or(text.len(), |(end, _)| end);
        let _ = builder.write_str(text.get(..end).unwrap_or(text));
        if fill && end == text.len() {
            for _ in text.chars().count()..length {
                let _ = builder.write_char(' ');
            }
        }
        builder.append_value("");
    }
    builder.finish()
}

/// Bytes cut to a length; those of BINARY are filled with zeros.
pub(super) fn to_binary(column: &ArrayRef, to: &DataType) -> ArrayRef {
    let bytes = match column.as_string_opt::<i32>() {
        Some(texts) => BinaryArray::from(texts.clone()),
        None => column.as_binary::<i32>().clone(),
    };
    let (length, fill) = match to {
        DataType::Binary(length) => (*length as usize, true),
        DataType::VarBinary(length) => (*length as usize, false),
        _ => return Arc::new(bytes),
    };
    let fits = |bytes: &[u8]| bytes.len() == length || (!fill && bytes.len() < length);
    if bytes.iter().flatten().all(fits) {
        return Arc::new(bytes);
    }
    let mut builder = BinaryBuilder::with_capacity(bytes.len(), bytes.value_data().len());
    let mut buffer = Vec::new();
    for bytes in &bytes {
        let Some(bytes) = bytes else {
            builder.append_null();
            continue;
        };
        buffer.clear();
        buffer.extend_from_slice(bytes.get(..length).unwrap_or(bytes));
        if fill {
            buffer.resize(length, 0);
        }
        builder.append_value(&buffer);
    }
    Arc::new(builder.finish())
}
