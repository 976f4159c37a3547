//! Keys as the server compares them: literals, conditions, and what a cursor is made of.
//!
//! A key is a list of SQL literals, one a key column. The server's own comparison decides
//! everything; nothing is compared here.

use std::fmt::Write;

use crate::{
    error::{Error, Result},
    mysql::{
        table::{MysqlColumn, MysqlTable},
        types::Physical,
        wire::Cell,
    },
    schema::TableName,
};

/// How a key column's values are spelled and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Whole numbers, and years.
    Integer,
    Decimal,
    /// FLOAT and DOUBLE: the exact binary value, as the shortest decimal that reads back as it.
    Float,
    /// Text of a character set: the stored codes behind an introducer.
    Text(String),
    Binary,
    /// Bits: compared as a number.
    Bit,
    Date,
    DateTime,
    Time,
    /// Number of labels. Sorted by number and compared as text, unless numbers are asked for.
    Enum(usize),
    Set,
}

/// One key column.
#[derive(Debug, Clone)]
struct KeyColumn {
    name: String,
    kind: Kind,
    collation: Option<String>,
}

/// The key of a table.
#[derive(Debug, Clone)]
pub(in crate::mysql) struct Key {
    columns: Vec<KeyColumn>,
    table: TableName,
}

/// Labels of an ENUM up to which "greater" is a list that an index can serve.
const ENUM_LIST_MAX: usize = 256;

impl Key {
    /// The key of a table.
    pub fn new(table: &MysqlTable) -> Result<Self> {
        let columns = table
            .primary_key
            .iter()
            .map(|name| {
                let column = table.column(name).ok_or_else(|| {
                    Error::definite("a key column is not in the table").column(name)
                })?;
                Ok(KeyColumn {
                    name: quoted(&column.name),
                    kind: Kind::of(column)?,
                    collation: column.collation.clone().filter(|name| !name.is_empty()),
                })
            })
            .collect::<Result<Vec<_>>>()
            .map_err(|e: Error| e.table(&table.name))?;
        if columns.is_empty() {
            return Err(Error::definite("the table has no key").table(&table.name));
        }
        Ok(Self {
            columns,
            table: table.name.clone(),
        })
    }

    /// Whether the first key column holds whole numbers.
    pub fn starts_with_integer(&self) -> bool {
        self.columns
            .first()
            .is_some_and(|column| column.kind == Kind::Integer)
    }

    /// Whether all key columns hold whole numbers.
    pub fn all_integers(&self) -> bool {
        self.columns
            .iter()
            .all(|column| column.kind == Kind::Integer)
    }

    /// The first key column, qualified.
    pub fn first_sql(&self) -> String {
        self.columns
            .first()
            .map_or_else(String::new, |column| format!("t.{}", column.name))
    }

    /// Expressions whose values [`Self::literals`] spells.
    pub fn select_sql(&self) -> String {
        let expressions: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let name = &column.name;
                match column.kind {
                    Kind::Text(_) => format!("CAST(t.{name} AS BINARY)"),
                    Kind::Enum(_) | Kind::Set | Kind::Bit => format!("CAST(t.{name} AS UNSIGNED)"),
                    _ => format!("t.{name}"),
                }
            })
            .collect();
        expressions.join(", ")
    }

    /// The server's order. Qualified: a bare name could be an expression of the select list.
    pub fn order_sql(&self) -> String {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("t.{}", column.name))
            .collect();
        names.join(", ")
    }

    /// Spells the values of [`Self::select_sql`].
    pub fn literals<'a>(&self, values: impl Iterator<Item = Cell<'a>>) -> Result<Vec<String>> {
        let literals: Vec<String> = self
            .columns
            .iter()
            .zip(values)
            .map(|(column, value)| {
                column.kind.literal(value).ok_or_else(|| {
                    Error::definite("a key value cannot be spelled")
                        .table(&self.table)
                        .column(&column.name)
                })
            })
            .collect::<Result<_>>()?;
        if literals.len() != self.columns.len() {
            return Err(Error::definite("a row has no key").table(&self.table));
        }
        Ok(literals)
    }

    /// Rows whose key is greater than the literals, compared by as many columns as there are:
    /// `(a > x) OR (a = x AND b > y) …`, which the server reads as ranges of the index.
    pub fn greater_sql(&self, literals: &[String]) -> Result<String> {
        self.check(literals)?;
        let mut alternatives = Vec::new();
        for (i, (column, literal)) in self.columns.iter().zip(literals).enumerate() {
            let mut parts: Vec<String> = self
                .columns
                .iter()
                .zip(literals)
                .take(i)
                .map(|(column, literal)| format!("t.{} = {literal}", column.name))
                .collect();
            parts.push(column.greater(literal));
            alternatives.push(format!("({})", parts.join(" AND ")));
        }
        Ok(format!("({})", alternatives.join(" OR ")))
    }

    /// Rows whose key is at most the literals.
    pub fn at_most_sql(&self, literals: &[String]) -> Result<String> {
        // Bounds are cut on the first column only; a longer one is right as well, but slower.
        match (self.columns.first(), literals) {
            (Some(column), [literal]) if !matches!(column.kind, Kind::Enum(_) | Kind::Set) => {
                Ok(format!("(t.{} <= {literal})", column.name))
            }
            _ => Ok(format!("(NOT {})", self.greater_sql(literals)?)),
        }
    }

    /// Rows with exactly these keys.
    pub fn among_sql(&self, keys: &[Vec<String>]) -> Result<String> {
        let mut alternatives = Vec::with_capacity(keys.len());
        for key in keys {
            if key.len() != self.columns.len() {
                return Err(Error::definite("a key is not whole").table(&self.table));
            }
            let parts: Vec<String> = self
                .columns
                .iter()
                .zip(key)
                .map(|(column, literal)| format!("t.{} = {literal}", column.name))
                .collect();
            alternatives.push(format!("({})", parts.join(" AND ")));
        }
        Ok(alternatives.join(" OR "))
    }

    /// An expression that is 1 when the second key is greater than the first, as the columns'
    /// collations compare. The first may be shorter.
    pub fn advances_sql(&self, from: &[String], to: &[String]) -> Result<String> {
        self.check(from)?;
        self.check(to)?;
        let typed: Vec<(String, String)> = self
            .columns
            .iter()
            .zip(from.iter().zip(to))
            .map(|(column, (from, to))| (column.typed(from), column.typed(to)))
            .collect();
        let mut alternatives = Vec::new();
        for (i, (from, to)) in typed.iter().enumerate() {
            let mut parts: Vec<String> = typed
                .iter()
                .take(i)
                .map(|(from, to)| format!("{to} = {from}"))
                .collect();
            parts.push(format!("{to} > {from}"));
            alternatives.push(format!("({})", parts.join(" AND ")));
        }
        Ok(alternatives.join(" OR "))
    }

    fn check(&self, literals: &[String]) -> Result<()> {
        if literals.is_empty() || literals.len() > self.columns.len() {
            return Err(Error::definite("a bound does not fit the table's key").table(&self.table));
        }
        Ok(())
    }
}

