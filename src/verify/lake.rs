//! The lake's rows at a snapshot.

use arrow_array::RecordBatch;
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use headwater_paimon::{Catalog, CommitKind};

use crate::{
    checkpoint::TableState,
    error::{JobError, Result},
};

/// Rows of one bucket, merged: one a key.
pub(super) type Rows = BoxStream<'static, Result<RecordBatch>>;

/// Where the rows of sink tables are read.
#[async_trait]
pub(super) trait Lake: Send + Sync {
    /// The rows of a table at a snapshot, by bucket; nothing is read before a stream is polled.
    async fn buckets(&self, table: &TableState, snapshot: i64) -> Result<Vec<Rows>>;

    /// The newest snapshot and its user, when someone other than `user` made it after `snapshot`.
    async fn newer_by_others(
        &self,
        table: &TableState,
        snapshot: i64,
        user: &str,
    ) -> Result<Option<(i64, String)>>;
}

#[async_trait]
impl Lake for Catalog {
    async fn buckets(&self, state: &TableState, snapshot: i64) -> Result<Vec<Rows>> {
        let gone = |what: String| {
            JobError::Definite(format!(
                "the sink table {} {what}, though the job's checkpoint names it",
                state.sink
            ))
        };
        let table = self.table(&state.sink.database, &state.sink.table).await?;
        // A compaction may still have to show what the checkpoint holds.
        let table = table.ok_or_else(|| gone("is gone".to_owned()))?;
        let table = table.merging_level_0();
        let snapshot = table
            .snapshot(snapshot)
            .await?
            .ok_or_else(|| gone(format!("has no snapshot {snapshot} any more")))?;
        let splits = table.scan(&snapshot).await?;
        splits
            .iter()
            .map(|split| {
                Ok(table
                    .read_bucket(split, None)?
                    .map_err(JobError::from)
                    .boxed())
            })
            .collect()
    }

    async fn newer_by_others(
        &self,
        state: &TableState,
        snapshot: i64,
        user: &str,
    ) -> Result<Option<(i64, String)>> {
        let Some(table) = self.table(&state.sink.database, &state.sink.table).await? else {
            return Ok(None);
        };
        let newest = table.latest_snapshot().await?;
        Ok(newest
            .filter(|newest| newest.id > snapshot && newest.commit_user != user)
            // A compaction changes no row.
            .filter(|newest| newest.commit_kind != CommitKind::Compact)
            .map(|newest| (newest.id, newest.commit_user)))
    }
}
