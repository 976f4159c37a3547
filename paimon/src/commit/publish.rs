//! One try: write the manifests and lists, create the snapshot, make sure of the answer.

use std::{collections::BTreeMap, sync::Arc};

use futures::try_join;

use crate::{
    error::{Error, Result},
    index_manifest::{self, IndexManifestEntry},
    manifest::FileKind,
    schema::now_ms,
    snapshot::{CommitKind, PaimonSnapshot},
    storage,
};

use super::{
    CommitRequest, Delta, TableCommitter,
    base::{self, Base, Thresholds},
    change::Change,
    names::Names,
};

/// How a try ended.
pub(super) enum Published {
    /// This snapshot is ours.
    Yes(i64),
    /// Another committer made it.
    Lost,
}

impl TableCommitter {
    /// Writes what `change` says and creates the snapshot.
    pub(super) async fn publish(
        &mut self,
        request: &CommitRequest,
        change: Change,
        names: &mut Names,
        delta: &mut Option<Delta>,
    ) -> Result<Published> {
        let schema_id = self.schema_id(&change);
        let entries = Arc::new(change.entries);
        let target = Thresholds::of(self.table.schema()).target_size;
        let target = usize::try_from(target).unwrap_or(usize::MAX);
        let changelog = Arc::new(change.changelog);
        if delta
            .as_ref()
            .is_none_or(|delta| delta.entries != entries || delta.changes != changelog)
        {
            if let Some(stale) = delta.take() {
                self.discard(stale.names().into_iter()).await;
            }
            let manifests = self
                .table
                .write_manifests(names, &entries, target, schema_id)
                .await?;
            let changelog_manifests = self
                .table
                .write_manifests(names, &changelog, target, schema_id)
                .await?;
            *delta = Some(Delta {
                entries,
                manifests,
                changes: changelog,
                changelog_manifests,
            });
        }
        let Some(new) = delta.as_ref() else {
            return Err(Error::Internal("a commit without its manifests".into()));
        };
        let base = base::merge(&self.table, &self.view.manifests, names, schema_id).await?;
        let mut snapshot = self.next_snapshot(request, change.kind, new, schema_id);
        let mut written = self.write_lists(&mut snapshot, &base, new, names).await?;
        if let Some(entries) = &change.index {
            let index = self.write_index_manifest(entries, names).await?;
            written.extend(index.clone());
            snapshot.index_manifest = index;
        }

        if !self.create_snapshot(&snapshot).await? {
            self.discard(written.into_iter().chain(base.written)).await;
            return Ok(Published::Lost);
        }
        // Visible: from here on nobody may delete what it is made of.
        let Some(new) = delta.take() else {
            return Err(Error::Internal("a commit without its manifests".into()));
        };
        if let Err(error) = self.fence(&snapshot, request).await {
            if matches!(error, Error::Conflict { .. }) {
                let names = written.into_iter().chain(base.written).chain(new.names());
                self.discard(names).await;
            }
            return Err(error);
        }
        self.view.apply(&new.entries);
        self.view.manifests = base.manifests;
        self.view.manifests.extend(new.manifests);
        let id = snapshot.id;
        self.view.snapshot = Some(snapshot);
        Ok(Published::Yes(id))
    }

    /// Writes the manifest lists and names them in the snapshot.
    async fn write_lists(
        &self,
        snapshot: &mut PaimonSnapshot,
        base: &Base,
        new: &Delta,
        names: &mut Names,
    ) -> Result<Vec<String>> {
        let (base_name, delta_name) = (names.manifest_list(), names.manifest_list());
        let (base_list, delta_list) = try_join!(
            self.table.write_manifest_list(base_name, &base.manifests),
            self.table.write_manifest_list(delta_name, &new.manifests),
        )?;
        let mut written = vec![base_list.name.clone(), delta_list.name.clone()];
        snapshot.base_manifest_list = base_list.name;
        snapshot.base_manifest_list_size = Some(base_list.size);
        snapshot.delta_manifest_list = delta_list.name;
        snapshot.delta_manifest_list_size = Some(delta_list.size);
        if !new.changelog_manifests.is_empty() {
            let list = self
                .table
                .write_manifest_list(names.manifest_list(), &new.changelog_manifests)
                .await?;
            written.push(list.name.clone());
            snapshot.changelog_manifest_list = Some(list.name);
            snapshot.changelog_manifest_list_size = Some(list.size);
            let rows = new.changes.iter().map(|entry| entry.file.row_count).sum();
            snapshot.changelog_record_count = Some(rows);
        }
        Ok(written)
    }

    /// Name of the new index manifest; `None` when there is no index file left.
    async fn write_index_manifest(
        &self,
        entries: &[IndexManifestEntry],
        names: &mut Names,
    ) -> Result<Option<String>> {
        if entries.is_empty() {
            return Ok(None);
        }
        let name = names.index_manifest();
        let bytes = index_manifest::encode(entries)?;
        let path = self.table.manifest_path(&name);
        storage::put(self.table.store().as_ref(), &path, bytes).await?;
        Ok(Some(name))
    }

