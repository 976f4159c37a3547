//! Tables with a past, made by hand for tests: files that hold nothing, in manifests that are right.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::TryStreamExt;
use object_store::{ObjectStore, path::Path};

use crate::{
    commit::tests::{file, schema},
    data_file_meta::DataFileMeta,
    index_manifest::{self, DELETION_VECTORS_INDEX, IndexFileMeta, IndexManifestEntry},
    manifest::{self, FileKind, ManifestEntry},
    manifest_list::{self, ManifestFileMeta},
    snapshot::{CommitKind, PaimonSnapshot},
    storage,
    table::Table,
};

use super::{
    lineage::{Lineage, Root},
    reclaim,
};

/// Manifests from which on the base is written anew.
const MANIFESTS_MAX: usize = 4;

/// A table whose commits are made up.
pub(super) struct History {
    pub(super) table: Table,
    pub(super) live: BTreeMap<String, DataFileMeta>,
    manifests: Vec<ManifestFileMeta>,
    index: Option<String>,
    made: usize,
    pub(super) last: i64,
    /// Of the next commits; ten times the snapshot's number otherwise.
    pub(super) watermark: Option<i64>,
}

/// What a commit changes.
#[derive(Default)]
pub(super) struct Change<'a> {
    pub(super) add: Vec<(&'a str, i32)>,
    pub(super) delete: Vec<&'a str>,
    pub(super) changelog: Vec<&'a str>,
    /// Writes a new index file with its manifest.
    pub(super) index: bool,
}

fn entry(kind: FileKind, file: &DataFileMeta) -> ManifestEntry {
    ManifestEntry {
        kind,
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        file: file.clone(),
    }
}

impl History {
    pub(super) async fn new(store: Arc<dyn ObjectStore>, options: &[(&str, &str)]) -> Self {
        let path = Path::from("db.db/t");
        let table = Table::new("db.t", store, path, Arc::new(schema(options)));
        let bytes = serde_json::to_vec(table.schema().as_ref()).unwrap();
        let path = table.schema_path(0);
        storage::put(table.store().as_ref(), &path, bytes)
            .await
            .unwrap();
        Self {
            table,
            live: BTreeMap::new(),
            manifests: Vec::new(),
            index: None,
            made: 0,
            last: 0,
            watermark: None,
        }
    }

