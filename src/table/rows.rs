//! Writes rows as JSON lines, CSV or a table for people.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_cast::pretty::pretty_format_batches;
use arrow_json::{
    LineDelimitedWriter,
    writer::{LineDelimited, WriterBuilder},
};

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
    Csv(arrow_csv::Writer<W>),
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
            RowFormat::Csv => {
                Self::Csv(arrow_csv::WriterBuilder::new().with_header(true).build(out))
            }
            RowFormat::Pretty => Self::Pretty {
                out,
                batches: Vec::new(),
            },
        }
    }

    /// False: there is room for no more.
    pub(super) fn write(&mut self, batch: RecordBatch) -> Result<bool> {
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

fn failed(error: arrow_schema::ArrowError) -> JobError {
    JobError::Definite(format!("cannot print the rows: {error}"))
}

fn broken(error: std::io::Error) -> JobError {
    JobError::Definite(format!("cannot print the rows: {error}"))
}
