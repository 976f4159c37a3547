//! What schema changes in the log do to a running job: the sink tables follow, and tables whose rows
//! are not known any more are read anew beside the tail.
//!
//! A table that is read anew keeps its rows meanwhile. The rows read get sequence numbers above all that
//! were written before the statement and below all that come after it; when all are in a checkpoint, the
//! rows that are left below are deleted (`sink/sweep`). Rows of the snapshot that are in no checkpoint
//! when the columns of their table change are read again: nobody knows whether they were read before
//! the change or behind it.

use headwater_connectors::{
    Split, TableName,
    change::{ColumnStep, RowsAfter, SchemaChange, TableDropped},
};

use headwater_paimon::WriteSettings;

use super::{
    pipeline::{Pipeline, lock},
    snapshot::Work,
};
use crate::{
    checkpoint::{Record, SplitState, TableState},
    config::SchemaBehavior,
    error::{JobError, Result},
    sink::{SWEEP_ROOM, Sweep},
};

impl Pipeline {
    /// Follows a schema change.
    pub(super) async fn follow(&mut self, change: SchemaChange) -> Result<()> {
        let name = change.table.name.clone();
        // The lake first, then the schema that chunks are read with.
        let came_back = std::mem::take(&mut self.state(&name)?.dropped);
        let was_asked = std::mem::take(&mut self.state(&name)?.waiting);
        let evolved = match was_asked && change.steps.is_empty() {
            // No statement, and nothing to follow.
            true => self.sink.unchanged(&name)?,
            false => self.sink.apply(&change, came_back).await?,
        };
        tracing::info!(
            table = %name,
            statement = change.statement,
            position = %change.position,
            columns = ?change.steps,
            rows = ?change.rows,
            "the schema changed"
        );
        if let Some(captured) = lock(&self.captured).get_mut(&name) {
            captured.schema = change.table.clone();
            captured.table = evolved.table;
        }
        let keeps_old = came_back && !self.sink.policy().drops();
        let rows = match (change.rows, evolved.reread) {
            (RowsAfter::Kept, Some(reason)) => RowsAfter::Unknown(reason),
            (RowsAfter::Kept, None) if came_back => RowsAfter::Gone,
            (rows, _) => rows,
        };
        match rows {
            RowsAfter::Kept if change.steps.iter().all(leaves_chunks) => {}
            RowsAfter::Kept => self.read_again(&name)?,
            RowsAfter::Gone if keeps_old || !self.sink.policy().truncates() => {
                if !came_back {
                    tracing::warn!(
                        table = %name,
                        "its rows stay in the lake: schema.change.behavior or the lists of schema \
                         changes say that TRUNCATE is not followed"
                    );
                }
            }
            RowsAfter::Gone => {
                // What no checkpoint has taken is older than the statement.
                self.sink.forget(&name).discard().await;
                self.take_up(&name, Vec::new(), true)?;
            }
            RowsAfter::Unknown(reason) => {
                let splits = self.splits(&change.table).await;
                tracing::info!(
                    table = %name,
                    reason,
                    splits = splits.len(),
                    "the table is read anew: a statement changed its rows without row events"
                );
                self.take_up(&name, splits, !keeps_old)?;
            }
        }
        Ok(())
    }

    /// Follows the end of a table.
    pub(super) fn dropped(&mut self, gone: &TableDropped) -> Result<()> {
        if self.sink.policy().behavior == SchemaBehavior::Exception {
            return Err(JobError::Definite(format!(
                "table {}: it is gone at the source ({}, at {}), and schema.change.behavior is \
                 exception",
                gone.table, gone.statement, gone.position
            )));
        }
        tracing::warn!(
            table = %gone.table,
            statement = gone.statement,
            position = %gone.position,
            "the table is gone at the source: its sink table stays as it is"
        );
        let state = self.state(&gone.table)?;
        state.dropped = true;
        state.splits.clear();
        state.sweep_below = None;
        state.waiting = false;
        self.next_generation(&gone.table);
        Ok(())
    }

