//! Log lines go to standard error, so that results on standard output stay clean.

use std::io::IsTerminal;

use tracing_subscriber::{
    EnvFilter,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
        writer::BoxMakeWriter,
    },
};

use super::{LogArgs, LogFormat};
use crate::progress::Screen;

/// Checks a log level or filter.
pub(super) fn filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// When a line was written.
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// Date and time in UTC, for whoever keeps the logs.
    Full,
    /// Time of day in this machine's zone, for a person who watches.
    TimeOfDay,
}

impl FormatTime for Clock {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        match self {
            Self::Full => SystemTime.format_time(line),
            Self::TimeOfDay => {
                let now = jiff::ZonedDateTime::now();
                let (hour, minute, second) = (now.hour(), now.minute(), now.second());
                write!(line, "{hour:02}:{minute:02}:{second:02}")
            }
        }
    }
}

/// Starts logging for the process, above the bars of a screen where there is one. A second call
/// does nothing.
pub(super) fn start(args: &LogArgs, screen: Option<&Screen>) {
    let filter = EnvFilter::new(&args.log_level);
    let writer = match screen {
        Some(screen) => BoxMakeWriter::new(screen.clone()),
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let clock = match screen {
        Some(_) => Clock::TimeOfDay,
        None => Clock::Full,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_timer(clock)
        .with_writer(writer);
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
