//! What sink tables need besides commits: compaction, expiry of snapshots, tags and partitions, tags
//! by period. Runs beside the rows; what it does is decided by each table's own options, and
//! `write-only` turns all of it off. Nothing here is in a checkpoint: a compaction that is cut off
//! leaves files that nobody names, and the next one does its work.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use headwater_connectors::TableName;
use headwater_paimon::{
    AutoTagger, CommitKind, CommitRequest, Expired, PartitionExpiry, Retention, Table,
    TableOptions,
    compact::{CompactScope, CompactSettings, Compactor},
    table_options::ChangelogProducer,
};
use tokio::sync::watch;

use super::Job;
use crate::{
    checkpoint::{Record, TableState},
    error::{JobError, Result},
};

/// Checkpoints of a table after which old snapshots are looked for …
const COMMITS_PER_EXPIRY: u32 = 10;
/// … or time after which they are.
const TIME_PER_EXPIRY: Duration = Duration::from_secs(60);
/// Longest that a job that ends waits for an expiry.
const SETTLING_MAX: Duration = Duration::from_secs(30);
/// In the commit users of upkeep.
pub const USER_INFIX: &str = "-upkeep-";
/// Snapshots that are looked at for another program's compactions, and how old these may be.
const FOREIGN_SNAPSHOTS: i64 = 20;
const FOREIGN_COMPACTION_AGE: Duration = Duration::from_secs(600);
/// How often a job that ends tries to empty a table's level 0, and the time between.
const EMPTY_ATTEMPTS: u32 = 4;
const EMPTY_PAUSE: Duration = Duration::from_millis(500);
/// Tables whose compactors are remembered: they know when the last full compaction was.
const COMPACTORS_MAX: usize = 1000;

/// Tables that wait for upkeep.
#[derive(Debug)]
pub struct Upkeep {
    state: watch::Sender<State>,
    /// Numbers of this process's own commits.
    identifier: AtomicI64,
    /// Between the sweeps of a table.
    sweeps: Mutex<HashMap<TableName, Sweep>>,
    /// Held while snapshots are expired.
    sweeping: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// Nobody works: waiting would be for ever.
    is_idle: bool,
    /// With whether rows of the table's snapshot are still to come.
    waiting: BTreeMap<TableName, bool>,
    running: Option<TableName>,
}

#[derive(Debug)]
struct Sweep {
    last: Instant,
    commits: u32,
    /// Commits since the last full compaction.
    since_full: u32,
    partitions: Option<Instant>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            last: Instant::now(),
            // The first commit of a run looks: one that is killed often would never.
            commits: COMMITS_PER_EXPIRY,
            since_full: 0,
            partitions: None,
        }
    }
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(State {
                is_idle: true,
                ..State::default()
            }),
            identifier: AtomicI64::new(1),
            sweeps: Mutex::default(),
            sweeping: Arc::default(),
        }
    }
}

impl Upkeep {
    /// The tables of a committed record are to be looked at. Waits for those that have so many
    /// sorted runs that writers have to stop (`num-sorted-run.stop-trigger`), and for those whose
    /// readers see what was committed once it is compacted (option `lookup-wait`).
    pub async fn after_commit(&self, job: &Job, record: &Record) -> Result<()> {
        let mut awaited = Vec::new();
        for commit in &record.commits {
            let state = record.tables.iter().find(|it| it.sink == commit.sink);
            let reading = state.is_some_and(TableState::is_reading);
            self.state.send_modify(|state| {
                state.waiting.insert(commit.sink.clone(), reading);
            });
            let committer = job.committer.committer(&commit.sink).await?;
            let committer = committer.lock().await;
            let options = TableOptions::of(committer.table().schema())?;
            let runs = committer.sorted_runs();
            let is_full = runs.all >= options.compaction.stop_trigger;
            let is_hidden = options.looks_up()
                && options.changelog.lookup_wait
                && !reading
                && runs.on_level_0 > 0;
            if !options.compaction.write_only && (is_full || is_hidden) {
                awaited.push(commit.sink.clone());
            }
        }
        for table in awaited {
            tracing::debug!(%table, "waiting for a compaction");
            let mut state = self.state.subscribe();
            // The sender lives as long as we do.
            let _ = state
                .wait_for(|state| {
                    state.is_idle
                        || !state.waiting.contains_key(&table)
                            && state.running.as_ref() != Some(&table)
                })
                .await;
        }
        Ok(())
    }

    /// Works until it is dropped. What fails is logged, and tried again behind the next commit.
    pub async fn run(&self, job: &Job) {
        let _idle = Idle::begin(&self.state);
        let mut compactors = HashMap::new();
        loop {
            let Some((table, reading)) = self.next().await else {
                return;
            };
            if let Err(error) = self.tend(job, &table, reading, &mut compactors).await {
                tracing::warn!(
                    %table,
                    %error,
                    "compaction or expiry failed; it is tried again behind the next commit"
                );
            }
            self.state.send_modify(|state| state.running = None);
        }
    }

