//! Checks a table: walks everything that its snapshots name and compares it with what is there.

mod data;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use object_store::ObjectStoreExt;

use crate::{
    LiveFile,
    binary_row::compare_keys,
    data_type::DataType,
    error::{Error, Result},
    manifest::{FileKind, ManifestEntry},
    manifest_list::ManifestFileMeta,
    table::Table,
};

use super::{
    lineage::{Lineage, Root},
    orphan::{OrphanFile, OrphanRequest},
    reclaim::{entries, index_entries, index_path, list, statistics_path},
};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A file that something names is not there.
    Missing,
    /// A file cannot be read.
    Unreadable,
    /// A file has another size than recorded.
    Size,
    /// A file holds more or fewer rows, or deletes, than recorded.
    Count,
    /// Keys of a file are not in order, or not in the range that is recorded.
    Keys,
    /// Sequence numbers of a file are not those that are recorded.
    Sequence,
    /// Recorded statistics that are not true.
    Statistics,
    /// Files above level 0 that overlap.
    Overlap,
    /// A manifest or list that contradicts what names it, or itself.
    Manifest,
    /// A snapshot whose counts are not true.
    Snapshot,
    /// An index file that contradicts its manifest.
    Index,
}

/// Something that is wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What.
    pub kind: ProblemKind,
    /// File that it is about.
    pub path: String,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.kind, self.path, self.message)
    }
}

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckRequest {
    /// All snapshots, tags and branches, not only the newest snapshot.
    pub all: bool,
    /// Reads the data files: keys, sequence numbers, statistics, counts.
    pub data: bool,
    /// Also lists the files that nothing refers to.
    pub orphans: bool,
}

impl Default for CheckRequest {
    /// Everything.
    fn default() -> Self {
        Self {
            all: true,
            data: true,
            orphans: true,
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, in the order in which it was found.
    pub problems: Vec<Problem>,
    /// Snapshots, tags and snapshots of branches that were walked.
    pub snapshots: usize,
    /// Data files that were looked at, each once.
    pub files: usize,
    /// Rows that were read.
    pub rows: i64,
    /// Data files that were not read: of another format than Parquet, or outside of the table.
    pub files_not_read: usize,
    /// Files that nothing refers to, a day old or more. They do no harm.
    pub orphans: Vec<OrphanFile>,
}

struct Checker<'a> {
    table: &'a Table,
    request: CheckRequest,
    report: CheckReport,
    /// Data files that were looked at.
    seen: HashSet<String>,
    /// Manifests whose own counts were compared.
    compared: HashSet<String>,
}

impl Table {
    /// Walks the table and reports all that is wrong with it. A writer may go on meanwhile; what
    /// expires while it is looked at is passed over.
    ///
    /// # Errors
    /// What the store says. What cannot be read because it is damaged is a problem, not an error.
    pub async fn check(&self, request: &CheckRequest) -> Result<CheckReport> {
        let mut checker = Checker {
            table: self,
            request: *request,
            report: CheckReport::default(),
            seen: HashSet::new(),
            compared: HashSet::new(),
        };
        let main = Lineage::main(self);
        let mut roots = main.roots().await?;
        if request.all {
            for branch in Lineage::branches(self).await? {
                roots.extend(branch.roots().await?);
            }
            roots.retain(|root| !root.changelog_only);
        } else {
            let latest = self.latest_snapshot().await?.map(|latest| latest.id);
            roots.retain(|root| root.keeps_changelog && !root.changelog_only);
            roots.retain(|root| Some(root.snapshot.id) == latest);
        }
        // The newest first: its files are all there.
        roots.sort_by_key(|root| std::cmp::Reverse(root.snapshot.id));
        for root in &roots {
            checker.root(root).await?;
        }
        let mut report = checker.report;
        if request.orphans {
            match self.clean_orphans(&OrphanRequest::default()).await {
                Ok(orphans) => report.orphans = orphans.files,
                // What is missing has been reported.
                Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }
}

impl Checker<'_> {
    fn problem(&mut self, kind: ProblemKind, path: impl ToString, message: impl Into<String>) {
        self.report.problems.push(Problem {
            kind,
            path: path.to_string(),
            message: message.into(),
        });
    }

    /// Takes damage as a problem; anything else is an error.
    fn caught<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_transient() => Err(error),
            Err(Error::Corrupt { path, message }) => {
                self.problem(ProblemKind::Unreadable, path, message);
                Ok(None)
            }
            Err(Error::Missing { path }) => {
                self.problem(ProblemKind::Missing, path, "it is not there");
                Ok(None)
            }
            Err(error) => {
                let path = self.table.path().to_string();
                self.problem(ProblemKind::Unreadable, path, error.to_string());
                Ok(None)
            }
        }
    }

