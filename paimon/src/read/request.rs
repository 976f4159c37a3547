//! The public way to read: which columns, which rows, of which snapshot.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;
use futures::{StreamExt, TryStreamExt};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    data_type::DataField,
    error::{Error, Result},
    snapshot::PaimonSnapshot,
    table::Table,
};

use super::{
    bucket::{BatchStream, BucketReader, Request},
    file::Wanted,
    plan::{Planner, Split},
    predicate::{Bound, Predicate},
};

/// Batches that wait for whoever takes them, for each worker.
const BATCHES_AHEAD: usize = 2;

/// What is to be read of a table: by default all columns of all rows of the newest snapshot.
///
/// Rows come as a reader of the format sees them: merged by the table's merge engine, deletes left
/// out, the columns in the types of the table's schema, however old the files are. Files and row
/// groups whose statistics say that they hold no row that matches the filter are not read.
///
/// ```no_run
/// # async fn example(table: headwater_paimon::Table) -> headwater_paimon::Result<()> {
/// use futures::TryStreamExt;
/// use headwater_paimon::{Predicate, binary_row::Value};
///
/// let read = table
///     .read()
///     .columns(["id", "name"])
///     .filter(Predicate::Gt("id".into(), Value::BigInt(1000)));
/// let mut batches = read.all(2).await?;
/// while let Some(batch) = batches.try_next().await? {
///     println!("{} rows", batch.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TableRead {
    table: Table,
    columns: Option<Vec<String>>,
    filter: Option<Predicate>,
    snapshot: Option<PaimonSnapshot>,
    limit: Option<usize>,
    older_than: Option<i64>,
}

impl Table {
    /// Begins to say what is to be read.
    pub fn read(&self) -> TableRead {
        TableRead {
            table: self.clone(),
            columns: None,
            filter: None,
            snapshot: None,
            limit: None,
            older_than: None,
        }
    }

    /// What is to be read for a snapshot, by partition and bucket.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables that need what this crate does not have.
    pub async fn scan(&self, snapshot: &PaimonSnapshot) -> Result<Vec<Split>> {
        self.read().snapshot(snapshot.clone()).splits().await
    }

    /// Reads a bucket: the live rows with the named columns in the order named (all of them for
    /// `None`), sorted by the key's columns where rows have to be merged. Holds about one row group
    /// a sorted run in memory.
    ///
    /// # Errors
    /// [`Error::Table`] for a column that isn't there; the stream ends at its first error.
    pub fn read_bucket(&self, split: &Split, projection: Option<&[&str]>) -> Result<BatchStream> {
        let read = match projection {
            None => self.read(),
            Some(names) => self.read().columns(names.iter().copied()),
        };
        read.open(split)
    }
}

impl TableRead {
    /// These columns, in this order.
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows for which this is true; a second filter is for the rows that the first leaves.
    pub fn filter(mut self, predicate: Predicate) -> Self {
        self.filter = Some(match self.filter.take() {
            None => predicate,
            Some(first) => Predicate::And(vec![first, predicate]),
        });
        self
    }

    /// This snapshot and not the newest one. Rows come with the columns of the table's schema as
    /// it is given; for those of then, read a table at the snapshot's schema.
    pub fn snapshot(mut self, snapshot: PaimonSnapshot) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// No more than so many rows, whichever come first.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Of a table with a primary key only the rows whose newest version has a sequence number below
    /// this one: those that nobody has written since.
    pub fn older_than(mut self, sequence: i64) -> Self {
        self.older_than = Some(sequence);
        self
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Arrow schema of the batches.
    ///
    /// # Errors
    /// [`Error::Table`] for a column that isn't there.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(Wanted::new(self.fields()?, &[]).schema().clone())
    }

    fn fields(&self) -> Result<Vec<DataField>> {
        let schema = self.table.schema();
        let Some(names) = &self.columns else {
            return Ok(schema.fields.clone());
        };
        let find = |name: &String| {
            let found = schema.field(name).map(|(_, field)| field.clone());
            found.ok_or_else(|| Error::Table {
                table: self.table.name().to_owned(),
                message: format!("no column '{name}'"),
            })
        };
        names.iter().map(find).collect()
    }

