//! What a committer knows of the table: its newest snapshot, its manifests, and of each bucket as
//! much as the checks of a commit need. It grows by the deltas of snapshots; all manifests are read
//! only at the start and after a rollback.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    data_file_meta::DataFileMeta,
    error::Result,
    manifest::{FileKind, ManifestEntry},
    manifest_list::ManifestFileMeta,
    snapshot::{Expiries, PaimonSnapshot},
    table::Table,
};

use super::SortedRuns;

/// Snapshots of others that are followed one by one; beyond, reading everything anew is cheaper.
const DELTAS_MAX: i64 = 256;

/// Key range of a file above level 0.
#[derive(Debug, Clone)]
pub(super) struct LevelRange {
    pub(super) file_name: String,
    pub(super) level: i32,
    pub(super) min_key: Vec<u8>,
    pub(super) max_key: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct BucketView {
    pub(super) total_buckets: i32,
    /// Live files.
    pub(super) files: i64,
    /// Files above level 0.
    pub(super) ranges: Vec<LevelRange>,
}

#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) snapshot: Option<PaimonSnapshot>,
    pub(super) manifests: Vec<ManifestFileMeta>,
    /// By partition, then bucket.
    pub(super) buckets: HashMap<Vec<u8>, HashMap<i32, BucketView>>,
    /// Live files by a hash of place, level and name: adds minus deletes. 8 bytes a file instead of
    /// 100.
    files: HashMap<u64, i32>,
    /// Highest level of any file seen.
    level_max: i32,
    /// Greatest sequence number of any file seen.
    pub(super) max_sequence_number: Option<i64>,
}

impl View {
    /// Brings the view to the table's newest snapshot.
    pub(super) async fn advance(&mut self, table: &Table) -> Result<()> {
        let mut expiries = Expiries::default();
        loop {
            let known = self.snapshot.as_ref().map(|snapshot| snapshot.id);
            let Some(latest) = table.latest_snapshot_after(known).await? else {
                *self = Self::default();
                return Ok(());
            };
            if self.snapshot.as_ref() == Some(&latest) {
                return Ok(());
            }
            match self.advance_to(table, &latest).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.snapshot = None;
                    expiries.explain(table, &latest, error).await?;
                }
            }
        }
    }

    async fn advance_to(&mut self, table: &Table, latest: &PaimonSnapshot) -> Result<()> {
        match self.follow(table, latest).await {
            Ok(true) => Ok(()),
            // A snapshot between has expired while it was followed.
            Err(error) if error.is_missing() => self.rebuild(table, latest.clone()).await,
            Ok(false) => self.rebuild(table, latest.clone()).await,
            Err(error) => Err(error),
        }
    }

    /// Applies the deltas between; false when there is no unbroken chain.
    async fn follow(&mut self, table: &Table, latest: &PaimonSnapshot) -> Result<bool> {
        let Some(known) = self.snapshot.clone() else {
            return Ok(false);
        };
        if latest.id <= known.id
            || latest.id - known.id > DELTAS_MAX
            || table.snapshot(known.id).await?.as_ref() != Some(&known)
        {
            return Ok(false);
        }
        let mut deltas = Vec::new();
        for id in known.id + 1..=latest.id {
            let Some(snapshot) = table.snapshot(id).await? else {
                return Ok(false);
            };
            deltas.extend(
                table
                    .read_manifest_list(&snapshot.delta_manifest_list)
                    .await?,
            );
        }
        // Until all of them are applied the view is that of no snapshot.
        self.snapshot = None;
        table
            .for_each_manifest(&deltas, |entries| self.apply(&entries))
            .await?;
        self.manifests = table.manifests(latest).await?;
        self.snapshot = Some(latest.clone());
        Ok(true)
    }

    async fn rebuild(&mut self, table: &Table, latest: PaimonSnapshot) -> Result<()> {
        let mut view = Self {
            manifests: table.manifests(&latest).await?,
            ..Self::default()
        };
        let manifests = std::mem::take(&mut view.manifests);
        table
            .for_each_manifest(&manifests, |entries| view.apply(&entries))
            .await?;
        view.manifests = manifests;
        view.snapshot = Some(latest);
        *self = view;
        Ok(())
    }

    pub(super) fn apply(&mut self, entries: &[ManifestEntry]) {
        for entry in entries {
            let file = &entry.file;
            let bucket = self.bucket_mut(&entry.partition, entry.bucket);
            let step = match entry.kind {
                FileKind::Add => {
                    bucket.total_buckets = entry.total_buckets;
                    if file.level > 0 {
                        bucket.ranges.push(LevelRange {
                            file_name: file.file_name.clone(),
                            level: file.level,
                            min_key: file.min_key.clone(),
                            max_key: file.max_key.clone(),
                        });
                    }
                    1
                }
                FileKind::Delete => {
                    bucket.ranges.retain(|range| {
                        (range.level, &range.file_name) != (file.level, &file.file_name)
                    });
                    -1
                }
            };
            bucket.files += i64::from(step);
            self.level_max = self.level_max.max(file.level);
            let id = hash(&entry.partition, entry.bucket, file.level, &file.file_name);
            let count = self.files.entry(id).or_default();
            *count += step;
            if *count == 0 {
                self.files.remove(&id);
            }
            self.max_sequence_number = self.max_sequence_number.max(Some(file.max_sequence_number));
        }
    }

    fn bucket_mut(&mut self, partition: &[u8], bucket: i32) -> &mut BucketView {
        self.buckets
            .entry(partition.to_vec())
            .or_default()
            .entry(bucket)
            .or_default()
    }

    pub(super) fn sorted_runs(&self) -> SortedRuns {
        let mut most = SortedRuns::default();
        for bucket in self.buckets.values().flat_map(HashMap::values) {
            let live = usize::try_from(bucket.files).unwrap_or(0);
            let on_level_0 = live.saturating_sub(bucket.ranges.len());
            let levels: HashSet<i32> = bucket.ranges.iter().map(|range| range.level).collect();
            most.on_level_0 = most.on_level_0.max(on_level_0);
            most.all = most.all.max(on_level_0 + levels.len());
        }
        most
    }

    pub(super) fn bucket(&self, partition: &[u8], bucket: i32) -> Option<&BucketView> {
        self.buckets.get(partition)?.get(&bucket)
    }

    /// Bucket count that the live files of a partition were written with.
    pub(super) fn total_buckets(&self, partition: &[u8]) -> Option<i32> {
        self.buckets
            .get(partition)?
            .values()
            .find(|bucket| bucket.files > 0)
            .map(|bucket| bucket.total_buckets)
    }

    /// Whether a file is live at a level. False: it is not. True: it is, or (once in 10^12 files)
    /// another one has the same hash.
    pub(super) fn holds(
        &self,
        partition: &[u8],
        bucket: i32,
        level: i32,
        file: &DataFileMeta,
    ) -> bool {
        let id = hash(partition, bucket, level, &file.file_name);
        self.files.contains_key(&id)
    }

    /// Whether a file is live at any level.
    pub(super) fn holds_somewhere(
        &self,
        partition: &[u8],
        bucket: i32,
        file: &DataFileMeta,
    ) -> bool {
        (0..=self.level_max).any(|level| self.holds(partition, bucket, level, file))
    }
}

fn hash(partition: &[u8], bucket: i32, level: i32, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (partition, bucket, level, name).hash(&mut hasher);
    hasher.finish()
}
