//! MySQL's multi-byte character sets of East Asia: the encoding of the web that each follows, and
//! the codes in which the server differs.
//!
//! Source: every code was asked of MySQL 9.7 and compared; the test of the character sets does it
//! again.

use std::{collections::HashMap, fmt, sync::OnceLock};

use encoding_rs::{BIG5, DecoderResult, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};

/// First and last code of a run, and the character of the first, the others following it in order;
/// U+0000: the server knows no character for any of them. Sorted by code.
type Difference = (u32, u32, char);

/// One character set, with the characters of its two-byte codes laid out when it is first used.
pub(crate) struct Table {
    encoding: &'static Encoding,
    differences: &'static [Difference],
    /// Characters of the codes 0x8000 to 0xFFFF; U+0000 where there is none.
    pairs: OnceLock<Box<[char]>>,
    /// Codes whose character has an earlier code, sorted.
    seconds: OnceLock<Box<[u32]>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encoding.name())
    }
}

impl Table {
    const fn new(encoding: &'static Encoding, differences: &'static [Difference]) -> Self {
        Self {
            encoding,
            differences,
            pairs: OnceLock::new(),
            seconds: OnceLock::new(),
        }
    }

    /// Bytes of the code that `bytes` starts with; its first byte is not ASCII.
    pub(super) fn length(&self, bytes: &[u8]) -> usize {
        let (first, second) = match bytes {
            [first, second, ..] => (*first, *second),
            _ => return 1,
        };
        let wanted = match self.encoding {
            encoding if encoding == EUC_JP => match first {
                0x8F => 3,
                0x8E if !(0xA1..=0xDF).contains(&second) => 1,
                _ => 2,
            },
            encoding if encoding == SHIFT_JIS => match first {
                0x80 | 0xA0..=0xDF | 0xFD..=0xFF => 1,
                _ => 2,
            },
            encoding if encoding == GB18030 && second.is_ascii_digit() => 4,
            _ => 2,
        };
        if wanted <= bytes.len() { wanted } else { 1 }
    }

    /// The character of a code.
    pub(super) fn char(&self, code: &[u8]) -> Option<char> {
        if let [first @ 0x80..=0xFF, second] = code {
            let pairs = self.pairs.get_or_init(|| {
                let codes = 0x8000..=0xFFFF_u16;
                codes
                    .map(|code| self.look_up(&code.to_be_bytes()).unwrap_or('\0'))
                    .collect()
            });
            let at = usize::from(first & 0x7F) << 8 | usize::from(*second);
            return pairs.get(at).copied().filter(|char| *char != '\0');
        }
        self.look_up(code)
    }

    /// Whether the code's character has another code that comes before this one.
    pub(super) fn is_second(&self, code: &[u8]) -> bool {
        if code.is_ascii() {
            return false;
        }
        let seconds = self.seconds.get_or_init(|| self.find_seconds());
        seconds.binary_search(&number(code)).is_ok()
    }

    /// ASCII comes first, then the lower code; only of the NEC selection of IBM's characters (leads
    /// 0xED and 0xEE of `cp932`) everyone uses the other, and the server gives it.
    fn find_seconds(&self) -> Box<[u32]> {
        let mut first: HashMap<char, u32> = (0..128_u8).map(|n| (n.into(), n.into())).collect();
        let mut seconds = Vec::new();
        let nec = 0xED40..=0xEEFC_u32;
        let is_last = |code: &u32| self.encoding == SHIFT_JIS && nec.contains(code);
        let pairs = (0x80..=0xFF_u32).chain(0x8000..=0xFFFF);
        let triples = match self.encoding == EUC_JP {
            true => 0x8F_A1A1..=0x8F_FEFE_u32,
            #[expect(clippy::reversed_empty_ranges, reason = "no codes of three bytes")]
            false => 1..=0,
        };
        let codes = pairs.clone().filter(|code| !is_last(code)).chain(triples);
        for code in codes.chain(pairs.filter(is_last)) {
            let bytes = code.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let bytes = bytes.get(zeros..).unwrap_or_default();
            // A pair that is not read as one has no character of its own.
            if self.length(bytes) != bytes.len() {
                continue;
            }
            if let Some(char) = self.char(bytes)
                && *first.entry(char).or_insert(code) != code
            {
                seconds.push(code);
            }
        }
        seconds.sort_unstable();
        seconds.into()
    }

