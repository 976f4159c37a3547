//! Change capture: from the wire bytes of a source system to ordered, columnar change batches.
//!
//! The contract that every source keeps lives in [`source`], [`change`], [`position`], [`schema`]
//! and [`error`]; each source system has one folder ([`mysql`]). Nothing here knows what is done
//! with a batch: no table format, no checkpoints, no job file.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod change;
pub mod error;
pub mod mysql;
pub mod position;
pub mod schema;
pub mod source;

pub use change::{ChangeBatch, RowKind, RowKinds, TailItem};
pub use error::{Error, ErrorKind, Meaning, Result};
pub use position::Position;
pub use schema::{Column, DataType, TableName, TableSchema};
pub use source::{
    BarrierGate, Check, CheckStatus, ChunkEnd, ChunkReader, Discovery, Recapture, Source,
    SourceState, Split,
};
