//! Table schemas: the JSON files `schema/schema-<id>`.
//!
//! Source: `org.apache.paimon.schema.SchemaSerializer`, version 3.

mod validation;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{
    data_type::{DataField, DataType},
    error::{Error, Result},
};

/// Format version of schema files.
pub(crate) const VERSION: i32 = 3;

/// A table's schema at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    /// Format version of the file, 3.
    pub version: i32,
    /// Version of the schema, from 0.
    pub id: i64,
    /// Columns.
    pub fields: Vec<DataField>,
    /// Highest id ever given to a field, nested ones included.
    pub highest_field_id: i32,
    /// Names of the partition columns.
    pub partition_keys: Vec<String>,
    /// Names of the key columns, partition columns included.
    pub primary_keys: Vec<String>,
    /// Table options.
    pub options: BTreeMap<String, String>,
    /// Comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When the schema was made, milliseconds since the epoch.
    #[serde(default)]
    pub time_millis: i64,
}

impl Schema {
    /// Schema 0 of a new table: gives ids to the fields (theirs are ignored) in order, makes key
    /// columns NOT NULL. Without a primary key rows are appended, and with option `bucket` of -1
    /// (or none) buckets are dynamic, or there are none where there is no key.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with a text that says what is wrong: names that differ in case only,
    /// keys that are not columns, what the format does not allow together, partition columns outside
    /// of the primary key, postponed buckets, options of [`Schema::unsupported_options`].
    pub fn create(
        fields: Vec<DataField>,
        primary_keys: Vec<String>,
        partition_keys: Vec<String>,
        options: BTreeMap<String, String>,
        comment: Option<String>,
    ) -> Result<Self> {
        let mut schema = Self {
            version: VERSION,
            id: 0,
            highest_field_id: -1,
            fields,
            partition_keys,
            primary_keys,
            options,
            comment,
            time_millis: now_ms(),
        };
        schema.check_rules()?;
        schema.check_kind()?;
        schema.check_options()?;
        let mut last = -1;
        for field in &mut schema.fields {
            last += 1;
            field.id = last;
            field.data_type.assign_ids(&mut last);
            if schema.primary_keys.contains(&field.name) {
                field.nullable = false;
            }
        }
        schema.highest_field_id = last;
        Ok(schema)
    }

    /// Reads a schema file.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for types that this crate doesn't know, with the column's name;
    /// [`Error::Corrupt`] for what is no schema.
    pub(crate) fn parse(bytes: &[u8], path: &str) -> Result<Self> {
        let corrupt = |error: serde_json::Error| Error::Corrupt {
            path: path.to_owned(),
            message: error.to_string(),
        };
        let json: serde_json::Value = serde_json::from_slice(bytes).map_err(corrupt)?;
        if let Some(text) = unknown_type(&json) {
            return Err(Error::Unsupported(format!("{path}: {text}")));
        }
        serde_json::from_value(json).map_err(corrupt)
    }

    /// A schema without columns, for a table that is yet to be looked at.
    pub(crate) fn empty() -> Self {
        Self {
            version: VERSION,
            id: -1,
            fields: Vec::new(),
            highest_field_id: -1,
            partition_keys: Vec::new(),
            primary_keys: Vec::new(),
            options: BTreeMap::new(),
            comment: None,
            time_millis: 0,
        }
    }

    /// Position and field of a column.
    pub fn field(&self, name: &str) -> Option<(usize, &DataField)> {
        self.fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == name)
    }

    /// Key columns of the data files: the primary key without the partition columns.
    pub fn trimmed_primary_keys(&self) -> Vec<&str> {
        self.primary_keys
            .iter()
            .filter(|key| !self.partition_keys.contains(key))
            .map(String::as_str)
            .collect()
    }

    /// Columns whose values choose the bucket: option `bucket-key`, else the trimmed primary key.
    pub fn bucket_keys(&self) -> Vec<&str> {
        match self.options.get("bucket-key") {
            Some(keys) => keys.split(',').map(str::trim).collect(),
            None => self.trimmed_primary_keys(),
        }
    }

    /// Option `bucket`, -1 when it is not set.
    pub fn buckets(&self) -> i32 {
        self.options
            .get("bucket")
            .and_then(|buckets| buckets.parse().ok())
            .unwrap_or(-1)
    }

    /// Whether an index of keys says which bucket a row is in: `bucket = -1` and a primary key.
    pub fn has_dynamic_buckets(&self) -> bool {
        self.buckets() == -1 && !self.primary_keys.is_empty()
    }

    /// The Arrow schema of the value columns.
    pub fn arrow(&self) -> Arc<arrow_schema::Schema> {
        Arc::new(arrow_schema::Schema::new(
            self.fields.iter().map(DataField::arrow).collect::<Vec<_>>(),
        ))
    }
}

/// What is not supported among the types of a schema file.
fn unknown_type(json: &serde_json::Value) -> Option<String> {
    let fields = json.get("fields")?.as_array()?;
    fields.iter().find_map(|field| {
        let error = DataType::from_json(field.get("type")?).err()?;
        let name = field.get("name").and_then(|name| name.as_str());
        let unknown = error.contains("is not supported");
        unknown.then(|| format!("column '{}': {error}", name.unwrap_or_default()))
    })
}

pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
