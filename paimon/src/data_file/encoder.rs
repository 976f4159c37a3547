//! Parquet as Java Paimon writes it: the schema, and an encoder of one file.
//!
//! The encoder stands on the parts of the `parquet` crate's Arrow writer, because that writer has
//! no INT96, which timestamps of 7 to 9 digits are in this format.
//!
//! Source of the schema: `ParquetSchemaConverter`, `SpecialFields`; checked against a file of Java
//! Paimon 1.4.2.

mod pages;
mod parquet_schema;
mod search;
mod sink;

use std::{collections::HashSet, io, sync::Arc};

use arrow_array::{Array, ArrayRef, cast::AsArray, types::TimestampNanosecondType};
use arrow_schema::{DataType as ArrowType, Field, TimeUnit as ArrowTimeUnit};
use bytes::Bytes;
use parquet::{
    arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves},
    basic::Compression,
    column::writer::ColumnCloseResult,
    data_type::{Int96, Int96Type},
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
        properties::{EnabledStatistics, WriterProperties},
        reader::{ChunkReader, Length},
        writer::SerializedFileWriter,
    },
    schema::types::{ColumnPath, Type, TypePtr},
};

use crate::{
    binary_row::{BinaryRowWriter, RowEncoder},
    bucket,
    data_type::{DataField, DataType},
    error::{Error, Result},
    read::row_groups::{ColumnChunk, RowGroups},
    schema::Schema,
};

use self::{
    pages::{ColumnPages, LeafWriter},
    parquet_schema::{column_type, leaf_paths},
    search::Habit,
    sink::Sink,
};

/// `_SEQUENCE_NUMBER`
const SEQUENCE_FIELD_ID: i32 = i32::MAX - 1;
/// `_VALUE_KIND`
const KIND_FIELD_ID: i32 = i32::MAX - 2;
/// `_KEY_x` of a field has this added to the field's id.
const KEY_FIELD_ID_START: i32 = i32::MAX / 2;

/// Rows of the first batch that decide about dictionaries.
const SAMPLE_ROWS: usize = 1024;
/// A dictionary pays when a value stands in so many rows.
const REPEATS_MIN: usize = 4;
/// Rows and bytes at which a column ends a page. About a quarter of the format's usual page: a page
/// and its compressed copy stay in the processor's cache. More than 256 KiB, because up to there
/// zstd's level 1 looks for matches of six bytes, beyond it for seven (`ZSTD_defaultCParameters`),
/// and is faster where those do as well.
const PAGE_ROWS: usize = 20_000;
const PAGE_BYTES: usize = 264 << 10;
/// About what a zstd compressor of the crate takes; there is one a column, from its first page on.
const COMPRESSOR_BYTES: usize = 512 << 10;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const JULIAN_DAY_OF_EPOCH: i64 = 2_440_588;

/// What all files of a table at one schema have in common.
#[derive(Debug)]
pub(crate) struct FileShape {
    /// Key columns, sequence number, kind, value columns.
    columns: Vec<DataField>,
    arrow: Arc<arrow_schema::Schema>,
    parquet: TypePtr,
    /// What option `parquet.enable.dictionary` says, if anything.
    dictionary: Option<bool>,
    /// Of the leaf columns, in order.
    habits: Vec<Arc<Habit>>,
}

