//! The job: begins from the newest checkpoint, runs the tail and the rounds beside it, takes
//! checkpoints, and begins again after whatever heals by itself.

mod begin;
mod follow;
pub mod gate;
mod index;
pub mod limit;
mod pipeline;
mod prepare;
pub mod settings;
#[cfg(test)]
mod simulation;
pub mod snapshot;
pub mod status;
mod tables;
pub mod upkeep;

use std::{sync::Arc, time::Duration};

use headwater_connectors::{Meaning, Source};
use headwater_paimon::Catalog;
pub use settings::{Settings, Startup};
pub use status::Status;
use tokio_util::sync::CancellationToken;
use upkeep::Upkeep;

use crate::{
    checkpoint::{Lease, StateStore, lease},
    error::{JobError, Result},
    sink::Committer,
};

/// Longest wait for a source before it is tried again.
const SOURCE_RETRY_MAX: Duration = Duration::from_secs(3);

/// A job and everything it works with.
pub struct Job {
    /// What it was told.
    pub settings: Settings,
    /// Where rows come from.
    pub source: Arc<dyn Source>,
    /// Where tables are.
    pub catalog: Catalog,
    /// Commits checkpoints.
    pub committer: Committer,
    /// Where its progress stands.
    pub state: StateStore,
    /// Compaction and expiry beside the rows.
    pub upkeep: Upkeep,
    /// For people.
    pub status: Arc<Status>,
    /// Names this process in what it writes.
    pub instance: String,
}

/// How a job ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop; the final checkpoint is committed.
    Stopped,
    /// It was told to stop, and no transaction edge came in time: it goes on from the checkpoint
    /// before. Nothing is lost.
    StoppedWithoutCheckpoint,
    /// Startup mode `snapshot`: everything is read and committed.
    SnapshotComplete,
}

impl Job {
    /// A job; nothing is read or written.
    pub fn new(
        settings: Settings,
        source: Arc<dyn Source>,
        catalog: Catalog,
        state: StateStore,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            source,
            committer: Committer::new(catalog.clone()),
            catalog,
            state,
            upkeep: Upkeep::default(),
            status: Arc::new(Status::default()),
            instance: uuid::Uuid::new_v4().to_string(),
        })
    }

    /// Waits until no other instance runs the job, as far as its lease tells. Done before a run:
    /// that two instances never both commit is not the lease's doing.
    pub async fn wait_free(&self) -> Result<()> {
        match Lease::wait_free(&self.state).await? {
            Ok(()) => Ok(()),
            Err(holder) => Err(JobError::Held { holder }),
        }
    }

    /// Runs until `shutdown`, the end of a snapshot job, or an error that does not heal by itself.
    pub async fn run(self: &Arc<Self>, shutdown: CancellationToken) -> Result<Ended> {
        let mut renewing = None;
        let ended = self.run_leased(&mut renewing, &shutdown).await;
        if let Some(renewing) = renewing {
            renewing.release(self).await;
        }
        ended
    }

    async fn run_leased(
        self: &Arc<Self>,
        renewing: &mut Option<Renewing>,
        shutdown: &CancellationToken,
    ) -> Result<Ended> {
        let mut epoch = None;
        let mut retry = Retry::new(self.settings.retry_max);
        let mut start_over = false;
        loop {
            let attempt = self.attempt(&mut epoch, renewing, start_over, shutdown);
            let error = match attempt.await {
                Err(error) if error.is_transient() && shutdown.is_cancelled() => {
                    tracing::warn!(%error, "no final checkpoint");
                    return Ok(Ended::StoppedWithoutCheckpoint);
                }
                Err(error) if error.is_transient() => error,
                ended => return ended,
            };
            if error.asks_for_another_run() {
                tracing::info!(reason = %error, "beginning again from the newest checkpoint");
                start_over = false;
                continue;
            }
            start_over =
                matches!(&error, JobError::Source(error) if error.means(Meaning::StartOver));
            self.status.update(|status| {
                status.retries += 1;
                status.last_error = Some(error.to_string());
            });
            let made_progress = self.status.take_progress();
            let wait = match &error {
                // A server that answers again is not kept waiting.
                JobError::Source(_) => retry.next(made_progress).min(SOURCE_RETRY_MAX),
                _ => retry.next(made_progress),
            };
            tracing::warn!(error = %error, retry_in_ms = wait.as_millis() as u64, "trying again");
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = shutdown.cancelled() => return Ok(Ended::StoppedWithoutCheckpoint),
            }
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        epoch: &mut Option<u64>,
        renewing: &mut Option<Renewing>,
        start_over: bool,
        shutdown: &CancellationToken,
    ) -> Result<Ended> {
        // What it waits for, such as the end of an XA transaction, may take for ever. To leave it
        // is what a kill does, at any of its steps.
        let beginning = tokio::select! {
            beginning = begin::begin(self, epoch, start_over) => beginning?,
            () = shutdown.cancelled() => return Ok(Ended::StoppedWithoutCheckpoint),
        };
        if renewing.is_none() {
            *renewing = Some(Renewing::start(self, beginning.record.epoch).await?);
        }
        pipeline::run(self, beginning, shutdown).await
    }
}

/// Keeps the lease renewed in the background until dropped.
struct Renewing {
    task: tokio::task::JoinHandle<()>,
    epoch: u64,
}

impl Renewing {
    async fn start(job: &Arc<Job>, epoch: u64) -> Result<Self> {
        let mut mine = Lease::mine(epoch);
        mine.take(&job.state).await?;
        let state = job.state.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(lease::RENEW).await;
                if let Err(error) = mine.renew(&state).await {
                    tracing::warn!(%error, "cannot renew the lease");
                }
            }
        });
        Ok(Self { task, epoch })
    }

    async fn release(self, job: &Job) {
        self.task.abort();
        if let Err(error) = Lease::mine(self.epoch).release(&job.state).await {
            tracing::warn!(%error, "cannot release the lease");
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits between attempts: doubled from half a second, capped, small again after progress.
struct Retry {
    wait: Duration,
    max: Duration,
}

impl Retry {
    const FIRST: Duration = Duration::from_millis(500);

    fn new(max: Duration) -> Self {
        Self {
            wait: Self::FIRST,
            max,
        }
    }

    fn next(&mut self, made_progress: bool) -> Duration {
        if made_progress {
            self.wait = Self::FIRST;
        }
        let wait = self.wait;
        self.wait = (wait * 2).min(self.max);
        wait
    }
}
