//! Folders of partitions.
//!
//! Source: `PartitionPathUtils`, `InternalRowPartitionComputer`, with option
//! `partition.legacy-name` at its default (true); checked against folders of Java Paimon 1.4.2.

use std::fmt::Write as _;

use crate::{
    binary_row::{self, Value},
    data_type::DataType,
    error::{Error, Result},
    schema::Schema,
};

/// Stands for NULL and for text of blanks only.
const DEFAULT_PARTITION: &str = "__DEFAULT_PARTITION__";

/// Names the folders of a table's partitions.
#[derive(Debug, Clone)]
pub struct PartitionFolders {
    names: Vec<String>,
    types: Vec<DataType>,
    default: String,
}

impl PartitionFolders {
    /// Of a table; partition columns of types that have no sure name are refused.
    pub fn new(schema: &Schema) -> Result<Self> {
        let mut names = Vec::new();
        let mut types = Vec::new();
        for name in &schema.partition_keys {
            let (_, field) = schema.field(name).ok_or_else(|| {
                Error::Unsupported(format!("partition key {name}, which is not a column"))
            })?;
            if matches!(
                field.data_type,
                DataType::Float
                    | DataType::Double
                    | DataType::Binary(_)
                    | DataType::VarBinary(_)
                    | DataType::Bytes
                    | DataType::Array(_)
            ) {
                return Err(Error::Unsupported(format!(
                    "partition column {name} of type {}",
                    field.data_type
                )));
            }
            names.push(name.clone());
            types.push(field.data_type.clone());
        }
        let default = schema.options.get("partition.default-name");
        Ok(Self {
            names,
            types,
            default: default.map_or(DEFAULT_PARTITION, String::as_str).to_owned(),
        })
    }

    /// The folder below the table's, `k=v/l=w/`, of a partition (with the arity prefix); empty for
    /// none.
    pub fn folder(&self, partition: &[u8]) -> Result<String> {
        let values = binary_row::decode(partition, &self.types)
            .map_err(|message| Error::Internal(format!("a partition that is none: {message}")))?;
        let mut folder = String::new();
        for ((name, data_type), value) in self.names.iter().zip(&self.types).zip(values) {
            let text = text_of(&value, data_type)?
                .filter(|text| !text.trim().is_empty())
                .unwrap_or_else(|| self.default.clone());
            escape(name, &mut folder);
            folder.push('=');
            escape(&text, &mut folder);
            folder.push('/');
        }
        Ok(folder)
    }
}

fn escape(text: &str, to: &mut String) {
    for character in text.chars() {
        match character {
            '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '{'
            | '}'
            | '['
            | ']'
            | '^'
            | '\x01'..='\x1f'
            | '\x7f' => {
                let _ = write!(to, "%{:02X}", u32::from(character));
            }
            plain => to.push(plain),
        }
    }
}

fn text_of(value: &Value, data_type: &DataType) -> Result<Option<String>> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Boolean(value) => value.to_string(),
        Value::TinyInt(value) => value.to_string(),
        Value::SmallInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::BigInt(value) => value.to_string(),
        Value::Decimal(digits) => match data_type {
            DataType::Decimal(_, scale) => decimal_text(*digits, usize::from(*scale)),
            _ => digits.to_string(),
        },
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp { millis, nanos } => timestamp_text(*millis, *nanos)?,
        Value::Float(_) | Value::Double(_) => {
            return Err(Error::Unsupported(format!("partition of type {data_type}")));
        }
    }))
}

fn decimal_text(digits: i128, scale: usize) -> String {
    let sign = if digits < 0 { "-" } else { "" };
    let all = format!("{:0>width$}", digits.unsigned_abs(), width = scale + 1);
    match all.split_at_checked(all.len() - scale) {
        Some((whole, fraction)) if scale > 0 => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{all}"),
    }
}