    async fn put(&self, folder: &str, name: &str, bytes: Vec<u8>) {
        let path = self.table.path().clone().join(folder).join(name);
        storage::put(self.table.store().as_ref(), &path, bytes)
            .await
            .unwrap();
    }

    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}-{:06}", self.made)
    }

    async fn manifest(&mut self, entries: &[ManifestEntry]) -> Vec<ManifestFileMeta> {
        let mut metas = Vec::new();
        for encoded in manifest::encode(entries, 1 << 20).unwrap() {
            let name = self.name("manifest");
            let count = |kind| entries.iter().filter(|entry| entry.kind == kind).count() as i64;
            metas.push(ManifestFileMeta {
                file_name: name.clone(),
                file_size: encoded.bytes.len() as i64,
                num_added_files: count(FileKind::Add),
                num_deleted_files: count(FileKind::Delete),
                ..manifest_list::tests::meta()
            });
            self.put("manifest", &name, encoded.bytes).await;
        }
        metas
    }

    async fn list(&mut self, manifests: &[ManifestFileMeta]) -> String {
        let name = self.name("manifest-list");
        let bytes = manifest_list::encode(manifests).unwrap();
        self.put("manifest", &name, bytes).await;
        name
    }

    pub(super) async fn commit(&mut self, change: Change<'_>) -> i64 {
        if self.manifests.len() >= MANIFESTS_MAX {
            let all: Vec<_> = self
                .live
                .values()
                .map(|it| entry(FileKind::Add, it))
                .collect();
            self.manifests = self.manifest(&all).await;
        }
        let base = self.manifests.clone();
        let base_list = self.list(&base).await;
        let mut entries = Vec::new();
        for name in &change.delete {
            entries.push(entry(FileKind::Delete, &self.live.remove(*name).unwrap()));
        }
        for (name, level) in &change.add {
            let meta = file(name, *level, 1..=9);
            self.put("bucket-0", name, vec![0; 100]).await;
            entries.push(entry(FileKind::Add, &meta));
            self.live.insert((*name).to_owned(), meta);
        }
        let delta = self.manifest(&entries).await;
        let delta_list = self.list(&delta).await;
        self.manifests.extend(delta);
        let mut changelog_list = None;
        if !change.changelog.is_empty() {
            let mut entries = Vec::new();
            for name in &change.changelog {
                self.put("bucket-0", name, vec![0; 100]).await;
                entries.push(entry(FileKind::Add, &file(name, 0, 1..=9)));
            }
            let metas = self.manifest(&entries).await;
            changelog_list = Some(self.list(&metas).await);
        }
        if change.index {
            self.write_index().await;
        }
        self.last += 1;
        let snapshot = PaimonSnapshot {
            base_manifest_list: base_list,
            delta_manifest_list: delta_list,
            changelog_manifest_list: changelog_list,
            index_manifest: self.index.clone(),
            ..self.snapshot(self.last)
        };
        let bytes = serde_json::to_vec_pretty(&snapshot).unwrap();
        let path = self.table.snapshot_path(self.last);
        assert!(
            storage::create(self.table.store().as_ref(), &path, bytes)
                .await
                .unwrap()
        );
        self.table.write_hint(self.last).await;
        self.last
    }

    async fn write_index(&mut self) {
        let file_name = self.name("index");
        self.put("index", &file_name, vec![1; 30]).await;
        let entry = IndexManifestEntry {
            kind: FileKind::Add,
            partition: vec![0; 12],
            bucket: 0,
            index_file: IndexFileMeta {
                index_type: DELETION_VECTORS_INDEX.into(),
                file_name,
                file_size: 30,
                row_count: 0,
                dv_ranges: Some(vec![]),
                external_path: None,
            },
        };
        let name = self.name("index-manifest");
        let bytes = index_manifest::encode(&[entry]).unwrap();
        self.put("manifest", &name, bytes).await;
        self.index = Some(name);
    }

    fn snapshot(&self, id: i64) -> PaimonSnapshot {
        PaimonSnapshot {
            version: 3,
            id,
            schema_id: 0,
            base_manifest_list: String::new(),
            base_manifest_list_size: None,
            delta_manifest_list: String::new(),
            delta_manifest_list_size: None,
            changelog_manifest_list: None,
            changelog_manifest_list_size: None,
            index_manifest: None,
            commit_user: "u".into(),
            commit_identifier: id,
            commit_kind: CommitKind::Append,
            // A second between two.
            time_millis: id * 1000,
            total_record_count: Some(0),
            delta_record_count: Some(0),
            changelog_record_count: None,
            watermark: self.watermark.or(Some(id * 10)),
            statistics: None,
            properties: None,
            next_row_id: Some(0),
        }
    }

    /// After a rollback: goes on from what the newest snapshot holds.
    pub(super) async fn resume(&mut self) {
        let latest = self.table.latest_snapshot().await.unwrap().unwrap();
        self.manifests = self.table.manifests(&latest).await.unwrap();
        let files = self.table.live_files(&latest).await.unwrap();
        let files = files.into_iter().map(|file| file.meta);
        self.live = files.map(|file| (file.file_name.clone(), file)).collect();
        self.index = latest.index_manifest.clone();
        self.last = latest.id;
    }

    /// The same past on another store that holds the same objects.
    pub(super) fn on(&self, store: Arc<dyn ObjectStore>) -> Self {
        let table = &self.table;
        let path = table.path().clone();
        Self {
            table: Table::new(table.name(), store, path, table.schema().clone()),
            live: self.live.clone(),
            manifests: self.manifests.clone(),
            index: self.index.clone(),
            ..*self
        }
    }

    pub(super) async fn objects(&self) -> BTreeSet<String> {
        let all: Vec<_> = self.table.store().list(None).try_collect().await.unwrap();
        all.into_iter()
            .map(|object| object.location.to_string())
            .filter(|path| !path.ends_with("EARLIEST") && !path.ends_with("LATEST"))
            .collect()
    }

    pub(super) async fn consumer(&self, next_snapshot: i64) {
        let text = format!(r#"{{"nextSnapshot":{next_snapshot}}}"#);
        self.put("consumer", "consumer-c", text.into_bytes()).await;
    }

    /// All roots of the main line from a snapshot and a changelog on, and those of all branches.
    async fn roots(&self, from: i64, changelogs_from: i64) -> Vec<Root> {
        let main = Lineage::main(&self.table);
        let mut roots = main.roots().await.unwrap();
        roots.retain(|root| match root.changelog_only {
            true => root.snapshot.id >= changelogs_from,
            false => !root.keeps_changelog || root.snapshot.id >= from,
        });
        for branch in Lineage::branches(&self.table).await.unwrap() {
            roots.extend(branch.roots().await.unwrap());
        }
        roots
    }

    /// Every object that must be there, besides schemas, snapshots and tags themselves. Panics when
    /// one isn't.
    pub(super) async fn needed(&self, from: i64) -> BTreeSet<String> {
        self.needed_from(from, from).await
    }

    /// As [`Self::needed`], with changelogs from another number on.
    pub(super) async fn needed_from(&self, from: i64, changelogs: i64) -> BTreeSet<String> {
        let there = self.objects().await;
        let mut needed = BTreeSet::new();
        let decoupled = super::Retention::of(self.table.schema()).unwrap();
        for root in self.roots(from, changelogs).await {
            let produced = root.snapshot.changelog_manifest_list.is_some();
            if !(root.changelog_only && decoupled.produces_changelog) {
                self.need_data(&root, &mut needed).await;
            }
            // A branch may begin at a tag whose changelog had gone before.
            let of_branch = root.path.as_ref().contains("/branch/");
            if produced && root.keeps_changelog {
                let name = root.snapshot.changelog_manifest_list.as_ref().unwrap();
                if of_branch && !there.contains(self.table.manifest_path(name).as_ref()) {
                    continue;
                }
                self.need_list(name, &mut needed, true).await;
            }
        }
        for path in &needed {
            assert!(there.contains(path), "{path} is gone");
        }
        needed
    }

    async fn need_list(&self, name: &str, needed: &mut BTreeSet<String>, files: bool) {
        let table = &self.table;
        needed.insert(table.manifest_path(name).to_string());
        let metas = reclaim::list(table, name).await.unwrap();
        for meta in metas.unwrap_or_else(|| panic!("{name} is gone")) {
            needed.insert(table.manifest_path(&meta.file_name).to_string());
            for entry in table.read_manifest(&meta.file_name).await.unwrap() {
                if files && entry.kind == FileKind::Add {
                    let name = &entry.file.file_name;
                    needed.insert(format!("{}/bucket-0/{name}", table.path()));
                }
            }
        }
    }

    async fn need_data(&self, root: &Root, needed: &mut BTreeSet<String>) {
        let (table, snapshot) = (&self.table, &root.snapshot);
        self.need_list(&snapshot.base_manifest_list, needed, false)
            .await;
        let changes = root.changelog_only;
        self.need_list(&snapshot.delta_manifest_list, needed, changes)
            .await;
        if !changes {
            for file in table.live_files(snapshot).await.unwrap() {
                let name = &file.meta.file_name;
                needed.insert(format!("{}/bucket-0/{name}", table.path()));
            }
        }
        if let Some(name) = snapshot.index_manifest.as_ref().filter(|_| !changes) {
            needed.insert(table.manifest_path(name).to_string());
            let entries = reclaim::index_entries(table, name).await.unwrap();
            for entry in entries.unwrap_or_else(|| panic!("{name} is gone")) {
                let name = &entry.index_file.file_name;
                needed.insert(format!("{}/index/{name}", table.path()));
            }
        }
    }

    /// Objects that nothing needs.
    pub(super) async fn unneeded(&self) -> BTreeSet<String> {
        let needed = self.needed(0).await;
        let record = |path: &str| {
            ["/snapshot-", "/tag-", "/schema-", "/consumer-"]
                .iter()
                .any(|part| path.contains(part))
                || path.contains("/changelog/")
        };
        let all = self.objects().await;
        all.into_iter()
            .filter(|path| !record(path) && !needed.contains(path))
            .collect()
    }
}
