//! MySQL: catalog, chunk reads, the binlog and its rows.

mod buffer;
pub mod catalog;
mod charset;
mod check;
mod codec;
mod collations;
mod connect;
mod ddl;
mod decimal;
mod discover;
#[doc(hidden)]
pub mod fuzz;
mod geometry;
mod grants;
pub mod gtid;
mod hosts;
mod json;
pub mod options;
#[doc(hidden)]
pub mod recorded;
mod registry;
mod replica;
mod round;
pub mod rows;
pub mod select;
mod snapshot;
mod source;
mod spelling;
mod state;
pub mod table;
mod tail;
mod temporal;
pub mod types;
mod versions;
mod wire;
pub mod zero_dates;

pub use self::{
    hosts::{Host, Hosts},
    options::{MysqlOptions, Password, ServerIds, Startup, TableFilter, Tls},
    replica::replica_uuid,
    source::MysqlSource,
};