    fn look_up(&self, code: &[u8]) -> Option<char> {
        if let Some(char) = difference(self.differences, number(code)) {
            return Some(char).filter(|char| *char != '\0');
        }
        let mut text = [0; 16];
        let (result, _, written) = self
            .encoding
            .new_decoder_without_bom_handling()
            .decode_to_utf8_without_replacement(code, &mut text, true);
        if result != DecoderResult::InputEmpty {
            return None;
        }
        let mut chars = std::str::from_utf8(text.get(..written)?).ok()?.chars();
        // A code of two characters is none of the server's.
        chars.next().filter(|_| chars.next().is_none())
    }
}

fn number(code: &[u8]) -> u32 {
    let bytes = code.iter();
    bytes.fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The character of a code where the server differs: U+0000 when it knows none.
fn difference(differences: &[Difference], code: u32) -> Option<char> {
    let at = differences.partition_point(|(_, last, _)| *last < code);
    let (first, _, char) = differences.get(at)?;
    let offset = code.checked_sub(*first)?;
    match char {
        '\0' => Some('\0'),
        char => char::from_u32(u32::from(*char) + offset),
    }
}

/// The sets by the server's names.
static SETS: [(&str, Table); 9] = [
    ("big5", Table::new(BIG5, BIG5_DIFFERENCES)),
    ("cp932", Table::new(SHIFT_JIS, &[])),
    ("eucjpms", Table::new(EUC_JP, EUCJPMS)),
    ("euckr", Table::new(EUC_KR, &[])),
    ("gb18030", Table::new(GB18030, GB18030_DIFFERENCES)),
    ("gb2312", Table::new(GBK, GB2312)),
    ("gbk", Table::new(GBK, GBK_DIFFERENCES)),
    ("sjis", Table::new(SHIFT_JIS, SJIS)),
    ("ujis", Table::new(EUC_JP, UJIS)),
];

/// A set by the server's name.
pub(super) fn named(name: &str) -> Option<&'static Table> {
    let (_, table) = SETS.iter().find(|(set, _)| *set == name)?;
    Some(table)
}

const BIG5_DIFFERENCES: &[Difference] = &[
    (0xA145, 0xA145, '•'),
    (0xA14E, 0xA14E, '､'),
    (0xA15A, 0xA15A, '\u{fffd}'),
    (0xA1C2, 0xA1C2, '‾'),
    (0xA1C3, 0xA1C3, '\u{fffd}'),
    (0xA1C5, 0xA1C5, '\u{fffd}'),
    (0xA1E3, 0xA1E3, '∼'),
    (0xA1F2, 0xA1F2, '♁'),
    (0xA1F3, 0xA1F3, '☉'),
    (0xA1FE, 0xA1FE, '\u{fffd}'),
    (0xA240, 0xA240, '\u{fffd}'),
    (0xA241, 0xA241, '／'),
    (0xA242, 0xA242, '＼'),
    (0xA244, 0xA244, '¥'),
    (0xA246, 0xA247, '¢'),
    (0xA2CC, 0xA2CC, '\u{fffd}'),
    (0xA2CE, 0xA2CE, '\u{fffd}'),
    (0xA3C0, 0xA3E1, '\0'),
    (0xC6A1, 0xC6A1, 'ヾ'),
    (0xC6A2, 0xC6A3, 'ゝ'),
    (0xC6A4, 0xC6A4, '々'),
    (0xC6A5, 0xC6F7, 'ぁ'),
    (0xC6F8, 0xC6FE, 'ァ'),
    (0xC740, 0xC77E, 'エ'),
    (0xC7A1, 0xC7B0, 'ョ'),
    (0xC7B1, 0xC7B2, 'Д'),
    (0xC7B3, 0xC7B3, 'Ё'),
    (0xC7B4, 0xC7BA, 'Ж'),
    (0xC7BB, 0xC7CD, 'У'),
    (0xC7CE, 0xC7CE, 'ё'),
    (0xC7CF, 0xC7E8, 'ж'),
    (0xC7E9, 0xC7F2, '①'),
    (0xC7F3, 0xC7FC, '⑴'),
    (0xC7FD, 0xC8A4, '\0'),
    (0xC8CD, 0xC8F1, '\0'),
    (0xC8F5, 0xC8FE, '\0'),
    (0xF9DD, 0xF9FE, '\0'),
];