    async fn root(&mut self, root: &Root) -> Result<()> {
        let before = self.report.problems.len();
        self.report.snapshots += 1;
        self.snapshot(root).await?;
        let gone = || crate::storage::exists(self.table.store().as_ref(), &root.path);
        if self.report.problems.len() > before && !gone().await? {
            self.report.problems.truncate(before);
        }
        Ok(())
    }

    async fn snapshot(&mut self, root: &Root) -> Result<()> {
        let snapshot = &root.snapshot;
        let base = self
            .entries_of(
                root,
                &snapshot.base_manifest_list,
                snapshot.base_manifest_list_size,
            )
            .await?;
        let delta = self
            .entries_of(
                root,
                &snapshot.delta_manifest_list,
                snapshot.delta_manifest_list_size,
            )
            .await?;
        let (Some(base), Some(delta)) = (base, delta) else {
            return Ok(());
        };
        let signed = |entry: &ManifestEntry| match entry.kind {
            FileKind::Add => entry.file.row_count,
            FileKind::Delete => -entry.file.row_count,
        };
        let change: i64 = delta.iter().map(signed).sum();
        self.count(
            root,
            "deltaRecordCount",
            snapshot.delta_record_count,
            change,
        );
        let files = self.fold(root, base.into_iter().chain(delta));
        let rows = files.iter().map(|file| file.meta.row_count).sum();
        self.count(root, "totalRecordCount", snapshot.total_record_count, rows);
        self.levels(&files);
        self.index(root, &files).await?;
        self.changelog(root).await?;
        if let Some(name) = &snapshot.statistics {
            let path = statistics_path(self.table, name)?;
            self.exists(&path, None, ProblemKind::Size).await?;
        }
        for file in files {
            if self.seen.insert(file.meta.file_name.clone()) {
                self.report.files += 1;
                self.file(&file).await?;
            }
        }
        Ok(())
    }

    fn count(&mut self, root: &Root, what: &str, recorded: Option<i64>, found: i64) {
        if let Some(recorded) = recorded.filter(|recorded| *recorded != found) {
            let message = format!("its {what} is {recorded}, its files hold {found} rows");
            self.problem(ProblemKind::Snapshot, &root.path, message);
        }
    }

    /// Entries of a list; `None` when it, or a manifest of it, cannot be read.
    async fn entries_of(
        &mut self,
        root: &Root,
        name: &str,
        size: Option<i64>,
    ) -> Result<Option<Vec<ManifestEntry>>> {
        let path = self.table.manifest_path(name);
        self.exists(&path, size, ProblemKind::Size).await?;
        let read = list(self.table, name).await;
        let Some(Some(metas)) = self.caught(read)? else {
            return Ok(None);
        };
        let mut all = Vec::new();
        let mut whole = true;
        for meta in metas {
            let read = entries(self.table, &meta.file_name).await;
            let Some(found) = self.caught(read)? else {
                whole = false;
                continue;
            };
            let Some(entries) = found else {
                whole = false;
                let path = self.table.manifest_path(&meta.file_name);
                let by = format!("{name} names it, for {}", root.path);
                self.problem(ProblemKind::Missing, path, by);
                continue;
            };
            if self.compared.insert(meta.file_name.clone()) {
                self.manifest(&meta, &entries).await?;
            }
            all.extend(entries);
        }
        Ok(whole.then_some(all))
    }

