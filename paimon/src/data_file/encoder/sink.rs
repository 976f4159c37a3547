//! What is encoded and not yet handed to the store.

use std::io;

use bytes::Bytes;

/// Size of the pieces that a file is handed over in.
const PIECE_BYTES: usize = 512 << 10;

/// In pieces, so that each is given back when it is sent, and none is a large block of memory.
#[derive(Debug, Default)]
pub(super) struct Sink {
    full: Vec<Bytes>,
    open: Vec<u8>,
}

impl Sink {
    /// What there is, in pieces.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        let mut pieces = std::mem::take(&mut self.full);
        if !self.open.is_empty() {
            let mut last = std::mem::take(&mut self.open);
            last.shrink_to_fit();
            pieces.push(last.into());
        }
        pieces
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Small files, of which there may be many at a time, need no whole piece.
        if self.open.capacity() == 0 && !self.full.is_empty() {
            self.open.reserve_exact(PIECE_BYTES);
        }
        let room = PIECE_BYTES.saturating_sub(self.open.len());
        let (now, _) = bytes.split_at(room.min(bytes.len()));
        self.open.extend_from_slice(now);
        if self.open.len() >= PIECE_BYTES {
            self.full.push(std::mem::take(&mut self.open).into());
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
