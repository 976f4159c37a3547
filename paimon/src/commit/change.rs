//! What one snapshot changes, planned against the newest one and planned again after a lost race.
//!
//! Source of the conflicts: `org.apache.paimon.operation.commit.ConflictDetection`.

use std::collections::{HashMap, HashSet};

use futures::future::try_join_all;

use crate::{
    data_file_meta::{CommitMessage, DataFileMeta},
    error::{Error, Result},
    index_manifest::{IndexFileMeta, IndexManifestEntry},
    manifest::{FileKind, ManifestEntry},
    snapshot::CommitKind,
    storage,
    table::Table,
};

use super::{Scope, index::IndexFiles, lane, view::View};

/// Which of the snapshots of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Append,
    Overwrite(&'a Scope),
    Compact,
}

/// One snapshot to be.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) kind: CommitKind,
    pub(super) entries: Vec<ManifestEntry>,
    pub(super) changelog: Vec<ManifestEntry>,
    /// All index files, when any changes.
    pub(super) index: Option<Vec<IndexManifestEntry>>,
    /// Messages, by position, whose compaction is out of date and left out.
    pub(super) stale: Vec<usize>,
}

impl Change {
    pub(super) fn new(kind: CommitKind) -> Self {
        Self {
            kind,
            entries: Vec::new(),
            changelog: Vec::new(),
            index: None,
            stale: Vec::new(),
        }
    }
}

/// A message's changes of index files.
pub(super) fn index_entries(
    message: &CommitMessage,
    deleted: &[IndexFileMeta],
    new: &[IndexFileMeta],
) -> Vec<IndexManifestEntry> {
    let entry = |kind, file: &IndexFileMeta| IndexManifestEntry {
        kind,
        partition: message.partition.clone(),
        bucket: message.bucket,
        index_file: file.clone(),
    };
    let deleted = deleted.iter().map(|file| entry(FileKind::Delete, file));
    let new = new.iter().map(|file| entry(FileKind::Add, file));
    deleted.chain(new).collect()
}

/// The index files of the newest snapshot; not read when nothing changes any.
async fn index_files(table: &Table, view: &View, some: bool) -> Result<IndexFiles> {
    let entries = match &view.snapshot {
        Some(snapshot) if some => table.index_files(snapshot).await?,
        _ => Vec::new(),
    };
    Ok(IndexFiles::new(table.schema(), entries))
}

/// The entry of a message's file.
pub(super) fn entry(message: &CommitMessage, kind: FileKind, file: &DataFileMeta) -> ManifestEntry {
    ManifestEntry {
        kind,
        partition: message.partition.clone(),
        bucket: message.bucket,
        total_buckets: message.total_buckets,
        file: file.clone(),
    }
}

/// The APPEND of a request.
///
/// # Errors
/// [`Error::Conflict`] when a file that it takes away is not there any more.
pub(super) async fn append(
    table: &Table,
    view: &View,
    messages: &[CommitMessage],
) -> Result<Change> {
    let mut change = Change::new(CommitKind::Append);
    let indexed = messages.iter().any(|message| {
        !message.deleted_index_files.is_empty()
            || !message.new_index_files.is_empty()
            || message.known_index_files.is_some()
    });
    let mut index = index_files(table, view, indexed).await?;
    let conflict = |message: String| Error::Conflict {
        table: table.name().to_owned(),
        message,
    };
    for message in messages {
        for file in &message.deleted_files {
            if !view.holds(&message.partition, message.bucket, file.level, file) {
                return Err(conflict(format!(
                    "file {} of bucket {}, which this commit replaces, is gone: another writer \
                     compacted, overwrote or dropped it; do the work again on the newest snapshot",
                    file.file_name, message.bucket
                )));
            }
            change.entries.push(entry(message, FileKind::Delete, file));
        }
        let changelog = message.changelog_files.iter();
        change
            .changelog
            .extend(changelog.map(|file| entry(message, FileKind::Add, file)));
        let changes = index_entries(
            message,
            &message.deleted_index_files,
            &message.new_index_files,
        );
        let known = match &message.known_index_files {
            Some(known) => index.check_known(&message.partition, known),
            None => Ok(()),
        };
        known
            .and_then(|()| index.apply(&changes))
            .map_err(|reason| {
                conflict(format!(
                    "{reason}: another writer changed the bucket; open the table again and write \
                     anew"
                ))
            })?;
    }
    change.index = index.into_changed();
    let added = lane::place(table.schema(), view, messages);
    change.entries.extend(added);
    Ok(change)
}

