//! `headwater verify`: source and lake compared row by row at a checkpoint.
//!
//! The newest committed checkpoint names one snapshot of every sink table: a consistent state of
//! the whole database. Each table is compared with the source in bounded memory (`compare`).
//! While the job runs the source may be ahead of the checkpoint: what is not equal then is looked
//! at again at later checkpoints (`again`).

mod again;
mod compare;
mod groups;
mod hash;
mod lake;
mod reading;
mod report;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use again::{Open, Outcome, Waited};
use compare::{Budget, Comparison, Suspect, TableReading};
use futures::{StreamExt, stream};
use hash::RowHasher;
use headwater_connectors::{Source, TableName, TableSchema};
use lake::Lake;
use reading::SourceReading;
pub use report::{Difference, ListedKey, Report, TableVerdict, Verdict};
pub(crate) use report::{counted, thousands};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    checkpoint::{Lease, Marker, Record, StateError, StateStore, TableState},
    clock,
    error::{JobError, Result},
    job::{Job, limit::ReadLimit},
};

/// Tables compared at the same time.
const TABLES_AT_ONCE: usize = 2;
/// How often a new checkpoint is looked for.
const POLL: Duration = Duration::from_millis(300);

/// How to compare.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// How long checkpoints of a running job are waited for, in all.
    pub timeout: Duration,
    /// Keys listed for each table.
    pub max_listed_keys: usize,
    /// Rows whose hashes are held at the same time, and differing keys held in all; about 100
    /// bytes each.
    pub memory_rows: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            max_listed_keys: 20,
            memory_rows: 1_000_000,
        }
    }
}

/// Compares every captured table of a job with its source at the newest committed checkpoint.
/// The job may be running elsewhere; nothing is written.
///
/// # Errors
/// When there is no checkpoint, or the state or the source cannot be read. What goes wrong with a
/// single table stands in its verdict instead.
pub async fn verify(job: &Job, options: &VerifyOptions) -> Result<Report> {
    let verifier = Verifier {
        source: job.source.clone(),
        state: &job.state,
        lake: &job.catalog,
        concurrent_chunks: job.settings.concurrent_chunks,
        limit: Arc::new(ReadLimit::new(job.settings.rates)),
        options,
    };
    verifier.run().await
}

/// A comparison under way.
struct Verifier<'a> {
    source: Arc<dyn Source>,
    state: &'a StateStore,
    lake: &'a dyn Lake,
    concurrent_chunks: usize,
    limit: Arc<ReadLimit>,
    options: &'a VerifyOptions,
}

/// A committed checkpoint: a consistent state of the whole lake.
#[derive(Debug, Clone)]
struct Cut {
    record: Record,
    marker: Marker,
}