const EUCJPMS: &[Difference] = &[
    (0xF5A1, 0xF5FE, '\u{e000}'),
    (0xF6A1, 0xF6FE, '\u{e05e}'),
    (0xF7A1, 0xF7FE, '\u{e0bc}'),
    (0xF8A1, 0xF8FE, '\u{e11a}'),
    (0xF9A1, 0xF9FE, '\u{e178}'),
    (0xFAA1, 0xFAFE, '\u{e1d6}'),
    (0xFBA1, 0xFBFE, '\u{e234}'),
    (0xFCA1, 0xFCFE, '\u{e292}'),
    (0xFDA1, 0xFDFE, '\u{e2f0}'),
    (0xFEA1, 0xFEFE, '\u{e34e}'),
    (0x8FA2C3, 0x8FA2C3, '￤'),
    (0x8FF3F3, 0x8FF3FC, 'ⅰ'),
    (0x8FF3FD, 0x8FF3FE, 'Ⅰ'),
    (0x8FF4A1, 0x8FF4A8, 'Ⅲ'),
    (0x8FF4A9, 0x8FF4A9, '＇'),
    (0x8FF4AA, 0x8FF4AA, '＂'),
    (0x8FF4AB, 0x8FF4AB, '㈱'),
    (0x8FF4AC, 0x8FF4AC, '№'),
    (0x8FF4AD, 0x8FF4AD, '℡'),
    (0x8FF4AE, 0x8FF4AE, '炻'),
    (0x8FF4AF, 0x8FF4AF, '仼'),
    (0x8FF4B0, 0x8FF4B0, '僴'),
    (0x8FF4B1, 0x8FF4B1, '凬'),
    (0x8FF4B2, 0x8FF4B2, '匇'),
    (0x8FF4B3, 0x8FF4B3, '匤'),
    (0x8FF4B4, 0x8FF4B4, '﨎'),
    (0x8FF4B5, 0x8FF4B5, '咊'),
    (0x8FF4B6, 0x8FF4B6, '坙'),
    (0x8FF4B7, 0x8FF4B8, '﨏'),
    (0x8FF4B9, 0x8FF4B9, '增'),
    (0x8FF4BA, 0x8FF4BA, '寬'),
    (0x8FF4BB, 0x8FF4BB, '峵'),
    (0x8FF4BC, 0x8FF4BC, '嵓'),
    (0x8FF4BD, 0x8FF4BD, '﨑'),
    (0x8FF4BE, 0x8FF4BE, '德'),
    (0x8FF4BF, 0x8FF4BF, '悅'),
    (0x8FF4C0, 0x8FF4C0, '愠'),
    (0x8FF4C1, 0x8FF4C1, '敎'),
    (0x8FF4C2, 0x8FF4C2, '昻'),
    (0x8FF4C3, 0x8FF4C3, '晥'),
    (0x8FF4C4, 0x8FF4C4, '晴'),
    (0x8FF4C5, 0x8FF4C5, '朗'),
    (0x8FF4C6, 0x8FF4C6, '栁'),
    (0x8FF4C7, 0x8FF4C8, '﨓'),
    (0x8FF4C9, 0x8FF4C9, '橫'),
    (0x8FF4CA, 0x8FF4CA, '櫢'),
    (0x8FF4CB, 0x8FF4CB, '淸'),
    (0x8FF4CC, 0x8FF4CC, '淲'),
    (0x8FF4CD, 0x8FF4CD, '瀨'),
    (0x8FF4CE, 0x8FF4CF, '凞'),
    (0x8FF4D0, 0x8FF4D0, '甁'),
    (0x8FF4D1, 0x8FF4D1, '皂'),
    (0x8FF4D2, 0x8FF4D2, '皞'),
    (0x8FF4D3, 0x8FF4D3, '益'),
    (0x8FF4D4, 0x8FF4D4, '礰'),
    (0x8FF4D5, 0x8FF4D8, '礼'),
    (0x8FF4D9, 0x8FF4D9, '竧'),
    (0x8FF4DA, 0x8FF4DB, '靖'),
    (0x8FF4DC, 0x8FF4DC, '綠'),
    (0x8FF4DD, 0x8FF4DD, '緖'),
    (0x8FF4DE, 0x8FF4DE, '羽'),
    (0x8FF4DF, 0x8FF4DF, '荢'),
    (0x8FF4E0, 0x8FF4E0, '﨟'),
    (0x8FF4E1, 0x8FF4E1, '薰'),
    (0x8FF4E2, 0x8FF4E3, '蘒'),
    (0x8FF4E4, 0x8FF4E4, '蠇'),
    (0x8FF4E5, 0x8FF4E5, '諸'),
    (0x8FF4E6, 0x8FF4E6, '譿'),
    (0x8FF4E7, 0x8FF4E7, '賴'),
    (0x8FF4E8, 0x8FF4E8, '赶'),
    (0x8FF4E9, 0x8FF4EB, '﨣'),
    (0x8FF4EC, 0x8FF4EC, '郞'),
    (0x8FF4ED, 0x8FF4ED, '都'),
    (0x8FF4EE, 0x8FF4EE, '鄕'),
    (0x8FF4EF, 0x8FF4F0, '﨧'),
    (0x8FF4F1, 0x8FF4F1, '閒'),
    (0x8FF4F2, 0x8FF4F2, '隆'),
    (0x8FF4F3, 0x8FF4F3, '﨩'),
    (0x8FF4F4, 0x8FF4F4, '霻'),
    (0x8FF4F5, 0x8FF4F5, '靍'),
    (0x8FF4F6, 0x8FF4F6, '靑'),
    (0x8FF4F7, 0x8FF4F9, '飯'),
    (0x8FF4FA, 0x8FF4FA, '馞'),
    (0x8FF4FB, 0x8FF4FB, '髙'),
    (0x8FF4FC, 0x8FF4FC, '魲'),
    (0x8FF4FD, 0x8FF4FD, '鶴'),
    (0x8FF4FE, 0x8FF4FE, '黑'),
    (0x8FF5A1, 0x8FF5FE, '\u{e3ac}'),
    (0x8FF6A1, 0x8FF6FE, '\u{e40a}'),
    (0x8FF7A1, 0x8FF7FE, '\u{e468}'),
    (0x8FF8A1, 0x8FF8FE, '\u{e4c6}'),
    (0x8FF9A1, 0x8FF9FE, '\u{e524}'),
    (0x8FFAA1, 0x8FFAFE, '\u{e582}'),
    (0x8FFBA1, 0x8FFBFE, '\u{e5e0}'),
    (0x8FFCA1, 0x8FFCFE, '\u{e63e}'),
    (0x8FFDA1, 0x8FFDFE, '\u{e69c}'),
    (0x8FFEA1, 0x8FFEFE, '\u{e6fa}'),
];

