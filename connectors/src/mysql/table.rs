//! The physical model of a MySQL table: what the row decoders need to know and the job does not.

use serde::{Deserialize, Serialize};

use super::{
    collations::bytes_max,
    spelling::Spelling,
    types::{Physical, TypeOptions},
};
use crate::{
    error::{Error, Result},
    schema::{Column, DataType, TableName, TableSchema},
};

/// A base table as the server describes it. Saved in checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MysqlTable {
    /// Database and table, with the server's case.
    pub name: TableName,
    /// Counts the schema changes seen by the job, from 0.
    pub version: u32,
    /// All columns in the server's order, invisible and generated ones included.
    pub columns: Vec<MysqlColumn>,
    /// Names of the primary key's columns in key order; empty when there is none.
    pub primary_key: Vec<String>,
    /// Comment, when there is one and comments are wanted.
    pub comment: Option<String>,
    /// Storage engine, as the server spells it (`InnoDB`).
    pub engine: String,
    /// Default character set of the table.
    pub charset: String,
    /// Default collation of the table.
    pub collation: String,
}

/// How a generated column is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generated {
    /// Computed when it is read.
    Virtual,
    /// Computed when the row is written.
    Stored,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MysqlColumn {
    /// Name with the server's case.
    pub name: String,
    /// `DATA_TYPE` of the information schema, lower case (`int`).
    pub data_type: String,
    /// `COLUMN_TYPE` of the information schema (`int unsigned zerofill`, `enum('a','b')`).
    pub column_type: String,
    /// Character set of text columns.
    pub charset: Option<String>,
    /// Collation of text columns.
    pub collation: Option<String>,
    /// Whether the column may hold NULL.
    pub nullable: bool,
    /// Comment, when there is one and comments are wanted.
    pub comment: Option<String>,
    /// Left out of `SELECT *`.
    pub invisible: bool,
    /// Set for generated columns.
    pub generated: Option<Generated>,
    /// The server numbers rows by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_increment: bool,
    /// Type in the lake, as the options decided it when the column was first seen.
    pub lake: DataType,
}

impl MysqlTable {
    /// The table as the job sees it.
    pub fn to_schema(&self) -> TableSchema {
        TableSchema {
            name: self.name.clone(),
            version: self.version,
            columns: self.columns.iter().map(MysqlColumn::to_column).collect(),
            primary_key: self.primary_key.clone(),
            comment: self.comment.clone(),
        }
    }

    /// A column by name; names of columns are case-insensitive.
    pub fn column(&self, name: &str) -> Option<&MysqlColumn> {
        self.columns
            .iter()
            .find(|column| same_name(&column.name, name))
    }

    /// Sets the key. A key column holds TINYINT(1) as the number that it is, as BOOLEAN two keys
    /// would become one; and SET as the server's text, since the lake has no lists in keys.
    pub(crate) fn set_key(&mut self, key: Vec<String>) {
        self.primary_key = key;
        let mut columns = std::mem::take(&mut self.columns);
        for column in &mut columns {
            if !self.is_key(&column.name) {
                continue;
            }
            match (column.data_type.as_str(), &column.lake) {
                ("tinyint", DataType::Boolean) => column.lake = DataType::TinyInt,
                ("set", DataType::Array(_)) => column.lake = DataType::String,
                _ => {}
            }
        }
        self.columns = columns;
    }

    /// Whether a column belongs to the primary key.
    pub fn is_key(&self, name: &str) -> bool {
        self.primary_key.iter().any(|key| same_name(key, name))
    }
}

/// Whether two column names are the same for the server.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || one.to_lowercase() == other.to_lowercase()
}

impl MysqlColumn {
    /// A column from the text of its type, as `COLUMN_TYPE` has it or as a person writes it in a
    /// statement (`INTEGER(11) unsigned`, `bool`, `character varying(3)`). `charset` and
    /// `collation` are those in force for the column. The column is visible and not generated.
    ///
    /// # Errors
    /// Definite when the type is not known or its text cannot be read; names the column.
    pub fn from_definition(
        name: &str,
        column_type_text: &str,
        charset: Option<&str>,
        collation: Option<&str>,
        nullable: bool,
        comment: Option<&str>,
        options: &TypeOptions,
    ) -> Result<Self> {
        let wrong = |reason: String| {
            Error::definite(format!("type '{column_type_text}': {reason}")).column(name)
        };
        let spelling = Spelling::read(column_type_text).map_err(wrong)?;
        let physical = Physical::parse(column_type_text, charset).map_err(wrong)?;
        // Labels of an ENUM or SET may be bytes; then the information schema names no set.
        let text = physical.is_text()
            && !charset.is_some_and(|charset| charset.eq_ignore_ascii_case("binary"));
        let each = charset.filter(|_| text).map_or(1, bytes_max);
        let spelling = spelling.with_room(each).map_err(wrong)?;
        Ok(Self {
            name: name.to_owned(),
            data_type: physical.data_type(&spelling),
            column_type: physical.column_type(&spelling),
            charset: charset.filter(|_| text).map(str::to_ascii_lowercase),
            collation: collation.filter(|_| text).map(str::to_ascii_lowercase),
            nullable,
            comment: comment
                .filter(|comment| options.include_comments && !comment.is_empty())
                .map(str::to_owned),
            invisible: false,
            generated: None,
            auto_increment: false,
            lake: physical.lake(options),
        })
    }

    /// The column as the job sees it.
    pub fn to_column(&self) -> Column {
        Column {
            name: self.name.clone(),
            data_type: self.lake.clone(),
            nullable: self.nullable,
            comment: self.comment.clone(),
            source_type: self.column_type.clone(),
        }
    }

    /// Whether a label of an ENUM or SET may be another than the information schema shows: that
    /// knows characters of up to three UTF-8 bytes and gives `?` for the others.
    pub(crate) fn has_hidden_labels(&self) -> bool {
        let wide = matches!(
            self.charset.as_deref(),
            Some("utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030")
        );
        wide && matches!(self.data_type.as_str(), "enum" | "set") && self.column_type.contains('?')
    }

    /// The type that the server stores.
    pub(crate) fn physical(&self) -> Result<Physical> {
        Physical::parse(&self.column_type, self.charset.as_deref()).map_err(|reason| {
            Error::definite(format!("type '{}': {reason}", self.column_type)).column(&self.name)
        })
    }
}
