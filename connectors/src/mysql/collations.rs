//! Names of character sets and collations, and which collation a set has by default.

/// Default collations. Source: `SHOW CHARACTER SET` of MySQL 9.
const DEFAULTS: [(&str, &str); 40] = [
    ("armscii8", "armscii8_general_ci"),
    ("ascii", "ascii_general_ci"),
    ("big5", "big5_chinese_ci"),
    ("binary", "binary"),
    ("cp1250", "cp1250_general_ci"),
    ("cp1251", "cp1251_general_ci"),
    ("cp1256", "cp1256_general_ci"),
    ("cp1257", "cp1257_general_ci"),
    ("cp850", "cp850_general_ci"),
    ("cp852", "cp852_general_ci"),
    ("cp866", "cp866_general_ci"),
    ("cp932", "cp932_japanese_ci"),
    ("dec8", "dec8_swedish_ci"),
    ("eucjpms", "eucjpms_japanese_ci"),
    ("euckr", "euckr_korean_ci"),
    ("gb18030", "gb18030_chinese_ci"),
    ("gb2312", "gb2312_chinese_ci"),
    ("gbk", "gbk_chinese_ci"),
    ("geostd8", "geostd8_general_ci"),
    ("greek", "greek_general_ci"),
    ("hebrew", "hebrew_general_ci"),
    ("hp8", "hp8_english_ci"),
    ("keybcs2", "keybcs2_general_ci"),
    ("koi8r", "koi8r_general_ci"),
    ("koi8u", "koi8u_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("latin2", "latin2_general_ci"),
    ("latin5", "latin5_turkish_ci"),
    ("latin7", "latin7_general_ci"),
    ("macce", "macce_general_ci"),
    ("macroman", "macroman_general_ci"),
    ("sjis", "sjis_japanese_ci"),
    ("swe7", "swe7_swedish_ci"),
    ("tis620", "tis620_thai_ci"),
    ("ucs2", "ucs2_general_ci"),
    ("ujis", "ujis_japanese_ci"),
    ("utf16", "utf16_general_ci"),
    ("utf16le", "utf16le_general_ci"),
    ("utf32", "utf32_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
];

/// The collation of a character set that is named alone. That of `utf8mb4` is a matter of the
/// version and of the session.
pub(super) fn default_collation<'a>(charset: &str, utf8mb4: &'a str) -> Option<&'a str> {
    if charset == "utf8mb4" {
        return Some(utf8mb4);
    }
    let found = DEFAULTS.iter().find(|(name, _)| *name == charset);
    found.map(|(_, collation)| *collation)
}

/// Every collation's name starts with its character set's.
pub(super) fn charset_of(collation: &str) -> &str {
    collation.split('_').next().unwrap_or_default()
}

/// The name of today's servers, of a character set or a collation: `utf8` alone was `utf8mb3`.
pub(super) fn full_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix("utf8") {
        Some("") => "utf8mb3".into(),
        Some(rest) if rest.starts_with('_') => format!("utf8mb3{rest}"),
        _ => name,
    }
}

/// Most bytes of a character.
pub(super) fn bytes_max(charset: &str) -> u32 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8mb3" | "utf8" | "ujis" | "eucjpms" => 3,
        "big5" | "gbk" | "gb2312" | "sjis" | "cp932" | "euckr" | "ucs2" => 2,
        _ => 1,
    }
}
