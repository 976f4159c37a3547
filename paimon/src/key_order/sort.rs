//! Sorting rows by their keys.
//!
//! Numbers are sorted digit by digit (a radix sort from the least digit), digits in which all keys
//! are alike left out: it keeps the order of rows that have one key. Keys as bytes are sorted by
//! their first eight bytes that are not alike, the same way; only rows that have those in common are
//! compared further.

use std::cmp::Ordering;

use arrow_row::Rows;

use super::Keys;

/// Fewer rows than these are compared: digits would cost more.
const RADIX_ROWS_MIN: usize = 256;

/// A number without a sign, of so many bytes.
pub(super) trait Number: Copy + Default + Ord {
    const BYTES: u32;

    /// With `bits` digits more at its end.
    fn shifted_in(self, bits: u32, value: u128) -> Self;
    /// A byte, counted from the least.
    fn byte(self, at: u32) -> u8;
    /// This, with a bit for each in which the others differ.
    fn differing(self, left: Self, right: Self) -> Self;
}

impl Number for u64 {
    const BYTES: u32 = 8;

    fn shifted_in(self, bits: u32, value: u128) -> Self {
        self.checked_shl(bits).unwrap_or(0) | value as Self
    }

    fn byte(self, at: u32) -> u8 {
        (self >> (8 * at)) as u8
    }

    fn differing(self, left: Self, right: Self) -> Self {
        self | (left ^ right)
    }
}

impl Number for u128 {
    const BYTES: u32 = 16;

    fn shifted_in(self, bits: u32, value: u128) -> Self {
        self.checked_shl(bits).unwrap_or(0) | value
    }

    fn byte(self, at: u32) -> u8 {
        (self >> (8 * at)) as u8
    }

    fn differing(self, left: Self, right: Self) -> Self {
        self | (left ^ right)
    }
}

/// A row and its key, or the beginning of it.
#[derive(Debug, Clone, Copy, Default)]
struct Entry<K> {
    key: K,
    row: u32,
}

/// Rows by key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    /// Numbers of the rows.
    pub(crate) rows: Vec<u32>,
    /// Of each key, the position behind its last row.
    pub(crate) ends: Vec<u32>,
}

impl Sorted {
    fn with_capacity(rows: usize) -> Self {
        Self {
            rows: Vec::with_capacity(rows),
            ends: Vec::with_capacity(rows),
        }
    }

    fn end_key(&mut self) {
        self.ends.push(self.rows.len() as u32);
    }

    /// The last row of each key.
    pub(crate) fn into_last(self) -> Vec<u32> {
        if self.ends.len() == self.rows.len() {
            return self.rows;
        }
        let last = |end: u32| self.rows.get((end as usize).checked_sub(1)?).copied();
        self.ends.into_iter().filter_map(last).collect()
    }

    /// A row whose key another row before it has.
    pub(crate) fn second_of_a_key(&self) -> Option<u32> {
        let long = (1..).zip(&self.ends).find(|(keys, end)| **end > *keys)?;
        self.rows.get(long.0 as usize).copied()
    }
}

/// Which of two rows of one key is the older.
type Age<'a> = &'a dyn Fn(u32, u32) -> Ordering;

impl Keys {
    /// The rows by key, those of one key by `age`; without one in their own order.
    pub(crate) fn sorted(&self, age: Option<Age<'_>>) -> Sorted {
        match self {
            Self::Narrow(keys) => numbers_sorted(keys, age),
            Self::Wide(keys) => numbers_sorted(keys, age),
            Self::Bytes(rows) => bytes_sorted(rows, age),
        }
    }
}

