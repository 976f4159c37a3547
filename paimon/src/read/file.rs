//! Opens one data file and hands on batches of the wanted columns.

mod avro;
mod footers;
pub(super) mod guard;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use object_store::path::Path;
use parquet::{arrow::ProjectionMask, errors::ParquetError, file::metadata::ParquetMetaData};

use crate::{
    data_file_meta::DataFileMeta,
    data_type::DataField,
    error::{Error, Result},
    index::deletion_vector::{DeletionVector, DeletionVectors},
    schema::Schema,
    table::Table,
};

use self::footers::Footers;

use super::{
    bind::{Origin, bind},
    bucket::Deletions,
    cast::Cast,
    deletions::{Positions, left},
    parquet_file::{ParquetFile, SliceReader},
    predicate::Bound,
    prune,
    seek::Selected,
    slices::{self, Budget, Plan},
};

/// Name of the column with each row's sequence number.
pub(crate) const SEQUENCE: &str = "_SEQUENCE_NUMBER";
/// Name of the column with each row's kind: 0 insert, 1 update before, 2 update after, 3 delete.
pub(crate) const KIND: &str = "_VALUE_KIND";
/// Name of the column with each row's position in its file, which stands in no file: that of the
/// first row is 0, and rows that are not read count too.
pub(crate) const POSITION: &str = "_POSITION";

/// Memory of the files that a reader has open at a time, unless it is told: it reads as fast with
/// less, but asks the store more often.
pub(crate) const READ_BYTES: u64 = 64 << 20;

/// Batches of one file.
pub(crate) type FileStream = BoxStream<'static, Result<RecordBatch>>;

/// Opens the files of one bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct FileOpener {
    table: Table,
    partition: Vec<u8>,
    bucket: i32,
    /// Schemas of files, by id.
    schemas: Arc<Mutex<HashMap<i64, Arc<Schema>>>>,
    deletions: Deleted,
    prune: Option<Prune>,
    selected: Option<Arc<Selected>>,
    memory_bytes: u64,
    footers: Arc<Mutex<Footers>>,
}

/// Deletion vectors, by file name.
#[derive(Debug, Clone)]
enum Deleted {
    /// Where they stand.
    Located(Arc<Deletions>),
    Loaded(Arc<DeletionVectors>),
}

/// Leaves out row groups that cannot match.
#[derive(Debug, Clone)]
struct Prune {
    filter: Arc<Bound>,
    /// Columns whose statistics may be looked at.
    fields: Arc<Vec<DataField>>,
}

/// Columns to read: fields of the table, found in files by their id, then system columns.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    fields: Vec<DataField>,
    system: &'static [&'static str],
    schema: SchemaRef,
}

impl Wanted {
    /// These fields, then these of [`SEQUENCE`], [`KIND`] and [`POSITION`].
    pub(crate) fn new(fields: Vec<DataField>, system: &'static [&'static str]) -> Self {
        let plain = fields
            .iter()
            .map(|field| Field::new(&field.name, field.data_type.arrow(), field.nullable));
        let hidden = system.iter().map(|name| {
            let data_type = if *name == KIND {
                arrow_schema::DataType::Int8
            } else {
                arrow_schema::DataType::Int64
            };
            Field::new(*name, data_type, false)
        });
        let schema = Arc::new(ArrowSchema::new(plain.chain(hidden).collect::<Vec<_>>()));
        Self {
            fields,
            system,
            schema,
        }
    }

    /// Arrow schema of the batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Where each column stands in a file of this schema that has these columns.
    fn origins(&self, schema: &Schema, has: impl Fn(&str) -> bool) -> Result<Vec<Origin>> {
        let plain = self.fields.iter().map(|field| {
            let then = schema.fields.iter().find(|other| other.id == field.id);
            Ok(match then {
                Some(then) if has(&then.name) => {
                    let cast = Cast::new(&field.name, &then.data_type, &field.data_type)?;
                    Origin::File(then.name.clone(), Some(cast))
                }
                _ => Origin::Missing,
            })
        });
        let hidden = self
            .system
            .iter()
            .map(|name| Ok(Origin::File((*name).to_owned(), None)));
        plain.chain(hidden).collect()
    }
}

