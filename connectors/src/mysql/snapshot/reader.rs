//! Chunk reads: a walk along the key, one short consistent read a chunk.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use mysql_async::{Conn, Row, prelude::Queryable};
use tokio::sync::mpsc;

use super::{
    ahead::{changed, check_columns, check_hidden},
    key::Key,
    qualified,
};
use crate::{
    change::wait_for_room,
    error::{Error, Result},
    mysql::{
        buffer::NULL_IN_NOT_NULL,
        connect::{failed, shorten},
        registry::{Known, Registry},
        select::{SelectPlan, packet::PacketPlan},
        table::MysqlTable,
        wire::{Cell, Found, WireConn},
    },
    schema::TableSchema,
    source::{ChunkEnd, ChunkReader, Split},
};

/// Time that a chunk should take: its read view keeps the server from cleaning up.
const CHUNK_TIME: Duration = Duration::from_millis(800);
/// Time after which a chunk ends, whatever its planned size.
const CHUNK_TIME_MAX: Duration = Duration::from_secs(2);
/// A batch has this many rows …
const BATCH_ROWS: usize = 8192;
/// … or this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// Rows between two looks at a batch's bytes.
const BYTES_EVERY: usize = 64;

/// One connection.
pub(in crate::mysql) struct MysqlChunkReader {
    pub conn: WireConn,
    pub registry: Arc<Registry>,
    pub rows_first: usize,
    pub rows_max: usize,
    /// Held while the reader lives: connections are limited.
    pub _permit: tokio::sync::OwnedSemaphorePermit,
    /// Rows a second of the last chunk, and the table it was of.
    pub pace: Option<(Arc<Known>, f64)>,
}

/// A table's walk.
struct Walk<'a> {
    known: &'a Known,
    key: Key,
    plan: SelectPlan,
    /// Places of the key's columns in the select list, where those can be used as they are; else
    /// they stand behind the list.
    places: Option<Vec<usize>>,
}

impl<'a> Walk<'a> {
    fn new(known: &'a Known) -> Result<Self> {
        let table = &known.table;
        let key = Key::new(table)?;
        let integers = key.all_integers();
        let places = table
            .primary_key
            .iter()
            .map(|name| {
                table
                    .columns
                    .iter()
                    .position(|column| super::super::table::same_name(&column.name, name))
            })
            .collect::<Option<Vec<usize>>>()
            .filter(|_| integers);
        Ok(Self {
            known,
            key,
            plan: SelectPlan::new(table)?,
            places,
        })
    }

    fn sql(&self, split: &Split, limit: usize) -> Result<String> {
        let mut select = self.plan.columns_sql();
        if self.places.is_none() {
            select = format!("{select}, {}", self.key.select_sql());
        }
        let mut conditions = Vec::new();
        if let Some(after) = &split.after {
            conditions.push(self.key.greater_sql(after)?);
        }
        if let Some(upto) = &split.upto {
            conditions.push(self.key.at_most_sql(upto)?);
        }
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let table = &self.known.table;
        Ok(format!(
            "SELECT {select} FROM {} AS t FORCE INDEX ({}){filter} ORDER BY {} LIMIT {limit}",
            qualified(&table.name),
            super::key::quoted(self.known.key_index.as_deref().unwrap_or("PRIMARY")),
            self.key.order_sql(),
        ))
    }

    /// The key of a row, as literals.
    fn key_of(&self, plan: &PacketPlan, row: &[u8]) -> Result<Vec<String>> {
        let cells = plan.cells(row)?;
        let cell = |place: usize| cells.get(place).copied().unwrap_or(Cell::Null);
        match &self.places {
            Some(places) => self.key.literals(places.iter().map(|place| cell(*place))),
            None => {
                let first = self.known.table.columns.len();
                self.key.literals((first..plan.columns()).map(cell))
            }
        }
    }
}

#[async_trait]
impl ChunkReader for MysqlChunkReader {
    async fn read(
        &mut self,
        schema: &TableSchema,
        split: &Split,
        out: &mpsc::Sender<RecordBatch>,
    ) -> Result<ChunkEnd> {
        let known = self.registry.find(schema)?;
        let walk = Walk::new(&known)?;
        let limit = self.limit(&known);
        let sql = walk.sql(split, limit)?;
        let started = Instant::now();
        let read = read_chunk(&mut self.conn, &walk, &sql, &self.registry, out).await;
        let read = read.map_err(|e| {
            let e = if e.is_transient() {
                e
            } else {
                e.table(&schema.name)
            };
            ahead_of_log(e, &known.table)
        })?;
        check_hidden(&mut self.conn, &walk.plan, &known.table).await?;
        let seconds = started.elapsed().as_secs_f64().max(0.000_1);
        self.pace = Some((known.clone(), read.rows as f64 / seconds));
        if !read.stopped && read.rows < limit {
            return Ok(ChunkEnd::Done);
        }
        let Some(cursor) = read.last else {
            return Ok(ChunkEnd::Done);
        };
        let cursor = cursor?;
        self.assert_advances(&walk, split, &cursor, schema).await?;
        Ok(ChunkEnd::More(cursor))
    }
}

/// The job has stopped taking rows: it knows why.
fn nobody<T>(_: mpsc::error::SendError<T>) -> Error {
    Error::transient("nobody takes the rows of a chunk any more")
}

