//! A warehouse on a file system or an object store: `<root>/<database>.db/<table>/schema/schema-<n>`.
//!
//! Source: `org.apache.paimon.catalog.FileSystemCatalog`, `SchemaManager`.

mod location;
mod probe;
mod s3;

use std::{path::PathBuf, sync::Arc};

use object_store::{ObjectStore, local::LocalFileSystem, path::Path};

use crate::{
    error::{Error, Result},
    partition::segment,
    schema::Schema,
    storage::{self, LocalStore},
    table::Table,
};

pub use self::{
    location::Location,
    s3::{StoreOption, StoreOptions},
};

/// Suffix of a database's folder.
const DATABASE_SUFFIX: &str = ".db";

/// Databases and tables under one root.
#[derive(Debug, Clone)]
pub struct Catalog {
    store: Arc<dyn ObjectStore>,
    root: Path,
    /// Folder of the root when the store is this machine's file system: an object store has no
    /// empty folders, and a database without tables is one.
    folder: Option<PathBuf>,
    /// What only a bucket has.
    bucket: Option<InBucket>,
}

#[derive(Debug, Clone)]
struct InBucket {
    location: Location,
    /// The same store, for calls that should not wait for it.
    quick: Arc<dyn ObjectStore>,
}

impl Catalog {
    /// A warehouse in a folder of this machine or on S3; nothing is read or written. Options are
    /// those of Paimon's and Flink's catalogs (`s3.endpoint`, `s3.access-key`, …); what they don't
    /// say comes from the environment (`AWS_…`).
    ///
    /// # Errors
    /// [`Error::Location`] for options that cannot be; see also [`Catalog::local`].
    pub fn open(location: &Location, options: &StoreOptions) -> Result<Self> {
        match location {
            Location::Folder(folder) => Self::local(folder),
            Location::S3 { bucket, prefix } => {
                let store = s3::open(bucket, options)?;
                Ok(Self {
                    store: store.patient,
                    root: prefix.clone(),
                    folder: None,
                    bucket: Some(InBucket {
                        location: location.clone(),
                        quick: store.quick,
                    }),
                })
            }
        }
    }

