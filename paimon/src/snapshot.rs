//! Snapshots: the files `snapshot/snapshot-<n>`, one a commit, and how the newest is found.
//!
//! Source: `org.apache.paimon.Snapshot`, `SnapshotManager`, `HintFileUtils`.

use std::collections::BTreeMap;

use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    storage,
    table::Table,
};

/// Steps that are walked from a hint before the folder is listed.
const STEPS_MAX: i64 = 16;

/// What a commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CommitKind {
    /// Files were added.
    Append,
    /// Files were replaced by others with the same content.
    Compact,
    /// Partitions or the whole table were replaced.
    Overwrite,
    /// Statistics were written.
    Analyze,
    /// Something that later versions of the format do. Its manifests say what.
    #[serde(other)]
    Other,
}

/// A state of the table, version 3 of the format. Members that other writers add are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaimonSnapshot {
    /// Version of the format, 3; 0 in the oldest files, which leave it out.
    #[serde(default)]
    pub version: i32,
    /// From 1.
    pub id: i64,
    /// Newest schema of the table when it was made.
    pub schema_id: i64,
    /// Manifest list of all that was there before.
    pub base_manifest_list: String,
    /// Bytes of that list; older writers leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_manifest_list_size: Option<i64>,
    /// Manifest list of what this commit changed.
    pub delta_manifest_list: String,
    /// Bytes of that list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_manifest_list_size: Option<i64>,
    /// Manifest list of changelog files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_manifest_list: Option<String>,
    /// Bytes of that list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_manifest_list_size: Option<i64>,
    /// Manifest of index files: deletion vectors, hashes of dynamic buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_manifest: Option<String>,
    /// Who committed.
    pub commit_user: String,
    /// Number of the commit among those of its user.
    pub commit_identifier: i64,
    /// What it did.
    pub commit_kind: CommitKind,
    /// When, milliseconds since the epoch.
    pub time_millis: i64,
    /// Rows in all live files, deletes and superseded versions included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_record_count: Option<i64>,
    /// Rows in added files minus rows in deleted ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_record_count: Option<i64>,
    /// Rows in changelog files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_record_count: Option<i64>,
    /// Event time up to which the table is complete, milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<i64>,
    /// File of the table's statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<String>,
    /// What the committer wants to be found here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
    /// Next row id, for tables with row tracking; 0 otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_row_id: Option<i64>,
}

impl Table {
    pub(crate) fn snapshot_path(&self, id: i64) -> Path {
        self.path()
            .clone()
            .join("snapshot")
            .join(format!("snapshot-{id}"))
    }

    fn hint_path(&self, name: &str) -> Path {
        self.path().clone().join("snapshot").join(name)
    }

    /// A snapshot by its id; `None` when it was never made or has expired.
    pub async fn snapshot(&self, id: i64) -> Result<Option<PaimonSnapshot>> {
        let path = self.snapshot_path(id);
        let Some(bytes) = storage::get(self.store().as_ref(), &path).await? else {
            return Ok(None);
        };
        let damaged = |message: String| Error::Corrupt {
            path: path.to_string(),
            message,
        };
        let snapshot: PaimonSnapshot =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if snapshot.version > 3 {
            return Err(Error::Unsupported(format!(
                "{path} has version {}, this program knows up to 3",
                snapshot.version
            )));
        }
        if snapshot.id != id {
            return Err(damaged(format!("it says that its id is {}", snapshot.id)));
        }
        Ok(Some(snapshot))
    }

    /// What `read` makes of the newest snapshot, `None` while there is none. Where that snapshot
    /// expires while it is read, the next one is taken.
    ///
    /// # Errors
    /// Those of `read`; [`Error::Table`] when snapshots expire faster than they can be read.
    pub async fn at_newest<T, R: Future<Output = Result<T>>>(
        &self,
        mut read: impl FnMut(PaimonSnapshot) -> R,
    ) -> Result<Option<T>> {
        let mut expiries = Expiries::default();
        loop {
            let Some(snapshot) = self.latest_snapshot().await? else {
                return Ok(None);
            };
            match read(snapshot.clone()).await {
                Ok(value) => return Ok(Some(value)),
                Err(error) => expiries.explain(self, &snapshot, error).await?,
            }
        }
    }

    /// The newest snapshot; `None` while nothing is committed.
    pub async fn latest_snapshot(&self) -> Result<Option<PaimonSnapshot>> {
        self.latest_snapshot_after(None).await
    }

