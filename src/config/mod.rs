//! The job file: a Flink CDC 3.x pipeline file, read unchanged, and Headwater's own keys beside.
//!
//! ```text
//! text ─ yaml ─► tree ─ settings (key table, expansion) ─► settings ─ build ─► JobFile
//! ```
//!
//! Every problem of a file is found in one go and told with its line. Nothing is ignored in
//! silence: an unknown key is an error, a key that does nothing here is a [`Warning`].

mod build;
mod expand;
mod job_file;
pub mod key;
mod problem;
mod settings;
mod text;
mod value;
mod yaml;

#[cfg(test)]
mod tests;

use std::path::Path;

use expand::{Environment, NoEnvironment, ProcessEnvironment};

pub use job_file::{
    Checkpoint, JobFile, Limits, MysqlSource, NewTables, PaimonSink, Pipeline, Route, RouteMode,
    RuntimeMode, SchemaBehavior, SchemaChangeKind, SourceLimits, StartupMode, State, Warning,
};
pub use problem::{ConfigError, Mark, Problem};
pub use value::{duration, size};

use problem::SourceText;

/// Reads a job file, with the variables of the process. Errors: the file cannot be read, or
/// anything in it is wrong or not supported yet.
pub fn load(path: &Path) -> Result<JobFile, ConfigError> {
    let file = path.display().to_string();
    let text = expand::read_bounded(path, yaml::FILE_BYTES_MAX).map_err(|reason| ConfigError {
        file: file.clone(),
        problems: vec![SourceText::general(format!(
            "the job file cannot be read: {reason}"
        ))],
    })?;
    parse(&file, &text, &ProcessEnvironment)
}

/// Reads the text of a job file without variables and files: `${VAR}` is an error unless it has a
/// default. For text that is not trusted.
pub fn parse_isolated(file: &str, text: &str) -> Result<JobFile, ConfigError> {
    parse(file, text, &NoEnvironment)
}

/// Reads a job file from its text. `file` is its name in messages; its stem names the job when
/// the file does not.
fn parse(file: &str, text: &str, environment: &dyn Environment) -> Result<JobFile, ConfigError> {
    let document = yaml::parse(file, text)?;
    let settings = settings::Settings::collect(document, environment);
    build::job_file(settings, file)
}
