//! JSON documents in the server's binary form → exactly the text that the server prints.
//!
//! Format: MySQL's `sql-common/json_binary.h`. Text: `Json_wrapper::to_string` in
//! `sql-common/json_dom.cc`, numbers as `my_gcvt` in `strings/dtoa.cc` prints them.

use std::io::Write;

use super::{
    buffer::{Handled, fault},
    decimal::Packed,
    temporal::{Span, write_fraction},
};

/// Nesting that the server accepts (`JSON_DOCUMENT_MAX_DEPTH`).
const DEPTH_MAX: u32 = 100;

mod tag {
    pub(super) const SMALL_OBJECT: u8 = 0x00;
    pub(super) const LARGE_OBJECT: u8 = 0x01;
    pub(super) const SMALL_ARRAY: u8 = 0x02;
    pub(super) const LARGE_ARRAY: u8 = 0x03;
    pub(super) const LITERAL: u8 = 0x04;
    pub(super) const INT16: u8 = 0x05;
    pub(super) const UINT16: u8 = 0x06;
    pub(super) const INT32: u8 = 0x07;
    pub(super) const UINT32: u8 = 0x08;
    pub(super) const INT64: u8 = 0x09;
    pub(super) const UINT64: u8 = 0x0A;
    pub(super) const DOUBLE: u8 = 0x0B;
    pub(super) const STRING: u8 = 0x0C;
    pub(super) const OPAQUE: u8 = 0x0F;
}

/// Column types that opaque values name. Source: `include/field_types.h`.
mod opaque {
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const DECIMAL: u8 = 246;
}

/// Appends the text of a document.
pub(crate) fn write(document: &[u8], out: &mut Vec<u8>) -> Handled {
    let Some((tag, body)) = document.split_first() else {
        // The server reads an empty document, left by INSERT IGNORE, as the null literal.
        out.extend_from_slice(b"null");
        return Ok(());
    };
    // No honest document comes near this; one whose parts overlap could grow without a bound.
    let limit = out.len() + document.len().saturating_mul(16) + 1024;
    let mut printer = Printer { out, limit };
    printer.value(*tag, body, 0)
}

struct Printer<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
}

fn early<T>(bytes: Option<T>) -> Handled<T> {
    bytes.ok_or_else(|| fault("a JSON document ends early"))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Handled<[u8; N]> {
    early(bytes.get(at..).and_then(|bytes| bytes.first_chunk::<N>())).copied()
}

/// A number of two bytes, or of four in large containers.
fn number(bytes: &[u8], at: usize, large: bool) -> Handled<usize> {
    Ok(if large {
        u32::from_le_bytes(array(bytes, at)?) as usize
    } else {
        usize::from(u16::from_le_bytes(array(bytes, at)?))
    })
}

/// Bytes behind a length of one to five bytes, seven bits each.
fn counted(bytes: &[u8]) -> Handled<&[u8]> {
    let mut length = 0_u64;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let end = (at + 1).saturating_add(length);
            return early(bytes.get(at + 1..end));
        }
    }
    early(None)
}