impl FileOpener {
    /// For a bucket of a table: columns come in the types of the table's schema. `partition` is a
    /// serialized BinaryRow (with the arity prefix).
    pub(crate) fn new(table: Table, partition: Vec<u8>, bucket: i32) -> Self {
        Self {
            table,
            partition,
            bucket,
            schemas: Arc::default(),
            deletions: Deleted::Located(Arc::default()),
            prune: None,
            selected: None,
            memory_bytes: READ_BYTES,
            footers: Arc::default(),
        }
    }

    /// Memory of all files that are open at a time, bytes, about: what is fetched and batches of
    /// decoded rows. No less is taken than a few pages of each column.
    pub(crate) fn with_memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Memory of the files that are open at a time.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// For one of so many files that are open at a time.
    pub(super) fn among(mut self, files: usize) -> Self {
        self.memory_bytes /= files.max(1) as u64;
        self
    }

    /// A file has several batches: one is decoded, and those before are still looked at.
    fn budget(&self) -> Budget {
        Budget {
            fetched_bytes: self.memory_bytes / 2,
            batch_bytes: self.memory_bytes / 6,
        }
    }

    /// Leaves out rows that these deletion vectors delete.
    pub(super) fn without(mut self, deletions: Deletions) -> Self {
        self.deletions = Deleted::Located(Arc::new(deletions));
        self
    }

    /// Leaves out rows that these deletion vectors delete.
    pub(crate) fn without_rows(mut self, vectors: Arc<DeletionVectors>) -> Self {
        self.deletions = Deleted::Loaded(vectors);
        self
    }

    /// Leaves out row groups in which no row matches, as far as the statistics of these columns
    /// say.
    pub(super) fn pruning(&self, filter: Option<Arc<Bound>>, fields: &[DataField]) -> Self {
        let prune = filter.map(|filter| Prune {
            filter,
            fields: Arc::new(fields.to_vec()),
        });
        Self {
            prune,
            ..self.clone()
        }
    }

    /// Of some files reads these rows only.
    pub(crate) fn only(mut self, selected: Selected) -> Self {
        self.selected = Some(Arc::new(selected));
        self
    }

    /// The table, at the schema that is read.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    async fn schema(&self, id: i64) -> Result<Arc<Schema>> {
        let known = || self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known().get(&id) {
            return Ok(schema.clone());
        }
        let schema = self.table.schema_of(id).await?;
        known().insert(id, schema.clone());
        Ok(schema)
    }

    /// Batches of up to `batch_rows` rows, in the order of the file.
    pub(crate) async fn open(
        &self,
        meta: &DataFileMeta,
        wanted: &Wanted,
        batch_rows: usize,
    ) -> Result<FileStream> {
        let format = check_format(&self.table, meta)?;
        let path = self.table.file_path(&self.partition, self.bucket, meta)?;
        let schema = self.schema(meta.schema_id).await?;
        let deleted = self.deleted(meta, path.as_ref()).await?;
        let file = File {
            opener: self,
            meta,
            path,
            schema,
            wanted,
            deleted,
            batch_rows,
        };
        match format {
            Format::Parquet => file.parquet().await,
            Format::Avro => file.avro().await,
        }
    }

    /// The rows of a file that are deleted.
    async fn deleted(
        &self,
        meta: &DataFileMeta,
        path: &str,
    ) -> Result<Option<Cow<'_, DeletionVector>>> {
        let deleted = match &self.deletions {
            Deleted::Loaded(vectors) => vectors.get(&meta.file_name).map(Cow::Borrowed),
            Deleted::Located(files) => match files.get(&meta.file_name) {
                Some(file) => Some(Cow::Owned(self.table.deleted_rows(file).await?)),
                None => None,
            },
        };
        if let Some(vector) = &deleted {
            check_deleted(vector, meta, path)?;
        }
        Ok(deleted)
    }
}

