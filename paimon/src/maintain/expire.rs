//! Expiry of snapshots, and of the changelogs that outlive them.
//!
//! ```text
//! begin … end-1 go, end … stay:   files that (begin, end] took away, unless a tag or a branch
//! needs them → changelog files → manifests that only [begin, end) name → their lists →
//! snapshot files, the oldest first → EARLIEST
//! ```
//! A snapshot's file goes last, so that who is killed finds all that is left by starting again. Two
//! that expire at once delete the same files, or one of them more.
//!
//! Source: `org.apache.paimon.table.{ExpireSnapshotsImpl,ExpireChangelogImpl}`,
//! `org.apache.paimon.operation.{SnapshotDeletion,ChangelogDeletion}`.

use std::collections::BTreeSet;

use crate::{
    error::Result, manifest::ManifestEntry, schema::now_ms, snapshot::PaimonSnapshot, storage,
    table::Table,
};

use super::{
    consumer,
    lineage::{self, Ids, Lineage, Record, Root},
    policy::{Retention, millis},
    reclaim::{DataFiles, Deleted, Lists, Metadata},
    tag::Tag,
};

/// What an expiry did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// Snapshots that went.
    pub snapshots: usize,
    /// Changelogs of former snapshots that went.
    pub changelogs: usize,
    /// Data and changelog files that went.
    pub files: usize,
    /// Their bytes.
    pub bytes: i64,
    /// Manifests, lists, index files and statistics that went.
    pub metadata_files: usize,
    /// Consumers that were forgotten.
    pub consumers: Vec<String>,
}

impl Table {
    /// Deletes old snapshots and all that only they need. Never what a tag, a branch, a snapshot
    /// that stays or a consumer still needs.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when a tag or branch cannot be read: then it is not known what it needs,
    /// and nothing is deleted. What the store says otherwise; call it again, it goes on.
    pub async fn expire_snapshots(&self, retention: &Retention) -> Result<Expired> {
        self.expire_at(retention, now_ms()).await
    }

    pub(super) async fn expire_at(&self, retention: &Retention, now_ms: i64) -> Result<Expired> {
        retention.check()?;
        let mut expired = Expired::default();
        if let Some(age) = retention.consumer_age_max {
            let before = now_ms.saturating_sub(millis(age));
            expired.consumers = consumer::forget(self, before).await?;
        }
        let main = Lineage::main(self);
        let mut ids = main.ids_by_hints(Record::Snapshot).await?;
        let mut end = self.end_of_expiry(&main, &ids, retention, now_ms).await?;
        if end.is_none() && !ids.are_listed {
            ids.ids = main.ids(Record::Snapshot).await?;
            ids.are_listed = true;
            end = self.end_of_expiry(&main, &ids, retention, now_ms).await?;
        }
        let ids = ids.ids;
        let (Some(earliest), Some(latest)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(expired);
        };
        if let Some(end) = end
            && end.min(latest) > earliest
        {
            self.expire_until(&main, &ids, end.min(latest), retention, &mut expired)
                .await?;
        }
        self.expire_changelogs(&main, latest, retention, now_ms, &mut expired)
            .await?;
        Ok(expired)
    }

    /// The first snapshot that stays. Reads no more than one that stays for its age. `None` where
    /// there is none, or one of those that are not listed is missing.
    async fn end_of_expiry(
        &self,
        main: &Lineage,
        ids: &Ids,
        retention: &Retention,
        now_ms: i64,
    ) -> Result<Option<i64>> {
        let Ids { ids, are_listed } = ids;
        let (Some(earliest), Some(latest)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(None);
        };
        let mut end = latest - retention.snapshots_min + 1;
        if !(retention.consumer_changelog_only && retention.changelog_is_decoupled())
            && let Some(next) = consumer::min_next_snapshot(self).await?
        {
            end = end.min(next);
        }
        end = end.min(earliest.saturating_add(retention.expire_limit));
        let young = now_ms.saturating_sub(millis(retention.snapshot_age_max));
        let too_many = (latest - retention.snapshots_max + 1).max(earliest);
        // A snapshot was the newest until the next one was made: its age counts from then on.
        for pair in ids.windows(2) {
            let [id, next] = pair else { continue };
            if *id < too_many || *id >= end {
                continue;
            }
            match main.read(Record::Snapshot, *next).await? {
                Some(next) if next.time_millis >= young => return Ok(Some(*id)),
                None if !are_listed => return Ok(None),
                _ => {}
            }
        }
        Ok(Some(end))
    }

