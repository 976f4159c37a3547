//! The kernels: each does the same work in every round, and what it needs is made before.

use std::sync::Arc;

use futures::TryStreamExt;
use headwater_connectors::{
    RowKinds,
    mysql::{recorded::Recording, table::MysqlTable},
};
use headwater_paimon::{
    BulkWriter, CommitMessage, CommitRequest, Table, TableCommitter, WriteBuffer, WriteSettings,
    compact::{CompactScope, CompactSettings, Compactor},
};

use crate::{
    Clock, Result, lake_table,
    rows::{self, Keys},
};

/// Sorted runs of a table that is read and compacted.
const RUNS: u64 = 5;
/// Rows of a small commit: 2,000 changes a second over 50 tables, committed every second.
const COMMIT_ROWS: u64 = 40;

/// One bucket at a time, so that one core is measured.
fn settings() -> WriteSettings {
    WriteSettings {
        parallelism: 1,
        ..WriteSettings::default()
    }
}

/// Rows events to columns.
pub fn decode(recording: &Recording, table: &Arc<MysqlTable>, rounds: usize) -> Result<String> {
    let (mut clock, mut rows) = (Clock::new(), 0);
    let mut decoder = recording.decoder(table)?;
    for _ in 0..rounds {
        clock.start();
        rows = 0;
        for batch in recording.batches(&mut decoder) {
            rows += batch?.rows.num_rows();
        }
        clock.stop();
    }
    let bytes = recording.bytes();
    Ok(format!("{}, \"bytes\": {bytes}", clock.told(rows)))
}

/// Rows events to Parquet files in memory.
pub async fn encode(
    recording: &Recording,
    source: &Arc<MysqlTable>,
    rounds: usize,
) -> Result<String> {
    let (mut clock, mut rows) = (Clock::new(), 0);
    for _ in 0..rounds {
        let table = lake_table(source).await?;
        let mut decoder = recording.decoder(source)?;
        clock.start();
        let mut buffer = WriteBuffer::new(table, settings())?;
        let mut messages = Vec::new();
        rows = 0;
        for batch in recording.batches(&mut decoder) {
            let batch = batch?;
            let kinds = match &batch.kinds {
                RowKinds::Inserts => None,
                RowKinds::Each(kinds) => Some(kinds.as_slice()),
            };
            buffer.write(&batch.rows, kinds, rows as i64)?;
            rows += batch.rows.num_rows();
            if buffer.buffered_bytes() > settings().max_buffered_bytes {
                messages.extend(buffer.flush().await?);
            }
        }
        messages.extend(buffer.flush().await?);
        clock.stop();
        expect_rows(&messages, rows)?;
    }
    Ok(clock.told(rows))
}

/// What rows go through.
#[derive(Debug, Clone, Copy)]
pub enum Lane {
    /// The buffer of changes, and whether the keys come in order.
    Buffer { ascending: bool },
    /// The bulk lane, in the order of the key.
    Bulk,
}

/// Columns to Parquet files in memory.
pub async fn write(lane: Lane, rounds: usize, count: usize) -> Result<String> {
    let keys = match lane {
        Lane::Buffer { ascending: false } => Keys::Shuffled(count.next_power_of_two() as u64),
        _ => Keys::Ascending,
    };
    let batches = rows::batches(count, keys)?;
    let source = rows::table()?;
    let mut clock = Clock::new();
    for _ in 0..rounds {
        let table = lake_table(&source).await?;
        clock.start();
        let messages = match lane {
            Lane::Bulk => {
                let mut writer = BulkWriter::new(table, settings(), 0)?;
                for batch in &batches {
                    writer.write(batch).await?;
                }
                writer.finish().await?
            }
            Lane::Buffer { .. } => {
                let mut buffer = WriteBuffer::new(table, settings())?;
                let (mut messages, mut sequence) = (Vec::new(), 0);
                for batch in &batches {
                    buffer.write(batch, None, sequence)?;
                    sequence += batch.num_rows() as i64;
                    if buffer.buffered_bytes() > settings().max_buffered_bytes {
                        messages.extend(buffer.flush().await?);
                    }
                }
                messages.extend(buffer.flush().await?);
                messages
            }
        };
        clock.stop();
        expect_rows(&messages, count)?;
    }
    Ok(clock.told(count))
}

/// Nothing is fast because it lost rows.
fn expect_rows(messages: &[CommitMessage], expected: usize) -> Result<()> {
    let files = messages.iter().flat_map(|message| &message.new_files);
    let found: i64 = files.map(|file| file.row_count).sum();
    match found == expected as i64 {
        true => Ok(()),
        false => Err(format!("{found} rows were written instead of {expected}").into()),
    }
}

/// A table in memory of as many sorted runs as are read and compacted, a third of whose rows are of
/// keys that came before.
async fn runs(count: usize) -> Result<Table> {
    let table = lake_table(&rows::table()?).await?;
    let mut committer = TableCommitter::new(table.clone());
    let mut buffer = WriteBuffer::new(table.clone(), settings())?;
    let each = count as u64 / RUNS;
    for run in 0..RUNS {
        let batch = rows::rows(run * each..(run + 1) * each, Keys::Below(count as u64))?;
        buffer.write(&batch, None, (run * each) as i64)?;
        let request = CommitRequest::new("bench", run as i64 + 1, buffer.flush().await?);
        committer.commit(&request).await?;
    }
    Ok(table)
}

/// Merges on read.
pub async fn scan(rounds: usize, count: usize) -> Result<String> {
    let table = runs(count).await?;
    let (mut clock, mut rows) = (Clock::new(), 0);
    for _ in 0..rounds {
        clock.start();
        let mut batches = table.read().all(1).await?;
        rows = 0;
        while let Some(batch) = batches.try_next().await? {
            rows += batch.num_rows();
        }
        clock.stop();
    }
    // A row in is what is counted, as where it is compacted.
    Ok(format!("{}, \"left\": {rows}", clock.told(count)))
}

/// Compacts fully. Nothing is committed, so that every round finds the same runs.
pub async fn compact(rounds: usize, count: usize) -> Result<String> {
    let table = runs(count).await?;
    let (mut clock, mut rows) = (Clock::new(), 0);
    for _ in 0..rounds {
        let mut compactor = Compactor::new(table.clone(), CompactSettings::default())?;
        clock.start();
        let messages = compactor.run(CompactScope::Full, |_| true).await?;
        clock.stop();
        let after = messages.iter().flat_map(|message| &message.compact.after);
        rows = after.map(|file| file.row_count).sum();
    }
    Ok(format!("{}, \"left\": {rows}", clock.told(count)))
}

/// Small flushes, each committed. A "row" is a commit.
pub async fn commit(rounds: usize, count: usize) -> Result<String> {
    let table = lake_table(&rows::table()?).await?;
    let mut committer = TableCommitter::new(table.clone());
    let mut buffer = WriteBuffer::new(table.clone(), settings())?;
    let batches = (0..count as u64).map(|commit| {
        rows::rows(
            commit * COMMIT_ROWS..(commit + 1) * COMMIT_ROWS,
            Keys::Below(1000),
        )
    });
    let batches: Vec<_> = batches.collect::<Result<_>>()?;
    let (mut clock, mut identifier) = (Clock::new(), 0);
    for _ in 0..rounds {
        clock.start();
        for batch in &batches {
            identifier += 1;
            buffer.write(batch, None, identifier * COMMIT_ROWS as i64)?;
            let request = CommitRequest::new("bench", identifier, buffer.flush().await?);
            committer.commit(&request).await?;
        }
        clock.stop();
    }
    Ok(clock.told(count))
}
