//! Column types: their text, what the server stores, and the lake type of each.
//!
//! The mapping is Flink CDC's (`org.apache.flink.cdc.connectors.mysql.utils.MySqlTypeUtils`) where
//! that keeps the value, and a wider type where it would not.

use serde::{Deserialize, Serialize};

use super::spelling::Spelling;
use crate::schema::DataType;

#[cfg(test)]
mod tests;

/// What the job file says about types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeOptions {
    /// `treat-tinyint1-as-boolean.enabled`: signed TINYINT(1) becomes BOOLEAN (not 0 is true).
    pub tinyint1_as_boolean: bool,
    /// `use.legacy.json.format`: kept for the job file; JSON text is always the server's own.
    pub legacy_json: bool,
    /// `time.as-string.enabled`: every TIME column becomes STRING, so that values outside a day
    /// are kept.
    pub time_as_string: bool,
    /// `include-comments.enabled`: comments of tables and columns are carried.
    pub include_comments: bool,
}

impl Default for TypeOptions {
    fn default() -> Self {
        Self {
            tinyint1_as_boolean: true,
            legacy_json: true,
            time_as_string: false,
            include_comments: false,
        }
    }
}

/// What the server stores in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Physical {
    Int {
        bytes: u8,
        unsigned: bool,
        /// Signed TINYINT(1): the server's BOOL.
        boolean: bool,
    },
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Bit(u32),
    Char(u32),
    VarChar(u32),
    Text,
    Binary(u32),
    VarBinary(u32),
    Blob,
    Date,
    Time(u8),
    DateTime(u8),
    Timestamp(u8),
    Year,
    Enum(Vec<String>),
    Set(Vec<String>),
    Json,
    Geometry,
    Vector(u32),
}

/// Names of spatial types. Source: MySQL manual, "Spatial Data Types".
const SPATIAL: [&str; 9] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
    "geometrycollection",
];

impl Physical {
    /// Reads a type's text, `COLUMN_TYPE` or a statement's spelling.
    pub(crate) fn parse(text: &str, charset: Option<&str>) -> Result<Self, String> {
        let spelling = Spelling::read(text)?;
        let physical = Self::from_spelling(&spelling)?;
        // A text type in the pseudo character set `binary` is stored as its binary sibling.
        let binary = charset.is_some_and(|charset| charset.eq_ignore_ascii_case("binary"));
        Ok(match physical {
            Self::Char(length) if binary => Self::Binary(length),
            Self::VarChar(length) if binary => Self::VarBinary(length),
            Self::Text if binary => Self::Blob,
            other => other,
        })
    }

    fn from_spelling(spelling: &Spelling) -> Result<Self, String> {
        let int = |bytes, boolean| Self::Int {
            bytes,
            unsigned: spelling.unsigned,
            boolean: boolean && !spelling.unsigned,
        };
        let length = |default: u32| spelling.number(0, default);
        let digits = || match length(0)? {
            digits @ 0..=6 => Ok(digits as u8),
            digits => Err(format!("{digits} fractional digits")),
        };
        Ok(match spelling.name.as_str() {
            "bool" | "boolean" => int(1, true),
            "tinyint" | "int1" => int(1, spelling.arguments == ["1"]),
            "smallint" | "int2" => int(2, false),
            "mediumint" | "int3" | "middleint" => int(3, false),
            "int" | "integer" | "int4" => int(4, false),
            "bigint" | "int8" => int(8, false),
            "serial" => Self::Int {
                bytes: 8,
                unsigned: true,
                boolean: false,
            },
            // FLOAT(p) with p above 24 is a DOUBLE; FLOAT(m,d) stays binary32.
            "float" if spelling.arguments.len() == 1 && length(0)? > 24 => Self::Double,
            "float" | "float4" => Self::Float,
            "double" | "double precision" | "float8" | "real" => Self::Double,
            "decimal" | "numeric" | "dec" | "fixed" => {
                let precision = match length(10)? {
                    0 => 10,
                    precision => precision,
                };
                let scale = spelling.number(1, 0)?;
                if precision > 65 || scale > 30 || scale > precision {
                    return Err("precision or scale is out of bounds".into());
                }
                Self::Decimal {
                    precision: precision as u8,
                    scale: scale as u8,
                }
            }
            "bit" => match length(1)? {
                bits @ 1..=64 => Self::Bit(bits),
                bits => return Err(format!("{bits} bits")),
            },
            "char" | "character" | "nchar" | "national char" | "national character" => {
                Self::Char(length(1)?)
            }
            "varchar"
            | "character varying"
            | "char varying"
            | "nvarchar"
            | "nchar varying"
            | "national varchar"
            | "national char varying"
            | "national character varying"
            | "nchar varchar"
            | "varcharacter"
            | "national varcharacter" => Self::VarChar(length(1)?),
            "tinytext"
            | "text"
            | "mediumtext"
            | "longtext"
            | "long"
            | "long varchar"
            | "long char varying"
            | "long character varying" => Self::Text,
            "binary" | "char byte" => Self::Binary(length(1)?),
            "varbinary" => Self::VarBinary(length(1)?),
            "tinyblob" | "blob" | "mediumblob" | "longblob" | "long varbinary" => Self::Blob,
            "date" => Self::Date,
            "time" => Self::Time(digits()?),
            "datetime" => Self::DateTime(digits()?),
            "timestamp" => Self::Timestamp(digits()?),
            "year" => Self::Year,
            "enum" => Self::Enum(spelling.arguments.clone()),
            "set" if spelling.arguments.len() <= 64 => Self::Set(spelling.arguments.clone()),
            "json" => Self::Json,
            // VECTOR without a length has 2048 items. Source: MySQL manual, "The VECTOR Type".
            "vector" => Self::Vector(length(2048)?),
            name if SPATIAL.contains(&name) => Self::Geometry,
            _ => return Err("this type is not supported".into()),
        })
    }

