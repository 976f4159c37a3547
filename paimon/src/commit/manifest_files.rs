//! Manifests and manifest lists in the store: how a snapshot's are read and a commit's written.

use std::sync::Arc;

use futures::future::try_join_all;
use object_store::path::Path;

use crate::{
    error::{Error, Result},
    manifest::{self, FileKind, ManifestEntry},
    manifest_list::{self, ManifestFileMeta},
    partition, storage,
    table::Table,
};

use super::names::Names;

/// Manifests that are read at once.
const READS_MAX: usize = 8;

/// Bytes of a manifest from which decoding it would keep others from this thread for too long.
const BLOCKING_BYTES: usize = 64 << 10;
/// The same for encoding, in entries.
const BLOCKING_ENTRIES: usize = 1000;

/// Computes on a thread that may block.
async fn aside<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(compute)
        .await
        .map_err(|error| Error::Internal(error.to_string()))?
}

/// A file of metadata that this commit has written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) size: i64,
}

impl Table {
    pub(crate) fn manifest_path(&self, name: &str) -> Path {
        self.path().clone().join("manifest").join(name)
    }

    /// Where an index file stands.
    pub(crate) fn index_path(&self, name: &str) -> Path {
        self.path().clone().join("index").join(name)
    }

    pub(crate) async fn read_manifest_list(&self, name: &str) -> Result<Vec<ManifestFileMeta>> {
        let path = self.manifest_path(name);
        let bytes = storage::read(self.store().as_ref(), &path).await?;
        manifest_list::decode(path.as_ref(), &bytes)
    }

    pub(crate) async fn read_manifest(&self, name: &str) -> Result<Vec<ManifestEntry>> {
        let path = self.manifest_path(name);
        let bytes = storage::read(self.store().as_ref(), &path).await?;
        if bytes.len() < BLOCKING_BYTES {
            return manifest::decode(path.as_ref(), &bytes);
        }
        aside(move || manifest::decode(path.as_ref(), &bytes)).await
    }

    /// Hands every entry of these manifests on, in order, a manifest at a time.
    pub(crate) async fn for_each_manifest(
        &self,
        manifests: &[ManifestFileMeta],
        mut visit: impl FnMut(Vec<ManifestEntry>),
    ) -> Result<()> {
        for some in manifests.chunks(READS_MAX) {
            let reads = some.iter().map(|meta| self.read_manifest(&meta.file_name));
            try_join_all(reads).await?.into_iter().for_each(&mut visit);
        }
        Ok(())
    }

    /// Writes entries as manifests of about `target_size` bytes.
    pub(super) async fn write_manifests(
        &self,
        names: &mut Names,
        entries: &Arc<Vec<ManifestEntry>>,
        target_size: usize,
        schema_id: i64,
    ) -> Result<Vec<ManifestFileMeta>> {
        let encoded = if entries.len() < BLOCKING_ENTRIES {
            manifest::encode(entries, target_size)?
        } else {
            let entries = entries.clone();
            aside(move || manifest::encode(&entries, target_size)).await?
        };
        let mut rest = entries.as_slice();
        let mut metas = Vec::new();
        for encoded in encoded {
            let (these, others) = rest
                .split_at_checked(encoded.entries)
                .ok_or_else(|| Error::Internal("more manifest entries than were given".into()))?;
            rest = others;
            let name = names.manifest();
            metas.push(self.describe(&name, encoded.bytes.len(), these, schema_id)?);
            storage::put(
                self.store().as_ref(),
                &self.manifest_path(&name),
                encoded.bytes,
            )
            .await?;
        }
        Ok(metas)
    }

    fn describe(
        &self,
        name: &str,
        size: usize,
        entries: &[ManifestEntry],
        schema_id: i64,
    ) -> Result<ManifestFileMeta> {
        let of_kind =
            |kind: FileKind| entries.iter().filter(|entry| entry.kind == kind).count() as i64;
        Ok(ManifestFileMeta {
            file_name: name.to_owned(),
            file_size: size as i64,
            num_added_files: of_kind(FileKind::Add),
            num_deleted_files: of_kind(FileKind::Delete),
            partition_stats: partition::stats(
                self.schema(),
                entries.iter().map(|entry| entry.partition.as_slice()),
            )?,
            schema_id,
            min_bucket: entries.iter().map(|entry| entry.bucket).min(),
            max_bucket: entries.iter().map(|entry| entry.bucket).max(),
            min_level: entries.iter().map(|entry| entry.file.level).min(),
            max_level: entries.iter().map(|entry| entry.file.level).max(),
            min_row_id: None,
            max_row_id: None,
        })
    }

    pub(super) async fn write_manifest_list(
        &self,
        name: String,
        manifests: &[ManifestFileMeta],
    ) -> Result<Written> {
        let bytes = manifest_list::encode(manifests)?;
        let size = bytes.len() as i64;
        storage::put(self.store().as_ref(), &self.manifest_path(&name), bytes).await?;
        Ok(Written { name, size })
    }
}
