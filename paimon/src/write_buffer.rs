//! The sort buffer: collects changes in any order and writes them as level-0 files.
//!
//! Source of the rules: `MergeTreeWriter`, `SortBufferWriteBuffer`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int8Array, Int64Array, RecordBatch};
use arrow_row::{OwnedRow, RowConverter, Rows, SortField};
use arrow_select::interleave::interleave;
use futures::{StreamExt, stream};

use crate::{
    data_file::{FileLayout, KeyValueBatch, RollingWriter, kind},
    data_file_meta::{CommitMessage, DataFileMeta},
    error::{Error, Result},
    placement::{Place, Placement, bind, bytes_of},
    table::Table,
    table_options::Budget,
};

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
    parallelism: usize,
    target_file_bytes: u64,
    batches: Arc<Vec<Buffered>>,
    buffered_bytes: usize,
}

/// Row of a batch.
type RowAt = (usize, usize);

impl WriteBuffer {
    /// For a table with fixed buckets. Options that would give rows another meaning are refused.
    pub fn new(table: Table, settings: WriteSettings) -> Result<Self> {
        let budget = Budget::new(table.schema())?;
        // Refuses what cannot be placed, before rows come.
        Placement::new(&table)?;
        Ok(Self {
            layout: FileLayout::new(&table)?,
            table,
            parallelism: settings.parallelism.max(1),
            target_file_bytes: budget
                .target_file_bytes
                .unwrap_or(settings.target_file_bytes),
            batches: Arc::default(),
            buffered_bytes: 0,
        })
    }

