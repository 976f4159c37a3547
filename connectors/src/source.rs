//! The contract of a source: discovery, the tail, and chunk reads in rounds.
//!
//! The tail starts first and runs all the time; chunks are read beside it. A round takes L
//! ([`Source::round_low`]), its workers read chunks, and it takes H ([`Source::round_high`]). L
//! lags: every transaction in it is visible to the reads that follow. H leads: everything the
//! reads saw is before it. The job never places a barrier between L and H.

use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::{
    change::{TailItem, TailProgress},
    error::{Error, Result},
    position::Position,
    schema::{TableName, TableSchema},
};

/// Where a source is: saved in every checkpoint record, readable by people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceState {
    /// The transaction edge.
    pub position: Position,
    /// The connector's own facts as of the position (schema history); only the connector that
    /// wrote them reads them.
    pub connector: serde_json::Value,
}

/// Tables that the job captures, and those that match but cannot be captured.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Captured, by name.
    pub captured: Vec<Arc<TableSchema>>,
    /// Rejected, each with the reason and what to do.
    pub rejected: Vec<(TableName, String)>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// Nothing to do.
    Passed,
    /// Works, but a person should know.
    Warning,
    /// The job would not run.
    Failed,
}

/// One named check of `headwater check`.
#[derive(Debug, Clone)]
pub struct Check {
    /// Short name, the same in every run.
    pub name: String,
    /// How it ended.
    pub status: CheckStatus,
    /// What was found, in a line.
    pub found: String,
    /// What to do, unless it passed.
    pub advice: Option<String>,
}

/// Decides, at every transaction edge, whether a barrier stands there. Called on the tail's hot
/// path: must return at once when no checkpoint is asked for.
pub trait BarrierGate: Send + Sync {
    /// True when a barrier is wanted at this edge. `position` is the edge.
    fn wants(&self, position: &Position) -> bool;
}

/// A contiguous stretch of a table's key space, walked in the server's own order.
///
/// Bounds and cursor are opaque to the job: each is the source's spelling of a whole key, made and
/// compared by the source only. They can be saved and read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The table.
    pub table: TableName,
    /// Number of the split within its table, from 0.
    pub id: u32,
    /// Rows after this key; `None`: from the first.
    pub after: Option<Vec<String>>,
    /// Rows up to and including this key; `None`: open-ended.
    pub upto: Option<Vec<String>>,
}

/// How a chunk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkEnd {
    /// The last key read: the next chunk starts after it. Always after the split's `after`.
    More(Vec<String>),
    /// The split has no more rows.
    Done,
}

/// A connection that reads chunks.
#[async_trait]
pub trait ChunkReader: Send {
    /// Reads the next chunk of a split in one short consistent read: rows after `split.after`, in
    /// key order, as many as about a second allows. `out` gets batches of `schema`'s columns in
    /// the server's key order; a closed `out` is a transient error.
    ///
    /// Columns are read by name, so that a column added meanwhile does not disturb.
    async fn read(
        &mut self,
        schema: &TableSchema,
        split: &Split,
        out: &mpsc::Sender<RecordBatch>,
    ) -> Result<ChunkEnd>;
}

/// Why a table is taken up, or taken up anew, by a job that runs already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recapture {
    /// It was not captured so far.
    Added,
    /// Somebody wants its rows to be read again.
    Asked,
}

/// A source system.
#[async_trait]
pub trait Source: Send + Sync {
    /// Everything that would go wrong, each named. Never stops at the first failure.
    async fn check(&self) -> Vec<Check>;

    /// Tables that match, as they are now, and those that match but cannot be captured.
    async fn discover(&self) -> Result<Discovery>;

    /// Whether the job file names a table, be it there or not.
    fn matches(&self, table: &TableName) -> bool {
        let _ = table;
        true
    }

    /// The state in which a new job starts: position T0 (or, for `latest-offset`, the newest
    /// position) and the schemas of `tables`, read after it.
    async fn start(&self, tables: &[Arc<TableSchema>]) -> Result<SourceState>;

    /// The tables that a saved state captures, at its versions.
    fn tables(&self, state: &SourceState) -> Result<Vec<Arc<TableSchema>>>;

    /// A saved state in which other tables are captured: those of `capture` (of [`Source::discover`], or
    /// captured already) have their rows left out until the tail has read their schema anew, which it
    /// says by a schema change with [`crate::change::RowsAfter::Unknown`]; those of `release` are in it
    /// no more.
    fn recapture(
        &self,
        state: &SourceState,
        capture: &[(Arc<TableSchema>, Recapture)],
        release: &[TableName],
    ) -> Result<SourceState> {
        match (capture.first(), release.first()) {
            (None, None) => Ok(state.clone()),
            _ => Err(Error::definite(
                "this source captures the same tables always",
            )),
        }
    }

    /// Compares a saved position with what the server still has and has executed: an error when
    /// the log is purged or the server's history was lost. Every run begins with it, and stays with the
    /// server that it has found.
    async fn verify_position(&self, state: &SourceState) -> Result<()>;

    /// Streams the log from a state on, until an error or until `out` closes. Reconnecting is the
    /// caller's: it calls again with the last barrier's state.
    async fn tail(
        &self,
        from: SourceState,
        gate: Arc<dyn BarrierGate>,
        out: mpsc::Sender<TailItem>,
        progress: watch::Sender<TailProgress>,
    ) -> Result<()>;

    /// Waits until the server has committed everything that the tail has emitted up to `emitted`
    /// (rule 3), then takes L.
    async fn round_low(&self, emitted: &Position) -> Result<Position>;

    /// Takes H, after the last read of the round.
    async fn round_high(&self) -> Result<Position>;

    /// Rows that the server estimates, and their bytes.
    async fn estimate(&self, table: &TableSchema) -> Result<(u64, u64)>;

    /// Cuts a table into at most `want` splits that together cover every key.
    async fn splits(&self, table: &TableSchema, want: usize) -> Result<Vec<Split>>;

    /// Opens a connection for chunk reads.
    async fn reader(&self) -> Result<Box<dyn ChunkReader>>;

    /// Reads the rows of the given keys (each as [`Source::key_of`] spells it), for `verify`.
    async fn lookup(&self, schema: &TableSchema, keys: &[Vec<String>]) -> Result<RecordBatch>;

    /// Spells the key of one row of a batch as [`Split`] and [`Source::lookup`] take it.
    fn key_of(&self, schema: &TableSchema, rows: &RecordBatch, row: usize) -> Result<Vec<String>>;

    /// One part of a key that [`Source::key_of`] gave, for people.
    fn key_text(&self, part: &str) -> String {
        part.to_owned()
    }

    /// Tells the source that everything up to `position` is durable (nothing to do for MySQL).
    async fn confirm(&self, position: &Position) -> Result<()>;
}
