//! How a table's cost grows with its history.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Instant};

use futures::TryStreamExt;
use headwater_paimon::{
    BulkWriter, Catalog, CommitRequest, Retention, Table, TableCommitter, WriteBuffer,
    WriteSettings,
    compact::{CompactScope, CompactSettings, Compactor},
};
use object_store::memory::InMemory;

use crate::{
    Clock, Result, create,
    rows::{self, BATCH_ROWS, Keys},
};

const COMMIT_ROWS: u64 = 40;
/// Snapshots that an hour of checkpoints leaves: ten minutes' worth.
const KEPT: u64 = 600;
const TABLE: &str = "sbtest";

/// A table that is written, committed, compacted and expired as a job does it.
struct Kept {
    committer: TableCommitter,
    compactor: Compactor,
    buffer: WriteBuffer,
    retention: Retention,
    identifier: i64,
    sequence: i64,
    compactions: usize,
    /// Rows that compactions wrote.
    compacted_rows: i64,
}

impl Kept {
    fn new(table: &Table) -> Result<Self> {
        Ok(Self {
            committer: TableCommitter::new(table.clone()),
            compactor: Compactor::new(table.clone(), CompactSettings::default())?,
            buffer: WriteBuffer::new(table.clone(), WriteSettings::default())?,
            retention: Retention::of(table.schema())?,
            identifier: 0,
            sequence: 1,
            compactions: 0,
            compacted_rows: 0,
        })
    }

    /// Changes rows and makes a snapshot of it, then does what is due; gives the milliseconds of the
    /// commit and of the expiry.
    async fn checkpoint(&mut self, changes: u64, keys: Keys) -> Result<(f64, f64)> {
        let first = self.identifier as u64 * changes;
        let batch = rows::rows(first..first + changes, keys)?;
        self.buffer.write(&batch, None, self.sequence)?;
        self.sequence += changes as i64;
        self.identifier += 1;
        let request = CommitRequest::new("bench", self.identifier, self.buffer.flush().await?);
        let began = Instant::now();
        self.committer.commit(&request).await?;
        let took = began.elapsed().as_secs_f64() * 1000.0;
        let messages = self.compactor.run(CompactScope::Due, |_| true).await?;
        if !messages.is_empty() {
            self.compactions += 1;
            let after = messages.iter().flat_map(|message| &message.compact.after);
            self.compacted_rows += after.map(|file| file.row_count).sum::<i64>();
            let request = CommitRequest::new("compactor", self.identifier, messages);
            self.committer.commit(&request).await?;
        }
        let table = self.committer.table().clone();
        let began = Instant::now();
        table.expire_snapshots(&self.retention).await?;
        Ok((took, began.elapsed().as_secs_f64() * 1000.0))
    }
}

/// The time of a commit, as the snapshots of a table become more, none of which expires. Gives the
/// median of the commits before each of these numbers of snapshots, and of the expiries that find
/// nothing to expire.
pub async fn history(warehouse: &str, snapshots: u64) -> Result<String> {
    let catalog = match warehouse {
        "memory" => Catalog::new(Arc::new(InMemory::new()), "lake".into()),
        folder => Catalog::local(folder)?,
    };
    let all = [
        ("snapshot.num-retained.min", "1000000".to_owned()),
        ("snapshot.num-retained.max", "1000000".to_owned()),
        ("bucket", "1".to_owned()),
    ];
    let table = create(&catalog, &rows::table()?, &all).await?;
    let mut kept = Kept::new(&table)?;
    let (mut commits, mut expiries) = (Vec::new(), Vec::new());
    let mut told: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let points = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000];
    let mut points = points.into_iter().take_while(|point| *point <= snapshots);
    let mut next = points.next();
    while let Some(point) = next {
        let (commit, expiry) = kept.checkpoint(COMMIT_ROWS, Keys::Below(10_000)).await?;
        commits.push(commit);
        expiries.push(expiry);
        let latest = table.latest_snapshot().await?.map_or(0, |latest| latest.id);
        if latest as u64 >= point {
            let last = 100.min(point as usize);
            told.insert(point, (median(&commits, last), median(&expiries, last)));
            next = points.next();
        }
    }
    let points: Vec<_> = told
        .iter()
        .map(|(point, (commit, expiry))| format!("[{point}, {commit:.3}, {expiry:.3}]"))
        .collect();
    let compactions = kept.compactions;
    Ok(format!(
        "\"commit_and_expiry_ms\": [{}], \"compactions\": {compactions}",
        points.join(", ")
    ))
}

