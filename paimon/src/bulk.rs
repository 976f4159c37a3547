//! The bulk lane: snapshot rows that go straight to the top level.
//!
//! A snapshot worker reads one long stretch of keys in the server's order. Where that is also the
//! table's order (compared row by row), rows stream into one file a bucket. From the first row out
//! of order on, a bucket's rows are collected and sorted in pieces as large as memory allows. All
//! files carry the top level; the commit moves those that overlap others to level 0.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int8Array, Int64Array, RecordBatch, UInt32Array};
use arrow_select::{concat::concat, take::take};
use futures::{StreamExt, stream};

use crate::{
    binary_row::{Column, Value},
    data_file::{FileLayout, KeyValueBatch, RollingWriter, kind},
    data_file_meta::{CommitMessage, DataFileMeta},
    error::{Error, Result},
    index::SharedBuckets,
    key_order::{Key, KeyOrder, Keys},
    placement::{Place, Placement, bind, bytes_of},
    row_numbers::{RowNumbers, gather},
    table::Table,
    table_options::{Budget, ChangelogProducer, TableOptions},
    write_buffer::{CHUNK_ROWS_MAX, WriteSettings, messages},
};

/// Bytes of a bucket's rows that are encoded at once: small enough for many buckets, large enough
/// for the encoder.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the snapshot rows of one worker, one table and one round.
#[derive(Debug)]
pub struct BulkWriter {
    table: Table,
    layout: Arc<FileLayout>,
    settings: WriteSettings,
    sequence: i64,
    placement: Placement,
    order: KeyOrder,
    lanes: Vec<Lane>,
    level: i32,
}

/// One bucket.
#[derive(Debug)]
struct Lane {
    place: Place,
    writer: RollingWriter,
    /// The greatest key so far; `None` before the first row, and once rows are out of order.
    last_key: Option<Key>,
    ordered: bool,
    /// Rows that are not yet encoded.
    pending: Vec<Vec<ArrayRef>>,
    pending_rows: usize,
    pending_bytes: usize,
}

/// Refuses options under which rows have kinds or changelog files, which a bulk load has not.
fn refuse_options(table: &Table) -> Result<()> {
    let options = TableOptions::of(table.schema())?;
    let option = if options.merge.rowkind_field.is_some() {
        "rowkind.field"
    } else if options.changelog.producer == ChangelogProducer::Input {
        "changelog-producer = input"
    } else {
        return Ok(());
    };
    Err(Error::Table {
        table: table.name().to_owned(),
        message: format!("its option {option} does not go with a bulk load: use a write buffer"),
    })
}

impl BulkWriter {
    /// For a table with a primary key and fixed buckets. Every row gets the sequence number `sequence`.
    pub fn new(table: Table, settings: WriteSettings, sequence: i64) -> Result<Self> {
        let placement = Placement::new(&table)?;
        Self::placing(table, settings, sequence, placement)
    }

    /// As [`new`](Self::new), for a table with dynamic buckets. Whoever commits adds what
    /// [`SharedBuckets::prepare`] says when all writers are done.
    pub fn with_buckets(
        table: Table,
        settings: WriteSettings,
        sequence: i64,
        buckets: SharedBuckets,
    ) -> Result<Self> {
        let placement = Placement::dynamic(&table, buckets)?;
        Self::placing(table, settings, sequence, placement)
    }

    fn placing(
        table: Table,
        settings: WriteSettings,
        sequence: i64,
        placement: Placement,
    ) -> Result<Self> {
        table.check_has_key()?;
        let budget = Budget::new(table.schema())?;
        refuse_options(&table)?;
        let layout = FileLayout::new(&table)?;
        Ok(Self {
            placement,
            order: layout.key_order()?,
            layout,
            table,
            settings: WriteSettings {
                target_file_bytes: budget
                    .target_file_bytes
                    .unwrap_or(settings.target_file_bytes),
                ..settings
            },
            sequence,
            lanes: Vec::new(),
            level: budget.top_level,
        })
    }