/// A Parquet file whose footer is known.
struct Footer {
    file: ParquetFile,
    metadata: ParquetMetaData,
    origins: Vec<Origin>,
    /// The columns that are read.
    mask: ProjectionMask,
}

/// A file that is about to be opened.
struct File<'a> {
    opener: &'a FileOpener,
    meta: &'a DataFileMeta,
    path: Path,
    schema: Arc<Schema>,
    wanted: &'a Wanted,
    deleted: Option<Cow<'a, DeletionVector>>,
    batch_rows: usize,
}

impl File<'_> {
    fn size(&self) -> u64 {
        u64::try_from(self.meta.file_size).unwrap_or(0)
    }

    /// Where each wanted column comes from, and where those of the file stand in it.
    fn columns(&self, names: &HashMap<String, usize>) -> Result<(Vec<Origin>, Vec<usize>)> {
        let has = |name: &str| names.contains_key(name);
        let origins = self.wanted.origins(&self.schema, has)?;
        let mut indexes = Vec::new();
        for origin in &origins {
            if let Origin::File(name, _) = origin
                && name != POSITION
            {
                indexes.push(*names.get(name).ok_or_else(|| Error::Corrupt {
                    path: self.path.to_string(),
                    message: format!("column {name} is missing"),
                })?);
            }
        }
        Ok((origins, indexes))
    }

    /// Of these rows the ones that are to be read.
    fn left(&self, rows: &[Range<u64>]) -> Vec<Range<usize>> {
        let selected = self.opener.selected.as_ref();
        let deleted = self.deleted.as_deref();
        match selected.and_then(|selected| selected.get(&self.meta.file_name)) {
            Some(selected) => left(&common(rows, selected), deleted),
            None => left(rows, deleted),
        }
    }

    /// Positions of the rows that are left, if they are asked for.
    fn positions(&self, left: Vec<Range<usize>>) -> Option<Positions> {
        let wanted = self.wanted.system.contains(&POSITION);
        wanted.then(|| Positions::new(left))
    }

    async fn footer(&self) -> Result<Footer> {
        let at = self.path.to_string();
        let store = self.opener.table.store().clone();
        let mut file = ParquetFile::new(store, self.path.clone(), self.size());
        let metadata = match self.opener.known_footer(&self.meta.file_name) {
            Some(metadata) => {
                file.knows(&metadata);
                metadata
            }
            None => {
                let metadata = async {
                    let read = file.metadata().await;
                    read.map_err(|error| read_error(&at, error))
                };
                guard::step(&at, metadata).await?
            }
        };
        let columns = metadata.file_metadata().schema_descr_ptr();
        let roots = columns.root_schema().get_fields().iter().enumerate();
        let names = roots.map(|(index, field)| (field.name().to_owned(), index));
        let (origins, indexes) = self.columns(&names.collect())?;
        let mask = ProjectionMask::roots(&columns, indexes);
        Ok(Footer {
            file,
            metadata,
            origins,
            mask,
        })
    }

    async fn parquet(self) -> Result<FileStream> {
        let at = self.path.to_string();
        let Footer {
            file,
            metadata,
            origins,
            mask,
        } = self.footer().await?;
        let groups = self.opener.groups(&metadata, &self.schema);
        let left = self.left(&groups);
        let rows = async {
            let opener = self.opener;
            let rows = opener.read_rows(file, metadata, mask, &left, self.batch_rows);
            rows.await.map_err(|error| read_error(&at, error))
        };
        let rows = guard::step(&at, rows).await?;
        let mut positions = self.positions(left);
        let stream = stream::try_unfold(rows, |mut rows| async move {
            Ok(rows.next().await?.map(|batch| (batch, rows)))
        });
        let target = self.wanted.schema.clone();
        let path = at.clone();
        let stream = stream.map_err(move |error| read_error(&at, error));
        Ok(guard::steps(path, stream)
            .and_then(move |batch| {
                std::future::ready(bound(&target, &origins, &mut positions, batch))
            })
            .boxed())
    }

    async fn avro(self) -> Result<FileStream> {
        let count = u64::try_from(self.meta.row_count).unwrap_or(0);
        let source = avro::Source {
            store: self.opener.table.store().clone(),
            path: self.path.clone(),
            size: self.size(),
            rows: count,
        };
        let mut origins = Vec::new();
        let path = self.path.to_string();
        let rows = avro::Rows::open(source, self.batch_rows, |names| {
            let names = names.iter().cloned().zip(0..).collect();
            let (found, indexes) = self.columns(&names)?;
            origins = found;
            Ok(indexes)
        });
        let rows = guard::step(&path, rows).await?;
        let all = 0..count;
        let left = self.left(std::slice::from_ref(&all));
        let mut positions = self.positions(left.clone());
        let target = self.wanted.schema.clone();
        let next = move |batch: RecordBatch, first: usize| {
            let batch = filter_record_batch(&batch, &within(&left, first, batch.num_rows()))?;
            bound(&target, &origins, &mut positions, batch)
        };
        let state = (rows, 0, next);
        let stream = stream::try_unfold(state, |(mut rows, first, mut next)| async move {
            let Some(batch) = rows.next().await? else {
                return Ok(None);
            };
            let then = first + batch.num_rows();
            let batch = next(batch, first)?;
            Ok(Some((batch, (rows, then, next))))
        });
        let some = |batch: &RecordBatch| std::future::ready(batch.num_rows() > 0);
        Ok(guard::steps(path, stream).try_filter(some).boxed())
    }
}

