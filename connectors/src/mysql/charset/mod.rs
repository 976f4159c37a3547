//! Text of a column's character set → UTF-8, as the server itself converts it.
//!
//! A code that has no character becomes `?`, which is what the server gives to every client. Both
//! phases decode the column's own bytes here, so they agree; in a key such a value is refused,
//! since two keys could become one. Not solved: sets in which two valid codes mean one character
//! (a few NEC and IBM rows of `sjis` and `cp932`); a key that uses both spellings would merge.

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

    /// Appends `bytes` as UTF-8.
    pub(crate) fn append(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Converted, NotText> {
        match self {
            Self::Utf8 => {
                if std::str::from_utf8(bytes).is_err() {
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

fn append_multi(table: &multi_byte::Table, bytes: &[u8], out: &mut Vec<u8>) -> Converted {
    let mut converted = Converted::Exact;
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        if first.is_ascii() {
            out.push(*first);
            rest = tail;
            continue;
        }
        let length = table.length(rest);
        let (code, tail) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        rest = tail;
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
