//! The index of dynamic buckets in a checkpoint.

use std::collections::BTreeSet;

use headwater_connectors::TableName;
use headwater_paimon::{CommitMessage, Error as LakeError};

use super::Job;
use crate::{
    checkpoint::Record,
    error::{JobError, Result},
    sink::Buckets,
};

/// Adds the index of dynamic buckets as it is now: with the keys of all these files, whose writers
/// are done.
pub(super) async fn add(
    buckets: &Buckets,
    files: &mut Vec<(TableName, Vec<CommitMessage>)>,
) -> Result<()> {
    for (name, buckets) in buckets.iter() {
        let messages = files.iter().filter(|(of, _)| of == name);
        let messages = messages.flat_map(|(_, messages)| messages);
        let partitions: BTreeSet<&[u8]> = messages
            .map(|message| message.partition.as_slice())
            .collect();
        let partitions: Vec<Vec<u8>> = partitions.into_iter().map(<[u8]>::to_vec).collect();
        if partitions.is_empty() {
            continue;
        }
        let index = buckets.prepare(&partitions).await;
        let index = index.map_err(|error| match error {
            // The rows go to other buckets when they are read again.
            error @ LakeError::Conflict { .. } => JobError::Again(format!("lake: {error}")),
            error => error.into(),
        })?;
        files.push((name.clone(), index));
    }
    Ok(())
}

/// Deletes files that no record will name.
pub(super) async fn discard(
    job: &Job,
    record: &Record,
    files: Vec<(TableName, Vec<CommitMessage>)>,
) {
    for (name, messages) in files {
        let Some(table) = record.tables.iter().find(|table| table.source == name) else {
            continue;
        };
        if let Ok(committer) = job.committer.committer(&table.sink).await {
            committer.lock().await.table().discard(&messages).await;
        }
    }
}
