//! The job's error type: errors of the parts, and whether the job tries again.

use headwater_connectors as connectors;
use headwater_paimon as paimon;

use crate::checkpoint::{Lease, StateError};

/// Result of the job's parts.
pub type Result<T, E = JobError> = std::result::Result<T, E>;

/// Why a job, a check or a comparison ended.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The source.
    #[error("source: {0}")]
    Source(#[from] connectors::Error),
    /// The lake.
    #[error("lake: {0}")]
    Lake(#[from] paimon::Error),
    /// The state folder.
    #[error("state: {0}")]
    State(#[from] StateError),
    /// Another instance runs the job.
    #[error(
        "another instance runs this job: process {} on {} (epoch {}). Stop it first, or give this \
         job another pipeline.name or state.path", holder.pid, holder.host, holder.epoch
    )]
    Held {
        /// Who holds the lease.
        holder: Lease,
    },
    /// Something a person has to change. The text says what.
    #[error("{0}")]
    Definite(String),
    /// A table is not as this run opened it, or another program was faster: what is not committed
    /// has to be made again, from the newest record on.
    #[error("{0}")]
    Again(String),
    /// Somebody wants the job to do something between two of its runs, such as reading a table anew.
    #[error("{0}")]
    Asked(String),
    /// A part of the job ended in a way that it must not.
    #[error("internal error: {0}")]
    Internal(String),
}

impl JobError {
    /// True when nothing is wrong: the job begins again from its newest checkpoint, at once, to take up
    /// what is asked of it.
    pub fn asks_for_another_run(&self) -> bool {
        match self {
            Self::Source(error) => error.means(connectors::Meaning::TableCreated),
            Self::Asked(_) => true,
            _ => false,
        }
    }

    /// True when the job tries again by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Source(error) => error.is_transient(),
            Self::Lake(error) => error.is_transient(),
            Self::State(error) => error.is_transient(),
            Self::Again(_) | Self::Asked(_) => true,
            Self::Held { .. } | Self::Definite(_) | Self::Internal(_) => false,
        }
    }
}
