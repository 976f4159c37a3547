//! Types of columns: their names in schema files and their Arrow counterparts.
//!
//! Source of the names: `org.apache.paimon.types.DataTypeJsonParser` and the `asSQLString` of each
//! type.

mod json;

use std::{fmt, str::FromStr, sync::Arc};

use arrow_schema::{DataType as ArrowType, Field, TimeUnit};

/// Type of a column. Whether it may be null is a fact of the field, see [`DataField`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DataType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`
    TinyInt,
    /// `SMALLINT`
    SmallInt,
    /// `INT`
    Int,
    /// `BIGINT`
    BigInt,
    /// `FLOAT`
    Float,
    /// `DOUBLE`
    Double,
    /// `DECIMAL(p, s)`
    Decimal(u8, u8),
    /// `CHAR(n)`
    Char(u32),
    /// `VARCHAR(n)`
    VarChar(u32),
    /// `STRING`, a VARCHAR without a bound
    String,
    /// `BINARY(n)`
    Binary(u32),
    /// `VARBINARY(n)`
    VarBinary(u32),
    /// `BYTES`, a VARBINARY without a bound
    Bytes,
    /// `DATE`
    Date,
    /// `TIME(p)`
    Time(u8),
    /// `TIMESTAMP(p)`
    Timestamp(u8),
    /// `TIMESTAMP(p) WITH LOCAL TIME ZONE`
    TimestampLtz(u8),
    /// `ARRAY<element>`
    Array(Box<Element>),
    /// `MAP<key, value>`; no key is null in files, whatever the type says
    Map(Box<Element>, Box<Element>),
    /// `MULTISET<element>`: a map from element to how often it is there
    Multiset(Box<Element>),
    /// `ROW<fields>`; their ids are those of the table's columns
    Row(Vec<DataField>),
}

/// Type of what an array, map or multiset holds, and whether it may be null.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Element {
    /// Type.
    pub data_type: DataType,
    /// Whether NULL is allowed.
    pub nullable: bool,
}

/// A column of a table, or a field of a ROW.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DataField {
    /// Never changes and is never used again in the table.
    pub id: i32,
    /// Name.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Comment.
    pub description: Option<String>,
    /// What writers put in the place of NULL, as text.
    pub default_value: Option<String>,
}

impl From<DataType> for Element {
    fn from(data_type: DataType) -> Self {
        Self {
            data_type,
            nullable: true,
        }
    }
}

impl DataField {
    /// A column that may be null, without an id, which the table gives.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            id: 0,
            name: name.into(),
            data_type,
            nullable: true,
            description: None,
            default_value: None,
        }
    }

    pub(crate) fn arrow(&self) -> Field {
        Field::new(&self.name, self.data_type.arrow(), self.nullable)
    }
}

impl DataType {
    /// The Arrow type of a column in memory: timestamps of up to 3 digits in milliseconds, up to 6
    /// in microseconds, beyond in nanoseconds; local-time-zone timestamps with zone `UTC`; time of
    /// day in milliseconds. Lists, maps and structs have the names that Parquet files of the format
    /// have: `element`, `key_value`, `key`, `value`; a multiset is a map to INT.
    pub fn arrow(&self) -> ArrowType {
        let unit = |digits: u8| match digits {
            0..=3 => TimeUnit::Millisecond,
            4..=6 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        };
        match self {
            Self::Boolean => ArrowType::Boolean,
            Self::TinyInt => ArrowType::Int8,
            Self::SmallInt => ArrowType::Int16,
            Self::Int => ArrowType::Int32,
            Self::BigInt => ArrowType::Int64,
            Self::Float => ArrowType::Float32,
            Self::Double => ArrowType::Float64,
            Self::Decimal(precision, scale) => ArrowType::Decimal128(*precision, *scale as i8),
            Self::Char(_) | Self::VarChar(_) | Self::String => ArrowType::Utf8,
            Self::Binary(_) | Self::VarBinary(_) | Self::Bytes => ArrowType::Binary,
            Self::Date => ArrowType::Date32,
            Self::Time(_) => ArrowType::Time32(TimeUnit::Millisecond),
            Self::Timestamp(digits) => ArrowType::Timestamp(unit(*digits), None),
            Self::TimestampLtz(digits) => ArrowType::Timestamp(unit(*digits), Some("UTC".into())),
            Self::Array(element) => ArrowType::List(Arc::new(element.arrow("element"))),
            Self::Map(key, value) => map(key, value.arrow("value")),
            Self::Multiset(element) => map(element, Field::new("value", ArrowType::Int32, false)),
            Self::Row(fields) => ArrowType::Struct(fields.iter().map(DataField::arrow).collect()),
        }
    }
}

