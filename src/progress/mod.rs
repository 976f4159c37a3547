//! What `headwater run` shows while it runs: bars at the foot of a terminal, else a log line now
//! and then. Reads the job's [`Status`]; the job does not know that it is watched.

mod lines;
mod meter;
mod screen;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use meter::{Frame, Meter, Phase};
use screen::Foot;
pub use screen::{Screen, ScreenWriter};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{clock, job::Status};

/// Time between two frames on a terminal.
const FRAME: Duration = Duration::from_millis(250);
/// Time between two looks where no terminal is.
const LOOK: Duration = Duration::from_secs(1);
/// Looks between two log lines.
const LOOKS_A_LINE: u32 = 10;

/// Where progress is shown.
#[derive(Debug, Clone)]
pub enum Mode {
    /// On this terminal. Logs must be written through the same [`Screen`].
    Terminal(Screen),
    /// As log lines, every ten seconds.
    Log,
}

/// Shows progress until cancelled; then the terminal is as it was.
pub async fn show(status: Arc<Status>, mode: Mode, cancel: CancellationToken) {
    let mut foot = match &mode {
        Mode::Terminal(screen) => Some(Foot::new(screen)),
        Mode::Log => None,
    };
    let mut ticks = interval(if foot.is_some() { FRAME } else { LOOK });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reports = status.tail_reports();
    let mut meter = Meter::default();
    let mut looks = 0_u32;
    loop {
        let ended = tokio::select! {
            () = cancel.cancelled() => true,
            _ = ticks.tick() => false,
        };
        let reported = reports.has_changed().unwrap_or(false);
        let tail = reports.borrow_and_update().clone();
        let frame = meter.observe(
            Instant::now(),
            clock::now_ms(),
            status.view(),
            tail,
            reported,
        );
        for (table, rows) in &frame.finished {
            tracing::info!(%table, rows, "snapshot of the table read");
        }
        match &mut foot {
            Some(foot) if !ended => foot.show(&frame),
            Some(_) => {}
            None if ended || looks.is_multiple_of(LOOKS_A_LINE) && looks > 0 => log(&frame),
            None => {}
        }
        if ended {
            break;
        }
        looks = looks.wrapping_add(1);
    }
    if let Some(foot) = foot {
        foot.clear();
    }
}

fn log(frame: &Frame) {
    tracing::info!(
        phase = frame.phase.name(),
        snapshot_rows = frame.snapshot_rows,
        snapshot_rows_per_second =
            (frame.phase == Phase::Snapshot).then(|| frame.snapshot_per_second.round() as u64),
        snapshot_tables_done = frame.tables_done,
        tables = frame.tables_all,
        rows = frame.rows,
        rows_per_second = frame.rows_per_second.round() as u64,
        log_bytes_per_second = frame.log_bytes_per_second.round() as u64,
        lag_ms = frame.lag.millis(),
        checkpoint = frame
            .checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.number),
        checkpoint_age_ms = frame.checkpoint_age.as_millis() as u64,
        retries = frame.retries,
        zero_dates = Some(frame.zero_dates).filter(|count| *count > 0),
        position = frame.position,
        "progress"
    );
}
