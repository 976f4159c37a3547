//! Removing the rows that a table had before its source lost them without a trace in the log.
//!
//! A table that is read anew keeps its rows; those that are read, and those that the log brings, have
//! higher sequence numbers. What is left below when all is read is no row of the source any more and
//! is deleted, by deletes whose numbers stand between: newer than every old row, older than every other.

use futures::TryStreamExt;
use headwater_paimon::{CommitMessage, SharedBuckets, Table, WriteBuffer, WriteSettings};

use crate::error::Result;

/// Sequence numbers that are left for deletes: more than a table has rows.
pub const ROOM: i64 = 1 << 40;
/// `_VALUE_KIND` of a delete.
const DELETE: i8 = 3;

/// The rows of one table that are to go.
#[derive(Debug)]
pub struct Sweep {
    /// The sink table at the schema of the checkpoint.
    pub table: Table,
    /// Of a table with dynamic buckets.
    pub buckets: Option<SharedBuckets>,
    /// Rows of lower sequence numbers go; the deletes have numbers from here on.
    pub below: i64,
    /// Memory for the deletes.
    pub settings: WriteSettings,
}

impl Sweep {
    /// Writes the deletes of all such rows that are committed; gives the files, which nobody sees yet,
    /// and the number of rows.
    ///
    /// # Errors
    /// When the table cannot be read or written; then no file is left.
    pub async fn write(self) -> Result<(Vec<CommitMessage>, u64)> {
        let mut messages = Vec::new();
        match self.write_into(&mut messages).await {
            Ok(rows) => Ok((messages, rows)),
            Err(error) => {
                self.table.discard(&messages).await;
                Err(error)
            }
        }
    }

    async fn write_into(&self, messages: &mut Vec<CommitMessage>) -> Result<u64> {
        let reading = self.table.merging_level_0();
        let mut old = reading.read().older_than(self.below).all(1).await?;
        let mut buffer = match &self.buckets {
            Some(buckets) => {
                WriteBuffer::with_buckets(self.table.clone(), self.settings, buckets.clone())?
            }
            None => WriteBuffer::new(self.table.clone(), self.settings)?,
        };
        let mut rows = 0;
        while let Some(batch) = old.try_next().await? {
            let kinds = vec![DELETE; batch.num_rows()];
            buffer.write(&batch, Some(&kinds), self.below.saturating_add(rows))?;
            rows += i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
            if buffer.buffered_bytes() >= self.settings.max_buffered_bytes {
                messages.extend(buffer.flush().await?);
            }
        }
        messages.extend(buffer.flush().await?);
        Ok(u64::try_from(rows).unwrap_or(0))
    }
}
