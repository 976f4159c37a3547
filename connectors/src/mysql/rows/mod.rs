//! Row images of the binlog → Arrow columns, straight from the bytes of an event.
//!
//! Format: MySQL's `libs/mysql/binlog/event/rows_event.h` (images, bitmaps, metadata of the table
//! map) and `sql/field.cc` (`pack` of each type).

mod plan;
mod value;

#[cfg(test)]
mod tests;

use std::{ops::Range, sync::Arc};

use arrow_schema::Schema;
use mysql_async::binlog::events::{RowsEventData, TableMapEvent};

use self::plan::WireColumn;
use super::{
    buffer::{ColumnBuffer, Fault, Handled, fault},
    select::{Telling, buffers, located, take_batch},
    table::MysqlTable,
    zero_dates::ZeroDates,
};
use crate::{
    change::{ChangeBatch, RowKind, RowKinds},
    error::{Error, Result},
    schema::TableSchema,
};

/// Decodes the rows of one table under one shape of its table map.
#[derive(Debug)]
pub struct RowDecoder {
    table: Arc<MysqlTable>,
    table_schema: Arc<TableSchema>,
    schema: Arc<Schema>,
    map: TableMapEvent<'static>,
    columns: Vec<WireColumn>,
    buffers: Vec<ColumnBuffer>,
    /// Columns of the key, for telling whether an update keeps it.
    keys: Vec<usize>,
    rows: usize,
    /// One number a row; empty while every row is an insert.
    kinds: Vec<i8>,
    before: Spans,
    after: Spans,
    tell: Telling,
}

/// Where the values of one image stand in the event; `None` for NULL.
type Spans = Vec<Option<Range<usize>>>;

/// What is wrong, and in which column.
struct Wrong {
    column: usize,
    fault: Box<Fault>,
}

impl RowDecoder {
    /// Compiles a decoder.
    ///
    /// # Errors
    /// Definite, with table and column, when the table map does not describe this table: another
    /// number of columns, another type, sign or character set; or when a type or character set is
    /// not supported.
    pub fn new(table: Arc<MysqlTable>, map: &TableMapEvent<'_>) -> Result<Self> {
        let columns = plan::compile(&table, map)?;
        let table_schema = Arc::new(table.to_schema());
        let keys = table.columns.iter().enumerate();
        let keys: Vec<usize> = keys
            .filter(|(_, column)| table.is_key(&column.name))
            .map(|(at, _)| at)
            .collect();
        Ok(Self {
            schema: Arc::new(table_schema.arrow()),
            table_schema,
            buffers: buffers(&table),
            map: map.clone().into_owned(),
            columns,
            keys,
            rows: 0,
            kinds: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            tell: None,
            table,
        })
    }

    /// Tells of dates that are none.
    #[must_use]
    pub fn telling(mut self, zero_dates: Arc<ZeroDates>) -> Self {
        self.tell = Some(zero_dates);
        self
    }

    /// Whether this decoder was compiled for exactly this table map, its id included.
    pub fn fits(&self, map: &TableMapEvent<'_>) -> bool {
        self.map == *map
    }

    /// Appends the rows of one event and says how many rows were appended: all of the event's or,
    /// on an error, none. An update that changes its key counts as two.
    ///
    /// # Errors
    /// Definite, with table and column: an image in which a column is absent
    /// (`binlog_row_image` is not FULL), a partial JSON update, bytes that are not a row, a value
    /// that cannot be carried exactly.
    pub fn decode(&mut self, event: &RowsEventData<'_>) -> Result<usize> {
        self.check(event)?;
        let start = self.rows;
        if start == 0 {
            self.buffers.iter_mut().for_each(ColumnBuffer::prepare);
        }
        let data = event.rows_data();
        let decoded = match event {
            RowsEventData::WriteRowsEvent(_) | RowsEventData::WriteRowsEventV1(_) => {
                self.decode_images(data, RowKind::Insert)
            }
            RowsEventData::DeleteRowsEvent(_) | RowsEventData::DeleteRowsEventV1(_) => {
                self.decode_images(data, RowKind::Delete)
            }
            _ => self.decode_updates(data),
        };
        match decoded {
            Ok(()) => Ok(self.rows - start),
            Err(wrong) => {
                self.cut_back(start);
                Err(located(&self.table, wrong.column, *wrong.fault))
            }
        }
    }

    /// Rows since the last [`Self::take`].
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory of those rows.
    pub fn bytes(&self) -> usize {
        self.buffers.iter().map(ColumnBuffer::bytes).sum::<usize>() + self.kinds.len()
    }

    /// Dates that are none, given as NULL or as 1970-01-01, since the last [`Self::take`].
    pub fn zero_dates(&self) -> u64 {
        self.buffers.iter().map(ColumnBuffer::zero_dates).sum()
    }

