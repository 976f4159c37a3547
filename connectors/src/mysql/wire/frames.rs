//! Packets out of a stream of bytes, where they lie.
//!
//! A packet is a length of three bytes, a sequence number, and so many bytes; one of the greatest
//! length goes on in the next. Source: MySQL Internals, "MySQL Packets".

use std::ops::Range;

use mysql_common::proto::codec::error::PacketCodecError;

use crate::mysql::connect::PACKET_BYTES_MAX;

/// Bytes of a length and a sequence number.
const HEADER: usize = 4;
/// A packet of this length goes on in the next.
pub(super) const PART_BYTES_MAX: usize = 0xFF_FFFF;
/// Bytes of the buffer while packets fit into it.
const BUFFER_BYTES: usize = 128 << 10;
/// A buffer that had to grow past this is given back with the packet: below, rows of one size
/// would make it grow again and again.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// The bytes that were read, and how far they were taken.
#[derive(Debug)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// The first byte that was not taken.
    start: usize,
    /// Behind the last byte that was read.
    end: usize,
    /// The number that the next packet must have.
    sequence: u8,
    /// Bytes of the packet's parts that are together already: they stand behind the header that
    /// `start` is at, and the header of the next part behind them.
    joined: usize,
    /// Bytes from `start` on that the packet under way takes, as far as is known.
    needed: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            bytes: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            sequence: 0,
            joined: 0,
            needed: HEADER,
        }
    }
}

impl Frames {
    /// The number that the next packet has, whoever sends it.
    pub(super) fn sequence(&mut self) -> &mut u8 {
        &mut self.sequence
    }

    /// Whether nothing waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes the next packet, if it is here as a whole: its place, for [`Self::get`], which stays
    /// right until [`Self::room`] is asked for.
    #[inline]
    pub(super) fn take(&mut self) -> Result<Option<Range<usize>>, PacketCodecError> {
        let waiting = self.bytes.get(self.start..self.end).unwrap_or_default();
        if self.joined == 0
            && let Some([a, b, c, number]) = waiting.first_chunk::<HEADER>()
        {
            let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            let whole = HEADER + length;
            if length < PART_BYTES_MAX && whole <= waiting.len() && *number == self.sequence {
                let from = self.start + HEADER;
                self.sequence = number.wrapping_add(1);
                self.start += whole;
                return Ok(Some(from..self.start));
            }
        }
        self.take_parts()
    }

    /// A packet that is not whole, or not well, or of several parts.
    #[cold]
    fn take_parts(&mut self) -> Result<Option<Range<usize>>, PacketCodecError> {
        loop {
            let at = match self.joined {
                0 => self.start,
                joined => self.start + HEADER + joined,
            };
            let waiting = self.bytes.get(at..self.end).unwrap_or_default();
            let Some([a, b, c, number]) = waiting.first_chunk::<HEADER>() else {
                self.needed = at + HEADER - self.start;
                return Ok(None);
            };
            let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            if *number != self.sequence {
                return Err(PacketCodecError::PacketsOutOfSync);
            }
            if self.joined + length > PACKET_BYTES_MAX {
                return Err(PacketCodecError::PacketTooLarge);
            }
            if waiting.len() < HEADER + length {
                self.needed = at + HEADER + length - self.start;
                return Ok(None);
            }
            self.sequence = number.wrapping_add(1);
            if self.joined > 0 {
                // The header of this part goes, so that the parts stand side by side.
                self.bytes.copy_within(at + HEADER..self.end, at);
                self.end -= HEADER;
            }
            self.joined += length;
            if length < PART_BYTES_MAX {
                let from = self.start + HEADER;
                self.start = from + std::mem::take(&mut self.joined);
                return Ok(Some(from..self.start));
            }
        }
    }

    /// The bytes of a packet.
    #[inline]
    pub(super) fn get(&self, packet: Range<usize>) -> &[u8] {
        self.bytes.get(packet).unwrap_or_default()
    }

