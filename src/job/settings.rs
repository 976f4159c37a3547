//! What a job needs to know, apart from where it reads and writes.

use std::time::Duration;

use headwater_connectors::TableName;

use super::limit::ReadRates;
use crate::{
    error::{JobError, Result},
    route::Router,
    sink::SinkOptions,
};

/// Settings of a job. Made from the job file, or by a test.
#[derive(Debug)]
pub struct Settings {
    /// Name of the job.
    pub name: String,
    /// First part of the commit user.
    pub commit_user_prefix: String,
    /// Time between checkpoints.
    pub interval: Duration,
    /// Checkpoint records kept.
    pub retained: usize,
    /// How often all tables get a tag of the same name; `None`: never.
    pub tag_interval: Option<Duration>,
    /// Which rows a new job takes.
    pub startup: Startup,
    /// Bytes that all buffers of the job may hold together.
    pub memory_bytes: usize,
    /// Tables that the job file names and that are not captured yet are taken up when the job begins.
    pub adds_tables: bool,
    /// Chunks read at the same time.
    pub concurrent_chunks: usize,
    /// How fast the snapshot may read.
    pub rates: ReadRates,
    /// Where source tables go.
    pub router: Router,
    /// What new sink tables get.
    pub sink: SinkOptions,
    /// Cap of the backoff between retries.
    pub retry_max: Duration,
}

/// Which rows a new job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Startup {
    /// All rows there are, then the log.
    Initial,
    /// All rows there are, then the job ends.
    Snapshot,
    /// The log from now on.
    LatestOffset,
}

impl Settings {
    /// The sink table of a source table.
    pub fn sink_of(&self, source: &TableName) -> Result<TableName> {
        let routed = self.router.route(source);
        let sinks = routed.map_err(|error| JobError::Definite(error.to_string()))?;
        match sinks.as_slice() {
            [sink] => Ok(sink.clone()),
            sinks => Err(JobError::Definite(format!(
                "table {source}: its routes lead to {} sink tables ({}): more than one is not \
                 supported yet. Set pipeline.route-mode: FIRST_MATCH, or narrow route.source-table",
                sinks.len(),
                sinks
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }

    /// Bytes for tail rows, those on their way into files included. The rest is left to open
    /// files and to rows between source and sink. Half as many with indexes of dynamic buckets.
    pub fn tail_budget_bytes(&self, with_index: bool) -> usize {
        self.memory_bytes / if with_index { 8 } else { 4 }
    }

    /// Bytes for the indexes of tables with dynamic buckets.
    pub fn index_budget_bytes(&self) -> usize {
        self.memory_bytes / 8 * 3
    }

    /// Bytes for compactions.
    pub fn compaction_budget_bytes(&self) -> usize {
        self.memory_bytes / 4
    }

    /// Bytes for one snapshot worker's writer. Half as many with indexes of dynamic buckets.
    pub fn lane_budget_bytes(&self, with_index: bool) -> usize {
        let all = self.memory_bytes / if with_index { 8 } else { 4 };
        (all / self.concurrent_chunks.max(1)).max(1 << 20)
    }
}
