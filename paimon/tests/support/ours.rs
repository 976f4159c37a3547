//! This crate as an engine: all that the randomised tests ask of it goes through here.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use headwater_paimon::{
    AppendWriter, Catalog, CommitMessage, CommitOutcome, CommitRequest, DataField, DataType, Error,
    OrphanRequest, PaimonSnapshot, Result, Retention, Schema, SchemaChange, SnapshotRef, Table,
    TableCommitter, TagRequest, WriteBuffer, WriteSettings,
    compact::{CompactScope, CompactSettings, Compactor},
};

use super::{
    model::{Alter, Change, Column, Definition},
    value::{Type, Value, array},
};

/// Why this crate does not do it, when the error says that it is the crate's limit.
pub fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::Unsupported(reason) => Some(reason.clone()),
        // Types of a schema file.
        Error::Corrupt { message, .. } if message.contains("is not supported") => {
            Some(message.clone())
        }
        _ => None,
    }
}

fn data_type(kind: &Type) -> Result<DataType> {
    let (data_type, _) = DataType::from_json(&kind.json()).map_err(Error::Unsupported)?;
    Ok(data_type)
}

fn field(id: i32, column: &Column) -> Result<DataField> {
    Ok(DataField {
        id,
        name: column.name.clone(),
        data_type: data_type(&column.kind)?,
        nullable: column.nullable,
        description: None,
        default_value: None,
    })
}

/// A database of one warehouse.
#[derive(Debug, Clone)]
pub struct Ours {
    catalog: Catalog,
    database: String,
}

impl Ours {
    pub fn new(warehouse: &std::path::Path, database: &str) -> Self {
        Self {
            catalog: Catalog::local(warehouse).unwrap(),
            database: database.to_owned(),
        }
    }

    /// Any warehouse.
    pub fn of(catalog: Catalog, database: &str) -> Self {
        Self {
            catalog,
            database: database.to_owned(),
        }
    }

    pub async fn table(&self, name: &str) -> Result<Table> {
        let table = self.catalog.table(&self.database, name).await?;
        Ok(table.unwrap_or_else(|| panic!("table {name} is not there")))
    }

    pub async fn create(&self, name: &str, definition: &Definition) -> Result<()> {
        let fields = (0..).zip(&definition.columns);
        let schema = Schema::create(
            fields
                .map(|(id, column)| field(id, column))
                .collect::<Result<_>>()?,
            definition.primary_keys.clone(),
            definition.partition_keys.clone(),
            definition.options.clone(),
            None,
        )?;
        self.catalog
            .create_table(&self.database, name, schema)
            .await?;
        Ok(())
    }

    /// Files with the changes, not committed. With an identifier of a commit that took place
    /// already the commit does nothing.
    pub async fn prepare(
        &self,
        name: &str,
        definition: &Definition,
        changes: &[Change],
    ) -> Result<Vec<CommitMessage>> {
        let table = self.table(name).await?;
        if definition.primary_keys.is_empty() {
            let mut writer = AppendWriter::new(table.clone(), WriteSettings::default()).await?;
            writer.write(&batch(&table, definition, changes)?).await?;
            return writer.prepare().await;
        }
        let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
        let greatest = TableCommitter::new(table.clone())
            .max_sequence_number()
            .await?;
        let kinds: Vec<i8> = changes.iter().map(|(kind, _)| *kind as i8).collect();
        let rows = batch(&table, definition, changes)?;
        buffer.write(&rows, Some(&kinds), greatest.unwrap_or(-1) + 1)?;
        buffer.flush().await
    }

    pub async fn commit(
        &self,
        name: &str,
        user: &str,
        identifier: i64,
        messages: Vec<CommitMessage>,
    ) -> Result<CommitOutcome> {
        let request = CommitRequest {
            user: user.to_owned(),
            identifier,
            messages,
            watermark_ms: None,
            properties: BTreeMap::new(),
            expect: None,
        };
        self.table(name).await?.commit(&request).await
    }

    pub async fn write(
        &self,
        name: &str,
        definition: &Definition,
        changes: &[Change],
        identifier: i64,
    ) -> Result<()> {
        let messages = self.prepare(name, definition, changes).await?;
        self.commit(name, "ours", identifier, messages).await?;
        Ok(())
    }

