//! What a person asks of a job from outside: to read a table anew, or to take one up. Goes by requests in
//! the state folder, so it reaches a job on another machine and one that runs later.

use std::time::Duration;

use headwater_connectors::TableName;

use crate::{
    checkpoint::{Lease, Record, TableState},
    error::{JobError, Result},
    job::Job,
};

/// Time between two looks at what the job has done.
const POLL: Duration = Duration::from_millis(500);
/// How long a running job may take to see a request.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// A captured table is read anew, in place.
    Resync,
    /// A table that the job file names and that is not captured is taken up.
    Add,
}

/// How it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The job does not run: it does so when it runs next.
    Later,
    /// It is in a durable record: nothing can prevent it any more, and it is under way.
    Taken,
    /// Everything is read and committed.
    Complete,
}

/// Asks a job for tables; with `to_the_end` waits until all their rows are committed.
///
/// # Errors
/// A table is not one that can be asked for, the job has never run, or it stopped meanwhile.
pub async fn ask(job: &Job, wish: Wish, tables: &[TableName], to_the_end: bool) -> Result<Answer> {
    let record = newest(job).await?;
    may_be_asked(job, &record, wish, tables).await?;
    let mut requests = Vec::new();
    for table in tables {
        requests.push(job.state.ask(table).await?);
    }
    if Lease::holder(&job.state).await?.is_none() {
        return Ok(Answer::Later);
    }
    let asked = std::time::Instant::now();
    for request in &requests {
        while job.state.is_open(request).await? {
            if Lease::holder(&job.state).await?.is_none() {
                return Ok(Answer::Later);
            }
            if asked.elapsed() > PATIENCE {
                return Err(JobError::Again(format!(
                    "table {}: the job runs and has not taken the request within {} s: see its \
                     log. The request stands",
                    request.table,
                    PATIENCE.as_secs()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    let record = newest(job).await?;
    for table in tables {
        if record.captured_table(table).is_none() {
            return Err(JobError::Definite(format!(
                "table {table}: the job could not take it up: its log says why"
            )));
        }
    }
    if !to_the_end {
        return Ok(Answer::Taken);
    }
    loop {
        let record = newest(job).await?;
        let states = tables
            .iter()
            .filter_map(|table| record.captured_table(table));
        let open: Vec<&TableState> = states.filter(|table| table.is_reading()).collect();
        if open.is_empty() {
            return Ok(Answer::Complete);
        }
        if Lease::holder(&job.state).await?.is_none() {
            return Ok(Answer::Taken);
        }
        let rows: u64 = open
            .iter()
            .flat_map(|table| &table.splits)
            .map(|it| it.rows)
            .sum();
        tracing::info!(
            tables = open.len(),
            rows,
            checkpoint = record.number,
            "being read"
        );
        tokio::time::sleep(POLL * 4).await;
    }
}

async fn newest(job: &Job) -> Result<Record> {
    match job.state.newest().await? {
        Some((record, _)) => Ok(record),
        None => Err(JobError::Definite(format!(
            "the job has no checkpoint in {}: it takes up all tables when it runs first",
            job.state.folder()
        ))),
    }
}

async fn may_be_asked(job: &Job, record: &Record, wish: Wish, tables: &[TableName]) -> Result<()> {
    let discovery = job.source.discover().await?;
    for table in tables {
        let problem = match (wish, record.captured_table(table)) {
            (Wish::Resync, None) => {
                let near: Vec<String> = record
                    .captured()
                    .take(5)
                    .map(|it| it.source.to_string())
                    .collect();
                Some(format!(
                    "the job does not capture it. It captures {}",
                    near.join(", ")
                ))
            }
            (Wish::Add, Some(_)) => {
                Some("the job captures it already: headwater resync reads it anew".to_owned())
            }
            _ => None,
        };
        let problem = problem.or_else(|| {
            let rejected = discovery.rejected.iter().find(|(name, _)| name == table);
            match rejected {
                Some((_, reason)) => Some(format!("it cannot be captured: {reason}")),
                None if !job.source.matches(table) => {
                    Some("it does not match source.tables: name it there first".to_owned())
                }
                None if !discovery.captured.iter().any(|it| it.name == *table) => {
                    Some("the source has no such table".to_owned())
                }
                None => None,
            }
        });
        if let Some(problem) = problem {
            return Err(JobError::Definite(format!("table {table}: {problem}")));
        }
    }
    Ok(())
}
