//! MySQL's multi-byte character sets of East Asia: the encoding of the web that each follows, and
//! the codes in which the server differs.

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};

/// Codes in which the server differs, sorted by code; U+0000: the server knows no character.
type Differences = &'static [(u32, char)];

/// The encoding and the differences of a set.
pub(super) fn named(name: &str) -> Option<(&'static Encoding, Differences)> {
    let _ = (BIG5, EUC_JP, EUC_KR, GB18030, GBK, SHIFT_JIS);
    Some(match name {
        "big5" => (BIG5, &[]),
        "cp932" => (SHIFT_JIS, &[]),
        "eucjpms" => (EUC_JP, &[]),
        "euckr" => (EUC_KR, &[]),
        "gb18030" => (GB18030, &[]),
        "gb2312" => (GBK, &[]),
        "gbk" => (GBK, &[]),
        "sjis" => (SHIFT_JIS, &[]),
        "ujis" => (EUC_JP, &[]),
        _ => return None,
    })
}

/// Bytes of the code that `bytes` starts with.
pub(super) fn length(encoding: &'static Encoding, bytes: &[u8]) -> usize {
    let (first, second) = match bytes {
        [first, second, ..] => (*first, *second),
        _ => return 1,
    };
    let wanted = if first < 0x80 {
        1
    } else if encoding == EUC_JP && first == 0x8F {
        3
    } else if encoding == SHIFT_JIS && matches!(first, 0x80 | 0xA0..=0xDF | 0xFD..=0xFF) {
        1
    } else if encoding == GB18030 && second.is_ascii_digit() {
        4
    } else {
        2
    };
    if wanted <= bytes.len() { wanted } else { 1 }
}
