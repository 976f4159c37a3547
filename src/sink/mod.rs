//! The lake's side of the job: which sink table a source table has, buffers of tail rows, and the
//! commit of a checkpoint.
//!
//! Rows arrive as change batches and leave as data files that nobody sees ([`Sink::flush`]), written
//! in the background while the next rows come; a [`Committer`] makes the files of one checkpoint visible, table by table. When that happens is
//! decided by the job.

mod commit;
mod evolve;
mod flush;
mod open;
mod policy;
mod prepared;
mod shape;
mod sweep;
pub mod types;

use std::{collections::HashMap, sync::Arc};

pub use commit::{CommitContext, Committer, PreparedCheck, SNAPSHOT_PHASE, TablesCommitted};
pub use evolve::Evolved;
pub use flush::Flushing;
use flush::{Flush, InFlight};
use headwater_connectors::{ChangeBatch, RowKinds, TableName, TableSchema, change::SchemaChange};
use headwater_paimon::{
    DynamicBucketAssigner, IndexMemory, SharedBuckets, Table, WriteBuffer, WriteSettings,
};
pub use open::{OpenTable, SinkOptions, filled_error, open_existing, open_new, open_or_make};
pub use policy::SchemaPolicy;
pub use shape::{Shape, position as column_position};
pub use sweep::{ROOM as SWEEP_ROOM, Sweep};

use crate::error::{JobError, Result};

/// The buckets of captured tables whose buckets are dynamic: rows of the snapshot and of the tail go
/// by one index of keys.
pub type Buckets = Arc<HashMap<TableName, SharedBuckets>>;

/// The buckets of those tables, by source table, that have dynamic ones; `budget_bytes` of memory
/// for the indexes of all.
pub fn buckets<'a>(
    tables: impl IntoIterator<Item = (&'a TableName, &'a Table)>,
    budget_bytes: usize,
) -> Result<Buckets> {
    let memory = IndexMemory::new(budget_bytes);
    let mut buckets = HashMap::new();
    for (name, table) in tables {
        if table.schema().has_dynamic_buckets() {
            let assigner = DynamicBucketAssigner::within(table, memory.clone())?;
            buckets.insert(name.clone(), SharedBuckets::new(assigner));
        }
    }
    Ok(Arc::new(buckets))
}

/// Buffers of tail rows for every captured table, under one memory bound.
#[derive(Debug)]
pub struct Sink {
    tables: HashMap<TableName, Target>,
    settings: WriteSettings,
    policy: SchemaPolicy,
    buckets: Buckets,
    /// Bytes of rows that may be in memory, those being written included.
    budget_bytes: usize,
    /// Bytes in the buffers.
    buffered_bytes: usize,
    /// Flushes that no checkpoint has taken yet, in the order in which they began.
    flushes: Vec<Flush>,
    in_flight: InFlight,
}

/// A captured table's place in the lake.
#[derive(Debug)]
struct Target {
    table: Table,
    /// Made at the first row: most of ten thousand tables are quiet.
    buffer: Option<WriteBuffer>,
    /// How rows of the source's version that came last become rows of the table.
    shape: Option<(Arc<TableSchema>, Shape)>,
}

impl Sink {
    /// A sink for these tables that holds at most `budget_bytes` of rows: half of it in buffers,
    /// half on its way into files.
    pub fn new(
        tables: impl IntoIterator<Item = (TableName, Table)>,
        settings: WriteSettings,
        policy: SchemaPolicy,
        buckets: Buckets,
        budget_bytes: usize,
    ) -> Self {
        let target = |table| Target {
            table,
            buffer: None,
            shape: None,
        };
        Self {
            tables: tables
                .into_iter()
                .map(|(name, table)| (name, target(table)))
                .collect(),
            settings,
            policy,
            buckets,
            budget_bytes,
            buffered_bytes: 0,
            flushes: Vec::new(),
            in_flight: InFlight::default(),
        }
    }

    /// Takes rows; row i has sequence number `first_sequence + i`. Begins to write the largest
    /// buffers out when all together are over their half of the bound, and waits while the whole
    /// is over it. Where a flush fails, the next checkpoint says so.
    pub async fn write(&mut self, batch: &ChangeBatch, first_sequence: i64) -> Result<()> {
        let (settings, may_differ) = (self.settings, self.policy.may_differ());
        let buckets = self.buckets.get(&batch.table.name).cloned();
        let target = self.target(&batch.table.name)?;
        let buffer = match &mut target.buffer {
            Some(buffer) => buffer,
            None => target.buffer.insert(match buckets {
                Some(buckets) => {
                    WriteBuffer::with_buckets(target.table.clone(), settings, buckets)?
                }
                None => WriteBuffer::new(target.table.clone(), settings)?,
            }),
        };
        let kinds = match &batch.kinds {
            RowKinds::Inserts => None,
            RowKinds::Each(kinds) => Some(kinds.as_slice()),
        };
        let shape = match &target.shape {
            Some((of, shape)) if Arc::ptr_eq(of, &batch.table) => shape,
            _ => {
                let shape = Shape::new(&batch.table, target.table.schema(), may_differ);
                &target.shape.insert((batch.table.clone(), shape)).1
            }
        };
        let rows = shape.fit(&batch.rows)?;
        let before = buffer.buffered_bytes();
        let written = buffer.write(&rows, kinds, first_sequence);
        let taken = buffer.buffered_bytes().saturating_sub(before);
        self.buffered_bytes += taken;
        written?;
        while self.buffered_bytes > self.budget_bytes / 2 && self.flush_largest() {}
        let room = self.budget_bytes.saturating_sub(self.buffered_bytes);
        self.in_flight.wait_until_at_most(room).await;
        Ok(())
    }