impl Verifier<'_> {
    async fn run(&self) -> Result<Report> {
        let report = self.compare_all().await?;
        let started = !report.job_running && Lease::holder(self.state).await?.is_some();
        if started && !report.equal() {
            tracing::info!("the job was started meanwhile: comparing again, beside it");
            return self.compare_all().await;
        }
        Ok(report)
    }

    async fn compare_all(&self) -> Result<Report> {
        let deadline = Instant::now() + self.options.timeout;
        let running = Lease::holder(self.state).await?.is_some();
        let mut notes = Vec::new();
        let cut = self.begin(running, deadline, &mut notes).await?;
        let mut schemas = self.source.tables(&cut.record.source)?;
        schemas.retain(|schema| {
            let mut tables = cut.record.tables.iter();
            let dropped = tables.any(|table| table.source == schema.name && table.dropped);
            if dropped {
                notes.push(format!(
                    "{} is gone at the source: its sink table stays, and is not compared",
                    schema.name
                ));
            }
            !dropped
        });
        let budget = Arc::new(Budget::new(self.options.memory_rows));
        let (budget, first) = (&budget, &cut);
        let compared: Vec<(TableVerdict, Option<Open>)> =
            stream::iter(schemas.into_iter().enumerate())
                .map(|(index, schema)| async move {
                    self.table(index, schema, first, running, budget).await
                })
                .buffered(TABLES_AT_ONCE)
                .collect()
                .await;
        let (mut tables, mut open) = (Vec::new(), Vec::new());
        for (verdict, suspects) in compared {
            tables.push(verdict);
            open.extend(suspects);
        }
        let mut last = cut;
        if running {
            // The wait is counted from here: comparing may have taken hours.
            let deadline = Instant::now() + self.options.timeout;
            let outcome = again::look_again(self, open, deadline).await?;
            last = self
                .take_outcome(outcome, &mut tables, &mut notes)
                .unwrap_or(last);
        } else {
            for table in open {
                if let Some(verdict) = tables.get_mut(table.table) {
                    for watched in table.keys {
                        self.count(verdict, &table.schema, watched.suspect);
                    }
                }
            }
            self.note_standing_job(&last, &mut notes).await?;
        }
        tables.iter_mut().for_each(TableVerdict::judge);
        tables.sort_by(|left, right| left.source.cmp(&right.source));
        Ok(Report {
            checkpoint: last.record.number,
            position: last.record.source.position.to_string(),
            created_ms: last.record.created_ms,
            job_running: running,
            tables,
            notes,
        })
    }

    /// The checkpoint to begin with: of a running job one at which every table's snapshot is
    /// wholly in, when there is one in time. The source is waited for until it shows all of it.
    async fn begin(
        &self,
        running: bool,
        deadline: Instant,
        notes: &mut Vec<String>,
    ) -> Result<Cut> {
        let mut cut = self.newest().await?;
        if running && !cut.record.snapshot_is_complete() {
            tracing::info!("the snapshot phase is not finished: waiting for it");
            cut = match self
                .wait_for(deadline, |cut| cut.record.snapshot_is_complete())
                .await?
            {
                Waited::Reached(cut) => *cut,
                Waited::JobEnded | Waited::TimedOut => self.newest().await?,
            };
        }
        if !running {
            self.adopt_others(&mut cut, notes).await?;
        }
        if cut.record.captured().any(|table| table.splits.is_empty()) {
            notes.push(
                "some tables were taken up without the rows they had (latest-offset): those count \
                 as missing unless they changed since"
                    .to_owned(),
            );
        }
        let position = &cut.record.source.position;
        let shown = self.source.round_low(position);
        match timeout(self.options.timeout.max(Duration::from_secs(10)), shown).await {
            Ok(low) => low.map(|_| cut.clone()).map_err(JobError::from),
            Err(_) => Err(JobError::Definite(format!(
                "the source has not executed all of checkpoint {} (position {position}) within \
                 {} s: is it a replica that lags, or another server?",
                cut.record.number,
                self.options.timeout.as_secs()
            ))),
        }
    }

    /// What someone else wrote after the checkpoint of a standing job is what readers see now.
    async fn adopt_others(&self, cut: &mut Cut, notes: &mut Vec<String>) -> Result<()> {
        let user = &cut.record.commit_user;
        for table in cut.record.captured() {
            let name = table.sink.to_string();
            let snapshot = cut.marker.snapshots.get(&name).copied().unwrap_or(0);
            if let Some((newer, by)) = self.lake.newer_by_others(table, snapshot, user).await? {
                notes.push(format!(
                    "{name} was written by '{by}' after the job's checkpoint: compared at its \
                     snapshot {newer}"
                ));
                cut.marker.snapshots.insert(name, newer);
            }
        }
        Ok(())
    }

    /// The newest committed checkpoint. A running job prunes old records: tried again when one is
    /// gone between two looks.
    async fn newest(&self) -> Result<Cut> {
        let mut tries = 0;
        loop {
            match self.try_newest().await {
                Err(JobError::State(StateError::Damaged { .. })) if tries < 5 => {}
                Err(error) if error.is_transient() && tries < 5 => {}
                other => return other,
            }
            tries += 1;
            sleep(POLL).await;
        }
    }

    async fn try_newest(&self) -> Result<Cut> {
        let none = || {
            JobError::Definite(format!(
                "there is no committed checkpoint in {}: nothing to compare yet. Run the job \
                 first (headwater run), or look at state.path and pipeline.name in the job file",
                self.state.folder()
            ))
        };
        let (newest, marked) = self.state.newest().await?.ok_or_else(none)?;
        let record = match marked {
            true => newest,
            // Its tables are being committed: the one before is whole.
            false if newest.number > 1 => self.state.record(newest.number - 1).await?,
            false => return Err(none()),
        };
        let marker = self.state.marker(record.number).await?.ok_or_else(none)?;
        Ok(Cut { record, marker })
    }

    async fn job_has_ended(&self) -> Result<bool> {
        let lease = Lease::read(self.state).await?;
        Ok(lease.is_none_or(|lease| !lease.may_be_held()))
    }

    /// Chunks of one table read at the same time.
    fn workers(&self) -> usize {
        (self.concurrent_chunks / TABLES_AT_ONCE).max(1)
    }

    /// Compares one table. Its suspects stay open.
    async fn table(
        &self,
        index: usize,
        schema: Arc<TableSchema>,
        cut: &Cut,
        running: bool,
        budget: &Arc<Budget>,
    ) -> (TableVerdict, Option<Open>) {
        let state = cut
            .record
            .tables
            .iter()
            .find(|table| table.source == schema.name);
        let mut verdict = verdict_of(&schema.name, state, cut);
        let Some(state) = state else {
            verdict.verdict = Verdict::Failed;
            verdict.error = Some("the checkpoint has its schema but not its state".to_owned());
            return (verdict, None);
        };
        if state.is_reading() {
            verdict.verdict = Verdict::Incomplete;
            return (verdict, None);
        }
        let compared = self.compare(&schema, state, cut, running, budget).await;
        let (comparison, hasher) = match compared {
            Ok(compared) => compared,
            Err(error) => {
                verdict.verdict = Verdict::Failed;
                verdict.error = Some(error.to_string());
                return (verdict, None);
            }
        };
        verdict.source_rows = comparison.source_rows;
        verdict.lake_rows = comparison.lake_rows;
        verdict.at_least = comparison.at_least;
        tracing::info!(
            table = %schema.name,
            source_rows = comparison.source_rows,
            lake_rows = comparison.lake_rows,
            not_equal = comparison.suspects.len(),
            "compared"
        );
        let open = Open {
            table: index,
            schema,
            state: state.clone(),
            hasher,
            keys: comparison.suspects.into_iter().map(Into::into).collect(),
        };
        (verdict, Some(open))
    }

    async fn compare(
        &self,
        schema: &Arc<TableSchema>,
        state: &TableState,
        cut: &Cut,
        running: bool,
        budget: &Arc<Budget>,
    ) -> Result<(Comparison, Arc<RowHasher>)> {
        let hasher = Arc::new(RowHasher::new(schema)?);
        let source = SourceReading {
            source: self.source.clone(),
            workers: self.workers(),
            limit: self.limit.clone(),
        };
        let reading = TableReading {
            source: &source,
            lake: self.lake,
            schema: schema.clone(),
            state,
            hasher: hasher.clone(),
            memory_rows: (self.options.memory_rows / TABLES_AT_ONCE).max(1),
            budget,
        };
        let snapshot_of = |cut: &Cut| cut.marker.snapshots.get(&state.sink.to_string()).copied();
        let sums = reading.sums(snapshot_of(cut)).await?;
        // The source has moved on meanwhile, and so has the lake of a running job.
        let snapshot = match running {
            true => snapshot_of(&self.newest().await?),
            false => snapshot_of(cut),
        };
        Ok((reading.keys(snapshot, sums).await?, hasher))
    }

    /// Counts what is settled; gives the checkpoint that was looked at last.
    fn take_outcome(
        &self,
        outcome: Outcome,
        tables: &mut [TableVerdict],
        notes: &mut Vec<String>,
    ) -> Option<Cut> {
        if outcome.job_ended {
            notes.push(
                "the job ended while its next checkpoint was waited for: keys that changed since \
                 its last one are undecided. Start it and verify again"
                    .to_owned(),
            );
        }
        let cut = outcome.cut;
        if let Some(cut) = &cut {
            for verdict in tables.iter_mut() {
                if verdict.verdict == Verdict::Equal {
                    verdict.checkpoint = cut.record.number;
                    verdict.snapshot = cut.marker.snapshots.get(&verdict.sink).copied();
                }
            }
        }
        for settled in outcome.settled {
            if let Some(verdict) = tables.get_mut(settled.table) {
                self.count(verdict, &settled.schema, settled.suspect);
            }
        }
        cut
    }

    fn count(&self, verdict: &mut TableVerdict, schema: &TableSchema, suspect: Suspect) {
        let names = schema.primary_key.iter();
        let parts: Vec<String> = names
            .zip(&suspect.key)
            .map(|(name, value)| format!("{name}={}", self.source.key_text(value)))
            .collect();
        let room = self.options.max_listed_keys;
        verdict.count(parts.join(", "), suspect.difference, room);
    }

    /// What to know when the job is not running.
    async fn note_standing_job(&self, cut: &Cut, notes: &mut Vec<String>) -> Result<()> {
        let high = self.source.round_high().await?;
        if cut.record.source.position.is_at_or_after(&high) {
            return Ok(());
        }
        let age = clock::now_ms().saturating_sub(cut.record.created_ms).max(0) / 1000;
        notes.push(format!(
            "the job is not running and the source has moved since its checkpoint {} ({}): what \
             changed since counts as not equal. Start the job and verify again",
            cut.record.number,
            match age {
                0..120 => format!("{age} s ago"),
                120..7200 => format!("{} min ago", age / 60),
                _ => format!("{} h ago", age / 3600),
            }
        ));
        Ok(())
    }
}

/// A verdict with nothing counted yet.
fn verdict_of(name: &TableName, state: Option<&TableState>, cut: &Cut) -> TableVerdict {
    let sink = state
        .map(|state| state.sink.to_string())
        .unwrap_or_default();
    TableVerdict {
        source: name.to_string(),
        checkpoint: cut.record.number,
        snapshot: cut.marker.snapshots.get(&sink).copied(),
        sink,
        source_rows: 0,
        lake_rows: 0,
        missing: 0,
        extra: 0,
        different: 0,
        doubled: 0,
        undecided: 0,
        at_least: false,
        keys: Vec::new(),
        error: None,
        verdict: Verdict::Equal,
    }
}
