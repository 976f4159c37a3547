//! Which tables a job that goes on captures: those of its newest checkpoint, but for what the job file,
//! the server or somebody with a request has changed since.
//!
//! All three come here, between two runs of the job: a new table, or one that is to be read anew, is
//! marked in the next record; the tail leaves its rows out until it has read the schema
//! (`connectors/src/mysql/tail/dark.rs`), and then the job reads the table (`follow.rs`). A job under way
//! that finds a request, or sees a table come into being, ends its run and begins the next one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headwater_connectors::{Recapture, TableName, TableSchema};

use super::Job;
use crate::{
    checkpoint::{Record, Request, TableState},
    error::{JobError, Result},
    sink::{self, types::SnapshotRows},
};

/// Time between two looks for requests.
const LOOK: Duration = Duration::from_secs(2);

/// What has changed in the tables of a record.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Requests that are in the record now, or that cannot be met: to be removed when it is durable.
    pub requests: Vec<Request>,
    /// The record is another one.
    pub any: bool,
}

/// Brings the tables of the newest record up to what is wanted now. Sink tables are made; nothing else
/// is written.
pub(super) async fn bring_up(
    job: &Job,
    record: &mut Record,
    snapshots: &mut BTreeMap<String, i64>,
) -> Result<Changes> {
    let discovery = job.source.discover().await?;
    let requests = job.state.requests().await?;
    let mut wanted = Wanted {
        there: &discovery.captured,
        asked: requests.iter().map(|it| it.table.clone()).collect(),
        capture: Vec::new(),
    };
    let released = release(job, record, snapshots);
    wanted.anew(record);
    wanted.added(job, record).await?;
    let capture = wanted.capture;
    let captured: BTreeSet<&TableName> = record.captured().map(|table| &table.source).collect();
    for (name, why) in &discovery.rejected {
        if !captured.contains(name) {
            tracing::warn!(table = %name, "matches the job file and cannot be captured: {why}");
        }
    }
    let there: BTreeSet<&TableName> = discovery.captured.iter().map(|it| &it.name).collect();
    for table in record.captured() {
        if !there.contains(&table.source) && !table.dropped {
            tracing::warn!(
                table = %table.source,
                "is gone at the source, or cannot be captured as it is now: the log will tell"
            );
        }
    }
    if captured.is_empty() {
        return Err(JobError::Definite(
            "source.tables matches none of the tables that the job has captured, and no other that \
             it may take up. Correct the pattern; headwater check lists what matches"
                .to_owned(),
        ));
    }
    for name in wanted.asked.iter().filter(|it| !captured.contains(it)) {
        tracing::warn!(
            table = %name,
            "is asked for and cannot be captured: it is not there, or does not match source.tables"
        );
    }
    let any = !capture.is_empty() || !released.is_empty();
    if any {
        record.source = job.source.recapture(&record.source, &capture, &released)?;
    }
    Ok(Changes { requests, any })
}

/// Ends when somebody asks something of the job.
pub(super) async fn asked(job: &Job) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK).await;
        match job.state.requests().await {
            Ok(requests) => {
                if let Some(request) = requests.first() {
                    return Err(JobError::Asked(format!(
                        "table {} is to be read anew",
                        request.table
                    )));
                }
            }
            Err(error) => tracing::debug!(%error, "cannot look for requests"),
        }
    }
}

/// Captures tables no more that the job file names no more. Their sink tables stay as they are.
fn release(
    job: &Job,
    record: &mut Record,
    snapshots: &mut BTreeMap<String, i64>,
) -> Vec<TableName> {
    let mut released = Vec::new();
    for table in &mut record.tables {
        if table.released || job.source.matches(&table.source) {
            continue;
        }
        tracing::warn!(
            table = %table.source,
            sink = %table.sink,
            "the job file names it no more: it is captured no more, and its sink table stays as it is"
        );
        table.released = true;
        table.waiting = false;
        table.splits.clear();
        table.sweep_below = None;
        snapshots.remove(&table.sink.to_string());
        released.push(table.source.clone());
    }
    released
}

struct Wanted<'a> {
    /// Tables that match and can be captured.
    there: &'a [Arc<TableSchema>],
    /// Tables of requests.
    asked: BTreeSet<TableName>,
    /// What the source is to be told.
    capture: Vec<(Arc<TableSchema>, Recapture)>,
}

impl Wanted<'_> {
    /// Captured tables that are to be read anew.
    fn anew(&mut self, record: &mut Record) {
        let tables = record.tables.iter_mut().filter(|table| !table.released);
        for table in tables.filter(|table| self.asked.contains(&table.source)) {
            let Some(schema) = self.there.iter().find(|it| it.name == table.source) else {
                continue;
            };
            tracing::info!(table = %table.source, "is read anew, since somebody asks for it");
            table.waiting = true;
            self.capture.push((schema.clone(), Recapture::Asked));
        }
    }

    /// Tables that are not captured yet.
    async fn added(&mut self, job: &Job, record: &mut Record) -> Result<()> {
        let captured = record.captured().map(|table| table.source.clone());
        let captured: BTreeSet<TableName> = captured.collect();
        let others = self.there.iter();
        for schema in others.filter(|schema| !captured.contains(&schema.name)) {
            if !job.settings.adds_tables && !self.asked.contains(&schema.name) {
                tracing::warn!(
                    table = %schema.name,
                    "matches the job file and is not captured: it was not there, or did not match, \
                     when the job was started first. scan.newly-added-table.enabled: true takes \
                     such tables up"
                );
                continue;
            }
            let added = match take_up(job, record, schema).await {
                Ok(added) => added,
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    // The others are not to suffer for it; it is tried again at the next start.
                    tracing::error!(table = %schema.name, %error, "cannot be added: it is left out");
                    continue;
                }
            };
            record.tables.retain(|table| table.source != schema.name);
            record.tables.push(added);
            self.capture.push((schema.clone(), Recapture::Added));
        }
        Ok(())
    }
}

/// The state of a table that the job has not captured so far, with its sink table made.
async fn take_up(job: &Job, record: &Record, schema: &Arc<TableSchema>) -> Result<TableState> {
    let names = record.captured().map(|table| &table.source);
    let planned = job.settings.router.plan(names.chain([&schema.name]));
    planned.map_err(|error| JobError::Definite(error.to_string()))?;
    let sink = job.settings.sink_of(&schema.name)?;
    let rows = SnapshotRows::of(true, &record.source.position);
    let (estimated_rows, bytes) = job.source.estimate(schema).await?;
    let (options, catalog) = (&job.settings.sink, &job.catalog);
    // What the job has left in the sink table of a table that it captured once is replaced.
    let mut tables = record.tables.iter();
    let was_ours = tables.any(|table| table.source == schema.name && table.sink == sink);
    let open = match was_ours {
        true => sink::open_or_make(catalog, options, schema, &sink, bytes, rows).await?,
        false => sink::open_new(catalog, options, schema, &sink, bytes, rows).await?,
    };
    tracing::info!(
        table = %schema.name,
        %sink,
        estimated_rows,
        "a table is added to those that the job captures: it is read beside the others"
    );
    job.status.update(|status| {
        let table = status.tables.entry(schema.name.clone()).or_default();
        table.estimated_rows = estimated_rows;
    });
    Ok(TableState {
        source: schema.name.clone(),
        sink,
        snapshot_sequence: record.next_sequence,
        last_commit: None,
        splits: Vec::new(),
        sweep_below: None,
        schema: Some(open.table.schema().id),
        dropped: false,
        waiting: true,
        released: false,
    })
}
