//! The one error type of the crate.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. [`Error::is_transient`] says whether trying again can help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store did not do what was asked.
    #[error("{action} {path}: {source}")]
    Store {
        /// What was tried, such as "cannot read".
        action: &'static str,
        /// The object.
        path: String,
        /// The store's own error.
        source: object_store::Error,
    },
    /// A file of the table is not what the format says.
    #[error("{path} is damaged: {message}")]
    Corrupt {
        /// The object.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// A file that the table refers to is not there: deleted by other means than expiry, or the
    /// snapshot that refers to it has expired since it was read.
    #[error(
        "{path} is not there, though the table refers to it: the snapshot that was read has expired \
         since (read a tag, or let the table keep snapshots for longer), or the file was lost"
    )]
    Missing {
        /// The object.
        path: String,
    },
    /// The table exists, and what was asked does not fit it.
    #[error("table {table}: {message}")]
    Table {
        /// `database.table`
        table: String,
        /// What does not fit, and what to do.
        message: String,
    },
    /// A warehouse or a folder of one cannot be what the user says, or cannot be used so.
    #[error("{location}: {message}")]
    Location {
        /// The path or URL, without what may be secret.
        location: String,
        /// What is wrong, and what to do.
        message: String,
    },
    /// Another writer changed the table so that this commit would be wrong.
    #[error("table {table}: commit conflict: {message}")]
    Conflict {
        /// `database.table`
        table: String,
        /// What was found.
        message: String,
    },
    /// Something that the format has and this crate does not.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Arrow refused.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Parquet refused.
    #[error("parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// Something that cannot be, unless this crate is wrong.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Names what was tried on which object.
    pub fn store(
        action: &'static str,
        path: impl std::fmt::Display,
        source: object_store::Error,
    ) -> Self {
        Self::Store {
            action,
            path: path.to_string(),
            source,
        }
    }

    /// True when a file of the table is not there.
    pub fn is_missing(&self) -> bool {
        let is_not_found =
            |error: &object_store::Error| matches!(error, object_store::Error::NotFound { .. });
        match self {
            Self::Missing { .. } => true,
            Self::Store { source, .. } => is_not_found(source),
            Self::Parquet(parquet::errors::ParquetError::External(source)) => {
                match source.downcast_ref::<Self>() {
                    Some(error) => error.is_missing(),
                    None => source.downcast_ref().is_some_and(is_not_found),
                }
            }
            _ => false,
        }
    }

    /// True when the same call may succeed later (store out of reach, disk full).
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store { source, .. } => !matches!(
                source,
                object_store::Error::NotSupported { .. }
                    | object_store::Error::NotImplemented { .. }
                    | object_store::Error::InvalidPath { .. }
                    | object_store::Error::UnknownConfigurationKey { .. }
            ),
            // The encoder wraps what the store says.
            Self::Parquet(parquet::errors::ParquetError::External(_)) => true,
            _ => false,
        }
    }
}