const GB18030_DIFFERENCES: &[Difference] = &[
    (0xA3A0, 0xA3A0, '\u{e5e5}'),
    (0xA6D9, 0xA6DF, '\u{e78d}'),
    (0xA6EC, 0xA6ED, '\u{e794}'),
    (0xA6F3, 0xA6F3, '\u{e796}'),
    (0xFE59, 0xFE59, '\u{e81e}'),
    (0xFE61, 0xFE61, '\u{e826}'),
    (0xFE66, 0xFE67, '\u{e82b}'),
    (0xFE6D, 0xFE6D, '\u{e832}'),
    (0xFE7E, 0xFE7E, '\u{e843}'),
    (0xFE90, 0xFE90, '\u{e854}'),
    (0xFEA0, 0xFEA0, '\u{e864}'),
];

const GB2312: &[Difference] = &[
    (0xA1A4, 0xA1A4, '・'),
    (0xA1AA, 0xA1AA, '―'),
    (0xA2A1, 0xA2B0, '\0'),
    (0xA2E3, 0xA2E4, '\0'),
    (0xA2EF, 0xA2F0, '\0'),
    (0xA2FD, 0xA2FE, '\0'),
    (0xA4F4, 0xA4FE, '\0'),
    (0xA5F7, 0xA5FE, '\0'),
    (0xA6B9, 0xA6C0, '\0'),
    (0xA6D9, 0xA6FE, '\0'),
    (0xA7C2, 0xA7D0, '\0'),
    (0xA7F2, 0xA7FE, '\0'),
    (0xA8BB, 0xA8C4, '\0'),
    (0xA8EA, 0xA9A3, '\0'),
    (0xA9F0, 0xAFFE, '\0'),
    (0xD7FA, 0xD7FE, '\0'),
];

