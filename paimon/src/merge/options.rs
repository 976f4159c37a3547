//! The options of a table that say how rows of a key are merged.
//!
//! Source: `org.apache.paimon.CoreOptions`.

use crate::{
    error::{Error, Result},
    schema::Schema,
};

/// Values of option `merge-engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The last row.
    Deduplicate,
    /// The last value of each column that is not NULL.
    PartialUpdate,
    /// A function of each column's values.
    Aggregation,
    /// The first row.
    FirstRow,
}

/// Reads a schema's options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    schema: &'a Schema,
}

impl<'a> Options<'a> {
    pub(super) fn of(schema: &'a Schema) -> Self {
        Self { schema }
    }

    /// An option's value.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.schema.options.get(name).map(|value| value.trim())
    }

    /// A column's option: `fields.<column>.<name>`.
    pub(super) fn of_column(&self, column: &str, name: &str) -> Option<&'a str> {
        // Delimiters may be blanks, so that nothing is trimmed here.
        let key = format!("fields.{column}.{name}");
        self.schema.options.get(&key).map(String::as_str)
    }

    /// `fields.default-aggregate-function`
    pub(super) fn default_function(&self) -> Option<&'a str> {
        self.text("fields.default-aggregate-function")
    }

    /// A truth; false when it is not set.
    pub(super) fn truth(&self, name: &str) -> Result<bool> {
        truth(name, self.text(name))
    }

    /// A column's truth; false when it is not set.
    pub(super) fn truth_of_column(&self, column: &str, name: &str) -> Result<bool> {
        truth(name, self.of_column(column, name).map(str::trim))
    }

    /// `merge-engine`
    pub(super) fn engine(&self) -> Result<Engine> {
        let Some(name) = self.text("merge-engine") else {
            return Ok(Engine::Deduplicate);
        };
        Ok(match name.to_ascii_lowercase().as_str() {
            "deduplicate" => Engine::Deduplicate,
            "partial-update" => Engine::PartialUpdate,
            "aggregation" => Engine::Aggregation,
            "first-row" => Engine::FirstRow,
            _ => {
                return Err(Error::Unsupported(format!(
                    "option merge-engine = {name}: set deduplicate, partial-update, aggregation or \
                     first-row"
                )));
            }
        })
    }

    /// `ignore-delete`, which has had other names.
    pub(super) fn ignore_delete(&self) -> Result<bool> {
        let names = [
            "ignore-delete",
            "first-row.ignore-delete",
            "deduplicate.ignore-delete",
            "partial-update.ignore-delete",
        ];
        let set = names.into_iter().find(|name| self.text(name).is_some());
        set.map_or(Ok(false), |name| self.truth(name))
    }

    /// Columns of option `sequence.field`, oldest names first.
    pub(super) fn sequence_fields(&self) -> Vec<&'a str> {
        let fields = self.text("sequence.field").unwrap_or_default();
        names(fields)
    }

    /// Whether a column is of the primary key.
    pub(super) fn is_key(&self, column: &str) -> bool {
        self.schema.primary_keys.iter().any(|key| key == column)
    }

    /// Position of a column that an option names.
    pub(super) fn position(&self, option: &str, column: &str) -> Result<usize> {
        match self.schema.field(column) {
            Some((at, _)) => Ok(at),
            None => Err(Error::Unsupported(format!(
                "option {option} names column {column}, which the table does not have"
            ))),
        }
    }
}

/// The names in a list with commas.
pub(super) fn names(list: &str) -> Vec<&str> {
    let names = list.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

fn truth(name: &str, value: Option<&str>) -> Result<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(Error::Unsupported(format!(
            "option {name} = {other}: set true or false"
        ))),
    }
}
