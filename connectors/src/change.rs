//! What flows out of a source: change batches, schema changes and barriers, in order.

use std::sync::Arc;

use arrow_array::RecordBatch;
use tokio::sync::mpsc::{Sender, error::SendError};

use crate::{
    position::Position,
    schema::{Column, TableName, TableSchema},
    source::SourceState,
};

/// What a row says about its key. The numbers are those of the lake's `_VALUE_KIND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum RowKind {
    /// `+I`
    Insert = 0,
    /// `-U`: the row before an update
    UpdateBefore = 1,
    /// `+U`: the row after an update
    UpdateAfter = 2,
    /// `-D`
    Delete = 3,
}

/// The kinds of a batch's rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RowKinds {
    /// Every row is an insert: snapshot rows and write-rows events.
    Inserts,
    /// One [`RowKind`] number a row.
    Each(Vec<i8>),
}

/// Rows of one table under one schema version, in log order.
///
/// An update whose key bytes differ is a delete of the old row and an insert of the new one; an
/// update that keeps its key is a single `+U` row (its before image is not carried).
#[derive(Debug, Clone)]
pub struct ChangeBatch {
    /// The table, at the version that the rows have.
    pub table: Arc<TableSchema>,
    /// Columns as [`TableSchema::arrow`] says.
    pub rows: RecordBatch,
    /// As many as there are rows.
    pub kinds: RowKinds,
}

/// Bytes of rows that are more than those of a usual batch: batches end by their bytes, but a row is
/// never cut.
const LARGE_BYTES: usize = 8 << 20;

/// Waits, before rows of so many bytes are decoded, until all batches of a queue were taken if they
/// are large: a queue counts batches, not bytes, and shall hold no more than one such.
///
/// # Errors
/// Nobody takes batches any more.
pub(crate) async fn wait_for_room<T>(out: &Sender<T>, bytes: usize) -> Result<(), SendError<()>> {
    if bytes > LARGE_BYTES {
        out.reserve_many(out.max_capacity()).await?;
    }
    Ok(())
}

/// A change of a captured table that the sink must follow. Everything of the table before it has
/// been sent. A table that the sink does not have yet is new, and begins here.
#[derive(Debug, Clone)]
pub struct SchemaChange {
    /// The table after the change; rows that follow carry this version.
    pub table: Arc<TableSchema>,
    /// What became of its columns, one after the other.
    pub steps: Vec<ColumnStep>,
    /// What became of the rows that were there.
    pub rows: RowsAfter,
    /// The statement as the source logged it, for people.
    pub statement: String,
    /// Names the statement and the table within it: the same whenever the log is read again, and no
    /// other's.
    pub id: String,
    /// Where it stands.
    pub position: Position,
}

/// One step of a change of columns. Names are those of the moment before the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnStep {
    /// A column is added behind the named one (`None`: first). Rows that are there have NULL, unless
    /// [`RowsAfter`] says otherwise.
    Add(Column, Option<String>),
    /// A column is dropped, with its values.
    Drop(String),
    /// A column has another name and the same values.
    Rename {
        /// The name so far.
        from: String,
        /// The name from now on.
        to: String,
    },
    /// The column of this name has another type, nullability or comment, and the values that it had
    /// as far as the new type can hold them.
    Alter(Column),
    /// A column stands behind the named one now (`None`: first).
    Move(String, Option<String>),
    /// The table has another comment.
    Comment(Option<String>),
}

/// What a statement did to the rows that a table had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowsAfter {
    /// They are as they were, but for what the steps say.
    Kept,
    /// They are gone: TRUNCATE.
    Gone,
    /// They may be others, and the log has no row events that would tell: why, as a clause that follows
    /// "it". They have to be read anew.
    Unknown(String),
}

/// A captured table is no more: dropped, or renamed with no other in its place. Everything of it has
/// been sent.
#[derive(Debug, Clone)]
pub struct TableDropped {
    /// The table.
    pub table: TableName,
    /// The statement as the source logged it, for people.
    pub statement: String,
    /// Where it stands.
    pub position: Position,
}

/// An item of the tail. Order is the log's order for each table; a barrier stands behind
/// everything of the transactions before it and before everything of those after it.
#[derive(Debug, Clone)]
pub enum TailItem {
    /// Rows.
    Rows(ChangeBatch),
    /// A schema change; everything of the table before it has been sent.
    Schema(SchemaChange),
    /// A table is gone.
    Dropped(TableDropped),
    /// A transaction edge that [`crate::BarrierGate::wants`] asked for; everything before it has
    /// been sent.
    Barrier(Barrier),
}

/// A transaction edge at which a checkpoint is taken.
#[derive(Debug, Clone)]
pub struct Barrier {
    /// Where to go on after a restart; its position is the edge.
    pub state: SourceState,
    /// Commit time of the last transaction before the edge, milliseconds since the epoch; `None`
    /// before the first.
    pub event_time_ms: Option<i64>,
}

/// Progress of the tail, for people and metrics; updated at transaction edges.
#[derive(Debug, Clone, Default)]
pub struct TailProgress {
    /// The last edge, as text.
    pub position: String,
    /// Commit time of the last transaction, milliseconds since the epoch.
    pub event_time_ms: Option<i64>,
    /// Changed rows of captured tables so far in this run of the tail.
    pub rows: u64,
    /// Bytes of log read so far in this run of the tail.
    pub bytes: u64,
    /// Dates that are none, met by this process in chunks and in the log: the lake has NULL, or
    /// 1970-01-01 where the column is NOT NULL.
    pub zero_dates: u64,
    /// Per captured table: rows so far in this run of the tail.
    pub table_rows: Vec<(TableName, u64)>,
}