/// What a chunk's read brought.
struct Read {
    rows: usize,
    /// The key of the last row emitted.
    last: Option<Result<Vec<String>>>,
    /// It ended before its last row.
    stopped: bool,
}

async fn read_chunk(
    conn: &mut WireConn,
    walk: &Walk<'_>,
    sql: &str,
    registry: &Registry,
    out: &mpsc::Sender<RecordBatch>,
) -> Result<Read> {
    let what = || format!("cannot read a chunk of {}", walk.known.table.name);
    let lost = |e| failed(&what(), e);
    let started = Instant::now();
    let statement = conn.execute(sql).await.map_err(lost)?;
    check_columns(&walk.plan, &walk.known.table, &statement.columns)?;
    let plan = walk.plan.for_packets(&statement.columns)?;
    let mut builder = walk.plan.builder().telling(registry.zero_dates.clone());
    let mut read = Read {
        rows: 0,
        last: None,
        stopped: false,
    };
    // Bytes of the batch's rows as they came.
    let mut bytes = 0;
    loop {
        match conn.row().map_err(lost)? {
            Found::Row(row) => {
                bytes += row.len();
                wait_for_room(out, row.len()).await.map_err(nobody)?;
                builder.push_packet(&plan, row)?;
                read.rows += 1;
            }
            Found::Nothing => {
                // The row goes away with the bytes that come.
                if !conn.last_row().is_empty() {
                    read.last = Some(walk.key_of(&plan, conn.last_row()));
                }
                conn.fill().await.map_err(lost)?;
                continue;
            }
            Found::End => break,
        }
        let waiting = builder.rows();
        let full = waiting >= BATCH_ROWS
            || bytes >= BATCH_BYTES
            || (waiting.is_multiple_of(BYTES_EVERY) && builder.bytes() >= BATCH_BYTES);
        if full {
            bytes = 0;
            out.send(builder.take()?).await.map_err(nobody)?;
            if started.elapsed() > CHUNK_TIME_MAX {
                read.stopped = true;
                break;
            }
        }
    }
    if !conn.last_row().is_empty() {
        read.last = Some(walk.key_of(&plan, conn.last_row()));
    }
    if builder.rows() > 0 {
        out.send(builder.take()?).await.map_err(nobody)?;
    }
    conn.close(statement).await.map_err(lost)?;
    Ok(read)
}

impl MysqlChunkReader {
    /// As many rows as should take about [`CHUNK_TIME`].
    fn limit(&self, known: &Arc<Known>) -> usize {
        let planned = match &self.pace {
            Some((last, rate)) if last.table.name == known.table.name => {
                let rows = (rate * CHUNK_TIME.as_secs_f64()) as usize;
                rows.max(self.rows_first.min(BATCH_ROWS))
            }
            _ => self.rows_first,
        };
        planned.min(self.rows_max).max(1)
    }

    /// Asks the server whether the walk got ahead: where it does not, it would never end, or
    /// would leave rows out.
    async fn assert_advances(
        &mut self,
        walk: &Walk<'_>,
        split: &Split,
        cursor: &[String],
        schema: &TableSchema,
    ) -> Result<()> {
        let Some(after) = &split.after else {
            return Ok(());
        };
        let sql = format!("SELECT {}", walk.key.advances_sql(after, cursor)?);
        let row = self.conn.first(&sql).await?;
        if row.is_some_and(|row| row.first().and_then(Option::as_deref) == Some("1")) {
            return Ok(());
        }
        Err(Error::definite(format!(
            "the walk along the key does not advance: from ({}) to ({})",
            shorten(&after.join(", "), 200),
            shorten(&cursor.join(", "), 200)
        ))
        .table(&schema.name))
    }
}

/// A column, a table or its index that is gone, and a NULL where there was none, come of a statement
/// that the tail has yet to meet.
fn ahead_of_log(error: Error, table: &MysqlTable) -> Error {
    let text = error.to_string();
    let gone = ["ERROR 1146 ", "ERROR 1054 ", "ERROR 1176 ", "42S02"];
    let what = match gone.iter().any(|code| text.contains(code)) {
        true => "it has other columns or another name",
        false if text.contains(NULL_IN_NOT_NULL) => "a column may be NULL now",
        false => return error,
    };
    changed(table, what).cause(error)
}

/// Reads rows by key.
pub(in crate::mysql) async fn lookup(
    conn: &mut Conn,
    known: &Known,
    keys: &[Vec<String>],
) -> Result<Vec<RecordBatch>> {
    let table = &known.table;
    let (key, plan) = (Key::new(table)?, SelectPlan::new(table)?);
    let lost = |e| failed(&format!("cannot look up rows of {}", table.name), e);
    let mut batches = Vec::new();
    let mut builder = plan.builder();
    for keys in keys.chunks(500) {
        let sql = format!(
            "SELECT {} FROM {} AS t WHERE {}",
            plan.columns_sql(),
            qualified(&table.name),
            key.among_sql(keys)?
        );
        let rows: Vec<Row> = conn.exec(sql, ()).await.map_err(lost)?;
        for row in rows {
            builder.push(row)?;
        }
        if builder.rows() > 0 {
            batches.push(builder.take()?);
        }
    }
    Ok(batches)
}
