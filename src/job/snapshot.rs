//! The snapshot phase: rounds of chunk reads beside the tail.
//!
//! A round takes L, its workers read chunks for about a checkpoint interval and close their files,
//! and it takes H. The gate keeps barriers out of it; the first barrier at or after H includes its
//! files. A split is walked chunk by chunk, always after the last key read; one writer holds all
//! of a split's rows of a round, so that files are closed per round, never per chunk.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arrow_array::RecordBatch;
use headwater_connectors::{ChunkEnd, ChunkReader, Position, Source, TableName, TableSchema};
use headwater_paimon::{BulkWriter, CommitMessage, Table, WriteSettings};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{gate::Gate, limit::RowLimit, status::Status};
use crate::{
    checkpoint::SplitState,
    error::{JobError, Result},
    sink::Buckets,
};

/// How long barriers are held back for a round to get its L.
const LOW_PATIENCE: Duration = Duration::from_secs(5);
/// How long a barrier may pass after that.
const LOW_PAUSE: Duration = Duration::from_millis(500);

/// Captured tables as the job sees them now: schema at the source and table in the lake. The lake
/// is never behind the source's schema.
pub type Captured = Arc<Mutex<HashMap<TableName, (Arc<TableSchema>, Table)>>>;

/// A split that is not wholly included, and what its rows need.
#[derive(Debug, Clone)]
pub struct Work {
    /// What is left to read.
    pub state: SplitState,
    /// Sequence number of the table's snapshot rows.
    pub sequence: i64,
}

/// What a finished round has made.
#[derive(Debug, Default)]
pub struct RoundResult {
    /// Files, by source table.
    pub files: Vec<(TableName, Vec<CommitMessage>)>,
    /// Where each split that was read stands now.
    pub progress: Vec<SplitState>,
}

/// Files that no checkpoint has taken yet.
#[derive(Debug, Default)]
pub struct RoundFiles {
    /// Finished rounds, by id.
    pub finished: BTreeMap<u64, RoundResult>,
    /// Closed files of the round under way, by source table.
    pub open: Vec<(TableName, Vec<CommitMessage>)>,
}

/// Rounds, shared with whoever includes them.
pub type Rounds = Arc<Mutex<RoundFiles>>;

/// Everything that the snapshot phase works with.
pub struct Snapshot {
    /// Where rows come from.
    pub source: Arc<dyn Source>,
    /// Keeps barriers out of rounds.
    pub gate: Arc<Gate>,
    /// Schemas and sink tables.
    pub captured: Captured,
    /// Where finished rounds go.
    pub rounds: Rounds,
    /// Of tables whose buckets are dynamic.
    pub buckets: Buckets,
    /// Settings of the writers; the memory bound is that of one worker.
    pub settings: WriteSettings,
    /// Chunks read at the same time.
    pub workers: usize,
    /// How long a round reads.
    pub round: Duration,
    /// Rows a second over all workers.
    pub limit: Arc<RowLimit>,
    /// For people.
    pub status: Arc<Status>,
    /// Ends the round under way early and begins no other.
    pub stop: CancellationToken,
}

impl Snapshot {
    /// Reads everything in `todo`, round after round. Ends well when all is read or `stop` says
    /// so; whether it is included is the checkpoints' business.
    pub async fn run(&self, todo: Vec<Work>) -> Result<()> {
        let queue = Arc::new(Mutex::new(VecDeque::from(todo)));
        let mut readers: Vec<Option<Box<dyn ChunkReader>>> = Vec::new();
        readers.resize_with(self.workers.max(1), || None);
        for id in 1.. {
            if lock(&queue).is_empty() || self.stop.is_cancelled() {
                break;
            }
            self.round(id, &queue, &mut readers).await?;
            self.gate.request();
            // A gap between two rounds for a barrier to stand in. When the tail is far behind,
            // barriers stand before the rounds, and there is nothing to wait for.
            let gap = self.round.max(Duration::from_secs(1)) / 2;
            tokio::select! {
                () = self.gate.wait_included(id) => {}
                () = tokio::time::sleep(gap) => {}
                () = self.stop.cancelled() => {}
            }
        }
        Ok(())
    }

    async fn round(
        &self,
        id: u64,
        queue: &Arc<Mutex<VecDeque<Work>>>,
        readers: &mut [Option<Box<dyn ChunkReader>>],
    ) -> Result<()> {
        let Some(low) = self.low().await? else {
            return Ok(());
        };
        tracing::debug!(round = id, %low, "round begins");
        self.gate.begin_round(id, low);
        let deadline = Instant::now() + self.round;
        let workers = readers
            .iter_mut()
            .map(|reader| self.work(queue, reader, deadline));
        let mut result = RoundResult::default();
        let mut unfinished = Vec::new();
        for done in futures::future::try_join_all(workers).await? {
            result.files.extend(done.result.files);
            result.progress.extend(done.result.progress);
            unfinished.extend(done.unfinished);
        }
        // What was begun goes on first in the next round.
        for work in unfinished.into_iter().rev() {
            lock(queue).push_front(work);
        }
        // Every file is closed: only now is it known that all reads lie before H.
        let high = self.source.round_high().await?;
        tracing::debug!(round = id, %high, "round ends");
        {
            let mut rounds = lock(&self.rounds);
            rounds.open.clear();
            rounds.finished.insert(id, result);
        }
        self.gate.end_round(id, high);
        Ok(())
    }

