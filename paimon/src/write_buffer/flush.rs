//! What a flush does to each bucket: sorts, merges and writes.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{ArrayRef, Int8Array, Int64Array};

use super::{Buffered, CHUNK_BYTES, CHUNK_ROWS_MAX, Group, kinds::LEFT_OUT};
use crate::{
    data_file::{FileLayout, FilePurpose, KeyValueBatch, RollingWriter, kind},
    data_file_meta::DataFileMeta,
    error::Result,
    key_order::{Key, KeyOrder, Keys, Sorted},
    merge::{self, Groups, MergeFunction, order::SequenceOrder},
    placement::bytes_of,
    row_numbers::{RowNumbers, gather},
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

/// A flush: what it has for all buckets.
pub(super) struct Flush {
    pub(super) layout: Arc<FileLayout>,
    pub(super) batches: Arc<Vec<Buffered>>,
    pub(super) merging: Arc<Merging>,
    pub(super) target_file_bytes: u64,
    pub(super) order: Arc<KeyOrder>,
    pub(super) rows: RowNumbers,
    /// Keys of all rows, where they are numbers. As bytes those of one bucket are made at a time.
    keys: Option<Keys>,
    chunk_rows: usize,
    /// No row has a lower sequence number than one that stands before it.
    sequences_ascend: bool,
}

impl Flush {
    /// Of batches.
    ///
    /// # Errors
    /// More rows than can be counted.
    pub(super) fn new(
        layout: &Arc<FileLayout>,
        batches: &Arc<Vec<Buffered>>,
        merging: &Arc<Merging>,
        order: &Arc<KeyOrder>,
        target_file_bytes: u64,
    ) -> Result<Self> {
        let rows = RowNumbers::new(batches.iter().map(|batch| batch.rows))?;
        let mut keys = match **order {
            KeyOrder::Bytes(_) => None,
            KeyOrder::Narrow | KeyOrder::Wide => Some(order.none()),
        };
        if let Some(keys) = &mut keys {
            for batch in batches.iter() {
                order.append(keys, &layout.key_columns(&batch.columns))?;
            }
        }
        let ends = |batch: &Buffered| batch.first_sequence + batch.rows as i64 - 1;
        let mut pairs = batches.iter().zip(batches.iter().skip(1));
        Ok(Self {
            layout: layout.clone(),
            merging: merging.clone(),
            target_file_bytes,
            order: order.clone(),
            chunk_rows: chunk_rows(batches),
            sequences_ascend: pairs.all(|(batch, next)| ends(batch) <= next.first_sequence),
            batches: batches.clone(),
            rows,
            keys,
        })
    }

    /// Writes the rows of a bucket.
    pub(super) async fn write(&self, folder: &str, rows: Group) -> Result<Written> {
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
            Group::All => {
                let rows = (0..self.rows.rows()).collect();
                self.write_merged(rows, &mut output).await
            }
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

    /// Whether the rows stand in the order of their keys, each key once.
    fn is_sorted(&self) -> Result<bool> {
        if let Some(keys) = &self.keys {
            return Ok(keys.is_strictly_ascending());
        }
        let mut last: Option<Key> = None;
        for batch in self.batches.iter() {
            let keys = self.order.keys(&self.layout.key_columns(&batch.columns))?;
            let follows = last
                .as_ref()
                .is_none_or(|last| keys.compare_with(last, 0).is_lt());
            if !follows || !keys.is_strictly_ascending() {
                return Ok(false);
            }
            last = keys.len().checked_sub(1).and_then(|row| keys.get(row));
        }
        Ok(true)
    }

    async fn write_as_is(&self, output: &mut Output) -> Result<()> {
        for batch in self.batches.iter() {
            let mut at = 0;
            while at < batch.rows {
                let length = self.chunk_rows.min(batch.rows - at);
                output.write(&batch.rows_of(at, length)).await?;
                at += length;
            }
        }
        Ok(())
    }

    async fn write_merged(&self, rows: Vec<u32>, output: &mut Output) -> Result<()> {
        let keys = self.keys(&rows)?;
        if keys.is_strictly_ascending() {
            return self.write_rows(&rows, output).await;
        }
        let sorted = self.sorted(&rows, &keys)?;
        drop(keys);
        if self.merging.function.takes_the_last() && output.changelog.is_none() {
            return self.write_rows(&sorted.into_last(), output).await;
        }
        let (mut start, mut ends) = (0, Vec::new());
        for (number, end) in sorted.ends.iter().enumerate() {
            let end = *end as usize;
            ends.push(end - start);
            let is_last = number + 1 == sorted.ends.len();
            if is_last || end - start >= self.chunk_rows {
                let rows = sorted.rows.get(start..end).unwrap_or_default();
                self.merge(rows, &ends, output).await?;
                start = end;
                ends.clear();
            }
        }
        Ok(())
    }

    /// Merges and writes whole keys, which end at `ends`.
    async fn merge(&self, rows: &[u32], ends: &[usize], output: &mut Output) -> Result<()> {
        let batch = self.gather(rows)?;
        output.write_changelog(&batch).await?;
        let groups = Groups { rows: &batch, ends };
        let (merged, _) = self.merging.function.merge(&groups)?;
        // So many values of a key may have become one long one.
        for at in (0..merged.rows()).step_by(self.chunk_rows) {
            let length = self.chunk_rows.min(merged.rows() - at);
            output.data.write(&merged.slice(at, length)).await?;
        }
        Ok(())
    }

    async fn write_rows(&self, rows: &[u32], output: &mut Output) -> Result<()> {
        for chunk in rows.chunks(self.chunk_rows) {
            output.write(&self.gather(chunk)?).await?;
        }
        Ok(())
    }

    fn sequence(&self, row: u32) -> i64 {
        let (batch, row) = self.rows.locate(row);
        let batch = self.batches.get(batch);
        batch.map_or(0, |batch| batch.first_sequence + row as i64)
    }

    /// The rows by key, those of a key from the oldest to the newest.
    fn sorted(&self, rows: &[u32], keys: &Keys) -> Result<Sorted> {
        let columns = self.merging.order.columns();
        let columns = self.gather_columns(columns, rows)?;
        let fields = self.merging.order.rows_of_own(&columns)?;
        let by_fields = |left: u32, right: u32| match &fields {
            Some(rows) => rows.row(left as usize).cmp(&rows.row(right as usize)),
            None => Ordering::Equal,
        };
        let number = |at: u32| rows.get(at as usize).copied().unwrap_or_default();
        let by_age = |left: u32, right: u32| {
            by_fields(left, right).then_with(|| {
                let (left, right) = (number(left), number(right));
                self.sequence(left).cmp(&self.sequence(right))
            })
        };
        // Where that is their order anyway none is compared.
        let stand_by_age = fields.is_none() && self.sequences_ascend;
        let mut sorted = keys.sorted((!stand_by_age).then_some(&by_age));
        for row in &mut sorted.rows {
            *row = number(*row);
        }
        Ok(sorted)
    }

    fn keys(&self, rows: &[u32]) -> Result<Keys> {
        match self.keys.as_ref().and_then(|keys| keys.take(rows)) {
            Some(keys) => Ok(keys),
            None => self
                .order
                .keys(&self.gather_columns(self.layout.keys(), rows)?),
        }
    }

    fn gather_columns(&self, columns: &[usize], rows: &[u32]) -> Result<Vec<ArrayRef>> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.rows.locate_all(rows);
        let batches = || self.batches.iter().map(|batch| &batch.columns);
        let columns = columns.iter();
        columns
            .map(|column| gather(batches(), *column, &rows))
            .collect()
    }

    fn gather(&self, rows: &[u32]) -> Result<KeyValueBatch> {
        if let Some((batch, offset)) = self.run_of(rows) {
            return Ok(batch.rows_of(offset, rows.len()));
        }
        let rows = self.rows.locate_all(rows);
        let rows_of = || {
            rows.iter()
                .filter_map(|(batch, row)| self.batches.get(*batch).map(|batch| (batch, *row)))
        };
        let sequences = rows_of().map(|(batch, row)| batch.first_sequence + row as i64);
        let kinds = match self.batches.iter().all(|batch| batch.kinds.is_none()) {
            true => Int8Array::from(vec![kind::INSERT; rows.len()]),
            false => Int8Array::from_iter_values(rows_of().map(|(batch, row)| batch.kind(row))),
        };
        let columns = self.batches.first().map_or(0, |batch| batch.columns.len());
        let batches = || self.batches.iter().map(|batch| &batch.columns);
        Ok(KeyValueBatch {
            columns: (0..columns)
                .map(|column| gather(batches(), column, &rows))
                .collect::<Result<_>>()?,
            sequences: Int64Array::from_iter_values(sequences),
            kinds,
        })
    }

    /// Where the rows stand when they stand one behind the other in one batch.
    fn run_of(&self, rows: &[u32]) -> Option<(&Buffered, usize)> {
        let first = *rows.first()?;
        let follows = |(number, row): (u32, &u32)| *row == first + number;
        (0..).zip(rows).all(follows).then_some(())?;
        let (batch, offset) = self.rows.locate(first);
        let batch = self.batches.get(batch)?;
        (offset + rows.len() <= batch.rows).then_some((batch, offset))
    }
}

/// Rows that are encoded at a time.
fn chunk_rows(batches: &[Buffered]) -> usize {
    let rows: usize = batches.iter().map(|batch| batch.rows).sum();
    let bytes = batches.iter().map(|batch| bytes_of(&batch.columns));
    let chunk_rows = CHUNK_BYTES / (bytes.sum::<usize>() / rows.max(1)).max(1);
    chunk_rows.clamp(1, CHUNK_ROWS_MAX)
}
