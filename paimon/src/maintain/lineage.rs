//! The main line of a table, or one of its branches: where its snapshots, tags and changelogs stand.
//! Manifests and data files are shared by all of them.
//!
//! Source: `org.apache.paimon.utils.{SnapshotManager,TagManager,ChangelogManager,BranchManager}`.

use object_store::path::Path;

use crate::{
    error::{Error, Result},
    partition::segment,
    snapshot::PaimonSnapshot,
    storage,
    table::Table,
};

use super::{expire::hint_earliest, tag::Tag};

/// Records between two hints, at most: of more the folder is listed.
const HINTED_MAX: i64 = 1_000_000;
/// Records that are listed rather than named by another hint.
const LISTED_MAX: usize = 32;

/// The main line, or a branch.
#[derive(Debug, Clone)]
pub(super) struct Lineage {
    table: Table,
    folder: Path,
    pub(super) branch: Option<String>,
}

/// A kind of numbered record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Record {
    Snapshot,
    Changelog,
}

impl Record {
    fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Changelog => "changelog",
        }
    }
}

/// Ids of records, ascending.
#[derive(Debug)]
pub(super) struct Ids {
    pub(super) ids: Vec<i64>,
    /// All of them are there; else the first and the last one, and most likely the others.
    pub(super) are_listed: bool,
}

/// Something that keeps files alive.
#[derive(Debug, Clone)]
pub(super) struct Root {
    /// Where it stands.
    pub(super) path: Path,
    pub(super) snapshot: PaimonSnapshot,
    /// Of a changelog only the changes count, and what else it names may be gone.
    pub(super) changelog_only: bool,
    /// Changelog files go with their snapshot, also when a tag keeps the rest.
    pub(super) keeps_changelog: bool,
}

impl Lineage {
    pub(super) fn main(table: &Table) -> Self {
        Self {
            table: table.clone(),
            folder: table.path().clone(),
            branch: None,
        }
    }

    pub(super) fn branch(table: &Table, name: &str) -> Result<Self> {
        let folder = table.path().clone().join("branch");
        Ok(Self {
            table: table.clone(),
            folder: segment(folder, &format!("branch-{name}"))?,
            branch: Some(name.to_owned()),
        })
    }

