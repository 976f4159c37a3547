//! Index files of a snapshot to be: those of the one before, with what a commit changes.
//!
//! Source: `org.apache.paimon.manifest.IndexManifestFileHandler`. It lets a new index file of a
//! bucket replace whatever stands there; here that must be named, or another writer's is lost.

use std::collections::BTreeSet;

use crate::{
    error::Result,
    index_manifest::{DELETION_VECTORS_INDEX, HASH_INDEX, IndexManifestEntry},
    manifest::FileKind,
    schema::Schema,
    snapshot::PaimonSnapshot,
    table::Table,
};

#[derive(Debug)]
pub(super) struct IndexFiles {
    entries: Vec<IndexManifestEntry>,
    /// Each bucket has at most one file of deletion vectors.
    one_a_bucket: bool,
    changed: bool,
}

impl IndexFiles {
    pub(super) fn new(schema: &Schema, entries: Vec<IndexManifestEntry>) -> Self {
        Self {
            entries,
            one_a_bucket: !(schema.primary_keys.is_empty() && schema.buckets() == -1),
            changed: false,
        }
    }

    /// Takes in changes, all or none; the text says why they do not fit.
    pub(super) fn apply(&mut self, changes: &[IndexManifestEntry]) -> Result<(), String> {
        if !changes.is_empty() {
            self.entries = self.fit(changes)?;
            self.changed = true;
        }
        Ok(())
    }

    /// What there is after changes; the text says why they do not fit.
    pub(super) fn fit(
        &self,
        changes: &[IndexManifestEntry],
    ) -> Result<Vec<IndexManifestEntry>, String> {
        let mut entries = self.entries.clone();
        let is = |a: &IndexManifestEntry, b: &IndexManifestEntry| {
            a.bucket == b.bucket
                && a.partition == b.partition
                && a.index_file.index_type == b.index_file.index_type
        };
        for gone in changes.iter().filter(|it| it.kind == FileKind::Delete) {
            let before = entries.len();
            entries.retain(|entry| {
                !is(entry, gone) || entry.index_file.file_name != gone.index_file.file_name
            });
            if entries.len() == before {
                return Err(format!(
                    "index file {} of bucket {} is gone",
                    gone.index_file.file_name, gone.bucket
                ));
            }
        }
        for new in changes.iter().filter(|it| it.kind == FileKind::Add) {
            let index_type = new.index_file.index_type.as_str();
            let alone = index_type == HASH_INDEX
                || index_type == DELETION_VECTORS_INDEX && self.one_a_bucket;
            if let Some(other) = entries.iter().find(|entry| is(entry, new))
                && alone
            {
                return Err(format!(
                    "bucket {} has index file {} already, which this commit does not know",
                    new.bucket, other.index_file.file_name
                ));
            }
            entries.push(new.clone());
        }
        Ok(entries)
    }

    /// Names of a partition's files of deletion vectors.
    pub(super) fn vectors_of(&self, partition: &[u8]) -> BTreeSet<String> {
        let own = self.entries.iter().filter(|entry| {
            entry.partition == partition && entry.index_file.index_type == DELETION_VECTORS_INDEX
        });
        own.map(|entry| entry.index_file.file_name.clone())
            .collect()
    }

    /// Whether the files of hashes of a partition are those that a commit knows; the text says why
    /// not.
    pub(super) fn check_known(
        &self,
        partition: &[u8],
        known: &[(i32, String)],
    ) -> Result<(), String> {
        let is_hashes = |entry: &&IndexManifestEntry| {
            entry.partition == partition && entry.index_file.index_type == HASH_INDEX
        };
        let mut there = 0;
        for entry in self.entries.iter().filter(is_hashes) {
            there += 1;
            let name = &entry.index_file.file_name;
            let is_known =
                |(bucket, known): &(i32, String)| *bucket == entry.bucket && known == name;
            if !known.iter().any(is_known) {
                return Err(format!(
                    "index file {name} of bucket {} is new to this commit",
                    entry.bucket
                ));
            }
        }
        match there == known.len() {
            true => Ok(()),
            false => Err(format!(
                "{} index files of a partition are there and not {}",
                there,
                known.len()
            )),
        }
    }

    /// Leaves out those of some partitions.
    pub(super) fn retain(&mut self, stays: impl Fn(&[u8]) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|entry| stays(&entry.partition));
        self.changed |= self.entries.len() != before;
    }

    pub(super) fn into_changed(self) -> Option<Vec<IndexManifestEntry>> {
        self.changed.then_some(self.entries)
    }
}

impl Table {
    /// The index files of a snapshot.
    ///
    /// # Errors
    /// What the store says, and [`Error::Corrupt`](crate::Error::Corrupt).
    pub async fn index_files(&self, snapshot: &PaimonSnapshot) -> Result<Vec<IndexManifestEntry>> {
        let Some(name) = &snapshot.index_manifest else {
            return Ok(Vec::new());
        };
        let path = self.manifest_path(name);
        let bytes = crate::storage::read(self.store().as_ref(), &path).await?;
        let mut entries = crate::index_manifest::decode(path.as_ref(), &bytes)?;
        entries.retain(|entry| entry.kind == FileKind::Add);
        Ok(entries)
    }
}
