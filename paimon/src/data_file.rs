//! Data files of a bucket: sorted key-value rows in Parquet, written straight into the store.
//!
//! A file has the columns `_KEY_x`, `_SEQUENCE_NUMBER`, `_VALUE_KIND` and the table's own. Nobody
//! sees it before a commit names it.
//!
//! Source: `KeyValueDataFileWriter`, `RollingFileWriter`, `DataFilePathFactory`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int8Array, Int64Array};
use object_store::{ObjectStore, ObjectStoreExt, buffered::BufWriter, path::Path};
use tokio::io::AsyncWriteExt;

use crate::{
    binary_row::{Column, RowEncoder},
    data_file_meta::DataFileMeta,
    data_type::DataType,
    error::{Error, Result},
    key_order::KeyOrder,
    stats::FileStats,
    table::Table,
    table_options::TableOptions,
};

mod copy;
mod encoder;
mod rolling;
mod style;

pub(crate) use copy::CopySource;
use encoder::{Encoder, FileShape};
pub use rolling::RollingWriter;
pub(crate) use style::FileStyles;

/// Size of the parts that a file is sent in; the least that S3 takes.
const PART_BYTES: usize = 5 << 20;
/// Parts on their way at a time, for each file: memory that nobody else counts.
const PARTS_IN_FLIGHT: usize = 1;
/// Encoded size at which a row group ends, unless option `file.block-size` says less: what an open
/// file keeps in memory.
const ROW_GROUP_BYTES: usize = 16 << 20;

/// Who writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePurpose {
    /// A writer of rows.
    Append,
    /// A compaction.
    Compact,
    /// A compaction, for readers of changes.
    Changelog,
}

impl FilePurpose {
    /// `_FILE_SOURCE`. Changelog files are none of a compaction's.
    fn file_source(self) -> i32 {
        match self {
            Self::Append | Self::Changelog => 0,
            Self::Compact => 1,
        }
    }
}

/// Kind of a row in `_VALUE_KIND`; the format's numbers.
pub(crate) mod kind {
    pub(crate) const INSERT: i8 = 0;
    pub(crate) const UPDATE_BEFORE: i8 = 1;
    pub(crate) const UPDATE_AFTER: i8 = 2;
    pub(crate) const DELETE: i8 = 3;
}

/// What the files of a table at one schema have in common.
#[derive(Debug)]
pub struct FileLayout {
    store: Arc<dyn ObjectStore>,
    table: Arc<crate::Schema>,
    /// Positions of the key columns among the value columns.
    keys: Vec<usize>,
    shape: Arc<FileShape>,
    styles: FileStyles,
    row_group_bytes: usize,
    /// Rows of a file that is not a compaction's, at most.
    rows_max: u64,
}

impl FileLayout {
    /// Of a table; options that this crate does not honour are refused.
    pub fn new(table: &Table) -> Result<Arc<Self>> {
        let schema = table.schema();
        table.check_options()?;
        let keys = schema
            .trimmed_primary_keys()
            .into_iter()
            .map(|name| {
                schema
                    .field(name)
                    .map(|(at, _)| at)
                    .ok_or_else(|| Error::Table {
                        table: table.name().to_owned(),
                        message: format!("its key {name} is not a column"),
                    })
            })
            .collect::<Result<Vec<_>>>()?;
        if keys.is_empty() && !schema.primary_keys.is_empty() {
            return Err(Error::Unsupported(format!(
                "table {}: no key besides the partition columns",
                table.name()
            )));
        }
        let options = TableOptions::of(schema)?.files;
        let block_bytes = options.block_bytes.unwrap_or(u64::MAX);
        Ok(Arc::new(Self {
            store: table.store().clone(),
            shape: Arc::new(FileShape::new(schema, &keys)?),
            styles: FileStyles::new(schema)?,
            row_group_bytes: usize::try_from(block_bytes)
                .unwrap_or(usize::MAX)
                .min(ROW_GROUP_BYTES),
            rows_max: options.target_rows,
            table: schema.clone(),
            keys,
        }))
    }

    /// Positions of the key columns among the table's columns.
    pub fn keys(&self) -> &[usize] {
        &self.keys
    }

    /// Of a table's columns those of the key, in order.
    pub(crate) fn key_columns(&self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let keys = self.keys.iter();
        keys.filter_map(|at| columns.get(*at).cloned()).collect()
    }

    /// How the table's keys compare.
    pub(crate) fn key_order(&self) -> Result<KeyOrder> {
        let fields = self.keys.iter();
        KeyOrder::new(fields.filter_map(|at| self.table.fields.get(*at)))
    }

    /// Deletes files that no commit will name. What cannot be deleted is left and said in the log:
    /// nobody sees it.
    pub(crate) async fn delete(&self, folder: &str, files: &[DataFileMeta]) {
        for file in files {
            let path = format!("{folder}/{}", file.file_name);
            match Path::parse(&path) {
                Ok(path) => delete(&self.store, &path).await,
                Err(error) => tracing::warn!(path, %error, "cannot delete a file"),
            }
        }
    }
}

