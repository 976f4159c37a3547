//! MySQL: catalog, chunk reads, the binlog and its rows.

pub mod gtid;
pub mod table;
pub mod types;