impl FileShape {
    pub(crate) fn new(schema: &Schema, keys: &[usize]) -> Result<Self> {
        let option = |name: &str| schema.options.get(name).map(String::as_str);
        let mut columns = Vec::with_capacity(keys.len() + 2 + schema.fields.len());
        for field in keys.iter().filter_map(|at| schema.fields.get(*at)) {
            columns.push(DataField {
                id: KEY_FIELD_ID_START + field.id,
                name: format!("_KEY_{}", field.name),
                nullable: false,
                ..field.clone()
            });
        }
        if !schema.primary_keys.is_empty() {
            let sequence = ("_SEQUENCE_NUMBER", SEQUENCE_FIELD_ID, DataType::BigInt);
            let kind = ("_VALUE_KIND", KIND_FIELD_ID, DataType::TinyInt);
            for (name, id, data_type) in [sequence, kind] {
                columns.push(system_field(name, id, data_type));
            }
        }
        columns.extend(schema.fields.iter().cloned());
        let arrow = columns
            .iter()
            .map(|field| Field::new(&field.name, field.data_type.arrow(), field.nullable))
            .collect::<Vec<_>>();
        let types = columns
            .iter()
            .map(|field| column_type(field, false).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        let parquet = Type::group_type_builder("paimon_schema")
            .with_fields(types)
            .build()?;
        let leaves = columns.iter();
        let leaves = leaves.map(|field| leaf_paths(&field.data_type, Vec::new()).len());
        let leaves = leaves.sum::<usize>();
        Ok(Self {
            columns,
            arrow: Arc::new(arrow_schema::Schema::new(arrow)),
            parquet: Arc::new(parquet),
            dictionary: option("parquet.enable.dictionary")
                .map(|enable| enable.eq_ignore_ascii_case("true")),
            habits: (0..leaves).map(|_| Arc::default()).collect(),
        })
    }

    /// `repeats` says of each column, by its place, whether it gets a dictionary where the table's
    /// options leave it open.
    fn properties(
        &self,
        compression: Compression,
        repeats: impl Fn(usize, &DataField) -> bool,
    ) -> WriterProperties {
        let by_crate = match pages::are_ours(compression) {
            true => Compression::UNCOMPRESSED,
            false => compression,
        };
        let mut properties = WriterProperties::builder()
            .set_compression(by_crate)
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(concat!("headwater-paimon version ", env!("CARGO_PKG_VERSION")).into());
        for (at, field) in self.columns.iter().enumerate() {
            let enabled = self.dictionary.unwrap_or_else(|| repeats(at, field));
            for path in leaf_paths(&field.data_type, vec![field.name.clone()]) {
                let path = ColumnPath::new(path);
                if is_int96(&field.data_type.arrow()) {
                    properties = properties.set_column_compression(path.clone(), compression);
                }
                if is_bytes(&field.data_type) {
                    // Nobody looks for bytes between others, and two whole values would be kept.
                    let none = EnabledStatistics::None;
                    properties = properties.set_column_statistics_enabled(path.clone(), none);
                }
                properties = properties.set_column_dictionary_enabled(path, enabled);
            }
        }
        properties.build()
    }
}

/// Whether the crate's Arrow writer cannot write it.
fn is_int96(data_type: &ArrowType) -> bool {
    matches!(
        data_type,
        ArrowType::Timestamp(ArrowTimeUnit::Nanosecond, _)
    )
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes
    )
}

fn system_field(name: &str, id: i32, data_type: DataType) -> DataField {
    DataField {
        id,
        name: name.to_owned(),
        data_type,
        nullable: false,
        description: None,
        default_value: None,
    }
}

/// Whether values repeat so often that a dictionary pays. It never does for a few rows, and less
/// than the compressor does alone for a sequence number or kind that all rows have.
fn repeats(array: &ArrayRef, field: &DataField) -> bool {
    if array.len() < SAMPLE_ROWS {
        return false;
    }
    let Ok(encoder) = RowEncoder::new([(&array.slice(0, SAMPLE_ROWS), &field.data_type)]) else {
        // Values within others are not looked at.
        return true;
    };
    let mut writer = BinaryRowWriter::new(1);
    let mut seen = HashSet::new();
    for row in 0..SAMPLE_ROWS {
        encoder.encode(row, &mut writer);
        seen.insert(bucket::hash(writer.row()));
    }
    let is_constant = seen.len() == 1 && matches!(field.id, SEQUENCE_FIELD_ID | KIND_FIELD_ID);
    seen.len() * REPEATS_MIN <= SAMPLE_ROWS && !is_constant
}