    /// The rows since the last call; `None` when there are none. The next batch
    /// gets room for as many.
    ///
    /// # Errors
    /// Definite when the values do not form a batch, which would be a defect.
    pub fn take(&mut self) -> Result<Option<ChangeBatch>> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let kinds = match std::mem::take(&mut self.kinds) {
            kinds if kinds.is_empty() => RowKinds::Inserts,
            kinds => RowKinds::Each(kinds),
        };
        Ok(Some(ChangeBatch {
            table: self.table_schema.clone(),
            rows: take_batch(
                &self.table.name,
                &self.schema,
                &mut self.buffers,
                rows,
                &self.tell,
            )?,
            kinds,
        }))
    }

    /// Checks what an event says about its columns.
    fn check(&self, event: &RowsEventData<'_>) -> Result<()> {
        let wrong = |message: String| Error::definite(message).table(&self.table.name);
        if matches!(event, RowsEventData::PartialUpdateRowsEvent(_)) {
            return Err(wrong("a partial JSON update: not supported yet".into())
                .advice("Set binlog_row_value_options='' on the server"));
        }
        if event.num_columns() != self.columns.len() as u64 {
            return Err(wrong(format!(
                "a row event has {} columns instead of {}",
                event.num_columns(),
                self.columns.len()
            )));
        }
        let images = [event.columns_before_image(), event.columns_after_image()];
        let mut absent = images.into_iter().flatten();
        match absent.find_map(|bits| bits.first_zero()) {
            None => Ok(()),
            Some(absent) => {
                let mut error = wrong("a row in the log lacks a column".into());
                if let Some(column) = self.table.columns.get(absent) {
                    error = error.column(&column.name);
                }
                Err(error.advice("Set binlog_row_image=FULL, also in every session that writes"))
            }
        }
    }

    fn decode_images(&mut self, data: &[u8], kind: RowKind) -> std::result::Result<(), Wrong> {
        let mut rest = data;
        while !rest.is_empty() {
            rest = self.decode_image(rest, kind)?;
        }
        Ok(())
    }

    fn decode_updates(&mut self, data: &[u8]) -> std::result::Result<(), Wrong> {
        let (mut before, mut after) = (
            std::mem::take(&mut self.before),
            std::mem::take(&mut self.after),
        );
        let mut rest = data;
        while !rest.is_empty() {
            let old = rest;
            let new = self.walk(old, &mut before)?;
            let next = self.walk(new, &mut after)?;
            let same = self.keys.iter().all(|key| {
                let old = value_at(old, &before, *key);
                let new = value_at(new, &after, *key);
                old == new
            });
            if same {
                self.decode_image(new, RowKind::UpdateAfter)?;
            } else {
                self.decode_image(old, RowKind::Delete)?;
                self.decode_image(new, RowKind::Insert)?;
            }
            rest = next;
        }
        (self.before, self.after) = (before, after);
        Ok(())
    }

    /// Appends the row whose image `data` starts with and gives what stands behind it.
    fn decode_image<'a>(
        &mut self,
        data: &'a [u8],
        kind: RowKind,
    ) -> std::result::Result<&'a [u8], Wrong> {
        let (nulls, mut rest) = self.split_nulls(data)?;
        let columns = self.columns.iter().zip(&mut self.buffers);
        for (at, (column, buffer)) in columns.enumerate() {
            let pushed = if is_null(nulls, at) {
                buffer.push_null()
            } else {
                column.push(&mut rest, buffer)
            };
            if let Err(fault) = pushed {
                return Err(Wrong { column: at, fault });
            }
        }
        if kind != RowKind::Insert || !self.kinds.is_empty() {
            self.kinds.resize(self.rows, RowKind::Insert as i8);
            self.kinds.push(kind as i8);
        }
        self.rows += 1;
        Ok(rest)
    }

    /// Finds the values of an image without reading them.
    fn walk<'a>(&self, data: &'a [u8], spans: &mut Spans) -> std::result::Result<&'a [u8], Wrong> {
        spans.clear();
        let (nulls, mut rest) = self.split_nulls(data)?;
        for (at, column) in self.columns.iter().enumerate() {
            if is_null(nulls, at) {
                spans.push(None);
                continue;
            }
            let wrong = |fault| Wrong { column: at, fault };
            let length = column.length(rest).map_err(wrong)?;
            let start = data.len() - rest.len();
            rest = match rest.get(length..) {
                Some(rest) => rest,
                None => return Err(wrong(fault("a row ends early"))),
            };
            spans.push(Some(start..start + length));
        }
        Ok(rest)
    }

    fn split_nulls<'a>(&self, data: &'a [u8]) -> std::result::Result<(&'a [u8], &'a [u8]), Wrong> {
        let length = self.columns.len().div_ceil(8);
        data.split_at_checked(length).ok_or_else(|| Wrong {
            column: 0,
            fault: fault("a row ends early"),
        })
    }

    fn cut_back(&mut self, rows: usize) {
        for buffer in &mut self.buffers {
            buffer.truncate(rows);
        }
        self.kinds.truncate(rows);
        self.rows = rows;
        // A batch of inserts again when the first other kind has gone.
        if self.kinds.iter().all(|kind| *kind == RowKind::Insert as i8) {
            self.kinds.clear();
        }
    }
}

#[inline]
fn is_null(nulls: &[u8], at: usize) -> bool {
    nulls
        .get(at / 8)
        .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

fn value_at<'a>(image: &'a [u8], spans: &Spans, at: usize) -> Option<&'a [u8]> {
    image.get(spans.get(at)?.clone()?)
}

impl WireColumn {
    /// Reads the value that `rest` starts with and moves behind it.
    #[inline]
    fn push(&self, rest: &mut &[u8], buffer: &mut ColumnBuffer) -> Handled {
        let (prefix, length) = self.extent(rest)?;
        match rest.split_at_checked(prefix + length) {
            Some((value, tail)) => {
                *rest = tail;
                value::push(&self.codec, value.get(prefix..).unwrap_or_default(), buffer)
            }
            None => Err(fault("a row ends early")),
        }
    }

    /// Bytes of the value that `rest` starts with, its length prefix included.
    fn length(&self, rest: &[u8]) -> Handled<usize> {
        let (prefix, length) = self.extent(rest)?;
        Ok(prefix + length)
    }
}
