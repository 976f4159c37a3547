//! Rows of XA transactions between XA PREPARE and XA COMMIT: they are in the log before anyone
//! can see them, and may never be.

use std::collections::HashMap;

use mysql_common::binlog::events::RowsEventData;

use super::{Gtid, tables::Tables};
use crate::{
    change::ChangeBatch,
    error::{Error, Result},
    mysql::rows::RowDecoder,
};

/// Bytes of rows that all open XA transactions may hold.
const BYTES_MAX: usize = 256 << 20;
/// Bytes after which a table's rows become a batch.
const BATCH_BYTES: usize = 4 << 20;

/// The rows of one XA transaction.
#[derive(Default)]
pub(super) struct XaRows {
    decoders: HashMap<usize, RowDecoder>,
    batches: Vec<(usize, ChangeBatch)>,
    bytes: usize,
    pub rows: u64,
}

impl XaRows {
    /// Decodes an event of the table at `index`.
    pub fn decode(
        &mut self,
        index: usize,
        tables: &Tables,
        event: &RowsEventData<'_>,
    ) -> Result<()> {
        let decoder = match self.decoders.entry(index) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let map = tables.map(event.table_id())?;
                entry.insert(tables.decoder(index, map)?)
            }
        };
        let before = decoder.bytes();
        self.rows += decoder.decode(event)? as u64;
        self.bytes = (self.bytes + decoder.bytes()).saturating_sub(before);
        if decoder.bytes() >= BATCH_BYTES
            && let Some(batch) = decoder.take()?
        {
            self.batches.push((index, batch));
        }
        if self.bytes > BYTES_MAX {
            return Err(too_large());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Prepared> {
        for (index, mut decoder) in self.decoders {
            if let Some(batch) = decoder.take()? {
                self.batches.push((index, batch));
            }
        }
        Ok(Prepared {
            gtid: None,
            batches: self.batches,
            bytes: self.bytes,
            rows: self.rows,
        })
    }
}

/// A prepared transaction.
pub(super) struct Prepared {
    /// The GTID of its PREPARE: counted as applied when it ends, so that a restart before gets it
    /// again.
    pub gtid: Option<Gtid>,
    /// Its rows, by table.
    pub batches: Vec<(usize, ChangeBatch)>,
    /// Changed rows.
    pub rows: u64,
    bytes: usize,
}

/// Prepared transactions by their xid, as the log spells it.
#[derive(Default)]
pub(super) struct OpenXa {
    prepared: HashMap<String, Prepared>,
    bytes: usize,
}

impl OpenXa {
    /// Keeps a transaction until its end.
    pub fn prepare(&mut self, xid: String, rows: XaRows, gtid: Option<Gtid>) -> Result<()> {
        let mut prepared = rows.finish()?;
        prepared.gtid = gtid;
        self.bytes += prepared.bytes;
        if self.bytes > BYTES_MAX {
            return Err(too_large());
        }
        self.prepared.insert(xid, prepared);
        Ok(())
    }

    /// Takes a transaction that ends.
    pub fn end(&mut self, xid: &str) -> Option<Prepared> {
        let prepared = self.prepared.remove(xid)?;
        self.bytes -= prepared.bytes;
        Some(prepared)
    }
}

fn too_large() -> Error {
    Error::definite(format!(
        "open XA transactions hold more than {} MiB of rows",
        BYTES_MAX >> 20
    ))
    .advice("End them (XA RECOVER lists them), then start the job again")
}

/// The xid of `XA START xid`, `XA COMMIT xid`, …, as the log spells it.
pub(super) fn xid<'a>(text: &'a str, verb: &str) -> Option<&'a str> {
    let rest = text.strip_prefix("XA ")?.strip_prefix(verb)?;
    rest.starts_with(' ').then(|| rest.trim())
}
