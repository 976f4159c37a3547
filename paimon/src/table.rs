//! A table at one schema: where its files stand and what they look like. Cheap to clone.

use std::sync::Arc;

use object_store::{ObjectStore, path::Path};

use crate::schema::Schema;

/// A table at one version of its schema.
#[derive(Debug, Clone)]
pub struct Table {
    name: Arc<str>,
    store: Arc<dyn ObjectStore>,
    path: Path,
    schema: Arc<Schema>,
}

impl Table {
    /// A table whose files stand under `path`; nothing is read.
    pub fn new(
        name: impl Into<Arc<str>>,
        store: Arc<dyn ObjectStore>,
        path: Path,
        schema: Arc<Schema>,
    ) -> Self {
        Self {
            name: name.into(),
            store,
            path,
            schema,
        }
    }

    /// `database.table`
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store of the warehouse.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Folder of the table in the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }
}
