//! Keys that another writer has added since the index was read.
//!
//! One writer at a time is what the format asks for. Where there is another one all the same, its
//! keys are taken in, as long as no key is in one bucket here and in another there.

use std::collections::BTreeMap;

use super::{DynamicBucketAssigner, IndexManifestEntry, PartitionIndex, of_partition};
use crate::{
    data_file_meta::CommitMessage,
    error::{Error, Result},
    index_manifest::{HASH_INDEX, IndexFileMeta},
    manifest::FileKind,
    storage,
    table::Table,
};

impl DynamicBucketAssigner {
    /// Brings the partitions with rows that wait for their commit up to the newest snapshot.
    pub(super) async fn take_in_foreign_keys(&mut self) -> Result<()> {
        if !self.partitions.values().any(|index| index.placed) {
            return Ok(());
        }
        let files = self.files().await?;
        let mut changed = Vec::new();
        for (partition, index) in &self.partitions {
            let theirs = of_partition(&files, partition);
            let theirs: Vec<(i32, String)> = theirs
                .map(|entry| (entry.bucket, entry.index_file.file_name.clone()))
                .collect();
            if index.placed && !is_same(theirs, index.known_files()) {
                changed.push(partition.clone());
            }
        }
        for partition in changed {
            let Some(mut index) = self.partitions.remove(&partition) else {
                continue;
            };
            let merged = self.merge(&files, &partition, &mut index).await;
            self.partitions.insert(partition, index);
            merged?;
        }
        Ok(())
    }

    /// Takes the files of a partition for what is committed, and their keys in.
    async fn merge(
        &self,
        files: &[IndexManifestEntry],
        partition: &[u8],
        index: &mut PartitionIndex,
    ) -> Result<()> {
        tracing::info!(
            table = self.table.name(),
            "another writer has changed the index of its dynamic buckets: its keys are taken in"
        );
        for state in index.buckets.values_mut() {
            let is_there = of_partition(files, partition)
                .any(|entry| Some(&entry.index_file) == state.file.as_ref());
            if !is_there {
                // Its keys go into a file again, with those that are there now.
                state.changed |= state.file.take().is_some();
            }
        }
        for entry in of_partition(files, partition) {
            let known = i16::try_from(entry.bucket)
                .ok()
                .and_then(|bucket| index.buckets.get(&bucket));
            if known.is_some_and(|state| state.file.as_ref() == Some(&entry.index_file)) {
                continue;
            }
            let (bucket, hashes) = self.read_file(entry).await?;
            for hash in hashes {
                match index.bucket_of.get(hash) {
                    None => index.add(hash, bucket),
                    Some(ours) if ours == bucket => {}
                    Some(ours) => {
                        return Err(Error::Conflict {
                            table: self.table.name().to_owned(),
                            message: format!(
                                "another writer put a key into bucket {bucket} that is in bucket \
                                 {ours} here: of a table with dynamic buckets (bucket = -1) there \
                                 may be one writer at a time"
                            ),
                        });
                    }
                }
            }
            let state = index.buckets.entry(bucket).or_default();
            state.file = Some(entry.index_file.clone());
        }
        Ok(())
    }
}

fn is_same(mut theirs: Vec<(i32, String)>, mut ours: Vec<(i32, String)>) -> bool {
    theirs.sort_unstable();
    ours.sort_unstable();
    theirs == ours
}

impl Table {
    /// Messages with index files for the newest snapshot in the place of those that were prepared
    /// for an older one, which another writer has changed meanwhile. Data files stay as they are.
    ///
    /// # Errors
    /// [`Error::Conflict`] when a key of these messages is in another bucket now; what the store
    /// says, also when the files that the messages were prepared with have been deleted.
    pub async fn prepare_index_again(
        &self,
        messages: &[CommitMessage],
    ) -> Result<Vec<CommitMessage>> {
        // By partition and bucket: the files as the messages leave them.
        let mut prepared: BTreeMap<(&[u8], i32), String> = BTreeMap::new();
        for message in messages {
            for (bucket, name) in message.known_index_files.iter().flatten() {
                prepared.insert((&message.partition, *bucket), name.clone());
            }
        }
        for message in messages {
            for file in of_hashes(&message.new_index_files) {
                prepared.insert((&message.partition, message.bucket), file.file_name.clone());
            }
        }
        let mut assigner = DynamicBucketAssigner::new(self)?;
        let entries = prepared.into_iter().map(|((partition, bucket), name)| {
            IndexManifestEntry {
                kind: FileKind::Add,
                partition: partition.to_vec(),
                bucket,
                index_file: IndexFileMeta {
                    index_type: HASH_INDEX.into(),
                    file_name: name,
                    // Only the name is looked at.
                    file_size: 0,
                    row_count: 0,
                    dv_ranges: None,
                    external_path: None,
                },
            }
        });
        let entries: Vec<IndexManifestEntry> = entries.collect();
        for entry in &entries {
            if assigner.partitions.contains_key(&entry.partition) {
                continue;
            }
            let mut index = PartitionIndex {
                placed: true,
                ..PartitionIndex::default()
            };
            for entry in of_partition(&entries, &entry.partition) {
                let path = self.index_file_path(&entry.index_file)?;
                if !storage::exists(self.store().as_ref(), &path).await? {
                    return Err(Error::Conflict {
                        table: self.name().to_owned(),
                        message: format!(
                            "another writer changed the index of its dynamic buckets, and {path}, \
                             which this commit was prepared with, is gone"
                        ),
                    });
                }
                assigner.read(entry, &mut index).await?;
            }
            // Not as they are in the table: all that is known is compared with what is there.
            for state in index.buckets.values_mut() {
                state.changed = true;
            }
            assigner.partitions.insert(entry.partition.clone(), index);
        }
        assigner.take_in_foreign_keys().await?;
        let again = assigner.prepare().await?;
        let kept = messages.iter().map(|message| {
            let mut message = message.clone();
            message.known_index_files = None;
            message
                .new_index_files
                .retain(|file| file.index_type != HASH_INDEX);
            message
                .deleted_index_files
                .retain(|file| file.index_type != HASH_INDEX);
            message
        });
        Ok(kept.chain(again).collect())
    }
}

fn of_hashes(files: &[IndexFileMeta]) -> impl Iterator<Item = &IndexFileMeta> {
    files.iter().filter(|file| file.index_type == HASH_INDEX)
}
