//! The sort buffer: collects changes in any order and writes them as level-0 files.
//!
//! Rows of one key are merged by the table's merge engine before they are written. With changelog
//! producer `input` all of them are written a second time, for readers of changes.
//!
//! Source of the rules: `MergeTreeWriter`, `SortBufferWriteBuffer`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch};
use futures::{StreamExt, stream};

use crate::{
    data_file::{FileLayout, KeyValueBatch, kind},
    data_file_meta::{CommitMessage, DataFileMeta},
    error::{Error, Result},
    index::{DynamicBucketAssigner, SharedBuckets},
    key_order::KeyOrder,
    placement::{Place, Placement, bind, bytes_of},
    storage,
    table::Table,
    table_options::Budget,
};

mod flush;
mod kinds;

use flush::{Flush, Merging, Written};
use kinds::Kinds;

/// Rows that are encoded at a time, at most.
pub(crate) const CHUNK_ROWS_MAX: usize = 8192;
/// Bytes of rows that are gathered at a time, about.
const CHUNK_BYTES: usize = 4 << 20;

/// How much a writer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSettings {
    /// Bytes of memory for rows and open files.
    pub max_buffered_bytes: usize,
    /// Bytes at which a file ends, where the table's option `target-file-size` does not say.
    pub target_file_bytes: u64,
    /// Buckets that are encoded at the same time.
    pub parallelism: usize,
}

impl Default for WriteSettings {
    /// 64 MiB of memory, files of 128 MiB (the format's default), as many buckets at a time as the
    /// machine has cores, and no more than 4.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            max_buffered_bytes: 64 << 20,
            target_file_bytes: 128 << 20,
            parallelism: cores.min(4),
        }
    }
}

/// A batch as it came, bound to the table.
#[derive(Debug)]
struct Buffered {
    columns: Vec<ArrayRef>,
    rows: usize,
    kinds: Option<Vec<i8>>,
    first_sequence: i64,
}

impl Buffered {
    fn kind(&self, row: usize) -> i8 {
        let kinds = self.kinds.as_ref();
        kinds
            .and_then(|kinds| kinds.get(row))
            .copied()
            .unwrap_or(kind::INSERT)
    }

    /// Rows that stand one behind the other; nothing but kinds is copied.
    fn rows_of(&self, offset: usize, length: usize) -> KeyValueBatch {
        let slice = |column: &ArrayRef| column.slice(offset, length);
        let first = self.first_sequence + offset as i64;
        let kinds = (offset..offset + length).map(|row| self.kind(row));
        KeyValueBatch {
            columns: self.columns.iter().map(slice).collect(),
            sequences: Int64Array::from_iter_values(first..first + length as i64),
            kinds: Int8Array::from_iter_values(kinds),
        }
    }
}

/// Collects changes of one table and writes them as level-0 files.
#[derive(Debug)]
pub struct WriteBuffer {
    table: Table,
    layout: Arc<FileLayout>,
    merging: Arc<Merging>,
    order: Arc<KeyOrder>,
    kinds: Kinds,
    parallelism: usize,
    target_file_bytes: u64,
    batches: Arc<Vec<Buffered>>,
    buffered_bytes: usize,
    /// For tables with dynamic buckets.
    dynamic: Option<SharedBuckets>,
    /// Nobody else places rows: a flush writes the index of buckets too.
    is_only_writer: bool,
}

impl WriteBuffer {
    /// For a table with a primary key, with fixed or dynamic buckets. Of the latter there may be one
    /// writer at a time, and what a flush returned must be committed or the buffer given up. Options
    /// that would give rows another meaning are refused.
    pub fn new(table: Table, settings: WriteSettings) -> Result<Self> {
        table.check_has_key()?;
        let dynamic = match table.schema().has_dynamic_buckets() {
            true => Some(SharedBuckets::new(DynamicBucketAssigner::new(&table)?)),
            // Refuses what cannot be placed, before rows come.
            false => Placement::new(&table).map(|_| None)?,
        };
        Ok(Self {
            dynamic,
            ..Self::placing(table, settings, None)?
        })
    }