    async fn expire_until(
        &self,
        main: &Lineage,
        ids: &[i64],
        end: i64,
        retention: &Retention,
        expired: &mut Expired,
    ) -> Result<()> {
        let mut going = Vec::new();
        for id in ids.iter().filter(|id| **id < end) {
            going.extend(main.read(Record::Snapshot, *id).await?);
        }
        // Another one may have expired further: then that is what stays.
        let mut first = None;
        for id in ids.iter().filter(|id| **id >= end) {
            first = main.read(Record::Snapshot, *id).await?;
            if first.is_some() {
                break;
            }
        }
        let (Some(begin), Some(first)) = (going.first().map(|snapshot| snapshot.id), first) else {
            return Ok(());
        };
        let decoupled = retention.changelog_is_decoupled();
        let tags = main.tags().await?;
        let branches = lineage::branch_roots(self).await?;

        let files = self
            .files_of_expiry(main, &going, &first, &tags, &branches, retention)
            .await?;
        let metadata = self
            .metadata_of_expiry(main, &going, &first, &tags, &branches, retention)
            .await?;
        let Deleted { files, bytes } = files.delete(self, retention.clean_empty_folders).await?;
        expired.files += files;
        expired.bytes += bytes;
        expired.metadata_files += metadata.delete(self).await?;
        for snapshot in &going {
            self.delete_snapshot(main, snapshot.id, decoupled).await?;
            expired.snapshots += 1;
        }
        hint_earliest(self, main, Record::Snapshot, first.id).await;
        tracing::debug!(
            table = self.name(),
            begin,
            end = first.id,
            files,
            "snapshots expired"
        );
        Ok(())
    }

    async fn files_of_expiry(
        &self,
        main: &Lineage,
        going: &[PaimonSnapshot],
        first: &PaimonSnapshot,
        tags: &[Tag],
        branches: &[Root],
        retention: &Retention,
    ) -> Result<DataFiles> {
        let decoupled = retention.changelog_is_decoupled();
        // Without changelog files the appended files are the changelog, and go with it.
        let keep = |entry: &ManifestEntry| {
            decoupled && !retention.produces_changelog && entry.file.file_source.unwrap_or(0) == 0
        };
        let mut files = DataFiles::default();
        let mut nearest = BTreeSet::new();
        // What a snapshot took away, the one before needs: so not what the first one took away.
        for snapshot in going.iter().skip(1).chain([first]) {
            files
                .add_deleted(self, &snapshot.delta_manifest_list, keep)
                .await?;
            // A tag that needs such a file is the last one before, or that one needs it too.
            let tag = tags.iter().rposition(|tag| tag.snapshot.id < snapshot.id);
            nearest.extend(tag);
        }
        let mut roots: Vec<Root> = branches.to_vec();
        for tag in nearest.into_iter().filter_map(|at| tags.get(at)) {
            roots.push(main.tag_root(tag)?);
        }
        files.spare(self, &roots).await?;
        if !decoupled {
            let mut changes = DataFiles::default();
            for list in going
                .iter()
                .filter_map(|snapshot| snapshot.changelog_manifest_list.as_deref())
            {
                changes.add_added(self, list).await?;
            }
            changes.spare(self, branches).await?;
            files.extend(changes);
        }
        Ok(files)
    }

    async fn metadata_of_expiry(
        &self,
        main: &Lineage,
        going: &[PaimonSnapshot],
        first: &PaimonSnapshot,
        tags: &[Tag],
        branches: &[Root],
        retention: &Retention,
    ) -> Result<Metadata> {
        let decoupled = retention.changelog_is_decoupled();
        let lists = Lists {
            data: !decoupled || retention.produces_changelog,
            changelog: !decoupled,
            index: true,
        };
        let mut metadata = Metadata::default();
        for snapshot in going {
            metadata.add(self, snapshot, lists).await?;
        }
        let begin = going.first().map_or(first.id, |snapshot| snapshot.id);
        for root in roots_beside(main, tags, begin, first.id)?
            .iter()
            .chain(branches)
        {
            metadata.spare(self, root).await?;
        }
        let first = Root {
            path: main.record_path(Record::Snapshot, first.id),
            snapshot: first.clone(),
            changelog_only: false,
            keeps_changelog: true,
        };
        metadata.spare(self, &first).await?;
        Ok(metadata)
    }

    /// The last step: with decoupled changelogs the snapshot lives on as one.
    async fn delete_snapshot(&self, main: &Lineage, id: i64, decoupled: bool) -> Result<()> {
        let store = self.store().as_ref();
        let path = main.record_path(Record::Snapshot, id);
        if decoupled && let Some(bytes) = storage::get(store, &path).await? {
            let changelog = main.record_path(Record::Changelog, id);
            storage::put(store, &changelog, bytes.to_vec()).await?;
            hint(self, main, Record::Changelog, "LATEST", id).await;
        }
        storage::delete(store, &path).await
    }