    /// Takes in changes. Columns are bound by name; a missing nullable column is NULL; a missing
    /// NOT NULL or an unknown column, or another Arrow type than
    /// [`DataType::arrow`](crate::DataType::arrow), is an error, and then nothing was taken in.
    /// `kinds` (0 +I, 1 −U, 2 +U, 3 −D) of `None` are all +I. Row `i` has sequence number
    /// `first_sequence + i`. Batches are kept, not copied.
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
        let batches = Arc::get_mut(&mut self.batches)
            .ok_or_else(|| Error::Internal("written to while it is flushed".into()))?;
        self.buffered_bytes += bytes_of(&columns) + kinds.map_or(0, <[i8]>::len);
        batches.push(Buffered {
            columns,
            rows: rows.num_rows(),
            kinds: kinds.map(<[i8]>::to_vec),
            first_sequence,
        });
        Ok(())
    }

    /// Bytes of the rows taken in since the last flush.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Sorts each bucket's rows by key and sequence number, keeps the last of each key (−U never),
    /// and writes level-0 files that do not overlap within a bucket. They are complete and nobody
    /// sees them; what makes them visible is a commit of the messages. The buffer is empty then.
    /// After an error the buffer is as it was, files begun are deleted, and flush may be called
    /// again. Drive it to its end: what a flush dropped half way has written stays behind, unseen.
    pub async fn flush(&mut self) -> Result<Vec<CommitMessage>> {
        if self.batches.is_empty() {
            return Ok(Vec::new());
        }
        let mut placement = Placement::new(&self.table)?;
        let groups = group(&mut placement, &self.batches)?;
        let jobs = placement.places().iter().cloned().zip(groups);
        let jobs = jobs
            .filter(|(_, rows)| !matches!(rows, Group::Some(rows) if rows.is_empty()))
            .map(|(place, rows)| {
                let job = BucketFlush {
                    layout: self.layout.clone(),
                    batches: self.batches.clone(),
                    target_file_bytes: self.target_file_bytes,
                };
                let runtime = tokio::runtime::Handle::current();
                async move {
                    let task = tokio::task::spawn_blocking(move || {
                        let files = runtime.block_on(job.run(&place.folder, rows));
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
        if let Some(error) = failure {
            for (place, files) in &written {
                self.layout.delete(&place.folder, files).await;
            }
            return Err(error);
        }
        self.batches = Arc::default();
        self.buffered_bytes = 0;
        let buckets = placement.buckets();
        Ok(messages(written, buckets))
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
        .map(|(place, new_files)| CommitMessage {
            partition: place.partition,
            bucket: place.bucket,
            total_buckets,
            new_files,
            ..Default::default()
        })
        .collect()
}

/// Rows of one place, −U left out.
enum Group {
    /// All rows of all batches.
    All,
    Some(Vec<RowAt>),
}

/// The rows of each place.
fn group(placement: &mut Placement, batches: &[Buffered]) -> Result<Vec<Group>> {
    let has_befores = |batch: &Buffered| {
        let kinds = batch.kinds.as_ref();
        kinds.is_some_and(|kinds| kinds.contains(&kind::UPDATE_BEFORE))
    };
    let mut groups: Vec<Vec<RowAt>> = Vec::new();
    let mut is_all = !batches.iter().any(has_befores);
    for (at, batch) in batches.iter().enumerate() {
        let places = placement.place(&batch.columns)?;
        is_all &= places.is_none();
        if is_all {
            continue;
        }
        groups.resize_with(placement.places().len(), Vec::new);
        for row in 0..batch.rows {
            let place = places.as_ref().and_then(|places| places.get(row)).copied();
            if batch.kind(row) != kind::UPDATE_BEFORE
                && let Some(group) = groups.get_mut(place.unwrap_or(0))
            {
                group.push((at, row));
            }
        }
    }
    Ok(match is_all {
        true => vec![Group::All],
        false => groups.into_iter().map(Group::Some).collect(),
    })
}

/// The flush of one bucket.
struct BucketFlush {
    layout: Arc<FileLayout>,
    batches: Arc<Vec<Buffered>>,
    target_file_bytes: u64,
}

impl BucketFlush {
    async fn run(&self, folder: &str, rows: Group) -> Result<Vec<DataFileMeta>> {
        let mut writer =
            RollingWriter::new(&self.layout, folder.to_owned(), 0, self.target_file_bytes);
        let written = match rows {
            // The common case of inserts, and the cheap one.
            Group::All if self.is_sorted()? => self.write_as_is(&mut writer).await,
            Group::All => {
                let winners = self.winners(self.all())?;
                self.write(&winners, &mut writer).await
            }
            Group::Some(rows) => {
                let winners = self.winners(rows)?;
                self.write(&winners, &mut writer).await
            }
        };
        match written {
            Ok(()) => writer.finish().await,
            Err(error) => {
                writer.abort().await;
                Err(error)
            }
        }
    }

    /// Every row of every batch.
    fn all(&self) -> Vec<RowAt> {
        let batches = self.batches.iter().enumerate();
        batches
            .flat_map(|(at, batch)| (0..batch.rows).map(move |row| (at, row)))
            .collect()
    }

    /// Whether the rows stand in the order of their keys, each key once.
    fn is_sorted(&self) -> Result<bool> {
        let mut last: Option<OwnedRow> = None;
        let mut converter: Option<RowConverter> = None;
        for batch in self.batches.iter() {
            let keys = self.layout.keys().iter();
            let keys: Vec<ArrayRef> = keys
                .filter_map(|at| batch.columns.get(*at).cloned())
                .collect();
            let converter = match &mut converter {
                Some(converter) => converter,
                None => converter.insert(key_converter(&keys)?),
            };
            let keys = converter.convert_columns(&keys)?;
            let follows = match (&last, keys.iter().next()) {
                (Some(last), Some(first)) => last.row() < first,
                _ => true,
            };
            if !follows || !is_strictly_ascending(&keys) {
                return Ok(false);
            }
            last = keys.iter().next_back().map(|key| key.owned()).or(last);
        }
        Ok(true)
    }

    async fn write_as_is(&self, writer: &mut RollingWriter) -> Result<()> {
        let chunk_rows = self.chunk_rows();
        for batch in self.batches.iter() {
            let mut at = 0;
            while at < batch.rows {
                let length = chunk_rows.min(batch.rows - at);
                writer.write(&batch.rows_of(at, length)).await?;
                at += length;
            }
        }
        Ok(())
    }

    async fn write(&self, winners: &[RowAt], writer: &mut RollingWriter) -> Result<()> {
        for chunk in winners.chunks(self.chunk_rows()) {
            writer.write(&self.gather(chunk)?).await?;
        }
        Ok(())
    }

    /// Rows that are encoded at a time.
    fn chunk_rows(&self) -> usize {
        let rows: usize = self.batches.iter().map(|batch| batch.rows).sum();
        let bytes: usize = self
            .batches
            .iter()
            .map(|batch| bytes_of(&batch.columns))
            .sum();
        let chunk_rows = CHUNK_BYTES / (bytes / rows.max(1)).max(1);
        chunk_rows.clamp(1, CHUNK_ROWS_MAX)
    }

    fn sequence(&self, (at, row): RowAt) -> i64 {
        let batch = self.batches.get(at);
        batch.map_or(0, |batch| batch.first_sequence + row as i64)
    }

    /// The last row of each key, by key.
    fn winners(&self, rows: Vec<RowAt>) -> Result<Vec<RowAt>> {
        let keys = self.keys(&rows)?;
        if is_strictly_ascending(&keys) {
            return Ok(rows);
        }
        let mut order: Vec<(usize, RowAt)> = rows.into_iter().enumerate().collect();
        order.sort_unstable_by(|(left, left_at), (right, right_at)| {
            keys.row(*left)
                .cmp(&keys.row(*right))
                .then_with(|| self.sequence(*left_at).cmp(&self.sequence(*right_at)))
                .then_with(|| left.cmp(right))
        });
        // Of each key the last one stays.
        let mut winners: Vec<RowAt> = Vec::with_capacity(order.len());
        let mut previous = None;
        for (key, at) in order {
            let row = keys.row(key);
            if previous == Some(row) {
                winners.pop();
            }
            winners.push(at);
            previous = Some(row);
        }
        Ok(winners)
    }

    fn keys(&self, rows: &[RowAt]) -> Result<Rows> {
        let columns = self
            .layout
            .keys()
            .iter()
            .map(|column| self.gather_column(*column, rows))
            .collect::<Result<Vec<_>>>()?;
        key_rows(&columns)
    }

    fn gather_column(&self, column: usize, rows: &[RowAt]) -> Result<ArrayRef> {
        let arrays = self
            .batches
            .iter()
            .map(|batch| batch.columns.get(column).map(AsRef::as_ref))
            .collect::<Option<Vec<&dyn Array>>>()
            .ok_or_else(|| Error::Internal(format!("no column {column}")))?;
        Ok(interleave(&arrays, rows)?)
    }

    fn gather(&self, rows: &[RowAt]) -> Result<KeyValueBatch> {
        if let Some((batch, offset)) = self.run_of(rows) {
            return Ok(batch.rows_of(offset, rows.len()));
        }
        let sequences = rows.iter().map(|at| self.sequence(*at));
        let kinds = rows.iter().map(|(at, row)| {
            self.batches
                .get(*at)
                .map_or(kind::INSERT, |batch| batch.kind(*row))
        });
        let columns = self.batches.first().map_or(0, |batch| batch.columns.len());
        Ok(KeyValueBatch {
            columns: (0..columns)
                .map(|column| self.gather_column(column, rows))
                .collect::<Result<_>>()?,
            sequences: Int64Array::from_iter_values(sequences),
            kinds: Int8Array::from_iter_values(kinds),
        })
    }

    /// Where the rows stand when they stand one behind the other in one batch.
    fn run_of(&self, rows: &[RowAt]) -> Option<(&Buffered, usize)> {
        let (at, offset) = *rows.first()?;
        let follows = |(number, row): (usize, &RowAt)| *row == (at, offset + number);
        rows.iter().enumerate().all(follows).then_some(())?;
        Some((self.batches.get(at)?, offset))
    }
}

/// Keys as bytes that compare as the format compares keys.
pub(crate) fn key_rows(columns: &[ArrayRef]) -> Result<Rows> {
    Ok(key_converter(columns)?.convert_columns(columns)?)
}

fn key_converter(columns: &[ArrayRef]) -> Result<RowConverter> {
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()))
        .collect();
    Ok(RowConverter::new(fields)?)
}

fn is_strictly_ascending(keys: &Rows) -> bool {
    keys.iter()
        .zip(keys.iter().skip(1))
        .all(|(key, next)| key < next)
}

#[cfg(test)]
mod tests;