    /// Where the next bytes are to be put, at least one; [`Self::filled`] says how many they were.
    /// Called when [`Self::take`] gave nothing.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let waiting = self.end - self.start;
        let needed = self.needed.max(waiting + 1);
        if self.bytes.len() > KEPT_BYTES_MAX && needed <= BUFFER_BYTES {
            let mut smaller = vec![0; BUFFER_BYTES];
            let left = self.bytes.get(self.start..self.end).unwrap_or_default();
            if let Some(front) = smaller.get_mut(..waiting) {
                front.copy_from_slice(left);
            }
            self.bytes = smaller;
        } else if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, waiting);
        if self.bytes.len() < needed {
            // A part more at a time, so that a length that is wrong takes no more than that, but
            // twice as much at least, so that not all is copied for every part. Zeroed memory is
            // none before it is written to.
            let mut larger = vec![0; needed.max(2 * self.bytes.len())];
            let left = self.bytes.get(..waiting).unwrap_or_default();
            if let Some(front) = larger.get_mut(..waiting) {
                front.copy_from_slice(left);
            }
            self.bytes = larger;
        }
        self.bytes.get_mut(waiting..).unwrap_or_default()
    }

    /// Gives back what a large packet took: nobody may come for the next packet for long.
    pub(super) fn relax(&mut self) {
        if self.is_empty() && self.bytes.len() > KEPT_BYTES_MAX {
            *self = Self {
                sequence: self.sequence,
                ..Self::default()
            };
        }
    }

    /// So many bytes were put into the room.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }
}

