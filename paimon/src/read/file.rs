//! Opens one data file and hands on batches of the wanted columns.

mod avro;
mod guard;
mod object;
mod pages;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use object_store::path::Path;
use parquet::arrow::{
    ParquetRecordBatchStreamBuilder, ProjectionMask,
    arrow_reader::{ArrowReaderOptions, RowSelection},
};

use crate::{
    data_file_meta::DataFileMeta,
    data_type::DataField,
    error::{Error, Result},
    index::deletion_vector::{DeletionVector, DeletionVectors},
    schema::Schema,
    table::Table,
};

use self::object::{ObjectReader, read_error};
use super::{
    bind::{Origin, bind},
    bucket::Deletions,
    cast::Cast,
    deletions::{Positions, left},
    predicate::Bound,
    prune,
};

/// Name of the column with each row's sequence number.
pub(crate) const SEQUENCE: &str = "_SEQUENCE_NUMBER";
/// Name of the column with each row's kind: 0 insert, 1 update before, 2 update after, 3 delete.
pub(crate) const KIND: &str = "_VALUE_KIND";
/// Name of the column with each row's position in its file, which stands in no file: that of the
/// first row is 0, and rows that are not read count too.
pub(crate) const POSITION: &str = "_POSITION";

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

    /// Positions of the rows that are left, if they are asked for.
    fn positions(&self, left: Vec<Range<usize>>) -> Option<Positions> {
        let wanted = self.wanted.system.contains(&POSITION);
        wanted.then(|| Positions::new(left))
    }

    async fn parquet(self) -> Result<FileStream> {
        let reader = ObjectReader {
            store: self.opener.table.store().clone(),
            path: self.path.clone(),
            size: self.size(),
            chunks: HashMap::new(),
        };
        let at = self.path.to_string();
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = async {
            let builder = ParquetRecordBatchStreamBuilder::new_with_options(reader, options).await;
            builder.map_err(|error| read_error(&at, error))
        };
        let builder = guard::step(&at, builder).await?;
        let roots = builder.parquet_schema().root_schema().get_fields();
        let roots = roots.iter().enumerate();
        let names = roots.map(|(index, field)| (field.name().to_owned(), index));
        let (origins, indexes) = self.columns(&names.collect())?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), indexes);
        let deleted = self.deleted.as_deref();
        let (builder, left) = self.opener.select(builder, &self.schema, deleted);
        let mut positions = self.positions(left);
        let stream = builder
            .with_projection(mask)
            .with_batch_size(self.batch_rows)
            .build()
            .map_err(|error| read_error(&at, error))?;
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
        let deleted = self.deleted.as_deref().cloned();
        let all = 0..count;
        let mut positions = self.positions(left(std::slice::from_ref(&all), deleted.as_ref()));
        let target = self.wanted.schema.clone();
        let next = move |batch: RecordBatch, first: u64| {
            let batch = match &deleted {
                Some(deleted) => {
                    filter_record_batch(&batch, &deleted.live(first, batch.num_rows()))?
                }
                None => batch,
            };
            bound(&target, &origins, &mut positions, batch)
        };
        let state = (rows, 0, next);
        let stream = stream::try_unfold(state, |(mut rows, first, mut next)| async move {
            let Some(batch) = rows.next().await? else {
                return Ok(None);
            };
            let then = first + batch.num_rows() as u64;
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
    /// Selects the rows that are to be read; says which these are.
    fn select(
        &self,
        builder: ParquetRecordBatchStreamBuilder<ObjectReader>,
        schema: &Schema,
        deleted: Option<&DeletionVector>,
    ) -> (
        ParquetRecordBatchStreamBuilder<ObjectReader>,
        Vec<Range<usize>>,
    ) {
        let groups = builder.metadata().row_groups();
        let mut wanted = Vec::with_capacity(groups.len());
        let mut ranges = Vec::with_capacity(groups.len());
        let mut row = 0;
        let fields = self.fields_with_statistics(schema);
        for (index, group) in groups.iter().enumerate() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            let may_match = self
                .prune
                .as_ref()
                .is_none_or(|prune| prune.filter.may_match(&prune::of_row_group(&fields, group)));
            if may_match {
                wanted.push(index);
                ranges.push(row..row + rows);
            }
            row += rows;
        }
        let all = wanted.len() == groups.len();
        let left = left(&ranges, deleted);
        let builder = match deleted {
            Some(_) => {
                let ranges = left.iter().cloned();
                let rows = usize::try_from(row).unwrap_or(usize::MAX);
                builder.with_row_selection(RowSelection::from_consecutive_ranges(ranges, rows))
            }
            None if all => builder,
            None => builder.with_row_groups(wanted),
        };
        (builder, left)
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
             its option file.format to parquet, compact it fully with another engine, then read it",
            table.name(),
            file.file_name
        ))),
    }
}