/// A column chunk, addressed as in the file that it comes from.
struct ChunkBytes {
    start: u64,
    bytes: Bytes,
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let left = self.bytes.len();
        let skipped = usize::try_from(start.saturating_sub(self.start)).unwrap_or(left);
        Ok(io::Cursor::new(self.bytes.slice(skipped.min(left)..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let mut rest = self.get_read(start)?.into_inner();
        rest.truncate(length);
        Ok(rest)
    }
}

/// One column of the open row group.
enum ColumnEncoder {
    /// One writer for each leaf of the column's type.
    Arrow(Vec<LeafWriter>),
    /// Kept until the row group closes.
    Int96 {
        values: Vec<Int96>,
        levels: Vec<i16>,
        optional: bool,
    },
}

/// Encodes one file; what is ready is taken with [`Encoder::take`].
pub(crate) struct Encoder {
    shape: Arc<FileShape>,
    compression: Compression,
    file: SerializedFileWriter<Sink>,
    factory: ArrowRowGroupWriterFactory,
    /// Unless the crate compresses them.
    pages: Option<Arc<ColumnPages>>,
    open: Option<Vec<ColumnEncoder>>,
    open_rows: usize,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// `sample` is the first batch, which decides about dictionaries.
    pub(crate) fn new(
        shape: Arc<FileShape>,
        compression: Compression,
        sample: &[ArrayRef],
    ) -> Result<Self> {
        let repeats = |at: usize, field: &DataField| {
            let array = sample.get(at);
            array.is_none_or(|array| repeats(array, field))
        };
        Self::with_dictionaries(shape, compression, repeats)
    }

    /// For a file that begins with this row group of another file: with dictionaries where that
    /// has them.
    pub(crate) fn beginning_with(
        shape: Arc<FileShape>,
        compression: Compression,
        first: &RowGroupMetaData,
    ) -> Result<Self> {
        let names = shape.columns.iter().map(|field| field.name.clone());
        let names: Vec<String> = names.collect();
        let repeats = |at: usize, _: &DataField| {
            let is_of = |column: &&ColumnChunkMetaData| {
                column.column_path().parts().first() == names.get(at)
            };
            let mut leaves = first.columns().iter().filter(is_of);
            leaves.any(|column| column.dictionary_page_offset().is_some())
        };
        Self::with_dictionaries(shape, compression, repeats)
    }

    fn with_dictionaries(
        shape: Arc<FileShape>,
        compression: Compression,
        repeats: impl Fn(usize, &DataField) -> bool,
    ) -> Result<Self> {
        let properties = Arc::new(shape.properties(compression, repeats));
        let file = SerializedFileWriter::new(Sink::default(), shape.parquet.clone(), properties)?;
        let mut factory = ArrowRowGroupWriterFactory::new(&file, shape.arrow.clone());
        let pages = pages::are_ours(compression).then(|| ColumnPages::new(&shape.habits));
        let pages = pages.map(Arc::new);
        if let Some(pages) = &pages {
            factory = factory.with_page_store_factory(pages.clone());
        }
        Ok(Self {
            shape,
            compression,
            file,
            factory,
            pages,
            open: None,
            open_rows: 0,
        })
    }

    /// Encodes a batch: all columns of the file, in order, of one length.
    pub(crate) fn write(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if columns.len() != self.shape.columns.len() {
            return Err(Error::Internal(
                "a batch with other columns than the file".into(),
            ));
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin_row_group()?,
        };
        let fields = self.shape.arrow.fields().iter();
        for ((encoder, field), array) in open.iter_mut().zip(fields).zip(columns) {
            match encoder {
                ColumnEncoder::Arrow(writers) => {
                    for (writer, leaf) in writers.iter_mut().zip(compute_leaves(field, array)?) {
                        writer.write(&leaf)?;
                    }
                }
                ColumnEncoder::Int96 { values, levels, .. } => {
                    for ticks in array.as_primitive::<TimestampNanosecondType>() {
                        levels.push(i16::from(ticks.is_some()));
                        values.extend(ticks.map(int96));
                    }
                }
            }
        }
        self.open = Some(open);
        self.open_rows += columns.first().map_or(0, |column| column.len());
        Ok(())
    }

    fn begin_row_group(&self) -> Result<Vec<ColumnEncoder>> {
        let writers = self
            .factory
            .create_column_writers(self.file.flushed_row_groups().len())?;
        let writers: Vec<LeafWriter> = match &self.pages {
            Some(pages) => pages.writers(writers),
            None => writers.into_iter().map(LeafWriter::of_crate).collect(),
        };
        let mut writers = writers.into_iter();
        let fields = self.shape.arrow.fields().iter().zip(&self.shape.columns);
        Ok(fields
            .map(|(field, column)| {
                let leaves = leaf_paths(&column.data_type, Vec::new()).len();
                (field, writers.by_ref().take(leaves).collect())
            })
            .map(|(field, writers)| match is_int96(field.data_type()) {
                true => ColumnEncoder::Int96 {
                    values: Vec::new(),
                    levels: Vec::new(),
                    optional: field.is_nullable(),
                },
                false => ColumnEncoder::Arrow(writers),
            })
            .collect())
    }

    /// Closes the open row group, if any, so that its bytes can be taken.
    pub(crate) fn end_row_group(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.open_rows = 0;
        let mut group = self.file.next_row_group()?;
        for encoder in open {
            match encoder {
                ColumnEncoder::Arrow(writers) => {
                    for writer in writers {
                        writer.append_to(&mut group, self.compression)?;
                    }
                }
                ColumnEncoder::Int96 {
                    values,
                    levels,
                    optional,
                } => {
                    let mut column = group
                        .next_column()?
                        .ok_or_else(|| Error::Internal("no INT96 column in the file".into()))?;
                    let levels = optional.then_some(levels.as_slice());
                    column
                        .typed::<Int96Type>()
                        .write_batch(&values, levels, None)?;
                    column.close()?;
                }
            }
        }
        group.close()?;
        self.file
            .flush()
            .map_err(parquet::errors::ParquetError::from)?;
        Ok(())
    }

    /// Whether row groups of a file with this footer can stand in ours as they are: the same
    /// columns, written in the same way.
    pub(crate) fn takes(
        shape: &FileShape,
        compression: Compression,
        footer: &ParquetMetaData,
    ) -> bool {
        let same = |column: &ColumnChunkMetaData| {
            // The level of zstd stands in no file.
            std::mem::discriminant(&column.compression()) == std::mem::discriminant(&compression)
        };
        let mut columns = footer.row_groups().iter().flat_map(|group| group.columns());
        *footer.file_metadata().schema_descr().root_schema() == *shape.parquet && columns.all(same)
    }

    /// Puts a row group of another file, which [can stand here](Self::takes), behind what was
    /// written.
    pub(crate) async fn append_row_group(&mut self, of: &mut RowGroups, at: usize) -> Result<()> {
        self.end_row_group()?;
        let rows = of.metadata().row_group(at).num_rows().unsigned_abs();
        let mut group = self.file.next_row_group()?;
        for part in of.parts(at) {
            for column in of.columns(at, part).await? {
                let ColumnChunk {
                    metadata,
                    pages,
                    bytes,
                } = column;
                let (start, _) = metadata.byte_range();
                let chunk = ChunkBytes { start, bytes };
                let close = ColumnCloseResult {
                    bytes_written: chunk.len(),
                    rows_written: rows,
                    metadata,
                    bloom_filter: None,
                    column_index: None,
                    offset_index: pages,
                };
                group.append_column(&chunk, close)?;
            }
        }
        group.close()?;
        self.file
            .flush()
            .map_err(parquet::errors::ParquetError::from)?;
        Ok(())
    }

    /// Bytes of memory that the rows of the open row group take.
    pub(crate) fn open_bytes(&self) -> usize {
        self.open.iter().flatten().map(ColumnEncoder::bytes).sum()
    }

    /// About how many bytes of memory the compressors of the open row group take. Ours are of no
    /// file but of a thread.
    pub(crate) fn compressor_bytes(&self) -> usize {
        if self.pages.is_some() || !matches!(self.compression, Compression::ZSTD(_)) {
            return 0;
        }
        let has_pages = |column: &&ColumnEncoder| {
            self.open_rows >= PAGE_ROWS || column.encoded_bytes() >= PAGE_BYTES
        };
        self.open.iter().flatten().filter(has_pages).count() * COMPRESSOR_BYTES
    }

    /// About how many bytes the file has so far, the open row group included.
    pub(crate) fn file_bytes(&self) -> usize {
        let open = self.open.iter().flatten().map(ColumnEncoder::encoded_bytes);
        self.file.bytes_written() + open.sum::<usize>()
    }

    /// Takes what is ready, in pieces.
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        self.file.inner_mut().take()
    }

    /// Writes the footer; the rest is to be taken then.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.end_row_group()?;
        self.file.finish()?;
        self.file
            .flush()
            .map_err(parquet::errors::ParquetError::from)?;
        Ok(())
    }
}

impl ColumnEncoder {
    fn bytes(&self) -> usize {
        match self {
            Self::Arrow(writers) => writers.iter().map(LeafWriter::memory_size).sum(),
            Self::Int96 { values, levels, .. } => {
                values.capacity() * size_of::<Int96>() + levels.capacity() * size_of::<i16>()
            }
        }
    }

    fn encoded_bytes(&self) -> usize {
        match self {
            Self::Arrow(writers) => writers.iter().map(LeafWriter::encoded_bytes).sum(),
            Self::Int96 { values, .. } => values.len() * size_of::<Int96>(),
        }
    }
}

/// Nanoseconds since the epoch as Julian day and nanoseconds of the day.
fn int96(ticks: i64) -> Int96 {
    let day = ticks.div_euclid(NANOS_PER_DAY) + JULIAN_DAY_OF_EPOCH;
    let nanos = ticks.rem_euclid(NANOS_PER_DAY) as u64;
    let mut value = Int96::new();
    value.set_data(nanos as u32, (nanos >> 32) as u32, day as u32);
    value
}

#[cfg(test)]
mod tests;
