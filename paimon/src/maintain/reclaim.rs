//! Finds out which files nobody needs any more, and deletes them, what is named last by what names
//! it: data files, then manifests, then lists. Who is killed in between finds everything that is
//! left by starting again.
//!
//! Source: `org.apache.paimon.operation.FileDeletionBase`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;

use crate::{
    data_file_meta::DataFileMeta,
    error::{Error, Result},
    index_manifest::{self, IndexManifestEntry},
    manifest::{self, FileKind, ManifestEntry},
    manifest_list::{self, ManifestFileMeta},
    partition::segment,
    snapshot::PaimonSnapshot,
    storage,
    table::Table,
};

use super::lineage::Root;

/// Deletes that are under way at once.
const DELETES_MAX: usize = 16;
/// Bytes of a manifest from which decoding it would keep others from this thread for too long.
const BLOCKING_BYTES: usize = 64 << 10;

/// A manifest list; `None` when it is gone.
pub(super) async fn list(table: &Table, name: &str) -> Result<Option<Vec<ManifestFileMeta>>> {
    let path = table.manifest_path(name);
    match storage::get(table.store().as_ref(), &path).await? {
        Some(bytes) => manifest_list::decode(path.as_ref(), &bytes).map(Some),
        None => Ok(None),
    }
}

/// A manifest; `None` when it is gone.
pub(super) async fn entries(table: &Table, name: &str) -> Result<Option<Vec<ManifestEntry>>> {
    let path = table.manifest_path(name);
    let Some(bytes) = storage::get(table.store().as_ref(), &path).await? else {
        return Ok(None);
    };
    if bytes.len() < BLOCKING_BYTES {
        return manifest::decode(path.as_ref(), &bytes).map(Some);
    }
    tokio::task::spawn_blocking(move || manifest::decode(path.as_ref(), &bytes))
        .await
        .map_err(|error| Error::Internal(error.to_string()))?
        .map(Some)
}

/// An index manifest; `None` when it is gone.
pub(super) async fn index_entries(
    table: &Table,
    name: &str,
) -> Result<Option<Vec<IndexManifestEntry>>> {
    let path = table.manifest_path(name);
    match storage::get(table.store().as_ref(), &path).await? {
        Some(bytes) => index_manifest::decode(path.as_ref(), &bytes).map(Some),
        None => Ok(None),
    }
}

/// Where an index file stands; `None` when outside of the table.
pub(super) fn index_path(table: &Table, entry: &IndexManifestEntry) -> Result<Option<Path>> {
    if entry.index_file.external_path.is_some() {
        return Ok(None);
    }
    let beside = table.schema().options.get("index-file-in-data-file-dir");
    let folder = if beside.is_some_and(|flag| flag.eq_ignore_ascii_case("true")) {
        table.bucket_path(&entry.partition, entry.bucket)?
    } else {
        table.path().clone().join("index")
    };
    segment(folder, &entry.index_file.file_name).map(Some)
}

pub(super) fn statistics_path(table: &Table, name: &str) -> Result<Path> {
    segment(table.path().clone().join("statistics"), name)
}

/// A data file that may go, with the files that belong to it.
#[derive(Debug)]
struct Candidate {
    paths: Vec<Path>,
    bytes: i64,
    folder: Path,
}

/// Data files that may go unless somebody needs them.
#[derive(Debug, Default)]
pub(super) struct DataFiles {
    files: HashMap<String, Candidate>,
}

impl DataFiles {
    /// A file outside of the table's folder is left alone.
    pub(super) fn add(&mut self, table: &Table, entry: &ManifestEntry) -> Result<()> {
        self.add_file(table, &entry.partition, entry.bucket, &entry.file)
    }

