//! The flush of one bucket: sorts, merges and writes.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array, ArrayRef, Int8Array, Int64Array};
use arrow_row::{OwnedRow, RowConverter, Rows};
use arrow_select::interleave::interleave;

use super::{
    Buffered, CHUNK_BYTES, CHUNK_ROWS_MAX, Group, RowAt, is_strictly_ascending, key_converter,
    key_rows, kinds::LEFT_OUT,
};
use crate::{
    data_file::{FileLayout, FilePurpose, KeyValueBatch, RollingWriter, kind},
    data_file_meta::DataFileMeta,
    error::{Error, Result},
    merge::{self, Groups, MergeFunction, order::SequenceOrder},
    placement::bytes_of,
    schema::Schema,
    table_options::{ChangelogProducer, MergeEngine, TableOptions},
};

/// What becomes of the rows of a key.
#[derive(Debug)]
pub(super) struct Merging {
    function: Arc<dyn MergeFunction>,
    order: SequenceOrder,
    /// Changelog producer `input`.
    has_changelog: bool,
    /// Before images take back what an engine has gathered, and changelogs hold them; otherwise
    /// the row behind them says all.
    keeps_befores: bool,
}

impl Merging {
    pub(super) fn new(schema: &Schema) -> Result<Self> {
        let options = TableOptions::of(schema)?;
        let has_changelog = options.changelog.producer == ChangelogProducer::Input;
        Ok(Self {
            function: merge::function(schema)?,
            order: SequenceOrder::new(schema)?,
            has_changelog,
            keeps_befores: has_changelog || options.merge.engine != MergeEngine::Deduplicate,
        })
    }

    /// Whether rows of a kind are not written.
    pub(super) fn leaves_out(&self, kind: i8) -> bool {
        kind == LEFT_OUT || kind == kind::UPDATE_BEFORE && !self.keeps_befores
    }
}

/// Files of a bucket.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) files: Vec<DataFileMeta>,
    pub(super) changelog: Vec<DataFileMeta>,
}

/// Files of a bucket that are being written.
struct Output {
    data: RollingWriter,
    changelog: Option<RollingWriter>,
}

impl Output {
    /// Rows that stand in both as they are.
    async fn write(&mut self, rows: &KeyValueBatch) -> Result<()> {
        self.write_changelog(rows).await?;
        self.data.write(rows).await
    }

    async fn write_changelog(&mut self, rows: &KeyValueBatch) -> Result<()> {
        match &mut self.changelog {
            Some(changelog) => changelog.write(rows).await,
            None => Ok(()),
        }
    }

    async fn finish(self, layout: &FileLayout, folder: &str) -> Result<Written> {
        let changelog = match self.changelog {
            Some(changelog) => match changelog.finish().await {
                Ok(files) => files,
                Err(error) => {
                    self.data.abort().await;
                    return Err(error);
                }
            },
            None => Vec::new(),
        };
        match self.data.finish().await {
            Ok(files) => Ok(Written { files, changelog }),
            Err(error) => {
                layout.delete(folder, &changelog).await;
                Err(error)
            }
        }
    }

    async fn abort(self) {
        if let Some(changelog) = self.changelog {
            changelog.abort().await;
        }
        self.data.abort().await;
    }
}

/// The flush of one bucket.
pub(super) struct BucketFlush {
    pub(super) layout: Arc<FileLayout>,
    pub(super) batches: Arc<Vec<Buffered>>,
    pub(super) merging: Arc<Merging>,
    pub(super) target_file_bytes: u64,
}

impl BucketFlush {
    pub(super) async fn run(&self, folder: &str, rows: Group) -> Result<Written> {
        let writer =
            || RollingWriter::new(&self.layout, folder.to_owned(), 0, self.target_file_bytes);
        let changelog = || writer().with_purpose(FilePurpose::Changelog);
        let mut output = Output {
            data: writer(),
            changelog: self.merging.has_changelog.then(changelog),
        };
        let written = match rows {
            // The common case of inserts, and the cheap one.
            Group::All if self.is_sorted()? => self.write_as_is(&mut output).await,
            Group::All => self.write_merged(self.all(), &mut output).await,
            Group::Some(rows) => self.write_merged(rows, &mut output).await,
        };
        match written {
            Ok(()) => output.finish(&self.layout, folder).await,
            Err(error) => {
                output.abort().await;
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

    async fn write_as_is(&self, output: &mut Output) -> Result<()> {
        let chunk_rows = self.chunk_rows();
        for batch in self.batches.iter() {
            let mut at = 0;
            while at < batch.rows {
                let length = chunk_rows.min(batch.rows - at);
                output.write(&batch.rows_of(at, length)).await?;
                at += length;
            }
        }
        Ok(())
    }

    async fn write_merged(&self, rows: Vec<RowAt>, output: &mut Output) -> Result<()> {
        let keys = self.keys(&rows)?;
        if is_strictly_ascending(&keys) {
            return self.write_rows(&rows, output).await;
        }
        let order = self.sorted(rows, &keys)?;
        if self.merging.function.takes_the_last() && output.changelog.is_none() {
            return self.write_rows(&winners(order, &keys), output).await;
        }
        let chunk_rows = self.chunk_rows();
        let (mut rows, mut ends) = (Vec::new(), Vec::new());
        let mut order = order.into_iter().peekable();
        while let Some((key, at)) = order.next() {
            rows.push(at);
            let next = order.peek().map(|(key, _)| keys.row(*key));
            if next == Some(keys.row(key)) {
                continue;
            }
            ends.push(rows.len());
            if next.is_none() || rows.len() >= chunk_rows {
                let batch = self.gather(&rows)?;
                output.write_changelog(&batch).await?;
                let groups = Groups {
                    rows: &batch,
                    ends: &ends,
                };
                let (merged, _) = self.merging.function.merge(&groups)?;
                // So many values of a key may have become one long one.
                for at in (0..merged.rows()).step_by(chunk_rows) {
                    let length = chunk_rows.min(merged.rows() - at);
                    output.data.write(&merged.slice(at, length)).await?;
                }
                rows.clear();
                ends.clear();
            }
        }
        Ok(())
    }

    async fn write_rows(&self, rows: &[RowAt], output: &mut Output) -> Result<()> {
        for chunk in rows.chunks(self.chunk_rows()) {
            output.write(&self.gather(chunk)?).await?;
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

    /// Rows by key, those of a key from the oldest to the newest; each with the number of its key.
    fn sorted(&self, rows: Vec<RowAt>, keys: &Rows) -> Result<Vec<(usize, RowAt)>> {
        let columns = self.merging.order.columns().iter();
        let columns = columns
            .map(|column| self.gather_column(*column, &rows))
            .collect::<Result<Vec<_>>>()?;
        let sequences = self.merging.order.rows_of_own(&columns)?;
        let by_columns = |left: usize, right: usize| match &sequences {
            Some(rows) => rows.row(left).cmp(&rows.row(right)),
            None => Ordering::Equal,
        };
        let mut order: Vec<(usize, RowAt)> = rows.into_iter().enumerate().collect();
        order.sort_unstable_by(|(left, left_at), (right, right_at)| {
            keys.row(*left)
                .cmp(&keys.row(*right))
                .then_with(|| by_columns(*left, *right))
                .then_with(|| self.sequence(*left_at).cmp(&self.sequence(*right_at)))
                .then_with(|| left.cmp(right))
        });
        Ok(order)
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

/// The last row of each key.
fn winners(order: Vec<(usize, RowAt)>, keys: &Rows) -> Vec<RowAt> {
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
    winners
}