    async fn expire_changelogs(
        &self,
        main: &Lineage,
        latest_snapshot: i64,
        retention: &Retention,
        now_ms: i64,
        expired: &mut Expired,
    ) -> Result<()> {
        let ids = main.ids_by_hints(Record::Changelog).await?.ids;
        let (Some(earliest), Some(latest)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(());
        };
        let mut end = (latest_snapshot - retention.changelogs_min + 1)
            .min(earliest.saturating_add(retention.expire_limit))
            .min(latest);
        if let Some(next) = consumer::min_next_snapshot(self).await? {
            end = end.min(next);
        }
        let young = now_ms.saturating_sub(millis(retention.changelog_age_max));
        let too_many = (latest_snapshot - retention.changelogs_max + 1).max(earliest);
        for id in ids.iter().filter(|id| **id >= too_many && **id < end) {
            if let Some(changelog) = main.read(Record::Changelog, *id).await?
                && changelog.time_millis >= young
            {
                end = *id;
                break;
            }
        }
        let mut going = Vec::new();
        for id in ids.iter().filter(|id| **id < end) {
            going.extend(main.read(Record::Changelog, *id).await?);
        }
        if going.is_empty() {
            return Ok(());
        }
        let (files, metadata) = self.garbage_of_changelogs(main, &ids, end, &going).await?;
        let Deleted { files, bytes } = files.delete(self, retention.clean_empty_folders).await?;
        expired.files += files;
        expired.bytes += bytes;
        expired.metadata_files += metadata.delete(self).await?;
        for changelog in &going {
            let path = main.record_path(Record::Changelog, changelog.id);
            storage::delete(self.store().as_ref(), &path).await?;
            expired.changelogs += 1;
        }
        let left = ids.iter().find(|id| **id >= end).copied().unwrap_or(end);
        hint_earliest(self, main, Record::Changelog, left).await;
        Ok(())
    }

    /// Files and metadata that only changelogs below `end` need.
    async fn garbage_of_changelogs(
        &self,
        main: &Lineage,
        ids: &[i64],
        end: i64,
        going: &[PaimonSnapshot],
    ) -> Result<(DataFiles, Metadata)> {
        let tags = main.tags().await?;
        let mut roots = lineage::branch_roots(self).await?;
        let begin = going.first().map_or(end, |changelog| changelog.id);
        roots.extend(roots_beside(main, &tags, begin, end)?);
        let mut files = DataFiles::default();
        let mut metadata = Metadata::default();
        for changelog in going {
            let produced = changelog.changelog_manifest_list.is_some();
            match &changelog.changelog_manifest_list {
                Some(list) => files.add_added(self, list).await?,
                None => {
                    let delta = &changelog.delta_manifest_list;
                    files.add_deleted(self, delta, |_| false).await?;
                }
            }
            let lists = Lists {
                data: !produced,
                changelog: produced,
                index: false,
            };
            metadata.add(self, changelog, lists).await?;
        }
        files.spare(self, &roots).await?;
        let first = ids.iter().find(|id| **id >= end);
        let mut stays = Vec::new();
        if let Some(id) = first {
            stays.extend(main.read(Record::Changelog, *id).await?);
        }
        if let Some(id) = main.ids_by_hints(Record::Snapshot).await?.ids.first() {
            stays.extend(main.read(Record::Snapshot, *id).await?);
        }
        roots.extend(stays.into_iter().map(|snapshot| Root {
            path: main.record_path(Record::Changelog, snapshot.id),
            snapshot,
            changelog_only: true,
            keeps_changelog: true,
        }));
        for root in &roots {
            metadata.spare(self, root).await?;
        }
        Ok((files, metadata))
    }
}

/// Tags that may share manifests with snapshots of `[begin, end)`: those within, and the last one
/// before.
fn roots_beside(main: &Lineage, tags: &[Tag], begin: i64, end: i64) -> Result<Vec<Root>> {
    let left = tags.iter().rposition(|tag| tag.snapshot.id <= begin);
    tags.iter()
        .skip(left.unwrap_or(0))
        .take_while(|tag| tag.snapshot.id < end)
        .map(|tag| main.tag_root(tag))
        .collect()
}

pub(super) async fn hint_earliest(table: &Table, main: &Lineage, record: Record, id: i64) {
    hint(table, main, record, "EARLIEST", id).await;
}

/// Writes a hint. Best effort: nobody depends on it.
pub(super) async fn hint(table: &Table, main: &Lineage, record: Record, name: &str, id: i64) {
    let path = main.hint_path(record, name);
    let written = storage::put(table.store().as_ref(), &path, id.to_string().into_bytes()).await;
    if let Err(error) = written {
        tracing::debug!(table = table.name(), %error, "hint not written");
    }
}
