//! A table and its table map → one plan a column, with every contradiction named.

use mysql_async::{
    binlog::events::{OptionalMetaExtractor, OptionalMetadataField, TableMapEvent},
    consts::ColumnType,
};
use mysql_common::collations::{Collation, CollationId};

use crate::{
    error::{Error, Result},
    mysql::{
        buffer::{Handled, fault},
        charset::Charset,
        codec::Codec,
        decimal::Packed,
        table::{MysqlColumn, MysqlTable, same_name},
        types::Physical,
    },
};

/// How long a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Always so many bytes.
    Fixed(usize),
    /// A little-endian length of 1 to 4 bytes stands before it.
    Prefixed(u8),
}

/// One column as it stands in a row image.
#[derive(Debug)]
pub(super) struct WireColumn {
    pub(super) codec: Codec,
    pub(super) extent: Extent,
}

impl WireColumn {
    /// Bytes of the length prefix and of the value that `rest` starts with.
    #[inline]
    pub(super) fn extent(&self, rest: &[u8]) -> Handled<(usize, usize)> {
        let (prefix, length) = match (self.extent, rest) {
            (Extent::Fixed(length), _) => return Ok((0, length)),
            (Extent::Prefixed(1), [a, ..]) => (1, u32::from(*a)),
            (Extent::Prefixed(2), [a, b, ..]) => (2, u32::from_le_bytes([*a, *b, 0, 0])),
            (Extent::Prefixed(3), [a, b, c, ..]) => (3, u32::from_le_bytes([*a, *b, *c, 0])),
            (Extent::Prefixed(4), [a, b, c, d, ..]) => (4, u32::from_le_bytes([*a, *b, *c, *d])),
            _ => return Err(fault("a row ends early")),
        };
        Ok((prefix, length as usize))
    }
}

/// What the optional part of a table map says about a column.
#[derive(Debug, Default, Clone)]
struct Said {
    unsigned: Option<bool>,
    charset: Option<&'static str>,
    name: Option<String>,
    /// Labels of an ENUM or SET, in the column's character set.
    labels: Option<Vec<Vec<u8>>>,
}

/// Compiles every column.
pub(super) fn compile(table: &MysqlTable, map: &TableMapEvent<'_>) -> Result<Vec<WireColumn>> {
    let count = usize::try_from(map.columns_count()).unwrap_or(usize::MAX);
    if count != table.columns.len() || count == 0 {
        return Err(Error::definite(format!(
            "the log's rows have {count} columns, the table is known with {}",
            table.columns.len()
        ))
        .table(&table.name));
    }
    let mut types = Vec::with_capacity(count);
    for (at, column) in table.columns.iter().enumerate() {
        match map.get_column_type(at) {
            Ok(Some(kind)) => types.push(kind),
            _ => {
                return Err(Error::definite("the log's type is not known")
                    .table(&table.name)
                    .column(&column.name));
            }
        }
    }
    let said = read_said(map, &types);
    let columns = table.columns.iter().zip(types).zip(said).enumerate();
    columns
        .map(|(at, ((column, kind), said))| {
            let metadata = map.get_column_metadata(at).unwrap_or_default();
            check_said(column, &said)
                .and_then(|()| compile_column(column, kind, metadata, said.labels))
                .map_err(|error| error.table(&table.name).column(&column.name))
        })
        .collect()
}

/// Labels of every ENUM and of every SET column, in the table's order.
fn read_labels(map: &TableMapEvent<'_>) -> [Vec<Vec<Vec<u8>>>; 2] {
    let (mut enums, mut sets) = (Vec::new(), Vec::new());
    for field in map.iter_optional_meta().filter_map(std::result::Result::ok) {
        match field {
            OptionalMetadataField::EnumStrValue(all) => {
                for column in all.iter_values().filter_map(std::result::Result::ok) {
                    let labels = column.values().iter();
                    enums.push(labels.map(|label| label.value_raw().to_vec()).collect());
                }
            }
            OptionalMetadataField::SetStrValue(all) => {
                for column in all.iter_values().filter_map(std::result::Result::ok) {
                    let labels = column.values().iter();
                    sets.push(labels.map(|label| label.value_raw().to_vec()).collect());
                }
            }
            _ => {}
        }
    }
    [enums, sets]
}

