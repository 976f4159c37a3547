//! Replacing what partitions or the whole table hold, in one snapshot.
//!
//! Source: `org.apache.paimon.operation.FileStoreCommitImpl`, its overwriting commits.

use std::collections::{BTreeSet, HashSet};

use crate::{
    data_file_meta::CommitMessage,
    error::{Error, Result},
    manifest::{FileKind, ManifestEntry},
    snapshot::CommitKind,
    table::Table,
};

use super::{
    CommitOutcome, CommitRequest, TableCommitter, change::Change, index::IndexFiles, lane,
    view::View,
};

/// What an overwriting commit replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Table,
    /// These partitions, each a serialized BinaryRow (with the arity prefix). Files of other
    /// partitions in the request are refused.
    Partitions(Vec<Vec<u8>>),
    /// One partition, if it has these files still. When files or deletes came or went the commit is refused
    /// with [`Error::Conflict`]. The new files share no keys: each stays at its level.
    Unchanged {
        /// A serialized BinaryRow (with the arity prefix).
        partition: Vec<u8>,
        /// Names of its live files when it was read.
        files: BTreeSet<String>,
        /// Names of its files of deletion vectors then.
        index: BTreeSet<String>,
    },
    /// The partitions that the request has new files for (option `dynamic-partition-overwrite`).
    /// Without new files nothing is done.
    Touched,
}

/// The OVERWRITE of a request; `None` when there is nothing to do.
pub(super) async fn overwrite(
    table: &Table,
    view: &View,
    messages: &[CommitMessage],
    scope: &Scope,
) -> Result<Option<Change>> {
    let partitions: Option<HashSet<&[u8]>> = match scope {
        Scope::Table => None,
        Scope::Partitions(partitions) => Some(partitions.iter().map(Vec::as_slice).collect()),
        Scope::Unchanged { partition, .. } => Some([partition.as_slice()].into()),
        Scope::Touched => Some(
            messages
                .iter()
                .filter(|message| !message.new_files.is_empty())
                .map(|message| message.partition.as_slice())
                .collect(),
        ),
    };
    if *scope == Scope::Touched && partitions.as_ref().is_some_and(HashSet::is_empty) {
        return Ok(None);
    }
    let within = |partition: &[u8]| {
        partitions
            .as_ref()
            .is_none_or(|partitions| partitions.contains(partition))
    };
    if let Some(outside) = messages.iter().find(|message| !within(&message.partition)) {
        return Err(Error::Table {
            table: table.name().to_owned(),
            message: format!(
                "an overwrite of partitions has {} new files for a partition that is not among \
                 them; name it too, or overwrite the partitions touched",
                outside.new_files.len()
            ),
        });
    }
    let mut change = Change::new(CommitKind::Overwrite);
    let mut index = IndexFiles::new(table.schema(), Vec::new());
    if let Some(snapshot) = &view.snapshot {
        index = IndexFiles::new(table.schema(), table.index_files(snapshot).await?);
        let live = table.live_files(snapshot).await?.into_iter();
        let gone = live.filter(|file| within(&file.partition));
        change.entries.extend(gone.map(|file| ManifestEntry {
            kind: FileKind::Delete,
            partition: file.partition,
            bucket: file.bucket,
            total_buckets: file.total_buckets,
            file: file.meta,
        }));
    }
    if let Scope::Unchanged {
        partition,
        files,
        index: vectors,
    } = scope
    {
        let names = change.entries.iter().map(|entry| &entry.file.file_name);
        let there: BTreeSet<&String> = names.clone().collect();
        let is_same = names.count() == files.len() && there.iter().all(|it| files.contains(*it));
        if !is_same || index.vectors_of(partition) != *vectors {
            return Err(Error::Conflict {
                table: table.name().to_owned(),
                message: "the partition changed since it was read: read it again".into(),
            });
        }
    }
    index.retain(|partition| !within(partition));
    for message in messages {
        let changes = super::change::index_entries(message, &[], &message.new_index_files);
        index.apply(&changes).map_err(|reason| Error::Conflict {
            table: table.name().to_owned(),
            message: reason,
        })?;
    }
    match scope {
        Scope::Unchanged { .. } => {
            let added = messages.iter().flat_map(|message| {
                let files = message.new_files.iter();
                files.map(|file| super::change::entry(message, FileKind::Add, file))
            });
            change.entries.extend(added);
        }
        // The buckets are empty before the new files.
        _ => {
            let added = lane::place(table.schema(), &View::default(), messages);
            change.entries.extend(added);
        }
    }
    change.index = index.into_changed();
    Ok(Some(change))
}

impl TableCommitter {
    /// Puts the files of a request in the place of what the scope holds, in one OVERWRITE snapshot,
    /// whatever others commit meanwhile: what they added to the scope is replaced too. The new
    /// files may be of another bucket count. Compactions of the request follow in a COMPACT.
    ///
    /// # Errors
    /// As [`TableCommitter::commit`].
    pub async fn overwrite(
        &mut self,
        request: &CommitRequest,
        scope: &Scope,
    ) -> Result<CommitOutcome> {
        self.perform(request, super::change::Part::Overwrite(scope))
            .await
    }
}

impl Table {
    /// Replaces what partitions or the whole table hold, as [`TableCommitter::overwrite`].
    ///
    /// # Errors
    /// As [`TableCommitter::commit`].
    pub async fn overwrite(&self, request: &CommitRequest, scope: &Scope) -> Result<CommitOutcome> {
        let mut committer = TableCommitter::new(self.clone());
        committer.overwrite(request, scope).await
    }

    /// Removes all rows, in one snapshot under (user, identifier). Older snapshots keep theirs.
    ///
    /// # Errors
    /// As [`TableCommitter::commit`].
    pub async fn truncate(&self, user: &str, identifier: i64) -> Result<CommitOutcome> {
        let request = CommitRequest::new(user, identifier, Vec::new());
        self.overwrite(&request, &Scope::Table).await
    }

    /// Removes all rows of some partitions, in one snapshot under (user, identifier). Partitions
    /// are serialized BinaryRows (with the arity prefix), as in [`LiveFile`](super::LiveFile).
    ///
    /// # Errors
    /// As [`TableCommitter::commit`].
    pub async fn drop_partitions(
        &self,
        user: &str,
        identifier: i64,
        partitions: Vec<Vec<u8>>,
    ) -> Result<CommitOutcome> {
        let request = CommitRequest::new(user, identifier, Vec::new());
        self.overwrite(&request, &Scope::Partitions(partitions))
            .await
    }
}
