//! Whether a commit is in the table already.

use std::{cmp::Ordering, collections::HashSet};

use futures::future::try_join_all;

use crate::{error::Result, snapshot::PaimonSnapshot, table::Table};

use super::{CommitRequest, TableCommitter};

/// Snapshots that are read at once when walking back.
const READS_MAX: i64 = 16;

/// What a walk from the newest snapshot back met first.
enum Met {
    /// The commit.
    Found(i64),
    /// An older commit of the same user, or the end of the range: it isn't there.
    No,
    /// Snapshots that have expired: it may have been there.
    Expired,
}

impl Table {
    /// The snapshot that (user, identifier) made, if it is still there.
    pub async fn find_commit(&self, user: &str, identifier: i64) -> Result<Option<i64>> {
        let Some(latest) = self.latest_snapshot().await? else {
            return Ok(None);
        };
        Ok(match self.walk_back(&latest, 0, user, identifier).await? {
            Met::Found(id) => Some(id),
            Met::No | Met::Expired => None,
        })
    }

    /// Looks at snapshots from `latest` down to, not including, `end`.
    async fn walk_back(
        &self,
        latest: &PaimonSnapshot,
        end: i64,
        user: &str,
        identifier: i64,
    ) -> Result<Met> {
        let end = end.max(0);
        let mut some = vec![Some(latest.clone())];
        let mut next = latest.id - 1;
        loop {
            for snapshot in some {
                let Some(snapshot) = snapshot else {
                    return Ok(Met::Expired);
                };
                if snapshot.commit_user != user {
                    continue;
                }
                match snapshot.commit_identifier.cmp(&identifier) {
                    Ordering::Equal => return Ok(Met::Found(snapshot.id)),
                    Ordering::Less => return Ok(Met::No),
                    Ordering::Greater => {}
                }
            }
            if next <= end {
                return Ok(Met::No);
            }
            let last = end.max(next - READS_MAX);
            some = try_join_all((last + 1..=next).rev().map(|id| self.snapshot(id))).await?;
            next = last;
        }
    }
}

impl TableCommitter {
    /// The snapshot of a former try of this request; `searched` and those before are known not to
    /// be it.
    pub(super) async fn find_request(
        &self,
        request: &CommitRequest,
        searched: Option<i64>,
    ) -> Result<Option<i64>> {
        let Some(latest) = &self.view.snapshot else {
            return Ok(None);
        };
        let end = searched.unwrap_or(0);
        if latest.id <= end {
            return Ok(None);
        }
        match self
            .table
            .walk_back(latest, end, &request.user, request.identifier)
            .await?
        {
            Met::Found(id) => Ok(Some(id)),
            Met::No => Ok(None),
            Met::Expired => self.find_files(request, latest).await,
        }
    }

    /// Our snapshots may have expired: are the files of the request in the manifests that are
    /// left, added or deleted?
    async fn find_files(
        &self,
        request: &CommitRequest,
        latest: &PaimonSnapshot,
    ) -> Result<Option<i64>> {
        let names: HashSet<&str> = request
            .messages
            .iter()
            .flat_map(|message| &message.new_files)
            .map(|file| file.file_name.as_str())
            .collect();
        if names.is_empty() {
            return Ok(None);
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
        let mut found = false;
        self.table
            .for_each_manifest(&manifests, |entries| {
                found |= entries
                    .iter()
                    .any(|entry| names.contains(entry.file.file_name.as_str()));
            })
            .await?;
        Ok(found.then_some(latest.id))
    }
}