    /// As [`new`](Self::new), for a table with dynamic buckets that has other writers in this
    /// process: `buckets` are theirs too. Messages of [`flush`](Self::flush) hold data files only;
    /// whoever commits adds what [`SharedBuckets::prepare`] says when all writers are done.
    pub fn with_buckets(
        table: Table,
        settings: WriteSettings,
        buckets: SharedBuckets,
    ) -> Result<Self> {
        table.check_has_key()?;
        Ok(Self {
            is_only_writer: false,
            ..Self::placing(table, settings, Some(buckets))?
        })
    }

    fn placing(
        table: Table,
        settings: WriteSettings,
        dynamic: Option<SharedBuckets>,
    ) -> Result<Self> {
        let budget = Budget::new(table.schema())?;
        let layout = FileLayout::new(&table)?;
        Ok(Self {
            order: Arc::new(layout.key_order()?),
            merging: Arc::new(Merging::new(table.schema())?),
            kinds: Kinds::new(table.schema())?,
            layout,
            table,
            parallelism: settings.parallelism.max(1),
            target_file_bytes: budget
                .target_file_bytes
                .unwrap_or(settings.target_file_bytes),
            batches: Arc::default(),
            buffered_bytes: 0,
            dynamic,
            is_only_writer: true,
        })
    }

    /// Takes in changes. Columns are bound by name; a missing nullable column is NULL; a missing
    /// NOT NULL or an unknown column, or another Arrow type than
    /// [`DataType::arrow`](crate::DataType::arrow), is an error, and then nothing was taken in.
    /// `kinds` (0 +I, 1 −U, 2 +U, 3 −D) of `None` are all +I; option `rowkind.field` goes before
    /// them. Rows that options `ignore-delete` and `ignore-update-before` leave out are not written.
    /// Row `i` has sequence number `first_sequence + i`. Batches are kept, not copied.
    pub fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[i8]>,
        first_sequence: i64,
    ) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if let Some(kinds) = kinds {
            if kinds.len() != rows.num_rows() {
                return Err(Error::Internal("as many kinds as rows, please".into()));
            }
            if let Some(kind) = kinds.iter().find(|kind| !(0..=3).contains(*kind)) {
                return Err(Error::Internal(format!("row kind {kind}")));
            }
        }
        let rows_minus_one = rows.num_rows() as i64 - 1;
        if first_sequence < 0 || first_sequence.checked_add(rows_minus_one).is_none() {
            return Err(Error::Internal(format!("sequence number {first_sequence}")));
        }
        let columns = bind(&self.table, rows)?;
        let kinds = self.kinds.of(&self.table, &columns, kinds)?;
        let batches = Arc::get_mut(&mut self.batches)
            .ok_or_else(|| Error::Internal("written to while it is flushed".into()))?;
        let key_bytes = bytes_of(&self.layout.key_columns(&columns));
        self.buffered_bytes += bytes_of(&columns)
            + kinds.as_ref().map_or(0, Vec::len)
            + self.order.sort_bytes(rows.num_rows(), key_bytes);
        batches.push(Buffered {
            columns,
            rows: rows.num_rows(),
            kinds,
            first_sequence,
        });
        Ok(())
    }

    /// Bytes of the rows taken in since the last flush, and of what sorting them will take.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Sorts each bucket's rows by key, `sequence.field` and sequence number, merges those of each
    /// key (of a `deduplicate` table the last one stays, and −U never does), and writes level-0
    /// files that do not overlap within a bucket. They are complete and nobody
    /// sees them; what makes them visible is a commit of the messages. The buffer is empty then.
    /// After an error the buffer is as it was, files begun are deleted, and flush may be called
    /// again. Drive it to its end: what a flush dropped half way has written stays behind, unseen.
    pub async fn flush(&mut self) -> Result<Vec<CommitMessage>> {
        if self.batches.is_empty() {
            return Ok(Vec::new());
        }
        let mut placement = match &self.dynamic {
            Some(buckets) => Placement::dynamic(&self.table, buckets.clone())?,
            None => Placement::new(&self.table)?,
        };
        self.flush_placed(&mut placement).await
    }

    async fn flush_placed(&mut self, placement: &mut Placement) -> Result<Vec<CommitMessage>> {
        let rows: Vec<&[ArrayRef]> = self
            .batches
            .iter()
            .map(|batch| batch.columns.as_slice())
            .collect();
        placement.load(&rows).await?;
        let flush = Arc::new(Flush::new(
            &self.layout,
            &self.batches,
            &self.merging,
            &self.order,
            self.target_file_bytes,
        )?);
        let groups = group(placement, &self.batches, &flush)?;
        placement.release();
        let jobs = placement.places().iter().cloned().zip(groups);
        let jobs = jobs
            .filter(|(_, rows)| !matches!(rows, Group::Some(rows) if rows.is_empty()))
            .map(|(place, rows)| {
                let flush = flush.clone();
                let runtime = tokio::runtime::Handle::current();
                async move {
                    let task = tokio::task::spawn_blocking(move || {
                        let write = || runtime.block_on(flush.write(&place.folder, rows));
                        let files = storage::blocking(write);
                        drop(flush);
                        (place, files)
                    });
                    task.await
                        .map_err(|error| Error::Internal(error.to_string()))
                }
            });
        let done: Vec<_> = stream::iter(jobs)
            .buffered(self.parallelism)
            .collect()
            .await;

        let mut written = Vec::new();
        let mut failure = None;
        for result in done {
            match result {
                Ok((place, Ok(files))) => written.push((place, files)),
                Ok((_, Err(error))) | Err(error) => failure = failure.or(Some(error)),
            }
        }
        let mut index = Vec::new();
        if failure.is_none()
            && let Some(buckets) = self.dynamic.as_ref().filter(|_| self.is_only_writer)
        {
            let prepared = buckets.lock().await.prepare().await;
            match prepared {
                Ok(messages) => index = messages,
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            for (place, Written { files, changelog }) in &written {
                self.layout.delete(&place.folder, files).await;
                self.layout.delete(&place.folder, changelog).await;
            }
            return Err(error);
        }
        self.batches = Arc::default();
        self.buffered_bytes = 0;
        let buckets = placement.buckets();
        let message = |(place, written): (Place, Written)| CommitMessage {
            changelog_files: written.changelog,
            ..message(place, written.files, buckets)
        };
        let has_files = |(_, written): &(Place, Written)| {
            !written.files.is_empty() || !written.changelog.is_empty()
        };
        let files = written.into_iter().filter(has_files).map(message);
        Ok(files.chain(index).collect())
    }
}

