//! The commands, each from its arguments to its exit code.

use std::path::Path;

use tracing::{error, warn};

use super::{ExitCode, JobArgs, LogArgs, VerifyArgs};
use crate::config::{self, JobFile};

/// `headwater run`.
pub(super) fn run(args: &JobArgs, log: &LogArgs) -> ExitCode {
    match load(&args.job) {
        Ok(job) => unfinished(&format!("run {}, progress {}", job.name, log.progress())),
        Err(code) => code,
    }
}

/// `headwater check`.
pub(super) fn check(args: &JobArgs) -> ExitCode {
    match load(&args.job) {
        Ok(job) => unfinished(&format!("check {}", job.name)),
        Err(code) => code,
    }
}

/// `headwater verify`.
pub(super) fn verify(args: &VerifyArgs) -> ExitCode {
    let VerifyArgs { timeout, json, .. } = args;
    match load(&args.job) {
        Ok(job) => unfinished(&format!("verify {}, {timeout:?}, json {json}", job.name)),
        Err(code) => code,
    }
}

/// The job is not built yet; a success would be a lie.
fn unfinished(what: &str) -> ExitCode {
    error!("this build reads job files only and cannot {what}");
    ExitCode::Definite
}

/// Reads a job file and logs its warnings. A file that is wrong is told to the person who typed
/// the command, with the lines that are meant, whatever the form of the logs.
fn load(path: &Path) -> Result<JobFile, ExitCode> {
    match config::load(path) {
        Ok(job) => {
            for warning in &job.warnings {
                warn!(
                    key = warning.key,
                    line = warning.line,
                    "{}",
                    warning.message
                );
            }
            Ok(job)
        }
        Err(error) => {
            eprintln!("{error}");
            Err(ExitCode::Usage)
        }
    }
}
