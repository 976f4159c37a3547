//! The one error type of the sources: what went wrong, where, and whether trying again can help.

use std::fmt;

use crate::schema::TableName;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The world may heal by itself (network, server restart): retried with backoff.
    Transient,
    /// Nothing changes until a person acts: the job stops and says what to do.
    Definite,
}

/// What an error means to a job beyond its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Going on from the saved state cannot help: a job that has committed nothing yet starts from
    /// the beginning.
    StartOver,
    /// The table no longer is what the job takes it for, or is not there: only the log tells how it
    /// changed. Nothing that was read counts; try again when the tail has brought the change.
    SchemaChanged,
    /// Another instance of the job reads the source now.
    AnotherInstance,
    /// A table has come that the job wants to capture: it begins again from its newest checkpoint, which
    /// takes the table up.
    TableCreated,
}

/// An error of a source. Displays as one line: message, place, advice, and the causes.
#[derive(Debug)]
pub struct Error(Box<Facts>);

/// Boxed, so that results stay small on the good path.
#[derive(Debug)]
struct Facts {
    kind: ErrorKind,
    message: String,
    table: Option<TableName>,
    column: Option<String>,
    position: Option<String>,
    advice: Option<String>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    meaning: Option<Meaning>,
}

impl Error {
    /// An error that a later try may not meet again.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Transient, message)
    }

    /// An error that stays until a person acts.
    pub fn definite(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Definite, message)
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Facts {
            kind,
            message: message.into(),
            table: None,
            column: None,
            position: None,
            advice: None,
            cause: None,
            meaning: None,
        }))
    }

    /// Names the table concerned.
    #[must_use]
    pub fn table(mut self, table: &TableName) -> Self {
        self.0.table = Some(table.clone());
        self
    }

    /// Names the column concerned.
    #[must_use]
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Names the position in the log.
    #[must_use]
    pub fn position(mut self, position: impl fmt::Display) -> Self {
        self.0.position = Some(position.to_string());
        self
    }

    /// Says what a person can do next.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Says what the error means to a job beyond its kind.
    #[must_use]
    pub fn meaning(mut self, meaning: Meaning) -> Self {
        self.0.meaning = Some(meaning);
        self
    }

    /// Whether the error means this to a job.
    pub fn means(&self, meaning: Meaning) -> bool {
        self.0.meaning == Some(meaning)
    }

    /// Whether the error says where in the log it belongs.
    pub(crate) fn has_position(&self) -> bool {
        self.0.position.is_some()
    }

    /// Whether trying again can help.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// True for [`ErrorKind::Transient`].
    pub fn is_transient(&self) -> bool {
        self.0.kind == ErrorKind::Transient
    }

    /// All of it but what to do next, for where that stands by itself.
    pub fn without_advice(&self) -> String {
        let mut text = self.0.message.clone();
        let mut place = Vec::new();
        if let Some(table) = &self.0.table {
            place.push(format!("table {table}"));
        }
        if let Some(column) = &self.0.column {
            place.push(format!("column {column}"));
        }
        if let Some(position) = &self.0.position {
            place.push(format!("position {position}"));
        }
        if !place.is_empty() {
            text.push_str(&format!(" ({})", place.join(", ")));
        }
        if let Some(cause) = &self.0.cause {
            text.push_str(&format!(": {cause}"));
        }
        text
    }

    /// What to do next, when the error knows.
    pub fn advice_text(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.without_advice())?;
        if let Some(advice) = &self.0.advice {
            write!(f, ". {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .cause
            .as_deref()
            .map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}