    /// Takes in rows, all +I, in the server's key order. Columns are bound as
    /// [`WriteBuffer::write`](crate::write_buffer::WriteBuffer::write) does. A key that came
    /// before is an error, but for rows out of order only within what is sorted at once. After an
    /// error only [`abort`](Self::abort) makes sense.
    pub async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let columns = bind(&self.table, rows)?;
        let keys = self.order.keys(&self.layout.key_columns(&columns))?;
        self.placement.load(&[&columns]).await?;
        let places = self.placement.place(&columns);
        self.placement.release();
        let places = places?;
        self.open_lanes();
        match places {
            None => self.add(0, columns, &keys, None).await?,
            Some(places) => {
                let mut lanes: Vec<Vec<u32>> = vec![Vec::new(); self.lanes.len()];
                for (row, place) in places.into_iter().enumerate() {
                    if let Some(lane) = lanes.get_mut(place) {
                        lane.push(row as u32);
                    }
                }
                for (lane, picked) in lanes.into_iter().enumerate() {
                    if picked.is_empty() {
                        continue;
                    }
                    let picked = UInt32Array::from(picked);
                    let columns = if picked.len() == rows.num_rows() {
                        columns.clone()
                    } else {
                        take_columns(&columns, &picked)?
                    };
                    self.add(lane, columns, &keys, Some(&picked)).await?;
                }
            }
        }
        self.relieve().await?;
        // Encoding is long work: let others run.
        tokio::task::yield_now().await;
        Ok(())
    }

    fn open_lanes(&mut self) {
        for place in self.placement.places().iter().skip(self.lanes.len()) {
            self.lanes.push(Lane {
                place: place.clone(),
                writer: RollingWriter::new(
                    &self.layout,
                    place.folder.clone(),
                    self.level,
                    self.settings.target_file_bytes,
                ),
                last_key: None,
                ordered: true,
                pending: Vec::new(),
                pending_rows: 0,
                pending_bytes: 0,
            });
        }
    }

    /// Adds the columns of one bucket; `picked` are their rows among `keys`, `None` for all.
    async fn add(
        &mut self,
        lane: usize,
        columns: Vec<ArrayRef>,
        keys: &Keys,
        picked: Option<&UInt32Array>,
    ) -> Result<()> {
        let Some(lane) = self.lanes.get_mut(lane) else {
            return Err(Error::Internal("no such bucket".into()));
        };
        let rows = picked.map_or(keys.len(), |picked| picked.len());
        let row_of = |at: usize| picked.map_or(at, |picked| picked.value(at) as usize);
        let mut in_order = if lane.ordered { rows } else { 0 };
        if lane.ordered {
            // Nearly always so, and looked at in one go.
            let ascends = picked.is_none() && keys.is_strictly_ascending();
            let compared = if ascends { rows.min(1) } else { rows };
            for at in 0..compared {
                let order = match at {
                    0 => lane
                        .last_key
                        .as_ref()
                        .map(|last| keys.compare_with(last, row_of(0))),
                    _ => Some(keys.compare(row_of(at - 1), row_of(at))),
                };
                match order {
                    None | Some(std::cmp::Ordering::Less) => {}
                    Some(std::cmp::Ordering::Equal) => {
                        return Err(duplicate(&self.table, &self.layout, &columns, at));
                    }
                    Some(std::cmp::Ordering::Greater) => {
                        in_order = at;
                        break;
                    }
                }
            }
            if in_order == rows && rows > 0 {
                lane.last_key = keys.get(row_of(rows - 1));
            }
        }
        if in_order == rows {
            lane.push(columns);
        } else {
            if lane.ordered {
                lane.push(slice_columns(&columns, 0, in_order));
                lane.encode(self.sequence).await?;
                lane.writer.close_file().await?;
                lane.ordered = false;
                lane.last_key = None;
            }
            lane.push(slice_columns(&columns, in_order, rows - in_order));
        }
        if lane.ordered {
            if lane.pending_bytes >= PIECE_BYTES || lane.pending_rows >= CHUNK_ROWS_MAX {
                lane.encode(self.sequence).await?;
            }
        } else if lane.pending_bytes as u64 >= self.settings.target_file_bytes {
            lane.sort(&self.table, &self.layout, &self.order, self.sequence)
                .await?;
        }
        Ok(())
    }

    /// Bytes of the rows taken in and of the open files.
    pub fn buffered_bytes(&self) -> usize {
        self.lanes.iter().map(Lane::bytes).sum()
    }

    /// Gives memory back, the largest bucket first, until it is within bounds.
    async fn relieve(&mut self) -> Result<()> {
        let mut bytes = self.buffered_bytes();
        while bytes > self.settings.max_buffered_bytes {
            let Some(lane) = self.lanes.iter_mut().max_by_key(|lane| lane.bytes()) else {
                break;
            };
            let before = lane.bytes();
            if lane.ordered {
                lane.encode(self.sequence).await?;
                lane.writer.flush_row_group().await?;
            } else {
                lane.sort(&self.table, &self.layout, &self.order, self.sequence)
                    .await?;
            }
            if lane.bytes() > before / 2 {
                // What is left waits for a whole part to be sent.
                lane.writer.close_file().await?;
            }
            let after = self.buffered_bytes();
            if after >= bytes {
                break;
            }
            bytes = after;
        }
        Ok(())
    }

    /// Completes all files. They are complete and nobody sees them before a commit. On an error
    /// all of them are deleted.
    pub async fn finish(self) -> Result<Vec<CommitMessage>> {
        let Self {
            table,
            layout,
            settings,
            sequence,
            placement,
            order,
            lanes,
            ..
        } = self;
        let (table, order) = (&table, &order);
        let layout_ref = &layout;
        let done: Vec<_> = stream::iter(lanes)
            .map(|lane| async move {
                let place = lane.place.clone();
                (place, lane.finish(table, layout_ref, order, sequence).await)
            })
            .buffered(settings.parallelism.max(1))
            .collect()
            .await;
        let mut written = Vec::new();
        let mut failure = None;
        for (place, files) in done {
            match files {
                Ok(files) => written.push((place, files)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            for (place, files) in &written {
                layout.delete(&place.folder, files).await;
            }
            return Err(error);
        }
        Ok(messages(written, placement.buckets()))
    }

    /// Throws all rows and files away.
    pub async fn abort(self) {
        for lane in self.lanes {
            lane.writer.abort().await;
        }
    }
}

impl Lane {
    fn bytes(&self) -> usize {
        self.pending_bytes + self.writer.in_progress_size()
    }

    fn push(&mut self, columns: Vec<ArrayRef>) {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows > 0 {
            self.pending_rows += rows;
            self.pending_bytes += bytes_of(&columns);
            self.pending.push(columns);
        }
    }

    fn take_pending(&mut self) -> Vec<Vec<ArrayRef>> {
        self.pending_rows = 0;
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }

    /// Encodes the pending rows as they are.
    async fn encode(&mut self, sequence: i64) -> Result<()> {
        let small = self.pending_rows / self.pending.len().max(1) < CHUNK_ROWS_MAX / 4;
        let pending = self.take_pending();
        if small && pending.len() > 1 {
            let columns = concat_columns(&pending)?;
            return self.write(columns, sequence).await;
        }
        for columns in pending {
            self.write(columns, sequence).await?;
        }
        Ok(())
    }

    async fn write(&mut self, columns: Vec<ArrayRef>, sequence: i64) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut at = 0;
        while at < rows {
            let length = CHUNK_ROWS_MAX.min(rows - at);
            let batch = all_inserts(slice_columns(&columns, at, length), length, sequence);
            self.writer.write(&batch).await?;
            at += length;
        }
        Ok(())
    }

    /// Sorts the pending rows and writes them as files of their own.
    async fn sort(
        &mut self,
        table: &Table,
        layout: &FileLayout,
        order: &KeyOrder,
        sequence: i64,
    ) -> Result<()> {
        let pending = self.take_pending();
        let mut keys = order.none();
        for columns in &pending {
            order.append(&mut keys, &layout.key_columns(columns))?;
        }
        let lengths = pending.iter();
        let lengths = lengths.map(|columns| columns.first().map_or(0, |column| column.len()));
        let rows = RowNumbers::new(lengths)?;
        let sorted = keys.sorted(None);
        drop(keys);
        if let Some(row) = sorted.second_of_a_key() {
            let (batch, row) = rows.locate(row);
            let columns = pending.get(batch).map(Vec::as_slice).unwrap_or_default();
            return Err(duplicate(table, layout, columns, row));
        }
        for chunk in sorted.rows.chunks(CHUNK_ROWS_MAX) {
            let chunk = rows.locate_all(chunk);
            let columns = (0..table.schema().fields.len())
                .map(|column| gather(&pending, column, &chunk))
                .collect::<Result<Vec<_>>>()?;
            let batch = all_inserts(columns, chunk.len(), sequence);
            self.writer.write(&batch).await?;
        }
        self.writer.close_file().await
    }

    async fn finish(
        mut self,
        table: &Table,
        layout: &FileLayout,
        order: &KeyOrder,
        sequence: i64,
    ) -> Result<Vec<DataFileMeta>> {
        let written = if self.ordered {
            self.encode(sequence).await
        } else {
            self.sort(table, layout, order, sequence).await
        };
        match written {
            Ok(()) => self.writer.finish().await,
            Err(error) => {
                self.writer.abort().await;
                Err(error)
            }
        }
    }
}

