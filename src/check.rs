//! `headwater check`: everything that would go wrong, before it does. Each check is named; none
//! stops the others.

use std::collections::BTreeSet;

use headwater_connectors::{Check, CheckStatus, TableSchema};

use crate::{
    checkpoint::Lease,
    error::{JobError, Result},
    job::{Job, Startup},
    sink::{
        self,
        types::{self, SnapshotRows},
    },
    verify::counted,
};

/// All checks of a job, source first.
pub async fn check(job: &Job) -> Vec<Check> {
    let mut checks = job.source.check().await;
    let reached = checks
        .first()
        .is_some_and(|connection| connection.status != CheckStatus::Failed);
    let lake = warehouse(job).await;
    // A bucket that is away would be waited for, table by table.
    let away = job.catalog.is_in_bucket() && lake.status == CheckStatus::Failed;
    checks.push(lake);
    checks.push(state(job).await);
    if reached && !away {
        checks.extend(targets(job).await);
    }
    spare_others(job, &mut checks).await;
    checks
}

/// A job that has captured tables goes on with them whatever others are like: what would stop a new job
/// is only said.
async fn spare_others(job: &Job, checks: &mut [Check]) {
    let Ok(Some((record, _))) = job.state.newest().await else {
        return;
    };
    let captured = record.captured().map(|table| table.source.to_string());
    let captured: BTreeSet<String> = captured.collect();
    for check in checks {
        let table = check.name.strip_prefix("table ");
        let is_other = table.is_some_and(|table| !captured.contains(table));
        if is_other && check.status == CheckStatus::Failed {
            check.status = CheckStatus::Warning;
            check.found.push_str("; it is not captured");
        }
    }
}

/// The checks as text, one a line, what to do below.
pub fn render(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.status {
            CheckStatus::Passed => "ok  ",
            CheckStatus::Warning => "warn",
            CheckStatus::Failed => "FAIL",
        };
        text.push_str(&format!("{mark}  {}: {}\n", check.name, check.found));
        if let Some(advice) = &check.advice
            && check.status != CheckStatus::Passed
        {
            text.push_str(&format!("      → {advice}\n"));
        }
    }
    let failed = count(checks, CheckStatus::Failed);
    let warned = count(checks, CheckStatus::Warning);
    text.push_str(&format!(
        "{}, {failed} failed, {}\n",
        counted(checks.len() as u64, "check"),
        counted(warned as u64, "warning")
    ));
    text
}

/// Whether the job has a checkpoint, be it one that cannot be read.
async fn has_run(job: &Job) -> bool {
    !matches!(job.state.newest().await, Ok(None))
}

/// How many ended so.
pub fn count(checks: &[Check], status: CheckStatus) -> usize {
    checks.iter().filter(|check| check.status == status).count()
}

async fn warehouse(job: &Job) -> Check {
    let place = job.catalog.location();
    outcome(
        "warehouse",
        job.catalog.probe().await.map_err(|error| match error {
            // It says the place.
            error @ headwater_paimon::Error::Location { .. } => {
                JobError::Definite(error.to_string())
            }
            error => JobError::Definite(format!("{place}: {error}")),
        }),
        &format!("{place}: writable, and honours conditional puts"),
        match job.catalog.is_in_bucket() {
            true => "See the message; endpoint, keys and region are catalog.properties.s3.*",
            false => "Make the folder writable for this user; the store must support put-if-absent",
        },
    )
}

async fn state(job: &Job) -> Check {
    let advice = "See the message; state is never repaired silently";
    match state_found(job).await {
        Ok((found, None)) => outcome("state", Ok(()), &found, advice),
        Ok((found, Some(holder))) => Check {
            name: "state".to_owned(),
            status: CheckStatus::Warning,
            found: format!("{found}; process {} on {} runs it", holder.pid, holder.host),
            advice: Some("A second instance would end at once".to_owned()),
        },
        Err(error) => outcome("state", Err(error), "", advice),
    }
}

async fn state_found(job: &Job) -> Result<(String, Option<Lease>)> {
    job.state.probe().await?;
    let holder = Lease::read(&job.state).await?.filter(Lease::may_be_held);
    let found = match job.state.newest().await? {
        None => "no checkpoint yet: the job starts from nothing".to_owned(),
        Some((record, _)) => {
            job.source.verify_position(&record.source).await?;
            format!(
                "checkpoint {} at {}: the job goes on from there",
                record.number, record.source.position
            )
        }
    };
    Ok((found, holder))
}

