//! Compaction: fewer and larger files, superseded rows and deletes gone.
//!
//! Deciding is apart from doing: `levels` and `pick` say which sorted runs go to which level, from
//! sizes alone; `rewrite` merges them, in a stream. What comes out is handed to a commit.

mod append;
mod changelog;
mod expire;
mod job;
mod levels;
mod lookup;
mod options;
mod passes;
mod pick;
mod rewrite;
mod task;
mod vectors;

pub(crate) use expire::check as check_expiry;
pub(crate) use lookup::take_rows;
pub(crate) use rewrite::{filter, retracts};
pub use task::{CompactScope, CompactSettings, Compactor};
pub(crate) use vectors::{BucketVectors, of_bucket};