    /// Follows a schema change: what is buffered goes out under the old schema, and the sink table
    /// becomes what the job file wants it to. A change that was followed before is found. `is_another`:
    /// the source's table was dropped and made anew.
    pub async fn apply(&mut self, change: &SchemaChange, is_another: bool) -> Result<Evolved> {
        self.begin_flush(&change.table.name);
        let target = self.tables.get(&change.table.name).ok_or_else(|| {
            JobError::Definite(format!(
                "table {}: it is there again at the source ({}, at {}), and its sink table was \
                 removed meanwhile: not supported yet. Leave the table out (tables.exclude), or remove \
                 the job's state and its sink tables to start again",
                change.table.name, change.statement, change.position
            ))
        })?;
        let evolved = evolve::evolve(&target.table, change, &self.policy, is_another).await?;
        let target = self.target(&change.table.name)?;
        target.table = evolved.table.clone();
        target.shape = None;
        Ok(evolved)
    }

    /// The table of a source table of which nothing has changed but that its rows are not known; what is
    /// buffered goes out.
    pub fn unchanged(&mut self, name: &TableName) -> Result<Evolved> {
        self.begin_flush(name);
        Ok(Evolved {
            table: self.target(name)?.table.clone(),
            reread: None,
        })
    }

    /// How buffers are written.
    pub fn settings(&self) -> WriteSettings {
        self.settings
    }

    /// What schema changes do.
    pub fn policy(&self) -> &SchemaPolicy {
        &self.policy
    }

    /// Forgets the rows of a table that no checkpoint has taken; gives the flushes that hold some.
    pub fn forget(&mut self, name: &TableName) -> Flushing {
        self.take_buffer(name);
        let flushes = std::mem::take(&mut self.flushes);
        let (gone, kept) = flushes.into_iter().partition(|flush| flush.is_of(name));
        self.flushes = kept;
        Flushing::new(gone)
    }

    /// Begins to write everything buffered; gives all flushes since the last call, for a
    /// checkpoint to wait for.
    pub fn flush(&mut self) -> Flushing {
        let dirty: Vec<TableName> = self
            .tables
            .iter()
            .filter(|(_, target)| target.buffered_bytes() > 0)
            .map(|(name, _)| name.clone())
            .collect();
        for table in dirty {
            self.begin_flush(&table);
        }
        Flushing::new(std::mem::take(&mut self.flushes))
    }

    /// Forgets what is buffered; gives the flushes that no checkpoint has taken.
    pub fn abandon(&mut self) -> Flushing {
        for target in self.tables.values_mut() {
            target.buffer = None;
        }
        self.buffered_bytes = 0;
        Flushing::new(std::mem::take(&mut self.flushes))
    }

    /// The sink table of a source table, at its newest schema.
    pub fn table(&self, name: &TableName) -> Option<&Table> {
        self.tables.get(name).map(|target| &target.table)
    }

    /// `false`: nothing is buffered.
    fn flush_largest(&mut self) -> bool {
        let largest = self
            .tables
            .iter()
            .max_by_key(|(_, target)| target.buffered_bytes())
            .filter(|(_, target)| target.buffered_bytes() > 0);
        match largest.map(|(name, _)| name.clone()) {
            Some(name) => {
                self.begin_flush(&name);
                true
            }
            None => false,
        }
    }

    /// Begins to write what is buffered for a table, if anything.
    fn begin_flush(&mut self, name: &TableName) {
        if let Some((table, buffer)) = self.take_buffer(name) {
            let flush = Flush::begin(name.clone(), table, buffer, &self.in_flight);
            self.flushes.push(flush);
        }
    }

    /// What is buffered for a table, if anything, with the table it is for.
    fn take_buffer(&mut self, name: &TableName) -> Option<(Table, WriteBuffer)> {
        let target = self.tables.get_mut(name)?;
        let buffer = target.buffer.take()?;
        let bytes = buffer.buffered_bytes();
        self.buffered_bytes = self.buffered_bytes.saturating_sub(bytes);
        Some((target.table.clone(), buffer))
    }

    fn target(&mut self, name: &TableName) -> Result<&mut Target> {
        self.tables
            .get_mut(name)
            .ok_or_else(|| JobError::Internal(format!("rows of {name}, which is not captured")))
    }
}

impl Target {
    fn buffered_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, WriteBuffer::buffered_bytes)
    }
}