    /// As [`Table::latest_snapshot`], by one who saw snapshot `known` and needs no hint.
    pub(crate) async fn latest_snapshot_after(
        &self,
        mut known: Option<i64>,
    ) -> Result<Option<PaimonSnapshot>> {
        // Another one may be made, and old ones expire, while we look.
        for _ in 0..STEPS_MAX {
            let Some(id) = self.latest_snapshot_id(known.take()).await? else {
                return Ok(None);
            };
            if let Some(snapshot) = self.snapshot(id).await? {
                return Ok(Some(snapshot));
            }
        }
        Err(Error::Table {
            table: self.name().to_owned(),
            message: "its newest snapshot disappears whenever it is looked at; is another program \
                      rolling it back or dropping it?"
                .into(),
        })
    }

    /// Id of the newest snapshot. The hint only saves listing the folder: it is believed when the
    /// snapshot it names is there and the next one is not.
    async fn latest_snapshot_id(&self, known: Option<i64>) -> Result<Option<i64>> {
        let store = self.store().as_ref();
        let hint = match known {
            Some(id) => Some(id),
            None => self.hint("LATEST").await,
        };
        if let Some(hint) = hint
            && storage::exists(store, &self.snapshot_path(hint)).await?
        {
            let mut newest = hint;
            while storage::exists(store, &self.snapshot_path(newest + 1)).await? {
                newest += 1;
                if newest - hint > STEPS_MAX {
                    return Ok(self.snapshot_ids().await?.last().copied());
                }
            }
            return Ok(Some(newest));
        }
        Ok(self.snapshot_ids().await?.last().copied())
    }

    /// Ids of all snapshots that are there, ascending.
    pub async fn snapshot_ids(&self) -> Result<Vec<i64>> {
        storage::numbered(
            self.store().as_ref(),
            &self.path().clone().join("snapshot"),
            "snapshot-",
        )
        .await
    }

    async fn hint(&self, name: &str) -> Option<i64> {
        let bytes = storage::get(self.store().as_ref(), &self.hint_path(name)).await;
        std::str::from_utf8(&bytes.ok()??).ok()?.trim().parse().ok()
    }

    /// Writes the hint after snapshot `id` was made. Best effort: nobody depends on it. Hint
    /// `EARLIEST` comes with the first expiry: until then the few snapshots are listed.
    pub(crate) async fn write_hint(&self, id: i64) {
        let path = self.hint_path("LATEST");
        let text = id.to_string().into_bytes();
        if let Err(error) = storage::put(self.store().as_ref(), &path, text).await {
            tracing::debug!(table = self.name(), %error, "hint not written");
        }
    }
}

/// Newest snapshots that expired, one after the other, while they were read.
#[derive(Debug, Default)]
pub(crate) struct Expiries(u32);

impl Expiries {
    const MAX: u32 = 20;

    /// What failed was reading this snapshot, the newest one a moment ago. `Ok`: it has expired
    /// since, or is about to (its own file goes last), and the newest one is to be read instead.
    pub(crate) async fn explain(
        &mut self,
        table: &Table,
        snapshot: &PaimonSnapshot,
        error: Error,
    ) -> Result<()> {
        if !error.is_missing() {
            return Err(error);
        }
        let newest = table.latest_snapshot_after(Some(snapshot.id)).await?;
        if newest.is_some_and(|newest| newest == *snapshot) {
            return Err(error);
        }
        self.0 += 1;
        if self.0 < Self::MAX {
            return Ok(());
        }
        Err(Error::Table {
            table: table.name().to_owned(),
            message: format!(
                "{} snapshots, the last of them {}, expired while they were read: let the table \
                 keep them for longer (options snapshot.num-retained.min, snapshot.time-retained, \
                 and the expiry of other programs)",
                self.0, snapshot.id
            ),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As Java 1.4.2 writes it, with members of later writers.
    pub(crate) const JAVA: &str = r#"{"version":3,"uuid":"x","id":2,"schemaId":0,"baseManifestList":"manifest-list-a-0",
"baseManifestListSize":1110,"deltaManifestList":"manifest-list-a-1","deltaManifestListSize":1113,
"commitUser":"oracle","commitIdentifier":2,"commitKind":"APPEND","timeMillis":1796003294432,
"totalRecordCount":6,"deltaRecordCount":3,"watermark":null,"operation":"WRITE","nextRowId":0}"#;

    #[test]
    fn members_are_written_as_java_does() {
        let snapshot: PaimonSnapshot = serde_json::from_str(JAVA).unwrap();
        assert_eq!(snapshot.commit_kind, CommitKind::Append);
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(
            text,
            JAVA.replace("\n", "")
                .replace(r#""uuid":"x","#, "")
                .replace(r#""watermark":null,"operation":"WRITE","#, "")
        );
    }
}

#[cfg(test)]
mod expiry_tests;
