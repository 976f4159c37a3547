//! MySQL: catalog, chunk reads, the binlog and its rows.

mod connect;
mod ddl;
pub mod gtid;
pub mod options;
pub mod table;
pub mod types;
