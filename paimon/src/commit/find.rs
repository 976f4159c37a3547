//! Whether a commit is in the table already.

use std::{cmp::Ordering, collections::HashSet};

use futures::future::try_join_all;

use crate::{
    error::Result,
    snapshot::{CommitKind, PaimonSnapshot},
    table::Table,
};

use super::{CommitRequest, TableCommitter};

/// Snapshots that are read at once when walking back.
const READS_MAX: i64 = 16;

/// Which snapshots of a request are in the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The APPEND or OVERWRITE.
    pub(super) first: Option<i64>,
    /// The COMPACT behind it.
    pub(super) compact: Option<i64>,
    /// Snapshots that might have been them have expired: what was not found may have been there.
    pub(super) expired: bool,
}

impl Found {
    pub(super) fn newest(self) -> Option<i64> {
        self.compact.or(self.first)
    }
}

impl Table {
    /// The newest snapshot that (user, identifier) made, if it is still there.
    pub async fn find_commit(&self, user: &str, identifier: i64) -> Result<Option<i64>> {
        let Some(latest) = self.latest_snapshot().await? else {
            return Ok(None);
        };
        let found = self.walk_back(&latest, 0, user, identifier).await?;
        Ok(found.newest())
    }

    /// Looks at snapshots from `latest` down to, not including, `end`, until an older commit of the
    /// same user.
    async fn walk_back(
        &self,
        latest: &PaimonSnapshot,
        end: i64,
        user: &str,
        identifier: i64,
    ) -> Result<Found> {
        let end = end.max(0);
        let mut found = Found::default();
        let mut some = vec![Some(latest.clone())];
        let mut next = latest.id - 1;
        loop {
            for snapshot in some {
                let Some(snapshot) = snapshot else {
                    found.expired = true;
                    return Ok(found);
                };
                if snapshot.commit_user != user {
                    continue;
                }
                match snapshot.commit_identifier.cmp(&identifier) {
                    // The COMPACT stands behind the other, so the walk meets it first.
                    Ordering::Equal if snapshot.commit_kind == CommitKind::Compact => {
                        found.compact.get_or_insert(snapshot.id);
                    }
                    Ordering::Equal => {
                        found.first = Some(snapshot.id);
                        return Ok(found);
                    }
                    Ordering::Less => return Ok(found),
                    Ordering::Greater => {}
                }
            }
            if next <= end {
                return Ok(found);
            }
            let last = end.max(next - READS_MAX);
            some = try_join_all((last + 1..=next).rev().map(|id| self.snapshot(id))).await?;
            next = last;
        }
    }
}

impl TableCommitter {
    /// The snapshots of a former try of this request; `searched` and those before are known not to
    /// be them.
    pub(super) async fn find_request(
        &self,
        request: &CommitRequest,
        searched: Option<i64>,
    ) -> Result<Found> {
        let Some(latest) = &self.view.snapshot else {
            return Ok(Found::default());
        };
        let end = searched.unwrap_or(0);
        if latest.id <= end {
            return Ok(Found::default());
        }
        let mut found = self
            .table
            .walk_back(latest, end, &request.user, request.identifier)
            .await?;
        if found.expired && found.newest().is_none() {
            self.find_files(request, latest, &mut found).await?;
        }
        Ok(found)
    }

    /// Our snapshots may have expired: are the files of the request in the manifests that are
    /// left, added or deleted? What is found counts as the newest snapshot.
    async fn find_files(
        &self,
        request: &CommitRequest,
        latest: &PaimonSnapshot,
        found: &mut Found,
    ) -> Result<()> {
        let new = request.messages.iter().flat_map(|it| &it.new_files);
        let new: HashSet<&str> = new.map(|file| file.file_name.as_str()).collect();
        // A file that only changed its level has its name from before.
        let after = request.messages.iter().flat_map(|it| &it.compact.after);
        let after: HashSet<(&str, i32)> = after
            .map(|file| (file.file_name.as_str(), file.level))
            .collect();
        if new.is_empty() && after.is_empty() {
            return Ok(());
        }
        // The newest manifests may be merged ones, from which a file that was added and deleted
        // has gone; the oldest base and all deltas hold whatever has not expired.
        let mut manifests = self.view.manifests.clone();
        let mut oldest = true;
        for id in self.table.snapshot_ids().await? {
            let Some(snapshot) = self.table.snapshot(id).await? else {
                continue;
            };
            manifests.extend(match oldest {
                true => self.table.manifests(&snapshot).await?,
                false => {
                    let delta = &snapshot.delta_manifest_list;
                    self.table.read_manifest_list(delta).await?
                }
            });
            oldest = false;
        }
        let mut seen = HashSet::new();
        manifests.retain(|meta| seen.insert(meta.file_name.clone()));
        self.table
            .for_each_manifest(&manifests, |entries| {
                for file in entries.iter().map(|entry| &entry.file) {
                    let name = file.file_name.as_str();
                    if new.contains(name) {
                        found.first = Some(latest.id);
                    }
                    if after.contains(&(name, file.level)) {
                        found.compact = Some(latest.id);
                    }
                }
            })
            .await
    }
}
