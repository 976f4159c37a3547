//! One event of the log, where it lies: its header is taken off, its checksum compared.
//!
//! Format: MySQL's `libs/mysql/binlog/event/binlog_event.h`; checksums: WL#2540, and WL#3549 for
//! events inside of a compressed transaction, which have none.

use mysql_common::{
    binlog::{
        BinlogCtx, BinlogEvent,
        consts::{BinlogChecksumAlg, EventFlags, EventType},
        events::{BinlogEventFooter, BinlogEventHeader, FormatDescriptionEvent, RowsEventData},
    },
    io::ParseBuf,
};

use super::damaged;
use crate::error::{Error, Result};

/// Where the type of an event stands in its header.
pub(super) const KIND: usize = 4;
/// Where the two bytes of flags stand in a header.
const FLAGS: usize = 17;

/// An event.
#[derive(Debug)]
pub(super) struct LogEvent<'a> {
    header: BinlogEventHeader,
    /// Without header and checksum.
    data: &'a [u8],
    format: &'a FormatDescriptionEvent<'static>,
    footer: BinlogEventFooter,
}

impl<'a> LogEvent<'a> {
    /// Reads the header of the event that `bytes` are, and compares its checksum. `format` is what
    /// the log said last; events that come out of a compressed transaction have no checksum.
    ///
    /// # Errors
    /// Definite, for bytes that are no event.
    pub fn read(
        bytes: &'a [u8],
        format: &'a FormatDescriptionEvent<'static>,
        is_unpacked: bool,
    ) -> Result<Self> {
        let (start, data) = bytes
            .split_first_chunk::<{ BinlogEventHeader::LEN }>()
            .ok_or_else(|| Error::definite("damaged event: shorter than its header"))?;
        let header: BinlogEventHeader = ParseBuf(start).parse(()).map_err(damaged)?;
        if header.event_size() as usize != bytes.len() {
            return Err(Error::definite("damaged event: its length is impossible"));
        }
        let is_format = header.event_type_raw() == EventType::FORMAT_DESCRIPTION_EVENT as u8;
        let footer = match is_format {
            true => BinlogEventFooter::read(data).map_err(damaged)?,
            false => format.footer(),
        };
        let algorithm = footer
            .get_checksum_alg()
            .map_err(|e| Error::definite("damaged event: unknown checksum").cause(e))?;
        let mut data = data;
        let has_checksum = match algorithm {
            None => false,
            // This one tells of the others', and has its own in any case.
            Some(_) if is_format => true,
            Some(algorithm) => {
                !is_unpacked && algorithm != BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_OFF
            }
        };
        if has_checksum {
            let (checked, sent) = data
                .split_last_chunk::<{ BinlogEventFooter::BINLOG_CHECKSUM_LEN }>()
                .ok_or_else(|| Error::definite("damaged event: shorter than its checksum"))?;
            if algorithm == Some(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32) {
                compare(start, checked, u32::from_le_bytes(*sent))?;
            }
            data = checked;
        }
        if is_format && algorithm.is_some() {
            let described = BinlogEventFooter::BINLOG_CHECKSUM_ALG_DESC_LEN;
            let kept = data.len().saturating_sub(described);
            data = data.get(..kept).unwrap_or_default();
        }
        Ok(Self {
            header,
            data,
            format,
            footer,
        })
    }

    /// Its header.
    pub fn header(&self) -> &BinlogEventHeader {
        &self.header
    }

