//! Step (c) of a checkpoint: the files of a record become visible, table by table, each under
//! (commit user, checkpoint number). Done again after a crash it finds what is already there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use headwater_connectors::TableName;
use headwater_paimon::{
    Catalog, CommitKind, CommitOutcome, CommitRequest, Error as LakeError, Expect, Table,
    TableCommitter, TagRequest,
};
use tokio::sync::Mutex;

use super::prepared;
use crate::{
    checkpoint::{Record, TableCommit, TableState},
    error::{JobError, Result},
    failpoint,
};

/// Tables committed at the same time.
const COMMIT_CONCURRENCY: usize = 8;

/// Commits checkpoints. Keeps what it has learnt of each table from commit to commit.
#[derive(Debug)]
pub struct Committer {
    catalog: Catalog,
    tables: Mutex<HashMap<String, Arc<Mutex<TableCommitter>>>>,
}

/// What the commit of a table needs to know besides its files.
#[derive(Debug, Clone)]
pub struct CommitContext<'a> {
    /// The record that is committed.
    pub record: &'a Record,
    /// Snapshot and identifier of the job's last commit into each sink table.
    pub last: &'a BTreeMap<String, (i64, i64)>,
}

/// The tables of a record that are committed.
#[derive(Debug, Clone, Default)]
pub struct TablesCommitted {
    /// Snapshot of each table concerned.
    pub snapshots: BTreeMap<String, i64>,
    /// Greatest sequence number seen in them: above the job's own when someone else wrote.
    pub max_sequence: Option<i64>,
}

/// How carefully prepared files are looked at before they are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparedCheck {
    /// They were written a moment ago; those that were not must still be there.
    Fresh,
    /// They were prepared before a restart: each must still be there, and those for another number
    /// of buckets are written anew.
    Recovered,
}

impl Committer {
    /// A committer for the tables of a catalog.
    pub fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            tables: Mutex::new(HashMap::new()),
        }
    }

    /// Forgets what it knows of the tables: they may have been changed or made anew since.
    pub async fn forget(&self) {
        self.tables.lock().await.clear();
    }

    /// Commits everything that the record prepared.
    pub async fn commit(
        &self,
        context: CommitContext<'_>,
        check: PreparedCheck,
    ) -> Result<TablesCommitted> {
        let mut commits = Vec::new();
        for commit in &context.record.commits {
            commits.push(self.commit_table(&context, commit, check).boxed());
        }
        stream::iter(commits)
            .buffer_unordered(COMMIT_CONCURRENCY)
            .try_fold(
                TablesCommitted::default(),
                |mut all, (table, (snapshot, max_sequence))| async move {
                    all.snapshots.insert(table, snapshot);
                    all.max_sequence = all.max_sequence.max(max_sequence);
                    Ok(all)
                },
            )
            .await
    }

    /// Gives every table of a checkpoint a tag of the same name, at the snapshots given: the whole
    /// database at one moment. Done again it changes nothing.
    pub async fn tag(
        &self,
        name: &str,
        record: &Record,
        snapshots: &BTreeMap<String, i64>,
    ) -> Result<()> {
        let mut tags = Vec::new();
        for table in &record.tables {
            if let Some(snapshot) = snapshots.get(&table.sink.to_string()) {
                tags.push(self.tag_table(name, &table.sink, *snapshot).boxed());
            }
        }
        stream::iter(tags)
            .buffer_unordered(COMMIT_CONCURRENCY)
            .try_collect()
            .await
    }

    async fn tag_table(&self, name: &str, sink: &TableName, snapshot: i64) -> Result<()> {
        let committer = self.committer(sink).await?;
        let committer = committer.lock().await;
        let table = committer.table();
        let mut request = TagRequest {
            snapshot: Some(snapshot),
            time_retained: None,
            ignore_if_exists: true,
        };
        if table.snapshot(snapshot).await?.is_none() {
            // It has expired behind compactions, which change no row.
            request.snapshot = same_rows_later(table, snapshot).await?;
        }
        table.create_tag(name, &request).await?;
        Ok(())
    }

    async fn commit_table(
        &self,
        context: &CommitContext<'_>,
        commit: &TableCommit,
        check: PreparedCheck,
    ) -> Result<(String, (i64, Option<i64>))> {
        let record = context.record;
        let committer = self.committer(&commit.sink).await?;
        let mut committer = committer.lock().await;
        let expect = context
            .last
            .get(&commit.sink.to_string())
            .map(|(snapshot, identifier)| Expect {
                last_snapshot: Some(*snapshot),
                last_user: record.commit_user.clone(),
                last_identifier: *identifier,
            });
        let mut request = CommitRequest {
            user: record.commit_user.clone(),
            identifier: record.number,
            messages: commit.messages.clone(),
            watermark_ms: record.event_time_ms,
            properties: with_phase(properties(record), record, &commit.sink),
            expect,
        };
        let anew = prepared::look(&mut committer, commit, &mut request, check).await?;
        let mut outcome = committer.commit(&request).await;
        if let Err(error @ LakeError::Conflict { .. }) = &outcome
            && has_index(&request)
        {
            tracing::warn!(
                %error,
                "another program writes into the table beside the job: its keys are looked at"
            );
            let table = committer.table().clone();
            request.messages = table.prepare_index_again(&request.messages).await?;
            outcome = committer.commit(&request).await;
        }
        let outcome = match outcome {
            Err(error @ LakeError::Conflict { .. }) => {
                // Those of the record stay, whatever happens.
                committer.table().discard(&anew).await;
                request.messages.clone_from(&commit.messages);
                return Err(prepared::conflict(error, &committer, &request, check).await);
            }
            outcome => outcome?,
        };
        failpoint::reach("between-table-commits");
        let committed = match outcome {
            CommitOutcome::Committed {
                snapshot,
                max_sequence_number,
                ..
            } => (snapshot, max_sequence_number),
            // After a restart, when the tables have been looked through anyway.
            CommitOutcome::AlreadyCommitted { snapshot, .. } => (
                prepared::own_snapshot(committer.table(), snapshot, &request).await?,
                None,
            ),
            CommitOutcome::Dropped => {
                return Err(JobError::Internal(format!(
                    "commit {} of table {} was of compactions only",
                    record.number, commit.sink
                )));
            }
        };
        Ok((commit.sink.to_string(), committed))
    }

    pub(crate) async fn committer(&self, sink: &TableName) -> Result<Arc<Mutex<TableCommitter>>> {
        let name = sink.to_string();
        if let Some(known) = self.tables.lock().await.get(&name) {
            return Ok(known.clone());
        }
        let table = self.catalog.table(&sink.database, &sink.table).await?;
        let table = table.ok_or_else(|| {
            JobError::Definite(format!(
                "table {name}: it is gone, though the job has files for it. Restore it, or remove \
                 the job's state and its other sink tables to start again"
            ))
        })?;
        let committer = Arc::new(Mutex::new(TableCommitter::new(table)));
        let mut tables = self.tables.lock().await;
        Ok(tables.entry(name).or_insert(committer).clone())
    }
}