fn numbers_sorted<K: Number>(keys: &[K], age: Option<Age<'_>>) -> Sorted {
    let entries = keys.iter().zip(0..);
    let entries = entries.map(|(key, row)| Entry { key: *key, row });
    let mut entries: Vec<Entry<K>> = entries.collect();
    sort(&mut entries);
    let mut sorted = Sorted::with_capacity(entries.len());
    for run in entries.chunk_by_mut(|left, right| left.key == right.key) {
        if let Some(age) = age.filter(|_| run.len() > 1) {
            run.sort_unstable_by(|left, right| {
                age(left.row, right.row).then(left.row.cmp(&right.row))
            });
        }
        sorted.rows.extend(run.iter().map(|entry| entry.row));
        sorted.end_key();
    }
    sorted
}

fn bytes_sorted(rows: &Rows, age: Option<Age<'_>>) -> Sorted {
    let compare = |left: u32, right: u32| rows.row(left as usize).cmp(&rows.row(right as usize));
    let mut entries = beginnings(rows);
    sort(&mut entries);
    let mut sorted = Sorted::with_capacity(entries.len());
    for alike in entries.chunk_by_mut(|left, right| left.key == right.key) {
        if alike.len() > 1 {
            alike.sort_unstable_by(|left, right| {
                let (left, right) = (left.row, right.row);
                compare(left, right)
                    .then_with(|| age.map_or(Ordering::Equal, |age| age(left, right)))
                    .then(left.cmp(&right))
            });
        }
        for run in alike.chunk_by(|left, right| compare(left.row, right.row).is_eq()) {
            sorted.rows.extend(run.iter().map(|entry| entry.row));
            sorted.end_key();
        }
    }
    sorted
}

/// Of each key the first eight bytes behind those that all keys have in common.
fn beginnings(rows: &Rows) -> Vec<Entry<u64>> {
    let first = rows.iter().next();
    let first = first.as_ref().map_or(&[][..], AsRef::as_ref);
    let in_common = rows.iter().fold(first.len(), |length, row| {
        let pairs = first.iter().zip(row.as_ref()).take(length);
        pairs.take_while(|(left, right)| left == right).count()
    });
    let rows = rows.iter().zip(0..);
    rows.map(|(bytes, row)| {
        let bytes = bytes.as_ref().get(in_common..).unwrap_or_default();
        let key = match bytes.first_chunk() {
            Some(word) => u64::from_be_bytes(*word),
            // Bytes that a shorter key lacks are behind no others.
            None => (0..8).fold(0, |key, at| {
                (key << 8) | u64::from(bytes.get(at).copied().unwrap_or(0))
            }),
        };
        Entry { key, row }
    })
    .collect()
}

/// Sorts entries that stand in the order of their rows by key, then row.
fn sort<K: Number>(entries: &mut Vec<Entry<K>>) {
    if entries.len() < RADIX_ROWS_MIN {
        entries.sort_unstable_by_key(|entry| (entry.key, entry.row));
        return;
    }
    if entries.is_sorted_by_key(|entry| entry.key) {
        return;
    }
    let first = entries.first().map_or(K::default(), |entry| entry.key);
    let differing = entries.iter().fold(K::default(), |differing, entry| {
        differing.differing(first, entry.key)
    });
    let mut other = vec![Entry::default(); entries.len()];
    for byte in (0..K::BYTES).filter(|byte| differing.byte(*byte) != 0) {
        spread(entries, &mut other, byte);
        std::mem::swap(entries, &mut other);
    }
}

/// Copies entries into the order of one byte of their keys; those of one value stay in order.
#[expect(
    clippy::indexing_slicing,
    reason = "there are 256 places for a byte, and each entry's place is below the number of entries"
)]
fn spread<K: Number>(from: &[Entry<K>], to: &mut [Entry<K>], byte: u32) {
    let mut places = [0_u32; 256];
    for entry in from {
        places[usize::from(entry.key.byte(byte))] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        let count = *place;
        *place = before;
        before += count;
    }
    for entry in from {
        let place = &mut places[usize::from(entry.key.byte(byte))];
        to[*place as usize] = *entry;
        *place += 1;
    }
}