    fn bound(&self) -> Result<Option<Bound>> {
        let table = &self.table;
        let filter = self.filter.as_ref();
        filter
            .map(|filter| filter.bind(table.name(), table.schema()))
            .transpose()
    }

    pub(super) fn request(&self) -> Result<Request> {
        Ok(Request {
            fields: self.fields()?,
            filter: self.bound()?.map(Arc::new),
            limit: self.limit,
            older_than: self.older_than,
        })
    }

    /// The parts that can be read apart from each other: a bucket of a partition each. Empty when
    /// the table has no snapshot or no row can match.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables that need what this crate does not have, such as data
    /// files in another format than Parquet; [`Error::Table`] for columns that aren't there.
    pub async fn splits(&self) -> Result<Vec<Split>> {
        self.table.check_readable()?;
        self.fields()?;
        let filter = self.bound()?;
        let planner = Planner {
            table: &self.table,
            filter: filter.as_ref(),
            wants_level: &|_| true,
        };
        if let Some(snapshot) = &self.snapshot {
            return planner.plan(snapshot).await;
        }
        let planner = &planner;
        let splits = self
            .table
            .at_newest(|snapshot| async move { planner.plan(&snapshot).await });
        Ok(splits.await?.unwrap_or_default())
    }

    /// The rows of a split, at most as many as the limit says.
    ///
    /// # Errors
    /// As [`splits`](Self::splits); the stream ends at its first error.
    pub fn open(&self, split: &Split) -> Result<BatchStream> {
        let reader = BucketReader::new(&self.table, split.clone(), self.request()?)?;
        Ok(reader.into_stream())
    }

    /// The rows of all splits, `parallelism` of them at a time, each on a task of its own: batches
    /// come in no order, unless `parallelism` is 1. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// As [`splits`](Self::splits); the stream ends at its first error.
    pub async fn all(&self, parallelism: usize) -> Result<BatchStream> {
        let splits = self.splits().await?;
        let request = self.request()?;
        let workers = parallelism.clamp(1, splits.len().max(1));
        let (sender, receiver) = mpsc::channel(workers * BATCHES_AHEAD);
        let queue = Arc::new(Mutex::new(splits.into_iter()));
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let (table, request) = (self.table.clone(), request.clone());
            let (queue, sender) = (queue.clone(), sender.clone());
            tasks.spawn(async move {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(split) = next else {
                        return;
                    };
                    let reader = BucketReader::new(&table, split, request.clone());
                    let mut batches = match reader {
                        Ok(reader) => reader.into_stream(),
                        Err(error) => futures::stream::once(async { Err(error) }).boxed(),
                    };
                    while let Some(batch) = batches.next().await {
                        let is_end = batch.is_err();
                        // Nobody takes them any more, or nobody should.
                        if sender.send(batch).await.is_err() || is_end {
                            return;
                        }
                    }
                }
            });
        }
        drop(sender);
        let state = (receiver, tasks);
        let batches = futures::stream::unfold(state, |(mut receiver, mut tasks)| async move {
            let batch = match receiver.recv().await {
                Some(batch) => batch,
                None => Err(cut_off(&mut tasks).await?),
            };
            Some((batch, (receiver, tasks)))
        });
        Ok(until_enough(batches.boxed(), self.limit))
    }
}

/// Why a task did not come to its end: the rows that are missing then must not look like the end.
async fn cut_off(tasks: &mut JoinSet<()>) -> Option<Error> {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            return Some(Error::Internal(format!("a task that reads: {error}")));
        }
    }
    None
}

/// No more rows than the limit says, nothing behind an error.
fn until_enough(batches: BatchStream, limit: Option<usize>) -> BatchStream {
    let left = limit.unwrap_or(usize::MAX);
    futures::stream::try_unfold((batches, left), |(mut batches, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(batch) = batches.try_next().await? else {
            return Ok(None);
        };
        let batch = batch.slice(0, batch.num_rows().min(left));
        let left = left - batch.num_rows();
        Ok(Some((batch, (batches, left))))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_no_end() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        assert!(cut_off(&mut tasks).await.is_none());
        tasks.spawn(async {});
        tasks.spawn(async { panic!("in the middle") });
        let error = cut_off(&mut tasks).await.unwrap().to_string();
        assert!(
            error.contains("in the middle") || error.contains("panic"),
            "{error}"
        );
    }
}
