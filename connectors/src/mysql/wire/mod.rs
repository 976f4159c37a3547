//! A client of our own, for rows and for the log: packets are taken apart where they lie in one
//! buffer, and their values go straight into columns, without a copy or an allocation a row.
//! Everything else stays with `mysql_async`, whose errors are used here too, so that a person
//! reads the same words whichever client met the trouble.
//!
//! Protocol: MySQL Internals, "Client/Server Protocol"
//! (<https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>).

mod auth;
mod cell;
mod conn;
mod dump;
mod frames;
mod handshake;
mod statement;
mod stream;
mod tls;

pub(super) use self::{
    cell::{Cell, Damaged, Wire, fixed, read_bytes, read_date},
    conn::{Found, WireConn},
    handshake::connect_known,
};
