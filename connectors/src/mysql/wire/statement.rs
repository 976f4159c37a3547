//! Statements: short ones as text, those with many rows as prepared ones, whose rows are binary.

use mysql_async::{Column, Error, consts::CapabilityFlags};
use mysql_common::{io::ParseBuf, packets::StmtPacket};

use super::{
    cell,
    conn::{WireConn, unexpected},
};
use crate::{
    error::Result,
    mysql::connect::{failed, shorten},
};

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

/// First byte of the answer of a statement without rows, and of a prepared one.
const OK: u8 = 0;
/// First byte of the answer that asks for a file of ours.
const LOCAL_FILE: u8 = 0xFB;
/// A NULL in a row of text.
const NULL: u8 = 0xFB;

/// A row of text.
pub(super) type TextRow = Vec<Option<String>>;

/// A prepared statement whose result is being read. Ended by [`WireConn::close`].
#[derive(Debug)]
pub(in crate::mysql) struct Running {
    id: u32,
    /// The columns of its rows.
    pub(in crate::mysql) columns: Vec<Column>,
}

impl WireConn {
    /// The first row of a statement, if it has one.
    pub(in crate::mysql) async fn first(&mut self, sql: &str) -> Result<Option<TextRow>> {
        self.query_first(sql)
            .await
            .map_err(|e| failed(&format!("MySQL refused '{}'", shorten(sql, 120)), e))
    }

    /// Runs a statement and reads all of its answer; gives the first row.
    pub(super) async fn query_first(&mut self, sql: &str) -> Result<Option<TextRow>, Error> {
        self.command(&[&[COM_QUERY], sql.as_bytes()].concat())
            .await?;
        let packet = self.packet().await?;
        let columns = match packet.first() {
            Some(&OK) => {
                self.settle();
                return Ok(None);
            }
            Some(&LOCAL_FILE) => return Err(unexpected(packet)),
            _ => count(packet)?,
        };
        self.columns(columns).await?;
        let mut first = None;
        loop {
            let place = self.place().await?;
            let packet = self.frames.get(place);
            if self.is_end(packet) {
                self.settle();
                return Ok(first);
            }
            let row = read_text(packet, columns).ok_or_else(|| unexpected(packet))?;
            first = first.or(Some(row));
        }
    }

    /// Runs a statement whose rows are then read one by one.
    pub(in crate::mysql) async fn execute(&mut self, sql: &str) -> Result<Running, Error> {
        self.command(&[&[COM_STMT_PREPARE], sql.as_bytes()].concat())
            .await?;
        let packet = self.packet().await?;
        if packet.first() != Some(&OK) {
            return Err(unexpected(packet));
        }
        let prepared = ParseBuf(packet).parse::<StmtPacket>(())?;
        let id = prepared.statement_id();
        if prepared.num_params() > 0 {
            self.columns(prepared.num_params().into()).await?;
        }
        if prepared.num_columns() > 0 {
            self.columns(prepared.num_columns().into()).await?;
        }
        self.settle();
        // No cursor, to be run once.
        let [a, b, c, d] = id.to_le_bytes();
        self.command(&[COM_STMT_EXECUTE, a, b, c, d, 0, 1, 0, 0, 0])
            .await?;
        let packet = self.packet().await?;
        if matches!(packet.first(), Some(&(OK | LOCAL_FILE))) {
            return Err(unexpected(packet));
        }
        let count = count(packet)?;
        let columns = self.columns(count).await?;
        Ok(Running { id, columns })
    }

    /// Reads and forgets what is left of a result, and lets the server forget the statement.
    pub(in crate::mysql) async fn close(&mut self, statement: Running) -> Result<(), Error> {
        self.drain().await?;
        self.frames.relax();
        let [a, b, c, d] = statement.id.to_le_bytes();
        self.command(&[COM_STMT_CLOSE, a, b, c, d]).await?;
        // The server says nothing to this.
        self.settle();
        Ok(())
    }

    /// Reads the definitions of so many columns.
    async fn columns(&mut self, count: usize) -> Result<Vec<Column>, Error> {
        let mut columns = Vec::new();
        for _ in 0..count {
            let packet = self.packet().await?;
            columns.push(ParseBuf(packet).parse::<Column>(())?);
        }
        if !self.has(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
            let place = self.place().await?;
            let packet = self.frames.get(place);
            if !self.is_end(packet) {
                return Err(unexpected(packet));
            }
        }
        Ok(columns)
    }
}

/// The number of columns that a result begins with.
fn count(packet: &[u8]) -> Result<usize, Error> {
    let mut rest = packet;
    match cell::read_length(&mut rest) {
        // Source: MySQL manual, "Limits on Table Column Count"; expressions may be a few more.
        Ok(columns @ 1..=0xFFFF) if rest.is_empty() => Ok(columns as usize),
        _ => Err(unexpected(packet)),
    }
}

/// The values of a row of text.
fn read_text(packet: &[u8], columns: usize) -> Option<TextRow> {
    let mut rest = packet;
    let mut row = Vec::new();
    for _ in 0..columns {
        row.push(match rest.split_first() {
            Some((&NULL, tail)) => {
                rest = tail;
                None
            }
            _ => {
                let text = cell::read_bytes(&mut rest).ok()?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
        });
    }
    rest.is_empty().then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_text() {
        let row = read_text(b"\x01a\xFB\x00", 3);
        assert_eq!(row, Some(vec![Some("a".into()), None, Some("".into())]));
        for damaged in [&b"\x02a"[..], b"\x01a", b"\x01a\xFB\x00b", b""] {
            assert_eq!(read_text(damaged, 3), None, "{damaged:?}");
        }
    }

    #[test]
    fn counts_of_columns() {
        assert_eq!(count(&[7]).unwrap(), 7);
        assert_eq!(count(&[0xFC, 0, 1]).unwrap(), 256);
        for damaged in [&[][..], &[0xFC, 1], &[0xFB], &[7, 7], &[0xFE; 9]] {
            assert!(count(damaged).is_err(), "{damaged:?}");
        }
    }
}