    async fn next(&self) -> Option<(TableName, bool)> {
        let mut state = self.state.subscribe();
        state
            .wait_for(|state| !state.waiting.is_empty())
            .await
            .ok()?;
        let mut next = None;
        self.state.send_modify(|state| {
            next = state.waiting.pop_first();
            state.running = next.as_ref().map(|(table, _)| table.clone());
        });
        next
    }

    async fn tend(
        &self,
        job: &Job,
        name: &TableName,
        reading: bool,
        compactors: &mut HashMap<TableName, Compactor>,
    ) -> Result<()> {
        let committer = job.committer.committer(name).await?;
        let (table, runs) = {
            let committer = committer.lock().await;
            (committer.table().clone(), committer.sorted_runs())
        };
        let options = TableOptions::of(table.schema())?;
        if options.compaction.write_only {
            return Ok(());
        }
        let scope = match !reading && self.full_is_due(name, &options) {
            true => CompactScope::Full,
            false => CompactScope::Due,
        };
        let due = scope == CompactScope::Full
            || runs.all >= options.compaction.run_trigger
            || options.compaction.optimization_interval.is_some()
            || options.compacts_level_0_at_once() && runs.on_level_0 > 0;
        // What readers do not see before it is compacted does not wait for anybody.
        let is_urgent = runs.all >= options.compaction.stop_trigger
            || options.looks_up() && runs.on_level_0 > 0;
        if due && (is_urgent || !self.is_compacted_by_others(job, &table).await?) {
            self.compact(job, name, reading, scope, compactors).await?;
        }
        if self.sweep_is_due(name) {
            self.sweep(job, &table).await?;
        }
        if let Some(expiry) = PartitionExpiry::of(table.schema())? {
            self.expire_partitions(job, name, &table, &expiry).await?;
        }
        Ok(())
    }

