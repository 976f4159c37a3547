//! What a service manager and a person's keyboard say to a running job.

use std::time::Duration;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Signals this soon after the first are the same wish, sent twice: `timeout` signals its command
/// and then its whole group, and so does a terminal whose shell passes Ctrl-C on.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Cancels the token at SIGTERM or SIGINT; a second one, later than [`SAME_WISH`], ends the process
/// at once. Nothing is lost then either: the next run goes on from the last checkpoint.
pub(super) fn stop_on_signals(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        next(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping: taking a final checkpoint (once more to stop at once)");
        notify(&[sd_notify::NotifyState::Stopping]);
        shutdown.cancel();
        let first = Instant::now();
        loop {
            next(&mut terminate, &mut interrupt).await;
            if first.elapsed() >= SAME_WISH {
                break;
            }
        }
        tracing::warn!("stopped at once; the next run goes on from the last checkpoint");
        std::process::exit(i32::from(super::ExitCode::Transient.number()));
    });
    Ok(())
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Tells systemd that the job runs, and keeps its watchdog quiet while the runtime does.
pub(super) fn tell_systemd() {
    notify(&[sd_notify::NotifyState::Ready]);
    if let Some(timeout) = sd_notify::watchdog_enabled() {
        let period = (timeout / 3).max(Duration::from_millis(100));
        tokio::spawn(async move {
            loop {
                notify(&[sd_notify::NotifyState::Watchdog]);
                tokio::time::sleep(period).await;
            }
        });
    }
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    // Not run by systemd: nobody listens.
    drop(sd_notify::notify(states));
}
