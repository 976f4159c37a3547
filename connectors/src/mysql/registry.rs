//! Physical tables behind the schemas that the job holds.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{table::MysqlTable, zero_dates::ZeroDates};
use crate::{
    error::{Error, Result},
    schema::{TableName, TableSchema},
};

/// A table at one version.
#[derive(Debug)]
pub(super) struct Known {
    /// The physical table.
    pub table: MysqlTable,
    /// The index that serves as the key of a table without a primary key.
    pub key_index: Option<String>,
}

/// All tables and versions that this process has seen.
#[derive(Debug, Default)]
pub(super) struct Registry {
    known: Mutex<HashMap<TableName, Vec<Arc<Known>>>>,
    /// Tables that were seen to come into being.
    created: Mutex<HashSet<TableName>>,
    /// Statements that made tables, for which the job has begun again.
    followed: Mutex<HashSet<String>>,
    /// Dates that are none, in whatever was read.
    pub zero_dates: Arc<ZeroDates>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<TableName, Vec<Arc<Known>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of tables.
    pub fn add<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a MysqlTable>,
        key_indexes: &BTreeMap<String, String>,
    ) {
        let mut known = self.lock();
        for table in tables {
            let versions = known.entry(table.name.clone()).or_default();
            if versions.iter().any(|own| own.table == *table) {
                continue;
            }
            versions.push(Arc::new(Known {
                key_index: key_indexes.get(&table.name.to_string()).cloned(),
                table: table.clone(),
            }));
        }
    }

    /// Every table at its newest version.
    pub fn newest(&self) -> Vec<Arc<Known>> {
        let known = self.lock();
        let newest = known.values().filter_map(|versions| versions.last());
        newest.cloned().collect()
    }

    /// Whether a table that came into being is met for the first time: a log that is read again
    /// tells of it again.
    pub fn is_first_sight(&self, name: &TableName) -> bool {
        is_new(&self.created, name.clone())
    }

    /// Whether the job has not begun again yet for a statement that made a table, by what names it.
    pub fn is_first_time(&self, statement: String) -> bool {
        is_new(&self.followed, statement)
    }

    /// The physical table of a schema.
    pub fn find(&self, schema: &TableSchema) -> Result<Arc<Known>> {
        self.lock()
            .get(&schema.name)
            .and_then(|versions| {
                let mut newest_first = versions.iter().rev();
                newest_first.find(|known| known.table.to_schema() == *schema)
            })
            .cloned()
            .ok_or_else(|| {
                Error::definite(format!(
                    "version {} of this table is not known",
                    schema.version
                ))
                .table(&schema.name)
            })
    }
}

/// Takes note of a thing; whether it was not known yet.
fn is_new<T: Eq + Hash>(known: &Mutex<HashSet<T>>, thing: T) -> bool {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(thing)
}
