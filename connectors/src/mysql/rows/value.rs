//! The bytes of one value in a row image → its column.

use crate::mysql::{
    buffer::{ColumnBuffer, Handled, fault},
    codec::{self, Codec},
    temporal::{Moment, Span},
};

/// Bytes that must be as many as the type has.
#[inline]
fn array<const N: usize>(value: &[u8]) -> Handled<[u8; N]> {
    value
        .try_into()
        .map_err(|_| fault("a value of the wrong length"))
}

/// A little-endian number of up to eight bytes.
#[inline]
fn number(value: &[u8]) -> u64 {
    value
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A big-endian number of up to eight bytes.
#[inline]
fn big_endian(value: &[u8]) -> u64 {
    value
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Appends one value.
#[inline]
pub(super) fn push(codec: &Codec, value: &[u8], buffer: &mut ColumnBuffer) -> Handled {
    match codec {
        Codec::Int { bytes, unsigned } => match (bytes, unsigned) {
            (4, false) => buffer.push_int(i64::from(i32::from_le_bytes(array(value)?))),
            (8, false) => buffer.push_int(i64::from_le_bytes(array(value)?)),
            (8, true) => buffer.push_uint(u64::from_le_bytes(array(value)?)),
            (_, true) => buffer.push_uint(number(value)),
            (bytes, false) => {
                let unused = 64 - 8 * u32::from(*bytes);
                buffer.push_int((number(value) << unused) as i64 >> unused)
            }
        },
        Codec::Text(charset) => codec::push_text(charset, value, buffer),
        Codec::Bytes { width } => codec::push_padded(*width, value, buffer),
        Codec::Float => buffer.push_float(f32::from_le_bytes(array(value)?)),
        Codec::Double => buffer.push_double(f64::from_le_bytes(array(value)?)),
        Codec::Decimal { packed, text, .. } => {
            if *text {
                buffer.push_with(|out| packed.write(value, out))
            } else {
                buffer.push_decimal(packed.unscaled(value)?)
            }
        }
        Codec::Bit { boolean } => codec::push_bits(*boolean, value, buffer),
        Codec::Date => {
            let packed = number(value) as u32;
            buffer.push_date(packed >> 9, packed >> 5 & 15, packed & 31)
        }
        Codec::Time { digits, text } => {
            codec::push_span(&read_span(value, *digits), *digits, *text, buffer)
        }
        Codec::DateTime { digits } => push_datetime(value, *digits, buffer),
        Codec::Timestamp { digits } => push_timestamp(value, *digits, buffer),
        Codec::Year => match array(value)? {
            [0] => buffer.push_int(0),
            [years] => buffer.push_int(1900 + i64::from(years)),
        },
        Codec::Enum(labels) => codec::push_label(labels, number(value), buffer),
        Codec::Set(labels) => buffer.push_labels(labels, number(value)),
        Codec::Json => codec::push_json(value, buffer),
        Codec::Geometry => codec::push_geometry(value, buffer),
        Codec::Vector => buffer.push_floats(value),
    }
}

/// Microseconds of a fraction that is kept in one byte for each two digits.
fn fraction_micros(value: &[u8], digits: u8) -> u32 {
    let fraction = big_endian(value) as u32;
    match digits.div_ceil(2) {
        0 => 0,
        1 => fraction * 10_000,
        2 => fraction * 100,
        _ => fraction,
    }
}

/// TIME: an offset number of whole seconds in bit fields, and a fraction that counts downwards for
/// negative spans. Source: `my_time_packed_from_binary`.
fn read_span(value: &[u8], digits: u8) -> Span {
    let fraction_bits = 8 * u32::from(digits.div_ceil(2));
    let offset = 0x80_0000_i64 << fraction_bits;
    let packed = (big_endian(value) as i64).wrapping_sub(offset);
    let all = packed.unsigned_abs();
    let clock = all >> fraction_bits;
    let fraction = (all & ((1 << fraction_bits) - 1)) as u32;
    Span {
        negative: packed < 0,
        hours: (clock >> 12 & 0x3FF) as u32,
        minutes: (clock >> 6 & 0x3F) as u32,
        seconds: (clock & 0x3F) as u32,
        micros: match digits.div_ceil(2) {
            0 => 0,
            1 => fraction * 10_000,
            2 => fraction * 100,
            _ => fraction,
        },
    }
}

/// DATETIME: 40 bits, offset: year and month in 17, day 5, hour 5, minute 6, second 6.
#[inline]
fn push_datetime(value: &[u8], digits: u8, buffer: &mut ColumnBuffer) -> Handled {
    let Some((whole, fraction)) = value.split_at_checked(5) else {
        return Err(fault("a value of the wrong length"));
    };
    let Some(packed) = big_endian(whole).checked_sub(0x80_0000_0000) else {
        return Err(fault("a DATETIME before the year 0"));
    };
    let months = packed >> 22;
    let moment = Moment {
        year: (months / 13) as u32,
        month: (months % 13) as u32,
        day: (packed >> 17 & 31) as u32,
        hour: (packed >> 12 & 31) as u32,
        minute: (packed >> 6 & 63) as u32,
        second: (packed & 63) as u32,
        micros: fraction_micros(fraction, digits),
    };
    codec::push_moment(&moment, buffer)
}

/// TIMESTAMP: seconds since the epoch; 0 is the zero date.
#[inline]
fn push_timestamp(value: &[u8], digits: u8, buffer: &mut ColumnBuffer) -> Handled {
    let Some((seconds, fraction)) = value.split_at_checked(4) else {
        return Err(fault("a value of the wrong length"));
    };
    let seconds = big_endian(seconds) as i64;
    let micros = fraction_micros(fraction, digits);
    if micros > 999_999 {
        return Err(fault("a TIMESTAMP with an impossible fraction"));
    }
    if seconds == 0 && micros == 0 {
        return buffer.push_zero_date();
    }
    buffer.push_timestamp(seconds * 1_000_000 + i64::from(micros))
}
