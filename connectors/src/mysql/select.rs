//! Rows of a SELECT → Arrow, with the same values as [`super::rows`] gives. Rows come as packets
//! ([`packet`]) or taken apart by `mysql_async`.
//!
//! The session must have `time_zone='+00:00'`, `sql_mode=''` and `NAMES utf8mb4`, and the
//! statement must be a prepared one (binary protocol).

pub(super) mod packet;

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use mysql_async::Row;

use super::{
    buffer::{ColumnBuffer, Fault, Handled, fault},
    charset::Charset,
    codec::{self, Codec},
    table::{MysqlColumn, MysqlTable},
    temporal::{Moment, Span},
    wire::Cell,
    zero_dates::ZeroDates,
};
use crate::{
    error::{Error, Result},
    schema::TableName,
};

/// How a table's rows are selected and read.
#[derive(Debug, Clone)]
pub struct SelectPlan {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: MysqlTable,
    schema: Arc<Schema>,
    codecs: Vec<Codec>,
}

/// Collects rows.
#[derive(Debug)]
pub struct SelectBuilder {
    inner: Arc<Inner>,
    buffers: Vec<ColumnBuffer>,
    rows: usize,
    tell: Telling,
}

/// Who is told of dates that are none.
pub(super) type Telling = Option<Arc<ZeroDates>>;

/// Quotes an identifier.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

impl SelectPlan {
    /// Compiles a table.
    ///
    /// # Errors
    /// Definite when a column's type or character set is not supported; names table and column.
    pub fn new(table: &MysqlTable) -> Result<Self> {
        let codecs = table
            .columns
            .iter()
            .map(|column| {
                if column.data_type == "set" && column.has_hidden_labels() {
                    return Err(Error::definite(
                        "a SET label may hold a character that the information schema shows as '?'",
                    )
                    .column(&column.name)
                    .advice("Rename the label, or leave the table out"));
                }
                Codec::new(column)
            })
            .collect::<Result<Vec<_>>>()
            .map_err(|error| error.table(&table.name))?;
        Ok(Self {
            inner: Arc::new(Inner {
                schema: Arc::new(table.to_schema().arrow()),
                table: table.clone(),
                codecs,
            }),
        })
    }

    /// The select list: one quoted expression a column, in the table's order, each under the
    /// column's own name.
    pub fn columns_sql(&self) -> String {
        let columns = self.inner.table.columns.iter().zip(&self.inner.codecs);
        let expressions: Vec<String> = columns
            .map(|(column, codec)| {
                let name = quoted(&column.name);
                match codec {
                    // The stored codes, decoded here as the binlog's are.
                    Codec::Text(charset) if !charset.is_utf8() => {
                        format!("CAST({name} AS BINARY) AS {name}")
                    }
                    // The labels themselves, see `has_hidden_labels`.
                    Codec::Enum(_) if column.has_hidden_labels() => name,
                    // Numbers: labels of a SET cannot be told apart when one of them is empty.
                    Codec::Enum(_) | Codec::Set(_) => format!("CAST({name} AS UNSIGNED) AS {name}"),
                    _ => name,
                }
            })
            .collect();
        expressions.join(", ")
    }

    /// Whether a column is selected as something else than it is: then the result does not show what
    /// the server has.
    pub(in crate::mysql) fn is_cast(&self, column: &MysqlColumn) -> bool {
        let columns = self.inner.table.columns.iter();
        let mut pairs = columns.zip(&self.inner.codecs);
        pairs.any(|(own, codec)| {
            own.name == column.name
                && match codec {
                    Codec::Text(charset) => !charset.is_utf8(),
                    Codec::Enum(_) | Codec::Set(_) => true,
                    _ => false,
                }
        })
    }

    /// A builder for batches of this table.
    pub fn builder(&self) -> SelectBuilder {
        let table = &self.inner.table;
        SelectBuilder {
            buffers: buffers(table),
            inner: self.inner.clone(),
            rows: 0,
            tell: None,
        }
    }
}

/// A buffer for each column.
pub(super) fn buffers(table: &MysqlTable) -> Vec<ColumnBuffer> {
    let columns = table.columns.iter();
    columns
        .map(|column| ColumnBuffer::new(&column.lake, column.nullable, table.is_key(&column.name)))
        .collect()
}

/// The batch of everything in the buffers.
pub(super) fn take_batch(
    name: &TableName,
    schema: &Arc<Schema>,
    buffers: &mut [ColumnBuffer],
    rows: usize,
    tell: &Telling,
) -> Result<RecordBatch> {
    for (buffer, field) in buffers.iter_mut().zip(schema.fields()) {
        let zero_dates = buffer.take_zero_dates();
        if let Some(tell) = tell
            && zero_dates > 0
        {
            tell.note(name, field, zero_dates);
        }
    }
    let columns = buffers.iter_mut().map(ColumnBuffer::take);
    columns
        .collect::<std::result::Result<Vec<_>, _>>()
        .and_then(|columns| {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        })
        .map_err(|cause| {
            Error::definite("rows do not form a batch")
                .table(name)
                .cause(cause)
        })
}

/// Adds table and column to a fault.
#[cold]
pub(super) fn located(table: &MysqlTable, column: usize, fault: Fault) -> Error {
    let mut error = Error::definite(fault.message).table(&table.name);
    if let Some(column) = table.columns.get(column) {
        error = error.column(&column.name);
    }
    match fault.advice {
        Some(advice) => error.advice(advice),
        None => error,
    }
}

