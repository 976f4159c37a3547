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

use expand::{Environment, ProcessEnvironment};

pub use job_file::{
    Checkpoint, JobFile, Limits, MysqlSource, PaimonSink, Pipeline, Route, RouteMode, RuntimeMode,
    SchemaBehavior, SchemaChangeKind, SourceLimits, StartupMode, State, Warning,
};
pub use problem::{ConfigError, Mark, Problem};
pub use value::duration;

use problem::SourceText;

/// Reads a job file, with the variables of the process. Errors: the file cannot be read, or
/// anything in it is wrong or not supported yet.
pub fn load(path: &Path) -> Result<JobFile, ConfigError> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| ConfigError {
        file: file.clone(),
        problems: vec![SourceText::general(format!(
            "the job file cannot be read: {error}"
        ))],
    })?;
    let text = String::from_utf8(bytes).map_err(|_| ConfigError {
        file: file.clone(),
        problems: vec![SourceText::general("the job file is not UTF-8 text")],
    })?;
    parse(&file, &text, &ProcessEnvironment)
}

/// Reads a job file from its text. `file` is its name in messages; its stem names the job when
/// the file does not.
fn parse(file: &str, text: &str, environment: &dyn Environment) -> Result<JobFile, ConfigError> {
    let document = yaml::parse(file, text)?;
    let settings = settings::Settings::collect(document, environment);
    build::job_file(settings, file)
}
