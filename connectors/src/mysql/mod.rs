//! MySQL: catalog, chunk reads, the binlog and its rows.

mod buffer;
pub mod catalog;
mod charset;
mod codec;
mod connect;
mod ddl;
mod decimal;
mod geometry;
pub mod gtid;
mod json;
pub mod options;
pub mod rows;
pub mod select;
mod state;
pub mod table;
mod tail;
mod temporal;
pub mod types;
