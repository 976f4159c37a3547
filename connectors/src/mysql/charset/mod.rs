//! Text of a column's character set → UTF-8, as the server itself converts it.
//!
//! A code that has no character becomes `?`, which is what the server gives to every client. Both
//! phases decode the column's own bytes here, so they agree; in a key such a value is refused,
//! since two keys could become one. So is, in a key, a code whose character has another code, too
//! (see [`Charset::is_one_to_one`]).

mod multi_byte;
mod single_byte;

/// Converts the bytes of one character set.
#[derive(Debug)]
pub(crate) enum Charset {
    /// `utf8mb4`, `utf8mb3` and `ascii`: checked and copied.
    Utf8,
    /// One character for each byte from 0x80.
    SingleByte(Box<[char; 128]>),
    /// Codes of one to four bytes.
    MultiByte(&'static multi_byte::Table),
    /// Units of this many bytes (2 with surrogates, or 4), big endian unless told.
    Units { bytes: usize, little_endian: bool },
}

/// How a conversion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Converted {
    /// Every code has a character.
    Exact,
    /// Some code became `?`.
    Replaced,
}

/// The bytes are not text of the set, and the server would hand them out as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotText;

impl Charset {
    /// The set by the server's name; `None` when it is not supported.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "utf8mb4" | "utf8mb3" | "utf8" | "ascii" => return Some(Self::Utf8),
            "ucs2" | "utf16" => {
                return Some(Self::Units {
                    bytes: 2,
                    little_endian: false,
                });
            }
            "utf16le" => {
                return Some(Self::Units {
                    bytes: 2,
                    little_endian: true,
                });
            }
            "utf32" => {
                return Some(Self::Units {
                    bytes: 4,
                    little_endian: false,
                });
            }
            _ => {}
        }
        if let Some(table) = multi_byte::named(&name) {
            return Some(Self::MultiByte(table));
        }
        let (_, upper) = single_byte::SETS.iter().find(|(set, _)| *set == name)?;
        let mut table = Box::new(['\0'; 128]);
        for (slot, char) in table.iter_mut().zip(upper.chars()) {
            *slot = char;
        }
        Some(Self::SingleByte(table))
    }

    /// Whether the server's own UTF-8 for the column is byte for byte what is stored.
    pub(crate) fn is_utf8(&self) -> bool {
        matches!(self, Self::Utf8)
    }

    /// Whether every character stands here in the first of its codes. Two texts for which that is
    /// so are the same characters only when they are the same bytes.
    pub(crate) fn is_one_to_one(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Utf8 | Self::Units { .. } => true,
            _ if bytes.is_ascii() => true,
            Self::SingleByte(table) => bytes.iter().all(|byte| {
                let upper = byte.checked_sub(128).map(usize::from);
                let char = upper.and_then(|upper| table.get(upper));
                char.is_none_or(|char| {
                    let first = table.iter().position(|other| other == char);
                    *char == '\0' || (!char.is_ascii() && first == upper)
                })
            }),
            Self::MultiByte(table) => codes(table, bytes).all(|code| !table.is_second(code)),
        }
    }

    /// Appends `bytes` as UTF-8.
    pub(crate) fn append(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Converted, NotText> {
        match self {
            Self::Utf8 => {
                if simdutf8::basic::from_utf8(bytes).is_err() {
                    return Err(NotText);
                }
                out.extend_from_slice(bytes);
                Ok(Converted::Exact)
            }
            Self::SingleByte(_) | Self::MultiByte(_) if bytes.is_ascii() => {
                out.extend_from_slice(bytes);
                Ok(Converted::Exact)
            }
            Self::SingleByte(table) => Ok(append_single(table, bytes, out)),
            Self::MultiByte(table) => Ok(append_multi(table, bytes, out)),
            Self::Units {
                bytes: 4,
                little_endian: _,
            } => Ok(append_utf32(bytes, out)),
            Self::Units { little_endian, .. } => Ok(append_utf16(bytes, *little_endian, out)),
        }
    }
}

impl Converted {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact, Self::Exact) => Self::Exact,
            _ => Self::Replaced,
        }
    }
}

fn push(char: char, out: &mut Vec<u8>) -> Converted {
    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    // The server has no character of its own for some codes of big5 and tis620 and says so.
    if char == char::REPLACEMENT_CHARACTER {
        Converted::Replaced
    } else {
        Converted::Exact
    }
}

fn append_single(table: &[char; 128], bytes: &[u8], out: &mut Vec<u8>) -> Converted {
    let mut converted = Converted::Exact;
    for byte in bytes {
        match byte.checked_sub(128) {
            None => out.push(*byte),
            Some(upper) => match table.get(usize::from(upper)) {
                Some('\0') | None => {
                    converted = Converted::Replaced;
                    out.push(b'?');
                }
                Some(char) => converted = converted.and(push(*char, out)),
            },
        }
    }
    converted
}

