//! Orphans: files under the table's folder that nothing refers to, of writers that died.
//!
//! Only files of a safe age count, since a writer's files are referred to no sooner than it
//! commits. What refers to files is read after they are listed, and once more until nothing new
//! has come. Only folders that the format fills are looked at; whatever else stands there is not
//! ours.
//!
//! Source: `org.apache.paimon.operation.{OrphanFilesClean,LocalOrphanFilesClean}`.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use futures::TryStreamExt;
use object_store::{ObjectMeta, path::Path};

use crate::{
    error::{Error, Result},
    schema::now_ms,
    storage,
    table::Table,
};

use super::{
    lineage::{Lineage, Root},
    reclaim::{delete_all, entries, index_entries, list, remove_empty},
    tag::refuse,
};

/// Age from which on a file counts unless another is given.
const SAFE_AGE: Duration = Duration::from_secs(24 * 3600);
/// Least age that is taken without force.
const LEAST_AGE: Duration = Duration::from_secs(3600);
/// Rounds of reading what refers to files, while ever more snapshots come.
const ROUNDS_MAX: usize = 20;
/// Tries to read the manifests of a snapshot that is being expired by another.
const TRIES_MAX: u32 = 4;

/// Which files count, and what happens to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrphanRequest {
    /// Files last modified before this count, milliseconds since the epoch; a day ago when not
    /// given. Choose it before the oldest commit that may still be under way.
    pub older_than_ms: Option<i64>,
    /// Takes also a time less than an hour ago: only when nobody writes.
    pub force: bool,
    /// Deletes them; otherwise they are only listed.
    pub delete: bool,
}

/// A file that nothing refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanFile {
    /// Where it stands in the store.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// When it was last modified, milliseconds since the epoch.
    pub modified_ms: i64,
}

/// What was found, and deleted if asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Files, by path.
    pub files: Vec<OrphanFile>,
    /// Empty folders of buckets and partitions; only file systems have them.
    pub empty_folders: Vec<String>,
    /// They are gone.
    pub deleted: bool,
}

impl Orphans {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// What a file is, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Lives as long as something names it.
    Named,
    /// Left of a write that did not end.
    Leftover,
    /// Not ours to judge.
    Other,
}

impl Table {
    /// Finds the files that no snapshot, tag, branch or changelog refers to, and deletes them when
    /// asked.
    ///
    /// # Errors
    /// [`Error::Table`] for a time in the future, or less than an hour ago without force.
    /// [`Error::Corrupt`] when something that refers to files cannot be read: then nothing is
    /// deleted.
    pub async fn clean_orphans(&self, request: &OrphanRequest) -> Result<Orphans> {
        let cutoff = self.cutoff(request, now_ms())?;
        let candidates = self.old_files(cutoff).await?;
        let empty_before = self.empty_folders().await?;
        let files = self.without_named(candidates).await?;
        let mut orphans = Orphans {
            deleted: request.delete,
            ..Orphans::default()
        };
        let mut paths = Vec::new();
        for object in files {
            orphans.files.push(OrphanFile {
                path: object.location.to_string(),
                bytes: object.size,
                modified_ms: object.last_modified.timestamp_millis(),
            });
            paths.push(object.location);
        }
        orphans.files.sort_by(|a, b| a.path.cmp(&b.path));
        if request.delete {
            let folders: HashSet<Path> = paths.iter().filter_map(Path::parent).collect();
            delete_all(self, paths.into_iter()).await?;
            for folder in folders.into_iter().filter(|folder| self.is_bucket(folder)) {
                remove_empty(self, folder).await;
            }
        }
        // A folder that a writer has just made is empty only once.
        let still = self.empty_folders().await?;
        for folder in empty_before.into_iter().filter(|it| still.contains(it)) {
            orphans.empty_folders.push(folder.to_string());
            if request.delete {
                remove_empty(self, folder).await;
            }
        }
        Ok(orphans)
    }

