//! Sorted runs that a merge makes of others, for a merge that comes behind it: a compaction cannot
//! have all its runs open at the same time when these take more memory than it has.
//!
//! A spill is an object in the bucket's folder. No commit names it; who makes it removes it, and where
//! a process dies orphan cleaning takes it, as it takes other files that were not committed.
//!
//! It is a row of blocks, each a Parquet file for itself and read at once: an open spill takes one
//! block, decoded, and there is no footer that grows with it. Of each row a spill tells which file it
//! came from, and so rows are ordered and merged as if the files themselves were read.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};
use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt, buffered::BufWriter, path::Path};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
        arrow_writer::ArrowWriterOptions,
    },
    basic::Compression,
    errors::ParquetError,
    file::properties::{EnabledStatistics, WriterProperties},
};
use tokio::io::AsyncWriteExt;

use crate::{
    data_file::KeyValueBatch,
    error::{Error, Result},
};

use super::{
    file::{guard, read_error},
    run::RowSource,
    section::Section,
};

/// Bytes of a part, the least that S3 takes; one is on its way at a time.
const PART_BYTES: usize = 5 << 20;

/// What is merged: sorted runs of a section, and rows of others of it that were merged before.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) section: Section,
    pub(crate) spills: Vec<Spill>,
}

impl From<Section> for Inputs {
    fn from(section: Section) -> Self {
        let spills = Vec::new();
        Self { section, spills }
    }
}

impl Inputs {
    /// How many runs.
    pub(super) fn len(&self) -> usize {
        self.section.len() + self.spills.len()
    }
}

/// Rows of several sorted runs as one.
#[derive(Debug)]
pub(crate) struct Spill {
    store: Arc<dyn ObjectStore>,
    path: Path,
    schema: Option<SchemaRef>,
    /// Where each block ends.
    ends: Vec<u64>,
    open_bytes: u64,
    shape: SpillShape,
}

/// What is told of the rows of a spill.
#[derive(Debug, Clone)]
pub(crate) struct SpillShape {
    /// Level of each file that rows came from.
    pub(crate) levels: Arc<HashMap<usize, i32>>,
    /// Positions of rows in their files are kept.
    pub(crate) with_positions: bool,
    /// A key may have several rows, in the order of a merge; else only the newest is there.
    pub(crate) repeats: bool,
}

impl Spill {
    /// Where it stands.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the object.
    pub(crate) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Memory that it takes while it is open.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open_bytes
    }
}

/// Writes a spill.
pub(crate) struct SpillWriter {
    out: BufWriter,
    spill: Spill,
    block_bytes: usize,
    block: Option<ArrowWriter<Vec<u8>>>,
    /// For the next block.
    buffer: Vec<u8>,
    /// Decoded bytes of the open block.
    open_bytes: usize,
}

impl std::fmt::Debug for SpillWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpillWriter").finish_non_exhaustive()
    }
}

impl SpillWriter {
    /// At a path, in blocks of so many bytes of decoded rows; larger only where a row is.
    pub(crate) fn new(
        store: &Arc<dyn ObjectStore>,
        path: Path,
        shape: SpillShape,
        block_bytes: usize,
    ) -> Self {
        Self {
            out: BufWriter::with_capacity(store.clone(), path.clone(), PART_BYTES)
                .with_max_concurrency(1),
            spill: Spill {
                store: store.clone(),
                path,
                schema: None,
                ends: Vec::new(),
                open_bytes: 0,
                shape,
            },
            block_bytes,
            block: None,
            buffer: Vec::with_capacity(block_bytes),
            open_bytes: 0,
        }
    }

    /// Writes rows behind those written before, in the order of the merge that they come from. After
    /// an error only [`abort`](Self::abort) makes sense.
    pub(crate) async fn write(
        &mut self,
        rows: &KeyValueBatch,
        sources: &[RowSource],
    ) -> Result<()> {
        let batch = self.batch(rows, sources)?;
        let mut at = 0;
        while at < batch.num_rows() {
            let (piece, bytes) = self.piece(&batch, at)?;
            at += piece.num_rows();
            let mut block = match self.block.take() {
                Some(block) => block,
                None => self.begin()?,
            };
            block.write(&piece)?;
            self.block = Some(block);
            self.open_bytes += bytes;
            if self.open_bytes >= self.block_bytes {
                self.end_block().await?;
            }
        }
        Ok(())
    }

    /// All columns, then sequence numbers, kinds and sources.
    fn batch(&mut self, rows: &KeyValueBatch, sources: &[RowSource]) -> Result<RecordBatch> {
        let mut columns = rows.columns.clone();
        columns.push(Arc::new(rows.sequences.clone()));
        columns.push(Arc::new(rows.kinds.clone()));
        let number = |source: &RowSource| i32::try_from(source.file).unwrap_or(i32::MAX);
        let files = Int32Array::from_iter_values(sources.iter().map(number));
        columns.push(Arc::new(files));
        if self.spill.shape.with_positions {
            let positions = sources.iter().map(|source| source.position);
            columns.push(Arc::new(Int64Array::from_iter_values(positions)));
        }
        let schema = self.spill.schema.get_or_insert_with(|| {
            // Rows that take others away may have no values where the table's have.
            let field = |(at, column): (usize, &ArrayRef)| {
                Field::new(format!("c{at}"), column.data_type().clone(), true)
            };
            let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
            Arc::new(ArrowSchema::new(fields))
        });
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    }

