//! Compressed transactions. The library unpacks each whole, in memory, before anyone can look at
//! it: how large it will be has to be asked first.

use mysql_async::{Conn, Row, prelude::Queryable};
use mysql_common::binlog::events::GtidEvent;

use super::Tail;
use crate::{
    error::{Error, Result},
    mysql::{
        connect::{connect, failed},
        options::MysqlOptions,
    },
};

/// Bytes in the log from which a transaction is asked about. A smaller one would have to be
/// packed to less than the 256th part to be larger than the limit when unpacked.
const ASK_FROM: u64 = 4 << 20;

/// Asks the server about transactions, on a connection of its own.
#[derive(Default)]
pub(super) struct PayloadGuard {
    conn: Option<Conn>,
}

impl PayloadGuard {
    /// Bytes that the event at a place of the log unpacks to; `None` when it is not compressed.
    async fn unpacked_bytes(
        &mut self,
        options: &MysqlOptions,
        file: &str,
        offset: u64,
    ) -> Result<Option<u64>> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => connect(options).await?,
        };
        let sql = format!("SHOW BINLOG EVENTS IN '{file}' FROM {offset} LIMIT 1");
        let row: Option<Row> = conn
            .query_first(sql)
            .await
            .map_err(|e| failed("cannot ask for the size of a transaction", e))?;
        self.conn = Some(conn);
        let info = row.and_then(|row| row.get_opt::<String, _>(5)?.ok());
        Ok(info.as_deref().and_then(decompressed_size))
    }
}

/// Reads `compression='ZSTD', decompressed_size=123 bytes`.
fn decompressed_size(info: &str) -> Option<u64> {
    let (_, size) = info.split_once("decompressed_size=")?;
    let digits = size.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

impl Tail<'_> {
    /// Refuses a transaction that would not fit into memory. Called behind its GTID event.
    pub(super) async fn guard_memory(&mut self, gtid: &GtidEvent) -> Result<()> {
        if gtid.tx_length() < ASK_FROM {
            return Ok(());
        }
        let at = self.mysql()?;
        let (file, offset) = (at.file.clone(), at.offset);
        let options = self.options;
        let size = self.payload_guard.unpacked_bytes(options, &file, offset);
        let size = match size.await {
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "the size of a large transaction is not known");
                return Ok(());
            }
            Ok(size) => size.unwrap_or(0),
        };
        if size <= options.unpacked_bytes_max {
            return Ok(());
        }
        Err(Error::definite(format!(
            "transaction {}:{} is compressed and unpacks to {size} bytes, more than {} bytes",
            uuid::Uuid::from_bytes(gtid.sid()),
            gtid.gno(),
            options.unpacked_bytes_max
        ))
        .advice(
            "Nothing of it was committed. Switch binlog_transaction_compression off for sessions \
             that write this much at once, and start the job anew into empty tables",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let info = "compression='ZSTD', decompressed_size=1234 bytes";
        assert_eq!(decompressed_size(info), Some(1234));
        assert_eq!(decompressed_size("BEGIN"), None);
        assert_eq!(decompressed_size("decompressed_size="), None);
    }
}
