//! Log lines go to standard error, so that results on standard output stay clean.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::{LogArgs, LogFormat};

/// Checks a log level or filter.
pub(super) fn filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Starts logging for the process. A second call does nothing.
pub(super) fn start(args: &LogArgs) {
    let filter = EnvFilter::new(&args.log_level);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let colour = args.log_format == LogFormat::Auto
        && std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let started = match args.log_format {
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .try_init(),
        LogFormat::Auto | LogFormat::Text => {
            builder.with_ansi(colour).with_target(false).try_init()
        }
    };
    // Fails only when logging has been started already, as tests in one process do.
    drop(started);
}