    fn schema_id(&self, change: &Change) -> i64 {
        let added = change
            .entries
            .iter()
            .filter(|entry| entry.kind == FileKind::Add);
        let newest = added.map(|entry| entry.file.schema_id).max();
        let latest = self.view.snapshot.as_ref();
        let latest = latest.map_or(0, |latest| latest.schema_id);
        let own = self.table.schema().id;
        own.max(newest.unwrap_or_default()).max(latest)
    }

    /// The snapshot to be, still without its lists.
    fn next_snapshot(
        &self,
        request: &CommitRequest,
        kind: CommitKind,
        new: &Delta,
        schema_id: i64,
    ) -> PaimonSnapshot {
        let latest = self.view.snapshot.as_ref();
        // Physical rows: negative when a compaction or an overwrite leaves fewer.
        let added: i64 = new
            .entries
            .iter()
            .map(|entry| match entry.kind {
                FileKind::Add => entry.file.row_count,
                FileKind::Delete => -entry.file.row_count,
            })
            .sum();
        let before = latest.map_or(Some(0), |latest| latest.total_record_count);
        PaimonSnapshot {
            version: 3,
            id: latest.map_or(1, |latest| latest.id + 1),
            schema_id,
            base_manifest_list: String::new(),
            base_manifest_list_size: None,
            delta_manifest_list: String::new(),
            delta_manifest_list_size: None,
            changelog_manifest_list: None,
            changelog_manifest_list_size: None,
            // Replaced when the commit changes any.
            index_manifest: latest.and_then(|latest| latest.index_manifest.clone()),
            commit_user: request.user.clone(),
            commit_identifier: request.identifier,
            commit_kind: kind,
            time_millis: now_ms(),
            total_record_count: before.map(|before| before + added),
            delta_record_count: Some(added),
            changelog_record_count: None,
            watermark: request
                .watermark_ms
                .max(latest.and_then(|latest| latest.watermark)),
            statistics: latest
                .filter(|latest| latest.schema_id == schema_id)
                .and_then(|latest| latest.statistics.clone()),
            properties: properties(request, kind, latest),
            next_row_id: Some(latest.and_then(|latest| latest.next_row_id).unwrap_or(0)),
        }
    }

    /// Creates the snapshot's file; false when another one is there. An answer that does not say
    /// which is settled by reading back: the lists' names are ours alone.
    async fn create_snapshot(&self, snapshot: &PaimonSnapshot) -> Result<bool> {
        let text = serde_json::to_vec_pretty(snapshot)
            .map_err(|error| Error::Internal(format!("cannot write a snapshot: {error}")))?;
        let path = self.table.snapshot_path(snapshot.id);
        let answer = storage::create(self.table.store().as_ref(), &path, text).await;
        if matches!(answer, Ok(true)) {
            return Ok(true);
        }
        match (self.table.snapshot(snapshot.id).await, answer) {
            (Ok(Some(found)), _) => Ok(found.delta_manifest_list == snapshot.delta_manifest_list),
            // Made and gone again (rolled back): ours or not, it isn't there now.
            (Ok(None), Ok(_)) => Ok(false),
            (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }

    /// The snapshot before must still be there, or we created one that had expired: a process that
    /// slept while others committed and expired. Such a snapshot is void.
    async fn fence(&self, snapshot: &PaimonSnapshot, request: &CommitRequest) -> Result<()> {
        let table = &self.table;
        if snapshot.id == 1
            || storage::exists(
                table.store().as_ref(),
                &table.snapshot_path(snapshot.id - 1),
            )
            .await?
        {
            return Ok(());
        }
        let ids = table.snapshot_ids().await?;
        let below = ids.iter().any(|id| *id < snapshot.id);
        let above = ids.iter().any(|id| *id > snapshot.id);
        // Expired right after our commit, by one who keeps very few: nothing is wrong.
        if !below && (!above || self.is_built_upon(snapshot).await?) {
            return Ok(());
        }
        storage::delete(table.store().as_ref(), &table.snapshot_path(snapshot.id)).await?;
        Err(Error::Conflict {
            table: table.name().to_owned(),
            message: format!(
                "commit {} by '{}' made snapshot {} after others had made and removed it; it is \
                 withdrawn. This process was asleep, or the table was rolled back meanwhile: commit \
                 again",
                request.identifier, request.user, snapshot.id
            ),
        })
    }

    /// Whether the snapshot after this one holds its manifests.
    async fn is_built_upon(&self, snapshot: &PaimonSnapshot) -> Result<bool> {
        let Some(next) = self.table.snapshot(snapshot.id + 1).await? else {
            return Ok(false);
        };
        let base = self
            .table
            .read_manifest_list(&next.base_manifest_list)
            .await?;
        let ours = self
            .table
            .read_manifest_list(&snapshot.delta_manifest_list)
            .await?;
        Ok(ours
            .iter()
            .all(|meta| base.iter().any(|other| other.file_name == meta.file_name)))
    }
}

/// A compaction changes no row: its snapshot says what the one before it says, which may be newer
/// than what the compaction was made from.
fn properties(
    request: &CommitRequest,
    kind: CommitKind,
    latest: Option<&PaimonSnapshot>,
) -> Option<BTreeMap<String, String>> {
    let own = || (!request.properties.is_empty()).then(|| request.properties.clone());
    match (kind, latest) {
        (CommitKind::Compact, Some(latest)) => latest.properties.clone().or_else(own),
        _ => own(),
    }
}
