//! What can go wrong with the state folder.

/// What can go wrong with the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another instance has taken the job over.
    #[error(
        "another instance has taken over the job: checkpoint {number} in {folder} is not of this \
         instance. Nothing was committed by this instance since; stop one of the two"
    )]
    Fenced {
        /// Number that could not be created.
        number: i64,
        /// The state folder.
        folder: String,
    },
    /// A record or marker is not what this program writes.
    #[error(
        "checkpoint file {path} is damaged: {message}. Nothing was changed. Restore the file from a \
         backup; without it, remove the job's state and its sink tables to start again"
    )]
    Damaged {
        /// The object.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// The store overwrites where it is told to create only.
    #[error(
        "the store of the state folder {folder} does not honour conditional puts (put-if-absent): \
         two instances could not be kept apart. Set state.path to a folder of a store that does"
    )]
    NoConditionalPut {
        /// The state folder.
        folder: String,
    },
    /// The folder cannot be where the job file says.
    #[error("the state at {location} cannot be used: {message}. Set state.path")]
    Location {
        /// The path or URL.
        location: String,
        /// What is wrong.
        message: String,
    },
    /// The store did not do what was asked.
    #[error("cannot {action} {path}: {source}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The object.
        path: String,
        /// The store's own error.
        source: object_store::Error,
    },
}

impl StateError {
    /// True when the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store { .. })
    }
}