impl KeyColumn {
    fn greater(&self, literal: &str) -> String {
        let name = &self.name;
        match self.kind {
            // `k > 3` would be read as a number, but no index serves it; a list of numbers does.
            Kind::Enum(labels) => {
                let from = literal.parse::<usize>().unwrap_or(0);
                if from >= labels {
                    return "FALSE".into();
                }
                if labels - from > ENUM_LIST_MAX {
                    return format!("t.{name} + 0 > {literal}");
                }
                let numbers: Vec<String> = (from + 1..=labels).map(|n| n.to_string()).collect();
                format!("t.{name} IN ({})", numbers.join(", "))
            }
            Kind::Set => format!("t.{name} + 0 > {literal}"),
            _ => format!("t.{name} > {literal}"),
        }
    }

    /// The literal with the column's type, for a comparison without the table.
    fn typed(&self, literal: &str) -> String {
        match (&self.kind, &self.collation) {
            (Kind::Text(_), Some(collation)) => format!("{literal} COLLATE {collation}"),
            (Kind::Time, _) => format!("CAST({literal} AS TIME(6))"),
            _ => literal.to_owned(),
        }
    }
}

impl Kind {
    fn of(column: &MysqlColumn) -> Result<Self> {
        Ok(match column.physical()? {
            Physical::Int { .. } | Physical::Year => Self::Integer,
            Physical::Decimal { .. } => Self::Decimal,
            Physical::Float | Physical::Double => Self::Float,
            Physical::Bit(_) => Self::Bit,
            Physical::Char(_) | Physical::VarChar(_) | Physical::Text => {
                Self::Text(column.charset.clone().unwrap_or_else(|| "utf8mb4".into()))
            }
            Physical::Binary(_) | Physical::VarBinary(_) | Physical::Blob => Self::Binary,
            Physical::Date => Self::Date,
            Physical::DateTime(_) | Physical::Timestamp(_) => Self::DateTime,
            Physical::Time(_) => Self::Time,
            Physical::Enum(labels) => Self::Enum(labels.len()),
            Physical::Set(_) => Self::Set,
            Physical::Json | Physical::Geometry | Physical::Vector(_) => {
                return Err(
                    Error::definite("a column of this type cannot be walked as a key")
                        .column(&column.name),
                );
            }
        })
    }

