//! What a table keeps of its past: expiry of snapshots, tags, time travel, rollback, branches,
//! orphan files, expiry of partitions; and a check of all that is there.
//!
//! Everything here may run beside writers, also those of other engines, and may be killed at any
//! step: nothing that is needed is ever deleted, and the same call again goes on.

mod branch;
mod consumer;
mod expire;
#[cfg(test)]
mod history;
mod lineage;
mod orphan;
mod policy;
mod reclaim;
mod rollback;
mod tag;
mod travel;

pub use self::{
    expire::Expired,
    orphan::{OrphanFile, OrphanRequest, Orphans},
    policy::Retention,
    tag::{Tag, TagRequest},
    travel::SnapshotRef,
};

#[cfg(test)]
mod tests;