impl SelectBuilder {
    /// Tells of dates that are none.
    #[must_use]
    pub fn telling(mut self, zero_dates: Arc<ZeroDates>) -> Self {
        self.tell = Some(zero_dates);
        self
    }

    /// Appends one row of the select list's columns; all of it or, on an error, nothing. Columns
    /// behind those of the list are left alone.
    ///
    /// # Errors
    /// Definite when a value cannot be carried exactly; names table and column.
    pub fn push(&mut self, row: Row) -> Result<()> {
        if row.len() < self.buffers.len() {
            return Err(Error::definite(format!(
                "a row has {} columns instead of {}",
                row.len(),
                self.buffers.len()
            ))
            .table(&self.inner.table.name));
        }
        if self.rows == 0 {
            self.buffers.iter_mut().for_each(ColumnBuffer::prepare);
        }
        let columns = self.inner.codecs.iter().zip(&mut self.buffers);
        for (at, (codec, buffer)) in columns.enumerate() {
            let pushed = match row.as_ref(at) {
                Some(value) => push(codec, value.into(), buffer),
                None => Err(fault("a value is missing")),
            };
            if let Err(wrong) = pushed {
                self.cut_back();
                return Err(located(&self.inner.table, at, *wrong));
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Leaves only whole rows.
    fn cut_back(&mut self) {
        let rows = self.rows;
        self.buffers
            .iter_mut()
            .for_each(|buffer| buffer.truncate(rows));
    }

    /// Rows since the last [`Self::take`].
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory of those rows.
    pub fn bytes(&self) -> usize {
        self.buffers.iter().map(ColumnBuffer::bytes).sum()
    }

    /// Dates that are none, given as NULL or as 1970-01-01, since the last [`Self::take`].
    pub fn zero_dates(&self) -> u64 {
        self.buffers.iter().map(ColumnBuffer::zero_dates).sum()
    }

    /// The rows since the last call, as a batch that may be empty; the next one gets room
    /// for as many.
    ///
    /// # Errors
    /// Definite when the values do not form a batch, which would be a defect.
    pub fn take(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        let inner = &self.inner;
        take_batch(
            &inner.table.name,
            &inner.schema,
            &mut self.buffers,
            rows,
            &self.tell,
        )
    }
}

/// Appends one value.
#[inline]
fn push(codec: &Codec, value: Cell<'_>, buffer: &mut ColumnBuffer) -> Handled {
    match (codec, value) {
        (_, Cell::Null) => buffer.push_null(),
        (Codec::Int { .. } | Codec::Year, Cell::Int(value)) => buffer.push_int(value),
        (Codec::Int { .. } | Codec::Year, Cell::UInt(value)) => buffer.push_uint(value),
        (Codec::Float, Cell::Float(value)) => buffer.push_float(value),
        (Codec::Double, Cell::Double(value)) => buffer.push_double(value),
        (Codec::Decimal { scale, text, .. }, Cell::Bytes(value)) => {
            codec::push_decimal_text(*scale, *text, value, buffer)
        }
        (Codec::Bit { boolean }, Cell::Bytes(value)) => codec::push_bits(*boolean, value, buffer),
        (Codec::Text(charset), Cell::Bytes(value)) => codec::push_text(charset, value, buffer),
        (Codec::Bytes { width }, Cell::Bytes(value)) => codec::push_padded(*width, value, buffer),
        (Codec::Date, Cell::Date(year, month, day, ..)) => {
            buffer.push_date(u32::from(year), u32::from(month), u32::from(day))
        }
        (
            Codec::DateTime { .. } | Codec::Timestamp { .. },
            Cell::Date(year, month, day, hour, minute, second, micros),
        ) => {
            let moment = Moment {
                year: u32::from(year),
                month: u32::from(month),
                day: u32::from(day),
                hour: u32::from(hour),
                minute: u32::from(minute),
                second: u32::from(second),
                micros,
            };
            codec::push_moment(&moment, buffer)
        }
        (
            Codec::Time { digits, text },
            Cell::Time(negative, days, hours, minutes, seconds, micros),
        ) => {
            let span = Span {
                negative,
                hours: days.saturating_mul(24).saturating_add(u32::from(hours)),
                minutes: u32::from(minutes),
                seconds: u32::from(seconds),
                micros,
            };
            codec::push_span(&span, *digits, *text, buffer)
        }
        (Codec::Enum(labels), Cell::Bytes(label))
            if label.is_empty() && buffer.is_key() && labels.iter().any(|l| l.is_empty()) =>
        {
            // Which of the two it is cannot be told from the text.
            Err(codec::two_empty_labels())
        }
        (Codec::Enum(_), Cell::Bytes(label)) => codec::push_text(&Charset::Utf8, label, buffer),
        (Codec::Enum(labels), value) => codec::push_label(labels, number(value)?, buffer),
        (Codec::Set(labels), value) => buffer.push_labels(labels, number(value)?),
        // The server prints JSON itself.
        (Codec::Json, Cell::Bytes(value)) => buffer.push_bytes(value),
        (Codec::Geometry, Cell::Bytes(value)) => codec::push_geometry(value, buffer),
        (Codec::Vector, Cell::Bytes(value)) => buffer.push_floats(value),
        _ => Err(fault("the server sent a value of another type")),
    }
}

fn number(value: Cell<'_>) -> Handled<u64> {
    match value {
        Cell::UInt(value) => Ok(value),
        Cell::Int(value) => u64::try_from(value).map_err(|_| fault("a label's number is negative")),
        _ => Err(fault("the server sent a value of another type")),
    }
}