/// The codes of a text, ASCII ones included.
fn codes<'a>(table: &multi_byte::Table, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = match rest.first()? {
            first if first.is_ascii() => 1,
            _ => table.length(rest),
        };
        let (code, tail) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        rest = tail;
        Some(code)
    })
}

fn append_multi(table: &multi_byte::Table, bytes: &[u8], out: &mut Vec<u8>) -> Converted {
    let mut converted = Converted::Exact;
    for code in codes(table, bytes) {
        if code.is_ascii() {
            out.extend_from_slice(code);
            continue;
        }
        match table.char(code) {
            Some(char) => converted = converted.and(push(char, out)),
            None => {
                converted = Converted::Replaced;
                out.push(b'?');
            }
        }
    }
    converted
}

fn append_utf16(bytes: &[u8], little_endian: bool, out: &mut Vec<u8>) -> Converted {
    let mut converted = Converted::Exact;
    let units = bytes.chunks(2).map(|unit| match unit {
        [one, two] if little_endian => u16::from_le_bytes([*one, *two]),
        [one, two] => u16::from_be_bytes([*one, *two]),
        // Half a unit: a lone surrogate, so that it is replaced.
        _ => 0xD800,
    });
    for char in char::decode_utf16(units) {
        match char {
            // A U+FFFD that is stored is one.
            Ok(char) => {
                push(char, out);
            }
            Err(_) => {
                converted = Converted::Replaced;
                out.push(b'?');
            }
        }
    }
    converted
}

fn append_utf32(bytes: &[u8], out: &mut Vec<u8>) -> Converted {
    let mut converted = Converted::Exact;
    for unit in bytes.chunks(4) {
        let char = <[u8; 4]>::try_from(unit)
            .ok()
            .and_then(|unit| char::from_u32(u32::from_be_bytes(unit)));
        match char {
            Some(char) => {
                push(char, out);
            }
            None => {
                converted = Converted::Replaced;
                out.push(b'?');
            }
        }
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_codes_of_a_character_are_known() {
        let is_one_to_one = |set: &str, bytes: &[u8]| {
            let charset = Charset::named(set).unwrap();
            let mut out = Vec::new();
            assert_eq!(charset.append(bytes, &mut out), Ok(Converted::Exact));
            charset.is_one_to_one(bytes)
        };
        for (set, first, second) in [
            ("cp932", &[0x81, 0xCA][..], &[0xEE, 0xF9][..]),
            ("cp932", &[0x87, 0x54], &[0xFA, 0x4A]),
            ("cp932", &[0xFA, 0x5C], &[0xED, 0x40]),
            ("cp932", b"ab", &[b'a', 0xEE, 0xFC]),
            ("sjis", b"\\", &[0x81, 0x5F]),
            ("ujis", b"\\", &[0xA1, 0xC0]),
            ("ujis", b"~", &[0x8F, 0xA2, 0xB7]),
            ("eucjpms", &[0xA2, 0xE2], &[0xAD, 0xF0]),
            ("eucjpms", &[0xAD, 0xB5], &[0x8F, 0xF3, 0xFD]),
            ("armscii8", b")", &[0xA4]),
        ] {
            assert!(is_one_to_one(set, first), "{set} {first:x?}");
            assert!(!is_one_to_one(set, second), "{set} {second:x?}");
        }
        // Whatever is taken for one-to-one is: no two codes of a set give one character.
        for set in [
            "armscii8", "hp8", "latin1", "tis620", "big5", "cp932", "eucjpms", "euckr", "gb18030",
            "gb2312", "gbk", "sjis", "ujis",
        ] {
            let charset = Charset::named(set).unwrap();
            let mut seen = std::collections::HashMap::new();
            let triples = (0x8F_A1A1..=0x8F_FEFE_u32).filter(|_| set.contains('j'));
            for code in (0..=0xFF).chain(0x8000..=0xFFFF).chain(triples) {
                let bytes = code.to_be_bytes();
                let bytes = &bytes[bytes.iter().take_while(|b| **b == 0).count().min(3)..];
                let mut text = Vec::new();
                if charset.append(bytes, &mut text) == Ok(Converted::Exact)
                    && charset.is_one_to_one(bytes)
                    && let Some(other) = seen.insert(text.clone(), code)
                {
                    panic!("{set}: {other:x} and {code:x} are {text:x?}");
                }
            }
        }
        assert!(is_one_to_one("gbk", &[0xD6, 0xD0, b'a', 0xCE, 0xC4]));
        assert!(is_one_to_one("latin1", &[0xE9, 0x80]));
    }
}
