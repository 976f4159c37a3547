//! Sets of 64-bit numbers as `org.roaringbitmap.longlong.Roaring64Bitmap` of RoaringBitmap 1.x writes
//! them: not the portable form. All numbers are little endian, but for the keys.
//!
//! ```text
//! 0                                             the empty set, or
//! 1, number of keys (i64), the tree of keys, the containers
//!
//! tree       a node, then its children in the order of their bytes
//! node       type (u8), number of children (u16), length of the prefix (u8), the prefix, then by type
//!   0        up to 4 children: their bytes, the first the highest of an i32
//!   1        up to 16: the same in two i64
//!   2        up to 48: for each of 256 bytes the place of the child or 0xff, in 32 i64 as before
//!   3        up to 256: a bit for each byte, in 4 i64
//!   4        a leaf: the key (the upper 48 bits, big endian), the number of its container (i64)
//! containers arrays (i32), of each: 0xfe, places (i32), of each 0, or 1 and a container;
//!            number of containers (i64), the last array (i32), the last place in it (i32)
//! container  type (u8), how many numbers (i32), and their lower 16 bits:
//!            0 runs (u16; first, length - 1 of each), 1 bits (8 KiB), 2 the numbers
//! ```
//!
//! Source: `HighLowContainer`, `Art`, `BranchNode`, `LeafNode`, `Containers`, as of RoaringBitmap 1.2.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use super::bitmap::Bitmap;

const NODE4: u8 = 0;
const NODE16: u8 = 1;
const NODE48: u8 = 2;
const NODE256: u8 = 3;
const LEAF: u8 = 4;
const RUNS: u8 = 0;
const BITS: u8 = 1;
const NUMBERS: u8 = 2;
/// Bytes of a container of bits.
const BITS_BYTES: usize = 8 << 10;
/// Numbers that a container lists at most.
const NUMBERS_MAX: u64 = 4096;
const KEY_BYTES: usize = 6;

/// A set of 64-bit numbers.
#[derive(Debug, Default)]
pub(super) struct Bitmap64 {
    /// The upper 48 bits, with the place of the container.
    keys: BTreeMap<u64, usize>,
    /// Lower 16 bits.
    containers: Vec<Option<RoaringBitmap>>,
    /// Places that Java's array of containers has.
    room: usize,
}

/// Bytes that are yet to be read.
struct Input<'a>(&'a [u8]);

type Read<T> = Result<T, String>;

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes are missing at its end"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let bytes = self.bytes(N)?;
        bytes.try_into().map_err(|_| "it is too short".to_owned())
    }

    fn u8(&mut self) -> Read<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn i32(&mut self) -> Read<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Read<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A node and all below it.
    fn tree(&mut self, depth: usize, keys: &mut BTreeMap<u64, usize>) -> Read<()> {
        if depth > KEY_BYTES {
            return Err("a key of more than 48 bits".into());
        }
        let kind = self.u8()?;
        let children = self.u16()?;
        let prefix = self.u8()?;
        self.bytes(prefix.into())?;
        let body = match kind {
            NODE4 => 4,
            NODE16 => 16,
            NODE48 => 256,
            NODE256 => 32,
            LEAF => {
                let key: [u8; KEY_BYTES] = self.array()?;
                let key = key.iter().fold(0, |key, byte| key << 8 | u64::from(*byte));
                let place = self.i64()?;
                let place = usize::try_from(place).map_err(|_| format!("container {place}"))?;
                keys.insert(key, place);
                return Ok(());
            }
            other => return Err(format!("a node of type {other}")),
        };
        self.bytes(body)?;
        // Leaves hold whole keys, so that nothing of the nodes is needed.
        for _ in 0..children {
            self.tree(depth + 1, keys)?;
        }
        Ok(())
    }

    fn containers(&mut self) -> Read<Vec<Option<RoaringBitmap>>> {
        let arrays = self.i32()?;
        if arrays != 1 {
            return Err(format!("{arrays} arrays of containers"));
        }
        self.u8()?;
        let places = self.i32()?;
        let mut containers = Vec::new();
        for _ in 0..places {
            containers.push(match self.u8()? {
                0 => None,
                1 => Some(self.container()?),
                other => return Err(format!("a container marked {other}")),
            });
        }
        Ok(containers)
    }

    fn container(&mut self) -> Read<RoaringBitmap> {
        let kind = self.u8()?;
        let count = self.i32()?;
        let mut numbers = RoaringBitmap::new();
        match kind {
            RUNS => {
                for _ in 0..self.u16()? {
                    let first = u32::from(self.u16()?);
                    let last = first + u32::from(self.u16()?);
                    if last > u32::from(u16::MAX) {
                        return Err(format!("a run from {first} to {last}"));
                    }
                    numbers.insert_range(first..=last);
                }
            }
            BITS => numbers = RoaringBitmap::from_lsb0_bytes(0, self.bytes(BITS_BYTES)?),
            NUMBERS => {
                for _ in 0..count {
                    numbers.insert(self.u16()?.into());
                }
            }
            other => return Err(format!("a container of type {other}")),
        }
        Ok(numbers)
    }
}

