//! A MySQL table as canonical JSON lines: what a reader of the lake must print for it (the form
//! is described in `tests/oracle/src/Row.java`). Written apart from the product's own mapping.

use std::fmt::Write;

use mysql_async::{Row, Value, prelude::Queryable};

use super::Database;

struct Column {
    name: String,
    data_type: String,
    column_type: String,
    /// Fraction digits of a time.
    digits: usize,
}

/// The rows of a table, sorted by the bytes of their lines.
pub async fn lines(database: &Database, table: &str) -> Vec<String> {
    let mut conn = database.connect().await;
    let columns: Vec<Column> = conn
        .exec_map(
            "SELECT column_name, data_type, column_type, COALESCE(datetime_precision, 0) \
             FROM information_schema.columns WHERE table_schema = ? AND table_name = ? \
             ORDER BY ordinal_position",
            (&database.name, table),
            |(name, data_type, column_type, digits)| Column {
                name,
                data_type,
                column_type,
                digits,
            },
        )
        .await
        .unwrap();
    let names: Vec<String> = columns.iter().map(|c| format!("`{}`", c.name)).collect();
    // The binary protocol: floats come whole.
    let mut rows = conn
        .exec_iter(format!("SELECT {} FROM `{table}`", names.join(",")), ())
        .await
        .unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().await.unwrap() {
        lines.push(line(&columns, &row));
    }
    lines.sort_unstable();
    lines
}

fn line(columns: &[Column], row: &Row) -> String {
    let mut out = String::from("{");
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&quote(&column.name));
        out.push(':');
        value(&mut out, column, row.as_ref(i).unwrap());
    }
    out.push('}');
    out
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn value(out: &mut String, column: &Column, value: &Value) {
    match (column.data_type.as_str(), value) {
        (_, Value::NULL) => out.push_str("null"),
        ("tinyint", Value::Int(n)) if column.column_type == "tinyint(1)" => {
            write!(out, "{}", *n != 0).unwrap();
        }
        ("bigint", Value::UInt(n)) => write!(out, "\"{n}\"").unwrap(),
        ("bigint", Value::Int(n)) if column.column_type.contains("unsigned") => {
            write!(out, "\"{n}\"").unwrap();
        }
        ("tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year", Value::Int(n)) => {
            write!(out, "{n}").unwrap();
        }
        ("tinyint" | "smallint" | "mediumint" | "int" | "year", Value::UInt(n)) => {
            write!(out, "{n}").unwrap();
        }
        ("float", Value::Float(x)) => write!(out, "{x:e}").unwrap(),
        ("double", Value::Double(x)) => write!(out, "{x:e}").unwrap(),
        ("date", Value::Date(year, month, day, ..)) => {
            write!(out, "\"{year:04}-{month:02}-{day:02}\"").unwrap();
        }
        ("datetime" | "timestamp", Value::Date(year, month, day, hour, minute, second, micros)) => {
            let base = format!(
                "{year:04}-{month:02}-{day:02} {}",
                clock(*hour, *minute, *second, *micros, column.digits)
            );
            let zone = if column.data_type == "timestamp" {
                "Z"
            } else {
                ""
            };
            write!(out, "\"{base}{zone}\"").unwrap();
        }
        ("time", Value::Time(false, 0, hour, minute, second, micros)) => {
            let digits = column.digits.min(3);
            write!(
                out,
                "\"{}\"",
                clock(*hour, *minute, *second, *micros, digits)
            )
            .unwrap();
        }
        ("bit", Value::Bytes(bytes)) if column.column_type == "bit(1)" => {
            write!(out, "{}", bytes.as_slice() != [0]).unwrap();
        }
        ("binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "bit", v) => {
            let Value::Bytes(bytes) = v else {
                panic!("{}: {v:?}", column.name)
            };
            write!(out, "\"{}\"", base64(bytes)).unwrap();
        }
        ("json", Value::Bytes(bytes)) => out.push_str(&quote(std::str::from_utf8(bytes).unwrap())),
        ("set", Value::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).unwrap();
            let labels: Vec<String> = text
                .split(',')
                .filter(|l| !l.is_empty())
                .map(quote)
                .collect();
            write!(out, "[{}]", labels.join(",")).unwrap();
        }
        (
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum"
            | "decimal",
            Value::Bytes(bytes),
        ) => out.push_str(&quote(std::str::from_utf8(bytes).unwrap())),
        (other, value) => panic!(
            "the dump does not know {} {other} {value:?}: extend it",
            column.name
        ),
    }
}

fn clock(hour: u8, minute: u8, second: u8, micros: u32, digits: usize) -> String {
    let mut text = format!("{hour:02}:{minute:02}:{second:02}.{micros:06}");
    text.truncate(if digits == 0 { 8 } else { 9 + digits });
    text
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for i in 0..4 {
            if i <= group.len() {
                out.push(char::from(DIGITS[(word >> (18 - 6 * i)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}
