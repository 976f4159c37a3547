//! The MySQL source against a real server: `HEADWATER_TEST_MYSQL`, for example
//! `mysql://root@127.0.0.1:3306/`, with all rights, GTIDs and a binary log. Each test has its own
//! database, so that they run beside each other and beside others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod checks;
mod compressed;
mod cuts;
mod ddl;
mod ddl_rows;
mod files;
mod fold;
mod many;
mod mariadb;
mod purged;
mod replica;
mod rounds;
mod server;
mod start;
mod tail;
mod walk;
mod wire;
mod xa;