impl Bitmap for Bitmap64 {
    fn read(bytes: &[u8]) -> Read<Self> {
        let mut input = Input(bytes);
        if input.u8()? == 0 {
            return Ok(Self::default());
        }
        let mut keys = BTreeMap::new();
        input.i64()?;
        input.tree(0, &mut keys)?;
        let mut containers = input.containers()?;
        input.i64()?;
        input.i32()?;
        let last = input.i32()?;
        let room = containers.len();
        containers.truncate(usize::try_from(last).map_or(0, |last| last + 1));
        let is_there = |place: &usize| matches!(containers.get(*place), Some(Some(_)));
        if let Some(place) = keys.values().find(|place| !is_there(place)) {
            return Err(format!("there is no container {place}"));
        }
        Ok(Self {
            keys,
            containers,
            room,
        })
    }

    fn unite(&mut self, mut other: Self) {
        for (key, place) in &other.keys {
            let Some(numbers) = other.containers.get_mut(*place).and_then(Option::take) else {
                continue;
            };
            match self.keys.get(key) {
                Some(place) => {
                    if let Some(Some(known)) = self.containers.get_mut(*place) {
                        *known |= numbers;
                    }
                }
                None => {
                    self.keys.insert(*key, self.containers.len());
                    self.containers.push(Some(numbers));
                    // As Java's array grows.
                    let needed = self.containers.len();
                    if needed > self.room {
                        self.room = needed.max(self.room + self.room / 2);
                    }
                }
            }
        }
    }

    fn write(self) -> Vec<u8> {
        if self.keys.is_empty() {
            return vec![0];
        }
        let mut out = vec![1];
        out.extend((self.keys.len() as i64).to_le_bytes());
        let keys: Vec<([u8; KEY_BYTES], usize)> = self
            .keys
            .iter()
            .map(|(key, place)| (bytes_of(*key), *place))
            .collect();
        write_tree(&keys, 0, &mut out);
        out.extend(1i32.to_le_bytes());
        out.push(0xfe);
        out.extend((self.room as i32).to_le_bytes());
        for numbers in &self.containers {
            match numbers {
                None => out.push(0),
                Some(numbers) => {
                    out.push(1);
                    write_container(numbers, &mut out);
                }
            }
        }
        out.extend(std::iter::repeat_n(0, self.room - self.containers.len()));
        let count = self.containers.iter().flatten().count();
        out.extend((count as i64).to_le_bytes());
        out.extend(0i32.to_le_bytes());
        out.extend((self.containers.len() as i32 - 1).to_le_bytes());
        out
    }
}

/// The 48 bits of a key.
fn bytes_of(key: u64) -> [u8; KEY_BYTES] {
    let [_, _, bytes @ ..] = key.to_be_bytes();
    bytes
}