/// The wanted columns of a batch of the file's.
fn bound(
    target: &SchemaRef,
    origins: &[Origin],
    positions: &mut Option<Positions>,
    batch: RecordBatch,
) -> Result<RecordBatch> {
    let batch = match positions {
        Some(positions) => positioned(&batch, positions)?,
        None => batch,
    };
    bind(target, origins, &batch)
}

impl FileOpener {
    /// The rows of the row groups in which some may match.
    fn groups(&self, metadata: &ParquetMetaData, schema: &Schema) -> Vec<Range<u64>> {
        let mut ranges = Vec::with_capacity(metadata.num_row_groups());
        let mut row = 0;
        let fields = self.fields_with_statistics(schema);
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            let may_match = self
                .prune
                .as_ref()
                .is_none_or(|prune| prune.filter.may_match(&prune::of_row_group(&fields, group)));
            if may_match {
                ranges.push(row..row + rows);
            }
            row += rows;
        }
        ranges
    }

    /// Begins to read columns of rows.
    async fn read_rows(
        &self,
        mut file: ParquetFile,
        metadata: ParquetMetaData,
        mask: ProjectionMask,
        rows: &[Range<usize>],
        batch_rows: usize,
    ) -> Result<SliceReader, ParquetError> {
        let wanted = slices::Wanted::by_group(&metadata, rows);
        let budget = self.budget();
        let cut = Plan::new(&metadata, &mask, budget, batch_rows).cut_groups(&wanted);
        let is_known = Plan::new(&metadata, &mask, budget, batch_rows).has_pages(&wanted);
        let metadata = match cut.is_empty() || is_known {
            true => metadata,
            false => {
                let known = file.with_pages(metadata, &mask, &cut).await?;
                match Plan::new(&known, &mask, budget, batch_rows).has_pages(&wanted) {
                    true => known,
                    // Half an index, or one that makes no sense, is worse than none.
                    false => known.into_builder().set_page_index(None).build(),
                }
            }
        };
        let slices = Plan::new(&metadata, &mask, budget, batch_rows).slices(wanted);
        SliceReader::new(file, metadata, mask, slices)
    }

    /// The file's fields whose statistics may be looked at: of the same type as now.
    fn fields_with_statistics(&self, schema: &Schema) -> Vec<DataField> {
        let now = self.prune.iter().flat_map(|prune| prune.fields.iter());
        now.filter_map(|now| {
            let then = schema.fields.iter().find(|then| then.id == now.id)?;
            (then.data_type == now.data_type).then(|| then.clone())
        })
        .collect()
    }
}

