//! What `headwater table` does, a verb a file: each looks at a table of a warehouse or changes it,
//! and gives an [`Answer`] that can be printed for people or as JSON. Whose tables they are does
//! not matter. The format itself is the business of `headwater-paimon`.

mod check;
mod compact;
mod condition;
mod files;
mod info;
mod list;
mod read;
mod rescale;
mod retain;
mod rows;

use std::{io::Write, str::FromStr};

use headwater_paimon::{Catalog, Location, PaimonSnapshot, SnapshotRef, StoreOptions, Table};
use serde::Serialize;

use crate::{
    cli::table::At,
    error::{JobError, Result},
};

pub use self::{
    check::{check, orphan},
    compact::{CompactRequest, compact},
    files::files,
    info::info,
    list::list,
    read::read,
    rescale::rescale,
    retain::{expire, rollback, tag},
};

/// Where a warehouse is and how to get there.
#[derive(Debug, Clone)]
pub struct Warehouse {
    /// Folder or URL.
    pub location: Location,
    /// Options of the store, as `catalog.properties.*` spell them.
    pub options: StoreOptions,
}

/// `database.table`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    database: String,
    table: String,
}

impl TableName {
    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The table's name in its database.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('.') {
            Some((database, table)) if !database.is_empty() && !table.is_empty() => Ok(Self {
                database: database.to_owned(),
                table: table.to_owned(),
            }),
            _ => Err("write it as DATABASE.TABLE".to_owned()),
        }
    }
}

/// What a verb found or did.
pub trait Answer: Serialize {
    /// For people, with a line end.
    fn to_text(&self) -> String;

    /// False when something is wrong with the table: the exit code says so.
    fn is_good(&self) -> bool {
        true
    }
}

/// Prints; a reader that has seen enough may close the pipe.
pub fn print(text: &str) {
    drop(std::io::stdout().lock().write_all(text.as_bytes()));
}

fn catalog(warehouse: &Warehouse) -> Result<Catalog> {
    Ok(Catalog::open(&warehouse.location, &warehouse.options)?)
}

/// Opens a table; one that isn't there is an error that says what is.
async fn open(warehouse: &Warehouse, name: &TableName) -> Result<Table> {
    let catalog = catalog(warehouse)?;
    match catalog.table(&name.database, &name.table).await? {
        Some(table) => Ok(table),
        None => Err(JobError::Definite(format!(
            "no table {}.{} in warehouse {}: headwater table list shows what there is",
            name.database,
            name.table,
            catalog.location()
        ))),
    }
}

/// The snapshot that is meant; `None` when the table is empty and nothing special was asked for.
async fn snapshot(table: &Table, at: &At) -> Result<Option<PaimonSnapshot>> {
    let moment = match at {
        At {
            snapshot: Some(id), ..
        } => SnapshotRef::Id(*id),
        At {
            tag: Some(name), ..
        } => SnapshotRef::Tag(name.clone()),
        At {
            timestamp: Some(text),
            ..
        } => SnapshotRef::TimestampMs(moment(text)?),
        At {
            watermark: Some(time),
            ..
        } => SnapshotRef::WatermarkMs(*time),
        _ => return Ok(table.latest_snapshot().await?),
    };
    Ok(Some(table.snapshot_at(&moment).await?))
}

/// Milliseconds since the epoch, from a number or from a time with its zone.
fn moment(text: &str) -> Result<i64> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(time.as_millisecond()),
        Err(error) => Err(JobError::Definite(format!(
            "{text} is no time: {error}. Write milliseconds since the epoch, or \
             2026-11-30T12:00:00Z"
        ))),
    }
}