impl Printer<'_> {
    fn value(&mut self, tag: u8, body: &[u8], depth: u32) -> Handled {
        if self.out.len() > self.limit {
            return Err(fault("a JSON document whose parts overlap"));
        }
        match tag {
            tag::SMALL_OBJECT => return self.container(body, true, false, depth + 1),
            tag::LARGE_OBJECT => return self.container(body, true, true, depth + 1),
            tag::SMALL_ARRAY => return self.container(body, false, false, depth + 1),
            tag::LARGE_ARRAY => return self.container(body, false, true, depth + 1),
            tag::LITERAL => return self.literal(array::<1>(body, 0)?),
            tag::INT16 => self.display(i16::from_le_bytes(array(body, 0)?)),
            tag::UINT16 => self.display(u16::from_le_bytes(array(body, 0)?)),
            tag::INT32 => self.display(i32::from_le_bytes(array(body, 0)?)),
            tag::UINT32 => self.display(u32::from_le_bytes(array(body, 0)?)),
            tag::INT64 => self.display(i64::from_le_bytes(array(body, 0)?)),
            tag::UINT64 => self.display(u64::from_le_bytes(array(body, 0)?)),
            tag::DOUBLE => write_double(f64::from_le_bytes(array(body, 0)?), self.out)?,
            tag::STRING => return self.quoted(counted(body)?),
            tag::OPAQUE => {
                let (kind, body) = early(body.split_first())?;
                return self.opaque(*kind, counted(body)?);
            }
            tag => return Err(fault(format!("JSON type {tag} is not known"))),
        }
        Ok(())
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // Writing to a vector cannot fail.
        let _ = write!(self.out, "{value}");
    }

    fn literal(&mut self, [literal]: [u8; 1]) -> Handled {
        self.out.extend_from_slice(match literal {
            0 => b"null",
            1 => b"true",
            2 => b"false",
            _ => return Err(fault(format!("JSON literal {literal} is not known"))),
        });
        Ok(())
    }

    fn container(&mut self, body: &[u8], object: bool, large: bool, depth: u32) -> Handled {
        if depth > DEPTH_MAX {
            return Err(fault("a JSON document is nested too deeply"));
        }
        let width = if large { 4 } else { 2 };
        let count = number(body, 0, large)?;
        let size = number(body, width, large)?;
        let body = early(body.get(..size))?;
        let keys = 2 * width;
        let values = keys + if object { count * (width + 2) } else { 0 };
        self.out.push(if object { b'{' } else { b'[' });
        for at in 0..count {
            if at > 0 {
                self.out.extend_from_slice(b", ");
            }
            if object {
                let entry = keys + at * (width + 2);
                let start = number(body, entry, large)?;
                let length = number(body, entry + width, false)?;
                self.quoted(early(body.get(start..start.saturating_add(length)))?)?;
                self.out.extend_from_slice(b": ");
            }
            let entry = values + at * (1 + width);
            let [tag] = array::<1>(body, entry)?;
            let inlined = matches!(tag, tag::LITERAL | tag::INT16 | tag::UINT16)
                || (large && matches!(tag, tag::INT32 | tag::UINT32));
            let start = if inlined {
                entry + 1
            } else {
                number(body, entry + 1, large)?
            };
            self.value(tag, early(body.get(start..))?, depth)?;
        }
        self.out.push(if object { b'}' } else { b']' });
        Ok(())
    }

    fn quoted(&mut self, text: &[u8]) -> Handled {
        if std::str::from_utf8(text).is_err() {
            return Err(fault("a JSON string that is not UTF-8"));
        }
        write_quoted(text, self.out);
        Ok(())
    }

    fn opaque(&mut self, kind: u8, data: &[u8]) -> Handled {
        match kind {
            opaque::DECIMAL => {
                let [precision, scale] = array(data, 0)?;
                if precision > 65 || scale > precision {
                    return Err(fault("a JSON decimal of an impossible shape"));
                }
                Packed::new(precision, scale).write(data.get(2..).unwrap_or_default(), self.out)
            }
            opaque::DATE | opaque::TIME | opaque::DATETIME | opaque::TIMESTAMP => {
                let packed = i64::from_le_bytes(array(data, 0)?);
                self.out.push(b'"');
                if kind == opaque::TIME {
                    unpack_time(packed).write(6, self.out);
                } else {
                    write_datetime(packed, kind != opaque::DATE, self.out);
                }
                self.out.push(b'"');
                Ok(())
            }
            kind => {
                let mut text = format!("base64:type{kind}:").into_bytes();
                write_base64(data, &mut text);
                write_quoted(&text, self.out);
                Ok(())
            }
        }
    }
}

/// A span from the server's packed form.
pub(crate) fn unpack_time(packed: i64) -> Span {
    let all = packed.unsigned_abs();
    let clock = all >> 24;
    Span {
        negative: packed < 0,
        hours: (clock >> 12 & 0x3FF) as u32,
        minutes: (clock >> 6 & 0x3F) as u32,
        seconds: (clock & 0x3F) as u32,
        micros: (all & 0xFF_FFFF) as u32,
    }
}

/// Writes a packed date and time. Source: `TIME_from_longlong_datetime_packed`.
fn write_datetime(packed: i64, clock: bool, out: &mut Vec<u8>) {
    let all = packed.unsigned_abs();
    let (whole, micros) = (all >> 24, (all & 0xFF_FFFF) as u32);
    let (date, time) = (whole >> 17, whole & 0x1_FFFF);
    let (months, day) = (date >> 5, date & 31);
    let _ = write!(out, "{:04}-{:02}-{day:02}", months / 13, months % 13);
    if clock {
        let (hour, minute, second) = (time >> 12, time >> 6 & 63, time & 63);
        let _ = write!(out, " {hour:02}:{minute:02}:{second:02}");
        write_fraction(micros, 6, out);
    }
}