    fn cutoff(&self, request: &OrphanRequest, now_ms: i64) -> Result<i64> {
        let ago = |age: Duration| now_ms - super::policy::millis(age);
        let Some(cutoff) = request.older_than_ms else {
            return Ok(ago(SAFE_AGE));
        };
        if cutoff > now_ms {
            return Err(refuse(
                self,
                "orphan files older than a time in the future: files that are being written now \
                 would count. Choose a time in the past"
                    .into(),
            ));
        }
        if cutoff > ago(LEAST_AGE) && !request.force {
            return Err(refuse(
                self,
                "orphan files younger than an hour may belong to a commit that is under way. \
                 Choose an earlier time, or force it when nobody writes"
                    .into(),
            ));
        }
        Ok(cutoff)
    }

    /// Parts of a path behind the table's folder.
    fn parts(&self, path: &Path) -> Vec<String> {
        path.prefix_match(self.path())
            .into_iter()
            .flatten()
            .map(|part| part.as_ref().to_owned())
            .collect()
    }

    /// Folders between the table's and those of the data.
    fn data_folders(&self) -> Vec<&str> {
        let folder = self.schema().options.get("data-file.path-directory");
        let parts = folder.into_iter().flat_map(|folder| folder.split('/'));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Whether a folder is a bucket's.
    fn is_bucket(&self, folder: &Path) -> bool {
        let parts = self.parts(folder);
        self.is_bucket_of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn is_bucket_of(&self, parts: &[&str]) -> bool {
        let Some((bucket, above)) = parts.split_last() else {
            return false;
        };
        let data = self.data_folders();
        let Some(partitions) = above.strip_prefix(data.as_slice()) else {
            return false;
        };
        bucket.starts_with("bucket-")
            && partitions.len() == self.schema().partition_keys.len()
            && partitions.iter().all(|part| part.contains('='))
    }

    fn place(&self, path: &Path) -> Place {
        let parts = self.parts(path);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let parts = match parts.as_slice() {
            ["branch", branch, rest @ ..] if branch.starts_with("branch-") => {
                match rest.first() {
                    // A branch has no files of these kinds of its own.
                    Some(&("manifest" | "index" | "statistics")) | None => return Place::Other,
                    _ => rest,
                }
            }
            parts => parts,
        };
        match parts {
            ["manifest" | "index" | "statistics", _] => Place::Named,
            [
                "snapshot" | "changelog" | "schema" | "tag" | "consumer",
                name,
            ] if name.starts_with('.') && name.ends_with(".tmp") => Place::Leftover,
            [folder @ ("snapshot" | "changelog"), name]
                if !name.starts_with(&format!("{folder}-"))
                    && !["EARLIEST", "LATEST"].contains(name) =>
            {
                Place::Leftover
            }
            [folders @ .., name]
                if self.is_bucket_of(folders) && !name.ends_with(".managed.blob") =>
            {
                Place::Named
            }
            _ => Place::Other,
        }
    }

    /// Files of a certain age that somebody should refer to, by name, and leftovers.
    async fn old_files(&self, cutoff_ms: i64) -> Result<HashMap<String, Vec<ObjectMeta>>> {
        let mut files: HashMap<String, Vec<ObjectMeta>> = HashMap::new();
        let mut listing = self.store().list(Some(self.path()));
        let failed = |error| Error::store("cannot list", self.path(), error);
        while let Some(object) = listing.try_next().await.map_err(failed)? {
            if object.last_modified.timestamp_millis() >= cutoff_ms {
                continue;
            }
            let name = object.location.filename().unwrap_or_default();
            let key = match self.place(&object.location) {
                Place::Other => continue,
                Place::Named => name.to_owned(),
                // No file of the format has such a name: nothing refers to it.
                Place::Leftover => format!("/{name}"),
            };
            files.entry(key).or_default().push(object);
        }
        Ok(files)
    }

    /// Takes out what something refers to.
    async fn without_named(
        &self,
        mut files: HashMap<String, Vec<ObjectMeta>>,
    ) -> Result<Vec<ObjectMeta>> {
        let mut seen: HashMap<Path, String> = HashMap::new();
        let mut manifests = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            let mut new = false;
            for root in self.all_roots().await? {
                // A snapshot of a number may be another one after a rollback.
                let lists = root.snapshot.delta_manifest_list.clone();
                if seen.get(&root.path) == Some(&lists) {
                    continue;
                }
                new = true;
                self.take_out(&root, &mut files, &mut manifests).await?;
                seen.insert(root.path, lists);
            }
            if !new {
                return Ok(files.into_values().flatten().collect());
            }
        }
        Err(refuse(
            self,
            "new snapshots come faster than they can be read; nothing was deleted".into(),
        ))
    }

    async fn all_roots(&self) -> Result<Vec<Root>> {
        let mut roots = Lineage::main(self).roots().await?;
        for branch in Lineage::branches(self).await? {
            roots.extend(branch.roots().await?);
        }
        Ok(roots)
    }

    async fn take_out(
        &self,
        root: &Root,
        files: &mut HashMap<String, Vec<ObjectMeta>>,
        manifests: &mut HashSet<String>,
    ) -> Result<()> {
        for attempt in 0..TRIES_MAX {
            if self.try_take_out(root, files, manifests).await? {
                return Ok(());
            }
            // Expired or deleted while we looked: it keeps nothing any more.
            if !storage::exists(self.store().as_ref(), &root.path).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
        }
        Err(Error::Corrupt {
            path: root.path.to_string(),
            message: "manifests that it names are not there, so that it is not known which files \
                      it needs; nothing was deleted. Expire it, or delete it, first"
                .into(),
        })
    }

    /// False when something that is named is gone.
    async fn try_take_out(
        &self,
        root: &Root,
        files: &mut HashMap<String, Vec<ObjectMeta>>,
        manifests: &mut HashSet<String>,
    ) -> Result<bool> {
        let snapshot = &root.snapshot;
        let mut whole = true;
        let lists = [
            Some(&snapshot.base_manifest_list),
            Some(&snapshot.delta_manifest_list),
            snapshot.changelog_manifest_list.as_ref(),
        ];
        for name in lists.into_iter().flatten() {
            files.remove(name);
            let may_be_gone =
                root.changelog_only || Some(name) == snapshot.changelog_manifest_list.as_ref();
            let Some(metas) = list(self, name).await? else {
                whole &= may_be_gone;
                continue;
            };
            for meta in metas {
                files.remove(&meta.file_name);
                if manifests.contains(&meta.file_name) {
                    continue;
                }
                let Some(entries) = entries(self, &meta.file_name).await? else {
                    whole &= may_be_gone;
                    continue;
                };
                for entry in entries {
                    files.remove(&entry.file.file_name);
                    for extra in &entry.file.extra_files {
                        files.remove(extra);
                    }
                }
                manifests.insert(meta.file_name);
            }
        }
        if let Some(name) = &snapshot.index_manifest {
            files.remove(name);
            match index_entries(self, name).await? {
                Some(entries) => {
                    for entry in entries {
                        files.remove(&entry.index_file.file_name);
                    }
                }
                None => whole &= root.changelog_only,
            }
        }
        if let Some(name) = &snapshot.statistics {
            files.remove(name);
        }
        Ok(whole)
    }

    /// Folders of buckets, and of partitions without any, that hold nothing. Only where folders
    /// are more than a part of a name.
    async fn empty_folders(&self) -> Result<Vec<Path>> {
        let mut empty = Vec::new();
        if !self.store().to_string().starts_with("LocalFileSystem") {
            return Ok(empty);
        }
        let data = self.data_folders();
        let depth = data.len() + self.schema().partition_keys.len();
        let mut open = BTreeMap::from([(self.path().clone(), 0)]);
        while let Some((folder, level)) = open.pop_first() {
            let listing = self.store().list_with_delimiter(Some(&folder)).await;
            let listing = listing.map_err(|error| Error::store("cannot list", &folder, error))?;
            if level > data.len()
                && listing.objects.is_empty()
                && listing.common_prefixes.is_empty()
            {
                empty.push(folder);
                continue;
            }
            let wanted = |path: &Path| {
                let name = path.filename().unwrap_or_default();
                match data.get(level) {
                    Some(folder) => name == *folder,
                    None if level < depth => name.contains('='),
                    None => level == depth && name.starts_with("bucket-"),
                }
            };
            let inner = listing.common_prefixes.into_iter().filter(wanted);
            open.extend(inner.map(|path| (path, level + 1)));
        }
        Ok(empty)
    }
}
