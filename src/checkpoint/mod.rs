//! Durable progress: numbered records, committed markers, the lease of the running instance.
//!
//! A checkpoint is two-phase (ARCHITECTURE.md, "Checkpoint"): files are flushed; the record is
//! created with put-if-absent; the tables are committed; a marker says so. What is committed, and
//! when, is decided by the job; here is only what stands in the state folder.

pub mod lease;
pub mod record;
mod request;
pub mod store;

pub use lease::Lease;
pub use record::{Marker, Record, SplitState, TableCommit, TableState};
pub use request::Request;
pub use store::{StateError, StateStore};
