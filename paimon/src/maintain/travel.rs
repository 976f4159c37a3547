//! Time travel: which snapshot is meant.
//!
//! Source: `org.apache.paimon.utils.SnapshotManager`, `org.apache.paimon.table.source.snapshot`.

use crate::{error::Result, snapshot::PaimonSnapshot, table::Table};

use super::{
    lineage::{Lineage, Record},
    tag::refuse,
};

/// A moment of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SnapshotRef {
    /// The newest snapshot.
    #[default]
    Latest,
    /// The snapshot of this id; one that has expired is taken from its tag.
    Id(i64),
    /// The snapshot of this tag.
    Tag(String),
    /// The newest snapshot that was made at this time or before, milliseconds since the epoch.
    TimestampMs(i64),
    /// The first snapshot that is complete up to this event time, milliseconds since the epoch.
    WatermarkMs(i64),
}

impl Table {
    /// The snapshot that is meant.
    ///
    /// # Errors
    /// [`crate::Error::Table`] when there is none, with what there is.
    pub async fn snapshot_at(&self, moment: &SnapshotRef) -> Result<PaimonSnapshot> {
        let main = Lineage::main(self);
        let found = match moment {
            SnapshotRef::Latest => self.latest_snapshot().await?,
            SnapshotRef::Tag(name) => self.tag(name).await?.map(|tag| tag.snapshot),
            SnapshotRef::Id(id) => match main.read(Record::Snapshot, *id).await? {
                Some(snapshot) => Some(snapshot),
                None => {
                    let tags = main.tags().await?.into_iter();
                    let mut tags = tags.map(|tag| tag.snapshot);
                    tags.find(|snapshot| snapshot.id == *id)
                }
            },
            SnapshotRef::TimestampMs(time) => {
                self.last_where(&main, |snapshot| Some(snapshot.time_millis <= *time))
                    .await?
            }
            SnapshotRef::WatermarkMs(watermark) => self.first_complete(&main, *watermark).await?,
        };
        match found {
            Some(snapshot) => Ok(snapshot),
            None => Err(self.nothing_at(&main, moment).await?),
        }
    }

    /// The last snapshot that fits, when all that fit come first.
    async fn last_where(
        &self,
        main: &Lineage,
        fits: impl Fn(&PaimonSnapshot) -> Option<bool>,
    ) -> Result<Option<PaimonSnapshot>> {
        let ids = main.ids(Record::Snapshot).await?;
        let (mut low, mut high) = (0, ids.len());
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let snapshot = match ids.get(middle) {
                Some(id) => main.read(Record::Snapshot, *id).await?,
                None => None,
            };
            match snapshot {
                Some(snapshot) if fits(&snapshot) == Some(false) => high = middle,
                Some(snapshot) => {
                    found = Some(snapshot);
                    low = middle + 1;
                }
                // Expired meanwhile: all before have expired too.
                None => low = middle + 1,
            }
        }
        Ok(found)
    }

    async fn first_complete(
        &self,
        main: &Lineage,
        watermark_ms: i64,
    ) -> Result<Option<PaimonSnapshot>> {
        for id in main.ids(Record::Snapshot).await? {
            if let Some(snapshot) = main.read(Record::Snapshot, id).await?
                && let Some(watermark) = snapshot.watermark
                && watermark != i64::MIN
                && watermark >= watermark_ms
            {
                return Ok(Some(snapshot));
            }
        }
        Ok(None)
    }

    async fn nothing_at(&self, main: &Lineage, moment: &SnapshotRef) -> Result<crate::Error> {
        let ids = main.ids(Record::Snapshot).await?;
        let there = match (ids.first(), ids.last()) {
            (Some(first), Some(last)) => format!("it has snapshots {first} to {last}"),
            _ => "it has no snapshots".to_owned(),
        };
        Ok(match moment {
            SnapshotRef::Latest => refuse(self, there),
            SnapshotRef::Id(id) => refuse(self, format!("there is no snapshot {id}: {there}")),
            SnapshotRef::Tag(name) => {
                let names = main.tag_names().await?;
                let names = match names.as_slice() {
                    [] => "it has none".to_owned(),
                    names => format!("it has {}", names.join(", ")),
                };
                refuse(self, format!("there is no tag '{name}': {names}"))
            }
            SnapshotRef::TimestampMs(time) => refuse(
                self,
                format!("no snapshot was made at {time} ms or before is left: {there}"),
            ),
            SnapshotRef::WatermarkMs(watermark) => refuse(
                self,
                format!("no snapshot is complete up to watermark {watermark} ms: {there}"),
            ),
        })
    }
}