    /// The lake type.
    pub(crate) fn lake(&self, options: &TypeOptions) -> DataType {
        match self {
            Self::Int { boolean: true, .. } if options.tinyint1_as_boolean => DataType::Boolean,
            Self::Int {
                bytes, unsigned, ..
            } => match (bytes, unsigned) {
                (1, false) => DataType::TinyInt,
                (1, true) | (2, false) => DataType::SmallInt,
                (2, true) | (3, _) | (4, false) => DataType::Int,
                (8, true) => DataType::Decimal(20, 0),
                _ => DataType::BigInt,
            },
            Self::Float => DataType::Float,
            Self::Double => DataType::Double,
            Self::Decimal { precision, scale } if *precision <= 38 => {
                DataType::Decimal(*precision, *scale)
            }
            Self::Bit(1) => DataType::Boolean,
            Self::Bit(bits) => DataType::Binary(bits.div_ceil(8)),
            Self::Char(length) if *length > 0 => DataType::Char(*length),
            Self::VarChar(length) if *length > 0 => DataType::VarChar(*length),
            Self::Binary(length) if *length > 0 => DataType::Binary(*length),
            Self::VarBinary(length) if *length > 0 => DataType::VarBinary(*length),
            // The lake has no type of length 0.
            Self::Char(_) | Self::VarChar(_) => DataType::String,
            Self::Binary(_) | Self::VarBinary(_) | Self::Blob => DataType::Bytes,
            Self::Date => DataType::Date,
            // The lake's TIME has milliseconds only.
            Self::Time(digits) if *digits <= 3 && !options.time_as_string => {
                DataType::Time(*digits)
            }
            Self::DateTime(digits) => DataType::Timestamp(*digits),
            Self::Timestamp(digits) => DataType::TimestampLtz(*digits),
            Self::Year => DataType::Int,
            Self::Set(_) => DataType::Array(Box::new(DataType::String)),
            Self::Vector(_) => DataType::Array(Box::new(DataType::Float)),
            Self::Decimal { .. }
            | Self::Text
            | Self::Time(_)
            | Self::Enum(_)
            | Self::Json
            | Self::Geometry => DataType::String,
        }
    }

    /// Whether every value can be carried in a lake type, which may be older than the column's
    /// present type. Numbers that do not fit are refused one by one.
    pub(crate) fn fits(&self, lake: &DataType) -> bool {
        use DataType as L;
        let text = matches!(lake, L::Char(_) | L::VarChar(_) | L::String);
        let bytes = matches!(lake, L::Binary(_) | L::VarBinary(_) | L::Bytes);
        let number = matches!(lake, L::TinyInt | L::SmallInt | L::Int | L::BigInt)
            || matches!(lake, L::Decimal(_, 0));
        match (self, lake) {
            (Self::Int { bytes: 1, .. }, L::Boolean) | (Self::Bit(1), L::Boolean) => true,
            (Self::Int { .. } | Self::Year, _) => number,
            (Self::Float, L::Float | L::Double) | (Self::Double, L::Double) => true,
            (Self::Decimal { precision, scale }, L::Decimal(wide, same)) => {
                wide >= precision && same == scale
            }
            (Self::Bit(_) | Self::Binary(_) | Self::VarBinary(_) | Self::Blob, _) => bytes,
            (Self::Time(digits), L::Time(wide))
            | (Self::DateTime(digits), L::Timestamp(wide))
            | (Self::Timestamp(digits), L::TimestampLtz(wide)) => wide >= digits,
            (Self::Date, L::Date) => true,
            (Self::Set(_), L::Array(item)) => **item == L::String,
            (Self::Set(_), L::String) => true,
            (Self::Vector(_), L::Array(item)) => **item == L::Float,
            (
                Self::Char(_)
                | Self::VarChar(_)
                | Self::Text
                | Self::Time(_)
                | Self::Enum(_)
                | Self::Json
                | Self::Geometry
                | Self::Decimal { .. },
                _,
            ) => text,
            _ => false,
        }
    }