/// The COMPACT of a request: each message whose compaction still fits. `None` when none does.
pub(super) async fn compact(
    table: &Table,
    view: &View,
    messages: &[CommitMessage],
) -> Result<Option<Change>> {
    let mut change = Change::new(CommitKind::Compact);
    let mut fits = Fits::new(table, view);
    let indexed = messages.iter().any(|message| {
        let compact = &message.compact;
        !compact.deleted_index_files.is_empty() || !compact.new_index_files.is_empty()
    });
    let mut index = index_files(table, view, indexed).await?;
    let mut some = false;
    for (number, message) in messages.iter().enumerate() {
        let compact = &message.compact;
        if compact.is_empty() {
            continue;
        }
        let changes = index_entries(
            message,
            &compact.deleted_index_files,
            &compact.new_index_files,
        );
        let fit = outputs_are_there(table, message).await?
            && index.fit(&changes).is_ok()
            && fits.take(message);
        if !fit {
            change.stale.push(number);
            continue;
        }
        index.apply(&changes).map_err(Error::Internal)?;
        some = true;
        let before = compact.before.iter();
        let before = before.map(|file| entry(message, FileKind::Delete, file));
        change.entries.extend(before);
        let after = compact.after.iter();
        let after = after.map(|file| entry(message, FileKind::Add, file));
        change.entries.extend(after);
        let changelog = compact.changelog_files.iter();
        let changelog = changelog.map(|file| entry(message, FileKind::Add, file));
        change.changelog.extend(changelog);
    }
    change.index = index.into_changed();
    Ok(some.then_some(change))
}

/// Files that a compaction wrote, in the store: those that it only moved to another level are not
/// among them.
pub(super) fn outputs(message: &CommitMessage) -> impl Iterator<Item = &DataFileMeta> {
    let compact = &message.compact;
    let before: HashSet<&str> = compact
        .before
        .iter()
        .map(|file| file.file_name.as_str())
        .collect();
    compact
        .after
        .iter()
        .filter(move |file| !before.contains(file.file_name.as_str()))
}

/// Another engine's orphan cleaning may have taken what a compaction wrote: then what it read stays.
async fn outputs_are_there(table: &Table, message: &CommitMessage) -> Result<bool> {
    let paths = outputs(message)
        .map(|file| table.file_path(&message.partition, message.bucket, file))
        .collect::<Result<Vec<_>>>()?;
    let store = table.store().as_ref();
    let looks = paths
        .into_iter()
        .map(|path| async move { storage::exists(store, &path).await });
    let there = try_join_all(looks).await?;
    Ok(there.into_iter().all(|there| there))
}

/// Which compactions of a request fit what is live, one message after the other.
struct Fits<'a> {
    view: &'a View,
    key_types: Vec<crate::data_type::DataType>,
    taken: HashSet<(&'a [u8], i32, i32, &'a str)>,
    added: HashMap<(&'a [u8], i32, i32), Vec<lane::KeyRange<'a>>>,
}

impl<'a> Fits<'a> {
    fn new(table: &Table, view: &'a View) -> Self {
        Self {
            view,
            key_types: lane::key_types(table.schema()),
            taken: HashSet::new(),
            added: HashMap::new(),
        }
    }

    /// Whether all files that it replaces are live at their levels, the buckets are still as many,
    /// and what it adds overlaps nothing of its level.
    fn take(&mut self, message: &'a CommitMessage) -> bool {
        let (partition, bucket) = (message.partition.as_slice(), message.bucket);
        let live = self.view.total_buckets(partition);
        if live.is_some_and(|live| live != message.total_buckets) {
            return false;
        }
        let compact = &message.compact;
        let id = |file: &'a DataFileMeta| (partition, bucket, file.level, file.file_name.as_str());
        let there = compact.before.iter().all(|file| {
            self.view.holds(partition, bucket, file.level, file) && !self.taken.contains(&id(file))
        });
        if !there {
            return false;
        }
        let before: HashSet<(i32, &str)> = compact
            .before
            .iter()
            .map(|file| (file.level, file.file_name.as_str()))
            .collect();
        let mut added: Vec<(i32, lane::KeyRange<'a>)> = Vec::new();
        for file in &compact.after {
            let stays = !before.contains(&(file.level, file.file_name.as_str()));
            if stays && self.view.holds(partition, bucket, file.level, file) {
                return false;
            }
            if file.level == 0 {
                continue;
            }
            let range = (file.min_key.as_slice(), file.max_key.as_slice());
            let live = self.view.bucket(partition, bucket).into_iter();
            let live = live
                .flat_map(|bucket| &bucket.ranges)
                .filter(|other| {
                    other.level == file.level
                        && !before.contains(&(other.level, other.file_name.as_str()))
                        && !self.taken.contains(&(
                            partition,
                            bucket,
                            other.level,
                            other.file_name.as_str(),
                        ))
                })
                .map(|other| (other.min_key.as_slice(), other.max_key.as_slice()));
            let earlier = self.added.get(&(partition, bucket, file.level));
            let own = added.iter().filter(|(level, _)| *level == file.level);
            let others = live
                .chain(earlier.into_iter().flatten().copied())
                .chain(own.map(|(_, range)| *range));
            for other in others {
                if !lane::apart(&self.key_types, range, other) {
                    return false;
                }
            }
            added.push((file.level, range));
        }
        self.taken.extend(compact.before.iter().map(id));
        for (level, range) in added {
            let ranges = self.added.entry((partition, bucket, level)).or_default();
            ranges.push(range);
        }
        true
    }
}
