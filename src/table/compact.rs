//! `headwater compact` and `headwater table compact`: a compactor of its own, beside whoever writes.

use std::time::Duration;

use headwater_paimon::{
    Catalog, CommitRequest, Table, TableOptions,
    compact::{CompactScope, CompactSettings, Compactor},
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Answer, Warehouse, catalog};
use crate::{
    error::{JobError, Result},
    sink::SNAPSHOT_PHASE,
};

/// Snapshots that are looked at for what the job said last.
const SNAPSHOTS_MAX: i64 = 200;

/// What is to be compacted, and how.
#[derive(Debug, Clone, Default)]
pub struct CompactRequest {
    /// Only this database.
    pub database: Option<String>,
    /// Only this table of it.
    pub table: Option<String>,
    /// Only tables that this job writes.
    pub job: Option<String>,
    /// Only partitions whose folders begin so, such as `d=2026-11-30`.
    pub partition: Option<String>,
    /// All of it, into the top level; otherwise what the table's options call for.
    pub full: bool,
    /// Again and again, with this pause; otherwise once.
    pub every: Option<Duration>,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Buckets at a time.
    pub parallelism: usize,
}

/// What compactions did.
#[derive(Debug, Default, Serialize)]
pub struct Compacted {
    tables: Vec<CompactedTable>,
}

#[derive(Debug, Serialize)]
struct CompactedTable {
    table: String,
    /// The snapshot that it made; none when nothing was due, or another was faster.
    snapshot: Option<i64>,
    buckets: usize,
    files_before: usize,
    files_after: usize,
    bytes_written: i64,
    /// The job still reads this table: deletes were kept and the top level was left alone.
    in_snapshot_phase: bool,
    problem: Option<String>,
}

