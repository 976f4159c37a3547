//! The same row gives the same values when it is selected and when it is read from the binlog,
//! and those values are the server's own. Needs a MySQL server: `HEADWATER_TEST_MYSQL`, for
//! example `mysql://root@127.0.0.1:3306/`, with rights to create databases and to replicate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod catalog;
mod charsets;
mod documents;
mod phases;
mod types;
mod updates;
