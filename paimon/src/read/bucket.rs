//! Reads one bucket: a file after the other where nothing is to be merged, else section by section
//! in key order.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use arrow_array::{
    BooleanArray, Int8Array, RecordBatch, RecordBatchOptions,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};

use crate::{
    data_file::KeyValueBatch,
    data_file_meta::DataFileMeta,
    data_type::DataField,
    error::Result,
    merge::{self, MergeFunction},
    schema::Schema,
    table::Table,
};

use super::{
    deletions::DeletionFile,
    file::{FileOpener, FileStream, KIND, SEQUENCE, Wanted},
    merge::SortedMerge,
    plan::{Split, Visibility, is_read_alone, key_fields, key_types},
    predicate::Bound,
    section::{Section, sections},
};

/// Rows of a batch that is handed on.
pub(super) const BATCH_ROWS: usize = 8192;

/// Batches of value columns.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// What of a bucket's rows is handed on.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Columns, in the order in which they are handed on.
    pub(super) fields: Vec<DataField>,
    pub(super) filter: Option<Arc<Bound>>,
    /// Rows, at most.
    pub(super) limit: Option<usize>,
    /// Only rows whose newest version has a lower sequence number.
    pub(super) older_than: Option<i64>,
}

impl Request {
    /// Columns that are handed on, then those that only the filter needs.
    pub(super) fn all_fields(&self) -> Vec<DataField> {
        let mut fields = self.fields.clone();
        for field in self.filter.iter().flat_map(|filter| filter.fields()) {
            if !fields.iter().any(|other| other.id == field.id) {
                fields.push(field);
            }
        }
        fields
    }
}

/// Something that is read as a whole.
enum Piece {
    /// A file whose rows are all there is of their keys.
    File(Box<DataFileMeta>),
    /// Files that share keys.
    Section(Section),
}

impl Piece {
    /// Whether it may hold rows of lower sequence numbers.
    fn has_older(&self, bound: i64) -> bool {
        let is_older = |file: &DataFileMeta| file.min_sequence_number < bound;
        match self {
            Self::File(file) => is_older(file),
            Self::Section(section) => section.iter().flatten().any(|file| is_older(&file.meta)),
        }
    }
}

enum Open {
    Rows(FileStream),
    /// With the column of kinds at the end.
    WithKinds(FileStream),
    /// With the columns of sequence numbers and of kinds at the end.
    WithSequences(FileStream),
    Merge(Box<SortedMerge>),
}

/// Reads what a split holds.
pub(super) struct BucketReader {
    opener: FileOpener,
    pieces: VecDeque<Piece>,
    /// Columns asked for, then those that only the filter needs.
    fields: Vec<DataField>,
    schema: SchemaRef,
    /// How many of the columns are handed on.
    output: usize,
    filter: Option<Arc<Bound>>,
    rows_left: Option<usize>,
    older_than: Option<i64>,
    /// `None` for tables without keys.
    merging: Option<Merging>,
    open: Option<Open>,
}

/// How files that share keys are merged.
struct Merging {
    keys: Vec<DataField>,
    function: Arc<dyn MergeFunction>,
    /// Columns that are merged: those that are read, or all of the table.
    columns: Vec<DataField>,
    /// Where the columns that are read stand among them.
    positions: Vec<usize>,
}

impl Merging {
    fn new(schema: &Schema, fields: &[DataField]) -> Result<Self> {
        let function = merge::function(schema)?;
        // Other columns may decide about those that are read.
        let columns = match function.takes_the_last() {
            true => fields.to_vec(),
            false => schema.fields.clone(),
        };
        let position = |field: &DataField| columns.iter().position(|column| column.id == field.id);
        Ok(Self {
            positions: fields.iter().filter_map(position).collect(),
            keys: key_fields(schema),
            function,
            columns,
        })
    }
}

impl BucketReader {
    pub(super) fn new(table: &Table, split: Split, request: Request) -> Result<Self> {
        let schema = table.schema();
        let fields = request.all_fields();
        let output = request.fields.len();
        let has_keys = !schema.primary_keys.is_empty();
        let mut pieces = match has_keys {
            true => pieces(schema, &split.files)?,
            false => in_order(schema, split.files),
        };
        if let Some(bound) = request.older_than {
            pieces.retain(|piece| piece.has_older(bound));
        }
        Ok(Self {
            pieces,
            opener: FileOpener::new(table.clone(), split.partition, split.bucket)
                .without(split.deletions),
            schema: Wanted::new(fields.clone(), &[]).schema().clone(),
            merging: match has_keys {
                true => Some(Merging::new(schema, &fields)?),
                false => None,
            },
            fields,
            output,
            filter: request.filter,
            rows_left: request.limit,
            older_than: request.older_than,
            open: None,
        })
    }