    async fn manifest(&mut self, meta: &ManifestFileMeta, all: &[ManifestEntry]) -> Result<()> {
        let path = self.table.manifest_path(&meta.file_name);
        self.exists(&path, Some(meta.file_size), ProblemKind::Size)
            .await?;
        let count = |kind| all.iter().filter(|entry| entry.kind == kind).count() as i64;
        let found = (count(FileKind::Add), count(FileKind::Delete));
        let recorded = (meta.num_added_files, meta.num_deleted_files);
        if found != recorded {
            let message = format!("adds and deletes {found:?}, its list says {recorded:?}");
            self.problem(ProblemKind::Manifest, &path, message);
        }
        for (what, least, greatest, of) in [
            (
                "bucket",
                meta.min_bucket,
                meta.max_bucket,
                (|entry: &ManifestEntry| entry.bucket) as fn(&ManifestEntry) -> i32,
            ),
            ("level", meta.min_level, meta.max_level, |entry| {
                entry.file.level
            }),
        ] {
            let outside = |entry: &&ManifestEntry| {
                least.is_some_and(|least| of(entry) < least)
                    || greatest.is_some_and(|greatest| of(entry) > greatest)
            };
            if let Some(entry) = all.iter().find(outside) {
                let message = format!("{what} {} is outside of what its list says", of(entry));
                self.problem(ProblemKind::Manifest, &path, message);
            }
        }
        Ok(())
    }

    /// The files that stay, with contradictions on the way.
    fn fold(&mut self, root: &Root, all: impl Iterator<Item = ManifestEntry>) -> Vec<LiveFile> {
        let mut live: BTreeMap<(Vec<u8>, i32, i32, String), LiveFile> = BTreeMap::new();
        for entry in all {
            let name = entry.file.file_name.clone();
            let id = (
                entry.partition.clone(),
                entry.bucket,
                entry.file.level,
                name,
            );
            let wrong = match entry.kind {
                FileKind::Add => {
                    let file = LiveFile {
                        partition: entry.partition,
                        bucket: entry.bucket,
                        total_buckets: entry.total_buckets,
                        meta: entry.file,
                    };
                    live.insert(id.clone(), file).map(|_| "added twice")
                }
                FileKind::Delete => match live.remove(&id) {
                    Some(_) => None,
                    None => Some("deleted, and was not live"),
                },
            };
            if let Some(wrong) = wrong {
                let message = format!("file {} (level {}) is {wrong}", id.3, id.2);
                self.problem(ProblemKind::Manifest, &root.path, message);
            }
        }
        live.into_values().collect()
    }

    fn key_types(&self) -> Vec<DataType> {
        let schema = self.table.schema();
        let keys = schema.trimmed_primary_keys();
        let fields = keys.iter().filter_map(|key| schema.field(key));
        fields.map(|(_, field)| field.data_type.clone()).collect()
    }

    /// Above level 0 no two files of a level share keys.
    fn levels(&mut self, files: &[LiveFile]) {
        let types = self.key_types();
        if types.is_empty() {
            return;
        }
        let mut levels: HashMap<(&[u8], i32, i32), Vec<&LiveFile>> = HashMap::new();
        for file in files.iter().filter(|file| file.meta.level > 0) {
            let level = (file.partition.as_slice(), file.bucket, file.meta.level);
            levels.entry(level).or_default().push(file);
        }
        let mut overlaps = Vec::new();
        for ((_, bucket, level), mut files) in levels {
            let order = |a: &[u8], b: &[u8]| {
                compare_keys(&types, a, b).unwrap_or(std::cmp::Ordering::Equal)
            };
            files.sort_by(|a, b| order(&a.meta.min_key, &b.meta.min_key));
            for pair in files.windows(2) {
                if let [left, right] = pair
                    && order(&left.meta.max_key, &right.meta.min_key).is_ge()
                {
                    overlaps.push((
                        right.meta.file_name.clone(),
                        format!(
                            "it overlaps {} on level {level} of bucket {bucket}",
                            left.meta.file_name
                        ),
                    ));
                }
            }
        }
        for (path, message) in overlaps {
            self.problem(ProblemKind::Overlap, path, message);
        }
    }

