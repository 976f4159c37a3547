//! Dynamic buckets: which bucket each key is in, kept as hashes of the keys.
//!
//! An index file lists the hashes of the keys of one bucket, 4 bytes each, big endian. A key whose
//! hash is known goes to the bucket of that hash; a new one to the first bucket with room.
//!
//! Source: `org.apache.paimon.index.{HashIndexFile, PartitionIndex, HashBucketAssigner}`. One writer
//! at a time: two that assign new keys at once would put a key into two buckets, so the second
//! one's commit is refused.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, Hasher},
};

use crate::{
    data_file_meta::CommitMessage,
    error::{Error, Result},
    index_manifest::{HASH_INDEX, IndexFileMeta, IndexManifestEntry},
    schema::Schema,
    storage,
    table::Table,
    table_options::TableOptions,
};

/// Bytes that a known hash takes in memory, about.
const HASH_BYTES: usize = 16;
/// Bytes of hashes that are kept in memory, at most.
const MEMORY_MAX: usize = 1 << 30;
/// Buckets of a partition, at most.
const BUCKETS_MAX: i32 = i16::MAX as i32;

/// The keys are hashes already.
#[derive(Debug, Default, Clone, Copy)]
struct AsIs(u64);

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

#[derive(Debug, Default)]
struct BucketIndex {
    rows: u64,
    /// What stands in the newest index manifest, or will once the last flush is committed.
    file: Option<IndexFileMeta>,
    changed: bool,
}

#[derive(Debug, Default)]
struct PartitionIndex {
    bucket_of: HashMap<i32, i16, BuildHasherDefault<AsIs>>,
    buckets: BTreeMap<i16, BucketIndex>,
    /// Buckets below have no room.
    open: i16,
    /// Number of the load or flush that last used it.
    used: u64,
}

/// How buckets are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    target_rows: u64,
    initial: i32,
    max: Option<i32>,
}

impl Limits {
    fn of(schema: &Schema) -> Result<Self> {
        let options = TableOptions::of(schema)?.dynamic_bucket;
        Ok(Self {
            target_rows: options.target_rows,
            initial: options.initial_buckets.unwrap_or(1),
            max: options.max_buckets,
        })
    }
}

impl PartitionIndex {
    fn has_room(&self, bucket: i16, limits: Limits) -> bool {
        self.buckets
            .get(&bucket)
            .is_none_or(|bucket| bucket.rows < limits.target_rows)
    }

    /// The bucket of a key's hash; `None` when all buckets there may be are full.
    fn assign(&mut self, hash: i32, limits: Limits) -> Option<i16> {
        if let Some(bucket) = self.bucket_of.get(&hash) {
            return Some(*bucket);
        }
        let max = limits.max.unwrap_or(BUCKETS_MAX).min(BUCKETS_MAX);
        let spread = hash.unsigned_abs() % limits.initial.min(max).unsigned_abs();
        let spread = i16::try_from(spread).unwrap_or(0);
        let bucket = if self.has_room(spread, limits) {
            spread
        } else {
            while i32::from(self.open) < max && !self.has_room(self.open, limits) {
                self.open += 1;
            }
            if i32::from(self.open) < max {
                self.open
            } else if limits.max.is_some() {
                // As many buckets as there may be: they grow.
                i16::try_from(hash.unsigned_abs() % max.unsigned_abs()).unwrap_or(0)
            } else {
                return None;
            }
        };
        self.bucket_of.insert(hash, bucket);
        let index = self.buckets.entry(bucket).or_default();
        index.rows += 1;
        index.changed = true;
        Some(bucket)
    }
}

/// Finds the buckets of keys in a table with dynamic buckets (`bucket = -1` and a primary key).
/// Reads the index of a partition when its first row comes; keeps about 16 bytes a key of the
/// partitions in use, 1 GiB at most, and lets go of partitions whose changes are committed.
#[derive(Debug)]
pub struct DynamicBucketAssigner {
    table: Table,
    limits: Limits,
    partitions: HashMap<Vec<u8>, PartitionIndex>,
    memory_max: usize,
    round: u64,
}