async fn delete(store: &Arc<dyn ObjectStore>, path: &Path) {
    match store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => tracing::warn!(%path, %error, "cannot delete a half written file"),
    }
}

/// Rows of one bucket, sorted by key.
#[derive(Debug, Clone)]
pub struct KeyValueBatch {
    /// The table's columns, in order.
    pub columns: Vec<ArrayRef>,
    /// Sequence numbers.
    pub sequences: Int64Array,
    /// Kinds: 0 +I, 1 −U, 2 +U, 3 −D.
    pub kinds: Int8Array,
}

impl KeyValueBatch {
    /// Rows of it; nothing is copied.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        Self {
            columns: self
                .columns
                .iter()
                .map(|column| column.slice(offset, length))
                .collect(),
            sequences: self.sequences.slice(offset, length),
            kinds: self.kinds.slice(offset, length),
        }
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.sequences.len()
    }
}

/// Writes one data file.
#[derive(Debug)]
pub struct DataFileWriter {
    layout: Arc<FileLayout>,
    path: Path,
    file_name: String,
    level: i32,
    purpose: FilePurpose,
    out: BufWriter,
    /// Made with the first batch.
    encoder: Option<Encoder>,
    handed_bytes: usize,
    rows: i64,
    deletes: i64,
    sequences: Option<(i64, i64)>,
    keys: Option<(Vec<u8>, Vec<u8>)>,
    stats: FileStats,
}

impl DataFileWriter {
    /// Begins a file; nothing is written yet.
    pub fn new(
        layout: &Arc<FileLayout>,
        folder: &str,
        file_name: String,
        level: i32,
    ) -> Result<Self> {
        let path = Path::parse(format!("{folder}/{file_name}"))
            .map_err(|error| Error::Internal(format!("{folder} is no folder: {error}")))?;
        let out = BufWriter::with_capacity(layout.store.clone(), path.clone(), PART_BYTES)
            .with_max_concurrency(PARTS_IN_FLIGHT);
        Ok(Self {
            stats: FileStats::new(layout.table.fields.len()),
            layout: layout.clone(),
            path,
            file_name,
            level,
            purpose: FilePurpose::Append,
            out,
            encoder: None,
            handed_bytes: 0,
            rows: 0,
            deletes: 0,
            sequences: None,
            keys: None,
        })
    }

