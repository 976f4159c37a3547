//! The hashes of a partition's keys with their buckets, small in memory.
//!
//! A few keys stand in a hash map. Of many, those that share the upper 17 bits of their hash stand
//! in one sorted list, as the lower 15 bits and the bucket in one word: 4 to 5 bytes a key.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Keys from which on they stand in lists: then those take less than the map.
const MAP_MAX: usize = 7 << 15;
/// Bits of a hash that stand in a list's entry; buckets take as many.
const LOW_BITS: u32 = 15;
const LOW: u32 = (1 << LOW_BITS) - 1;
/// Lists, for each value of the upper bits.
const LISTS: usize = 1 << (32 - LOW_BITS);
/// Bytes of an empty list.
const LIST_BYTES: usize = size_of::<Vec<u32>>();
/// Bytes of a place in the map.
const PLACE_BYTES: usize = size_of::<(i32, i16)>() + 1;

/// The keys are hashes already.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_i32(&mut self, hash: i32) {
        // The map looks at the upper bits too.
        self.0 = u64::from(hash as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Hashes and their buckets, which are 0 to `i16::MAX`.
#[derive(Debug)]
pub(super) enum KnownHashes {
    Few(HashMap<i32, i16, BuildHasherDefault<AsIs>>),
    Many(Lists),
}

/// Entries by the upper bits of their hash, each list sorted.
#[derive(Debug)]
pub(super) struct Lists {
    lists: Vec<Vec<u32>>,
    /// Of all lists.
    capacity: usize,
}

impl Default for KnownHashes {
    fn default() -> Self {
        Self::Few(HashMap::default())
    }
}

impl KnownHashes {
    pub(super) fn get(&self, hash: i32) -> Option<i16> {
        match self {
            Self::Few(map) => map.get(&hash).copied(),
            Self::Many(lists) => lists.get(hash),
        }
    }

    /// Adds a hash that is not there.
    pub(super) fn insert(&mut self, hash: i32, bucket: i16) {
        match self {
            Self::Few(map) if map.len() < MAP_MAX => {
                map.insert(hash, bucket);
            }
            Self::Few(map) => {
                let mut lists = Lists {
                    lists: vec![Vec::new(); LISTS],
                    capacity: 0,
                };
                for (hash, bucket) in map.drain() {
                    lists.insert(hash, bucket);
                }
                lists.insert(hash, bucket);
                *self = Self::Many(lists);
            }
            Self::Many(lists) => lists.insert(hash, bucket),
        }
    }

    /// Bytes that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            // A map's places are a power of two, of which seven in eight are taken.
            Self::Few(map) => (map.capacity() * 8 / 7).next_power_of_two() * PLACE_BYTES,
            Self::Many(lists) => LISTS * LIST_BYTES + lists.capacity * size_of::<u32>(),
        }
    }

    /// Calls `take` with every hash and its bucket.
    pub(super) fn for_each(&self, mut take: impl FnMut(i32, i16)) {
        match self {
            Self::Few(map) => map.iter().for_each(|(hash, bucket)| take(*hash, *bucket)),
            Self::Many(lists) => {
                for (upper, list) in (0u32..).zip(&lists.lists) {
                    for entry in list {
                        let hash = (upper << LOW_BITS) | (entry >> LOW_BITS);
                        take(hash as i32, bucket_of(*entry));
                    }
                }
            }
        }
    }
}

fn bucket_of(entry: u32) -> i16 {
    i16::try_from(entry & LOW).unwrap_or(i16::MAX)
}

impl Lists {
    /// The list of a hash, and where in it.
    fn place(&self, hash: i32) -> Option<(usize, Result<usize, usize>)> {
        let hash = hash as u32;
        let (list, low) = ((hash >> LOW_BITS) as usize, hash & LOW);
        let found = self
            .lists
            .get(list)?
            .binary_search_by_key(&low, |entry| entry >> LOW_BITS);
        Some((list, found))
    }

    fn get(&self, hash: i32) -> Option<i16> {
        let (list, at) = self.place(hash)?;
        let entry = self.lists.get(list)?.get(at.ok()?)?;
        Some(bucket_of(*entry))
    }

    fn insert(&mut self, hash: i32, bucket: i16) {
        let Some((list, Err(at))) = self.place(hash) else {
            return;
        };
        let Some(list) = self.lists.get_mut(list) else {
            return;
        };
        if list.len() == list.capacity() {
            // Doubling would leave half of it unused.
            let before = list.capacity();
            list.reserve_exact(before / 8 + 4);
            self.capacity += list.capacity() - before;
        }
        let low = hash as u32 & LOW;
        list.insert(at, (low << LOW_BITS) | u32::from(bucket.unsigned_abs()));
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// `HEADWATER_HASH_SEED` gives a seed again.
    #[test]
    fn every_hash_keeps_its_bucket_in_little_memory() {
        let given = std::env::var("HEADWATER_HASH_SEED").ok();
        let seed = given.map_or_else(rand::random, |seed| seed.parse().unwrap());
        println!("HEADWATER_HASH_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut known = KnownHashes::default();
        let mut model: HashMap<i32, i16> = HashMap::new();
        for hash in [0, 1, -1, i32::MIN, i32::MAX] {
            model.insert(hash, i16::MAX);
            known.insert(hash, i16::MAX);
        }
        for count in 0..1_000_000 {
            let hash: i32 = random.random();
            assert_eq!(known.get(hash), model.get(&hash).copied());
            model.entry(hash).or_insert_with(|| {
                let bucket = random.random_range(0..=i16::MAX);
                known.insert(hash, bucket);
                bucket
            });
            let few = count < MAP_MAX / 2;
            assert!(!few || matches!(known, KnownHashes::Few(_)));
        }
        assert!(matches!(known, KnownHashes::Many(_)));
        for (hash, bucket) in &model {
            assert_eq!(known.get(*hash), Some(*bucket));
        }
        let mut all = HashMap::new();
        known.for_each(|hash, bucket| assert!(all.insert(hash, bucket).is_none()));
        assert_eq!(all, model);
        let bytes = (known.memory_bytes() - LISTS * LIST_BYTES) as f64 / model.len() as f64;
        assert!(bytes < 6.5, "{bytes} bytes a key");
    }
}