    /// A warehouse under `root` of a store; nothing is read or written.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path) -> Self {
        Self {
            store,
            root,
            folder: None,
            bucket: None,
        }
    }

    /// A warehouse in a folder of this machine, which need not be there yet: it is made with the
    /// first database. Files and their folders are synced to the disk.
    ///
    /// # Errors
    /// Neither the folder nor the nearest one above it that is there can be opened.
    pub fn local(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = std::path::absolute(folder.into())
            .map_err(|error| local_error("cannot find", std::path::Path::new("."), error))?;
        let open = |there: &std::path::Path| {
            LocalFileSystem::new_with_prefix(there)
                .map_err(|error| Error::store("cannot open", folder.display(), error))
        };
        // The store begins at what is there already: it cannot begin at a folder that is not.
        let there = folder.ancestors().find(|there| there.exists());
        let there = there.unwrap_or(&folder);
        let rest = folder.strip_prefix(there).unwrap_or(&folder);
        let root = Path::parse(rest.to_string_lossy())
            .map_err(|error| Error::store("cannot open", folder.display(), error.into()))?;
        let store = open(there)?.with_fsync(true);
        Ok(Self {
            store: Arc::new(LocalStore(store)),
            root,
            folder: Some(folder),
            bucket: None,
        })
    }

    /// Where the warehouse is, for messages.
    pub fn location(&self) -> String {
        match (&self.folder, &self.bucket) {
            (Some(folder), _) => folder.display().to_string(),
            (None, Some(bucket)) => bucket.location.to_string(),
            (None, None) => self.root.to_string(),
        }
    }

    /// The store for calls that somebody waits for: one that cannot be reached is given up after
    /// seconds. Same as [`Catalog::store`] unless in a bucket.
    pub fn quick_store(&self) -> &Arc<dyn ObjectStore> {
        self.bucket
            .as_ref()
            .map_or(&self.store, |bucket| &bucket.quick)
    }

    /// The store of the warehouse.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Whether the warehouse is in a bucket, and not in a folder of this machine.
    pub fn is_in_bucket(&self) -> bool {
        self.bucket.is_some()
    }

    /// Folder of the warehouse in the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a database, unless it is there. On an object store a database begins to exist with
    /// its first table.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for names that cannot be a folder.
    pub async fn create_database(&self, database: &str) -> Result<()> {
        valid_name(database)?;
        if let Some(folder) = &self.folder {
            let folder = folder.join(format!("{database}{DATABASE_SUFFIX}"));
            tokio::fs::create_dir_all(&folder)
                .await
                .map_err(|error| local_error("cannot create", &folder, error))?;
        }
        Ok(())
    }

    /// Names of all databases, sorted.
    pub async fn list_databases(&self) -> Result<Vec<String>> {
        let folders = storage::folder_names(
            self.store.as_ref(),
            (!self.root.is_root()).then_some(&self.root),
        )
        .await?;
        let mut names: Vec<String> = folders
            .iter()
            .filter_map(|folder| folder.strip_suffix(DATABASE_SUFFIX).map(str::to_owned))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Names of a database's tables, sorted; none when it isn't there.
    pub async fn list_tables(&self, database: &str) -> Result<Vec<String>> {
        let path = self.database_path(database)?;
        let folders = storage::folder_names(self.store.as_ref(), Some(&path)).await?;
        let mut names = Vec::new();
        for name in folders {
            let schemas = segment(path.clone(), &name)?.join("schema");
            if !storage::numbered(self.store.as_ref(), &schemas, "schema-")
                .await?
                .is_empty()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// A table at its newest schema; `None` when it isn't there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the schema can't be read, also for types that this crate doesn't
    /// know.
    pub async fn table(&self, database: &str, table: &str) -> Result<Option<Table>> {
        let found = self.at(database, table, Arc::new(Schema::empty()))?;
        Ok(found
            .newest_schema()
            .await?
            .map(|schema| found.with_schema(schema)))
    }

    /// Makes a table with its schema 0; see [`Schema::create`].
    ///
    /// # Errors
    /// [`Error::Table`] when the table is there already.
    pub async fn create_table(&self, database: &str, table: &str, schema: Schema) -> Result<Table> {
        let new = self.at(database, table, Arc::new(schema))?;
        self.create_database(database).await?;
        let there = new.newest_schema().await?.is_some();
        if there || !new.create_schema(new.schema()).await? {
            return Err(Error::Table {
                table: new.name().to_owned(),
                message: "it exists already".into(),
            });
        }
        Ok(new)
    }

    /// Tries the store: it can be written, and it honours "create only if absent", on which every
    /// commit rests. One small object is made and deleted.
    ///
    /// # Errors
    /// [`Error::Location`] when the store ignores the condition, or refuses the keys or the bucket;
    /// [`Error::Store`] when it can't be written.
    pub async fn probe(&self) -> Result<()> {
        let folder = match &self.folder {
            // It is made later, in what the store begins at.
            Some(folder) if !folder.exists() => Path::default(),
            _ => self.root.clone(),
        };
        probe::probe(self.quick_store().as_ref(), &folder)
            .await
            .map_err(|error| probe::explained(&self.location(), error))
    }

    fn database_path(&self, database: &str) -> Result<Path> {
        valid_name(database)?;
        segment(self.root.clone(), &format!("{database}{DATABASE_SUFFIX}"))
    }

    fn table_path(&self, database: &str, table: &str) -> Result<Path> {
        valid_name(table)?;
        segment(self.database_path(database)?, table)
    }

    fn at(&self, database: &str, table: &str, schema: Arc<Schema>) -> Result<Table> {
        Ok(Table::new(
            format!("{database}.{table}"),
            self.store.clone(),
            self.table_path(database, table)?,
            schema,
        ))
    }
}

/// Names that are one folder, as they are.
fn valid_name(name: &str) -> Result<()> {
    let wrong = name.is_empty()
        || name.starts_with('.')
        || name.trim() != name
        || name.contains(['/', '\\'])
        || name.contains(char::is_control);
    if wrong {
        return Err(Error::Unsupported(format!(
            "'{name}' as the name of a database or table: it cannot be the name of a folder"
        )));
    }
    Ok(())
}

fn local_error(action: &'static str, folder: &std::path::Path, error: std::io::Error) -> Error {
    Error::store(
        action,
        folder.display(),
        object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(error),
        },
    )
}

impl Table {
    pub(crate) fn schema_path(&self, id: i64) -> Path {
        self.path()
            .clone()
            .join("schema")
            .join(format!("schema-{id}"))
    }

    /// The schema of an id.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it isn't there or can't be read.
    pub async fn schema_of(&self, id: i64) -> Result<Arc<Schema>> {
        if id == self.schema().id {
            return Ok(self.schema().clone());
        }
        let path = self.schema_path(id);
        let bytes = storage::read(self.store().as_ref(), &path).await?;
        Ok(Arc::new(Schema::parse(&bytes, path.as_ref())?))
    }

    async fn newest_schema(&self) -> Result<Option<Schema>> {
        let folder = self.path().clone().join("schema");
        let ids = storage::numbered(self.store().as_ref(), &folder, "schema-").await?;
        let Some(id) = ids.last() else {
            return Ok(None);
        };
        let path = self.schema_path(*id);
        let bytes = storage::read(self.store().as_ref(), &path).await?;
        Schema::parse(&bytes, path.as_ref()).map(Some)
    }

    /// Creates a schema file; false when another was there. One that is there with the very same
    /// content may be our own, made by a try whose answer was lost, and is as good.
    pub(crate) async fn create_schema(&self, schema: &Schema) -> Result<bool> {
        let bytes = serde_json::to_vec_pretty(schema)
            .map_err(|error| Error::Internal(format!("cannot write a schema: {error}")))?;
        let path = self.schema_path(schema.id);
        if storage::create(self.store().as_ref(), &path, bytes.clone()).await? {
            return Ok(true);
        }
        match storage::get(self.store().as_ref(), &path).await? {
            Some(found) => Ok(found.as_ref() == bytes),
            // S3 also says "conflict" when another create is under way, which may yet fail.
            None => Err(Error::store(
                "cannot create",
                &path,
                object_store::Error::Generic {
                    store: "ObjectStore",
                    source: "another is creating it, or has deleted it just now".into(),
                },
            )),
        }
    }

    /// The same table at its newest schema.
    ///
    /// # Errors
    /// [`Error::Table`] when the table has been dropped.
    pub async fn reload(&self) -> Result<Self> {
        let schema = self.newest_schema().await?.ok_or_else(|| Error::Table {
            table: self.name().to_owned(),
            message: "it has been dropped".into(),
        })?;
        Ok(self.with_schema(schema))
    }

    /// The table at the schema of an id, which may be older than its newest one.
    ///
    /// # Errors
    /// As [`schema_of`](Self::schema_of).
    pub async fn at_schema(&self, id: i64) -> Result<Self> {
        let schema = self.schema_of(id).await?;
        Ok(self.with_schema(Schema::clone(&schema)))
    }

    pub(crate) fn with_schema(&self, schema: Schema) -> Self {
        Self::new(
            self.name(),
            self.store().clone(),
            self.path().clone(),
            Arc::new(schema),
        )
    }
}

#[cfg(test)]
pub(crate) mod tests;