    /// Writes rows whose keys are behind those written before. After an error only
    /// [`abort`](Self::abort) makes sense.
    pub async fn write(&mut self, batch: &KeyValueBatch) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        self.observe(batch)?;
        let layout = self.layout.clone();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.columns.len() + 4);
        // Files of append tables have the table's columns only.
        if !layout.table.primary_keys.is_empty() {
            let key = |at: &usize| batch.columns.get(*at).cloned();
            columns.extend(layout.keys.iter().filter_map(key));
            columns.push(Arc::new(batch.sequences.clone()));
            columns.push(Arc::new(batch.kinds.clone()));
        }
        columns.extend(batch.columns.iter().cloned());
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => {
                let compression = layout.styles.compression(self.level, self.purpose);
                Encoder::new(layout.shape.clone(), compression, &columns)?
            }
        };
        encoder.write(&columns)?;
        if encoder.open_bytes() >= layout.row_group_bytes {
            encoder.end_row_group()?;
        }
        self.encoder = Some(encoder);
        self.drain().await
    }

    /// Puts the row groups of another file of the bucket behind the rows written so far, whose keys
    /// are below its own, as they are.
    async fn copy(&mut self, source: CopySource) -> Result<()> {
        let CopySource {
            meta,
            mut groups,
            stats,
        } = source;
        if self.encoder.is_none() {
            let first = groups.metadata().row_groups().first();
            let first = first.ok_or_else(|| Error::Corrupt {
                path: meta.file_name.clone(),
                message: "a data file without row groups".to_owned(),
            })?;
            let compression = self.layout.styles.compression(self.level, self.purpose);
            let shape = self.layout.shape.clone();
            self.encoder = Some(Encoder::beginning_with(shape, compression, first)?);
        }
        for at in 0..groups.metadata().num_row_groups() {
            if let Some(encoder) = &mut self.encoder {
                encoder.append_row_group(&mut groups, at).await?;
            }
            self.drain().await?;
        }
        self.stats.merge(stats);
        self.keys = Some(match self.keys.take() {
            Some((min, _)) => (min, meta.max_key),
            None => (meta.min_key, meta.max_key),
        });
        let (min, max) = (meta.min_sequence_number, meta.max_sequence_number);
        let sequences = self.sequences.unwrap_or((min, max));
        self.sequences = Some((sequences.0.min(min), sequences.1.max(max)));
        self.deletes += meta.delete_row_count.unwrap_or(0);
        self.rows += meta.row_count;
        Ok(())
    }

    /// Takes in what the metadata says about the rows.
    fn observe(&mut self, batch: &KeyValueBatch) -> Result<()> {
        let fields = &self.layout.table.fields;
        let columns = batch
            .columns
            .iter()
            .zip(fields)
            .map(|(array, field)| Column::new(array, &field.data_type))
            .collect::<Result<Vec<_>>>()?;
        if columns.len() != fields.len() {
            return Err(Error::Internal("a batch with too few columns".into()));
        }
        self.stats.update(&columns);
        let key_columns: Vec<(&ArrayRef, &DataType)> = self
            .layout
            .keys
            .iter()
            .filter_map(|at| batch.columns.get(*at).zip(fields.get(*at)))
            .map(|(array, field)| (array, &field.data_type))
            .collect();
        let keys = RowEncoder::new(key_columns)?;
        let last = keys.serialize(batch.rows() - 1);
        self.keys = Some(match self.keys.take() {
            Some((min, _)) => (min, last),
            None => (keys.serialize(0), last),
        });
        for sequence in batch.sequences.values() {
            let (min, max) = self.sequences.unwrap_or((*sequence, *sequence));
            self.sequences = Some((min.min(*sequence), max.max(*sequence)));
        }
        let is_delete = |kind: &&i8| matches!(**kind, kind::UPDATE_BEFORE | kind::DELETE);
        self.deletes += batch.kinds.values().iter().filter(is_delete).count() as i64;
        self.rows += batch.rows() as i64;
        Ok(())
    }

    /// Hands what is encoded to the store.
    async fn drain(&mut self) -> Result<()> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        // One after the other: a put spawns all parts that it fills, whatever is in flight.
        for piece in encoder.take() {
            self.handed_bytes += piece.len();
            self.out
                .put(piece)
                .await
                .map_err(|source| Error::store("cannot write", &self.path, source))?;
        }
        Ok(())
    }

    /// Bytes of memory that the file takes: the open row group, what is not yet sent and what may
    /// be on its way.
    pub fn in_progress_size(&self) -> usize {
        let sent = self.handed_bytes / PART_BYTES;
        let on_the_way = sent.min(PARTS_IN_FLIGHT) * PART_BYTES;
        self.open_bytes() + on_the_way + self.handed_bytes % PART_BYTES
    }

    /// Bytes of memory that [`flush_row_group`](Self::flush_row_group) would give back, or nearly.
    pub fn open_bytes(&self) -> usize {
        self.encoder.as_ref().map_or(0, |encoder| {
            encoder.open_bytes() + encoder.compressor_bytes()
        })
    }

    /// About how many bytes the file has so far.
    pub fn file_bytes(&self) -> u64 {
        self.encoder.as_ref().map_or(0, Encoder::file_bytes) as u64
    }

    /// Closes the open row group, to give memory back.
    pub async fn flush_row_group(&mut self) -> Result<()> {
        if let Some(encoder) = &mut self.encoder {
            encoder.end_row_group()?;
        }
        self.drain().await
    }

    /// Completes the file. It is as durable as the store makes it; on an error it is deleted.
    pub async fn finish(mut self) -> Result<DataFileMeta> {
        let written = match self.end().await {
            Ok(()) => self.meta(),
            Err(error) => Err(error),
        };
        if written.is_err() {
            delete(&self.layout.store, &self.path).await;
        }
        written
    }

    async fn end(&mut self) -> Result<()> {
        if let Some(encoder) = &mut self.encoder {
            encoder.finish()?;
        }
        self.drain().await?;
        self.out.shutdown().await.map_err(|error| {
            let source = object_store::Error::Generic {
                store: "buffered",
                source: Box::new(error),
            };
            Error::store("cannot write", &self.path, source)
        })
    }

    fn meta(&self) -> Result<DataFileMeta> {
        let (Some((min_key, max_key)), Some((min_sequence, max_sequence))) =
            (self.keys.clone(), self.sequences)
        else {
            return Err(Error::Internal("a data file without rows".into()));
        };
        let fields = &self.layout.table.fields;
        let plan = self.layout.styles.stats(self.level, self.purpose);
        let (value_stats, value_stats_cols) = self.stats.values(fields, plan)?;
        Ok(DataFileMeta {
            file_name: self.file_name.clone(),
            file_size: self.handed_bytes as i64,
            row_count: self.rows,
            min_key,
            max_key,
            key_stats: self.stats.keys(fields, &self.layout.keys)?,
            value_stats,
            min_sequence_number: min_sequence,
            max_sequence_number: max_sequence,
            schema_id: self.layout.table.id,
            level: self.level,
            extra_files: Vec::new(),
            creation_time_ms: Some(local_wall_clock_ms()),
            delete_row_count: Some(self.deletes),
            embedded_index: None,
            file_source: Some(self.purpose.file_source()),
            value_stats_cols,
            external_path: None,
            first_row_id: None,
            write_cols: None,
        })
    }

    /// Throws the file away.
    pub async fn abort(mut self) {
        if let Err(error) = self.out.abort().await {
            tracing::warn!(path = %self.path, %error, "cannot abort a half written file");
        }
        delete(&self.layout.store, &self.path).await;
    }
}

/// The local wall clock as if it were UTC, milliseconds since the epoch: what `_CREATION_TIME` is.
pub(crate) fn local_wall_clock_ms() -> i64 {
    let now = jiff::ZonedDateTime::now();
    now.timestamp().as_millisecond() + i64::from(now.offset().seconds()) * 1000
}
