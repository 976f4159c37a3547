//! Writes rows as JSON lines, CSV or a table for people.

use std::{io::Write, sync::Arc};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::{cast, pretty::pretty_format_batches};
use arrow_json::{
    LineDelimitedWriter,
    writer::{LineDelimited, WriterBuilder},
};

use arrow_schema::{DataType, FieldRef, Schema};

use crate::{
    cli::table::RowFormat,
    error::{JobError, Result},
};

/// Rows that a table for people holds: it is laid out in memory.
const PRETTY_ROWS_MAX: usize = 10_000;

/// Takes batches and writes them.
pub(super) enum RowWriter<W: Write> {
    /// A JSON object a line.
    Json(LineDelimitedWriter<W>),
    /// CSV with a header.
    Csv(Box<arrow_csv::Writer<W>>),
    /// Kept until the end, for the widths of columns.
    Pretty {
        /// Where the table goes.
        out: W,
        /// The rows so far.
        batches: Vec<RecordBatch>,
    },
}

impl<W: Write> RowWriter<W> {
    pub(super) fn new(format: RowFormat, out: W) -> Self {
        match format {
            RowFormat::Json => Self::Json(
                WriterBuilder::new()
                    .with_explicit_nulls(true)
                    .build::<_, LineDelimited>(out),
            ),
            RowFormat::Csv => Self::Csv(Box::new(
                arrow_csv::WriterBuilder::new().with_header(true).build(out),
            )),
            RowFormat::Pretty => Self::Pretty {
                out,
                batches: Vec::new(),
            },
        }
    }

    /// False: there is room for no more.
    pub(super) fn write(&mut self, batch: RecordBatch) -> Result<bool> {
        let batch = shown(&batch)?;
        match self {
            Self::Json(writer) => writer.write(&batch).map_err(failed)?,
            Self::Csv(writer) => writer.write(&batch).map_err(failed)?,
            Self::Pretty { batches, .. } => {
                let held: usize = batches.iter().map(RecordBatch::num_rows).sum();
                let room = PRETTY_ROWS_MAX.saturating_sub(held);
                batches.push(batch.slice(0, batch.num_rows().min(room)));
                return Ok(batch.num_rows() < room);
            }
        }
        Ok(true)
    }

    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Json(mut writer) => writer.finish().map_err(failed),
            Self::Csv(writer) => writer.into_inner().flush().map_err(broken),
            Self::Pretty { mut out, batches } => {
                let table = pretty_format_batches(&batches).map_err(failed)?;
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                let more = match rows >= PRETTY_ROWS_MAX {
                    true => " (there may be more: use --format json)",
                    false => "",
                };
                write!(out, "{table}\n{rows} rows{more}\n").map_err(broken)
            }
        }
    }
}

/// The same rows with the zone UTC written as an offset, the only form that the printers know.
fn shown(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields: Vec<FieldRef> = schema.fields().iter().map(printable_field).collect();
    let columns = batch.columns().iter().zip(&fields).map(|(column, field)| {
        match column.data_type() == field.data_type() {
            true => Ok(column.clone()),
            false => cast(column, field.data_type()),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(failed)
}

fn printable_field(field: &FieldRef) -> FieldRef {
    let data_type = printable(field.data_type());
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn printable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("+00:00".into())),
        DataType::List(item) => DataType::List(printable_field(item)),
        DataType::Map(entries, sorted) => DataType::Map(printable_field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(printable_field).collect()),
        other => other.clone(),
    }
}

fn failed(error: arrow_schema::ArrowError) -> JobError {
    JobError::Definite(format!("cannot print the rows: {error}"))
}

fn broken(error: std::io::Error) -> JobError {
    JobError::Definite(format!("cannot print the rows: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn times_with_a_zone_are_printed_in_every_format() {
        let times = TimestampMillisecondArray::from(vec![Some(0), None]).with_timezone("UTC");
        let times: ArrayRef = Arc::new(times);
        let batch = RecordBatch::try_from_iter([("at", times)]).unwrap();
        for (format, expected) in [
            (
                RowFormat::Json,
                "{\"at\":\"1970-01-01T00:00:00Z\"}\n{\"at\":null}\n",
            ),
            (RowFormat::Csv, "at\n1970-01-01T00:00:00Z\n\"\"\n"),
        ] {
            let mut out = Vec::new();
            let mut writer = RowWriter::new(format, &mut out);
            assert!(writer.write(batch.clone()).unwrap());
            writer.finish().unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