    /// Holds barriers back until L is known; `None` when stopped. A server that commits slowly
    /// must not keep the checkpoints waiting: after a while one may pass, and L is asked for anew.
    async fn low(&self) -> Result<Option<Position>> {
        loop {
            let asked = async {
                let edge = self.gate.hold().await;
                self.source.round_low(&edge).await
            };
            let low = tokio::select! {
                low = asked => low.map(Some),
                () = tokio::time::sleep(LOW_PATIENCE) => Ok(None),
                () = self.stop.cancelled() => {
                    self.gate.release();
                    return Ok(None);
                }
            };
            if let Ok(Some(low)) = low {
                return Ok(Some(low));
            }
            self.gate.release();
            low?;
            tokio::time::sleep(LOW_PAUSE).await;
        }
    }

    /// One worker of a round: splits from the queue until the deadline.
    async fn work(
        &self,
        queue: &Mutex<VecDeque<Work>>,
        reader: &mut Option<Box<dyn ChunkReader>>,
        deadline: Instant,
    ) -> Result<WorkDone> {
        let mut done = WorkDone::default();
        while Instant::now() < deadline && !self.stop.is_cancelled() {
            let Some(mut work) = lock(queue).pop_front() else {
                break;
            };
            let reader = match reader {
                Some(reader) => reader,
                None => reader.insert(self.source.reader().await?),
            };
            let messages = self
                .read_split(&mut work, reader.as_mut(), deadline)
                .await?;
            let table = work.state.split.table.clone();
            if !messages.is_empty() {
                let files = (table, messages);
                lock(&self.rounds).open.push(files.clone());
                done.result.files.push(files);
            }
            done.result.progress.push(work.state.clone());
            if !work.state.done {
                done.unfinished.push(work);
            }
        }
        Ok(done)
    }

    /// Reads a split until it is done or the deadline has passed; its rows go through one writer.
    async fn read_split(
        &self,
        work: &mut Work,
        reader: &mut dyn ChunkReader,
        deadline: Instant,
    ) -> Result<Vec<CommitMessage>> {
        let name = work.state.split.table.clone();
        let (schema, table) = lock(&self.captured)
            .get(&name)
            .cloned()
            .ok_or_else(|| JobError::Internal(format!("{name} is not captured")))?;
        let writer = match self.buckets.get(&name).cloned() {
            Some(buckets) => {
                BulkWriter::with_buckets(table, self.settings, work.sequence, buckets)?
            }
            None => BulkWriter::new(table, self.settings, work.sequence)?,
        };
        let (batches, received) = mpsc::channel(2);
        let mut encoding = JoinSet::new();
        encoding.spawn(encode(
            writer,
            received,
            name.clone(),
            self.limit.clone(),
            self.status.clone(),
        ));
        let read = self
            .read_chunks(work, &schema, reader, &batches, deadline)
            .await;
        drop(batches);
        let written = match encoding.join_next().await {
            Some(Ok(written)) => written,
            Some(Err(error)) => Err(JobError::Internal(format!("encoder of {name}: {error}"))),
            None => Err(JobError::Internal(format!("no encoder of {name}"))),
        };
        // When the writer failed, the reader only says that nobody takes its rows.
        let (messages, rows) = written?;
        read?;
        work.state.rows += rows;
        if work.state.done {
            self.status.update(|status| {
                let table = status.tables.entry(name).or_default();
                table.open_splits = table.open_splits.saturating_sub(1);
                table.done = table.open_splits == 0;
            });
        }
        Ok(messages)
    }

    async fn read_chunks(
        &self,
        work: &mut Work,
        schema: &TableSchema,
        reader: &mut dyn ChunkReader,
        batches: &mpsc::Sender<RecordBatch>,
        deadline: Instant,
    ) -> Result<()> {
        let split = &mut work.state.split;
        loop {
            match reader.read(schema, split, batches).await? {
                ChunkEnd::Done => {
                    work.state.done = true;
                    return Ok(());
                }
                ChunkEnd::More(last) if split.after.as_ref() == Some(&last) => {
                    return Err(JobError::Definite(format!(
                        "table {}: a chunk ended at the key at which it began ({}): the server \
                         does not order this key as it compares it. Exclude the table \
                         (tables.exclude) and report this",
                        split.table,
                        last.join(", ")
                    )));
                }
                ChunkEnd::More(last) => split.after = Some(last),
            }
            if Instant::now() >= deadline || self.stop.is_cancelled() {
                return Ok(());
            }
        }
    }
}

#[derive(Default)]
struct WorkDone {
    result: RoundResult,
    unfinished: Vec<Work>,
}

/// Writes batches as they come; gives the files and the number of rows.
async fn encode(
    mut writer: BulkWriter,
    mut received: mpsc::Receiver<RecordBatch>,
    table: TableName,
    limit: Arc<RowLimit>,
    status: Arc<Status>,
) -> Result<(Vec<CommitMessage>, u64)> {
    let mut rows = 0;
    while let Some(batch) = received.recv().await {
        writer.write(&batch).await?;
        let count = batch.num_rows() as u64;
        rows += count;
        status.update(|status| {
            status.tables.entry(table.clone()).or_default().read_rows += count;
        });
        limit.take(count).await;
    }
    Ok((writer.finish().await?, rows))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