    /// Whether values are text in the column's character set.
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Char(_) | Self::VarChar(_) | Self::Text | Self::Enum(_) | Self::Set(_)
        )
    }

    /// `DATA_TYPE` as the information schema has it.
    pub(crate) fn data_type(&self, spelling: &Spelling) -> String {
        let spelled = spelling.name.as_str();
        match self {
            Self::Int { bytes: 1, .. } => "tinyint",
            Self::Int { bytes: 2, .. } => "smallint",
            Self::Int { bytes: 3, .. } => "mediumint",
            Self::Int { bytes: 4, .. } => "int",
            Self::Int { .. } => "bigint",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { .. } => "decimal",
            Self::Bit(_) => "bit",
            Self::Char(_) => "char",
            Self::VarChar(_) => "varchar",
            Self::Binary(_) => "binary",
            Self::VarBinary(_) => "varbinary",
            Self::Text => match spelled {
                kept @ ("tinytext" | "text" | "longtext") => kept,
                _ => "mediumtext",
            },
            Self::Blob => match spelled {
                kept @ ("tinyblob" | "blob" | "longblob") => kept,
                "tinytext" => "tinyblob",
                "text" => "blob",
                "longtext" => "longblob",
                _ => "mediumblob",
            },
            Self::Date => "date",
            Self::Time(_) => "time",
            Self::DateTime(_) => "datetime",
            Self::Timestamp(_) => "timestamp",
            Self::Year => "year",
            Self::Enum(_) => "enum",
            Self::Set(_) => "set",
            Self::Json => "json",
            Self::Vector(_) => "vector",
            Self::Geometry => match spelled {
                "geometrycollection" => "geomcollection",
                spelled => spelled,
            },
        }
        .to_owned()
    }

    /// `COLUMN_TYPE` as the information schema of MySQL 8 and later has it.
    pub(crate) fn column_type(&self, spelling: &Spelling) -> String {
        let name = self.data_type(spelling);
        let sign = match (spelling.unsigned, spelling.zerofill) {
            (_, true) => " unsigned zerofill",
            (true, false) => " unsigned",
            (false, false) => "",
        };
        let labels = |labels: &[String]| {
            let quoted: Vec<String> = labels
                .iter()
                .map(|label| format!("'{}'", label.replace('\'', "''")))
                .collect();
            format!("{name}({})", quoted.join(","))
        };
        match self {
            Self::Int { boolean: true, .. } => "tinyint(1)".into(),
            Self::Int { bytes, .. } if spelling.zerofill => {
                // Default display widths, which only ZEROFILL columns still show.
                let width = match bytes {
                    1 => 3,
                    2 => 5,
                    3 => 8,
                    4 => 10,
                    _ => 20,
                };
                let width = spelling.number(0, width).unwrap_or(width);
                format!("{name}({width}){sign}")
            }
            Self::Int { .. } if matches!(spelling.name.as_str(), "serial") => {
                "bigint unsigned".into()
            }
            Self::Float | Self::Double if spelling.arguments.len() == 2 => {
                format!("{name}({}){sign}", spelling.arguments.join(","))
            }
            Self::Int { .. } | Self::Float | Self::Double => format!("{name}{sign}"),
            Self::Decimal { precision, scale } => format!("{name}({precision},{scale}){sign}"),
            Self::Bit(length)
            | Self::Char(length)
            | Self::VarChar(length)
            | Self::Binary(length)
            | Self::VarBinary(length)
            | Self::Vector(length) => format!("{name}({length})"),
            Self::Time(digits) | Self::DateTime(digits) | Self::Timestamp(digits)
                if *digits > 0 =>
            {
                format!("{name}({digits})")
            }
            Self::Enum(values) | Self::Set(values) => labels(values),
            _ => name,
        }
    }
}