/// Reads the optional metadata; what cannot be read says nothing.
fn read_said(map: &TableMapEvent<'_>, types: &[ColumnType]) -> Vec<Said> {
    let mut all = vec![Said::default(); types.len()];
    let Ok(meta) = OptionalMetaExtractor::new(map.iter_optional_meta()) else {
        return all;
    };
    let mut signs = meta.iter_signedness();
    let mut charsets = meta.iter_charset();
    let mut label_charsets = meta.iter_enum_and_set_charset();
    let mut names = meta.iter_column_name();
    let [enums, sets] = read_labels(map);
    let (mut enums, mut sets) = (enums.into_iter(), sets.into_iter());
    let charset = |id: Option<std::io::Result<u16>>| {
        let id = CollationId::from(id?.ok()?);
        Some(Collation::resolve(id).charset).filter(|charset| *charset != "unknown")
    };
    for (said, kind) in all.iter_mut().zip(types) {
        if kind.is_numeric_type() {
            said.unsigned = signs
                .next()
                .filter(|_| *kind != ColumnType::MYSQL_TYPE_YEAR);
        }
        // The server counts VECTOR, whose base class is BLOB, among the text types.
        if kind.is_character_type() || kind.is_vector_type() {
            said.charset = charset(charsets.next());
        } else if kind.is_enum_or_set_type() {
            said.charset = charset(label_charsets.next());
            said.labels = if kind.is_enum_type() {
                enums.next()
            } else {
                sets.next()
            };
        }
        said.name = names
            .next()
            .and_then(std::result::Result::ok)
            .map(|name| name.name().into_owned());
    }
    all
}

fn check_said(column: &MysqlColumn, said: &Said) -> Result<()> {
    if let Some(name) = &said.name
        && !same_name(name, &column.name)
    {
        return Err(Error::definite(format!("the log calls the column {name}")));
    }
    if let (
        Some(unsigned),
        Physical::Int {
            unsigned: known, ..
        },
    ) = (said.unsigned, column.physical()?)
        && unsigned != known
    {
        return Err(Error::definite(format!(
            "the log's type is {}, the table's {}",
            if unsigned { "unsigned" } else { "signed" },
            column.column_type
        )));
    }
    if let (Some(said), Some(known)) = (said.charset, column.charset.as_deref())
        && modern(said) != modern(known)
    {
        return Err(Error::definite(format!(
            "the log's character set is {said}, the table's {known}"
        )));
    }
    Ok(())
}

/// The name of today's servers.
fn modern(charset: &str) -> &str {
    if charset == "utf8" {
        "utf8mb3"
    } else {
        charset
    }
}

fn compile_column(
    column: &MysqlColumn,
    kind: ColumnType,
    metadata: &[u8],
    labels: Option<Vec<Vec<u8>>>,
) -> Result<WireColumn> {
    let physical = column.physical()?;
    let extent = extent(&physical, kind, metadata).ok_or_else(|| {
        Error::definite(format!(
            "the log's type is {kind:?} {metadata:?}, the table's {}",
            column.column_type
        ))
    })?;
    let mut codec = Codec::new(column)?;
    if let Codec::Enum(known) | Codec::Set(known) = &mut codec {
        match labels {
            Some(logged) => *known = true_labels(column, known, &logged)?,
            None if column.has_hidden_labels() => {
                return Err(Error::definite(
                    "a label may hold a character that the information schema shows as '?'",
                )
                .advice("Set binlog_row_metadata=FULL on the server"));
            }
            None => {}
        }
    }
    Ok(WireColumn { codec, extent })
}

/// The log's labels, when they are the table's: the information schema shows characters of more
/// than three UTF-8 bytes as `?`, the log has them.
fn true_labels(
    column: &MysqlColumn,
    known: &[Box<str>],
    logged: &[Vec<u8>],
) -> Result<Box<[Box<str>]>> {
    let name = column.charset.as_deref().unwrap_or("utf8mb4");
    let charset = Charset::named(name)
        .ok_or_else(|| Error::definite(format!("character set '{name}' is not supported")))?;
    let labels: Option<Box<[Box<str>]>> = logged
        .iter()
        .map(|label| {
            let mut text = Vec::new();
            charset.append(label, &mut text).ok()?;
            Some(String::from_utf8(text).ok()?.into_boxed_str())
        })
        .collect();
    let shown = |label: &str| -> String {
        let chars = label.chars();
        chars
            .map(|char| if char > '\u{FFFF}' { '?' } else { char })
            .collect()
    };
    labels
        .filter(|labels| {
            let mut pairs = labels.iter().zip(known);
            labels.len() == known.len() && pairs.all(|(label, known)| shown(label) == shown(known))
        })
        .ok_or_else(|| {
            Error::definite(format!(
                "the log's labels are not those of the table's {}",
                column.column_type
            ))
        })
}

