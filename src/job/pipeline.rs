//! One run of the job from a checkpoint on: the tail's items go into the sink, barriers become
//! checkpoints, rounds run beside. Ends with the first error; nothing that is not in a record
//! outlives it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use headwater_connectors::{ChangeBatch, TableName, TailItem, change::Barrier};
use headwater_paimon::{TableOptions, WriteSettings};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Ended, Job,
    begin::Beginning,
    gate::Gate,
    limit::ReadLimit,
    prepare::{Committed, Included, Preparing},
    settings::Startup,
    snapshot::{Captured, CapturedTable, Queue, Rounds, Snapshot},
    tables,
};
use crate::{
    checkpoint::{Record, TableState},
    clock,
    error::{JobError, Result},
    sink::{self, Buckets, Sink},
};

/// Change batches between the tail and the sink: each holds a few MB at the most.
const QUEUE: usize = 4;
/// Name of the task that asks for the end of the log.
const LOG_END: &str = "end of the log";
/// How long a shutdown waits for a transaction edge to stop at.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(60);

/// Runs from `beginning` on.
pub async fn run(
    job: &Arc<Job>,
    beginning: Beginning,
    shutdown: &CancellationToken,
) -> Result<Ended> {
    let mut pipeline = Pipeline::new(job, beginning)?;
    let ended = pipeline.drive(shutdown).await;
    if let Ok(Ended::Stopped | Ended::SnapshotComplete) = ended {
        pipeline.show_everything().await;
    }
    pipeline.wind_up().await;
    ended
}

pub(super) struct Pipeline {
    pub(super) job: Arc<Job>,
    gate: Arc<Gate>,
    pub(super) sink: Sink,
    pub(super) captured: Captured,
    rounds: Rounds,
    pub(super) buckets: Buckets,
    /// The newest record; its successor is made at the next barrier.
    pub(super) record: Record,
    /// Captured tables as of the newest barrier, and what became of them since.
    pub(super) tables: Vec<TableState>,
    /// Splits that wait for a worker.
    pub(super) queue: Queue,
    /// The snapshot task runs.
    is_reading: bool,
    /// Number of the last round.
    last_round: Arc<AtomicU64>,
    snapshots: BTreeMap<String, i64>,
    pub(super) next_sequence: i64,
    /// The checkpoint under way, steps (b) to (e).
    in_flight: Option<JoinHandle<Result<Committed>>>,
    /// Ends the snapshot phase early.
    stop_rounds: CancellationToken,
    /// Shutdown was asked for, and until when a last checkpoint is waited for.
    closing: Option<Instant>,
    /// The checkpoint under way began after the shutdown was asked for.
    is_last: bool,
}

impl Pipeline {
    fn new(job: &Arc<Job>, beginning: Beginning) -> Result<Self> {
        let Beginning {
            record,
            snapshots,
            floor,
            tables,
        } = beginning;
        let buckets = sink::buckets(
            tables.iter().map(|(schema, table)| (&schema.name, table)),
            job.settings.index_budget_bytes(),
        )?;
        let tail_bytes = job.settings.tail_budget_bytes(!buckets.is_empty());
        let settings = WriteSettings {
            max_buffered_bytes: tail_bytes,
            ..WriteSettings::default()
        };
        let sink = Sink::new(
            tables
                .iter()
                .map(|(schema, table)| (schema.name.clone(), table.clone())),
            settings,
            job.settings.sink.policy.clone(),
            buckets.clone(),
            tail_bytes,
        );
        let captured: HashMap<_, _> = tables
            .into_iter()
            .map(|(schema, table)| {
                let name = schema.name.clone();
                let captured = CapturedTable {
                    schema,
                    table,
                    generation: 0,
                };
                (name, captured)
            })
            .collect();
        Ok(Self {
            job: job.clone(),
            gate: Arc::new(Gate::new(floor)),
            sink,
            captured: Arc::new(Mutex::new(captured)),
            rounds: Rounds::default(),
            buckets,
            next_sequence: record.next_sequence,
            tables: record.tables.clone(),
            queue: Queue::default(),
            is_reading: false,
            last_round: Arc::default(),
            record,
            snapshots,
            in_flight: None,
            stop_rounds: CancellationToken::new(),
            closing: None,
            is_last: false,
        })
    }

