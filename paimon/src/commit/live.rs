//! The files that make up a snapshot.

use std::collections::HashMap;

use crate::{
    data_file_meta::DataFileMeta,
    error::Result,
    manifest::{FileKind, ManifestEntry},
    manifest_list::ManifestFileMeta,
    snapshot::PaimonSnapshot,
    table::Table,
};

/// A file that belongs to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveFile {
    /// Partition, a serialized BinaryRow (with the arity prefix).
    pub partition: Vec<u8>,
    /// Bucket.
    pub bucket: i32,
    /// Buckets of the partition when it was written.
    pub total_buckets: i32,
    /// The file.
    pub meta: DataFileMeta,
}

/// Folds entries to the files that stay, in the order in which they were added.
#[derive(Default)]
struct Live {
    files: Vec<Option<LiveFile>>,
    at: HashMap<(Vec<u8>, i32, i32, String), usize>,
}

impl Live {
    fn apply(&mut self, entry: ManifestEntry) {
        let id = (
            entry.partition.clone(),
            entry.bucket,
            entry.file.level,
            entry.file.file_name.clone(),
        );
        match entry.kind {
            FileKind::Add => {
                self.at.insert(id, self.files.len());
                self.files.push(Some(LiveFile {
                    partition: entry.partition,
                    bucket: entry.bucket,
                    total_buckets: entry.total_buckets,
                    meta: entry.file,
                }));
            }
            FileKind::Delete => {
                if let Some(file) = self.at.remove(&id).and_then(|at| self.files.get_mut(at)) {
                    *file = None;
                }
            }
        }
    }
}

impl Table {
    /// All manifests of a snapshot, in order.
    pub(crate) async fn manifests(
        &self,
        snapshot: &PaimonSnapshot,
    ) -> Result<Vec<ManifestFileMeta>> {
        let (mut manifests, delta) = futures::try_join!(
            self.read_manifest_list(&snapshot.base_manifest_list),
            self.read_manifest_list(&snapshot.delta_manifest_list),
        )?;
        manifests.extend(delta);
        Ok(manifests)
    }

    /// The files of a snapshot, in the order in which they were added.
    pub async fn live_files(&self, snapshot: &PaimonSnapshot) -> Result<Vec<LiveFile>> {
        let manifests = self.manifests(snapshot).await?;
        let mut live = Live::default();
        self.for_each_manifest(&manifests, |entries| {
            entries.into_iter().for_each(|entry| live.apply(entry));
        })
        .await?;
        Ok(live.files.into_iter().flatten().collect())
    }

    /// The files of the newest snapshot, in the order in which they were added; none while there
    /// is no snapshot.
    pub async fn newest_files(&self) -> Result<Vec<LiveFile>> {
        let files = self.at_newest(|snapshot| async move { self.live_files(&snapshot).await });
        Ok(files.await?.unwrap_or_default())
    }

    /// Greatest sequence number in the newest snapshot; `None` while the table is empty.
    pub async fn max_sequence_number(&self) -> Result<Option<i64>> {
        let files = self.newest_files().await?;
        Ok(files.iter().map(|file| file.meta.max_sequence_number).max())
    }
}
