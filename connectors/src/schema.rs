//! A source table as the job sees it: name, columns with lake types, key. Independent of the
//! source system and of the table format; a connector keeps its physical facts to itself.

use std::{fmt, sync::Arc};

use arrow_schema::{DataType as ArrowType, Field, Schema, TimeUnit};
use serde::{Deserialize, Serialize};

/// Database and table, with the case the source reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableName {
    /// Database (MySQL) that holds the table.
    pub database: String,
    /// Table.
    pub table: String,
}

impl TableName {
    /// A name from its two parts.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            table: table.into(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

/// Type of a column in the lake. Each has exactly one Arrow type, see [`DataType::arrow`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataType {
    /// True or false.
    Boolean,
    /// 8-bit signed integer.
    TinyInt,
    /// 16-bit signed integer.
    SmallInt,
    /// 32-bit signed integer.
    Int,
    /// 64-bit signed integer.
    BigInt,
    /// IEEE binary32.
    Float,
    /// IEEE binary64.
    Double,
    /// Precision (1 to 38) and scale.
    Decimal(u8, u8),
    /// Text of up to n characters, never padded.
    Char(u32),
    /// Text of up to n characters.
    VarChar(u32),
    /// Text without a bound.
    String,
    /// n bytes.
    Binary(u32),
    /// Up to n bytes.
    VarBinary(u32),
    /// Bytes without a bound.
    Bytes,
    /// Days since 1970-01-01.
    Date,
    /// Time of day with 0 to 3 fractional digits, in milliseconds.
    Time(u8),
    /// Date and time without a zone; fractional digits 0 to 6.
    Timestamp(u8),
    /// An instant; fractional digits 0 to 6.
    TimestampLtz(u8),
    /// Items of one type; items may be null.
    Array(Box<DataType>),
}

impl DataType {
    /// The Arrow type that carries the column: timestamps of up to 3 digits in milliseconds, else
    /// in microseconds; instants with zone `UTC`; list items are named `element` and nullable.
    pub fn arrow(&self) -> ArrowType {
        let unit = |digits: u8| {
            if digits <= 3 {
                TimeUnit::Millisecond
            } else {
                TimeUnit::Microsecond
            }
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
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name with the case the source reports.
    pub name: String,
    /// Type in the lake.
    pub data_type: DataType,
    /// Whether the lake column may hold NULL.
    pub nullable: bool,
    /// Comment, when there is one.
    pub comment: Option<String>,
    /// The source's own spelling of the type, for messages.
    pub source_type: String,
}

/// A table at one version of its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// Which table.
    pub name: TableName,
    /// Counts the schema changes that the connector has seen of this table, from 0.
    pub version: u32,
    /// Columns in the source's order.
    pub columns: Vec<Column>,
    /// Names of the key columns in key order; empty when there is no key.
    pub primary_key: Vec<String>,
    /// Comment, when there is one.
    pub comment: Option<String>,
}

impl TableSchema {
    /// The Arrow schema of the table's batches: one field a column, same order, same names.
    pub fn arrow(&self) -> Schema {
        Schema::new(
            self.columns
                .iter()
                .map(|column| Field::new(&column.name, column.data_type.arrow(), column.nullable))
                .collect::<Vec<_>>(),
        )
    }
}