    /// Compacts until nothing is left on level 0 of a table, for a job that ends. What fails is
    /// logged: nothing is lost, and the next compaction shows it.
    pub async fn empty_level_0(&self, job: &Job, name: &TableName, reading: bool) {
        let mut compactors = HashMap::new();
        for attempt in 0..EMPTY_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(EMPTY_PAUSE).await;
            }
            let emptied = async {
                let committer = job.committer.committer(name).await?;
                let left = {
                    let mut committer = committer.lock().await;
                    committer.max_sequence_number().await?;
                    committer.sorted_runs().on_level_0
                };
                if left == 0 {
                    return Ok(true);
                }
                let scope = CompactScope::Due;
                self.compact(job, name, reading, scope, &mut compactors)
                    .await?;
                Ok(committer.lock().await.sorted_runs().on_level_0 == 0)
            };
            match emptied.await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    let error: JobError = error;
                    tracing::warn!(table = %name, %error, "compaction failed");
                }
            }
        }
        tracing::warn!(
            table = %name,
            "readers do not see all that was committed before the table is compacted: \
             headwater table compact, or the next run of the job, does that"
        );
    }

    /// Compacts what is due and commits it. `reading`: rows of the table's snapshot are to come.
    pub async fn compact(
        &self,
        job: &Job,
        name: &TableName,
        reading: bool,
        scope: CompactScope,
        compactors: &mut HashMap<TableName, Compactor>,
    ) -> Result<()> {
        let committer = job.committer.committer(name).await?;
        let table = committer.lock().await.table().reload().await?;
        // With deletion vectors no row of the snapshot is older than what is committed (they are
        // refused else), and nothing is put above level 0 beside other files.
        let keep_deletes = reading && !TableOptions::of(table.schema())?.deletion_vectors.enabled;
        let settings = CompactSettings {
            memory_bytes: job.settings.compaction_budget_bytes() as u64,
            parallelism: 1,
            keep_deletes,
        };
        if compactors.len() >= COMPACTORS_MAX {
            compactors.clear();
        }
        let known = compactors.remove(name).filter(|known| {
            known.table().schema().id == table.schema().id
                && known.settings().keep_deletes == keep_deletes
        });
        let mut compactor = match known {
            Some(known) => known,
            None => Compactor::new(table.clone(), settings)?,
        };
        let began = Instant::now();
        let messages = compactor.run(scope, |_| true).await?;
        if !messages.is_empty() {
            let buckets = messages.len();
            let identifier = self.identifier.fetch_add(1, Ordering::Relaxed);
            let request = CommitRequest::new(self.user(job), identifier, messages);
            let outcome = committer.lock().await.commit(&request).await?;
            // Without a snapshot another engine was faster.
            let snapshot = outcome.compact_snapshot();
            tracing::debug!(
                table = %name,
                snapshot,
                buckets,
                took_ms = began.elapsed().as_millis() as u64,
                "compacted"
            );
        }
        compactors.insert(name.clone(), compactor);
        Ok(())
    }

    /// Another program has compacted the table lately: it is left to that one, as long as it keeps
    /// up. Two compactors only make each other's work void.
    async fn is_compacted_by_others(&self, job: &Job, table: &Table) -> Result<bool> {
        let Some(latest) = table.latest_snapshot().await? else {
            return Ok(false);
        };
        let ours = self.user(job);
        let recent = latest.time_millis - millis(FOREIGN_COMPACTION_AGE);
        for id in (latest.id - FOREIGN_SNAPSHOTS..=latest.id).rev() {
            let Some(snapshot) = table.snapshot(id).await? else {
                break;
            };
            if snapshot.time_millis < recent {
                break;
            }
            if snapshot.commit_kind == CommitKind::Compact && snapshot.commit_user != ours {
                // A former run of this job is no other program.
                return Ok(!snapshot.commit_user.contains(USER_INFIX));
            }
        }
        Ok(false)
    }

    /// A user that only this process has: its numbers begin at 1.
    fn user(&self, job: &Job) -> String {
        format!(
            "{}-{}{USER_INFIX}{}",
            job.settings.commit_user_prefix, job.settings.name, job.instance
        )
    }

    /// Full compactions make the changelog, or are asked for every so many commits.
    fn full_is_due(&self, name: &TableName, options: &TableOptions) -> bool {
        let every = match options.compaction.full_delta_commits {
            Some(commits) => commits,
            None if options.changelog.producer == ChangelogProducer::FullCompaction => 1,
            None => return false,
        };
        let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        let sweep = sweeps.entry(name.clone()).or_default();
        sweep.since_full += 1;
        let due = sweep.since_full >= every;
        if due {
            sweep.since_full = 0;
        }
        due
    }

    fn sweep_is_due(&self, name: &TableName) -> bool {
        let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        let sweep = sweeps.entry(name.clone()).or_default();
        sweep.commits += 1;
        let due = sweep.commits >= COMMITS_PER_EXPIRY || sweep.last.elapsed() >= TIME_PER_EXPIRY;
        if due {
            sweep.commits = 0;
            sweep.last = Instant::now();
        }
        due
    }

    /// To its end, also when the job is told to stop meanwhile: between two steps of an expiry old
    /// snapshots name files that are gone.
    async fn sweep(&self, job: &Job, table: &Table) -> Result<()> {
        let (of, held) = (table.clone(), self.sweeping.clone());
        let sweep = tokio::spawn(async move {
            let _held = held.lock().await;
            sweep(&of).await
        });
        let expired = sweep.await.map_err(|error| {
            JobError::Internal(format!("expiry of {}: {error}", table.name()))
        })??;
        if expired.snapshots > 0 {
            tracing::debug!(
                job = job.settings.name,
                table = table.name(),
                snapshots = expired.snapshots,
                files = expired.files,
                bytes = expired.bytes,
                "expired"
            );
        }
        Ok(())
    }

    /// Waits, not for ever, until no snapshot is half expired.
    pub async fn settled(&self) {
        let _ = tokio::time::timeout(SETTLING_MAX, self.sweeping.lock()).await;
    }

    async fn expire_partitions(
        &self,
        job: &Job,
        name: &TableName,
        table: &Table,
        expiry: &PartitionExpiry,
    ) -> Result<()> {
        {
            let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(sweep) = sweeps.get_mut(name) else {
                return Ok(());
            };
            let young = |last: Instant| last.elapsed() < expiry.check_interval;
            if sweep.partitions.is_some_and(young) {
                return Ok(());
            }
            sweep.partitions = Some(Instant::now());
        }
        let now = jiff::ZonedDateTime::now().datetime();
        let old = table.expired_partitions(expiry, now).await?;
        if old.is_empty() {
            return Ok(());
        }
        let count = old.len();
        let identifier = self.identifier.fetch_add(1, Ordering::Relaxed);
        table
            .drop_partitions(&self.user(job), identifier, old)
            .await?;
        tracing::info!(table = %name, partitions = count, "partitions expired");
        Ok(())
    }
}

async fn sweep(table: &Table) -> Result<Expired> {
    if let Some(mut tagger) = AutoTagger::new(table.clone()).await? {
        tagger.run().await?;
    }
    table.expire_tags().await?;
    let retention = Retention::of(table.schema())?;
    Ok(table.expire_snapshots(&retention).await?)
}

/// Says that somebody works, and that nobody does when it is dropped.
struct Idle<'a>(&'a watch::Sender<State>);

impl<'a> Idle<'a> {
    fn begin(state: &'a watch::Sender<State>) -> Self {
        state.send_modify(|state| {
            state.is_idle = false;
            state.running = None;
        });
        Self(state)
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|state| {
            state.is_idle = true;
            state.running = None;
        });
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