    pub(super) fn add_file(
        &mut self,
        table: &Table,
        partition: &[u8],
        bucket: i32,
        file: &DataFileMeta,
    ) -> Result<()> {
        if file.external_path.is_some() {
            return Ok(());
        }
        let folder = table.bucket_path(partition, bucket)?;
        let names = std::iter::once(&file.file_name).chain(&file.extra_files);
        let paths = names
            .map(|name| segment(folder.clone(), name))
            .collect::<Result<_>>()?;
        let candidate = Candidate {
            paths,
            bytes: file.file_size,
            folder,
        };
        self.files.insert(file.file_name.clone(), candidate);
        Ok(())
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// What a delta takes away: files that are only moved to another level stay. Manifests that
    /// are gone were read by a former try, which deleted these files first.
    pub(super) async fn add_deleted(
        &mut self,
        table: &Table,
        delta_list: &str,
        keep: impl Fn(&ManifestEntry) -> bool,
    ) -> Result<()> {
        // Deletes minus adds, and the last delete: an upgrade has one of each.
        let mut balance: HashMap<String, (i32, Option<ManifestEntry>)> = HashMap::new();
        for meta in list(table, delta_list).await?.unwrap_or_default() {
            for entry in entries(table, &meta.file_name).await?.unwrap_or_default() {
                let file = balance.entry(entry.file.file_name.clone()).or_default();
                match entry.kind {
                    FileKind::Delete => *file = (file.0 + 1, Some(entry)),
                    FileKind::Add => file.0 -= 1,
                }
            }
        }
        for (deletes, entry) in balance.into_values() {
            if let Some(entry) = entry.filter(|entry| deletes > 0 && !keep(entry)) {
                self.add(table, &entry)?;
            }
        }
        Ok(())
    }

    /// Files that a list adds.
    pub(super) async fn add_added(&mut self, table: &Table, list_name: &str) -> Result<()> {
        for meta in list(table, list_name).await?.unwrap_or_default() {
            for entry in entries(table, &meta.file_name).await?.unwrap_or_default() {
                if entry.kind == FileKind::Add {
                    self.add(table, &entry)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps what these roots need. Each manifest is read once, and only what it says of the
    /// candidates is remembered.
    pub(super) async fn spare(&mut self, table: &Table, roots: &[Root]) -> Result<()> {
        let mut memo: HashMap<String, Vec<Mention>> = HashMap::new();
        for root in roots {
            if self.is_empty() {
                return Ok(());
            }
            let Some(needed) = self.needed(table, root, &mut memo).await? else {
                if storage::exists(table.store().as_ref(), &root.path).await? {
                    return Err(Error::Corrupt {
                        path: root.path.to_string(),
                        message: "manifests that it names are not there, so that nothing can be \
                                  said about the files it needs; nothing was deleted. Delete it, \
                                  or expire it"
                            .into(),
                    });
                }
                continue;
            };
            self.files.retain(|name, _| !needed.contains(name));
        }
        Ok(())
    }

    /// Candidates that a root needs; `None` when its manifests are gone.
    async fn needed(
        &self,
        table: &Table,
        root: &Root,
        memo: &mut HashMap<String, Vec<Mention>>,
    ) -> Result<Option<HashSet<String>>> {
        let snapshot = &root.snapshot;
        let mut live: HashSet<(&str, i32)> = HashSet::new();
        let mut names = Vec::new();
        let changelog = snapshot.changelog_manifest_list.as_deref();
        let changelog = changelog.filter(|_| root.keeps_changelog);
        for list_name in [
            Some(snapshot.base_manifest_list.as_str()).filter(|_| !root.changelog_only),
            Some(snapshot.delta_manifest_list.as_str()),
            changelog,
        ]
        .into_iter()
        .flatten()
        {
            match list(table, list_name).await? {
                Some(metas) => names.extend(metas.into_iter().map(|meta| meta.file_name)),
                // A branch may begin at a tag whose changelog is gone.
                None if root.changelog_only || Some(list_name) == changelog => {}
                None => return Ok(None),
            }
        }
        for name in &names {
            if !memo.contains_key(name) {
                let Some(all) = entries(table, name).await? else {
                    if root.changelog_only {
                        continue;
                    }
                    return Ok(None);
                };
                let mentions = all
                    .into_iter()
                    .filter(|entry| self.files.contains_key(&entry.file.file_name))
                    .map(|entry| (entry.kind, entry.file.file_name, entry.file.level));
                memo.insert(name.clone(), mentions.collect());
            }
        }
        for (kind, name, level) in names.iter().filter_map(|name| memo.get(name)).flatten() {
            match kind {
                FileKind::Add => live.insert((name, *level)),
                FileKind::Delete if !root.changelog_only => live.remove(&(name.as_str(), *level)),
                FileKind::Delete => false,
            };
        }
        Ok(Some(
            live.into_iter().map(|(name, _)| name.to_owned()).collect(),
        ))
    }

    /// Deletes them, and the folders that became empty when asked.
    pub(super) async fn delete(self, table: &Table, empty_folders: bool) -> Result<Deleted> {
        let deleted = Deleted {
            files: self.files.len(),
            bytes: self.files.values().map(|file| file.bytes).sum(),
        };
        let folders: BTreeSet<Path> = match empty_folders {
            true => self
                .files
                .values()
                .map(|file| file.folder.clone())
                .collect(),
            false => BTreeSet::new(),
        };
        delete_all(table, self.files.into_values().flat_map(|file| file.paths)).await?;
        for folder in folders {
            remove_empty(table, folder).await;
        }
        Ok(deleted)
    }
}

type Mention = (FileKind, String, i32);

/// What went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Deleted {
    pub(super) files: usize,
    pub(super) bytes: i64,
}

/// Deletes a bucket's folder and those above it, as far as they are empty. Best effort; an object
/// store has no empty folders.
pub(super) async fn remove_empty(table: &Table, mut folder: Path) {
    let store = table.store().as_ref();
    while folder.prefix_matches(table.path()) && folder != *table.path() {
        let Ok(listing) = store.list_with_delimiter(Some(&folder)).await else {
            return;
        };
        if !listing.objects.is_empty()
            || !listing.common_prefixes.is_empty()
            || storage::delete(store, &folder).await.is_err()
        {
            return;
        }
        let Some(parent) = folder.parent() else {
            return;
        };
        folder = parent;
    }
}

pub(super) async fn delete_all(table: &Table, paths: impl Iterator<Item = Path>) -> Result<()> {
    let store = table.store();
    stream::iter(paths)
        .map(|path| async move { storage::delete(store.as_ref(), &path).await })
        .buffer_unordered(DELETES_MAX)
        .try_collect::<()>()
        .await
}

/// Files of metadata by what names them: leaves go first.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// Manifests, index files and statistics.
    leaves: BTreeMap<String, Path>,
    /// Lists and index manifests.
    branches: BTreeMap<String, Path>,
}

/// Which lists of a snapshot are meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lists {
    pub(super) data: bool,
    pub(super) changelog: bool,
    /// Index files and statistics.
    pub(super) index: bool,
}

impl Metadata {
    /// What a snapshot names; what is gone already is passed over.
    pub(super) async fn add(
        &mut self,
        table: &Table,
        snapshot: &PaimonSnapshot,
        lists: Lists,
    ) -> Result<()> {
        let data = [&snapshot.base_manifest_list, &snapshot.delta_manifest_list];
        let data = data.into_iter().filter(|_| lists.data);
        let changelog = snapshot.changelog_manifest_list.iter();
        for name in data.chain(changelog.filter(|_| lists.changelog)) {
            if self.branches.contains_key(name) {
                continue;
            }
            for meta in list(table, name).await?.unwrap_or_default() {
                let path = table.manifest_path(&meta.file_name);
                self.leaves.insert(meta.file_name, path);
            }
            self.branches
                .insert(name.clone(), table.manifest_path(name));
        }
        if !lists.index {
            return Ok(());
        }
        if let Some(name) = &snapshot.index_manifest
            && !self.branches.contains_key(name)
        {
            for entry in index_entries(table, name).await?.unwrap_or_default() {
                if let Some(path) = index_path(table, &entry)? {
                    self.leaves.insert(entry.index_file.file_name, path);
                }
            }
            self.branches
                .insert(name.clone(), table.manifest_path(name));
        }
        if let Some(name) = &snapshot.statistics {
            self.leaves
                .insert(name.clone(), statistics_path(table, name)?);
        }
        Ok(())
    }

    /// Keeps all that a root names.
    pub(super) async fn spare(&mut self, table: &Table, root: &Root) -> Result<()> {
        let mut needed = Self::default();
        let lists = Lists {
            data: true,
            changelog: root.keeps_changelog,
            index: true,
        };
        needed.add(table, &root.snapshot, lists).await?;
        self.leaves
            .retain(|name, _| !needed.leaves.contains_key(name));
        self.branches
            .retain(|name, _| !needed.branches.contains_key(name));
        Ok(())
    }

    pub(super) async fn delete(self, table: &Table) -> Result<usize> {
        let count = self.leaves.len() + self.branches.len();
        delete_all(table, self.leaves.into_values()).await?;
        delete_all(table, self.branches.into_values()).await?;
        Ok(count)
    }
}