    fn literal(&self, value: Cell<'_>) -> Option<String> {
        Some(match (self, value) {
            (Self::Integer | Self::Bit | Self::Enum(_) | Self::Set, Cell::Int(n)) => n.to_string(),
            (Self::Integer | Self::Bit | Self::Enum(_) | Self::Set, Cell::UInt(n)) => n.to_string(),
            (Self::Decimal, Cell::Bytes(digits)) => decimal(digits)?,
            (Self::Float, Cell::Float(n)) => float(f64::from(n))?,
            (Self::Float, Cell::Double(n)) => float(n)?,
            (Self::Text(charset), Cell::Bytes(codes)) => introduced(charset, codes),
            (Self::Binary, Cell::Bytes(bytes)) => introduced("binary", bytes),
            (Self::Date, Cell::Date(y, m, d, ..)) => format!("'{y:04}-{m:02}-{d:02}'"),
            (Self::DateTime, Cell::Date(y, m, d, h, i, s, u)) => {
                format!("'{y:04}-{m:02}-{d:02} {h:02}:{i:02}:{s:02}.{u:06}'")
            }
            (Self::Time, Cell::Time(negative, days, h, i, s, u)) => {
                let sign = if negative { "-" } else { "" };
                let hours = u64::from(days) * 24 + u64::from(h);
                format!("'{sign}{hours:02}:{i:02}:{s:02}.{u:06}'")
            }
            _ => return None,
        })
    }
}

/// A name in backquotes.
pub(in crate::mysql) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Bytes behind a character set introducer.
pub(in crate::mysql) fn introduced(charset: &str, bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return format!("_{charset} ''");
    }
    let mut literal = String::with_capacity(charset.len() + 4 + 2 * bytes.len());
    let _ = write!(literal, "_{charset} 0x");
    for byte in bytes {
        let _ = write!(literal, "{byte:02X}");
    }
    literal
}

/// A binary number as a literal that the server reads back as the same number.
pub(in crate::mysql) fn float(number: f64) -> Option<String> {
    number.is_finite().then(|| format!("{number:e}"))
}

/// Digits as the server prints them; nothing else may pass.
fn decimal(digits: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes()
        .all(|b| b.is_ascii_digit() || b == b'.' || b == b'-')
        .then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::types::TypeOptions;

    fn key(columns: &[(&str, &str)]) -> Key {
        let columns: Vec<MysqlColumn> = columns
            .iter()
            .map(|(name, text)| {
                let types = TypeOptions::default();
                let charset = Some("latin1");
                MysqlColumn::from_definition(
                    name,
                    text,
                    charset,
                    Some("latin1_bin"),
                    false,
                    None,
                    &types,
                )
                .unwrap()
            })
            .collect();
        Key::new(&MysqlTable {
            name: TableName::new("d", "t"),
            version: 0,
            primary_key: columns.iter().map(|column| column.name.clone()).collect(),
            columns,
            comment: None,
            engine: "InnoDB".into(),
            charset: "latin1".into(),
            collation: "latin1_bin".into(),
        })
        .unwrap()
    }

    fn spelled(text: &str, value: Cell<'_>) -> String {
        key(&[("k", text)])
            .literals([value].into_iter())
            .unwrap()
            .remove(0)
    }

    #[test]
    fn literals_are_exact() {
        assert_eq!(
            spelled("bigint unsigned", Cell::UInt(u64::MAX)),
            "18446744073709551615"
        );
        assert_eq!(spelled("float", Cell::Float(0.1)), "1.0000000149011612e-1");
        assert_eq!(spelled("float", Cell::Float(16_777_217.0)), "1.6777216e7");
        assert_eq!(
            spelled("varchar(9)", Cell::Bytes(&[0xE9, b'\''])),
            "_latin1 0xE927"
        );
        assert_eq!(spelled("binary(2)", Cell::Bytes(&[0, 0])), "_binary 0x0000");
        assert_eq!(spelled("varbinary(2)", Cell::Bytes(&[])), "_binary ''");
        assert_eq!(
            spelled("date", Cell::Date(0, 0, 0, 0, 0, 0, 0)),
            "'0000-00-00'"
        );
        assert_eq!(
            spelled("time(2)", Cell::Time(true, 2, 3, 4, 5, 60_000)),
            "'-51:04:05.060000'"
        );
        let strange = Cell::Bytes(b"1; DROP");
        assert!(
            key(&[("k", "decimal(9,2)")])
                .literals([strange].into_iter())
                .is_err()
        );
    }

    #[test]
    fn conditions() {
        let two = key(&[("a", "int"), ("b`", "int")]);
        let literals = ["1".to_owned(), "2".to_owned()];
        assert_eq!(
            two.greater_sql(&literals).unwrap(),
            "((t.`a` > 1) OR (t.`a` = 1 AND t.`b``` > 2))"
        );
        assert_eq!(two.greater_sql(&literals[..1]).unwrap(), "((t.`a` > 1))");
        assert_eq!(two.at_most_sql(&literals[..1]).unwrap(), "(t.`a` <= 1)");
        let labels = key(&[("e", "enum('z','m','a')")]);
        assert_eq!(
            labels.greater_sql(&["1".into()]).unwrap(),
            "((t.`e` IN (2, 3)))"
        );
        assert_eq!(labels.greater_sql(&["3".into()]).unwrap(), "((FALSE))");
        assert!(two.greater_sql(&[]).is_err());
        let text = key(&[("s", "varchar(3)")]);
        assert_eq!(
            text.advances_sql(&["x".into()], &["y".into()]).unwrap(),
            "(y COLLATE latin1_bin > x COLLATE latin1_bin)"
        );
    }
}
