//! The lake's side of the job: which sink table a source table has, buffers of tail rows, and the
//! commit of a checkpoint.
//!
//! Rows arrive as change batches and leave as data files that nobody sees ([`Sink::flush`]); a
//! [`Committer`] makes the files of one checkpoint visible, table by table. When that happens is
//! decided by the job.

mod commit;
mod open;
pub mod types;

use std::collections::HashMap;

pub use commit::{CommitContext, Committer, PreparedCheck, TablesCommitted};
use futures::{StreamExt, TryStreamExt, stream};
use headwater_connectors::{ChangeBatch, RowKinds, TableName, change::SchemaChange};
use headwater_paimon::{ColumnPlace, CommitMessage, DataField, Table, WriteBuffer, WriteSettings};
pub use open::{OpenTable, SinkOptions, filled_error, open_existing, open_new};

use crate::error::{JobError, Result};

/// Tables flushed at the same time.
const FLUSH_CONCURRENCY: usize = 2;

/// Buffers of tail rows for every captured table, under one memory bound.
#[derive(Debug)]
pub struct Sink {
    tables: HashMap<TableName, Target>,
    settings: WriteSettings,
    /// Bytes that all buffers together may hold.
    budget_bytes: usize,
    buffered_bytes: usize,
}

/// A captured table's place in the lake.
#[derive(Debug)]
struct Target {
    table: Table,
    /// Made at the first row: most of ten thousand tables are quiet.
    buffer: Option<WriteBuffer>,
    /// Files written and not yet handed to a checkpoint.
    flushed: Vec<CommitMessage>,
}

impl Sink {
    /// A sink for these tables whose buffers hold at most `budget_bytes` together.
    pub fn new(
        tables: impl IntoIterator<Item = (TableName, Table)>,
        settings: WriteSettings,
        budget_bytes: usize,
    ) -> Self {
        let target = |table| Target {
            table,
            buffer: None,
            flushed: Vec::new(),
        };
        Self {
            tables: tables
                .into_iter()
                .map(|(name, table)| (name, target(table)))
                .collect(),
            settings,
            budget_bytes,
            buffered_bytes: 0,
        }
    }

    /// Takes rows; row i has sequence number `first_sequence + i`. Writes the largest buffers out
    /// when all together are over the bound.
    pub async fn write(&mut self, batch: &ChangeBatch, first_sequence: i64) -> Result<()> {
        let target = self.target(&batch.table.name)?;
        let buffer = target.buffer.take();
        let mut buffer = match buffer {
            Some(buffer) => buffer,
            None => WriteBuffer::new(target.table.clone(), self.settings.clone())?,
        };
        let kinds = match &batch.kinds {
            RowKinds::Inserts => None,
            RowKinds::Each(kinds) => Some(kinds.as_slice()),
        };
        let before = buffer.buffered_bytes();
        let written = buffer.write(&batch.rows, kinds, first_sequence);
        let after = buffer.buffered_bytes();
        self.target(&batch.table.name)?.buffer = Some(buffer);
        self.buffered_bytes = (self.buffered_bytes + after).saturating_sub(before);
        written?;
        while self.buffered_bytes > self.budget_bytes {
            self.flush_largest().await?;
        }
        Ok(())
    }

    /// Follows a schema change: what is buffered goes out under the old schema, then the sink
    /// table gets the columns it does not have yet. A change that the sink already has is the same
    /// as done.
    pub async fn apply(&mut self, change: &SchemaChange) -> Result<Table> {
        let target = self.target(&change.table.name)?;
        target.flush().await?;
        let added: Vec<(DataField, ColumnPlace<'_>)> = change
            .added
            .iter()
            .map(|(column, before)| (types::lake_field(column), behind(before.as_deref())))
            .collect();
        target.table = target.table.add_columns(&added).await?;
        target.buffer = None;
        let table = target.table.clone();
        self.buffered_bytes = self.tables.values().map(Target::buffered_bytes).sum();
        Ok(table)
    }

    /// Writes everything buffered and gives the files of every table that has some, by source
    /// table. They are durable and invisible.
    pub async fn flush(&mut self) -> Result<Vec<(TableName, Vec<CommitMessage>)>> {
        let dirty = self
            .tables
            .values_mut()
            .filter(|target| target.buffered_bytes() > 0);
        stream::iter(dirty)
            .map(Target::flush)
            .buffer_unordered(FLUSH_CONCURRENCY)
            .try_collect::<()>()
            .await?;
        self.buffered_bytes = 0;
        Ok(self.take_flushed())
    }

    /// Files that were written and not given to a checkpoint yet, by source table.
    pub fn take_flushed(&mut self) -> Vec<(TableName, Vec<CommitMessage>)> {
        self.tables
            .iter_mut()
            .filter(|(_, target)| !target.flushed.is_empty())
            .map(|(name, target)| (name.clone(), std::mem::take(&mut target.flushed)))
            .collect()
    }

    /// The sink table of a source table, at its newest schema.
    pub fn table(&self, name: &TableName) -> Option<&Table> {
        self.tables.get(name).map(|target| &target.table)
    }

    async fn flush_largest(&mut self) -> Result<()> {
        let largest = self
            .tables
            .values_mut()
            .max_by_key(|target| target.buffered_bytes())
            .filter(|target| target.buffered_bytes() > 0);
        let Some(target) = largest else {
            self.buffered_bytes = 0;
            return Ok(());
        };
        let bytes = target.buffered_bytes();
        target.flush().await?;
        self.buffered_bytes = self.buffered_bytes.saturating_sub(bytes);
        Ok(())
    }

    fn target(&mut self, name: &TableName) -> Result<&mut Target> {
        self.tables
            .get_mut(name)
            .ok_or_else(|| JobError::Internal(format!("rows of {name}, which is not captured")))
    }
}

/// The place behind a column; first when there is none.
fn behind(before: Option<&str>) -> ColumnPlace<'_> {
    before.map_or(ColumnPlace::First, ColumnPlace::After)
}

impl Target {
    fn buffered_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, WriteBuffer::buffered_bytes)
    }

    async fn flush(&mut self) -> Result<()> {
        if let Some(buffer) = &mut self.buffer {
            self.flushed.extend(buffer.flush().await?);
        }
        Ok(())
    }
}
