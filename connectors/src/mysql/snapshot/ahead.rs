//! Whether a table is still what a chunk's reader takes it for: the server may be ahead of the tail,
//! which has yet to meet the statement that changed it. Then nothing that was read counts.

use mysql_async::{
    Column,
    consts::{ColumnFlags, ColumnType},
};

use super::super::{
    discover::text,
    select::SelectPlan,
    table::{MysqlColumn, MysqlTable, same_name},
    types::Physical,
    wire::WireConn,
};
use crate::error::{Error, Meaning, Result};

/// The error of a read whose table has changed.
pub(super) fn changed(table: &MysqlTable, what: &str) -> Error {
    Error::transient(format!(
        "{} has changed while it was read ({what}); the log says how",
        table.name
    ))
    .meaning(Meaning::SchemaChanged)
}

/// Compares the columns of a result with those that the table is known with.
pub(super) fn check_columns(plan: &SelectPlan, table: &MysqlTable, sent: &[Column]) -> Result<()> {
    for (column, sent) in table.columns.iter().zip(sent) {
        if !plan.is_cast(column) && !fits(&column.physical()?, sent) {
            return Err(changed(table, &format!("column {}", column.name)));
        }
    }
    Ok(())
}

/// Whether values of a type come as this.
fn fits(physical: &Physical, sent: &Column) -> bool {
    use ColumnType as T;
    let kind = sent.column_type();
    let is_unsigned = sent.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    let digits = sent.decimals();
    match physical {
        Physical::Int {
            bytes, unsigned, ..
        } => {
            let own = match bytes {
                1 => T::MYSQL_TYPE_TINY,
                2 => T::MYSQL_TYPE_SHORT,
                3 => T::MYSQL_TYPE_INT24,
                4 => T::MYSQL_TYPE_LONG,
                _ => T::MYSQL_TYPE_LONGLONG,
            };
            kind == own && is_unsigned == *unsigned
        }
        Physical::Float => kind == T::MYSQL_TYPE_FLOAT,
        Physical::Double => kind == T::MYSQL_TYPE_DOUBLE,
        Physical::Decimal { scale, .. } => kind == T::MYSQL_TYPE_NEWDECIMAL && digits == *scale,
        Physical::Bit(bits) => kind == T::MYSQL_TYPE_BIT && sent.column_length() == *bits,
        Physical::Year => kind == T::MYSQL_TYPE_YEAR,
        Physical::Date => matches!(kind, T::MYSQL_TYPE_DATE | T::MYSQL_TYPE_NEWDATE),
        Physical::Time(own) => kind == T::MYSQL_TYPE_TIME && digits == *own,
        Physical::DateTime(own) => kind == T::MYSQL_TYPE_DATETIME && digits == *own,
        Physical::Timestamp(own) => kind == T::MYSQL_TYPE_TIMESTAMP && digits == *own,
        Physical::Json => kind == T::MYSQL_TYPE_JSON,
        Physical::Geometry => kind == T::MYSQL_TYPE_GEOMETRY,
        Physical::Vector(_) => kind.is_vector_type(),
        Physical::Binary(length) => {
            is_bytes(sent) && kind == T::MYSQL_TYPE_STRING && sent.column_length() == *length
        }
        Physical::VarBinary(_) | Physical::Blob => is_bytes(sent) && is_text_or_bytes(kind),
        Physical::Char(_) | Physical::VarChar(_) | Physical::Text => {
            !is_bytes(sent) && is_text_or_bytes(kind)
        }
        // Numbers, or labels as text.
        Physical::Enum(_) | Physical::Set(_) => true,
    }
}

/// The character set of a column is `binary`.
fn is_bytes(sent: &Column) -> bool {
    sent.character_set() == 63
}

fn is_text_or_bytes(kind: ColumnType) -> bool {
    use ColumnType as T;
    matches!(
        kind,
        T::MYSQL_TYPE_STRING
            | T::MYSQL_TYPE_VAR_STRING
            | T::MYSQL_TYPE_VARCHAR
            | T::MYSQL_TYPE_BLOB
            | T::MYSQL_TYPE_TINY_BLOB
            | T::MYSQL_TYPE_MEDIUM_BLOB
            | T::MYSQL_TYPE_LONG_BLOB
    )
}

/// Compares what a result does not show, the labels of ENUM and SET and the character sets of text
/// that comes as bytes, after the read: a statement on the table has waited for its end.
pub(super) async fn check_hidden(
    conn: &mut WireConn,
    plan: &SelectPlan,
    table: &MysqlTable,
) -> Result<()> {
    let hidden: Vec<&MysqlColumn> = table
        .columns
        .iter()
        .filter(|column| plan.is_cast(column))
        .collect();
    if hidden.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "SELECT JSON_ARRAYAGG(JSON_ARRAY(COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME)) \
         FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
        text(&table.name.database),
        text(&table.name.table)
    );
    let row = conn.first(&sql).await?;
    let list = row.and_then(|row| row.into_iter().next().flatten());
    let found: Vec<(String, String, Option<String>)> = list
        .and_then(|list| serde_json::from_str(&list).ok())
        .unwrap_or_default();
    for column in hidden {
        let now = found
            .iter()
            .find(|(name, ..)| same_name(name, &column.name));
        // The information schema shows characters of more than three UTF-8 bytes as `?`.
        let own: String = column
            .column_type
            .chars()
            .map(|char| if char > '\u{FFFF}' { '?' } else { char })
            .collect();
        let same = now.is_some_and(|(_, kind, charset)| {
            let (kind_now, kind_own) = (Physical::parse(kind, None), Physical::parse(&own, None));
            (*kind == own || kind_now == kind_own)
                && modern(charset.as_deref()) == modern(column.charset.as_deref())
        });
        if !same {
            return Err(changed(table, &format!("column {}", column.name)));
        }
    }
    Ok(())
}

/// The name of today's servers.
fn modern(charset: Option<&str>) -> Option<&str> {
    charset.map(|charset| {
        if charset == "utf8" {
            "utf8mb3"
        } else {
            charset
        }
    })
}