    /// The loop. The tail and the rounds are tasks that end with it.
    async fn drive(&mut self, shutdown: &CancellationToken) -> Result<Ended> {
        let mut tasks: JoinSet<(&'static str, Result<()>)> = JoinSet::new();
        let (items, mut received) = mpsc::channel(QUEUE);
        self.start_tail(&mut tasks, items);
        self.mark_the_end(&mut tasks);
        self.show_progress();
        let names: Vec<TableName> = self.tables.iter().map(|it| it.source.clone()).collect();
        names.iter().for_each(|name| self.enqueue(name));
        self.start_rounds(&mut tasks);
        let job = self.job.clone();
        tasks.spawn(async move {
            job.upkeep.run(&job).await;
            ("upkeep", Ok(()))
        });
        let job = self.job.clone();
        tasks.spawn(async move { ("requests", tables::asked(&job).await) });
        let interval = self.job.settings.interval;
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let closing = self.closing;
            tokio::select! {
                // In this order: what is finished first, then new work.
                biased;
                committed = finished(&mut self.in_flight) => {
                    if let Some(ended) = self.committed(committed?) {
                        return Ok(ended);
                    }
                }
                () = shutdown.cancelled(), if closing.is_none() => {
                    self.closing = Some(Instant::now() + SHUTDOWN_PATIENCE);
                    self.stop_rounds.cancel();
                    self.gate.request();
                }
                () = until(closing) => return Ok(Ended::StoppedWithoutCheckpoint),
                Some(ended) = tasks.join_next() => {
                    self.task_ended(ended)?;
                    // What came while the task was ending.
                    self.start_rounds(&mut tasks);
                }
                _ = ticks.tick() => self.gate.request(),
                item = received.recv() => match item {
                    Some(item) => {
                        self.take(item).await?;
                        self.start_rounds(&mut tasks);
                    }
                    None => return Err(tail_error(&mut tasks).await),
                },
            }
        }
    }

