//! Between the record of a checkpoint and its commits others may have changed a table: cleaned
//! prepared files away, rescaled it, written rows. What is prepared is looked at before it is
//! committed, and what a commit finds is said in the job's words.

use std::time::Duration;

use headwater_paimon::{
    CommitKind, CommitMessage, CommitRequest, Error as LakeError, Table, TableCommitter, rescale,
};

use super::{PreparedCheck, SNAPSHOT_PHASE};
use crate::{
    checkpoint::TableCommit,
    error::{JobError, Result},
    job::upkeep::USER_INFIX,
};

/// Prepared files that are older may have been deleted: by orphan cleaning, while the process
/// slept or a round waited for the tail.
const PREPARED_AGE: Duration = Duration::from_secs(30);
/// Makes sure that a request can be committed as it was prepared; else it is made anew, or refused.
/// Gives the messages with files that were written anew.
pub(super) async fn look(
    committer: &mut TableCommitter,
    commit: &TableCommit,
    request: &mut CommitRequest,
    check: PreparedCheck,
) -> Result<Vec<CommitMessage>> {
    if check == PreparedCheck::Recovered {
        if committer.find_commit(request).await?.is_some() {
            return Ok(Vec::new());
        }
        let missing = committer.table().missing_files(&request.messages).await?;
        refuse_missing(commit, request, &missing)?;
        let Some(fit) = fit_anew(committer, request).await? else {
            return Ok(Vec::new());
        };
        request.messages = fit;
        let mut anew = request.messages.clone();
        anew.retain(|message| !commit.messages.contains(message));
        return Ok(anew);
    }
    let table = committer.table();
    let missing = table.missing_old_files(&request.messages, PREPARED_AGE);
    refuse_missing(commit, request, &missing.await?)?;
    if others_wrote(table, request, check).await? && are_hidden(committer, request).await? {
        return Err(JobError::Again(format!(
            "table {}: someone else wrote rows into it that would hide those of the job",
            commit.sink
        )));
    }
    Ok(Vec::new())
}

/// The snapshot that made a commit found by its files, when its own has expired: one that has, so
/// that nobody takes a later one of someone else for it.
pub(super) async fn own_snapshot(
    table: &Table,
    found: i64,
    request: &CommitRequest,
) -> Result<i64> {
    let is_own = table.snapshot(found).await?.is_some_and(|snapshot| {
        snapshot.commit_user == request.user && snapshot.commit_identifier == request.identifier
    });
    let oldest = table.snapshot_ids().await?.first().copied();
    Ok(match oldest {
        Some(oldest) if !is_own && oldest > 1 => oldest - 1,
        _ => found,
    })
}

/// Prepared files must still be there, unless they are committed: then they may have been compacted
/// away since, also with the snapshot that brought them.
fn refuse_missing(commit: &TableCommit, request: &CommitRequest, missing: &[String]) -> Result<()> {
    let Some(file) = missing.first() else {
        return Ok(());
    };
    Err(JobError::Definite(format!(
        "table {}: checkpoint {} prepared {} files that are gone ({file} and others), probably \
         deleted by another engine's orphan cleaning. Their rows cannot be committed; drop the \
         job's sink tables and its state to read the tables again",
        commit.sink,
        request.identifier,
        missing.len(),
    )))
}

/// Whether snapshots of others stand between the job's last one and the one that is to be made;
/// says which. Compactions change no row, and a rescale of ours keeps their sequence numbers.
async fn others_wrote(
    table: &Table,
    request: &CommitRequest,
    check: PreparedCheck,
) -> Result<bool> {
    let Some(last) = request.expect.as_ref().and_then(|it| it.last_snapshot) else {
        return Ok(false);
    };
    let (mut id, mut some) = (last, false);
    loop {
        id += 1;
        let Some(snapshot) = table.snapshot(id).await? else {
            // It is the one to be made, or it has expired since the job ran. While rows of the
            // snapshot are to come it was a compaction's: rows of others would be refused later.
            let reading = request.properties.contains_key(SNAPSHOT_PHASE);
            if check == PreparedCheck::Recovered && id == last + 1 && !reading {
                let oldest = table.snapshot_ids().await?.first().copied();
                return Ok(oldest.is_some_and(|oldest| oldest > id));
            }
            return Ok(some);
        };
        let user = &snapshot.commit_user;
        if snapshot.commit_kind != CommitKind::Compact
            && *user != request.user
            && !user.contains(USER_INFIX)
            && !user.starts_with(rescale::COMMIT_USER_PREFIX)
        {
            tracing::warn!(
                table = table.name(),
                snapshot = id,
                user,
                kind = ?snapshot.commit_kind,
                "written by someone else since the job's last commit: going on behind it"
            );
            some = true;
        }
    }
}

/// Whether rows that are there have sequence numbers as high as some that are to be committed.
async fn are_hidden(committer: &mut TableCommitter, request: &CommitRequest) -> Result<bool> {
    let highest = committer.max_sequence_number().await?;
    let files = request.messages.iter().flat_map(|it| &it.new_files);
    let lowest = files.map(|file| file.min_sequence_number).min();
    Ok(highest.is_some() && highest >= lowest && lowest.is_some())
}

/// Prepared files written anew where the table changed while they waited: rescaled by whomever, or
/// written by someone whose rows have sequence numbers as high.
async fn fit_anew(
    committer: &mut TableCommitter,
    request: &CommitRequest,
) -> Result<Option<Vec<CommitMessage>>> {
    let others = others_wrote(committer.table(), request, PreparedCheck::Recovered).await?;
    let above = match others && are_hidden(committer, request).await? {
        true => committer.max_sequence_number().await?,
        false => None,
    };
    let table = committer.table();
    let buckets = table.schema().buckets();
    if above.is_none()
        && request
            .messages
            .iter()
            .all(|it| it.total_buckets == buckets)
    {
        return Ok(None);
    }
    tracing::info!(
        table = table.name(),
        checkpoint = request.identifier,
        buckets,
        ?above,
        "others changed the table meanwhile: the rows of the checkpoint are written anew"
    );
    Ok(Some(table.prepare_anew(&request.messages, above).await?))
}

/// What a refused commit means for the job. A table that was rescaled under a run is no reason to
/// end: the next attempt opens it anew.
pub(super) async fn conflict(
    error: LakeError,
    committer: &TableCommitter,
    request: &CommitRequest,
    check: PreparedCheck,
) -> JobError {
    if check == PreparedCheck::Fresh {
        let buckets = match committer.table().reload().await {
            Ok(table) => table.schema().buckets(),
            Err(error) => return error.into(),
        };
        if request
            .messages
            .iter()
            .any(|it| it.total_buckets != buckets)
        {
            return JobError::Again(format!(
                "table {}: it has {buckets} buckets now",
                committer.table().name()
            ));
        }
    }
    JobError::Definite(format!(
        "lake: {error}. Nothing of checkpoint {} was added to it. Where it cannot be mended, remove \
         the job's state and its sink tables to start again",
        request.identifier
    ))
}
