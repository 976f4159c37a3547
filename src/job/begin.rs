//! How a run of the job begins: from nothing, or from the newest checkpoint record, whose commits
//! are finished first.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use headwater_connectors::{Position, TableName, TableSchema};
use headwater_paimon::{CommitKind, Table};

use super::{Job, settings::Startup, tables};
use crate::{
    checkpoint::{Record, SplitState, TableState, record::FORMAT},
    clock,
    error::{JobError, Result},
    failpoint,
    sink::{self, CommitContext, OpenTable, PreparedCheck, types::SnapshotRows},
};

/// Tables opened or looked at at the same time.
const OPEN_CONCURRENCY: usize = 8;

/// Where a run begins.
#[derive(Debug)]
pub struct Beginning {
    /// The newest record; it is of this instance and wholly committed.
    pub record: Record,
    /// Snapshot of every sink table that the job has committed.
    pub snapshots: BTreeMap<String, i64>,
    /// No barrier may stand before this: the schemas were read up to it.
    pub floor: Option<Position>,
    /// Captured tables at the record's position, with their sink tables.
    pub tables: Vec<(Arc<TableSchema>, Table)>,
}

/// Begins a run. With `start_over`, a job that has committed nothing begins from nothing again.
pub async fn begin(job: &Job, epoch: &mut Option<u64>, start_over: bool) -> Result<Beginning> {
    // Whatever ended the run before, tables may be others now.
    job.committer.forget().await;
    let Some((mut record, marked)) = job.state.newest().await? else {
        return from_nothing(job, epoch, None).await;
    };
    if record.job != job.settings.name {
        return Err(JobError::Definite(format!(
            "the state in {} belongs to job '{}', not '{}'. Give this job another state.path or \
             its own pipeline.name",
            job.state.folder(),
            record.job,
            job.settings.name
        )));
    }
    let fenced = epoch.is_some_and(|mine| record.epoch > mine);
    if fenced {
        return Err(crate::checkpoint::StateError::Fenced {
            number: record.number,
            folder: job.state.folder(),
        }
        .into());
    }
    let mut snapshots = match job.state.marker(record.number - i64::from(!marked)).await? {
        Some(marker) => marker.snapshots,
        None => BTreeMap::new(),
    };
    if !marked {
        finish(job, &record, &mut snapshots, PreparedCheck::Recovered).await?;
    }
    record.settle();
    if start_over && !record.committed_before {
        return from_nothing(job, epoch, Some(record)).await;
    }
    job.source.verify_position(&record.source).await?;
    let changes = tables::bring_up(job, &mut record, &mut snapshots).await?;
    let tables = reopen(job, &record, &snapshots).await?;
    let record = take_over(job, epoch, record, &snapshots, &tables, changes.any).await?;
    job.state.answered(&changes.requests).await?;
    // A later floor is as good: the one that the schemas need is not known to this server, maybe.
    let floor = match record.committed_before {
        true => None,
        false => Some(job.source.round_high().await?),
    };
    tracing::info!(
        checkpoint = record.number,
        position = %record.source.position,
        epoch = record.epoch,
        "going on from the newest checkpoint"
    );
    let tables = tables
        .into_iter()
        .map(|(schema, open)| (schema, open.table))
        .collect();
    Ok(Beginning {
        record,
        snapshots,
        floor,
        tables,
    })
}

/// Steps (c) and (d) of a record: commits its tables and sets its marker. Gives the greatest
/// sequence number seen in the tables.
pub async fn finish(
    job: &Job,
    record: &Record,
    snapshots: &mut BTreeMap<String, i64>,
    check: PreparedCheck,
) -> Result<Option<i64>> {
    let last = record
        .tables
        .iter()
        .filter_map(|table| {
            let name = table.sink.to_string();
            let snapshot = *snapshots.get(&name)?;
            Some((name, (snapshot, table.last_commit?)))
        })
        .collect();
    let context = CommitContext {
        record,
        last: &last,
    };
    let committed = job.committer.commit(context, check).await?;
    snapshots.extend(committed.snapshots);
    failpoint::reach("after-table-commits");
    if let Some(tag) = &record.tag {
        job.committer.tag(tag, record, snapshots).await?;
        failpoint::reach("after-tags");
    }
    let marker = record.marker(snapshots.clone());
    job.state.mark_committed(&marker).await?;
    failpoint::reach("after-marker");
    Ok(committed.max_sequence)
}

/// The first record after this instance took the job: same state, higher epoch. From here on an
/// older instance can create no record any more. Also made where the captured tables are others than
/// those of the newest record (`changed`).
async fn take_over(
    job: &Job,
    epoch: &mut Option<u64>,
    mut record: Record,
    snapshots: &BTreeMap<String, i64>,
    tables: &[(Arc<TableSchema>, OpenTable)],
    changed: bool,
) -> Result<Record> {
    // Rows that someone else wrote meanwhile must not win over ours that come later.
    let highest = tables
        .iter()
        .filter_map(|(_, open)| open.max_sequence)
        .max();
    let above = highest.map_or(0, |highest| highest + 1);
    let is_mine = epoch.is_some_and(|mine| record.epoch == mine);
    if is_mine && !changed {
        record.next_sequence = record.next_sequence.max(above);
        return Ok(record);
    }
    let mine = record.epoch + u64::from(!is_mine);
    let mut next = record.successor(&job.instance, mine, clock::now_ms());
    refuse_foreign_rows(&record, tables)?;
    next.next_sequence = next.next_sequence.max(above);
    job.state.create(&next).await?;
    failpoint::reach("after-take-over");
    *epoch = Some(mine);
    let marker = next.marker(snapshots.clone());
    job.state.mark_committed(&marker).await?;
    Ok(next)
}