    /// Sweeps that the checkpoint of `record` makes: of tables all of whose rows are in the checkpoint
    /// before it, or of which there are none to read.
    pub(super) fn due_sweeps(&self, record: &Record) -> Vec<(TableName, Sweep)> {
        let is_due = |table: &&TableState| {
            let standing = self.record.tables.iter();
            let mut standing = standing.filter(|it| it.source == table.source);
            table.splits.is_empty()
                || standing.any(|standing| {
                    standing.snapshot_sequence == table.snapshot_sequence && standing.all_read()
                })
        };
        let tables = record.tables.iter().filter(is_due);
        let sweeps = tables.filter_map(|table| {
            let sweep = Sweep {
                table: self.sink.table(&table.source)?.clone(),
                buckets: self.buckets.get(&table.source).cloned(),
                below: table.sweep_below?,
                settings: WriteSettings {
                    max_buffered_bytes: self.sink.settings().max_buffered_bytes / 4,
                    ..self.sink.settings()
                },
            };
            Some((table.source.clone(), sweep))
        });
        sweeps.collect()
    }

    /// Puts what is left to read of a table into the queue.
    pub(super) fn enqueue(&self, name: &TableName) {
        let generation = self.generation(name).unwrap_or(0);
        let tables = self.tables.iter().filter(|table| table.source == *name);
        for table in tables {
            let left = table.splits.iter().filter(|split| !split.done);
            lock(&self.queue).extend(left.map(|split| Work {
                state: split.clone(),
                sequence: table.snapshot_sequence,
                generation,
            }));
        }
    }

    /// Generation of a captured table.
    pub(super) fn generation(&self, name: &TableName) -> Option<u64> {
        lock(&self.captured).get(name).map(|it| it.generation)
    }

    fn next_generation(&self, name: &TableName) {
        if let Some(captured) = lock(&self.captured).get_mut(name) {
            captured.generation += 1;
        }
    }

    fn state(&mut self, name: &TableName) -> Result<&mut TableState> {
        let mut tables = self.tables.iter_mut();
        tables
            .find(|table| table.source == *name)
            .ok_or_else(|| JobError::Internal(format!("a change of {name}, which is not captured")))
    }

    /// What was read of a table and is in no checkpoint is read again.
    fn read_again(&mut self, name: &TableName) -> Result<()> {
        if !self.state(name)?.all_read() {
            self.next_generation(name);
            self.enqueue(name);
        }
        Ok(())
    }

    /// Begins to read a table anew.
    fn take_up(&mut self, name: &TableName, splits: Vec<Split>, sweeps: bool) -> Result<()> {
        let below = self.next_sequence;
        let sequence = below.saturating_add(SWEEP_ROOM);
        self.next_sequence = sequence.saturating_add(1);
        let state = self.state(name)?;
        state.snapshot_sequence = sequence;
        state.splits = splits.into_iter().map(SplitState::new).collect();
        state.sweep_below = sweeps.then_some(below);
        self.next_generation(name);
        self.enqueue(name);
        self.show_progress();
        Ok(())
    }

    /// Cuts a table; where the server cannot say, because it is ahead of the log, into one piece.
    async fn splits(&self, schema: &headwater_connectors::TableSchema) -> Vec<Split> {
        let want = self.job.settings.concurrent_chunks;
        match self.job.source.splits(schema, want).await {
            Ok(splits) => splits,
            Err(error) => {
                tracing::debug!(table = %schema.name, %error, "cannot be cut: it is read in one piece");
                vec![Split {
                    table: schema.name.clone(),
                    id: 0,
                    after: None,
                    upto: None,
                }]
            }
        }
    }
}

/// Whether rows read under the columns before a step are right behind it as well, and the reverse.
fn leaves_chunks(step: &ColumnStep) -> bool {
    matches!(
        step,
        ColumnStep::Add(..) | ColumnStep::Move(..) | ColumnStep::Comment(_)
    )
}
