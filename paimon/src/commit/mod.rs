//! Commits: make files visible, all at once, exactly once.
//!
//! A commit writes a manifest of its files, a list of all manifests before (`base`) and a list of
//! its own (`delta`), and then creates `snapshot-<n>`, which must not exist. Whoever loses that race
//! deletes what it wrote, looks at what the winner did, checks everything again and tries n+1. A
//! process that dies between two steps leaves only files that nobody refers to.
//!
//! ```text
//! view.advance → committed already? → check → change → manifests, lists → create snapshot-n
//!      ▲                                                                       │ lost
//!      └───────────────────────────── delete ◄─────────────────────────────────┘
//! ```
//!
//! A request may hold what a writer added and what compactions replaced. The first becomes an
//! APPEND (or OVERWRITE) snapshot, the second a COMPACT behind it, each with its own races. A process
//! that dies between them makes the same request again: the APPEND is found, and only the COMPACT is
//! made. A compaction that does not fit any more is dropped: what it read is still there.
//!
//! Source: `org.apache.paimon.operation.FileStoreCommitImpl`.

mod base;
mod change;
mod check;
mod find;
mod index;
mod lane;
mod live;
mod manifest_files;
mod names;
mod overwrite;
mod publish;
mod retry;
mod view;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use object_store::path::Path;

use crate::{
    data_file_meta::CommitMessage,
    error::{Error, Result},
    manifest::ManifestEntry,
    manifest_list::ManifestFileMeta,
    table::Table,
};

use self::{
    change::{Change, Part},
    find::Found,
    names::Names,
    publish::Published,
    retry::Retries,
    view::View,
};

pub use self::{live::LiveFile, overwrite::Scope};

/// What one commit changes in a table.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// Who commits.
    pub user: String,
    /// Number of the commit, ascending among those of the user and never used twice.
    pub identifier: i64,
    /// New files and compactions; their order is the order in the manifest.
    pub messages: Vec<CommitMessage>,
    /// Event time up to which the table is complete, milliseconds since the epoch. A snapshot never
    /// goes back behind the one before.
    pub watermark_ms: Option<i64>,
    /// What shall be found in the snapshot. A COMPACT has those of the snapshot before it, if that
    /// has any.
    pub properties: BTreeMap<String, String>,
    /// What the committer believes of the table.
    pub expect: Option<Expect>,
}

impl CommitRequest {
    /// A commit of these messages that says and expects nothing.
    pub fn new(user: impl Into<String>, identifier: i64, messages: Vec<CommitMessage>) -> Self {
        Self {
            user: user.into(),
            identifier,
            messages,
            watermark_ms: None,
            properties: BTreeMap::new(),
            expect: None,
        }
    }
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
        /// Id of the APPEND or OVERWRITE; of the COMPACT when there was nothing else to do.
        snapshot: i64,
        /// Greatest sequence number of all files seen in the table, those of other writers and of
        /// this commit included. Who goes on from above it wins over what others wrote meanwhile.
        max_sequence_number: Option<i64>,
        /// What became of the compactions.
        compacted: CompactOutcome,
    },
    /// A former try of the same request is in the table.
    AlreadyCommitted {
        /// Id of the snapshot it made; when that has expired, of the newest.
        snapshot: i64,
        /// What became of the compactions, in this try or the former.
        compacted: CompactOutcome,
    },
    /// Nothing was left to commit: all there was were compactions, and none fits any more; or it
    /// was an overwrite of the partitions touched, and none was.
    Dropped,
}

impl CommitOutcome {
    /// The COMPACT snapshot that this commit made.
    pub fn compact_snapshot(&self) -> Option<i64> {
        match self {
            Self::Committed {
                compacted: CompactOutcome::Done { snapshot, .. },
                ..
            } => Some(*snapshot),
            _ => None,
        }
    }
}

/// Sorted runs of the bucket that has the most of them: what a read of a key opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SortedRuns {
    /// Files on level 0, each a run of its own, and levels above that hold any.
    pub all: usize,
    /// Files on level 0, of the bucket that has the most of those.
    pub on_level_0: usize,
}