impl DynamicBucketAssigner {
    /// For a table; nothing is read.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables with other buckets, and where a key may move to another
    /// partition.
    pub fn new(table: &Table) -> Result<Self> {
        let schema = table.schema();
        if schema.primary_keys.is_empty() || schema.buckets() != -1 {
            return Err(Error::Unsupported(format!(
                "table {}: dynamic buckets without a primary key, or with option bucket = {}",
                table.name(),
                schema.buckets()
            )));
        }
        let outside = schema
            .partition_keys
            .iter()
            .find(|key| !schema.primary_keys.contains(key));
        if let Some(key) = outside {
            return Err(Error::Unsupported(format!(
                "table {}: partition column {key} is outside of the primary key, so that a row may \
                 move to another partition (cross-partition upsert); put it into the primary key",
                table.name()
            )));
        }
        schema.check_writable()?;
        Ok(Self {
            table: table.clone(),
            limits: Limits::of(schema)?,
            partitions: HashMap::new(),
            memory_max: MEMORY_MAX,
            round: 0,
        })
    }

    /// Bytes of memory that the known hashes take, about.
    pub fn memory_bytes(&self) -> usize {
        let hashes = self.partitions.values().map(|it| it.bucket_of.len());
        hashes.sum::<usize>() * HASH_BYTES
    }

    /// Reads the indexes of partitions that are not known yet. Partitions are serialized BinaryRows
    /// (with the arity prefix).
    ///
    /// # Errors
    /// What the store says, [`Error::Corrupt`], and [`Error::Table`] when the hashes in use take
    /// more memory than there may be.
    pub async fn load(&mut self, partitions: &[Vec<u8>]) -> Result<()> {
        self.round += 1;
        for partition in partitions {
            if let Some(index) = self.partitions.get_mut(partition) {
                index.used = self.round;
            }
        }
        let missing: Vec<&Vec<u8>> = partitions
            .iter()
            .filter(|partition| !self.partitions.contains_key(*partition))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let files = match self.table.latest_snapshot().await? {
            Some(snapshot) => self.table.index_files(&snapshot).await?,
            None => Vec::new(),
        };
        for partition in missing {
            let mut index = PartitionIndex {
                used: self.round,
                ..PartitionIndex::default()
            };
            for entry in files.iter().filter(|entry| {
                entry.partition == *partition && entry.index_file.index_type == HASH_INDEX
            }) {
                self.read(entry, &mut index).await?;
            }
            self.partitions.insert(partition.clone(), index);
            self.make_room(&files)?;
        }
        Ok(())
    }

    async fn read(&self, entry: &IndexManifestEntry, index: &mut PartitionIndex) -> Result<()> {
        let path = self.table.index_file_path(&entry.index_file)?;
        let bytes = storage::read(self.table.store().as_ref(), &path).await?;
        let damaged = |message: String| Error::Corrupt {
            path: path.to_string(),
            message,
        };
        let bucket = i16::try_from(entry.bucket)
            .ok()
            .filter(|bucket| *bucket >= 0)
            .ok_or_else(|| damaged(format!("hashes of bucket {}", entry.bucket)))?;
        for hash in decode(&bytes).map_err(damaged)? {
            index.bucket_of.insert(hash, bucket);
        }
        index.buckets.insert(
            bucket,
            BucketIndex {
                rows: bytes.len() as u64 / 4,
                file: Some(entry.index_file.clone()),
                changed: false,
            },
        );
        Ok(())
    }

