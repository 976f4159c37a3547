//! Consumers: readers that stream the table and say how far they are. File
//! `consumer/consumer-<id>`.
//!
//! Source: `org.apache.paimon.consumer.ConsumerManager`.

use futures::TryStreamExt;
use serde::Deserialize;

use crate::{
    error::{Error, Result},
    storage,
    table::Table,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consumer {
    next_snapshot: i64,
}

/// The first snapshot that a consumer is still to read.
pub(super) async fn min_next_snapshot(table: &Table) -> Result<Option<i64>> {
    let folder = table.path().clone().join("consumer");
    let mut least: Option<i64> = None;
    let store = table.store().as_ref();
    for name in storage::file_names(store, &folder).await? {
        if !name.starts_with("consumer-") {
            continue;
        }
        let path = crate::partition::segment(folder.clone(), &name)?;
        let Some(bytes) = storage::get(store, &path).await? else {
            continue;
        };
        let consumer: Consumer =
            serde_json::from_slice(&bytes).map_err(|error| Error::Corrupt {
                path: path.to_string(),
                message: format!(
                    "{error}: it is not known which snapshots this consumer needs, and nothing was \
                     deleted. Delete the file if nobody reads with this id"
                ),
            })?;
        let next = consumer.next_snapshot;
        least = Some(least.map_or(next, |least| least.min(next)));
    }
    Ok(least)
}

/// Forgets the consumers that have not moved since. Returns their ids.
pub(super) async fn forget(table: &Table, before_ms: i64) -> Result<Vec<String>> {
    let folder = table.path().clone().join("consumer");
    let store = table.store();
    let objects: Vec<_> = store
        .list(Some(&folder))
        .try_collect()
        .await
        .map_err(|error| Error::store("cannot list", &folder, error))?;
    let mut forgotten = Vec::new();
    for object in objects {
        let id = object
            .location
            .filename()
            .and_then(|name| name.strip_prefix("consumer-"));
        if let Some(id) = id
            && object.last_modified.timestamp_millis() < before_ms
        {
            storage::delete(store.as_ref(), &object.location).await?;
            forgotten.push(id.to_owned());
        }
    }
    Ok(forgotten)
}
