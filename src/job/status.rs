//! What the job is doing, for people: read by the progress display and the logs, never by the job.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use headwater_connectors::{TableName, change::TailProgress};
use tokio::sync::watch;

/// Shared view of a running job.
#[derive(Debug)]
pub struct Status {
    inner: Mutex<Inner>,
    tail: watch::Receiver<TailProgress>,
    tail_sender: watch::Sender<TailProgress>,
}

/// A copy of the view at one moment.
#[derive(Debug, Clone)]
pub struct Inner {
    /// When the job began to run.
    pub began: Instant,
    /// Snapshot progress of each captured table.
    pub tables: BTreeMap<TableName, TableProgress>,
    /// The newest committed checkpoint.
    pub checkpoint: Option<CheckpointProgress>,
    /// Times the job has begun again after a transient error.
    pub retries: u64,
    /// The last transient error, until a checkpoint succeeds after it.
    pub last_error: Option<String>,
    /// Files committed in this run so far.
    pub committed_files: u64,
    /// A checkpoint was committed since this was last looked at.
    progressed: bool,
}

/// Snapshot progress of a table.
#[derive(Debug, Clone, Default)]
pub struct TableProgress {
    /// Rows that the server estimated.
    pub estimated_rows: u64,
    /// Rows read so far.
    pub read_rows: u64,
    /// Splits that are not wholly read.
    pub open_splits: usize,
    /// Everything has been read (and waits for its checkpoint at the most).
    pub done: bool,
}

/// A committed checkpoint.
#[derive(Debug, Clone)]
pub struct CheckpointProgress {
    /// Its number.
    pub number: i64,
    /// Its position, as text.
    pub position: String,
    /// Commit time of its last transaction, milliseconds since the epoch.
    pub event_time_ms: Option<i64>,
    /// When it was committed.
    pub committed: Instant,
    /// Milliseconds from the barrier to the marker.
    pub took_ms: u64,
    /// Tables that it committed.
    pub tables: usize,
}

impl Default for Status {
    fn default() -> Self {
        let (tail_sender, tail) = watch::channel(TailProgress::default());
        Self {
            inner: Mutex::new(Inner {
                began: Instant::now(),
                tables: BTreeMap::new(),
                checkpoint: None,
                retries: 0,
                last_error: None,
                committed_files: 0,
                progressed: false,
            }),
            tail,
            tail_sender,
        }
    }
}

impl Status {
    /// Where the tail reports to.
    pub fn tail_sender(&self) -> watch::Sender<TailProgress> {
        self.tail_sender.clone()
    }

    /// What the tail reported last.
    pub fn tail(&self) -> TailProgress {
        self.tail.borrow().clone()
    }

    /// What the tail reports, to be told when it does.
    pub fn tail_reports(&self) -> watch::Receiver<TailProgress> {
        self.tail.clone()
    }

    /// A copy of everything else.
    pub fn view(&self) -> Inner {
        self.lock().clone()
    }

    /// A checkpoint is committed.
    pub fn committed(&self, checkpoint: CheckpointProgress, files: u64) {
        self.update(|status| {
            status.checkpoint = Some(checkpoint);
            status.committed_files += files;
            status.last_error = None;
            status.progressed = true;
        });
    }

    /// Whether a checkpoint was committed since the last call.
    pub fn take_progress(&self) -> bool {
        std::mem::take(&mut self.lock().progressed)
    }

    /// Changes the view.
    pub fn update(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
