//! The snapshot phase: rounds of chunk reads beside the tail.
//!
//! A round takes L, its workers read chunks for about a checkpoint interval and close their files,
//! and it takes H. The gate keeps barriers out of it; the first barrier at or after H includes its
//! files. A split is walked chunk by chunk, always after the last key read; one writer holds all
//! of a split's rows of a round, so that files are closed per round, never per chunk.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arrow_array::RecordBatch;
use headwater_connectors::{
    ChunkEnd, ChunkReader, Meaning, Position, Source, TableName, TableSchema,
};
use headwater_paimon::{BulkWriter, CommitMessage, Table, WriteSettings};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{gate::Gate, limit::ReadLimit, status::Status};
use crate::{
    checkpoint::SplitState,
    error::{JobError, Result},
    sink::{Buckets, Shape},
};

/// How long barriers are held back for a round to get its L.
const LOW_PATIENCE: Duration = Duration::from_secs(5);
/// How long a barrier may pass after that.
const LOW_PAUSE: Duration = Duration::from_millis(500);
/// How long a worker waits where a table's schema at the server is ahead of the log as read.
const SCHEMA_PAUSE: Duration = Duration::from_millis(200);

/// A captured table as the job sees it now. The lake is never behind the source's schema.
#[derive(Debug, Clone)]
pub struct CapturedTable {
    /// Schema at the source.
    pub schema: Arc<TableSchema>,
    /// Table in the lake.
    pub table: Table,
    /// Counts how often what was read of it and is in no checkpoint became void: by a change of its
    /// schema, or because all of it has to be read anew.
    pub generation: u64,
}

/// Captured tables.
pub type Captured = Arc<Mutex<HashMap<TableName, CapturedTable>>>;

/// Splits that wait for a worker.
pub type Queue = Arc<Mutex<VecDeque<Work>>>;

/// A split that is not wholly included, and what its rows need.
#[derive(Debug, Clone)]
pub struct Work {
    /// What is left to read.
    pub state: SplitState,
    /// Sequence number of the table's snapshot rows.
    pub sequence: i64,
    /// Generation of the table; of another one there is nothing to read.
    pub generation: u64,
}

/// Files that a worker has closed.
#[derive(Debug, Clone)]
pub struct SplitFiles {
    /// The source table.
    pub table: TableName,
    /// Its generation when the rows were read.
    pub generation: u64,
    /// The files.
    pub messages: Vec<CommitMessage>,
}

/// What a finished round has made.
#[derive(Debug, Default)]
pub struct RoundResult {
    /// Files.
    pub files: Vec<SplitFiles>,
    /// Where each split that was read stands now, by the generation of its table.
    pub progress: Vec<(u64, SplitState)>,
}

/// Files that no checkpoint has taken yet.
#[derive(Debug, Default)]
pub struct RoundFiles {
    /// Finished rounds, by id.
    pub finished: BTreeMap<u64, RoundResult>,
    /// Closed files of the round under way.
    pub open: Vec<SplitFiles>,
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
    /// What is to be read.
    pub queue: Queue,
    /// Number of the last round of this run.
    pub last_round: Arc<AtomicU64>,
    /// Where finished rounds go.
    pub rounds: Rounds,
    /// Of tables whose buckets are dynamic.
    pub buckets: Buckets,
    /// Settings of the writers; the memory bound is that of one worker.
    pub settings: WriteSettings,
    /// Sink tables need not have all columns of their sources.
    pub may_differ: bool,
    /// Chunks read at the same time.
    pub workers: usize,
    /// How long a round reads.
    pub round: Duration,
    /// Rows and bytes a second over all workers.
    pub limit: Arc<ReadLimit>,
    /// For people.
    pub status: Arc<Status>,
    /// Ends the round under way early and begins no other.
    pub stop: CancellationToken,
}

