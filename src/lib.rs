//! The job: configuration, checks, the coordinator of snapshot and tail, the sink, checkpoints,
//! verification and the command line. `main.rs` only calls in here.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod ask;
pub mod assemble;
pub mod check;
pub mod checkpoint;
pub mod cli;
pub mod clock;
pub mod config;
pub mod error;
pub mod failpoint;
pub mod job;
pub mod progress;
pub mod route;
pub mod sink;
pub mod table;
pub mod verify;