/// Whether a commit says what it knows of the table's index of dynamic buckets.
fn has_index(request: &CommitRequest) -> bool {
    let mut messages = request.messages.iter();
    messages.any(|message| message.known_index_files.is_some())
}

/// The oldest snapshot that is left, when all that are left are compactions.
async fn same_rows_later(table: &Table, snapshot: i64) -> Result<Option<i64>> {
    let mut oldest = None;
    for id in table.snapshot_ids().await?.into_iter().rev() {
        let Some(found) = table.snapshot(id).await? else {
            break;
        };
        if id < snapshot || found.commit_kind != CommitKind::Compact {
            break;
        }
        oldest = Some(id);
    }
    match oldest {
        Some(id) if table.snapshot_ids().await?.first() == Some(&id) => Ok(Some(id)),
        _ => Err(JobError::Definite(format!(
            "table {}: snapshot {snapshot}, which a tag of the whole database needs, was expired \
             by another program right after it was made. Let it keep more snapshots, or set \
             checkpoint.tag-interval: off",
            table.name()
        ))),
    }
}

/// What every snapshot says about its checkpoint.
fn properties(record: &Record) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("headwater.job".to_owned(), record.job.clone()),
        (
            "headwater.checkpoint-id".to_owned(),
            record.number.to_string(),
        ),
        (
            "headwater.position".to_owned(),
            record.source.position.to_string(),
        ),
    ])
}

/// What every snapshot of a table says while rows of its source are still to be read: they will be
/// older than what is there, so that no compaction may drop deletes or touch the top level.
pub const SNAPSHOT_PHASE: &str = "headwater.snapshot-phase";

fn with_phase(
    mut properties: BTreeMap<String, String>,
    record: &Record,
    sink: &TableName,
) -> BTreeMap<String, String> {
    let state = record.tables.iter().find(|table| table.sink == *sink);
    if state.is_some_and(TableState::is_reading) {
        properties.insert(SNAPSHOT_PHASE.to_owned(), "true".to_owned());
    }
    properties
}