/// Of the last so many.
fn median(values: &[f64], last: usize) -> f64 {
    let from = values.len().saturating_sub(last);
    let mut last = values.get(from..).unwrap_or_default().to_vec();
    last.sort_by(f64::total_cmp);
    last.get(last.len() / 2).copied().unwrap_or(0.0)
}

/// An hour of checkpoints, one after the other: a table with so many rows, and commits of so many
/// updates each. `options` of the table: `NAME=VALUE`.
pub async fn hour(warehouse: &str, counts: (u64, u64, u64), options: &[&str]) -> Result<String> {
    let (count, commits, updates) = counts;
    let catalog = Catalog::local(warehouse)?;
    let given = options.iter().filter_map(|option| option.split_once('='));
    let given = given.map(|(name, value)| (name, value.to_owned()));
    let mut options = vec![
        ("snapshot.num-retained.max", KEPT.to_string()),
        ("bucket", "1".to_owned()),
    ];
    options.extend(given);
    let table = create(&catalog, &rows::table()?, &options).await?;
    let mut bulk = BulkWriter::new(table.clone(), WriteSettings::default(), 0)?;
    for start in (0..count).step_by(BATCH_ROWS) {
        let end = (start + BATCH_ROWS as u64).min(count);
        bulk.write(&rows::rows(start..end, Keys::Ascending)?)
            .await?;
    }
    let request = CommitRequest::new("snapshot", 1, bulk.finish().await?);
    table.commit(&request).await?;
    let mut kept = Kept::new(&table)?;
    let mut clock = Clock::new();
    let mut taken = Vec::new();
    clock.start();
    for _ in 0..commits {
        taken.push(kept.checkpoint(updates, Keys::Below(count)).await?.0);
    }
    clock.stop();
    let (live, bytes) = live(&table).await?;
    let told = clock.told((commits * updates) as usize);
    let (first, last) = (
        median(taken.get(..100).unwrap_or(&taken), 100),
        median(&taken, 100),
    );
    let (compactions, files) = (kept.compactions, files_below(warehouse.as_ref())?);
    let compacted = kept.compacted_rows as f64 / (commits * updates) as f64;
    Ok(format!(
        "{told}, \"live_files\": {live}, \"live_bytes\": {bytes}, \"files\": {files}, \
         \"compactions\": {compactions}, \"compacted_rows\": {compacted:.2}, \"first_ms\": {first:.3}, \"last_ms\": {last:.3}"
    ))
}

/// Data files of the newest snapshot, and their bytes.
async fn live(table: &Table) -> Result<(usize, i64)> {
    let snapshot = table.latest_snapshot().await?.ok_or("no snapshot")?;
    let files = table.live_files(&snapshot).await?;
    let bytes = files.iter().map(|file| file.meta.file_size).sum();
    Ok((files.len(), bytes))
}

fn files_below(folder: &Path) -> Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files += match entry.file_type()?.is_dir() {
            true => files_below(&entry.path())?,
            false => 1,
        };
    }
    Ok(files)
}

async fn existing(warehouse: &str) -> Result<Table> {
    let table = Catalog::local(warehouse)?.table("bench", TABLE).await?;
    Ok(table.ok_or("there is no such table")?)
}

/// Compacts the table of an hour fully.
pub async fn settle(warehouse: &str) -> Result<String> {
    let table = existing(warehouse).await?;
    let mut compactor = Compactor::new(table.clone(), CompactSettings::default())?;
    let messages = compactor.run(CompactScope::Full, |_| true).await?;
    let request = CommitRequest::new("settler", 1, messages);
    table.commit(&request).await?;
    let (live, bytes) = live(&table).await?;
    Ok(format!("\"live_files\": {live}, \"live_bytes\": {bytes}"))
}

/// Reads all of it.
pub async fn read(rounds: usize, warehouse: &str) -> Result<String> {
    let table = existing(warehouse).await?;
    let (mut clock, mut rows) = (Clock::new(), 0);
    for _ in 0..rounds {
        clock.start();
        let mut batches = table.read().all(2).await?;
        rows = 0;
        while let Some(batch) = batches.try_next().await? {
            rows += batch.num_rows();
        }
        clock.stop();
    }
    Ok(clock.told(rows))
}
