//! `headwater table list`.

use serde::Serialize;

use super::{Answer, Warehouse, catalog};
use crate::error::Result;

/// Databases and tables of a warehouse.
#[derive(Debug, Serialize)]
pub struct Listing {
    warehouse: String,
    tables: Vec<Listed>,
}

#[derive(Debug, Serialize)]
struct Listed {
    database: String,
    table: String,
    kind: &'static str,
    snapshot: Option<i64>,
    records: Option<i64>,
    /// Why the table could not be read, if so.
    problem: Option<String>,
}

/// Looks at every table of a warehouse, or of one database.
pub async fn list(warehouse: &Warehouse, database: Option<&str>) -> Result<Listing> {
    let catalog = catalog(warehouse)?;
    let databases = match database {
        Some(database) => vec![database.to_owned()],
        None => catalog.list_databases().await?,
    };
    let mut tables = Vec::new();
    for database in databases {
        for name in catalog.list_tables(&database).await? {
            let mut listed = Listed {
                database: database.clone(),
                table: name.clone(),
                kind: "",
                snapshot: None,
                records: None,
                problem: None,
            };
            match catalog.table(&database, &name).await {
                Ok(Some(table)) => {
                    listed.kind = match table.schema().primary_keys.is_empty() {
                        true => "append",
                        false => "primary key",
                    };
                    match table.latest_snapshot().await {
                        Ok(snapshot) => {
                            listed.snapshot = snapshot.as_ref().map(|snapshot| snapshot.id);
                            listed.records = snapshot.and_then(|found| found.total_record_count);
                        }
                        Err(error) => listed.problem = Some(error.to_string()),
                    }
                }
                // Dropped while we looked.
                Ok(None) => continue,
                Err(error) => listed.problem = Some(error.to_string()),
            }
            tables.push(listed);
        }
    }
    Ok(Listing {
        warehouse: catalog.location(),
        tables,
    })
}

impl Answer for Listing {
    fn to_text(&self) -> String {
        let mut text = String::new();
        let widest = self
            .tables
            .iter()
            .map(|listed| listed.database.len() + listed.table.len() + 1)
            .max()
            .unwrap_or(0);
        for listed in &self.tables {
            let name = format!("{}.{}", listed.database, listed.table);
            let state = match (&listed.problem, listed.snapshot) {
                (Some(problem), _) => format!("cannot be read: {problem}"),
                (None, None) => format!("{:<11}  empty", listed.kind),
                (None, Some(snapshot)) => format!(
                    "{:<11}  snapshot {snapshot}, {} records in files",
                    listed.kind,
                    listed.records.map_or("?".to_owned(), |n| n.to_string())
                ),
            };
            text += &format!("{name:<widest$}  {state}\n");
        }
        if self.tables.is_empty() {
            text = format!("no tables in {}\n", self.warehouse);
        }
        text
    }

    fn is_good(&self) -> bool {
        self.tables.iter().all(|listed| listed.problem.is_none())
    }
}