/// Which of so many rows, from the first one on, are in ranges that ascend.
fn within(ranges: &[Range<usize>], first: usize, rows: usize) -> BooleanArray {
    let mut is_within = BooleanBufferBuilder::new(rows);
    let behind = ranges.partition_point(|range| range.end <= first);
    for range in ranges.get(behind..).unwrap_or_default() {
        let start = range.start.saturating_sub(first).min(rows);
        let end = range.end.saturating_sub(first).min(rows);
        is_within.append_n(start.saturating_sub(is_within.len()), false);
        is_within.append_n(end.saturating_sub(is_within.len()), true);
        if end == rows {
            break;
        }
    }
    is_within.append_n(rows - is_within.len(), false);
    BooleanArray::new(is_within.finish(), None)
}

/// What is in both: ranges that ascend. None reaches over an end of one of the first.
fn common(a: &[Range<u64>], b: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut both = Vec::with_capacity(b.len());
    let mut rest = b;
    for of in a {
        let behind = rest.partition_point(|range| range.end <= of.start);
        rest = rest.get(behind..).unwrap_or_default();
        let here = rest.iter().take_while(|range| range.start < of.end);
        both.extend(here.map(|range| range.start.max(of.start)..range.end.min(of.end)));
    }
    both
}

/// A vector cannot delete more rows than there are: a few bytes may say that billions are deleted.
fn check_deleted(vector: &DeletionVector, meta: &DataFileMeta, path: &str) -> Result<()> {
    let deleted = vector.cardinality();
    if u64::try_from(meta.row_count).is_ok_and(|rows| deleted <= rows) {
        return Ok(());
    }
    Err(Error::Corrupt {
        path: path.to_owned(),
        message: format!(
            "its deletion vector deletes {deleted} rows of {}",
            meta.row_count
        ),
    })
}

/// Adds the column of positions.
fn positioned(batch: &RecordBatch, positions: &mut Positions) -> Result<RecordBatch> {
    let schema = batch.schema();
    let position = Field::new(POSITION, arrow_schema::DataType::Int64, false);
    let fields = schema.fields().iter().cloned();
    let fields: Vec<_> = fields.chain([Arc::new(position)]).collect();
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(positions.take(batch.num_rows())));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(ArrowSchema::new(fields));
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// What a data file is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    Parquet,
    Avro,
}

/// The format of a data file, which its name ends with; refuses those that are not read.
pub(super) fn check_format(table: &Table, file: &DataFileMeta) -> Result<Format> {
    let format = file.file_name.rsplit('.').next().unwrap_or_default();
    match format {
        "parquet" => Ok(Format::Parquet),
        "avro" => Ok(Format::Avro),
        _ => Err(Error::Unsupported(format!(
            "table {}: data file {} is of format {format}, and only Parquet and Avro are read. Set \
             its option file.format to parquet and have another engine compact it fully, with option \
             compaction.force-rewrite-all-files = true",
            table.name(),
            file.file_name
        ))),
    }
}

/// What the store said, if it was the store; else the file is damaged.
pub(super) fn read_error(path: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<object_store::Error>() {
            Ok(source) => Error::store("cannot read", path, *source),
            Err(source) => Error::Corrupt {
                path: path.to_owned(),
                message: source.to_string(),
            },
        },
        other => Error::Corrupt {
            path: path.to_owned(),
            message: other.to_string(),
        },
    }
}
