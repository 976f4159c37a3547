//! Types and fields in schema files.
//!
//! Source: `org.apache.paimon.types.DataTypeJsonParser`, `DataType#serializeJson`.

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::Value;

use super::{DataField, DataType, Element};

/// Types of the format that this crate neither writes nor reads.
const UNSUPPORTED: [&str; 5] = ["VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"];

impl DataType {
    /// The type as a schema file's `type` member: text, or an object for nested types.
    pub fn to_json(&self, nullable: bool) -> Value {
        let not_null = if nullable { "" } else { " NOT NULL" };
        match self {
            Self::Array(element) => serde_json::json!({
                "type": format!("ARRAY{not_null}"),
                "element": element.to_json(),
            }),
            Self::Multiset(element) => serde_json::json!({
                "type": format!("MULTISET{not_null}"),
                "element": element.to_json(),
            }),
            Self::Map(key, value) => serde_json::json!({
                "type": format!("MAP{not_null}"),
                "key": key.to_json(),
                "value": value.to_json(),
            }),
            Self::Row(fields) => serde_json::json!({
                "type": format!("ROW{not_null}"),
                "fields": fields.iter().map(FieldJson::of).collect::<Vec<_>>(),
            }),
            plain => Value::String(format!("{plain}{not_null}")),
        }
    }

    /// Reads a schema file's `type` member: the type and whether it is nullable.
    ///
    /// # Errors
    /// What is wrong, or that this crate doesn't know the type, with its name.
    pub fn from_json(value: &Value) -> Result<(Self, bool), String> {
        let text = match value {
            Value::String(text) => text.as_str(),
            Value::Object(object) => object
                .get("type")
                .and_then(Value::as_str)
                .ok_or_else(|| format!("{value} is not a type"))?,
            _ => return Err(format!("{value} is not a type")),
        };
        let trimmed = text.trim();
        let (name, nullable) = match trimmed.strip_suffix("NOT NULL") {
            Some(name) => (name.trim_end(), false),
            None => (trimmed, true),
        };
        if UNSUPPORTED
            .iter()
            .any(|unsupported| name.starts_with(unsupported))
        {
            return Err(format!("type {name} is not supported"));
        }
        let member = |member: &str| {
            value
                .get(member)
                .ok_or_else(|| format!("type {name} without '{member}'"))
        };
        let element = |name: &str| Ok::<_, String>(Box::new(Element::from_json(member(name)?)?));
        let data_type = match (value, name) {
            (Value::String(_), name) => name.parse()?,
            (_, "ARRAY") => Self::Array(element("element")?),
            (_, "MULTISET") => Self::Multiset(element("element")?),
            (_, "MAP") => Self::Map(element("key")?, element("value")?),
            (_, "ROW") => {
                let fields = member("fields")?;
                let fields = fields
                    .as_array()
                    .ok_or("type ROW without a list of fields")?;
                let fields = fields.iter().map(|field| {
                    FieldJson::deserialize(field)
                        .map_err(|error| error.to_string())?
                        .into_field()
                });
                Self::Row(fields.collect::<Result<_, _>>()?)
            }
            _ => return Err(format!("type {name} is not supported")),
        };
        Ok((data_type, nullable))
    }
}

impl Element {
    fn to_json(&self) -> Value {
        self.data_type.to_json(self.nullable)
    }

    fn from_json(value: &Value) -> Result<Self, String> {
        let (data_type, nullable) = DataType::from_json(value)?;
        Ok(Self {
            data_type,
            nullable,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldJson {
    id: i32,
    name: String,
    #[serde(rename = "type")]
    data_type: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_value: Option<String>,
}

impl FieldJson {
    fn of(field: &DataField) -> Self {
        Self {
            id: field.id,
            name: field.name.clone(),
            data_type: field.data_type.to_json(field.nullable),
            description: field.description.clone(),
            default_value: field.default_value.clone(),
        }
    }

    fn into_field(self) -> Result<DataField, String> {
        let (data_type, nullable) = DataType::from_json(&self.data_type)
            .map_err(|error| format!("column '{}': {error}", self.name))?;
        Ok(DataField {
            id: self.id,
            name: self.name,
            data_type,
            nullable,
            description: self.description,
            default_value: self.default_value,
        })
    }
}

impl Serialize for DataField {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FieldJson::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DataField {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FieldJson::deserialize(deserializer)?
            .into_field()
            .map_err(D::Error::custom)
    }
}
