//! This crate as an engine: all that the randomised tests ask of it goes through here.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, ColumnPlace, CommitMessage, CommitOutcome, CommitRequest, DataField, DataType, Error,
    PaimonSnapshot, Result, Schema, Table, TableCommitter, WriteBuffer, WriteSettings,
};

use super::{
    model::{Alter, Change, Column, Definition},
    value::{Value, array},
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

fn field(id: i32, column: &Column) -> Result<DataField> {
    let text = column.kind.to_string();
    let data_type: DataType = text.parse().map_err(Error::Unsupported)?;
    Ok(DataField {
        id,
        name: column.name.clone(),
        data_type,
        nullable: column.nullable,
        description: None,
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

    /// Canonical lines of the newest snapshot or of that one, sorted.
    pub async fn read(
        &self,
        name: &str,
        definition: &Definition,
        snapshot: Option<i64>,
    ) -> Result<Vec<String>> {
        let table = self.table(name).await?;
        let found: Option<PaimonSnapshot> = match snapshot {
            None => table.latest_snapshot().await?,
            Some(id) => table.snapshot(id).await?,
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

    pub async fn compact(&self, name: &str, _full: bool) -> Result<()> {
        self.table(name).await?;
        Err(Error::Unsupported("compaction".into()))
    }

    pub async fn alter(&self, name: &str, change: &Alter) -> Result<()> {
        let table = self.table(name).await?;
        let Alter::Add(column, kind) = change else {
            let verb = change.words().swap_remove(0);
            return Err(Error::Unsupported(format!("a schema change: {verb}")));
        };
        let column = Column {
            name: column.clone(),
            kind: kind.clone(),
            nullable: true,
        };
        table
            .add_columns(&[(field(0, &column)?, ColumnPlace::Last)])
            .await?;
        Ok(())
    }

    pub async fn expire(&self, name: &str, _retain: usize) -> Result<()> {
        self.table(name).await?;
        Err(Error::Unsupported("snapshot expiry".into()))
    }

    pub async fn tag(&self, name: &str, _tag: &str) -> Result<()> {
        self.table(name).await?;
        Err(Error::Unsupported("tags".into()))
    }

    pub async fn newest_snapshot(&self, name: &str) -> Result<Option<i64>> {
        let snapshot = self.table(name).await?.latest_snapshot().await?;
        Ok(snapshot.map(|snapshot| snapshot.id))
    }
}

/// Rows as a batch, by the types that the table says.
fn batch(table: &Table, definition: &Definition, changes: &[Change]) -> Result<RecordBatch> {
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