/// Snapshot rows that are still to come have the low sequence number with which their table was
/// taken up: rows that someone else wrote meanwhile would hide them.
fn refuse_foreign_rows(record: &Record, tables: &[(Arc<TableSchema>, OpenTable)]) -> Result<()> {
    for (schema, open) in tables {
        let state = table_state(record, &schema.name)?;
        // One that waits is read with numbers above all that are there.
        let reading = state.is_reading() && !state.waiting;
        let foreign = open
            .max_sequence
            .is_some_and(|highest| highest >= record.next_sequence);
        if reading && foreign {
            return Err(JobError::Definite(format!(
                "table {}: someone else wrote rows into {} while its snapshot was under way; they \
                 would hide rows that are still to be read. Remove the job's state and its sink \
                 tables to start again, and let nobody else write until the snapshot is complete",
                schema.name,
                open.table.name()
            )));
        }
    }
    Ok(())
}

/// Opens the tables of a record and compares them with what the job left behind.
async fn reopen(
    job: &Job,
    record: &Record,
    snapshots: &BTreeMap<String, i64>,
) -> Result<Vec<(Arc<TableSchema>, OpenTable)>> {
    let mut schemas = job.source.tables(&record.source)?;
    for state in record.tables.iter().filter(|state| state.dropped) {
        let sink = &state.sink;
        if job
            .catalog
            .table(&sink.database, &sink.table)
            .await?
            .is_none()
        {
            tracing::info!(table = %state.source, "gone at the source and in the lake");
            schemas.retain(|schema| schema.name != state.source);
        }
    }
    let opened: Vec<(Arc<TableSchema>, OpenTable)> = stream::iter(schemas)
        .map(|schema| async move {
            let state = table_state(record, &schema.name)?;
            let (options, catalog) = (&job.settings.sink, &job.catalog);
            let reading = state.is_reading();
            let rows = SnapshotRows::of(reading, &record.source.position);
            let open =
                sink::open_existing(catalog, options, &schema, &state.sink, rows, state.schema)
                    .await?;
            let last = snapshots.get(&state.sink.to_string()).copied();
            look_at_history(record, state, &open, last).await?;
            Ok::<_, JobError>((schema, open))
        })
        .buffered(OPEN_CONCURRENCY)
        .try_collect()
        .await?;
    Ok(opened)
}

/// Says at the start when a table was rolled back or written by someone else meanwhile.
async fn look_at_history(
    record: &Record,
    state: &TableState,
    open: &OpenTable,
    last: Option<i64>,
) -> Result<()> {
    let table = &open.table;
    let newest = table.latest_snapshot().await?;
    if let Some(newest) = &newest
        && newest.commit_user == record.commit_user
        && newest.commit_identifier > record.number
    {
        return Err(JobError::Definite(format!(
            "table {}: it holds checkpoint {} of this job, and the newest record is {}: records \
             were removed. Restore them; without them, remove the job's state and its sink tables \
             to start again",
            table.name(),
            newest.commit_identifier,
            record.number
        )));
    }
    let (Some(snapshot), Some(identifier)) = (last, state.last_commit) else {
        return Ok(());
    };
    let newest_id = newest.as_ref().map_or(0, |newest| newest.id);
    let ours = table.snapshot(snapshot).await?;
    let replaced = ours.as_ref().is_some_and(|ours| {
        ours.commit_user != record.commit_user || ours.commit_identifier != identifier
    });
    if newest_id < snapshot || replaced {
        return Err(JobError::Definite(format!(
            "table {}: it was rolled back or made anew: the job's last commit (checkpoint \
             {identifier}) was snapshot {snapshot}, the newest is {newest_id} now. Roll it forward \
             again, or remove the job's state and its sink tables to start again",
            table.name()
        )));
    }
    if let Some(newest) = newest
        && newest.commit_user != record.commit_user
        && newest.commit_kind != CommitKind::Compact
    {
        tracing::warn!(
            table = table.name(),
            snapshot = newest.id,
            user = newest.commit_user,
            "written by someone else since the job's last commit: going on behind it"
        );
    }
    Ok(())
}

/// The state of a captured table in a record.
fn table_state<'a>(record: &'a Record, name: &TableName) -> Result<&'a TableState> {
    record.captured_table(name).ok_or_else(|| {
        JobError::Internal(format!(
            "checkpoint {} has the schema of {name} but not its state",
            record.number
        ))
    })
}

