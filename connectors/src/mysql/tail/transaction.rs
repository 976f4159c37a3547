//! What is inside a transaction: table maps, rows, and the two ends of an XA transaction.

use mysql_common::binlog::{
    consts::EventType,
    events::{RowsEventData, TableMapEvent},
};

use super::{DUMMY_TABLE_ID, Phase, Tail, event::LogEvent, is_ignored, table_id, tables::Entry};
use crate::{
    change::{TailItem, wait_for_room},
    error::{Error, Result},
};

impl Tail<'_> {
    pub(super) async fn table_map(&mut self, event: &LogEvent<'_>) -> Result<()> {
        let data = event.data();
        let (id, shape) = match (table_id(data), data.get(8..)) {
            (Some(id), Some(shape)) => (id, shape),
            _ => return Err(Error::definite("damaged event: a table map is too short")),
        };
        if self.tables.by_id(id).is_some() {
            return Ok(());
        }
        let map: TableMapEvent<'_> = event.parts()?;
        let at = self.mysql()?.clone();
        let ignored = |entry: &Entry| entry.dark || is_ignored(entry, &at);
        let waiting = match self.tables.announce(id, &map, shape, ignored) {
            Err(error) if !error.is_transient() => {
                self.doubt(&map, error).await?;
                // Its rows are left out now.
                self.tables.announce(id, &map, shape, ignored)?
            }
            result => result?,
        };
        self.send_rows(waiting).await
    }

    /// The log's rows are not those of the table as it is known: it was changed without a trace in
    /// the log (`sql_log_bin=0`). Once; rows that do not fit what the server says are an error.
    async fn doubt(&mut self, map: &TableMapEvent<'_>, error: Error) -> Result<()> {
        let Some(index) = self.tables.doubt(map)? else {
            return Err(error);
        };
        let reason = "left no trace in the log, but changed the table".into();
        let text = format!("(not in the log: {})", error.without_advice());
        self.darken(index, reason, &text).await
    }

    pub(super) async fn rows(&mut self, event: &LogEvent<'_>, kind: EventType) -> Result<()> {
        let id = table_id(event.data())
            .ok_or_else(|| Error::definite("damaged event: a rows event is too short"))?;
        if id == DUMMY_TABLE_ID {
            return Ok(());
        }
        let index = match self.tables.by_id(id) {
            Some(Some(index)) => index,
            Some(None) => return Ok(()),
            None => {
                return Err(Error::definite(format!(
                    "damaged log: rows of table id {id}, which was not announced"
                )));
            }
        };
        let result = match event.rows(kind)? {
            Some(rows) => self.decode(index, &rows).await,
            None => Err(Error::definite("JSON columns are logged in part")
                .advice("Set binlog_row_value_options='' and start the job anew")),
        };
        match result {
            Err(error) if !error.is_transient() => {
                Err(error.table(&self.tables.get(index)?.table.name))
            }
            result => result,
        }
    }

    async fn decode(&mut self, index: usize, rows: &RowsEventData<'_>) -> Result<()> {
        match &mut self.phase {
            Phase::Xa(_, waiting) => waiting.decode(index, &self.tables, rows),
            Phase::Open => {
                wait_for_room(&self.out, rows.rows_data().len())
                    .await
                    .map_err(|_| Error::transient("nobody listens to the tail"))?;
                let (count, batch) = self.tables.decode(index, rows)?;
                self.open_rows += count as u64;
                self.rows += count as u64;
                self.send_rows(batch).await
            }
            Phase::Begun | Phase::Edge => Err(Error::definite(
                "damaged log: rows outside of a transaction",
            )),
        }
    }

    pub(super) async fn xa_prepare(&mut self, event: &LogEvent<'_>) -> Result<()> {
        let one_phase = event.data().first().is_some_and(|flag| *flag != 0);
        let Phase::Xa(xid, rows) = std::mem::replace(&mut self.phase, Phase::Edge) else {
            return Err(Error::definite(
                "damaged log: XA PREPARE outside of an XA transaction",
            ));
        };
        self.in_payload = false;
        let gtid = self.gtid.take();
        if self.mysql()?.gtid_set.is_some() || one_phase {
            self.xa.prepare(xid.clone(), *rows, gtid)?;
        } else if rows.rows > 0 {
            return Err(Error::definite(
                "an XA transaction changes captured tables, and the server has no GTIDs",
            )
            .advice("Switch GTIDs on (gtid_mode=ON), or do not use XA on captured tables"));
        }
        if one_phase {
            self.xa_end(&xid, true).await?;
        }
        self.event_time_ms = Some(self.commit_ms);
        self.edge().await
    }

    /// Sends or drops what was prepared; `false` when the xid is not known.
    pub(super) async fn xa_end(&mut self, xid: &str, commit: bool) -> Result<bool> {
        let Some(prepared) = self.xa.end(xid) else {
            return Ok(false);
        };
        if commit {
            self.rows += prepared.rows;
            for (index, batch) in prepared.batches {
                // The table is another one by now, or read anew.
                if self.tables.get(index)?.dark {
                    continue;
                }
                let waiting = self.tables.take(index)?;
                self.send_rows(waiting).await?;
                self.tables.count(index, batch.rows.num_rows() as u64)?;
                self.send(TailItem::Rows(batch)).await?;
            }
        }
        if let Some(gtid) = &prepared.gtid {
            self.applied(gtid)?;
        }
        Ok(true)
    }
}
