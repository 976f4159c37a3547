//! Rollback: a former snapshot becomes the newest again.
//!
//! What was newer loses its snapshots, changelogs and tags; its data files are left to orphan
//! cleaning, since writers may be at work.
//!
//! Source: `org.apache.paimon.table.RollbackHelper`, `AbstractFileStoreTable.rollbackTo`.

use crate::{error::Result, storage, table::Table};

use super::{
    expire::{hint, hint_earliest},
    lineage::{Lineage, Record},
    tag::{Tag, refuse},
};

impl Table {
    /// Goes back to a snapshot; one that has expired is taken from its tag.
    ///
    /// # Errors
    /// [`crate::Error::Table`] when there is neither. What the store says otherwise: call it again,
    /// it goes on.
    pub async fn rollback_to_snapshot(&self, id: i64) -> Result<()> {
        let main = Lineage::main(self);
        if main.read(Record::Snapshot, id).await?.is_some() {
            return self.rollback(&main, id).await;
        }
        match main.tags().await?.iter().find(|tag| tag.snapshot.id == id) {
            Some(tag) => self.rollback_to(&main, tag).await,
            None => Err(refuse(
                self,
                format!("cannot go back to snapshot {id}: it does not exist, and no tag keeps it"),
            )),
        }
    }

    /// Goes back to a tag.
    ///
    /// # Errors
    /// As [`Table::rollback_to_snapshot`].
    pub async fn rollback_to_tag(&self, name: &str) -> Result<()> {
        let main = Lineage::main(self);
        match self.tag(name).await? {
            Some(tag) => self.rollback_to(&main, &tag).await,
            None => Err(refuse(self, format!("there is no tag '{name}'"))),
        }
    }

    async fn rollback_to(&self, main: &Lineage, tag: &Tag) -> Result<()> {
        let id = tag.snapshot.id;
        let path = main.record_path(Record::Snapshot, id);
        let store = self.store().as_ref();
        if !storage::exists(store, &path).await? {
            // Before the others go, so that the table is never without a snapshot.
            let bytes = storage::read(store, &main.tag_path(&tag.name)?).await?;
            storage::put(store, &path, bytes.to_vec()).await?;
            hint_earliest(self, main, Record::Snapshot, id).await;
        }
        self.rollback(main, id).await
    }

    async fn rollback(&self, main: &Lineage, id: i64) -> Result<()> {
        let store = self.store().as_ref();
        hint(self, main, Record::Snapshot, "LATEST", id).await;
        // The newest first: what is left of a killed rollback is a whole chain.
        let newer = |ids: Vec<i64>| ids.into_iter().rev().filter(move |other| *other > id);
        for other in newer(main.ids(Record::Snapshot).await?) {
            storage::delete(store, &main.record_path(Record::Snapshot, other)).await?;
        }
        let changelogs = main.ids(Record::Changelog).await?;
        let left = changelogs.iter().rev().find(|other| **other <= id).copied();
        let mut any = false;
        for other in newer(changelogs) {
            storage::delete(store, &main.record_path(Record::Changelog, other)).await?;
            any = true;
        }
        if any {
            hint(self, main, Record::Changelog, "LATEST", left.unwrap_or(-1)).await;
        }
        for tag in main.tags().await?.iter().rev() {
            if tag.snapshot.id > id {
                storage::delete(store, &main.tag_path(&tag.name)?).await?;
            }
        }
        Ok(())
    }
}