fn all_inserts(columns: Vec<ArrayRef>, rows: usize, sequence: i64) -> KeyValueBatch {
    KeyValueBatch {
        columns,
        sequences: Int64Array::from(vec![sequence; rows]),
        kinds: Int8Array::from(vec![kind::INSERT; rows]),
    }
}

fn slice_columns(columns: &[ArrayRef], offset: usize, length: usize) -> Vec<ArrayRef> {
    let slice = |column: &ArrayRef| column.slice(offset, length);
    columns.iter().map(slice).collect()
}

fn take_columns(columns: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<ArrayRef>> {
    let taken = columns.iter().map(|column| take(column, rows, None));
    Ok(taken.collect::<Result<_, _>>()?)
}

fn concat_columns(batches: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>> {
    let columns = batches.first().map_or(0, Vec::len);
    (0..columns)
        .map(|column| {
            let arrays: Vec<&dyn Array> = batches
                .iter()
                .filter_map(|columns| columns.get(column).map(AsRef::as_ref))
                .collect();
            Ok(concat(&arrays)?)
        })
        .collect()
}

/// Says which key came twice.
fn duplicate(table: &Table, layout: &FileLayout, columns: &[ArrayRef], row: usize) -> Error {
    let fields = &table.schema().fields;
    let text = |at: &usize| {
        let (array, field) = columns.get(*at).zip(fields.get(*at))?;
        let value = Column::new(array, &field.data_type).ok()?.value(row);
        let value = match value {
            Value::Bytes(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes)),
            value => format!("{value:?}"),
        };
        Some(format!("{} = {value}", field.name))
    };
    let key: Vec<String> = layout.keys().iter().filter_map(text).collect();
    Error::Table {
        table: table.name().to_owned(),
        message: format!("the snapshot gave the key ({}) twice", key.join(", ")),
    }
}

#[cfg(test)]
mod tests;