/// As `java.time.LocalDateTime` prints it: no more parts than needed, fractions by threes.
fn timestamp_text(millis: i64, nanos: i32) -> Result<String> {
    let instant = jiff::Timestamp::from_millisecond(millis)
        .map_err(|error| Error::Unsupported(format!("partition of time {millis}: {error}")))?;
    let time = jiff::tz::Offset::UTC.to_datetime(instant);
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}",
        time.year(),
        time.month(),
        time.day(),
        time.hour(),
        time.minute()
    );
    let nanos = time.subsec_nanosecond() + nanos;
    if time.second() != 0 || nanos != 0 {
        let _ = write!(text, ":{:02}", time.second());
    }
    let fraction = match nanos {
        0 => String::new(),
        nanos if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => format!(".{:06}", nanos / 1_000),
        nanos => format!(".{nanos:09}"),
    };
    text.push_str(&fraction);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::data_type::DataField;

    fn folders(types: &[DataType]) -> PartitionFolders {
        let names: Vec<String> = (0..types.len()).map(|at| format!("p{at}")).collect();
        PartitionFolders::new(&Schema {
            version: 3,
            id: 0,
            fields: names
                .iter()
                .zip(types)
                .map(|(name, data_type)| DataField {
                    id: 0,
                    name: name.clone(),
                    data_type: data_type.clone(),
                    nullable: true,
                    description: None,
                })
                .collect(),
            highest_field_id: 0,
            partition_keys: names,
            primary_keys: Vec::new(),
            options: BTreeMap::new(),
            comment: None,
            time_millis: 0,
        })
        .unwrap()
    }

    fn folder(value: Value, data_type: DataType) -> String {
        let types = [data_type];
        let row = binary_row::encode(&[value], &types).unwrap();
        folders(&types).folder(&row).unwrap()
    }

    #[test]
    fn folders_are_named_as_java_names_them() {
        let text = |text: &str| folder(Value::Bytes(text.into()), DataType::String);
        assert_eq!(text("a b"), "p0=a b/");
        assert_eq!(text("é"), "p0=é/");
        assert_eq!(text("x/y=z%"), "p0=x%2Fy%3Dz%25/");
        assert_eq!(
            text("q\"u'o*?:<>|{}[]^\\#"),
            "p0=q%22u%27o%2A%3F%3A<>|%7B%7D%5B%5D%5E%5C%23/"
        );
        assert_eq!(text("a\tb"), "p0=a%09b/");
        assert_eq!(text(""), "p0=__DEFAULT_PARTITION__/");
        assert_eq!(
            folder(Value::Null, DataType::Int),
            "p0=__DEFAULT_PARTITION__/"
        );
        assert_eq!(folder(Value::Int(19782), DataType::Date), "p0=19782/");
        assert_eq!(
            folder(Value::Int(45_000_500), DataType::Time(3)),
            "p0=45000500/"
        );
        assert_eq!(folder(Value::Boolean(true), DataType::Boolean), "p0=true/");
        assert_eq!(
            folder(Value::Decimal(150), DataType::Decimal(10, 2)),
            "p0=1.50/"
        );
        assert_eq!(
            folder(Value::Decimal(-5), DataType::Decimal(10, 2)),
            "p0=-0.05/"
        );
        let time = |millis, nanos, digits| {
            folder(
                Value::Timestamp { millis, nanos },
                DataType::Timestamp(digits),
            )
        };
        assert_eq!(time(1_709_208_000_000, 0, 3), "p0=2024-02-29T12%3A00/");
        assert_eq!(
            time(1_709_208_000_123, 0, 6),
            "p0=2024-02-29T12%3A00%3A00.123/"
        );
        assert_eq!(time(1_709_208_001_000, 0, 0), "p0=2024-02-29T12%3A00%3A01/");
        assert_eq!(time(-1, 999_000, 6), "p0=1969-12-31T23%3A59%3A59.999999/");
        assert_eq!(folders(&[]).folder(&[0; 12]).unwrap(), "");
    }
}