/// How long values are, when the log's type is the table's.
fn extent(physical: &Physical, kind: ColumnType, metadata: &[u8]) -> Option<Extent> {
    use ColumnType as T;
    let fraction = |whole: usize, digits: u8| {
        let same = metadata.first() == Some(&digits);
        same.then_some(Extent::Fixed(whole + usize::from(digits.div_ceil(2))))
    };
    let label = |wide: u8| match metadata {
        [_, bytes] if (1..=wide).contains(bytes) => Some(Extent::Fixed(usize::from(*bytes))),
        _ => None,
    };
    match (physical, kind) {
        (Physical::Int { bytes, .. }, kind) => {
            let wire = match kind {
                T::MYSQL_TYPE_TINY => 1,
                T::MYSQL_TYPE_SHORT => 2,
                T::MYSQL_TYPE_INT24 => 3,
                T::MYSQL_TYPE_LONG => 4,
                T::MYSQL_TYPE_LONGLONG => 8,
                _ => return None,
            };
            (wire == *bytes).then_some(Extent::Fixed(usize::from(wire)))
        }
        (Physical::Float, T::MYSQL_TYPE_FLOAT) => Some(Extent::Fixed(4)),
        (Physical::Double, T::MYSQL_TYPE_DOUBLE) => Some(Extent::Fixed(8)),
        (Physical::Decimal { precision, scale }, T::MYSQL_TYPE_NEWDECIMAL) => {
            let bytes = Packed::new(*precision, *scale).bytes();
            (metadata == [*precision, *scale]).then_some(Extent::Fixed(bytes))
        }
        (Physical::Bit(bits), T::MYSQL_TYPE_BIT) => match metadata {
            [rest, bytes] if u32::from(*bytes) * 8 + u32::from(*rest) == *bits => {
                Some(Extent::Fixed(bits.div_ceil(8) as usize))
            }
            _ => None,
        },
        (Physical::Char(_) | Physical::Binary(_), T::MYSQL_TYPE_STRING) => match metadata {
            // The two high bits of the length hide, flipped, in the type byte.
            [kind, low] => {
                let high = u16::from(kind & 0x30 ^ 0x30) << 4;
                let length = high | u16::from(*low);
                Some(Extent::Prefixed(if length < 256 { 1 } else { 2 }))
            }
            _ => None,
        },
        (Physical::VarChar(_) | Physical::VarBinary(_), T::MYSQL_TYPE_VARCHAR) => match metadata {
            [low, high] => {
                let length = u16::from_le_bytes([*low, *high]);
                Some(Extent::Prefixed(if length < 256 { 1 } else { 2 }))
            }
            _ => None,
        },
        (
            Physical::Text | Physical::Blob,
            T::MYSQL_TYPE_BLOB
            | T::MYSQL_TYPE_TINY_BLOB
            | T::MYSQL_TYPE_MEDIUM_BLOB
            | T::MYSQL_TYPE_LONG_BLOB,
        )
        | (Physical::Json, T::MYSQL_TYPE_JSON)
        | (Physical::Geometry, T::MYSQL_TYPE_GEOMETRY)
        | (Physical::Vector(_), T::MYSQL_TYPE_VECTOR) => match metadata {
            [bytes @ 1..=4] => Some(Extent::Prefixed(*bytes)),
            _ => None,
        },
        (Physical::Date, T::MYSQL_TYPE_DATE | T::MYSQL_TYPE_NEWDATE) => Some(Extent::Fixed(3)),
        (Physical::Time(digits), T::MYSQL_TYPE_TIME2) => fraction(3, *digits),
        (Physical::DateTime(digits), T::MYSQL_TYPE_DATETIME2) => fraction(5, *digits),
        (Physical::Timestamp(digits), T::MYSQL_TYPE_TIMESTAMP2) => fraction(4, *digits),
        (Physical::Year, T::MYSQL_TYPE_YEAR) => Some(Extent::Fixed(1)),
        (Physical::Enum(_), T::MYSQL_TYPE_ENUM) => label(2),
        (Physical::Set(_), T::MYSQL_TYPE_SET) => label(8),
        _ => None,
    }
}