    /// What stands between header and checksum.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Its parts; all bytes must belong to one of them.
    ///
    /// # Errors
    /// Definite, for bytes that are not such an event.
    pub fn parts<T: BinlogEvent<'a>>(&self) -> Result<T> {
        let size = BinlogEventHeader::LEN + self.data.len();
        let context = BinlogCtx::new(size, self.format, self.header.event_type_raw());
        let mut rest = ParseBuf(self.data);
        let parts = rest.parse(context).map_err(damaged)?;
        match rest.is_empty() {
            true => Ok(parts),
            false => Err(Error::definite("damaged event: bytes are left over")),
        }
    }

    /// The rows of an event of rows; `None` for other kinds.
    ///
    /// # Errors
    /// As [`parts`](Self::parts).
    pub fn rows(&self, kind: EventType) -> Result<Option<RowsEventData<'a>>> {
        Ok(Some(match kind {
            EventType::WRITE_ROWS_EVENT => RowsEventData::WriteRowsEvent(self.parts()?),
            EventType::UPDATE_ROWS_EVENT => RowsEventData::UpdateRowsEvent(self.parts()?),
            EventType::DELETE_ROWS_EVENT => RowsEventData::DeleteRowsEvent(self.parts()?),
            EventType::WRITE_ROWS_EVENT_V1 => RowsEventData::WriteRowsEventV1(self.parts()?),
            EventType::UPDATE_ROWS_EVENT_V1 => RowsEventData::UpdateRowsEventV1(self.parts()?),
            EventType::DELETE_ROWS_EVENT_V1 => RowsEventData::DeleteRowsEventV1(self.parts()?),
            _ => return Ok(None),
        }))
    }

    /// What an event of that kind says of those that follow.
    pub fn format(&self) -> Result<FormatDescriptionEvent<'static>> {
        let format: FormatDescriptionEvent<'_> = self.parts()?;
        Ok(format.into_owned().with_footer(self.footer))
    }
}

/// Compares the checksum that came with an event.
fn compare(header: &[u8; BinlogEventHeader::LEN], data: &[u8], sent: u32) -> Result<()> {
    let mut hasher = crc32fast::Hasher::new();
    let mut header = *header;
    if let Some(flags) = header.get_mut(FLAGS) {
        // Set while a file is written to, and not a part of the sum.
        *flags &= !(EventFlags::LOG_EVENT_BINLOG_IN_USE_F.bits() as u8);
    }
    hasher.update(&header);
    hasher.update(data);
    if hasher.finalize() == sent {
        return Ok(());
    }
    Err(
        Error::definite("damaged event: its checksum is wrong").advice(
            "Look for a faulty disk or network; `mysqlbinlog --verify-binlog-checksum` shows \
             whether the file itself is damaged",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::binlog::{consts::BinlogVersion, events::XidEvent};

    /// An event of type XID with the body `body`, and its checksum.
    fn event(body: &[u8], checksum: bool) -> Vec<u8> {
        let size = (BinlogEventHeader::LEN + body.len() + if checksum { 4 } else { 0 }) as u32;
        let mut bytes = vec![1, 0, 0, 0, EventType::XID_EVENT as u8, 1, 0, 0, 0];
        bytes.extend(size.to_le_bytes());
        bytes.extend([9, 0, 0, 0, 0, 0]);
        bytes.extend(body);
        if checksum {
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        }
        bytes
    }

    fn format(algorithm: BinlogChecksumAlg) -> FormatDescriptionEvent<'static> {
        FormatDescriptionEvent::new(BinlogVersion::Version4)
            .with_footer(BinlogEventFooter::new(algorithm))
    }

    #[test]
    fn checksums_are_compared() {
        let format = format(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32);
        let good = event(&7_u64.to_le_bytes(), true);
        let read = LogEvent::read(&good, &format, false).unwrap();
        assert_eq!(read.data(), 7_u64.to_le_bytes());
        assert_eq!(read.parts::<XidEvent>().unwrap().xid, 7);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert!(LogEvent::read(&bad, &format, false).is_err(), "byte {at}");
        }
        for length in 0..good.len() {
            assert!(LogEvent::read(&good[..length], &format, false).is_err());
        }
        let unpacked = event(&8_u64.to_le_bytes(), false);
        let read = LogEvent::read(&unpacked, &format, true).unwrap();
        assert_eq!(read.parts::<XidEvent>().unwrap().xid, 8);
    }

    #[test]
    fn what_is_left_over_is_damage() {
        let format = format(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_OFF);
        let long = event(&[0; 9], false);
        let read = LogEvent::read(&long, &format, false).unwrap();
        assert!(read.parts::<XidEvent>().is_err());
        let short = event(&[0; 7], false);
        let read = LogEvent::read(&short, &format, false).unwrap();
        assert!(read.parts::<XidEvent>().is_err());
    }
}