    fn start_tail(
        &self,
        tasks: &mut JoinSet<(&'static str, Result<()>)>,
        items: mpsc::Sender<TailItem>,
    ) {
        let source = self.job.source.clone();
        let (from, gate) = (self.record.source.clone(), self.gate.clone());
        let progress = self.job.status.tail_sender();
        tasks.spawn(async move {
            let ended = source.tail(from, gate, items, progress).await;
            ("tail", ended.map_err(JobError::from))
        });
    }

    /// A job that has caught up with the log as it finds it takes a checkpoint there: its tables
    /// are fresh without waiting for the interval. A server that does not say where its log ends
    /// is no hindrance.
    fn mark_the_end(&self, tasks: &mut JoinSet<(&'static str, Result<()>)>) {
        if !self.record.snapshot_is_complete() {
            return;
        }
        let (source, gate) = (self.job.source.clone(), self.gate.clone());
        tasks.spawn(async move {
            match source.round_high().await {
                Ok(end) => gate.request_at(end),
                Err(error) => tracing::debug!(%error, "where does the log end?"),
            }
            (LOG_END, Ok(()))
        });
    }

    /// Starts the snapshot task where there is something to read and none runs.
    fn start_rounds(&mut self, tasks: &mut JoinSet<(&'static str, Result<()>)>) {
        if self.is_reading || self.closing.is_some() || lock(&self.queue).is_empty() {
            return;
        }
        self.is_reading = true;
        let settings = &self.job.settings;
        let snapshot = Snapshot {
            source: self.job.source.clone(),
            gate: self.gate.clone(),
            captured: self.captured.clone(),
            queue: self.queue.clone(),
            last_round: self.last_round.clone(),
            rounds: self.rounds.clone(),
            buckets: self.buckets.clone(),
            settings: WriteSettings {
                max_buffered_bytes: settings.lane_budget_bytes(!self.buckets.is_empty()),
                ..WriteSettings::default()
            },
            may_differ: settings.sink.policy.may_differ(),
            workers: settings.concurrent_chunks,
            round: settings.interval,
            limit: Arc::new(ReadLimit::new(settings.rates)),
            status: self.job.status.clone(),
            stop: self.stop_rounds.clone(),
        };
        tasks.spawn(async move { ("snapshot", snapshot.run().await) });
    }

    /// What the record knows of the snapshot phase, for people.
    pub(super) fn show_progress(&self) {
        self.job.status.update(|status| {
            for table in self.tables.iter().filter(|table| !table.released) {
                let progress = status.tables.entry(table.source.clone()).or_default();
                progress.read_rows = table.splits.iter().map(|split| split.rows).sum();
                progress.open_splits = table.splits.iter().filter(|split| !split.done).count();
                progress.done = progress.open_splits == 0;
            }
        });
    }

    fn task_ended(
        &mut self,
        ended: Result<(&'static str, Result<()>), tokio::task::JoinError>,
    ) -> Result<()> {
        match ended {
            Ok(("snapshot", Ok(()))) => {
                self.is_reading = false;
                self.gate.request();
                Ok(())
            }
            Ok((LOG_END, Ok(()))) => Ok(()),
            // What the tail still has in the queue is not needed: it is read again.
            Ok((_, Err(error))) => Err(error),
            Ok((name, Ok(()))) => Err(JobError::Internal(format!("the {name} ended by itself"))),
            Err(error) => Err(JobError::Internal(format!("a part of the job: {error}"))),
        }
    }

    async fn take(&mut self, item: TailItem) -> Result<()> {
        match item {
            TailItem::Rows(batch) => self.write(batch).await,
            TailItem::Schema(change) => self.follow(change).await,
            TailItem::Dropped(gone) => self.dropped(&gone),
            TailItem::Barrier(barrier) => self.checkpoint(barrier),
        }
    }

    async fn write(&mut self, batch: ChangeBatch) -> Result<()> {
        let rows = i64::try_from(batch.rows.num_rows()).unwrap_or(i64::MAX);
        self.sink.write(&batch, self.next_sequence).await?;
        self.next_sequence = self.next_sequence.saturating_add(rows);
        Ok(())
    }

    /// Everything in a task beside the next rows; the barrier's place in them is fixed here.
    fn checkpoint(&mut self, barrier: Barrier) -> Result<()> {
        if self.in_flight.is_some() {
            return Err(JobError::Internal("two checkpoints at once".to_owned()));
        }
        let began = Instant::now();
        self.is_last = self.closing.is_some();
        let (record, rounds, stale) = self.successor(&barrier)?;
        let preparing = Preparing {
            sweeps: self.due_sweeps(&record),
            stale,
            job: self.job.clone(),
            standing: self.record.clone(),
            snapshots: self.snapshots.clone(),
            record,
            rounds,
            flushing: self.sink.flush(),
            buckets: self.buckets.clone(),
            began,
        };
        self.in_flight = Some(tokio::spawn(preparing.finish()));
        Ok(())
    }

    /// The record of a checkpoint at `barrier`, the files of the rounds that it includes, and files of
    /// those rounds that became void.
    fn successor(&mut self, barrier: &Barrier) -> Result<(Record, Vec<Included>, Vec<Included>)> {
        let mut record = {
            let epoch = self.record.epoch;
            self.record
                .successor(&self.job.instance, epoch, clock::now_ms())
        };
        record.source = barrier.state.clone();
        record.event_time_ms = barrier.event_time_ms.or(self.record.event_time_ms);
        record.next_sequence = self.next_sequence;
        let (mut files, mut stale) = (Vec::new(), Vec::new());
        for id in self.gate.take_included() {
            let round = lock(&self.rounds)
                .finished
                .remove(&id)
                .ok_or_else(|| JobError::Internal(format!("round {id} has no result")))?;
            for read in round.files {
                let table = self.sink.table(&read.table).cloned();
                let is_current = self.generation(&read.table) == Some(read.generation);
                let into = if is_current { &mut files } else { &mut stale };
                into.push((read.table, table, read.messages));
            }
            for (generation, progress) in round.progress {
                if self.generation(&progress.split.table) != Some(generation) {
                    continue;
                }
                let table = self
                    .tables
                    .iter_mut()
                    .find(|table| table.source == progress.split.table);
                let split = table.and_then(|table| {
                    let id = progress.split.id;
                    table.splits.iter_mut().find(|split| split.split.id == id)
                });
                if let Some(split) = split {
                    *split = progress;
                }
            }
        }
        for table in &mut self.tables {
            let mut before = self.record.tables.iter();
            let before = before.find(|before| before.source == table.source);
            table.last_commit = before.and_then(|before| before.last_commit);
            if let Some(sink) = self.sink.table(&table.source) {
                table.schema = Some(sink.schema().id);
            }
        }
        record.tables.clone_from(&self.tables);
        Ok((record, files, stale))
    }

    /// A checkpoint is done; says whether the job is.
    fn committed(&mut self, committed: Committed) -> Option<Ended> {
        self.record = committed.record;
        self.snapshots = committed.snapshots;
        for (table, now) in self.record.tables.iter().zip(&mut self.tables) {
            if table.sweep_below.is_none() && table.snapshot_sequence == now.snapshot_sequence {
                now.sweep_below = None;
            }
        }
        // Rows that someone else wrote meanwhile must not win over ours that come later.
        if let Some(highest) = committed.max_sequence {
            self.next_sequence = self.next_sequence.max(highest.saturating_add(1));
        }
        self.gate.finished();
        if self.is_last {
            // Rounds that were under way at the shutdown are read again by the next run.
            return Some(Ended::Stopped);
        }
        let complete =
            self.job.settings.startup == Startup::Snapshot && self.record.snapshot_is_complete();
        complete.then_some(Ended::SnapshotComplete)
    }

    /// A job that has ended leaves nothing for a compaction to show: readers of tables with deletion
    /// vectors do not look at level 0, and readers of changes wait for what `lookup` finds.
    async fn show_everything(&self) {
        for table in &self.record.tables {
            let sink = self.sink.table(&table.source);
            let looks_up = sink
                .and_then(|sink| TableOptions::of(sink.schema()).ok())
                .is_some_and(|options| options.looks_up() && !options.compaction.write_only);
            if looks_up {
                let reading = table.is_reading();
                let upkeep = &self.job.upkeep;
                upkeep.empty_level_0(&self.job, &table.sink, reading).await;
            }
        }
    }

    /// Lets a checkpoint under way end, and removes files that no record names.
    async fn wind_up(&mut self) {
        self.stop_rounds.cancel();
        if let Some(task) = self.in_flight.take() {
            let _ = task.await;
        }
        self.job.upkeep.settled().await;
        self.sink.abandon().discard().await;
        let rounds = std::mem::take(&mut *lock(&self.rounds));
        let finished = rounds.finished.into_values().flat_map(|round| round.files);
        for files in finished.chain(rounds.open) {
            if let Some(table) = self.sink.table(&files.table) {
                table.discard(&files.messages).await;
            }
        }
    }
}

/// Waits for the checkpoint under way; for ever when there is none.
async fn finished(task: &mut Option<JoinHandle<Result<Committed>>>) -> Result<Committed> {
    let Some(running) = task else {
        return std::future::pending().await;
    };
    let ended = running.await;
    *task = None;
    ended.map_err(|error| JobError::Internal(format!("a checkpoint: {error}")))?
}

/// Sleeps until then; for ever when there is no then.
async fn until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Why the tail closed its queue.
async fn tail_error(tasks: &mut JoinSet<(&'static str, Result<()>)>) -> JobError {
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(("tail", Err(error))) => return error,
            Ok(("tail", Ok(()))) => break,
            Ok((_, Err(error))) => return error,
            Ok((_, Ok(()))) => {}
            Err(error) => return JobError::Internal(format!("a part of the job: {error}")),
        }
    }
    JobError::Internal("the tail ended by itself".to_owned())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