impl Snapshot {
    /// Reads everything in the queue, round after round. Ends well when all is read or `stop` says
    /// so; whether it is included is the checkpoints' business.
    pub async fn run(&self) -> Result<()> {
        let mut readers: Vec<Option<Box<dyn ChunkReader>>> = Vec::new();
        readers.resize_with(self.workers.max(1), || None);
        loop {
            if lock(&self.queue).is_empty() || self.stop.is_cancelled() {
                break;
            }
            let id = self.last_round.fetch_add(1, Ordering::Relaxed) + 1;
            self.round(id, &mut readers).await?;
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

    async fn round(&self, id: u64, readers: &mut [Option<Box<dyn ChunkReader>>]) -> Result<()> {
        // What comes later waits for the next round: it may stand behind this one's L.
        let todo = Mutex::new(std::mem::take(&mut *lock(&self.queue)));
        let Some(low) = self.low().await? else {
            return Ok(());
        };
        tracing::debug!(round = id, %low, "round begins");
        self.gate.begin_round(id, low);
        let deadline = Instant::now() + self.round;
        let workers = readers
            .iter_mut()
            .map(|reader| self.work(&todo, reader, deadline));
        let mut result = RoundResult::default();
        let mut unfinished = Vec::new();
        for done in futures::future::try_join_all(workers).await? {
            result.files.extend(done.result.files);
            result.progress.extend(done.result.progress);
            unfinished.extend(done.unfinished);
        }
        // What was begun goes on first in the next round, then what nobody came to.
        unfinished.extend(std::mem::take(&mut *lock(&todo)));
        for work in unfinished.into_iter().rev() {
            lock(&self.queue).push_front(work);
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

    /// One worker of a round: splits of the round until the deadline.
    async fn work(
        &self,
        todo: &Mutex<VecDeque<Work>>,
        reader: &mut Option<Box<dyn ChunkReader>>,
        deadline: Instant,
    ) -> Result<WorkDone> {
        let mut done = WorkDone::default();
        while Instant::now() < deadline && !self.stop.is_cancelled() {
            let Some(mut work) = lock(todo).pop_front() else {
                break;
            };
            let name = work.state.split.table.clone();
            let Some(captured) = self
                .captured(&name)
                .filter(|it| it.generation == work.generation)
            else {
                continue;
            };
            let reader = match reader {
                Some(reader) => reader,
                None => reader.insert(self.source.reader().await?),
            };
            let before = work.clone();
            let read = self.read_split(&mut work, captured, reader.as_mut(), deadline);
            let messages = match read.await {
                Err(JobError::Source(error)) if error.means(Meaning::SchemaChanged) => {
                    // The log tells how, in time: until then this split rests.
                    tracing::info!(table = %name, %error, "the snapshot of the table waits for the log");
                    done.unfinished.push(before);
                    tokio::time::sleep(SCHEMA_PAUSE).await;
                    continue;
                }
                read => read?,
            };
            if !messages.is_empty() {
                let files = SplitFiles {
                    table: name,
                    generation: work.generation,
                    messages,
                };
                lock(&self.rounds).open.push(files.clone());
                done.result.files.push(files);
            }
            let progress = (work.generation, work.state.clone());
            done.result.progress.push(progress);
            if !work.state.done {
                done.unfinished.push(work);
            }
        }
        Ok(done)
    }

    fn captured(&self, name: &TableName) -> Option<CapturedTable> {
        lock(&self.captured).get(name).cloned()
    }

    /// Reads a split until it is done or the deadline has passed; its rows go through one writer.
    async fn read_split(
        &self,
        work: &mut Work,
        captured: CapturedTable,
        reader: &mut dyn ChunkReader,
        deadline: Instant,
    ) -> Result<Vec<CommitMessage>> {
        let name = work.state.split.table.clone();
        let CapturedTable { schema, table, .. } = captured;
        let shape = Shape::new(&schema, table.schema(), self.may_differ);
        let written_to = table.clone();
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
            shape,
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
        if let Err(error) = read {
            written_to.discard(&messages).await;
            return Err(error);
        }
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
    shape: Shape,
    mut received: mpsc::Receiver<RecordBatch>,
    table: TableName,
    limit: Arc<ReadLimit>,
    status: Arc<Status>,
) -> Result<(Vec<CommitMessage>, u64)> {
    let mut rows = 0;
    while let Some(batch) = received.recv().await {
        writer.write(&shape.fit(&batch)?).await?;
        let count = batch.num_rows() as u64;
        rows += count;
        status.update(|status| {
            status.tables.entry(table.clone()).or_default().read_rows += count;
        });
        limit.read(&batch).await;
    }
    Ok((writer.finish().await?, rows))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