/// Begins a job that has no checkpoint, or one whose first steps have to be taken again.
async fn from_nothing(
    job: &Job,
    epoch: &mut Option<u64>,
    before: Option<Record>,
) -> Result<Beginning> {
    let discovery = job.source.discover().await?;
    if let Some((table, reason)) = discovery.rejected.first() {
        return Err(JobError::Definite(format!(
            "table {table}: {reason}{}. Or leave it out with source.tables.exclude",
            match discovery.rejected.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more tables, see headwater check)"),
            }
        )));
    }
    if discovery.captured.is_empty() {
        return Err(JobError::Definite(
            "no table matches source.tables. A pattern is database.table, with \\. for the regex \
             'any character'; headwater check lists what matches"
                .to_owned(),
        ));
    }
    one_sink_each(job, &discovery.captured)?;
    let source = job.source.start(&discovery.captured).await?;
    let floor = job.source.round_high().await?;
    let schemas = job.source.tables(&source)?;
    let reading = job.settings.startup != Startup::LatestOffset;
    let rows = SnapshotRows::of(reading, &source.position);
    let opened = open_all(job, &schemas, rows).await?;
    let highest = opened.iter().filter_map(|open| open.max_sequence).max();
    let snapshot_sequence = highest.map_or(0, |highest| highest + 1);
    let mut tables = table_states(job, &schemas, snapshot_sequence).await?;
    for (table, open) in tables.iter_mut().zip(&opened) {
        table.schema = Some(open.table.schema().id);
    }
    let record = Record {
        format: FORMAT,
        number: before.as_ref().map_or(1, |before| before.number + 1),
        epoch: before
            .as_ref()
            .map_or(1, |before| before.epoch.max(epoch.unwrap_or(0) + 1)),
        instance: job.instance.clone(),
        job: job.settings.name.clone(),
        commit_user: commit_user(job),
        created_ms: clock::now_ms(),
        source,
        next_sequence: snapshot_sequence + 1,
        event_time_ms: None,
        committed_before: false,
        tables,
        commits: Vec::new(),
        tag: None,
        tagged_ms: None,
    };
    failpoint::reach("before-first-record");
    job.state.create(&record).await?;
    failpoint::reach("after-first-record");
    *epoch = Some(record.epoch);
    let marker = record.marker(BTreeMap::new());
    job.state.mark_committed(&marker).await?;
    failpoint::reach("after-first-marker");
    tracing::info!(
        tables = record.tables.len(),
        position = %record.source.position,
        "starting from nothing"
    );
    let tables = schemas
        .into_iter()
        .zip(opened)
        .map(|(schema, open)| (schema, open.table))
        .collect();
    Ok(Beginning {
        record,
        snapshots: BTreeMap::new(),
        floor: Some(floor),
        tables,
    })
}

/// Two source tables in one sink table would overwrite each other's rows.
fn one_sink_each(job: &Job, tables: &[Arc<TableSchema>]) -> Result<()> {
    let names = tables.iter().map(|table| &table.name);
    match job.settings.router.plan(names) {
        Ok(_) => Ok(()),
        Err(error) => Err(JobError::Definite(error.to_string())),
    }
}

/// A user that no other state of the job ever had: an identifier of ours then means one thing.
fn commit_user(job: &Job) -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!(
        "{}-{}-{}",
        job.settings.commit_user_prefix,
        job.settings.name,
        id.get(..12).unwrap_or(&id)
    )
}

async fn open_all(
    job: &Job,
    schemas: &[Arc<TableSchema>],
    rows: SnapshotRows,
) -> Result<Vec<OpenTable>> {
    stream::iter(schemas)
        .map(|schema| async move {
            let sink = job.settings.sink_of(&schema.name)?;
            let (estimated_rows, bytes) = job.source.estimate(schema).await?;
            job.status.update(|status| {
                let table = status.tables.entry(schema.name.clone()).or_default();
                table.estimated_rows = estimated_rows;
            });
            let (options, catalog) = (&job.settings.sink, &job.catalog);
            sink::open_new(catalog, options, schema, &sink, bytes, rows).await
        })
        .buffered(OPEN_CONCURRENCY)
        .try_collect()
        .await
}

async fn table_states(
    job: &Job,
    schemas: &[Arc<TableSchema>],
    snapshot_sequence: i64,
) -> Result<Vec<TableState>> {
    stream::iter(schemas)
        .map(|schema| async move {
            let splits = match job.settings.startup {
                Startup::LatestOffset => Vec::new(),
                Startup::Initial | Startup::Snapshot => {
                    let want = job.settings.concurrent_chunks;
                    job.source.splits(schema, want).await?
                }
            };
            Ok(TableState {
                source: schema.name.clone(),
                sink: job.settings.sink_of(&schema.name)?,
                snapshot_sequence,
                last_commit: None,
                splits: splits.into_iter().map(SplitState::new).collect(),
                sweep_below: None,
                schema: None,
                dropped: false,
                waiting: false,
                released: false,
            })
        })
        .buffered(OPEN_CONCURRENCY)
        .try_collect()
        .await
}