const GBK_DIFFERENCES: &[Difference] = &[
    (0xA140, 0xA1A0, '\0'),
    (0xA240, 0xA2A0, '\0'),
    (0xA2AB, 0xA2B0, '\0'),
    (0xA2E3, 0xA2E4, '\0'),
    (0xA2EF, 0xA2F0, '\0'),
    (0xA2FD, 0xA3A0, '\0'),
    (0xA440, 0xA4A0, '\0'),
    (0xA4F4, 0xA5A0, '\0'),
    (0xA5F7, 0xA6A0, '\0'),
    (0xA6B9, 0xA6C0, '\0'),
    (0xA6D9, 0xA6DF, '\0'),
    (0xA6EC, 0xA6ED, '\0'),
    (0xA6F3, 0xA6F3, '\0'),
    (0xA6F6, 0xA7A0, '\0'),
    (0xA7C2, 0xA7D0, '\0'),
    (0xA7F2, 0xA7FE, '\0'),
    (0xA896, 0xA8A0, '\0'),
    (0xA8BC, 0xA8BC, '\0'),
    (0xA8BF, 0xA8BF, '\0'),
    (0xA8C1, 0xA8C4, '\0'),
    (0xA8EA, 0xA8FE, '\0'),
    (0xA958, 0xA958, '\0'),
    (0xA95B, 0xA95B, '\0'),
    (0xA95D, 0xA95F, '\0'),
    (0xA989, 0xA995, '\0'),
    (0xA997, 0xA9A3, '\0'),
    (0xA9F0, 0xA9FE, '\0'),
    (0xAAA1, 0xAAFE, '\0'),
    (0xABA1, 0xABFE, '\0'),
    (0xACA1, 0xACFE, '\0'),
    (0xADA1, 0xADFE, '\0'),
    (0xAEA1, 0xAEFE, '\0'),
    (0xAFA1, 0xAFFE, '\0'),
    (0xD7FA, 0xD7FE, '\0'),
    (0xF8A1, 0xF8FE, '\0'),
    (0xF9A1, 0xF9FE, '\0'),
    (0xFAA1, 0xFAFE, '\0'),
    (0xFBA1, 0xFBFE, '\0'),
    (0xFCA1, 0xFCFE, '\0'),
    (0xFDA1, 0xFDFE, '\0'),
    (0xFE50, 0xFEFE, '\0'),
];

const SJIS: &[Difference] = &[
    (0x815F, 0x815F, '\\'),
    (0x8160, 0x8160, '〜'),
    (0x8161, 0x8161, '‖'),
    (0x817C, 0x817C, '−'),
    (0x8191, 0x8192, '¢'),
    (0x81CA, 0x81CA, '¬'),
    (0x8740, 0x875D, '\0'),
    (0x875F, 0x8775, '\0'),
    (0x877E, 0x879C, '\0'),
    (0xED40, 0xEEEC, '\0'),
    (0xEEEF, 0xEEFC, '\0'),
    (0xF040, 0xFC4B, '\0'),
];

const UJIS: &[Difference] = &[
    (0xA1C0, 0xA1C0, '\\'),
    (0xA1C1, 0xA1C1, '〜'),
    (0xA1C2, 0xA1C2, '‖'),
    (0xA1DD, 0xA1DD, '−'),
    (0xA1F1, 0xA1F2, '¢'),
    (0xA2CC, 0xA2CC, '¬'),
    (0xADA1, 0xADBE, '\0'),
    (0xADC0, 0xADD6, '\0'),
    (0xADDF, 0xADFC, '\0'),
    (0xF5A1, 0xF5FE, '\u{e000}'),
    (0xF6A1, 0xF6FE, '\u{e05e}'),
    (0xF7A1, 0xF7FE, '\u{e0bc}'),
    (0xF8A1, 0xF8FE, '\u{e11a}'),
    (0xF9A1, 0xF9FE, '\u{e178}'),
    (0xFAA1, 0xFAFE, '\u{e1d6}'),
    (0xFBA1, 0xFBFE, '\u{e234}'),
    (0xFCA1, 0xFCFE, '\u{e292}'),
    (0xFDA1, 0xFDFE, '\u{e2f0}'),
    (0xFEA1, 0xFEFE, '\u{e34e}'),
    (0x8FA2B7, 0x8FA2B7, '~'),
    (0x8FF5A1, 0x8FF5FE, '\u{e3ac}'),
    (0x8FF6A1, 0x8FF6FE, '\u{e40a}'),
    (0x8FF7A1, 0x8FF7FE, '\u{e468}'),
    (0x8FF8A1, 0x8FF8FE, '\u{e4c6}'),
    (0x8FF9A1, 0x8FF9FE, '\u{e524}'),
    (0x8FFAA1, 0x8FFAFE, '\u{e582}'),
    (0x8FFBA1, 0x8FFBFE, '\u{e5e0}'),
    (0x8FFCA1, 0x8FFCFE, '\u{e63e}'),
    (0x8FFDA1, 0x8FFDFE, '\u{e69c}'),
    (0x8FFEA1, 0x8FFEFE, '\u{e6fa}'),
];