/// Appends a packet with its headers.
pub(super) fn write(payload: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
    let mut rest = payload;
    loop {
        let (part, tail) = rest.split_at(rest.len().min(PART_BYTES_MAX));
        let [a, b, c, _] = (part.len() as u32).to_le_bytes();
        out.extend_from_slice(&[a, b, c, *sequence]);
        out.extend_from_slice(part);
        *sequence = sequence.wrapping_add(1);
        rest = tail;
        if part.len() < PART_BYTES_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(frames: &mut Frames, bytes: &[u8]) -> usize {
        let room = frames.room();
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        frames.filled(count);
        count
    }

    /// Everything that comes out of `bytes` when they come in pieces.
    fn packets(bytes: &[u8], mut piece: impl FnMut() -> usize) -> Vec<Vec<u8>> {
        let (mut frames, mut rest, mut found) = (Frames::default(), bytes, Vec::new());
        loop {
            while let Some(packet) = frames.take().unwrap() {
                found.push(frames.get(packet).to_vec());
            }
            if rest.is_empty() {
                assert!(frames.is_empty());
                return found;
            }
            let count = feed(&mut frames, &rest[..rest.len().min(piece())]);
            rest = &rest[count..];
        }
    }

    #[test]
    fn packets_come_whole_however_their_bytes_come() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut rng = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed);
        let mut random = move |up_to: usize| rand::Rng::random_range(&mut rng, 0..=up_to);
        let (mut bytes, mut sequence, mut sent) = (Vec::new(), 0, Vec::new());
        for number in 0..600 {
            let most = [0, 9, 300, 40_000, 400_000][number % 5];
            let payload = vec![number as u8; random(most)];
            write(&payload, &mut sequence, &mut bytes);
            sent.push(payload);
        }
        for most in [1, 7, 5000, 1 << 20] {
            if most == 1 {
                let few = bytes.len().min(100_000);
                let cut = packets_prefix(&bytes[..few]);
                assert_eq!(
                    packets(&bytes[..cut], || 1),
                    sent[..packets_in(&bytes[..cut])]
                );
            } else {
                assert_eq!(packets(&bytes, || 1 + random(most)), sent);
            }
        }
    }

    /// Bytes of the packets that are whole.
    fn packets_prefix(bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some([a, b, c, _]) = bytes[at..].first_chunk::<4>() {
            let next = at + 4 + u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            if next > bytes.len() {
                break;
            }
            at = next;
        }
        at
    }

    fn packets_in(bytes: &[u8]) -> usize {
        packets(bytes, || 4096).len()
    }

    #[test]
    fn parts_are_joined() {
        for length in [
            PART_BYTES_MAX - 1,
            PART_BYTES_MAX,
            PART_BYTES_MAX + 1,
            2 * PART_BYTES_MAX,
            3 * PART_BYTES_MAX + 5,
        ] {
            let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let (mut bytes, mut sequence) = (Vec::new(), 0);
            write(b"before", &mut sequence, &mut bytes);
            write(&payload, &mut sequence, &mut bytes);
            write(b"after", &mut sequence, &mut bytes);
            let expected = length / PART_BYTES_MAX + 3;
            assert_eq!(usize::from(sequence), expected, "parts of {length} bytes");
            for piece in [1 << 14, 3 << 20] {
                let found = packets(&bytes, || piece);
                assert!(found == [b"before".to_vec(), payload.clone(), b"after".to_vec()]);
            }
        }
    }

    #[test]
    fn room_grows_with_a_packet_and_shrinks_again() {
        let mut frames = Frames::default();
        let length = 3 << 20;
        let mut bytes = Vec::new();
        write(&vec![7; length], &mut 0, &mut bytes);
        write(&[1], &mut 1, &mut bytes);
        let mut rest = &bytes[..];
        while frames.take().unwrap().is_none() {
            rest = &rest[feed(&mut frames, rest)..];
            assert!(frames.bytes.len() < length + (1 << 20));
        }
        while !rest.is_empty() {
            rest = &rest[feed(&mut frames, rest)..];
        }
        let last = frames.take().unwrap().unwrap();
        assert_eq!(frames.get(last), [1]);
        assert!(frames.take().unwrap().is_none());
        frames.room();
        assert_eq!(frames.bytes.len(), BUFFER_BYTES);
        // Also when nothing more is waited for.
        bytes.truncate(length + HEADER);
        bytes[3] = frames.sequence;
        let mut rest = &bytes[..];
        while frames.take().unwrap().is_none() {
            rest = &rest[feed(&mut frames, rest)..];
        }
        let next = frames.sequence;
        frames.relax();
        assert_eq!((frames.bytes.len(), frames.sequence), (BUFFER_BYTES, next));
        // A length alone takes no more than a part.
        let mut frames = Frames::default();
        feed(&mut frames, &[0xFF, 0xFF, 0xFF, 0, 9]);
        assert!(frames.take().unwrap().is_none());
        frames.room();
        assert!(frames.bytes.len() <= PART_BYTES_MAX + HEADER);
    }

    #[test]
    fn packets_out_of_order_are_refused() {
        let mut frames = Frames::default();
        feed(&mut frames, &[1, 0, 0, 0, 9, 1, 0, 0, 2, 9]);
        assert_eq!(frames.take().unwrap(), Some(4..5));
        assert!(matches!(
            frames.take(),
            Err(PacketCodecError::PacketsOutOfSync)
        ));
        // Before its bytes are waited for.
        let mut frames = Frames::default();
        feed(&mut frames, &[0, 0, 9, 1]);
        assert!(matches!(
            frames.take(),
            Err(PacketCodecError::PacketsOutOfSync)
        ));
    }

    #[test]
    fn endless_packets_are_refused() {
        let mut frames = Frames {
            joined: PACKET_BYTES_MAX - 5,
            bytes: Vec::new(),
            ..Frames::default()
        };
        // As if so many bytes were here: only the header behind them is looked at.
        frames.joined = 64 * PART_BYTES_MAX;
        frames.bytes = vec![0; HEADER + frames.joined];
        frames.end = frames.bytes.len();
        feed(&mut frames, &[0xFF, 0xFF, 0xFF, 0]);
        assert!(matches!(
            frames.take(),
            Err(PacketCodecError::PacketTooLarge)
        ));
    }
}