    async fn index(&mut self, root: &Root, files: &[LiveFile]) -> Result<()> {
        let Some(name) = &root.snapshot.index_manifest else {
            return Ok(());
        };
        let path = self.table.manifest_path(name);
        let read = index_entries(self.table, name).await;
        let Some(found) = self.caught(read)? else {
            return Ok(());
        };
        let Some(entries) = found else {
            let by = format!("{} names it", root.path);
            self.problem(ProblemKind::Missing, path, by);
            return Ok(());
        };
        let live: HashSet<&str> = files
            .iter()
            .map(|file| file.meta.file_name.as_str())
            .collect();
        for entry in entries {
            let file = &entry.index_file;
            let Some(path) = index_path(self.table, &entry)? else {
                continue;
            };
            self.exists(&path, Some(file.file_size), ProblemKind::Size)
                .await?;
            for range in file.dv_ranges.iter().flatten() {
                let end = i64::from(range.offset) + i64::from(range.length);
                if range.offset < 0 || range.length < 0 || end > file.file_size {
                    let message = format!(
                        "the deletion vector of {} ends at {end}, the file at {}",
                        range.data_file_name, file.file_size
                    );
                    self.problem(ProblemKind::Index, &path, message);
                }
                if !live.contains(range.data_file_name.as_str()) {
                    let message = format!(
                        "a deletion vector of {}, which is not live in {}",
                        range.data_file_name, root.path
                    );
                    self.problem(ProblemKind::Index, &path, message);
                }
            }
        }
        Ok(())
    }

    /// Changelog files go with their snapshot, also when a tag or branch keeps the rest.
    async fn changelog(&mut self, root: &Root) -> Result<()> {
        let snapshot = &root.snapshot;
        let name = snapshot.changelog_manifest_list.as_ref();
        let of_branch = !root
            .path
            .prefix_matches(&self.table.path().clone().join("snapshot"));
        let Some(name) = name.filter(|_| root.keeps_changelog && !of_branch) else {
            return Ok(());
        };
        let size = snapshot.changelog_manifest_list_size;
        let Some(all) = self.entries_of(root, name, size).await? else {
            return Ok(());
        };
        let rows = all.iter().map(|entry| entry.file.row_count).sum();
        let recorded = snapshot.changelog_record_count;
        self.count(root, "changelogRecordCount", recorded, rows);
        for entry in all {
            if entry.file.external_path.is_none() {
                let path = self
                    .table
                    .file_path(&entry.partition, entry.bucket, &entry.file)?;
                self.exists(&path, Some(entry.file.file_size), ProblemKind::Size)
                    .await?;
            }
        }
        Ok(())
    }

    /// Bytes of an object, which should be those recorded; `None` when it isn't there.
    async fn exists(
        &mut self,
        path: &object_store::path::Path,
        size: Option<i64>,
        kind: ProblemKind,
    ) -> Result<Option<i64>> {
        match self.table.store().head(path).await {
            Ok(object) => {
                let found = i64::try_from(object.size).unwrap_or(i64::MAX);
                if let Some(size) = size.filter(|size| *size != found) {
                    let message = format!("{found} bytes, {size} are recorded");
                    self.problem(kind, path, message);
                }
                Ok(Some(found))
            }
            Err(object_store::Error::NotFound { .. }) => {
                self.problem(ProblemKind::Missing, path, "it is not there");
                Ok(None)
            }
            Err(error) => Err(Error::store("cannot look at", path, error)),
        }
    }
}