fn message(place: Place, new_files: Vec<DataFileMeta>, total_buckets: i32) -> CommitMessage {
    CommitMessage {
        partition: place.partition,
        bucket: place.bucket,
        total_buckets,
        new_files,
        ..Default::default()
    }
}

/// Messages of buckets that have files.
pub(crate) fn messages(
    written: Vec<(Place, Vec<DataFileMeta>)>,
    total_buckets: i32,
) -> Vec<CommitMessage> {
    written
        .into_iter()
        .filter(|(_, files)| !files.is_empty())
        .map(|(place, new_files)| message(place, new_files, total_buckets))
        .collect()
}

/// Rows of one place, without those that are not written.
enum Group {
    /// All rows of all batches.
    All,
    /// By their numbers, ascending.
    Some(Vec<u32>),
}

/// The rows of each place.
fn group(placement: &mut Placement, batches: &[Buffered], flush: &Flush) -> Result<Vec<Group>> {
    let leaves_out = |batch: &Buffered| {
        let kinds = batch.kinds.as_ref();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| flush.merging.leaves_out(*kind)))
    };
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut is_all = !batches.iter().any(leaves_out);
    for (at, batch) in batches.iter().enumerate() {
        let places = placement.place(&batch.columns)?;
        is_all &= places.is_none();
        if is_all {
            continue;
        }
        groups.resize_with(placement.places().len(), Vec::new);
        let start = flush.rows.start(at);
        let leaves_out = leaves_out(batch);
        for (row, number) in (0..batch.rows).zip(start..) {
            let place = places.as_ref().and_then(|places| places.get(row)).copied();
            if !(leaves_out && flush.merging.leaves_out(batch.kind(row)))
                && let Some(group) = groups.get_mut(place.unwrap_or(0))
            {
                group.push(number);
            }
        }
    }
    Ok(match is_all {
        true => vec![Group::All],
        false => groups.into_iter().map(Group::Some).collect(),
    })
}

#[cfg(test)]
mod tests;
