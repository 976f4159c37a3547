//! Table schemas: the JSON files `schema/schema-<id>`.
//!
//! Source: `org.apache.paimon.schema.SchemaSerializer`, version 3.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{
    data_type::DataField,
    error::{Error, Result},
    partition,
};

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
    /// Schema 0 of a new primary-key table: gives ids to the fields (theirs are ignored) in order,
    /// makes key columns NOT NULL.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with a text that says what is wrong: names that differ in case only,
    /// keys that are not columns, partition columns outside of the primary key, no fixed bucket
    /// count, options of [`Schema::unsupported_options`].
    pub fn create(
        fields: Vec<DataField>,
        primary_keys: Vec<String>,
        partition_keys: Vec<String>,
        options: BTreeMap<String, String>,
        comment: Option<String>,
    ) -> Result<Self> {
        let mut schema = Self {
            version: 3,
            id: 0,
            highest_field_id: -1,
            fields,
            partition_keys,
            primary_keys,
            options,
            comment,
            time_millis: now_ms(),
        };
        schema.validate()?;
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

    /// A schema without columns, for a table that is yet to be looked at.
    pub(crate) fn empty() -> Self {
        Self {
            version: 3,
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

    fn validate(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::Unsupported(message));
        let mut seen = HashSet::new();
        for field in &self.fields {
            if field.name.is_empty() {
                return refuse("a column without a name".into());
            }
            if ["_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind"]
                .contains(&field.name.as_str())
                || field.name.starts_with("_KEY_")
            {
                return refuse(format!(
                    "column '{}': Paimon keeps that name for itself",
                    field.name
                ));
            }
            if !seen.insert(field.name.to_lowercase()) {
                return refuse(format!(
                    "columns whose names differ in case only: '{}' is there twice",
                    field.name
                ));
            }
        }
        for (what, keys) in [
            ("primary key", &self.primary_keys),
            ("partition", &self.partition_keys),
        ] {
            let mut seen = HashSet::new();
            for key in keys {
                if self.field(key).is_none() {
                    return refuse(format!("{what} column '{key}', which is not a column"));
                }
                if !seen.insert(key) {
                    return refuse(format!("{what} column '{key}' is named twice"));
                }
            }
        }
        if self.primary_keys.is_empty() {
            return refuse("a table without a primary key".into());
        }
        for (_, key) in self.primary_keys.iter().filter_map(|key| self.field(key)) {
            let in_folder = self.partition_keys.contains(&key.name);
            if key.data_type.is_nested()
                || in_folder && !partition::has_folder_name(self, &key.data_type)
            {
                return refuse(format!(
                    "{} column '{}' of type {}",
                    if in_folder {
                        "partition"
                    } else {
                        "primary key"
                    },
                    key.name,
                    key.data_type
                ));
            }
        }
        for key in &self.partition_keys {
            if !self.primary_keys.contains(key) {
                return refuse(format!(
                    "partition column '{key}' outside of the primary key: rows of one key could \
                     stand in two partitions"
                ));
            }
        }
        if self.trimmed_primary_keys().is_empty() {
            return refuse(
                "a primary key that holds only partition columns: each partition could hold one \
                 row only"
                    .into(),
            );
        }
        self.check_options()?;
        self.validate_bucket()
    }

    fn validate_bucket(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::Unsupported(message));
        match self.options.get("bucket").map(|text| text.parse()) {
            None | Some(Ok(-1)) => {
                refuse("option 'bucket' of -1 (dynamic buckets): set it to a number above 0".into())
            }
            Some(Ok(-2)) => refuse(
                "option 'bucket' of -2 (postponed buckets): set it to a number above 0".into(),
            ),
            Some(Ok(1..=i32::MAX)) => {
                for key in self.bucket_keys() {
                    if !self.trimmed_primary_keys().contains(&key) {
                        return refuse(format!(
                            "bucket key '{key}' outside of the primary key, or a partition column"
                        ));
                    }
                }
                Ok(())
            }
            Some(_) => refuse(format!(
                "option 'bucket' of '{}': set it to a number above 0",
                self.options.get("bucket").map_or("", String::as_str)
            )),
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

    /// The Arrow schema of the value columns.
    pub fn arrow(&self) -> Arc<arrow_schema::Schema> {
        Arc::new(arrow_schema::Schema::new(
            self.fields.iter().map(DataField::arrow).collect::<Vec<_>>(),
        ))
    }
}

pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