/// What became of the compactions of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactOutcome {
    /// There were none.
    Nothing,
    /// They made this COMPACT snapshot.
    Done {
        /// Id.
        snapshot: i64,
        /// Messages whose compaction did not fit any more and was left out; 0 when a former try
        /// made the snapshot.
        stale: usize,
    },
    /// None fits any more: a file that it replaces is gone (expired with its partition, compacted by
    /// another engine, rescaled), or it overlaps what came meanwhile. Files that it wrote are
    /// deleted. Not an error: nothing is lost but work.
    Stale,
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
    /// Changelog files.
    changes: Arc<Vec<ManifestEntry>>,
    changelog_manifests: Vec<ManifestFileMeta>,
}

/// How one of the snapshots of a request ended.
enum Stage {
    /// Made, without these messages.
    Made(i64, Vec<usize>),
    /// A former try made it, or one behind it.
    Found(Found),
    /// There is nothing left to do.
    Nothing,
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

    /// How many sorted runs the fullest bucket has, as of the last commit. Nothing is read.
    pub fn sorted_runs(&self) -> SortedRuns {
        self.view.sorted_runs()
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
        Ok(self.find_request(request, searched).await?.newest())
    }

    /// Makes the files of a request visible in one APPEND snapshot and its compactions in a COMPACT
    /// behind it, unless they are already.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the table is not what the request was made for; [`Error::Store`]
    /// when the store fails: then it is not known whether the commit took place, and the same
    /// request must be made again until it is answered.
    pub async fn commit(&mut self, request: &CommitRequest) -> Result<CommitOutcome> {
        self.perform(request, Part::Append).await
    }

    async fn perform(&mut self, request: &CommitRequest, first: Part<'_>) -> Result<CommitOutcome> {
        let mut names = Names::new();
        let mut searched = request
            .expect
            .as_ref()
            .and_then(|expect| expect.last_snapshot);
        let compacts = request.messages.iter().any(|it| !it.compact.is_empty());
        let adds = !compacts || first != Part::Append || request.messages.iter().any(has_first);
        let mut made = None;
        let mut found = Found::default();
        if adds {
            match self
                .stage(request, first, &mut names, &mut searched)
                .await?
            {
                Stage::Made(snapshot, _) => made = Some(snapshot),
                Stage::Found(earlier) => found = earlier,
                Stage::Nothing => return Ok(CommitOutcome::Dropped),
            }
        }
        let mut compacted = CompactOutcome::Nothing;
        if compacts {
            let stage = match found.compact {
                Some(_) => Stage::Found(found),
                None => {
                    self.stage(request, Part::Compact, &mut names, &mut searched)
                        .await?
                }
            };
            compacted = match stage {
                Stage::Made(snapshot, stale) => {
                    if !adds {
                        made = Some(snapshot);
                    }
                    self.delete_outputs(request, &stale).await;
                    CompactOutcome::Done {
                        snapshot,
                        stale: stale.len(),
                    }
                }
                Stage::Found(earlier) => {
                    found.compact = earlier.compact;
                    CompactOutcome::Done {
                        snapshot: earlier.compact.unwrap_or_default(),
                        stale: 0,
                    }
                }
                Stage::Nothing => {
                    // Where snapshots have expired it may have been there.
                    if !found.expired {
                        let all: Vec<usize> = (0..request.messages.len()).collect();
                        self.delete_outputs(request, &all).await;
                    }
                    CompactOutcome::Stale
                }
            };
        }
        Ok(match (made, found.first.or(found.compact)) {
            (Some(snapshot), _) => CommitOutcome::Committed {
                snapshot,
                max_sequence_number: self.view.max_sequence_number,
                compacted,
            },
            (None, Some(snapshot)) => CommitOutcome::AlreadyCommitted {
                snapshot,
                compacted,
            },
            (None, None) => CommitOutcome::Dropped,
        })
    }

    /// Makes one of the snapshots of a request, unless it is there.
    async fn stage(
        &mut self,
        request: &CommitRequest,
        part: Part<'_>,
        names: &mut Names,
        searched: &mut Option<i64>,
    ) -> Result<Stage> {
        let mut delta: Option<Delta> = None;
        let outcome = self.race(request, part, names, searched, &mut delta).await;
        let unclear = matches!(&outcome, Err(error) if error.is_transient());
        if !unclear && !matches!(outcome, Ok(Stage::Made(..))) {
            let names: Vec<String> = delta.iter().flat_map(Delta::names).collect();
            self.discard(names.into_iter()).await;
        }
        outcome
    }