    /// Batches until the end or the first error.
    pub(super) fn into_stream(self) -> BatchStream {
        futures::stream::try_unfold(self, |mut reader| async move {
            Ok(reader.next().await?.map(|batch| (batch, reader)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows_left != Some(0) {
            let Some(open) = &mut self.open else {
                match self.pieces.pop_front() {
                    None => return Ok(None),
                    Some(piece) => self.open = Some(self.open_piece(piece).await?),
                }
                continue;
            };
            let batch = match open {
                Open::Rows(stream) => stream.try_next().await?,
                Open::WithKinds(stream) => match stream.try_next().await? {
                    Some(batch) => Some(without_deletes(&batch)?),
                    None => None,
                },
                Open::WithSequences(stream) => match stream.try_next().await? {
                    Some(batch) => Some(self.old_rows(&without_deletes(&batch)?)?),
                    None => None,
                },
                Open::Merge(merge) => match merge.next().await? {
                    Some(merged) => Some(self.live_rows(merged.rows)?),
                    None => None,
                },
            };
            let Some(batch) = batch else {
                self.open = None;
                continue;
            };
            let batch = self.finish(batch)?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    async fn open_piece(&mut self, piece: Piece) -> Result<Open> {
        let Some(merging) = &self.merging else {
            return self.open_piece_without_keys(piece).await;
        };
        match piece {
            Piece::Section(section) => {
                // What a row group says of values may be true of a version that was replaced.
                let opener = self.opener.pruning(self.filter.clone(), &merging.keys);
                let merge = SortedMerge::open(
                    opener,
                    section,
                    &merging.columns,
                    &merging.keys,
                    merging.function.clone(),
                );
                let merge = merge.await?;
                // Where deletes are not picked, sequence numbers are not told either.
                Ok(Open::Merge(Box::new(match self.older_than {
                    Some(_) => merge,
                    None => merge.dropping_deletes(),
                })))
            }
            Piece::File(file) => {
                let opener = self.opener.pruning(self.filter.clone(), &self.fields);
                let (system, open): (&'static [&'static str], fn(FileStream) -> Open) =
                    match (self.older_than, file.delete_row_count) {
                        (Some(_), _) => (&[SEQUENCE, KIND], Open::WithSequences),
                        (None, Some(0)) => (&[], Open::Rows),
                        (None, _) => (&[KIND], Open::WithKinds),
                    };
                let wanted = Wanted::new(self.fields.clone(), system);
                Ok(open(opener.open(&file, &wanted, BATCH_ROWS).await?))
            }
        }
    }

    async fn open_piece_without_keys(&mut self, piece: Piece) -> Result<Open> {
        let Piece::File(file) = piece else {
            return Err(crate::Error::Internal("a section without keys".into()));
        };
        let opener = self.opener.pruning(self.filter.clone(), &self.fields);
        let wanted = Wanted::new(self.fields.clone(), &[]);
        Ok(Open::Rows(opener.open(&file, &wanted, BATCH_ROWS).await?))
    }

    /// Of merged rows those that are no deletes, with the columns that are read.
    fn live_rows(&self, rows: KeyValueBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.rows()));
        let positions = self.merging.iter().flat_map(|merging| &merging.positions);
        let columns = positions.filter_map(|at| rows.columns.get(*at).cloned());
        let batch =
            RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &options)?;
        if let Some(bound) = self.older_than {
            let keys = rows.kinds.values().iter().zip(rows.sequences.values());
            let keep = keys.map(|(kind, sequence)| leaves_row(*kind) && *sequence < bound);
            return Ok(filter_record_batch(
                &batch,
                &keep.collect::<Vec<_>>().into(),
            )?);
        }
        if rows.kinds.values().iter().all(|kind| leaves_row(*kind)) {
            return Ok(batch);
        }
        let keep = BooleanArray::from_unary(&rows.kinds, leaves_row);
        Ok(filter_record_batch(&batch, &keep)?)
    }

    /// Of a file's rows those that are old enough, without the column of sequence numbers.
    fn old_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let last = batch.num_columns().saturating_sub(1);
        let sequences = batch.column(last).as_primitive::<Int64Type>();
        let bound = self.older_than.unwrap_or(i64::MAX);
        let keep = BooleanArray::from_unary(sequences, |sequence| sequence < bound);
        let columns: Vec<usize> = (0..last).collect();
        Ok(filter_record_batch(&batch.project(&columns)?, &keep)?)
    }

    /// Leaves out rows that were not asked for, and columns that only the filter needed.
    fn finish(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let mut batch = match &self.filter {
            Some(filter) => filter_record_batch(&batch, &filter.test(&batch)?)?,
            None => batch,
        };
        if batch.num_columns() > self.output {
            batch = batch.project(&(0..self.output).collect::<Vec<_>>())?;
        }
        if let Some(left) = &mut self.rows_left {
            batch = batch.slice(0, batch.num_rows().min(*left));
            *left -= batch.num_rows();
        }
        Ok(batch)
    }
}

/// What a bucket of a table with keys is read as.
fn pieces(schema: &Schema, files: &[DataFileMeta]) -> Result<VecDeque<Piece>> {
    let visibility = Visibility::of(schema);
    let mut pieces = VecDeque::new();
    for section in sections(&key_types(schema), files)? {
        if is_read_alone(&section, visibility) {
            let files = section.into_iter().flatten();
            pieces.extend(files.map(|file| Piece::File(Box::new(file.meta))));
        } else {
            pieces.push_back(Piece::Section(section));
        }
    }
    Ok(pieces)
}

/// The files of a table without keys: with fixed buckets by sequence number, else as they stand in
/// the manifests. Source: `AppendOnlySplitGenerator`.
fn in_order(schema: &Schema, mut files: Vec<DataFileMeta>) -> VecDeque<Piece> {
    if schema.buckets() > 0 {
        files.sort_by_key(|file| file.min_sequence_number);
    }
    let files = files.into_iter();
    files.map(|file| Piece::File(Box::new(file))).collect()
}

/// True for the kinds that leave a row: insert and update after.
#[inline]
pub(super) fn leaves_row(kind: i8) -> bool {
    kind == 0 || kind == 2
}

fn without_deletes(batch: &RecordBatch) -> Result<RecordBatch> {
    let last = batch.num_columns().saturating_sub(1);
    let kinds: &Int8Array = batch.column(last).as_primitive::<Int8Type>();
    let keep = BooleanArray::from_unary(kinds, leaves_row);
    let columns: Vec<usize> = (0..last).collect();
    Ok(filter_record_batch(&batch.project(&columns)?, &keep)?)
}

/// Deletion vectors of a bucket, by file name.
pub(super) type Deletions = BTreeMap<String, DeletionFile>;
