//! How the program ends, in one place. Scripts and service managers rely on these numbers.

use std::process::{self, Termination};

/// Why the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExitCode {
    /// Done: the job was stopped or has ended, every check passed, or source and lake are equal.
    Ok = 0,
    /// `check`: a check failed; `verify`: source and lake differ.
    Failed = 1,
    /// The command line or the job file is wrong.
    Usage = 2,
    /// An error that trying again does not mend: it says what to do. Also a failed check of `run`.
    Definite = 3,
    /// An error that may pass, but outlasted its retries; starting again is worth a try.
    Transient = 4,
    /// Another instance holds the job.
    Held = 5,
}

impl ExitCode {
    /// The number that the process ends with.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl Termination for ExitCode {
    fn report(self) -> process::ExitCode {
        process::ExitCode::from(self.number())
    }
}

/// The codes as `--help` tells them.
pub(super) const HELP: &str = "\
Exit codes:
  0  done: stopped on request, all checks passed, or source and lake are equal
  1  check: a check failed; verify: source and lake differ
  2  the command line or the job file is wrong
  3  a definite error: trying again does not help, the message says what to do;
     also when one of the checks of `run` failed
  4  an error that may pass, but outlasted its retries
  5  another instance holds the job

Examples:
  headwater check shop.yaml
  headwater run shop.yaml
  headwater verify shop.yaml --timeout 30min

A job file is a Flink CDC 3.x pipeline file, unchanged.";
