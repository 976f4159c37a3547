//! Table schemas: the JSON files `schema/schema-<id>`.
//!
//! Source: `org.apache.paimon.schema.SchemaSerializer`, version 3.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::data_type::DataField;

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

    /// The Arrow schema of the value columns.
    pub fn arrow(&self) -> Arc<arrow_schema::Schema> {
        Arc::new(arrow_schema::Schema::new(
            self.fields
                .iter()
                .map(|field| {
                    arrow_schema::Field::new(&field.name, field.data_type.arrow(), field.nullable)
                })
                .collect::<Vec<_>>(),
        ))
    }
}
