//! What a checkpoint keeps for this connector beside the position.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use uuid::Uuid;

use super::{ddl::Captured, registry::Known, table::MysqlTable};
use crate::{
    error::{Error, Result},
    position::{MysqlPosition, Position},
    schema::{TableName, TableSchema},
    source::{Recapture, SourceState},
};

/// The connector's part of a [`SourceState`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MysqlState {
    /// Captured tables, as of the position.
    pub tables: Vec<MysqlTable>,
    /// `lower_case_table_names` is not 0.
    pub fold_names: bool,
    /// The end of the log after the schemas had been read at the start of the job: a change of a
    /// captured table before it may be in the schemas already.
    pub schemas_read_at: MysqlPosition,
    /// The end of the log when no XA transaction was prepared: what commits before it may have
    /// been prepared before the job's first position.
    pub settled_at: MysqlPosition,
    /// Indexes that serve as key, by table (`database.table`), where there is no primary key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub key_indexes: BTreeMap<String, String>,
    /// Servers without GTIDs start at the head of a log file: changes of a table (`database.table`)
    /// up to here were committed, and their rows readable, before the job started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ignore_up_to: BTreeMap<String, (String, u64)>,
    /// Tables (`database.table`) whose rows in the log are left out for the time being.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dark: BTreeMap<String, Dark>,
}

/// Why a table's rows in the log are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Dark {
    /// There is no such table any more, until one comes into being. Otherwise the server has to
    /// say what it is.
    pub gone: bool,
    /// What the statement does, as a clause that follows "it".
    pub reason: String,
    /// The statement, for people.
    pub statement: String,
    /// What names the statement and the table within it.
    pub id: String,
    /// Where the statement stands.
    pub position: MysqlPosition,
}

impl MysqlState {
    /// Reads a saved state.
    pub fn read(state: &SourceState) -> Result<(Self, MysqlPosition)> {
        let own = serde_json::from_value(state.connector.clone()).map_err(|e| {
            Error::definite("the checkpoint's source state cannot be read").cause(e)
        })?;
        match &state.position {
            Position::Mysql(position) => Ok((own, position.clone())),
            Position::Log { .. } => Err(Error::definite(
                "the checkpoint belongs to another kind of source than MySQL",
            )),
        }
    }

    /// As a JSON value, for the checkpoint.
    pub fn to_value(&self) -> Result<serde_json::Value> {
        serde_json::to_value(self)
            .map_err(|e| Error::definite("the source state cannot be written").cause(e))
    }

    /// Captures a table from where the log stands, or captures it anew: its rows are left out until the
    /// server has said what it is.
    pub fn recapture(&mut self, known: &Known, why: Recapture, position: &MysqlPosition) {
        let table = &known.table;
        let name = table.name.to_string();
        if !self.tables.iter().any(|own| own.name == table.name) {
            self.tables.push(table.clone());
            if let Some(index) = &known.key_index {
                self.key_indexes.insert(name.clone(), index.clone());
            }
        }
        let (reason, statement) = match why {
            Recapture::Added => (
                "adds it to the captured tables",
                "(no statement: the job file)",
            ),
            Recapture::Asked => ("asks for it to be read anew", "(no statement: a request)"),
        };
        // One that waits already, or is gone, is read anew anyway.
        self.dark.entry(name.clone()).or_insert_with(|| Dark {
            gone: false,
            reason: reason.to_owned(),
            statement: statement.to_owned(),
            id: format!("{}/{name}", Uuid::new_v4()),
            position: position.clone(),
        });
    }

    /// Captures a table no more.
    pub fn release(&mut self, table: &TableName) {
        let name = table.to_string();
        self.tables.retain(|own| own.name != *table);
        self.key_indexes.remove(&name);
        self.ignore_up_to.remove(&name);
        self.dark.remove(&name);
    }

    /// Tables as the job sees them.
    pub fn schemas(&self) -> Vec<Arc<TableSchema>> {
        self.tables
            .iter()
            .map(|table| Arc::new(table.to_schema()))
            .collect()
    }
}

/// Folds a name as the server compares it.
pub(super) fn folded(database: &str, table: &str, fold: bool) -> (String, String) {
    if fold {
        (database.to_lowercase(), table.to_lowercase())
    } else {
        (database.to_owned(), table.to_owned())
    }
}

/// Captured tables for the reader of statements.
pub(super) struct ByName<'a> {
    pub tables: Vec<&'a MysqlTable>,
    pub key_indexes: &'a BTreeMap<String, String>,
    pub fold: bool,
}

impl ByName<'_> {
    fn same(&self, one: &str, other: &str) -> bool {
        one == other || (self.fold && one.to_lowercase() == other.to_lowercase())
    }
}

impl Captured for ByName<'_> {
    fn table(&self, database: &str, table: &str) -> Option<&MysqlTable> {
        self.tables.iter().copied().find(|own| {
            self.same(&own.name.table, table) && self.same(&own.name.database, database)
        })
    }

    fn in_database(&self, database: &str) -> Vec<&TableName> {
        self.tables
            .iter()
            .map(|own| &own.name)
            .filter(|name| self.same(&name.database, database))
            .collect()
    }

    fn names(&self) -> Box<dyn Iterator<Item = &TableName> + '_> {
        Box::new(self.tables.iter().map(|own| &own.name))
    }

    fn key_index(&self, table: &TableName) -> Option<&str> {
        self.key_indexes.get(&table.to_string()).map(String::as_str)
    }

    fn is_dark(&self, _: &TableName) -> bool {
        false
    }

    fn folds(&self) -> bool {
        self.fold
    }
}
