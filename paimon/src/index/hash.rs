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
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    data_file_meta::CommitMessage,
    error::{Error, Result},
    index_manifest::{HASH_INDEX, IndexFileMeta, IndexManifestEntry},
    schema::Schema,
    storage,
    table::Table,
    table_options::TableOptions,
};

mod foreign;
mod known;

use known::KnownHashes;

/// Bytes of hashes that are kept in memory, at most, where nobody says.
const MEMORY_MAX: usize = 1 << 30;
/// Buckets of a partition, at most.
const BUCKETS_MAX: i32 = i16::MAX as i32;

#[derive(Debug, Default)]
struct BucketIndex {
    rows: u64,
    /// What stands in the newest index manifest, or will once the last flush is committed.
    file: Option<IndexFileMeta>,
    changed: bool,
}

#[derive(Debug, Default)]
struct PartitionIndex {
    bucket_of: KnownHashes,
    buckets: BTreeMap<i16, BucketIndex>,
    /// Buckets below have no room.
    open: i16,
    /// Number of the load or flush that last used it.
    used: u64,
    /// Rows were placed since the last commit was prepared.
    placed: bool,
    /// Its part of what is counted in [`IndexMemory`].
    counted_bytes: usize,
}

/// Memory for the indexes of several tables.
#[derive(Debug)]
pub struct IndexMemory {
    max_bytes: usize,
    used_bytes: AtomicUsize,
}

impl IndexMemory {
    /// So many bytes for all of them.
    pub fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            used_bytes: AtomicUsize::new(0),
        })
    }

    fn is_over(&self) -> bool {
        self.used_bytes.load(Ordering::Relaxed) > self.max_bytes
    }
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
        self.placed = true;
        if let Some(bucket) = self.bucket_of.get(hash) {
            return Some(bucket);
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
        self.add(hash, bucket);
        Some(bucket)
    }

    /// Takes in a hash that is not known.
    fn add(&mut self, hash: i32, bucket: i16) {
        self.bucket_of.insert(hash, bucket);
        let index = self.buckets.entry(bucket).or_default();
        index.rows += 1;
        index.changed = true;
    }
}

/// Finds the buckets of keys in a table with dynamic buckets (`bucket = -1` and a primary key).
/// Reads the index of a partition when its first row comes; keeps about 5 bytes a key of the
/// partitions in use (up to 21 while they are few), within an [`IndexMemory`], and lets go of
/// partitions whose changes are committed.
#[derive(Debug)]
pub struct DynamicBucketAssigner {
    table: Table,
    limits: Limits,
    partitions: HashMap<Vec<u8>, PartitionIndex>,
    memory: Arc<IndexMemory>,
    round: u64,
}

impl DynamicBucketAssigner {
    /// For a table, with 1 GiB of memory of its own; nothing is read.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables with other buckets, and where a key may move to another
    /// partition.
    pub fn new(table: &Table) -> Result<Self> {
        Self::within(table, IndexMemory::new(MEMORY_MAX))
    }

