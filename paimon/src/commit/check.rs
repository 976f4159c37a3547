//! What must hold for a commit to be right, asked again after every lost race.

use std::collections::BTreeSet;

use futures::{TryStreamExt, future::try_join_all};

use crate::{
    error::{Error, Result},
    snapshot::{CommitKind, PaimonSnapshot},
    storage,
    table::Table,
};

use super::{CommitRequest, Expect, change::Part, view::View};

/// Snapshots of others that are looked at for one that emptied the table.
const LOOKED_AT_MAX: i64 = 100;

/// Checks the request against the table; what is live and at which level is settled by
/// [`super::change`] and [`super::lane`].
pub(super) async fn check(
    table: &Table,
    view: &View,
    request: &CommitRequest,
    part: Part<'_>,
) -> Result<()> {
    table.check_options()?;
    if let Some(expect) = &request.expect {
        expectation(table, view, expect).await?;
    }
    schemas(table, request).await?;
    if part == Part::Compact {
        return Ok(());
    }
    let refuse = |message: String| Error::Conflict {
        table: table.name().to_owned(),
        message,
    };
    let buckets = table.schema().buckets();
    for message in &request.messages {
        // A compaction alone may be of a partition that is yet to be rescaled.
        if message.new_files.is_empty() {
            continue;
        }
        if message.total_buckets != buckets {
            return Err(refuse(format!(
                "files were written for {} buckets, the table has {buckets}: write them again",
                message.total_buckets
            )));
        }
        if part == Part::Append
            && let Some(live) = view.total_buckets(&message.partition)
            && live != message.total_buckets
        {
            return Err(refuse(format!(
                "files were written for {} buckets, those in the partition stand in {live}: \
                 option bucket was changed. Rescale the table (headwater table rescale), or go \
                 back to the old bucket count; then write again",
                message.total_buckets
            )));
        }
    }
    for message in &request.messages {
        let twice = message
            .new_files
            .iter()
            .find(|file| view.holds_somewhere(&message.partition, message.bucket, file));
        if let Some(file) = twice {
            return Err(refuse(format!(
                "file {} is in the table already, added by another commit",
                file.file_name
            )));
        }
    }
    Ok(())
}

/// Our last snapshot is still what we think it is, unless it has expired.
async fn expectation(table: &Table, view: &View, expect: &Expect) -> Result<()> {
    let Some(ours) = expect.last_snapshot else {
        return Ok(());
    };
    let refuse = |found: String| Error::Conflict {
        table: table.name().to_owned(),
        message: format!(
            "snapshot {ours} by '{}' was the last of this job, and {found}: the table was rolled \
             back, or dropped and created again. Start from a checkpoint that fits, or take the \
             table up anew",
            expect.last_user
        ),
    };
    let Some(latest) = &view.snapshot else {
        return Err(refuse("now the table has none".into()));
    };
    if latest.id < ours {
        return Err(refuse(format!("now the newest is {}", latest.id)));
    }
    match table.snapshot(ours).await? {
        Some(found)
            if found.commit_user != expect.last_user
                || found.commit_identifier != expect.last_identifier =>
        {
            Err(refuse(format!(
                "now it is commit {} by '{}'",
                found.commit_identifier, found.commit_user
            )))
        }
        Some(_) => match emptied(table, latest, ours).await? {
            Some(by) => Err(Error::Conflict {
                table: table.name().to_owned(),
                message: format!(
                    "snapshot {} by '{}' took all rows away, and what is committed now would stand \
                     alone: roll the table back to snapshot {}, or take it up anew",
                    by.id,
                    by.commit_user,
                    by.id - 1
                ),
            }),
            None => Ok(()),
        },
        // Expired, unless older ones are there: then it was taken out of the middle.
        None => {
            let oldest = table.snapshot_ids().await?.first().copied();
            match oldest {
                Some(oldest) if oldest > ours => Ok(()),
                _ => Err(refuse("now it is missing between others".into())),
            }
        }
    }
}

/// The first snapshot behind ours that left nothing of a table that had rows: a TRUNCATE. Partitions
/// come and go, so that those tables may.
async fn emptied(
    table: &Table,
    latest: &PaimonSnapshot,
    ours: i64,
) -> Result<Option<PaimonSnapshot>> {
    if latest.id == ours || !table.schema().partition_keys.is_empty() {
        return Ok(None);
    }
    let first = ours.max(latest.id - LOOKED_AT_MAX) + 1;
    let between = try_join_all((first..latest.id).map(|id| table.snapshot(id))).await?;
    let newest = latest.clone();
    for snapshot in between.into_iter().flatten().chain([newest]) {
        let leaves_nothing = snapshot.commit_kind == CommitKind::Overwrite
            && snapshot.total_record_count == Some(0)
            && snapshot.delta_record_count.is_some_and(|rows| rows < 0);
        if leaves_nothing && had_rows(table, snapshot.id - 1).await? {
            return Ok(Some(snapshot));
        }
    }
    Ok(None)
}

/// Whether a snapshot has rows; one that has expired might.
async fn had_rows(table: &Table, id: i64) -> Result<bool> {
    let Some(snapshot) = table.snapshot(id).await? else {
        return Ok(true);
    };
    for split in table.scan(&snapshot).await? {
        let mut rows = table.read_bucket(&split, None)?;
        while let Some(batch) = rows.try_next().await? {
            if batch.num_rows() > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

async fn schemas(table: &Table, request: &CommitRequest) -> Result<()> {
    let ids: BTreeSet<i64> = request
        .messages
        .iter()
        .flat_map(|message| message.new_files.iter().chain(&message.compact.after))
        .map(|file| file.schema_id)
        .collect();
    for id in ids {
        if !storage::exists(table.store().as_ref(), &table.schema_path(id)).await? {
            return Err(Error::Conflict {
                table: table.name().to_owned(),
                message: format!(
                    "files were written with schema {id}, which is not there: the table was \
                     dropped and created again; take it up anew"
                ),
            });
        }
    }
    Ok(())
}