/// Quotes text as the server does: short escapes, `\u00xx` for other control characters.
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest
        .iter()
        .position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
    {
        let (plain, tail) = rest.split_at_checked(at).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((special, tail)) = tail.split_first() else {
            break;
        };
        rest = tail;
        let short = match special {
            0x08 => b'b',
            0x09 => b't',
            0x0A => b'n',
            0x0C => b'f',
            0x0D => b'r',
            b'"' => b'"',
            b'\\' => b'\\',
            control => {
                let _ = write!(out, "\\u{control:04x}");
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Writes a double as `my_gcvt` does, with `.0` where it would look like an integer.
fn write_double(value: f64, out: &mut Vec<u8>) -> Handled {
    if !value.is_finite() {
        return Err(fault("a JSON number that is not finite"));
    }
    let mut shortest = [0_u8; 40];
    let mut nearest = [0_u8; 40];
    let text = digits_of(value.abs(), &mut shortest, &mut nearest);
    let mut parts = text.splitn(2, |byte| *byte == b'e');
    let mantissa = parts.next().unwrap_or_default();
    let exponent = std::str::from_utf8(parts.next().unwrap_or_default())
        .ok()
        .and_then(|exponent| exponent.parse::<i32>().ok())
        .unwrap_or(0);
    let (first, more) = mantissa.split_at_checked(1).unwrap_or((mantissa, &[]));
    let more = more.strip_prefix(b".").unwrap_or_default();
    if value.is_sign_negative() {
        out.push(b'-');
    }
    // `my_gcvt` leaves the plain form when the point would stand more than 15 digits away, unless
    // digits follow it.
    let count = i32::try_from(more.len()).unwrap_or(i32::MAX) + 1;
    match exponent + 1 {
        point @ -14..=0 => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
            out.extend_from_slice(first);
            out.extend_from_slice(more);
        }
        point if (1..=15).contains(&point) || (point > 15 && point < count) => {
            let whole = (point - 1) as usize;
            out.extend_from_slice(first);
            let split = whole.min(more.len());
            let (integer, fraction) = more.split_at_checked(split).unwrap_or((more, &[]));
            out.extend_from_slice(integer);
            out.extend(std::iter::repeat_n(b'0', whole - split));
            out.push(b'.');
            out.extend_from_slice(if fraction.is_empty() { b"0" } else { fraction });
        }
        _ => {
            out.extend_from_slice(first);
            if !more.is_empty() {
                out.push(b'.');
                out.extend_from_slice(more);
            }
            let _ = write!(out, "e{exponent}");
        }
    }
    Ok(())
}

/// The shortest digits that read back as the same number, as `d.ddde-n`; of two such numbers that
/// are equally near the even one, as David Gay's `dtoa` takes it.
fn digits_of<'a>(value: f64, shortest: &'a mut [u8], nearest: &'a mut [u8]) -> &'a [u8] {
    fn print<'a>(buffer: &'a mut [u8], text: std::fmt::Arguments<'_>) -> &'a [u8] {
        let mut cursor = std::io::Cursor::new(&mut *buffer);
        // 17 digits, point and exponent always fit.
        let _ = cursor.write_fmt(text);
        let end = usize::try_from(cursor.position()).unwrap_or(0);
        buffer.get(..end).unwrap_or_default()
    }
    let shortest = print(shortest, format_args!("{value:e}"));
    let mantissa = shortest.iter().take_while(|byte| **byte != b'e').count();
    let nearest = print(
        nearest,
        format_args!("{value:.*e}", mantissa.saturating_sub(2)),
    );
    let same = std::str::from_utf8(nearest).is_ok_and(|text| text.parse() == Ok(value));
    if same { nearest } else { shortest }
}

/// Base64 in lines of 76 characters, as the server's `base64_encode` breaks them.
fn write_base64(data: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| ALPHABET.get((bits & 63) as usize).copied().unwrap_or(b'=');
    for (at, chunk) in data.chunks(3).enumerate() {
        if at > 0 && at % 19 == 0 {
            out.push(b'\n');
        }
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        out.push(digit(bits >> 18));
        out.push(digit(bits >> 12));
        out.push(if chunk.len() > 1 {
            digit(bits >> 6)
        } else {
            b'='
        });
        out.push(if chunk.len() > 2 { digit(bits) } else { b'=' });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        write_double(value, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_print_like_the_server() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1e15"),
            (1e14, "100000000000000.0"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (4_978_058_150_998_061.0 / 4.0, "1244514537749515.2"),
            (1_145_681_062_619_078.8, "1145681062619078.8"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (-1.797_693_134_862_315_7e308, "-1.7976931348623157e308"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn a_document_of_overlapping_parts_is_refused() {
        // A large array of 60 arrays that all start at the document itself.
        let mut document = vec![tag::SMALL_ARRAY, 60, 0, 184, 0];
        for _ in 0..60 {
            document.extend([tag::SMALL_ARRAY, 0, 0]);
        }
        assert!(write(&document, &mut Vec::new()).is_err());
    }

    #[test]
    fn every_cut_is_refused() {
        // {"a": [1, "x"]}
        let document = [
            0, 1, 0, 24, 0, 11, 0, 1, 0, 2, 12, 0, b'a', 2, 0, 12, 0, 5, 1, 0, 12, 10, 0, 1, b'x',
        ];
        let mut out = Vec::new();
        write(&document, &mut out).unwrap();
        assert_eq!(out, br#"{"a": [1, "x"]}"#);
        for length in 1..document.len() {
            assert!(write(&document[..length], &mut Vec::new()).is_err());
        }
    }
}