    async fn race(
        &mut self,
        request: &CommitRequest,
        part: Part<'_>,
        names: &mut Names,
        searched: &mut Option<i64>,
        delta: &mut Option<Delta>,
    ) -> Result<Stage> {
        let mut retries = Retries::of(self.table.schema())?;
        loop {
            self.view.advance(&self.table).await?;
            let found = self.find_request(request, *searched).await?;
            let there = match part {
                Part::Compact => found.compact,
                Part::Append | Part::Overwrite(_) => found.newest(),
            };
            *searched = self
                .view
                .snapshot
                .as_ref()
                .map(|latest| latest.id)
                .max(*searched);
            if there.is_some() {
                return Ok(Stage::Found(found));
            }
            check::check(&self.table, &self.view, request, part).await?;
            let Some(mut change) = self.plan(request, part).await? else {
                return Ok(Stage::Nothing);
            };
            let stale = std::mem::take(&mut change.stale);
            match self.publish(request, change, names, delta).await? {
                Published::Yes(snapshot) => {
                    self.table.write_hint(snapshot).await;
                    *searched = Some(snapshot);
                    return Ok(Stage::Made(snapshot, stale));
                }
                Published::Lost => {
                    tracing::debug!(
                        table = self.table.name(),
                        lost = retries.lost,
                        "lost the race for a snapshot"
                    );
                    if !retries.again().await {
                        return Err(Error::Conflict {
                            table: self.table.name().to_owned(),
                            message: format!(
                                "{} races for the next snapshot lost, one after the other",
                                retries.lost
                            ),
                        });
                    }
                }
            }
        }
    }

    async fn plan(&self, request: &CommitRequest, part: Part<'_>) -> Result<Option<Change>> {
        let (table, view, messages) = (&self.table, &self.view, &request.messages);
        match part {
            Part::Append => change::append(table, view, messages).await.map(Some),
            Part::Overwrite(scope) => overwrite::overwrite(table, view, messages, scope).await,
            Part::Compact => change::compact(table, view, messages).await,
        }
    }

    /// Deletes what stale compactions of a request have written and nobody will ever refer to. What
    /// can't be deleted is left to orphan cleaning.
    async fn delete_outputs(&self, request: &CommitRequest, stale: &[usize]) {
        for path in self.stale_outputs(request, stale) {
            tracing::debug!(table = self.table.name(), %path, "stale compaction");
            if let Err(error) = crate::storage::delete(self.table.store().as_ref(), &path).await {
                tracing::debug!(table = self.table.name(), %error, "left behind");
            }
        }
    }

    fn stale_outputs(&self, request: &CommitRequest, stale: &[usize]) -> Vec<Path> {
        let new: HashSet<&str> = request
            .messages
            .iter()
            .flat_map(|message| &message.new_files)
            .map(|file| file.file_name.as_str())
            .collect();
        let mut paths = Vec::new();
        for message in stale.iter().filter_map(|at| request.messages.get(*at)) {
            let (partition, bucket) = (&message.partition, message.bucket);
            for file in change::outputs(message).chain(&message.compact.changelog_files) {
                if !new.contains(file.file_name.as_str())
                    && !self.view.holds_somewhere(partition, bucket, file)
                {
                    paths.extend(self.table.file_path(partition, bucket, file));
                }
            }
            let index = message.compact.new_index_files.iter();
            paths.extend(index.map(|file| self.table.index_path(&file.file_name)));
        }
        paths
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
            .chain(&self.changelog_manifests)
            .map(|meta| meta.file_name.clone())
            .collect()
    }
}

/// Whether a message has something for the APPEND.
fn has_first(message: &CommitMessage) -> bool {
    !message.new_files.is_empty()
        || !message.deleted_files.is_empty()
        || !message.changelog_files.is_empty()
        || !message.new_index_files.is_empty()
        || !message.deleted_index_files.is_empty()
        || message.known_index_files.is_some()
}

#[cfg(test)]
pub(crate) mod tests;
