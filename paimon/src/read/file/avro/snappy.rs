//! Blocks compressed with Snappy: its raw format, with the CRC-32 of the bytes behind.
//!
//! Source: <https://github.com/google/snappy/blob/main/format_description.txt>

const SHORT: &str = "a Snappy block ends early";
const WRONG: &str = "a Snappy block is damaged";

/// No three bytes stand for more than 64.
const EXPANSION: usize = 32;

pub(super) fn decompress(block: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (data, sum) = block.split_last_chunk::<4>().ok_or(SHORT)?;
    let (length, mut data) = length(data).ok_or(SHORT)?;
    if length > data.len().saturating_mul(EXPANSION) {
        return Err(WRONG);
    }
    let mut out: Vec<u8> = Vec::with_capacity(length);
    while let Some((tag, rest)) = data.split_first() {
        let high = usize::from(tag >> 2);
        data = match tag & 3 {
            0 => {
                let more = high.saturating_sub(59);
                let (count, rest) = little_endian(rest, more).ok_or(SHORT)?;
                let count = if more == 0 { high } else { count } + 1;
                let (literal, rest) = rest.split_at_checked(count).ok_or(SHORT)?;
                if out.len() + count > length {
                    return Err(WRONG);
                }
                out.extend_from_slice(literal);
                rest
            }
            1 => {
                let (low, rest) = little_endian(rest, 1).ok_or(SHORT)?;
                copy(&mut out, ((high >> 3) << 8) | low, 4 + (high & 7), length)?;
                rest
            }
            kind => {
                let (back, rest) =
                    little_endian(rest, if kind == 2 { 2 } else { 4 }).ok_or(SHORT)?;
                copy(&mut out, back, high + 1, length)?;
                rest
            }
        };
    }
    if out.len() != length || crc32fast::hash(&out) != u32::from_be_bytes(*sum) {
        return Err(WRONG);
    }
    Ok(out)
}

/// Appends `count` bytes from `back` bytes before the end, which may be some that it appends.
fn copy(out: &mut Vec<u8>, back: usize, count: usize, length: usize) -> Result<(), &'static str> {
    let from = out.len().checked_sub(back).filter(|_| back > 0);
    let from = from.filter(|_| out.len() + count <= length).ok_or(WRONG)?;
    let mut left = count;
    while left > 0 {
        let piece = left.min(out.len() - from);
        out.extend_from_within(from..from + piece);
        left -= piece;
    }
    Ok(())
}

/// The length in front, a varint.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

fn little_endian(bytes: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(count)?;
    let digits = digits.iter().rev();
    Some((
        digits.fold(0, |value, byte| (value << 8) | usize::from(*byte)),
        rest,
    ))
}
