//! Types of columns: their names in schema files and their Arrow counterparts.
//!
//! Source of the names: `org.apache.paimon.types.DataTypeJsonParser` and the `asSQLString` of each
//! type.

use std::{fmt, str::FromStr, sync::Arc};

use arrow_schema::{DataType as ArrowType, Field, TimeUnit};
use serde::{Deserialize, Serialize, de::Error as _};

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
    /// `ARRAY<item>`; items may be null
    Array(Box<DataType>),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl DataType {
    /// The Arrow type of a column in memory: timestamps of up to 3 digits in milliseconds, up to 6
    /// in microseconds, beyond in nanoseconds; local-time-zone timestamps with zone `UTC`; time of
    /// day in milliseconds; list items named `element`, nullable.
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
            Self::Array(item) => {
                ArrowType::List(Arc::new(Field::new("element", item.arrow(), true)))
            }
        }
    }

    /// The type as a schema file's `type` member: text, or an object for arrays.
    pub fn to_json(&self, nullable: bool) -> serde_json::Value {
        let not_null = if nullable { "" } else { " NOT NULL" };
        match self {
            Self::Array(item) => serde_json::json!({
                "type": format!("ARRAY{not_null}"),
                "element": item.to_json(true),
            }),
            plain => serde_json::Value::String(format!("{plain}{not_null}")),
        }
    }

    /// Reads a schema file's `type` member: the type and whether it is nullable.
    pub fn from_json(value: &serde_json::Value) -> Result<(Self, bool), String> {
        match value {
            serde_json::Value::String(text) => {
                let trimmed = text.trim();
                let (name, nullable) = match trimmed.strip_suffix("NOT NULL") {
                    Some(name) => (name.trim_end(), false),
                    None => (trimmed, true),
                };
                Ok((name.parse()?, nullable))
            }
            serde_json::Value::Object(object) => {
                let name = object.get("type").and_then(|name| name.as_str());
                let nullable = !name.is_some_and(|name| name.ends_with("NOT NULL"));
                match (name, object.get("element")) {
                    (Some(name), Some(element)) if name.starts_with("ARRAY") => {
                        let (item, _) = Self::from_json(element)?;
                        Ok((Self::Array(Box::new(item)), nullable))
                    }
                    _ => Err(format!("type {value} is not supported")),
                }
            }
            _ => Err(format!("{value} is not a type")),
        }
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
            Self::Array(item) => write!(f, "ARRAY<{item}>"),
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

#[derive(Serialize, Deserialize)]
struct FieldJson {
    id: i32,
    name: String,
    #[serde(rename = "type")]
    data_type: serde_json::Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

impl Serialize for DataField {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FieldJson {
            id: self.id,
            name: self.name.clone(),
            data_type: self.data_type.to_json(self.nullable),
            description: self.description.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DataField {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let field = FieldJson::deserialize(deserializer)?;
        let (data_type, nullable) =
            DataType::from_json(&field.data_type).map_err(D::Error::custom)?;
        Ok(Self {
            id: field.id,
            name: field.name,
            data_type,
            nullable,
            description: field.description,
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
        let json = serde_json::json!({"type": "ARRAY NOT NULL", "element": "STRING"});
        let (data_type, nullable) = DataType::from_json(&json).unwrap();
        assert_eq!(data_type.to_json(nullable), json);
    }
}
