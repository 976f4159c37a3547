//! A compressed transaction: its events are unpacked one by one, so that its size does not matter.
//!
//! Format: MySQL's `libs/mysql/binlog/event/binlog_event.h`, `Transaction_payload_event`.

use std::io::{self, Cursor, Read};

use mysql_common::binlog::{
    consts::TransactionPayloadCompressionType,
    events::{BinlogEventHeader, TransactionPayloadEvent},
};

use super::damaged;
use crate::error::Result;

/// Where a header says how long the event is.
const LENGTH: std::ops::Range<usize> = 9..13;
/// Bytes of memory that are kept for the next event.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// The transaction whose events are being read.
pub(super) struct Payload {
    events: Box<dyn Read + Send>,
    event: Vec<u8>,
}

impl Payload {
    /// # Errors
    /// Definite, when it cannot be unpacked.
    pub fn new(packed: &TransactionPayloadEvent<'_>) -> Result<Self> {
        let bytes = Cursor::new(packed.payload_raw().to_vec());
        let events: Box<dyn Read + Send> = match packed.algorithm() {
            TransactionPayloadCompressionType::NONE => Box::new(bytes),
            TransactionPayloadCompressionType::ZSTD => {
                Box::new(zstd::Decoder::with_buffer(bytes).map_err(damaged)?)
            }
        };
        Ok(Self {
            events,
            event: Vec::new(),
        })
    }

    /// Unpacks the next event, for [`Self::event`]; `false` at the end.
    ///
    /// # Errors
    /// Definite, for bytes that are no events.
    pub fn advance(&mut self) -> Result<bool> {
        self.event.clear();
        self.event.shrink_to(KEPT_BYTES_MAX);
        // What is taken grows with what comes, not with what a length says.
        let (header, event) = (BinlogEventHeader::LEN as u64, &mut self.event);
        let got = self.events.by_ref().take(header).read_to_end(event);
        let cut_off = || damaged(io::ErrorKind::UnexpectedEof.into());
        match got.map_err(damaged)? as u64 {
            0 => return Ok(false),
            got if got == header => {}
            _ => return Err(cut_off()),
        }
        let length = event.get(LENGTH).and_then(<[u8]>::first_chunk::<4>);
        let length = length.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        let rest = length.saturating_sub(header);
        let got = self.events.by_ref().take(rest).read_to_end(event);
        if got.map_err(damaged)? as u64 != rest {
            return Err(cut_off());
        }
        Ok(true)
    }

    /// The event that was unpacked last.
    pub fn event(&self) -> &[u8] {
        &self.event
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event with so many bytes behind its header.
    fn event(number: u8, bytes: usize) -> Vec<u8> {
        let mut event = vec![number; BinlogEventHeader::LEN + bytes];
        let length = event.len() as u32;
        event[LENGTH].copy_from_slice(&length.to_le_bytes());
        event
    }

    fn packed(events: &[u8]) -> TransactionPayloadEvent<'static> {
        let packed = zstd::encode_all(events, 3).unwrap();
        let size = events.len() as u64;
        let algorithm = TransactionPayloadCompressionType::ZSTD;
        TransactionPayloadEvent::new(packed.len() as u64, algorithm, size, packed)
    }

    #[test]
    fn events_come_out_one_by_one() {
        let events: Vec<Vec<u8>> = [0, 5, 3 << 20, 1]
            .iter()
            .enumerate()
            .map(|(number, bytes)| event(number as u8, *bytes))
            .collect();
        let mut payload = Payload::new(&packed(&events.concat())).unwrap();
        for event in &events {
            assert!(payload.advance().unwrap());
            assert!(payload.event() == event);
        }
        assert!(!payload.advance().unwrap());
    }

    #[test]
    fn damage_is_an_error() {
        let good = event(1, 100);
        for events in [
            &good[..good.len() - 1],
            &good[..9],
            &[&good[..], b"x"].concat(),
        ] {
            let mut payload = Payload::new(&packed(events)).unwrap();
            let ends = [payload.advance(), payload.advance()];
            assert!(ends.iter().any(Result::is_err), "{events:?}");
        }
        let mut cut = zstd::encode_all(&good[..], 3).unwrap();
        cut.truncate(cut.len() - 5);
        let algorithm = TransactionPayloadCompressionType::ZSTD;
        let cut = TransactionPayloadEvent::new(cut.len() as u64, algorithm, u64::MAX, cut);
        assert!(Payload::new(&cut).unwrap().advance().is_err());
    }
}
