//! DECIMAL: the binlog's packed digits and the protocol's text.
//!
//! Format: groups of nine digits in four bytes, big endian, partial groups at both ends in fewer
//! bytes; the first bit is flipped, and every bit for negative numbers. Source: MySQL's
//! `strings/decimal.cc`, comment of `decimal2bin`.

use super::buffer::{Handled, fault};

/// Bytes that a group of so many digits takes.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Shape of a DECIMAL column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Digits in each group, first to last: integer part, then fraction.
    integer: u8,
    fraction: u8,
}

impl Packed {
    pub(crate) fn new(precision: u8, scale: u8) -> Self {
        Self {
            integer: precision.saturating_sub(scale),
            fraction: scale,
        }
    }

    /// Bytes of one value.
    pub(crate) fn bytes(&self) -> usize {
        let part = |digits: u8| {
            let partial = GROUP_BYTES.get(usize::from(digits % 9)).copied();
            usize::from(digits / 9) * 4 + partial.unwrap_or(0)
        };
        part(self.integer) + part(self.fraction)
    }

    /// Calls `group` with the number and digits of each group; gives whether it is negative.
    fn groups(&self, bytes: &[u8], mut group: impl FnMut(u32, u8)) -> Handled<bool> {
        let negative = bytes.first().is_some_and(|first| first & 0x80 == 0);
        let mask = if negative { 0xFF } else { 0 };
        let mut flip = 0x80;
        let mut rest = bytes;
        let integer = [(self.integer % 9, 1), (9, self.integer / 9)];
        let fraction = [(9, self.fraction / 9), (self.fraction % 9, 1)];
        for (digits, times) in integer.into_iter().chain(fraction) {
            if digits == 0 {
                continue;
            }
            let length = GROUP_BYTES.get(usize::from(digits)).copied().unwrap_or(0);
            for _ in 0..times {
                let Some((part, tail)) = rest.split_at_checked(length) else {
                    return Err(fault("a DECIMAL ends early"));
                };
                rest = tail;
                let number = part.iter().fold(0_u32, |number, byte| {
                    let byte = byte ^ mask ^ flip;
                    flip = 0;
                    number << 8 | u32::from(byte)
                });
                if number >= 10_u32.pow(u32::from(digits)) {
                    return Err(fault("a DECIMAL holds more digits than it has"));
                }
                group(number, digits);
            }
        }
        Ok(negative)
    }

    /// The number without its point; the precision is 38 at most.
    pub(crate) fn unscaled(&self, bytes: &[u8]) -> Handled<i128> {
        let mut value: i128 = 0;
        let negative = self.groups(bytes, |number, digits| {
            value = value
                .wrapping_mul(i128::from(10_u32.pow(u32::from(digits))))
                .wrapping_add(i128::from(number));
        })?;
        Ok(if negative { -value } else { value })
    }

    /// Appends the text that the server prints.
    pub(crate) fn write(&self, bytes: &[u8], out: &mut Vec<u8>) -> Handled {
        let mut digits = [b'0'; 81];
        let mut filled = 0;
        let negative = self.groups(bytes, |mut number, count| {
            for at in (filled..filled + usize::from(count)).rev() {
                if let Some(slot) = digits.get_mut(at) {
                    *slot = b'0' + (number % 10) as u8;
                }
                number /= 10;
            }
            filled += usize::from(count);
        })?;
        let all = digits.get(..filled).unwrap_or_default();
        let (integer, fraction) = all
            .split_at_checked(usize::from(self.integer))
            .unwrap_or((all, &[]));
        write_plain(negative, integer, fraction, out);
        Ok(())
    }
}

/// Writes sign, integer digits without leading zeros (at least one), point and fraction.
fn write_plain(negative: bool, integer: &[u8], fraction: &[u8], out: &mut Vec<u8>) {
    let zeros = integer.iter().take_while(|digit| **digit == b'0').count();
    let integer = integer.get(zeros..).unwrap_or_default();
    let zero = integer.is_empty() && fraction.iter().all(|digit| *digit == b'0');
    if negative && !zero {
        out.push(b'-');
    }
    if integer.is_empty() {
        out.push(b'0');
    }
    out.extend_from_slice(integer);
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

/// Sign, integer digits and fraction digits of a text.
fn split(text: &[u8]) -> Handled<(bool, &[u8], &[u8])> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let integer = parts.next().unwrap_or_default();
    let fraction = parts.next().unwrap_or_default();
    let mut all = integer.iter().chain(fraction);
    if (integer.is_empty() && fraction.is_empty()) || !all.all(u8::is_ascii_digit) {
        return Err(fault("a DECIMAL that is not a number"));
    }
    Ok((negative, integer, fraction))
}

