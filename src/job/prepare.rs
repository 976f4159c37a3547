//! One checkpoint from its barrier on: what is prepared is waited for, a record is made of it, and the
//! tables are committed. When that is, and what goes in, is `pipeline`'s to say.

use std::{collections::BTreeMap, sync::Arc};

use headwater_connectors::TableName;
use headwater_paimon::{CommitMessage, Table};
use tokio::time::Instant;

use super::{Job, begin, index, status::CheckpointProgress};
use crate::{
    checkpoint::{Record, TableCommit},
    error::Result,
    failpoint,
    sink::{Buckets, Flushing, PreparedCheck, Sweep},
};

/// A checkpoint that is wholly committed.
pub(super) struct Committed {
    pub(super) record: Record,
    pub(super) snapshots: BTreeMap<String, i64>,
    /// Greatest sequence number seen in the tables that were committed.
    pub(super) max_sequence: Option<i64>,
}

/// Files of a round that a checkpoint includes: source table, its sink table, and what to commit.
pub(super) type Included = (TableName, Option<Table>, Vec<CommitMessage>);

/// A checkpoint whose place is fixed.
pub(super) struct Preparing {
    pub(super) job: Arc<Job>,
    /// The record before.
    pub(super) standing: Record,
    pub(super) snapshots: BTreeMap<String, i64>,
    /// Without its files.
    pub(super) record: Record,
    pub(super) rounds: Vec<Included>,
    /// Files that are in no checkpoint: what they hold is read again.
    pub(super) stale: Vec<Included>,
    /// Tables whose old rows go.
    pub(super) sweeps: Vec<(TableName, Sweep)>,
    pub(super) flushing: Flushing,
    pub(super) buckets: Buckets,
    pub(super) began: Instant,
}

impl Preparing {
    /// Step (a), and the others when anything has moved.
    pub(super) async fn finish(mut self) -> Result<Committed> {
        let tail_files = match self.flushing.finish().await {
            Ok(files) => files,
            Err(error) => {
                // No record will name them: their splits are read again.
                discard(self.rounds).await;
                return Err(error);
            }
        };
        failpoint::reach("after-flush");
        discard(self.stale).await;
        let round_files = self
            .rounds
            .into_iter()
            .map(|(name, _, files)| (name, files));
        let mut files: Vec<(TableName, Vec<CommitMessage>)> =
            round_files.chain(tail_files).collect();
        for (name, sweep) in self.sweeps {
            match sweep.write().await {
                Ok((messages, rows)) => {
                    tracing::info!(table = %name, rows, "rows that the source has no more are removed");
                    // Before all others of the table: they are older.
                    files.insert(0, (name.clone(), messages));
                    let mut tables = self.record.tables.iter_mut();
                    if let Some(table) = tables.find(|table| table.source == name) {
                        table.sweep_below = None;
                    }
                }
                Err(error) => {
                    index::discard(&self.job, &self.record, files).await;
                    return Err(error);
                }
            }
        }
        if let Err(error) = index::add(&self.buckets, &mut files).await {
            index::discard(&self.job, &self.record, files).await;
            return Err(error);
        }
        self.record.commits = commits(&self.record, files.into_iter());
        self.record.tag_when_due(self.job.settings.tag_interval);
        self.record.committed_before |= !self.record.commits.is_empty();
        if self.record.commits.is_empty()
            && self.record.tag.is_none()
            && self.record.tables == self.standing.tables
            && self.record.source == self.standing.source
        {
            // Nothing moved: the old record stands.
            return Ok(Committed {
                record: self.standing,
                snapshots: self.snapshots,
                max_sequence: None,
            });
        }
        make_durable(&self.job, self.record, self.snapshots, self.began).await
    }
}

async fn discard(files: Vec<Included>) {
    for (_, table, messages) in files {
        if let Some(table) = table {
            table.discard(&messages).await;
        }
    }
}

/// What is to be committed of each table: its files in the order given, chunk files first.
fn commits(
    record: &Record,
    given: impl Iterator<Item = (TableName, Vec<CommitMessage>)>,
) -> Vec<TableCommit> {
    let mut files: BTreeMap<TableName, Vec<CommitMessage>> = BTreeMap::new();
    for (table, messages) in given {
        files.entry(table).or_default().extend(messages);
    }
    record
        .tables
        .iter()
        .filter_map(|table| {
            Some(TableCommit {
                sink: table.sink.clone(),
                messages: files
                    .remove(&table.source)
                    .filter(|files| !files.is_empty())?,
            })
        })
        .collect()
}

/// Steps (b) to (e).
async fn make_durable(
    job: &Job,
    mut record: Record,
    mut snapshots: BTreeMap<String, i64>,
    began: Instant,
) -> Result<Committed> {
    job.state.create(&record).await?;
    failpoint::reach("after-record");
    let max_sequence = begin::finish(job, &record, &mut snapshots, PreparedCheck::Fresh).await?;
    job.source.confirm(&record.source.position).await?;
    job.state.prune(job.settings.retained).await?;
    job.upkeep.after_commit(job, &record).await?;
    let files = record
        .commits
        .iter()
        .flat_map(|commit| &commit.messages)
        .map(|message| message.new_files.len() as u64)
        .sum();
    let progress = CheckpointProgress {
        number: record.number,
        position: record.source.position.to_string(),
        event_time_ms: record.event_time_ms,
        committed: std::time::Instant::now(),
        took_ms: began.elapsed().as_millis() as u64,
        tables: record.commits.len(),
    };
    tracing::debug!(
        checkpoint = progress.number,
        tables = progress.tables,
        files,
        took_ms = progress.took_ms,
        position = progress.position,
        "checkpoint committed"
    );
    job.status.committed(progress, files);
    record.settle();
    Ok(Committed {
        record,
        snapshots,
        max_sequence,
    })
}