    /// As [`new`](Self::new), within memory that it shares with others.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn within(table: &Table, memory: Arc<IndexMemory>) -> Result<Self> {
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
            memory,
            round: 0,
        })
    }

    /// Bytes of memory that the known hashes take, about.
    pub fn memory_bytes(&self) -> usize {
        let hashes = self.partitions.values();
        hashes.map(|it| it.bucket_of.memory_bytes()).sum()
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
                index.count(&self.memory);
            }
        }
        let missing: Vec<&Vec<u8>> = partitions
            .iter()
            .filter(|partition| !self.partitions.contains_key(*partition))
            .collect();
        if missing.is_empty() && !self.memory.is_over() {
            return Ok(());
        }
        let files = self.files().await?;
        for partition in missing {
            let mut index = PartitionIndex {
                used: self.round,
                ..PartitionIndex::default()
            };
            for entry in of_partition(&files, partition) {
                self.read(entry, &mut index).await?;
            }
            index.count(&self.memory);
            self.partitions.insert(partition.clone(), index);
            self.make_room(&files)?;
        }
        self.make_room(&files)
    }

    /// The index files of the newest snapshot.
    async fn files(&self) -> Result<Vec<IndexManifestEntry>> {
        let table = &self.table;
        let files = table.at_newest(|snapshot| async move { table.index_files(&snapshot).await });
        Ok(files.await?.unwrap_or_default())
    }

    async fn read(&self, entry: &IndexManifestEntry, index: &mut PartitionIndex) -> Result<()> {
        let (bucket, hashes) = self.read_file(entry).await?;
        let rows = hashes.len() as u64;
        for hash in hashes {
            if index.bucket_of.get(hash).is_none() {
                index.bucket_of.insert(hash, bucket);
            }
        }
        index.buckets.insert(
            bucket,
            BucketIndex {
                rows,
                file: Some(entry.index_file.clone()),
                changed: false,
            },
        );
        Ok(())
    }

    /// The hashes of an index file, and its bucket.
    async fn read_file(&self, entry: &IndexManifestEntry) -> Result<(i16, Vec<i32>)> {
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
        let hashes = decode(&bytes).map_err(damaged)?.collect();
        Ok((bucket, hashes))
    }

    /// Lets go of the partitions that were used longest ago and are committed.
    fn make_room(&mut self, committed: &[IndexManifestEntry]) -> Result<()> {
        while self.memory.is_over() {
            let is_committed = |partition: &[u8], index: &PartitionIndex| {
                !index.placed
                    && index.buckets.iter().all(|(bucket, state)| {
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
            let gone = oldest.and_then(|oldest| self.partitions.remove(&oldest));
            let Some(gone) = gone else {
                return Err(Error::Table {
                    table: self.table.name().to_owned(),
                    message: format!(
                        "the keys of its dynamic buckets (bucket = -1), about 5 bytes each, take \
                         more than the {} MiB of memory that there are for them: give the job more \
                         memory, write fewer partitions at a time, or use fixed buckets",
                        self.memory.max_bytes >> 20
                    ),
                });
            };
            let used = &self.memory.used_bytes;
            used.fetch_sub(gone.counted_bytes, Ordering::Relaxed);
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
    /// rows visible: one message a bucket, and for each partition that rows were placed in what the
    /// commit must find ([`CommitMessage::known_index_files`]).
    ///
    /// # Errors
    /// What the store says; then it may be called again.
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        let id = uuid::Uuid::new_v4();
        let mut files = Vec::new();
        for (partition, index) in self.partitions.iter().filter(|(_, index)| index.placed) {
            for (bucket, bytes) in index.changed_hashes() {
                let file = IndexFileMeta {
                    index_type: HASH_INDEX.into(),
                    file_name: format!("index-{id}-{}", files.len()),
                    file_size: bytes.len() as i64,
                    row_count: bytes.len() as i64 / 4,
                    dv_ranges: None,
                    external_path: None,
                };
                let path = self.table.index_file_path(&file)?;
                storage::put(self.table.store().as_ref(), &path, bytes).await?;
                files.push((partition.clone(), bucket, file));
            }
        }
        let mut files = files.into_iter().peekable();
        let mut messages = Vec::new();
        for (partition, index) in self.partitions.iter_mut().filter(|(_, index)| index.placed) {
            let message = || CommitMessage {
                partition: partition.clone(),
                total_buckets: -1,
                ..CommitMessage::default()
            };
            let mut known = Some(index.known_files());
            while let Some((_, bucket, file)) = files.next_if(|(of, _, _)| of == partition) {
                let state = index.buckets.entry(bucket).or_default();
                state.changed = false;
                messages.push(CommitMessage {
                    bucket: bucket.into(),
                    deleted_index_files: state.file.replace(file.clone()).into_iter().collect(),
                    new_index_files: vec![file],
                    known_index_files: known.take(),
                    ..message()
                });
            }
            if known.is_some() {
                messages.push(CommitMessage {
                    known_index_files: known,
                    ..message()
                });
            }
            index.placed = false;
            index.count(&self.memory);
        }
        Ok(messages)
    }
}

impl Drop for DynamicBucketAssigner {
    fn drop(&mut self) {
        let counted = self.partitions.values().map(|index| index.counted_bytes);
        let used = &self.memory.used_bytes;
        used.fetch_sub(counted.sum::<usize>(), Ordering::Relaxed);
    }
}

impl PartitionIndex {
    /// Tells the memory what it takes now.
    fn count(&mut self, memory: &IndexMemory) {
        let now = self.bucket_of.memory_bytes();
        let before = std::mem::replace(&mut self.counted_bytes, now);
        let used = &memory.used_bytes;
        match now >= before {
            true => used.fetch_add(now - before, Ordering::Relaxed),
            false => used.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    /// Index files by bucket, as they are committed or prepared.
    fn known_files(&self) -> Vec<(i32, String)> {
        let files = self.buckets.iter();
        files
            .filter_map(|(bucket, state)| {
                Some((i32::from(*bucket), state.file.as_ref()?.file_name.clone()))
            })
            .collect()
    }

    /// The hashes of each bucket that has new ones, as its file holds them.
    fn changed_hashes(&self) -> BTreeMap<i16, Vec<u8>> {
        let changed = self.buckets.iter().filter(|(_, bucket)| bucket.changed);
        let mut hashes: BTreeMap<i16, Vec<u8>> = changed
            .map(|(bucket, state)| (*bucket, Vec::with_capacity(state.rows as usize * 4)))
            .collect();
        if !hashes.is_empty() {
            self.bucket_of.for_each(|hash, bucket| {
                if let Some(bytes) = hashes.get_mut(&bucket) {
                    bytes.extend(hash.to_be_bytes());
                }
            });
        }
        hashes
    }
}

/// Files of hashes of one partition.
fn of_partition<'a>(
    files: &'a [IndexManifestEntry],
    partition: &'a [u8],
) -> impl Iterator<Item = &'a IndexManifestEntry> {
    files
        .iter()
        .filter(move |it| it.partition == partition && it.index_file.index_type == HASH_INDEX)
}

/// One [`DynamicBucketAssigner`] for all writers of a table: rows of a snapshot, and changes beside
/// them. What is shared is prepared once for a commit, when all writers whose files the commit has
/// are done; a key whose rows are in no commit yet may stand in the index already.
#[derive(Debug, Clone)]
pub struct SharedBuckets(Arc<Mutex<DynamicBucketAssigner>>);

impl SharedBuckets {
    /// Shares an assigner.
    pub fn new(assigner: DynamicBucketAssigner) -> Self {
        Self(Arc::new(Mutex::new(assigner)))
    }

    /// As [`DynamicBucketAssigner::prepare`], for a commit with rows of these partitions, whenever
    /// they were placed; what was prepared before must be committed. Keys that another writer has
    /// added since the index was read are taken in first.
    ///
    /// # Errors
    /// As [`DynamicBucketAssigner::prepare`]; [`Error::Conflict`] when another writer has put a key
    /// into another bucket: then this and all rows that it placed since the last commit are to be
    /// given up, and a new one reads the index as it is now.
    pub async fn prepare(&self, partitions: &[Vec<u8>]) -> Result<Vec<CommitMessage>> {
        let mut assigner = self.0.lock().await;
        assigner.load(partitions).await?;
        for partition in partitions {
            if let Some(index) = assigner.partitions.get_mut(partition) {
                index.placed = true;
            }
        }
        assigner.take_in_foreign_keys().await?;
        assigner.prepare().await
    }

    pub(crate) async fn lock(&self) -> OwnedMutexGuard<DynamicBucketAssigner> {
        self.0.clone().lock_owned().await
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