impl DataType {
    /// `ARRAY<item>` of items that may be null.
    pub fn array(item: DataType) -> Self {
        Self::Array(Box::new(item.into()))
    }

    /// Whether values hold other values: such columns are no keys and have no statistics.
    pub fn is_nested(&self) -> bool {
        matches!(
            self,
            Self::Array(_) | Self::Map(..) | Self::Multiset(_) | Self::Row(_)
        )
    }

    /// Gives ids to the fields of all rows within, in order, counting on from `last`.
    /// Source: `org.apache.paimon.types.ReassignFieldId`.
    pub(crate) fn assign_ids(&mut self, last: &mut i32) {
        match self {
            Self::Array(element) | Self::Multiset(element) => element.data_type.assign_ids(last),
            Self::Map(key, value) => {
                key.data_type.assign_ids(last);
                value.data_type.assign_ids(last);
            }
            Self::Row(fields) => {
                for field in fields {
                    *last = last.saturating_add(1);
                    field.id = *last;
                    field.data_type.assign_ids(last);
                }
            }
            _ => {}
        }
    }

    /// The same type, whatever the comments, ids, and nullability within.
    /// Source: `equalsIgnoreNullable` of the types.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(one), Self::Array(other))
            | (Self::Multiset(one), Self::Multiset(other)) => {
                one.data_type.is_like(&other.data_type)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.data_type.is_like(&other_key.data_type)
                    && value.data_type.is_like(&other_value.data_type)
            }
            (Self::Row(fields), Self::Row(others)) => {
                fields.len() == others.len()
                    && fields.iter().zip(others).all(|(field, other)| {
                        field.name == other.name && field.data_type.is_like(&other.data_type)
                    })
            }
            (one, other) => one == other,
        }
    }
}

impl Element {
    pub(crate) fn arrow(&self, name: &str) -> Field {
        Field::new(name, self.data_type.arrow(), self.nullable)
    }
}

/// Keys of Arrow's and Parquet's maps are never null.
fn map(key: &Element, value: Field) -> ArrowType {
    let key = Field::new("key", key.data_type.arrow(), false);
    let entries = ArrowType::Struct([key, value].into_iter().collect());
    ArrowType::Map(Arc::new(Field::new("key_value", entries, false)), false)
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_null = if self.nullable { "" } else { " NOT NULL" };
        write!(f, "{}{not_null}", self.data_type)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::TinyInt => f.write_str("TINYINT"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Int => f.write_str("INT"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal(precision, scale) => write!(f, "DECIMAL({precision}, {scale})"),
            Self::Char(length) => write!(f, "CHAR({length})"),
            Self::VarChar(length) => write!(f, "VARCHAR({length})"),
            Self::String => f.write_str("STRING"),
            Self::Binary(length) => write!(f, "BINARY({length})"),
            Self::VarBinary(length) => write!(f, "VARBINARY({length})"),
            Self::Bytes => f.write_str("BYTES"),
            Self::Date => f.write_str("DATE"),
            Self::Time(digits) => write!(f, "TIME({digits})"),
            Self::Timestamp(digits) => write!(f, "TIMESTAMP({digits})"),
            Self::TimestampLtz(digits) => {
                write!(f, "TIMESTAMP({digits}) WITH LOCAL TIME ZONE")
            }
            Self::Array(element) => write!(f, "ARRAY<{element}>"),
            Self::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
            Self::Multiset(element) => write!(f, "MULTISET<{element}>"),
            Self::Row(fields) => {
                f.write_str("ROW<")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    let not_null = if field.nullable { "" } else { " NOT NULL" };
                    write!(f, "{comma}`{}` {}{not_null}", field.name, field.data_type)?;
                }
                f.write_str(">")
            }
        }
    }
}

