//! Branches: folders `branch/branch-<name>` with schemas, snapshots and tags of their own. Their
//! files stand among those of the table, and are live like those of the main line.
//!
//! Source: `org.apache.paimon.utils.{BranchManager,FileSystemBranchManager}`.

use futures::TryStreamExt;
use object_store::path::Path;

use crate::{
    error::{Error, Result},
    partition::segment,
    storage,
    table::Table,
};

use super::{
    lineage::{Lineage, Record},
    reclaim::{delete_all, remove_empty},
    tag::refuse,
};

impl Table {
    /// Names of all branches, sorted; the main line is none.
    pub async fn branches(&self) -> Result<Vec<String>> {
        let branches = Lineage::branches(self).await?;
        Ok(branches
            .into_iter()
            .filter_map(|branch| branch.branch)
            .collect())
    }

    /// Makes a branch: of a tag, or empty with the newest schema.
    ///
    /// # Errors
    /// [`Error::Table`] when the branch is there already, the tag is not, or the name is not one
    /// of the format's (blank, `main`, digits only).
    pub async fn create_branch(&self, name: &str, tag: Option<&str>) -> Result<()> {
        self.check_branch_name(name)?;
        if self.branches().await?.iter().any(|other| other == name) {
            return Err(refuse(self, format!("there is a branch '{name}' already")));
        }
        let branch = Lineage::branch(self, name)?;
        let store = self.store().as_ref();
        let mut newest = None;
        if let Some(tag_name) = tag {
            let main = Lineage::main(self);
            let missing = || refuse(self, format!("there is no tag '{tag_name}'"));
            let tag = self.tag(tag_name).await?.ok_or_else(missing)?;
            newest = Some(tag.snapshot.schema_id);
            let bytes = storage::read(store, &main.tag_path(tag_name)?).await?;
            let path = main.record_path(Record::Snapshot, tag.snapshot.id);
            let snapshot = storage::get(store, &path).await?;
            let snapshot = snapshot.unwrap_or_else(|| bytes.clone());
            // From here on the branch keeps the tag's files.
            storage::put(store, &branch.tag_path(tag_name)?, bytes.to_vec()).await?;
            let path = branch.record_path(Record::Snapshot, tag.snapshot.id);
            storage::put(store, &path, snapshot.to_vec()).await?;
        }
        let folder = self.path().clone().join("schema");
        for id in storage::numbered(store, &folder, "schema-").await? {
            if newest.is_some_and(|newest| id > newest) {
                continue;
            }
            let bytes = storage::read(store, &self.schema_path(id)).await?;
            let schemas = branch.folder().clone().join("schema");
            storage::put(store, &schemas.join(format!("schema-{id}")), bytes.to_vec()).await?;
        }
        Ok(())
    }

    /// Deletes a branch. Files that only it needed are left to orphan cleaning.
    ///
    /// # Errors
    /// [`Error::Table`] when there is no such branch.
    pub async fn delete_branch(&self, name: &str) -> Result<()> {
        if !self.branches().await?.iter().any(|other| other == name) {
            return Err(refuse(self, format!("there is no branch '{name}'")));
        }
        let folder = Lineage::branch(self, name)?.folder().clone();
        let objects: Vec<_> = self
            .store()
            .list(Some(&folder))
            .try_collect()
            .await
            .map_err(|error| Error::store("cannot list", &folder, error))?;
        let paths: Vec<Path> = objects.into_iter().map(|object| object.location).collect();
        delete_all(self, paths.into_iter()).await?;
        for inner in ["snapshot", "tag", "schema", "changelog", "consumer"] {
            remove_empty(self, segment(folder.clone(), inner)?).await;
        }
        Ok(())
    }

    fn check_branch_name(&self, name: &str) -> Result<()> {
        let wrong = name.trim().is_empty()
            || name == "main"
            || name.chars().all(|c| c.is_ascii_digit())
            || name.contains(['/', '\\'])
            || name.contains(char::is_control);
        match wrong {
            true => Err(refuse(self, format!("'{name}' as the name of a branch"))),
            false => Ok(()),
        }
    }
}
