//! Walking all rows of a table, at the source chunk by chunk and in the lake bucket by bucket.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use headwater_connectors::{ChunkEnd, ChunkReader, Meaning, Source, Split, TableSchema};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::lake::Rows;
use crate::{
    error::{JobError, Result},
    job::limit::ReadLimit,
};

/// Times a chunk is tried before its error counts.
const TRIES: u32 = 6;

/// What is done with rows.
pub(super) trait Visitor: Send + Sync + 'static {
    /// What is kept of a batch until its chunk is known to be whole.
    type Part: Send;

    /// Looks at a batch. Its chunk may yet be read again.
    fn look(&self, batch: &RecordBatch) -> Result<Self::Part>;

    /// The batch counts.
    fn keep(&mut self, part: Self::Part);
}

/// How the source is read.
pub(super) struct SourceReading {
    pub(super) source: Arc<dyn Source>,
    /// Chunks of one table read at the same time.
    pub(super) workers: usize,
    /// Rows a second over all workers.
    pub(super) limit: Arc<ReadLimit>,
}

impl SourceReading {
    /// Shows every row of a table to visitors, one for each worker, and gives them back.
    pub(super) async fn visit<V: Visitor>(
        &self,
        schema: &Arc<TableSchema>,
        visitor: impl Fn() -> V,
    ) -> Result<Vec<V>> {
        let splits = self.source.splits(schema, self.workers.max(1)).await?;
        let queue = Arc::new(Mutex::new(VecDeque::from(splits)));
        let mut tasks = JoinSet::new();
        for _ in 0..self.workers.max(1) {
            let worker = Worker {
                source: self.source.clone(),
                schema: schema.clone(),
                limit: self.limit.clone(),
                visitor: visitor(),
            };
            tasks.spawn(worker.work(queue.clone()));
        }
        all(tasks).await
    }
}

struct Worker<V> {
    source: Arc<dyn Source>,
    schema: Arc<TableSchema>,
    limit: Arc<ReadLimit>,
    visitor: V,
}

impl<V: Visitor> Worker<V> {
    async fn work(mut self, queue: Arc<Mutex<VecDeque<Split>>>) -> Result<V> {
        let mut reader = None;
        while let Some(mut split) = pop(&queue) {
            while !self.chunk(&mut reader, &mut split).await? {}
        }
        Ok(self.visitor)
    }

    /// Reads the next chunk of a split; true when it was the last. What was seen of a chunk that
    /// fails does not count.
    async fn chunk(
        &mut self,
        reader: &mut Option<Box<dyn ChunkReader>>,
        split: &mut Split,
    ) -> Result<bool> {
        let mut wait = Duration::from_millis(200);
        for attempt in 1.. {
            match self.try_chunk(reader, split).await {
                Ok((end, parts)) => {
                    parts.into_iter().for_each(|part| self.visitor.keep(part));
                    return advance(split, end);
                }
                Err(JobError::Source(error)) if error.means(Meaning::SchemaChanged) => {
                    return Err(JobError::Definite(
                        "its columns changed after the checkpoint: the job stops at that \
                         statement; see its log"
                            .to_owned(),
                    ));
                }
                Err(error) if error.is_transient() && attempt < TRIES => {
                    tracing::warn!(table = %split.table, %error, "reading a chunk again");
                    *reader = None;
                    sleep(wait).await;
                    wait *= 2;
                }
                Err(error) => return Err(error),
            }
        }
        Err(JobError::Internal("a chunk was given up".to_owned()))
    }

    async fn try_chunk(
        &self,
        reader: &mut Option<Box<dyn ChunkReader>>,
        split: &Split,
    ) -> Result<(ChunkEnd, Vec<V::Part>)> {
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(self.source.reader().await?),
        };
        let (batches, mut received) = mpsc::channel::<RecordBatch>(2);
        let read = async {
            let end = reader.read(&self.schema, split, &batches).await;
            drop(batches);
            end
        };
        // Owns `received`: when looking fails, the reader must not wait for room.
        let look = async move {
            let mut parts = Vec::new();
            while let Some(batch) = received.recv().await {
                parts.push(self.visitor.look(&batch)?);
                self.limit.read(&batch).await;
            }
            Ok::<_, JobError>(parts)
        };
        let (end, parts) = tokio::join!(read, look);
        let parts = parts?;
        Ok((end?, parts))
    }
}

/// Moves a split behind the chunk; true when nothing is left of it.
fn advance(split: &mut Split, end: ChunkEnd) -> Result<bool> {
    match end {
        ChunkEnd::Done => Ok(true),
        ChunkEnd::More(last) if split.after.as_ref() == Some(&last) => {
            Err(JobError::Definite(format!(
                "table {}: a chunk ended at the key at which it began ({}): the server does not \
                 order this key as it compares it",
                split.table,
                last.join(", ")
            )))
        }
        ChunkEnd::More(last) => {
            split.after = Some(last);
            Ok(false)
        }
    }
}

/// Shows every row of some buckets to visitors, one for each worker, and gives them back.
pub(super) async fn visit_buckets<V: Visitor>(
    buckets: Vec<Rows>,
    workers: usize,
    visitor: impl Fn() -> V,
) -> Result<Vec<V>> {
    let queue = Arc::new(Mutex::new(VecDeque::from(buckets)));
    let mut tasks = JoinSet::new();
    for _ in 0..workers.max(1) {
        let queue = queue.clone();
        let mut visitor = visitor();
        tasks.spawn(async move {
            while let Some(mut rows) = pop(&queue) {
                while let Some(batch) = rows.try_next().await? {
                    let part = visitor.look(&batch)?;
                    visitor.keep(part);
                }
            }
            Ok(visitor)
        });
    }
    all(tasks).await
}

/// Waits for all, or for the first error.
async fn all<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut ended = Vec::new();
    while let Some(task) = tasks.join_next().await {
        let task = task.map_err(|error| JobError::Internal(format!("a comparison: {error}")))?;
        ended.push(task?);
    }
    Ok(ended)
}

fn pop<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    queue
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}