impl FromStr for DataType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("type '{text}' is not supported");
        let (head, tail) = match text.find('(') {
            Some(open) => {
                let close = text.find(')').ok_or_else(wrong)?;
                let numbers = text.get(open + 1..close).ok_or_else(wrong)?;
                let rest = text.get(close + 1..).unwrap_or_default().trim();
                let numbers = numbers
                    .split(',')
                    .map(|number| number.trim().parse::<u32>())
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|_| wrong())?;
                let name = text.get(..open).unwrap_or_default().trim();
                let name = match rest {
                    "" => name.to_owned(),
                    rest => format!("{name} {rest}"),
                };
                (name, numbers)
            }
            None => (text.trim().to_owned(), Vec::new()),
        };
        let first = tail.first().copied();
        let digits = |default: u32| u8::try_from(first.unwrap_or(default)).map_err(|_| wrong());
        Ok(match head.to_ascii_uppercase().as_str() {
            "BOOLEAN" => Self::Boolean,
            "TINYINT" => Self::TinyInt,
            "SMALLINT" => Self::SmallInt,
            "INT" | "INTEGER" => Self::Int,
            "BIGINT" => Self::BigInt,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "DECIMAL" => {
                let scale = tail.get(1).copied().unwrap_or(0);
                Self::Decimal(digits(10)?, u8::try_from(scale).map_err(|_| wrong())?)
            }
            "CHAR" => Self::Char(first.unwrap_or(1)),
            "VARCHAR" if first == Some(i32::MAX as u32) => Self::String,
            "VARCHAR" => Self::VarChar(first.unwrap_or(1)),
            "STRING" => Self::String,
            "BINARY" => Self::Binary(first.unwrap_or(1)),
            "VARBINARY" if first == Some(i32::MAX as u32) => Self::Bytes,
            "VARBINARY" => Self::VarBinary(first.unwrap_or(1)),
            "BYTES" => Self::Bytes,
            "DATE" => Self::Date,
            "TIME" => Self::Time(digits(0)?),
            "TIMESTAMP" | "TIMESTAMP WITHOUT TIME ZONE" => Self::Timestamp(digits(6)?),
            "TIMESTAMP WITH LOCAL TIME ZONE" | "TIMESTAMP_LTZ" => Self::TimestampLtz(digits(6)?),
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_what_it_writes() {
        for text in [
            "BOOLEAN",
            "TINYINT",
            "SMALLINT NOT NULL",
            "INT",
            "BIGINT NOT NULL",
            "FLOAT",
            "DOUBLE",
            "DECIMAL(20, 0)",
            "CHAR(3)",
            "VARCHAR(200)",
            "STRING",
            "BINARY(4)",
            "VARBINARY(9)",
            "BYTES",
            "DATE",
            "TIME(3)",
            "TIMESTAMP(6)",
            "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        ] {
            let json = serde_json::Value::String(text.into());
            let (data_type, nullable) = DataType::from_json(&json).unwrap();
            assert_eq!(data_type.to_json(nullable), json);
        }
        for json in [
            serde_json::json!({"type": "ARRAY NOT NULL", "element": "STRING NOT NULL"}),
            serde_json::json!({"type": "MULTISET", "element": "INT"}),
            serde_json::json!({"type": "MAP", "key": "INT", "value": {"type": "ROW", "fields": [
                {"id": 4, "name": "a", "type": "INT NOT NULL", "defaultValue": "7"},
                {"id": 5, "name": "b", "type": {"type": "ARRAY", "element": "DOUBLE"},
                 "description": "all"},
            ]}}),
        ] {
            let (data_type, nullable) = DataType::from_json(&json).unwrap();
            assert_eq!(data_type.to_json(nullable), json);
        }
        let json = serde_json::json!({"type": "MAP", "key": "INT", "value": "VARIANT"});
        let error = DataType::from_json(&json).unwrap_err();
        assert!(error.contains("VARIANT"), "{error}");
    }
}