/// Every captured table: key, types, and its sink table.
async fn targets(job: &Job) -> Vec<Check> {
    let discovery = match job.source.discover().await {
        Ok(discovery) => discovery,
        Err(error) => {
            let failed = Err(error.into());
            return vec![outcome("targets", failed, "", "See the message")];
        }
    };
    let started = has_run(job).await;
    let reading = job.settings.startup != Startup::LatestOffset;
    let rows = match snapshot_rows(job, reading).await {
        Ok(rows) => rows,
        Err(error) => return vec![outcome("targets", Err(error), "", "See the message")],
    };
    let mut checks = Vec::new();
    for schema in &discovery.captured {
        let name = format!("table {}", schema.name);
        match target(job, schema, started, rows).await {
            Ok(found) => checks.push(outcome(&name, Ok(()), &found, "")),
            Err(error) => checks.push(outcome(
                &name,
                Err(error),
                "",
                "See the message, or leave the table out with source.tables.exclude",
            )),
        }
    }
    checks
}

/// What a new job, or the job as far as it has come, has to read.
async fn snapshot_rows(job: &Job, reading: bool) -> Result<SnapshotRows> {
    if let Ok(Some((record, _))) = job.state.newest().await {
        let reading = !record.snapshot_is_complete();
        return Ok(SnapshotRows::of(reading, &record.source.position));
    }
    match reading {
        true => Ok(SnapshotRows::of(true, &job.source.round_high().await?)),
        false => Ok(SnapshotRows::None),
    }
}

async fn target(
    job: &Job,
    schema: &TableSchema,
    started: bool,
    snapshot: SnapshotRows,
) -> Result<String> {
    let sink = job.settings.sink_of(&schema.name)?;
    let key = schema.primary_key.join(", ");
    let columns = counted(schema.columns.len() as u64, "column");
    let shape = format!("{columns}, key ({key}) → {sink}");
    let options = &job.settings.sink;
    match job.catalog.table(&sink.database, &sink.table).await? {
        None => {
            let (rows, bytes) = job.source.estimate(schema).await?;
            let buckets = options
                .new_schema(schema, &sink, bytes, snapshot)?
                .buckets();
            let buckets = match u64::try_from(buckets) {
                Ok(buckets) => counted(buckets, "bucket"),
                Err(_) => "dynamic buckets".to_owned(),
            };
            Ok(format!(
                "{shape}, made new with {}, about {}",
                buckets,
                counted(rows, "row")
            ))
        }
        Some(existing) => {
            let partition_keys = options.partition_keys(&sink);
            let differ = options.policy.may_differ();
            let misfits =
                types::misfits(schema, existing.schema(), partition_keys, snapshot, differ);
            // Of a job that goes on the log tells what became of the source's table since.
            if !misfits.is_empty() && !started {
                return Err(JobError::Definite(format!(
                    "{shape}: exists and does not fit: {}",
                    misfits.join("; ")
                )));
            }
            let filled = existing.latest_snapshot().await?.is_some();
            // A job that goes on looks at them itself: it has to read the same manifests.
            if filled && !started {
                existing.check_formats(&existing.newest_files().await?)?;
            }
            if filled && !started && job.settings.startup != Startup::LatestOffset {
                return Err(sink::filled_error(&schema.name, &sink));
            }
            Ok(format!("{shape}, continued"))
        }
    }
}

fn outcome(name: &str, result: Result<()>, found: &str, advice: &str) -> Check {
    match result {
        Ok(()) => Check {
            name: name.to_owned(),
            status: CheckStatus::Passed,
            found: found.to_owned(),
            advice: None,
        },
        Err(error) => {
            let (found, own_advice) = told(name, &error);
            let advice = own_advice.unwrap_or_else(|| advice.to_owned());
            Check {
                name: name.to_owned(),
                status: CheckStatus::Failed,
                found,
                advice: (!advice.is_empty()).then_some(advice),
            }
        }
    }
}

/// What went wrong and what to do, each said once: the name of the check stands before it.
fn told(name: &str, error: &JobError) -> (String, Option<String>) {
    let (text, advice) = match error {
        JobError::Source(error) => (error.without_advice(), error.advice_text()),
        JobError::Lake(error) => (error.to_string(), None),
        JobError::State(error) => (error.to_string(), None),
        error => (error.to_string(), None),
    };
    let text = match text
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(": "))
    {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    (text, advice.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use headwater_connectors::Error;

    use super::*;

    #[test]
    fn nothing_is_said_twice() {
        let error = Error::definite("the log is gone").advice("Start anew");
        let check = outcome("state", Err(error.into()), "", "See the message");
        assert_eq!(check.found, "the log is gone");
        assert_eq!(check.advice.as_deref(), Some("Start anew"));
        let filled = JobError::Definite("table d.t: it has rows".to_owned());
        let check = outcome("table d.t", Err(filled), "", "Empty it");
        assert_eq!(check.found, "it has rows");
        assert_eq!(check.advice.as_deref(), Some("Empty it"));
    }
}
