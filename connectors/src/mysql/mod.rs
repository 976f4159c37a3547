//! MySQL: catalog, chunk reads, the binlog and its rows.

mod buffer;
pub mod catalog;
mod charset;
mod codec;
mod decimal;
mod geometry;
pub mod gtid;
mod json;
pub mod rows;
pub mod select;
mod spelling;
pub mod table;
mod temporal;
pub mod types;