    /// Canonical lines, sorted.
    pub async fn read(
        &self,
        name: &str,
        definition: &Definition,
        moment: &SnapshotRef,
    ) -> Result<Vec<String>> {
        let table = self.table(name).await?;
        let found: Option<PaimonSnapshot> = match moment {
            SnapshotRef::Latest => table.latest_snapshot().await?,
            moment => Some(table.snapshot_at(moment).await?),
        };
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        let mut lines = Vec::new();
        for split in table.scan(&found).await? {
            let batches: Vec<RecordBatch> = table.read_bucket(&split, None)?.try_collect().await?;
            for batch in &batches {
                assert_eq!(
                    batch.num_columns(),
                    definition.columns.len(),
                    "columns of {name}"
                );
                lines.extend((0..batch.num_rows()).map(|row| {
                    let cells = batch.columns().iter().map(|column| Value::at(column, row));
                    definition.line(&cells.collect::<Vec<_>>())
                }));
            }
        }
        lines.sort();
        Ok(lines)
    }

    pub async fn rescale(&self, name: &str, buckets: i32) -> Result<()> {
        self.table(name).await?.rescale(buckets, None).await?;
        Ok(())
    }

    /// False when there was nothing to compact.
    pub async fn compact(&self, name: &str, full: bool, identifier: i64) -> Result<bool> {
        let scope = match full {
            true => CompactScope::Full,
            false => CompactScope::Due,
        };
        let table = self.table(name).await?;
        let mut compactor = Compactor::new(table, CompactSettings::default())?;
        let messages = compactor.run(scope, |_| true).await?;
        if messages.is_empty() {
            return Ok(false);
        }
        self.commit(name, "compactor", identifier, messages).await?;
        Ok(true)
    }

    pub async fn alter(&self, name: &str, change: &Alter) -> Result<()> {
        let table = self.table(name).await?;
        let path: &[&str] = &[match change {
            Alter::Add(column, _) | Alter::Drop(column) => column,
            Alter::Rename(column, _) | Alter::Widen(column, _) => column,
        }];
        let change = match change {
            Alter::Add(_, kind) => SchemaChange::AddColumn {
                path,
                data_type: data_type(kind)?,
                description: None,
                place: None,
            },
            Alter::Drop(_) => SchemaChange::DropColumn { path },
            Alter::Rename(_, name) => SchemaChange::RenameColumn { path, name },
            Alter::Widen(_, kind) => SchemaChange::UpdateColumnType {
                path,
                data_type: data_type(kind)?,
            },
        };
        table.alter(&[change]).await?;
        Ok(())
    }

    /// Leaves the newest snapshots.
    pub async fn expire(&self, name: &str, retain: i64) -> Result<()> {
        let table = self.table(name).await?;
        let retention = Retention::of(table.schema())?.keep(retain);
        table.expire_snapshots(&retention).await?;
        Ok(())
    }

    /// Tags the newest snapshot.
    pub async fn tag(&self, name: &str, tag: &str) -> Result<()> {
        let table = self.table(name).await?;
        table.create_tag(tag, &TagRequest::default()).await?;
        Ok(())
    }

    pub async fn rollback_to_tag(&self, name: &str, tag: &str) -> Result<()> {
        self.table(name).await?.rollback_to_tag(tag).await
    }

    pub async fn delete_tag(&self, name: &str, tag: &str) -> Result<()> {
        self.table(name).await?.delete_tag(tag).await?;
        Ok(())
    }

    /// Deletes what nothing refers to, however young it is: nobody else may be writing. The names.
    pub async fn orphans(&self, name: &str, delete: bool) -> Result<Vec<String>> {
        let now = std::time::SystemTime::now();
        let now = now
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis();
        let request = OrphanRequest {
            older_than_ms: Some(now as i64),
            force: true,
            delete,
        };
        let found = self.table(name).await?.clean_orphans(&request).await?;
        Ok(found.files.into_iter().map(|file| file.path).collect())
    }

    pub async fn newest_snapshot(&self, name: &str) -> Result<Option<i64>> {
        let snapshot = self.table(name).await?.latest_snapshot().await?;
        Ok(snapshot.map(|snapshot| snapshot.id))
    }
}

/// Rows as a batch, by the types that the table says.
pub fn batch(table: &Table, definition: &Definition, changes: &[Change]) -> Result<RecordBatch> {
    let columns = definition.columns.iter().enumerate().map(|(at, column)| {
        let (_, field) = table
            .schema()
            .field(&column.name)
            .unwrap_or_else(|| panic!("no column {}", column.name));
        let values: Vec<Value> = changes.iter().map(|(_, row)| row[at].clone()).collect();
        let kind = field.data_type.arrow();
        let nullable = field.nullable;
        let of = arrow_schema::Field::new(&column.name, kind.clone(), nullable);
        (of, array(&values, &kind))
    });
    let (fields, columns): (Vec<_>, Vec<_>) = columns.unzip();
    Ok(RecordBatch::try_new(
        Arc::new(arrow_schema::Schema::new(fields)),
        columns,
    )?)
}