/// Compacts; as a service until `stop`. A table that cannot be compacted does not keep others from
/// it.
pub async fn compact(
    warehouse: &Warehouse,
    request: &CompactRequest,
    stop: &CancellationToken,
) -> Result<Compacted> {
    let catalog = catalog(warehouse)?;
    let mut user = User::new();
    loop {
        let done = round(&catalog, request, &mut user, stop).await?;
        let Some(pause) = request.every else {
            return Ok(done);
        };
        for table in &done.tables {
            match (&table.problem, table.snapshot) {
                (Some(problem), _) => {
                    tracing::warn!(table = table.table, problem, "not compacted");
                }
                (None, Some(snapshot)) => tracing::info!(
                    table = table.table,
                    snapshot,
                    files_before = table.files_before,
                    files_after = table.files_after,
                    "compacted"
                ),
                (None, None) => {}
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(done),
        }
    }
}

async fn round(
    catalog: &Catalog,
    request: &CompactRequest,
    user: &mut User,
    stop: &CancellationToken,
) -> Result<Compacted> {
    let databases = match &request.database {
        Some(database) => vec![database.clone()],
        None => catalog.list_databases().await?,
    };
    let mut compacted = Compacted::default();
    for database in databases {
        let tables = match &request.table {
            Some(table) => vec![table.clone()],
            None => catalog.list_tables(&database).await?,
        };
        for name in tables {
            if stop.is_cancelled() {
                return Ok(compacted);
            }
            let table = match catalog.table(&database, &name).await {
                Ok(Some(table)) => table,
                Ok(None) if request.table.is_none() => continue,
                Ok(None) => {
                    return Err(JobError::Definite(format!(
                        "no table {database}.{name} in warehouse {}",
                        catalog.location()
                    )));
                }
                Err(error) => {
                    compacted.tables.push(CompactedTable {
                        problem: Some(error.to_string()),
                        ..CompactedTable::of(&format!("{database}.{name}"))
                    });
                    continue;
                }
            };
            match one(&table, request, user).await {
                Ok(done) => compacted.tables.extend(done),
                Err(error) if request.table.is_some() && request.every.is_none() => {
                    return Err(error);
                }
                Err(error) => compacted.tables.push(CompactedTable {
                    problem: Some(error.to_string()),
                    ..CompactedTable::of(table.name())
                }),
            }
        }
    }
    Ok(compacted)
}

async fn one(
    table: &Table,
    request: &CompactRequest,
    user: &mut User,
) -> Result<Option<CompactedTable>> {
    let said = what_its_job_says(table).await?;
    if let Some(job) = &request.job
        && said.as_ref().is_none_or(|said| said.job != *job)
    {
        return Ok(None);
    }
    let in_snapshot_phase = said.is_some_and(|said| said.in_snapshot_phase);
    // A job reads a snapshot into a table with deletion vectors only where its rows are not older
    // than what is there.
    let keep_deletes =
        in_snapshot_phase && !TableOptions::of(table.schema())?.deletion_vectors.enabled;
    let settings = CompactSettings {
        memory_bytes: request.memory_bytes,
        parallelism: request.parallelism,
        keep_deletes,
    };
    let scope = match request.full && !keep_deletes {
        true => CompactScope::Full,
        false => CompactScope::Due,
    };
    let mut compactor = Compactor::new(table.clone(), settings)?;
    let wanted = |partition: &[u8]| match &request.partition {
        None => true,
        Some(wanted) => table.partition_name(partition).is_ok_and(|name| {
            name.strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }),
    };
    let messages = compactor.run(scope, wanted).await?;
    let mut done = CompactedTable {
        buckets: messages.len(),
        in_snapshot_phase: keep_deletes,
        ..CompactedTable::of(table.name())
    };
    if messages.is_empty() {
        return Ok(Some(done));
    }
    for message in &messages {
        let compact = &message.compact;
        done.files_before += compact.before.len();
        done.files_after += compact.after.len();
        done.bytes_written += compact
            .after
            .iter()
            .filter(|new| {
                !compact
                    .before
                    .iter()
                    .any(|old| old.file_name == new.file_name)
            })
            .map(|new| new.file_size)
            .sum::<i64>();
    }
    let identifier = user.next();
    let request = CommitRequest::new(&user.name, identifier, messages);
    done.snapshot = table.commit(&request).await?.compact_snapshot();
    Ok(Some(done))
}

struct Said {
    job: String,
    in_snapshot_phase: bool,
}

/// What the job that writes a table said in the newest snapshot that names one.
async fn what_its_job_says(table: &Table) -> Result<Option<Said>> {
    let Some(latest) = table.latest_snapshot().await? else {
        return Ok(None);
    };
    for id in (latest.id.saturating_sub(SNAPSHOTS_MAX)..=latest.id).rev() {
        let Some(snapshot) = table.snapshot(id).await? else {
            return Ok(None);
        };
        let properties = snapshot.properties.unwrap_or_default();
        if let Some(job) = properties.get("headwater.job") {
            return Ok(Some(Said {
                job: job.clone(),
                in_snapshot_phase: properties.contains_key(SNAPSHOT_PHASE),
            }));
        }
    }
    Ok(None)
}

/// Commit user of this process; its numbers begin at 1.
struct User {
    name: String,
    last: i64,
}

impl User {
    fn new() -> Self {
        Self {
            name: format!("headwater-compact-{}", uuid::Uuid::new_v4()),
            last: 0,
        }
    }

    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }
}

impl CompactedTable {
    fn of(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            snapshot: None,
            buckets: 0,
            files_before: 0,
            files_after: 0,
            bytes_written: 0,
            in_snapshot_phase: false,
            problem: None,
        }
    }
}

impl Answer for Compacted {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let phase = match table.in_snapshot_phase {
                true => " (its job still reads the source: deletes are kept)",
                false => "",
            };
            text += &match (&table.problem, table.snapshot) {
                (Some(problem), _) => format!("{}: not compacted: {problem}\n", table.table),
                (None, Some(snapshot)) => format!(
                    "{}: {} files became {} in {} buckets, {} bytes written, snapshot \
                     {snapshot}{phase}\n",
                    table.table,
                    table.files_before,
                    table.files_after,
                    table.buckets,
                    table.bytes_written
                ),
                (None, None) if table.buckets > 0 => format!(
                    "{}: another program changed its files meanwhile; run it again\n",
                    table.table
                ),
                (None, None) => format!("{}: nothing is due{phase}\n", table.table),
            };
        }
        if self.tables.is_empty() {
            text += "no tables\n";
        }
        text
    }

    fn is_good(&self) -> bool {
        self.tables.iter().all(|table| table.problem.is_none())
    }
}