/// Characters of a number that fits 64 bits whatever its digits are.
const SHORT: usize = 19;

/// The number of a short text without its point; nothing where it is not short, or not well.
#[inline]
fn parse_short(digits: &[u8], scale: usize) -> Option<u64> {
    if digits.len() > SHORT {
        return None;
    }
    let (integer, fraction) = match scale {
        0 => (digits, &[][..]),
        _ => {
            let (integer, fraction) =
                digits.split_at_checked(digits.len().checked_sub(scale + 1)?)?;
            let (b'.', fraction) = fraction.split_first()? else {
                return None;
            };
            (integer, fraction)
        }
    };
    let (mut value, mut is_number) = (0_u64, !digits.is_empty());
    for part in [integer, fraction] {
        for digit in part {
            let digit = digit.wrapping_sub(b'0');
            is_number &= digit <= 9;
            value = value * 10 + u64::from(digit & 15);
        }
    }
    is_number.then_some(value)
}

/// The number of a text without its point; the text must have `scale` fractional digits.
#[inline]
pub(crate) fn parse_unscaled(text: &[u8], scale: u8) -> Handled<i128> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if let Some(value) = parse_short(digits, usize::from(scale)) {
        let value = i128::from(value);
        return Ok(if is_negative { -value } else { value });
    }
    let (negative, integer, fraction) = split(text)?;
    if fraction.len() != usize::from(scale) {
        return Err(fault("a DECIMAL of another scale"));
    }
    let mut value: i128 = 0;
    for digit in integer.iter().chain(fraction) {
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(i128::from(digit - b'0')))
            .ok_or_else(|| fault("a DECIMAL of more than 38 digits"))?;
    }
    Ok(if negative { -value } else { value })
}

/// Copies a text without the leading zeros that ZEROFILL columns have.
pub(crate) fn write_text(text: &[u8], out: &mut Vec<u8>) -> Handled {
    let (negative, integer, fraction) = split(text)?;
    write_plain(negative, integer, fraction, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_digits_read_as_number_and_text() {
        // From the comment of decimal2bin: 1234567890.1234, DECIMAL(14,4).
        let bytes = [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2];
        let packed = Packed::new(14, 4);
        assert_eq!(packed.bytes(), 7);
        assert_eq!(packed.unscaled(&bytes), Ok(12_345_678_901_234));
        let negative = bytes.map(|byte| !byte);
        assert_eq!(packed.unscaled(&negative), Ok(-12_345_678_901_234));
        let mut text = Vec::new();
        packed.write(&negative, &mut text).unwrap();
        assert_eq!(text, b"-1234567890.1234");
    }

    #[test]
    fn damaged_digits_are_refused() {
        assert!(Packed::new(2, 0).unscaled(&[0x80 | 100]).is_err());
        assert!(Packed::new(18, 9).unscaled(&[0x80, 0, 0]).is_err());
    }

    #[test]
    fn text_keeps_sign_and_scale() {
        assert_eq!(parse_unscaled(b"-0.05", 2), Ok(-5));
        assert_eq!(parse_unscaled(b"00012.50", 2), Ok(1250));
        assert!(parse_unscaled(b"1.5", 2).is_err());
        assert!(parse_unscaled(b"1e5", 0).is_err());
        for (text, scale, value) in [
            ("0.05", 2, 5),
            (".05", 2, 5),
            ("9999999999999999999", 0, 9_999_999_999_999_999_999),
            ("-99999999999999999.9", 1, -999_999_999_999_999_999),
            ("12345678901234567890.12", 2, 1_234_567_890_123_456_789_012),
            ("-0.00", 2, 0),
        ] {
            assert_eq!(parse_unscaled(text.as_bytes(), scale), Ok(value), "{text}");
        }
        for (text, scale) in [
            ("", 0),
            ("-", 0),
            (".", 0),
            ("1", 1),
            ("1.", 1),
            ("1-2", 0),
            ("1.2.3", 1),
        ] {
            assert!(parse_unscaled(text.as_bytes(), scale).is_err(), "{text}");
        }
        let mut text = Vec::new();
        write_text(b"00012.50", &mut text).unwrap();
        assert_eq!(text, b"12.50");
    }
}
