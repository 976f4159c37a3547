//! End to end against real parts: a MySQL server, the `headwater` program, and readers of the
//! lake that we did not write. One program, since linking is slow.
//!
//! What it needs is set up by `make test`; `support` starts and ends the servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod bad_input;
mod conformance;
mod consistent_cut;
mod exactness;
mod failover;
mod foreign_hands;
mod hazards;
mod lake_tables;
mod protect_source;
mod s3;
mod schema_changes;
mod schema_chaos;
mod self_check;
mod snapshot_phase;
mod startup;
mod support;
mod table_kinds;
mod tables_come_and_go;
mod types;
mod upkeep;
mod verify;