    /// Rows that fill a block, from a row on, and their bytes.
    fn piece(&self, batch: &RecordBatch, at: usize) -> Result<(RecordBatch, usize)> {
        let left = batch.num_rows() - at;
        let mut rows = left;
        loop {
            let piece = batch.slice(at, rows);
            let bytes = bytes_of(&piece)?;
            if bytes <= self.block_bytes || rows == 1 {
                return Ok((piece, bytes));
            }
            let row_bytes = (bytes / rows).max(1);
            rows = (self.block_bytes / row_bytes).clamp(1, rows / 2);
        }
    }

    fn begin(&mut self) -> Result<ArrowWriter<Vec<u8>>> {
        let schema = self.spill.schema.clone();
        let schema = schema.ok_or_else(|| Error::Internal("a spill of no columns".into()))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true);
        let options = ArrowWriterOptions::new()
            .with_properties(properties.build())
            .with_skip_arrow_metadata(true);
        let buffer = std::mem::take(&mut self.buffer);
        Ok(ArrowWriter::try_new_with_options(buffer, schema, options)?)
    }

    async fn end_block(&mut self) -> Result<()> {
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        let mut buffer = block.into_inner()?;
        let bytes = Bytes::copy_from_slice(&buffer);
        buffer.clear();
        if buffer.capacity() <= 2 * self.block_bytes {
            self.buffer = buffer;
        }
        let spill = &mut self.spill;
        let open = (bytes.len() + std::mem::take(&mut self.open_bytes)) as u64;
        spill.open_bytes = spill.open_bytes.max(open);
        spill.ends.push(spill.bytes() + bytes.len() as u64);
        let put = self.out.put(bytes).await;
        put.map_err(|source| Error::store("cannot write", &spill.path, source))
    }

    /// Completes the spill. On an error it is for the caller to remove.
    pub(crate) async fn finish(mut self) -> Result<Spill> {
        self.end_block().await?;
        self.out.shutdown().await.map_err(|error| {
            let source = object_store::Error::Generic {
                store: "buffered",
                source: Box::new(error),
            };
            Error::store("cannot write", &self.spill.path, source)
        })?;
        Ok(self.spill)
    }

    /// Throws away what is not yet in the store as an object.
    pub(crate) async fn abort(mut self) {
        if let Err(error) = self.out.abort().await {
            tracing::warn!(path = %self.spill.path, %error, "cannot abort a half written file");
        }
    }
}

/// Bytes of the values of these rows, whatever else is in the memory that they are in.
fn bytes_of(rows: &RecordBatch) -> Result<usize> {
    let columns = rows.columns().iter();
    let bytes = columns.map(|column| column.to_data().get_slice_memory_size());
    Ok(bytes.sum::<std::result::Result<usize, _>>()?)
}

/// Reads a spill block by block.
#[derive(Debug)]
pub(super) struct SpillReader {
    spill: Spill,
    next: usize,
}

/// A block of a spill.
#[derive(Debug)]
pub(super) struct Block {
    /// Those handed on, the sequence numbers, the kinds.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) files: Int32Array,
    pub(super) positions: Option<Int64Array>,
    pub(super) bytes: usize,
}

impl SpillReader {
    pub(super) fn new(spill: Spill) -> Self {
        Self { spill, next: 0 }
    }

    pub(super) fn shape(&self) -> &SpillShape {
        &self.spill.shape
    }

    pub(super) fn name(&self) -> String {
        self.spill.path.to_string()
    }

    /// The next block; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Block>> {
        let (Some(end), Some(schema)) = (self.spill.ends.get(self.next), &self.spill.schema) else {
            return Ok(None);
        };
        let before = self
            .next
            .checked_sub(1)
            .and_then(|at| self.spill.ends.get(at));
        let range = before.copied().unwrap_or(0)..*end;
        self.next += 1;
        let Spill { store, path, .. } = &self.spill;
        let at = path.to_string();
        let rows = guard::step(&at, read(store.as_ref(), path, range, schema)).await?;
        let bytes = bytes_of(&rows)?;
        let mut columns = rows.columns().to_vec();
        let (mut positions, mut files) = (None, None);
        if self.spill.shape.with_positions {
            positions = columns.pop();
        }
        if let Some(column) = columns.pop() {
            files = column.as_any().downcast_ref::<Int32Array>().cloned();
        }
        let positions = positions.and_then(|it| it.as_any().downcast_ref::<Int64Array>().cloned());
        Ok(Some(Block {
            columns,
            files: files.ok_or_else(|| Error::Internal("a spill without sources".into()))?,
            positions,
            bytes,
        }))
    }
}

async fn read(
    store: &dyn ObjectStore,
    path: &Path,
    range: Range<u64>,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let bytes = store.get_range(path, range).await;
    let bytes = bytes.map_err(|source| Error::store("cannot read", path, source))?;
    let decode = || {
        let options = ArrowReaderOptions::new().with_schema(schema.clone());
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options)?;
        let rows = builder.metadata().file_metadata().num_rows();
        let rows = usize::try_from(rows).unwrap_or(0);
        let mut batches = builder.with_batch_size(rows).build()?;
        let batch = batches.next().transpose()?;
        batch
            .filter(|batch| batch.num_rows() == rows)
            .ok_or_else(|| ParquetError::General("a block in several batches".into()))
    };
    decode().map_err(|error: ParquetError| read_error(path.as_ref(), error))
}