    /// All branches.
    pub(super) async fn branches(table: &Table) -> Result<Vec<Self>> {
        let folder = table.path().clone().join("branch");
        let mut names = storage::folder_names(table.store().as_ref(), Some(&folder)).await?;
        names.sort_unstable();
        names
            .iter()
            .filter_map(|name| name.strip_prefix("branch-"))
            .map(|name| Self::branch(table, name))
            .collect()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn record_path(&self, record: Record, id: i64) -> Path {
        let name = record.name();
        self.folder.clone().join(name).join(format!("{name}-{id}"))
    }

    pub(super) fn hint_path(&self, record: Record, hint: &str) -> Path {
        self.folder.clone().join(record.name()).join(hint)
    }

    /// Ids that are there, ascending.
    pub(super) async fn ids(&self, record: Record) -> Result<Vec<i64>> {
        let name = record.name();
        let folder = self.folder.clone().join(name);
        storage::numbered(self.table.store().as_ref(), &folder, &format!("{name}-")).await
    }

    /// Ids from the first to the last one, without a listing where the hints name both: then it is not
    /// known that all of them are there. The hint of the first is believed where its record is there,
    /// as `HintFileUtils.findEarliest` does; that of the last where the next one is not there, too.
    pub(super) async fn ids_by_hints(&self, record: Record) -> Result<Ids> {
        let store = self.table.store().as_ref();
        let exists = |id: i64| {
            let path = self.record_path(record, id);
            async move { storage::exists(store, &path).await }
        };
        let earliest = self.hint(record, "EARLIEST").await;
        if let Some(earliest) = earliest
            && let Some(latest) = self.hint(record, "LATEST").await
            && (earliest..earliest.saturating_add(HINTED_MAX)).contains(&latest)
            && exists(earliest).await?
            && exists(latest).await?
            && !exists(latest.saturating_add(1)).await?
        {
            return Ok(Ids {
                ids: (earliest..=latest).collect(),
                are_listed: false,
            });
        }
        let ids = self.ids(record).await?;
        // Nobody but an expiry that finds something wrote it: this one is the last that lists.
        if let Some(first) = ids.first()
            && ids.len() >= LISTED_MAX
            && earliest != Some(*first)
        {
            hint_earliest(&self.table, self, record, *first).await;
        }
        Ok(Ids {
            ids,
            are_listed: true,
        })
    }

    async fn hint(&self, record: Record, hint: &str) -> Option<i64> {
        let path = self.hint_path(record, hint);
        let bytes = storage::get(self.table.store().as_ref(), &path).await;
        std::str::from_utf8(&bytes.ok()??).ok()?.trim().parse().ok()
    }

    pub(super) async fn read(&self, record: Record, id: i64) -> Result<Option<PaimonSnapshot>> {
        let path = self.record_path(record, id);
        match storage::get(self.table.store().as_ref(), &path).await? {
            Some(bytes) => snapshot(&path, &bytes).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn tag_path(&self, name: &str) -> Result<Path> {
        segment(self.folder.clone().join("tag"), &format!("tag-{name}"))
    }

    pub(super) async fn tag_names(&self) -> Result<Vec<String>> {
        let folder = self.folder.clone().join("tag");
        let names = storage::file_names(self.table.store().as_ref(), &folder).await?;
        let mut names: Vec<String> = names
            .iter()
            .filter_map(|name| name.strip_prefix("tag-").map(str::to_owned))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(super) async fn tag(&self, name: &str) -> Result<Option<Tag>> {
        let path = self.tag_path(name)?;
        match storage::get(self.table.store().as_ref(), &path).await? {
            Some(bytes) => Tag::parse(name, &path, &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// All tags, by snapshot, then name.
    pub(super) async fn tags(&self) -> Result<Vec<Tag>> {
        let mut tags = Vec::new();
        for name in self.tag_names().await? {
            // One that has been deleted meanwhile is none.
            tags.extend(self.tag(&name).await?);
        }
        tags.sort_by(|a, b| (a.snapshot.id, &a.name).cmp(&(b.snapshot.id, &b.name)));
        Ok(tags)
    }

    /// Whatever keeps files alive on this line.
    pub(super) async fn roots(&self) -> Result<Vec<Root>> {
        let mut roots = Vec::new();
        for record in [Record::Snapshot, Record::Changelog] {
            for id in self.ids(record).await? {
                let snapshot = self.read(record, id).await?;
                roots.extend(snapshot.map(|snapshot| Root {
                    path: self.record_path(record, id),
                    snapshot,
                    changelog_only: record == Record::Changelog,
                    keeps_changelog: true,
                }));
            }
        }
        for tag in self.tags().await? {
            roots.push(self.tag_root(&tag)?);
        }
        Ok(roots)
    }

    pub(super) fn tag_root(&self, tag: &Tag) -> Result<Root> {
        Ok(Root {
            path: self.tag_path(&tag.name)?,
            snapshot: tag.snapshot.clone(),
            changelog_only: false,
            keeps_changelog: false,
        })
    }
}

/// Parses a record; `path` is for errors.
pub(super) fn snapshot(path: &Path, bytes: &[u8]) -> Result<PaimonSnapshot> {
    serde_json::from_slice(bytes).map_err(|error| Error::Corrupt {
        path: path.to_string(),
        message: error.to_string(),
    })
}

/// Roots of all branches of a table: their snapshots, tags and changelogs.
pub(super) async fn branch_roots(table: &Table) -> Result<Vec<Root>> {
    let mut roots = Vec::new();
    for branch in Lineage::branches(table).await? {
        roots.extend(branch.roots().await?);
    }
    Ok(roots)
}

#[cfg(test)]
mod tests;
