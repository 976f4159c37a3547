//! Reads one bucket, section by section, in key order.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{
    BooleanArray, Int8Array, RecordBatch, RecordBatchOptions, cast::AsArray, types::Int8Type,
};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};

use crate::{
    data_file::KeyValueBatch,
    data_type::{DataField, DataType},
    error::{Error, Result},
    merge::{Groups, MergeFunction},
    table::Table,
};

use super::{
    Split,
    file::{FileOpener, FileStream, KIND, Wanted},
    merge::SortedMerge,
    section::{Section, sections},
};

/// Rows of a batch that is handed on.
pub(super) const BATCH_ROWS: usize = 8192;

/// Batches of value columns, sorted by key.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

impl Table {
    /// Reads a bucket: the live rows, sorted by the key's columns, with the named columns in the
    /// order named (all of them for `None`). Holds about one row group a sorted run in memory.
    ///
    /// # Errors
    /// [`Error::Table`] for a column that isn't there; the stream ends at its first error.
    pub fn read_bucket(&self, split: &Split, projection: Option<&[&str]>) -> Result<BatchStream> {
        let schema = self.schema();
        let fields: Vec<DataField> = match projection {
            None => schema.fields.clone(),
            Some(names) => names
                .iter()
                .map(|name| {
                    let (_, field) = schema.field(name).ok_or_else(|| Error::Table {
                        table: self.name().to_owned(),
                        message: format!("no column '{name}'"),
                    })?;
                    Ok(field.clone())
                })
                .collect::<Result<_>>()?,
        };
        let keys: Vec<DataField> = schema
            .trimmed_primary_keys()
            .iter()
            .filter_map(|key| schema.field(key))
            .map(|(_, field)| field.clone())
            .collect();
        let types: Vec<DataType> = keys.iter().map(|key| key.data_type.clone()).collect();
        let reader = BucketReader {
            opener: FileOpener::new(self.clone(), split.partition.clone(), split.bucket),
            sections: sections(&types, &split.files)?,
            schema: Wanted::new(fields.clone(), &[]).schema().clone(),
            fields,
            keys,
            open: None,
        };
        Ok(
            futures::stream::try_unfold(reader, |mut reader| async move {
                Ok(reader.next().await?.map(|batch| (batch, reader)))
            })
            .boxed(),
        )
    }
}

struct BucketReader {
    opener: FileOpener,
    sections: VecDeque<Section>,
    /// What is handed on.
    fields: Vec<DataField>,
    schema: SchemaRef,
    keys: Vec<DataField>,
    open: Option<OpenSection>,
}

enum OpenSection {
    Plain(FileStream),
    /// With the column of kinds at the end.
    WithKinds(FileStream),
    Merge(Box<SortedMerge>),
}

impl BucketReader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match &mut self.open {
                None => match self.sections.pop_front() {
                    None => return Ok(None),
                    Some(section) => {
                        self.open = Some(self.open_section(section).await?);
                        continue;
                    }
                },
                Some(OpenSection::Plain(stream)) => stream.try_next().await?,
                Some(OpenSection::WithKinds(stream)) => match stream.try_next().await? {
                    Some(batch) => Some(without_deletes(&batch)?),
                    None => None,
                },
                Some(OpenSection::Merge(merge)) => match merge.next().await? {
                    Some(merged) => Some(values(&self.schema, merged.rows)?),
                    None => None,
                },
            };
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => return Ok(Some(batch)),
                None => self.open = None,
            }
        }
    }

    async fn open_section(&mut self, section: Section) -> Result<OpenSection> {
        let single = match section.as_slice() {
            [run] if run.len() == 1 => run.front(),
            _ => None,
        };
        let Some(file) = single else {
            let merge = SortedMerge::open(
                self.opener.clone(),
                section,
                &self.fields,
                &self.keys,
                Arc::new(LastRow),
            );
            let merge = merge.await?.dropping_deletes();
            return Ok(OpenSection::Merge(Box::new(merge)));
        };
        if file.meta.delete_row_count == Some(0) {
            let wanted = Wanted::new(self.fields.clone(), &[]);
            let stream = self.opener.open(&file.meta, &wanted, BATCH_ROWS).await?;
            return Ok(OpenSection::Plain(stream));
        }
        let wanted = Wanted::new(self.fields.clone(), &[KIND]);
        let stream = self.opener.open(&file.meta, &wanted, BATCH_ROWS).await?;
        Ok(OpenSection::WithKinds(stream))
    }
}

/// The columns of merged rows, as a batch.
fn values(schema: &SchemaRef, rows: KeyValueBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.rows()));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        rows.columns,
        &options,
    )?)
}

/// Of each key the newest row.
#[derive(Debug)]
struct LastRow;

impl MergeFunction for LastRow {
    fn merge(&self, _: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)> {
        Err(Error::Internal(
            "the last row of a group is taken as it is".into(),
        ))
    }

    fn takes_the_last(&self) -> bool {
        true
    }
}

/// True for the kinds that leave a row: insert and update after.
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