/// Writes the tree of keys that are equal up to `depth`; ascending, at least one.
fn write_tree(keys: &[([u8; KEY_BYTES], usize)], depth: usize, out: &mut Vec<u8>) {
    let ([(first, place)] | [(first, place), ..]) = keys else {
        return;
    };
    if keys.len() == 1 {
        out.extend([LEAF, 0, 0, 0]);
        out.extend(first);
        out.extend((*place as i64).to_le_bytes());
        return;
    }
    let last = keys.last().map_or(first, |(last, _)| last);
    let shared = first.iter().zip(last).skip(depth);
    let prefix = shared.take_while(|(one, other)| one == other).count();
    let branch = depth + prefix;
    let byte = |(key, _): &([u8; KEY_BYTES], usize)| key.get(branch).copied().unwrap_or(0);
    let children: Vec<_> = keys.chunk_by(|a, b| byte(a) == byte(b)).collect();
    let bytes = children.iter().filter_map(|child| child.first()).map(byte);
    let (kind, body) = node(&bytes.collect::<Vec<_>>());
    out.push(kind);
    out.extend((children.len() as u16).to_le_bytes());
    out.push(prefix as u8);
    out.extend(first.iter().skip(depth).take(prefix));
    out.extend(body);
    for child in children {
        write_tree(child, branch + 1, out);
    }
}

/// The type and the body of a node, by the bytes of its children.
fn node(bytes: &[u8]) -> (u8, Vec<u8>) {
    let words = |mut body: Vec<u8>, size: usize| {
        body.chunks_mut(size).for_each(<[u8]>::reverse);
        body
    };
    let padded = |size: usize| {
        let mut body = bytes.to_vec();
        body.resize(size, 0);
        body
    };
    match bytes.len() {
        0..=4 => (NODE4, words(padded(4), 4)),
        5..=16 => (NODE16, words(padded(16), 8)),
        17..=48 => {
            let mut places = vec![0xff; 256];
            for (place, byte) in (0u8..).zip(bytes) {
                if let Some(at) = places.get_mut(usize::from(*byte)) {
                    *at = place;
                }
            }
            (NODE48, words(places, 8))
        }
        _ => {
            let mut bits = vec![0; 32];
            for byte in bytes {
                if let Some(at) = bits.get_mut(usize::from(*byte / 8)) {
                    *at |= 1 << (byte % 8);
                }
            }
            (NODE256, bits)
        }
    }
}

/// Runs where they are the shortest, else the numbers, or the bits of many.
fn write_container(numbers: &RoaringBitmap, out: &mut Vec<u8>) {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        let number = number as u16;
        match runs.last_mut() {
            Some((_, last)) if number.checked_sub(1) == Some(*last) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let count = numbers.len();
    let listed = match count <= NUMBERS_MAX {
        true => 2 * count as usize,
        false => BITS_BYTES,
    };
    let is_runs = 2 + 4 * runs.len() < listed;
    let kind = match (is_runs, count <= NUMBERS_MAX) {
        (true, _) => RUNS,
        (false, true) => NUMBERS,
        (false, false) => BITS,
    };
    out.push(kind);
    out.extend((count as i32).to_le_bytes());
    match kind {
        RUNS => {
            out.extend((runs.len() as u16).to_le_bytes());
            for (first, last) in runs {
                out.extend(first.to_le_bytes());
                out.extend((last - first).to_le_bytes());
            }
        }
        NUMBERS => numbers
            .iter()
            .for_each(|number| out.extend((number as u16).to_le_bytes())),
        _ => {
            let mut bits = vec![0u8; BITS_BYTES];
            for number in numbers {
                if let Some(at) = bits.get_mut(number as usize / 8) {
                    *at |= 1 << (number % 8);
                }
            }
            out.extend(bits);
        }
    }
}

#[cfg(test)]
mod tests;
