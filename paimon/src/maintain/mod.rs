//! What a table keeps of its past: expiry of snapshots, tags, time travel, rollback, branches,
//! orphan files, expiry of partitions; and a check of all that is there.
//!
//! Everything here may run beside writers, also those of other engines, and may be killed at any
//! step: nothing that is needed is ever deleted, and the same call again goes on.

mod auto_tag;
mod branch;
mod check;
mod consumer;
mod expire;
#[cfg(test)]
mod history;
mod lineage;
mod orphan;
mod partition_expiry;
mod policy;
mod reclaim;
mod rollback;
mod tag;
mod travel;

pub use self::{
    auto_tag::AutoTagger,
    check::{CheckReport, CheckRequest, Problem, ProblemKind},
    expire::Expired,
    orphan::{OrphanFile, OrphanRequest, Orphans},
    partition_expiry::{PartitionAge, PartitionExpiry},
    policy::Retention,
    tag::{Tag, TagRequest},
    travel::SnapshotRef,
};

use crate::{error::Result, schema::Schema};

/// Refuses options that cannot be read, or contradict each other.
pub(crate) fn check_options(schema: &Schema) -> Result<()> {
    Retention::of(schema)?;
    PartitionExpiry::of(schema)?;
    auto_tag::check(schema)
}

#[cfg(test)]
mod tests;
