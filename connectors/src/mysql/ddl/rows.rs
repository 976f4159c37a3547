//! Whether rows keep their values when a column's definition changes.

use crate::{
    mysql::{collations::bytes_max, table::MysqlColumn, types::Physical},
    schema::DataType,
};

/// What becomes of the values of a column that is defined anew.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Altered {
    /// Its type is the same.
    Not,
    /// Its type has room for every value that it had, which all stay as they are.
    Kept,
    /// Values may be others: why, to be followed by "of column …".
    Rows(&'static str),
}

/// Compares a column before and after. `strict`: values that do not fit make the statement fail.
pub(super) fn altered(before: &MysqlColumn, after: &MysqlColumn, strict: bool) -> Altered {
    let (Ok(old), Ok(new)) = (before.physical(), after.physical()) else {
        return Altered::Rows("changes the type");
    };
    let is_moment = matches!(
        new,
        Physical::Date | Physical::DateTime(_) | Physical::Timestamp(_)
    );
    if before.nullable != after.nullable {
        // A date that is none is NULL in the lake where it may be, and else 1970-01-01.
        if is_moment {
            return Altered::Rows("changes the nullability");
        }
        if before.nullable && !strict {
            return Altered::Rows("makes values of the NULLs");
        }
    }
    let same_text = before.charset == after.charset;
    if before.column_type == after.column_type && same_text && before.lake == after.lake {
        return Altered::Not;
    }
    let widened_text = before.charset.as_deref() == Some("utf8mb3")
        && after.charset.as_deref() == Some("utf8mb4")
        && strict;
    if !same_text && !widened_text {
        return Altered::Rows("changes the character set");
    }
    if before.lake != after.lake && !lake_widens(&before.lake, &after.lake) {
        return Altered::Rows("changes the type");
    }
    match keeps(&old, &new) && room(before, after, &old, &new, strict) {
        true => Altered::Kept,
        false => Altered::Rows("changes the type"),
    }
}

/// Whether the lake's values of one type are, turned into the other, those of the other.
fn lake_widens(old: &DataType, new: &DataType) -> bool {
    use DataType as L;
    let rank = |kind: &L| match kind {
        L::TinyInt => Some(3),
        L::SmallInt => Some(5),
        L::Int => Some(10),
        L::BigInt => Some(19),
        L::Decimal(precision, 0) => Some(*precision),
        _ => None,
    };
    match (old, new) {
        (L::Decimal(p, s), L::Decimal(wide_p, wide_s)) => wide_s >= s && wide_p - wide_s >= p - s,
        (L::VarChar(short), L::VarChar(long)) | (L::VarBinary(short), L::VarBinary(long)) => {
            long >= short
        }
        (L::VarChar(_), L::String) | (L::VarBinary(_), L::Bytes) => true,
        (L::Char(short), L::Char(long)) => long >= short,
        (L::Timestamp(few), L::Timestamp(more))
        | (L::TimestampLtz(few), L::TimestampLtz(more))
        | (L::Time(few), L::Time(more)) => more >= few,
        _ => match (rank(old), rank(new)) {
            (Some(old), Some(new)) => new >= old,
            _ => false,
        },
    }
}

/// Whether the server keeps every value when it turns one type into the other.
fn keeps(old: &Physical, new: &Physical) -> bool {
    use Physical as P;
    match (old, new) {
        (
            P::Int {
                bytes, unsigned, ..
            },
            P::Int {
                bytes: wide,
                unsigned: same,
                ..
            },
        ) => wide >= bytes && unsigned == same,
        (
            P::Decimal { precision, scale },
            P::Decimal {
                precision: wide,
                scale: more,
            },
        ) => more >= scale && wide.saturating_sub(*more) >= precision.saturating_sub(*scale),
        (P::Char(short), P::Char(long))
        | (P::VarChar(short), P::VarChar(long))
        | (P::VarBinary(short), P::VarBinary(long)) => long >= short,
        // What a type of text or bytes holds is compared by `room`.
        (P::VarChar(_) | P::Text, P::Text) | (P::VarBinary(_) | P::Blob, P::Blob) => true,
        (P::Time(few), P::Time(more))
        | (P::DateTime(few), P::DateTime(more))
        | (P::Timestamp(few), P::Timestamp(more)) => more >= few,
        (P::Enum(few), P::Enum(more)) | (P::Set(few), P::Set(more)) => more.starts_with(few),
        _ => old == new,
    }
}

/// Whether the new type has room for what the old one held, in bytes.
fn room(
    before: &MysqlColumn,
    after: &MysqlColumn,
    old: &Physical,
    new: &Physical,
    strict: bool,
) -> bool {
    if before.has_hidden_labels() || after.has_hidden_labels() {
        return false;
    }
    // DECIMAL and FLOAT: a sign that is given up, and digits that are cut (`FLOAT(7,2)`).
    if matches!(
        old,
        Physical::Decimal { .. } | Physical::Float | Physical::Double
    ) {
        let unsigned = |column: &MysqlColumn| column.column_type.contains("unsigned");
        let is_decimal = matches!(old, Physical::Decimal { .. });
        return match is_decimal {
            true => unsigned(before) == unsigned(after),
            false => before.column_type == after.column_type,
        };
    }
    let (Some(held), Some(holds)) = (capacity(before, old), capacity(after, new)) else {
        return true;
    };
    holds >= held || strict && before.charset != after.charset
}

/// Bytes that a column of text or bytes holds.
fn capacity(column: &MysqlColumn, physical: &Physical) -> Option<u64> {
    let each = u64::from(column.charset.as_deref().map_or(1, bytes_max));
    match physical {
        Physical::VarChar(length) => Some(u64::from(*length) * each),
        Physical::VarBinary(length) => Some(u64::from(*length)),
        Physical::Text | Physical::Blob => Some(match column.data_type.as_str() {
            "tinytext" | "tinyblob" => 0xff,
            "text" | "blob" => 0xffff,
            "longtext" | "longblob" => 0xffff_ffff,
            _ => 0xff_ffff,
        }),
        _ => None,
    }
}
