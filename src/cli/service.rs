//! What a service manager and a person's keyboard say to a running job.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the token at SIGTERM or SIGINT; a second one ends the process at once. Nothing is lost
/// then either: the next run goes on from the last checkpoint.
pub(super) fn stop_on_signals(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        next(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping: taking a final checkpoint (once more to stop at once)");
        notify(&[sd_notify::NotifyState::Stopping]);
        shutdown.cancel();
        next(&mut terminate, &mut interrupt).await;
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
