//! Flushes in the background: buffers become files while the next rows come.

use std::sync::Arc;

use headwater_connectors::TableName;
use headwater_paimon::{CommitMessage, Table, WriteBuffer};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
};

use crate::error::{JobError, Result};

/// Buffers written at the same time.
const CONCURRENCY: usize = 2;

/// Bytes of rows that are on their way into files.
#[derive(Debug)]
pub(super) struct InFlight {
    bytes: watch::Sender<usize>,
    turns: Arc<Semaphore>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            bytes: watch::Sender::new(0),
            turns: Arc::new(Semaphore::new(CONCURRENCY)),
        }
    }
}

impl InFlight {
    /// Waits until at most so many bytes are on their way, or none.
    pub(super) async fn wait_until_at_most(&self, bytes: usize) {
        // The sender lives as long as we do.
        let _ = self.bytes.subscribe().wait_for(|now| *now <= bytes).await;
    }

    fn book(&self, bytes: usize) -> Booked {
        self.bytes.send_modify(|now| *now += bytes);
        Booked {
            bytes,
            all: self.bytes.clone(),
        }
    }
}

/// Bytes that are free again when this is dropped.
struct Booked {
    bytes: usize,
    all: watch::Sender<usize>,
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.all
            .send_modify(|now| *now = now.saturating_sub(self.bytes));
    }
}

/// A buffer on its way into files.
#[derive(Debug)]
pub(super) struct Flush {
    name: TableName,
    table: Table,
    task: JoinHandle<Result<Vec<CommitMessage>>>,
}

impl Flush {
    pub(super) fn begin(
        name: TableName,
        table: Table,
        mut buffer: WriteBuffer,
        in_flight: &InFlight,
    ) -> Self {
        let booked = in_flight.book(buffer.buffered_bytes());
        let turns = in_flight.turns.clone();
        let task = tokio::spawn(async move {
            let _turn = turns.acquire_owned().await;
            let written = buffer.flush().await;
            drop(buffer);
            drop(booked);
            Ok(written?)
        });
        Self { name, table, task }
    }

    pub(super) fn is_of(&self, name: &TableName) -> bool {
        self.name == *name
    }
}

/// The flushes that a checkpoint waits for.
#[derive(Debug)]
#[must_use = "files that no record names stay behind"]
pub struct Flushing {
    flushes: Vec<Flush>,
}

impl Flushing {
    pub(super) fn new(flushes: Vec<Flush>) -> Self {
        Self { flushes }
    }

    /// Waits for all of them; gives the files by source table, those of one table in the order in
    /// which its flushes began. They are durable and invisible. When one fails, the files of the
    /// others are deleted.
    pub async fn finish(self) -> Result<Vec<(TableName, Vec<CommitMessage>)>> {
        let (done, failure) = self.join().await;
        match failure {
            None => Ok(done
                .into_iter()
                .map(|(name, _, messages)| (name, messages))
                .collect()),
            Some(error) => {
                discard(done).await;
                Err(error)
            }
        }
    }

    /// Waits for all of them and deletes their files.
    pub async fn discard(self) {
        discard(self.join().await.0).await;
    }

    async fn join(
        self,
    ) -> (
        Vec<(TableName, Table, Vec<CommitMessage>)>,
        Option<JobError>,
    ) {
        let (mut done, mut failure) = (Vec::new(), None);
        for Flush { name, table, task } in self.flushes {
            match task.await {
                Ok(Ok(messages)) => done.push((name, table, messages)),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(error) => {
                    let error = JobError::Internal(format!("a flush of {name}: {error}"));
                    failure = failure.or(Some(error));
                }
            }
        }
        (done, failure)
    }
}

async fn discard(files: Vec<(TableName, Table, Vec<CommitMessage>)>) {
    for (_, table, messages) in files {
        table.discard(&messages).await;
    }
}
