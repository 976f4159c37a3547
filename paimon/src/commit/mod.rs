//! Commits: make files visible, all at once, exactly once.
//!
//! A commit writes a manifest of its files, a list of all manifests before (`base`) and a list of
//! its own (`delta`), and then creates `snapshot-<n>`, which must not exist. Whoever loses that race
//! deletes what it wrote, looks at what the winner did, checks everything again and tries n+1. A
//! process that dies between two steps leaves only files that nobody refers to.
//!
//! ```text
//! view.advance → committed already? → check → lane::place → manifests, lists → create snapshot-n
//!      ▲                                                                            │ lost
//!      └──────────────────────────────── delete ◄───────────────────────────────────┘
//! ```
//!
//! Source: `org.apache.paimon.operation.FileStoreCommitImpl`.

mod base;
mod check;
mod find;
mod lane;
mod live;
mod manifest_files;
mod publish;
mod view;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rand::Rng;

use crate::{
    data_file_meta::CommitMessage,
    error::{Error, Result},
    manifest::ManifestEntry,
    manifest_list::ManifestFileMeta,
    table::Table,
};

use self::{publish::Published, view::View};

pub use self::live::LiveFile;

/// Races that one commit may lose before it gives up.
const RACES_MAX: u32 = 200;
/// Longest wait after a lost race, milliseconds.
const BACKOFF_MAX_MS: u64 = 1000;

/// What one commit adds to a table.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// Who commits.
    pub user: String,
    /// Number of the commit, ascending among those of the user and never used twice.
    pub identifier: i64,
    /// New files; their order is the order in the manifest.
    pub messages: Vec<CommitMessage>,
    /// Event time up to which the table is complete, milliseconds since the epoch. A snapshot never
    /// goes back behind the one before.
    pub watermark_ms: Option<i64>,
    /// What shall be found in the snapshot.
    pub properties: BTreeMap<String, String>,
    /// What the committer believes of the table.
    pub expect: Option<Expect>,
}

/// What a committer believes of the table; if it is wrong the commit is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// Our last snapshot of this table. It must still be in the chain, or have expired.
    pub last_snapshot: Option<i64>,
    /// Commit user of that snapshot.
    pub last_user: String,
    /// Commit identifier of that snapshot.
    pub last_identifier: i64,
}

/// How a commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It made this snapshot.
    Committed {
        /// Id.
        snapshot: i64,
        /// Greatest sequence number of all files seen in the table, those of other writers and of
        /// this commit included. Who goes on from above it wins over what others wrote meanwhile.
        max_sequence_number: Option<i64>,
    },
    /// A former try of the same request is in the table.
    AlreadyCommitted {
        /// Id of the snapshot it made; when that has expired, of the newest.
        snapshot: i64,
    },
}

impl Table {
    /// Commits once, reading all manifests first. Who commits often keeps a [`TableCommitter`].
    ///
    /// # Errors
    /// As [`TableCommitter::commit`].
    pub async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome> {
        TableCommitter::new(self.clone()).commit(request).await
    }
}

/// Commits to one table; remembers what the table looks like, so that a commit costs the same
/// however large the table is. Keeps 8 bytes a live file and the key range of each file above
/// level 0.
#[derive(Debug)]
pub struct TableCommitter {
    table: Table,
    view: View,
}

/// Manifests of the request's files, kept over lost races while the levels stay the same.
struct Delta {
    entries: Arc<Vec<ManifestEntry>>,
    manifests: Vec<ManifestFileMeta>,
}

impl TableCommitter {
    /// A committer that knows nothing yet; nothing is read.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            view: View::default(),
        }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Goes on with a newer schema of the same table.
    pub fn set_table(&mut self, table: Table) {
        self.table = table;
    }

    /// Greatest sequence number of all files seen, those of other writers included; brought up to
    /// date first.
    pub async fn max_sequence_number(&mut self) -> Result<Option<i64>> {
        self.view.advance(&self.table).await?;
        Ok(self.view.max_sequence_number)
    }

    /// The snapshot of a former try of this request, `None` when there was none. Also finds tries
    /// whose snapshot has expired, by their files in the manifests that are left; then it is the
    /// newest snapshot. Ask before [`Table::missing_files`]: files of a commit that took place may
    /// have been compacted away since.
    ///
    /// # Errors
    /// What the store says.
    pub async fn find_commit(&mut self, request: &CommitRequest) -> Result<Option<i64>> {
        self.view.advance(&self.table).await?;
        let searched = request
            .expect
            .as_ref()
            .and_then(|expect| expect.last_snapshot);
        self.find_request(request, searched).await
    }

    /// Makes the files of a request visible in one APPEND snapshot, unless they are already.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the table is not what the request was made for; [`Error::Store`]
    /// when the store fails: then it is not known whether the commit took place, and the same
    /// request must be made again until it is answered.
    pub async fn commit(&mut self, request: &CommitRequest) -> Result<CommitOutcome> {
        let mut delta: Option<Delta> = None;
        let outcome = self.race(request, &mut delta).await;
        let unclear = matches!(&outcome, Err(error) if error.is_transient());
        if !unclear && !matches!(outcome, Ok(CommitOutcome::Committed { .. })) {
            self.discard(delta.iter().flat_map(|delta| delta.names()))
                .await;
        }
        outcome
    }

    async fn race(
        &mut self,
        request: &CommitRequest,
        delta: &mut Option<Delta>,
    ) -> Result<CommitOutcome> {
        let mut searched = request
            .expect
            .as_ref()
            .and_then(|expect| expect.last_snapshot);
        for race in 0..RACES_MAX {
            self.view.advance(&self.table).await?;
            if let Some(snapshot) = self.find_request(request, searched).await? {
                return Ok(CommitOutcome::AlreadyCommitted { snapshot });
            }
            check::check(&self.table, &self.view, request).await?;
            searched = self
                .view
                .snapshot
                .as_ref()
                .map(|latest| latest.id)
                .max(searched);
            match self.publish(request, delta).await? {
                Published::Yes(snapshot) => {
                    self.table.write_hints(snapshot).await;
                    return Ok(CommitOutcome::Committed {
                        snapshot,
                        max_sequence_number: self.view.max_sequence_number,
                    });
                }
                Published::Lost => {
                    tracing::debug!(
                        table = self.table.name(),
                        race,
                        "lost the race for a snapshot"
                    );
                    backoff(race).await;
                }
            }
        }
        Err(Error::Conflict {
            table: self.table.name().to_owned(),
            message: format!("{RACES_MAX} races for the next snapshot lost, one after the other"),
        })
    }

    /// Deletes metadata that no snapshot names. What can't be deleted is left to orphan cleaning.
    async fn discard(&self, names: impl Iterator<Item = String>) {
        for name in names {
            let path = self.table.manifest_path(&name);
            if let Err(error) = crate::storage::delete(self.table.store().as_ref(), &path).await {
                tracing::debug!(table = self.table.name(), %error, "left behind");
            }
        }
    }
}

impl Delta {
    fn names(&self) -> Vec<String> {
        self.manifests
            .iter()
            .map(|meta| meta.file_name.clone())
            .collect()
    }
}

async fn backoff(race: u32) {
    let ceiling = (4u64 << race.min(10)).min(BACKOFF_MAX_MS);
    let wait = rand::rng().random_range(0..=ceiling);
    tokio::time::sleep(Duration::from_millis(wait)).await;
}

#[cfg(test)]
pub(crate) mod tests;