    /// Lets go of the partitions that were used longest ago and are committed.
    fn make_room(&mut self, committed: &[IndexManifestEntry]) -> Result<()> {
        while self.memory_bytes() > self.memory_max {
            let is_committed = |partition: &[u8], index: &PartitionIndex| {
                index.buckets.iter().all(|(bucket, state)| {
                    !state.changed
                        && committed.iter().any(|entry| {
                            entry.partition == partition
                                && entry.bucket == i32::from(*bucket)
                                && Some(&entry.index_file) == state.file.as_ref()
                        })
                })
            };
            let oldest = self
                .partitions
                .iter()
                .filter(|(partition, index)| {
                    index.used < self.round && is_committed(partition, index)
                })
                .min_by_key(|(_, index)| index.used)
                .map(|(partition, _)| partition.clone());
            let Some(oldest) = oldest else {
                return Err(Error::Table {
                    table: self.table.name().to_owned(),
                    message: format!(
                        "the hash index of the partitions that are written to takes more than {} \
                         MiB of memory: write fewer partitions at a time, or use fixed buckets",
                        self.memory_max >> 20
                    ),
                });
            };
            self.partitions.remove(&oldest);
        }
        Ok(())
    }

    /// The bucket of a key, by the hash of its BinaryRow ([`bucket::hash`](crate::bucket::hash)).
    ///
    /// # Errors
    /// [`Error::Table`] when no bucket has room; [`Error::Internal`] for a partition that was not
    /// loaded.
    pub fn assign(&mut self, partition: &[u8], hash: i32) -> Result<i32> {
        let index = self
            .partitions
            .get_mut(partition)
            .ok_or_else(|| Error::Internal("a partition whose index was not loaded".into()))?;
        let bucket = index.assign(hash, self.limits);
        bucket.map(i32::from).ok_or_else(|| Error::Table {
            table: self.table.name().to_owned(),
            message: format!(
                "all {BUCKETS_MAX} dynamic buckets of a partition are full: raise option \
                 dynamic-bucket.target-row-num above {}",
                self.limits.target_rows
            ),
        })
    }

    /// Writes the index files of the buckets that got new keys, for the commit that makes their
    /// rows visible: one message a bucket.
    ///
    /// # Errors
    /// What the store says; then it may be called again.
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        let id = uuid::Uuid::new_v4();
        let mut messages = Vec::new();
        for (partition, index) in &mut self.partitions {
            let mut hashes: BTreeMap<i16, Vec<u8>> = index
                .buckets
                .iter()
                .filter(|(_, bucket)| bucket.changed)
                .map(|(bucket, state)| (*bucket, Vec::with_capacity(state.rows as usize * 4)))
                .collect();
            if hashes.is_empty() {
                continue;
            }
            for (hash, bucket) in &index.bucket_of {
                if let Some(bytes) = hashes.get_mut(bucket) {
                    bytes.extend(hash.to_be_bytes());
                }
            }
            for (bucket, bytes) in hashes {
                let file = IndexFileMeta {
                    index_type: HASH_INDEX.into(),
                    file_name: format!("index-{id}-{}", messages.len()),
                    file_size: bytes.len() as i64,
                    row_count: bytes.len() as i64 / 4,
                    dv_ranges: None,
                    external_path: None,
                };
                let path = self.table.index_file_path(&file)?;
                storage::put(self.table.store().as_ref(), &path, bytes).await?;
                let Some(state) = index.buckets.get_mut(&bucket) else {
                    continue;
                };
                messages.push(CommitMessage {
                    partition: partition.clone(),
                    bucket: bucket.into(),
                    total_buckets: -1,
                    deleted_index_files: state.file.replace(file.clone()).into_iter().collect(),
                    new_index_files: vec![file],
                    ..CommitMessage::default()
                });
            }
        }
        for index in self.partitions.values_mut() {
            let buckets = index.buckets.values_mut();
            buckets.for_each(|bucket| bucket.changed = false);
        }
        Ok(messages)
    }
}

/// The hashes of an index file; the text says what is wrong.
pub(crate) fn decode(bytes: &[u8]) -> Result<impl Iterator<Item = i32> + '_, String> {
    let (hashes, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(format!(
            "{} bytes are no hashes of 4 bytes each",
            bytes.len()
        ));
    }
    Ok(hashes.iter().map(|hash| i32::from_be_bytes(*hash)))
}

#[cfg(test)]
mod tests;
