//! One connection: packets in and out, and what the server's errors become.

use std::ops::Range;

use mysql_async::{DriverError, Error, consts::CapabilityFlags};
use mysql_common::{
    io::ParseBuf,
    packets::{ErrPacket, OkPacketDeserializer, ResultSetTerminator},
};

use super::{
    frames::{self, Frames, PART_BYTES_MAX},
    stream::Stream,
};
use crate::mysql::versions::Version;

/// First byte of a packet that says what went wrong.
const ERR: u8 = 0xFF;
/// First byte of the packet that ends a result, and of the one that ends a list of columns where
/// the server still sends that.
const END: u8 = 0xFE;
/// `COM_QUIT` as a packet.
const QUIT: &[u8] = &[1, 0, 0, 0, 1];

/// A connection that reads rows.
///
/// One that is dropped in the middle of a result is closed, whatever the server still wants to
/// say.
#[derive(Debug)]
pub(in crate::mysql) struct WireConn {
    pub(super) stream: Stream,
    pub(super) frames: Frames,
    out: Vec<u8>,
    /// What both sides can do; nothing until the server knows what we can.
    pub(super) capabilities: CapabilityFlags,
    /// What they will be when the server knows.
    pub(super) offered: CapabilityFlags,
    pub(super) version: Version,
    /// A command was sent whose answer is not over. Stays set after an error that leaves the two
    /// sides out of step.
    busy: bool,
    /// The row that was taken last.
    row: Range<usize>,
}

/// What stands next in a result.
#[derive(Debug)]
pub(in crate::mysql) enum Found<'a> {
    /// A row, with its first byte.
    Row(&'a [u8]),
    /// Nothing that is whole: [`WireConn::fill`] brings more.
    Nothing,
    /// The result is over.
    End,
}

impl WireConn {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            out: Vec::new(),
            capabilities: CapabilityFlags::empty(),
            offered: CapabilityFlags::empty(),
            version: Version::default(),
            busy: true,
            row: 0..0,
        }
    }

    /// The server's version.
    pub(in crate::mysql) fn server_version(&self) -> Version {
        self.version
    }

    /// The answer is over: the next command may be sent.
    pub(super) fn settle(&mut self) {
        self.busy = false;
    }

    /// Sends a packet.
    pub(super) async fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.out.clear();
        frames::write(payload, self.frames.sequence(), &mut self.out);
        self.stream.write(&self.out).await?;
        self.out.shrink_to(1 << 16);
        Ok(())
    }

    /// Sends a command, whose answer is then waited for.
    pub(super) async fn command(&mut self, payload: &[u8]) -> Result<(), Error> {
        // Rows of a result that nobody wanted would be taken for the answer.
        if std::mem::replace(&mut self.busy, true) || !self.frames.is_empty() {
            return Err(DriverError::ConnectionClosed.into());
        }
        *self.frames.sequence() = 0;
        self.send(payload).await
    }

    /// Waits for more bytes.
    pub(in crate::mysql) async fn fill(&mut self) -> Result<(), Error> {
        self.row = 0..0;
        let count = self.stream.read(self.frames.room()).await?;
        self.frames.filled(count);
        Ok(())
    }

    /// The next packet; one that tells of an error is that error.
    pub(super) async fn packet(&mut self) -> Result<&[u8], Error> {
        let place = self.place().await?;
        Ok(self.frames.get(place))
    }

    /// The place of the next packet.
    pub(super) async fn place(&mut self) -> Result<Range<usize>, Error> {
        let place = loop {
            match self.frames.take()? {
                Some(place) => break place,
                None => self.fill().await?,
            }
        };
        if self.frames.get(place.clone()).first() == Some(&ERR) {
            return Err(self.server_error(place));
        }
        Ok(place)
    }

    /// The next row of a result, if it is here.
    #[inline]
    pub(in crate::mysql) fn row(&mut self) -> Result<Found<'_>, Error> {
        let Some(place) = self.frames.take()? else {
            return Ok(Found::Nothing);
        };
        match self.frames.get(place.clone()).first() {
            Some(0) => {
                self.row = place.clone();
                Ok(Found::Row(self.frames.get(place)))
            }
            _ => self.end(place),
        }
    }

    /// The row that [`Self::row`] gave last; nothing after [`Self::fill`].
    pub(in crate::mysql) fn last_row(&self) -> &[u8] {
        self.frames.get(self.row.clone())
    }

    /// Reads and forgets what is left of a result.
    pub(super) async fn drain(&mut self) -> Result<(), Error> {
        while self.busy {
            if let Found::Nothing = self.row()? {
                self.fill().await?;
            }
        }
        Ok(())
    }

    #[cold]
    fn end(&mut self, place: Range<usize>) -> Result<Found<'_>, Error> {
        let packet = self.frames.get(place.clone());
        if packet.first() == Some(&ERR) {
            return Err(self.server_error(place));
        }
        if !self.is_end(packet) {
            return Err(unexpected(packet));
        }
        self.busy = false;
        Ok(Found::End)
    }

    /// Whether a packet ends a result. No other result may follow: none is asked for.
    pub(super) fn is_end(&self, packet: &[u8]) -> bool {
        if packet.first() != Some(&END) || packet.len() >= PART_BYTES_MAX {
            return false;
        }
        if !self.has(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
            return packet.len() < 9;
        }
        ParseBuf(packet)
            .parse::<OkPacketDeserializer<'_, ResultSetTerminator>>(self.capabilities)
            .is_ok()
    }

    pub(super) fn has(&self, capability: CapabilityFlags) -> bool {
        self.capabilities.contains(capability)
    }

    /// What the server says went wrong. It answers the command, so that the next can follow.
    fn server_error(&mut self, place: Range<usize>) -> Error {
        let packet = self.frames.get(place);
        match ParseBuf(packet).parse::<ErrPacket<'_>>(self.capabilities) {
            Ok(ErrPacket::Error(error)) => {
                self.busy = false;
                error.into()
            }
            _ => unexpected(packet),
        }
    }
}

impl Drop for WireConn {
    fn drop(&mut self) {
        if !self.busy {
            self.stream.last_word(QUIT);
        }
    }
}

/// A packet that should not stand where it does. Only its start is kept.
#[cold]
pub(super) fn unexpected(packet: &[u8]) -> Error {
    let payload = packet.get(..64).unwrap_or(packet).to_vec();
    DriverError::UnexpectedPacket { payload }.into()
}
