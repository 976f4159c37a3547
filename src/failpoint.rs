//! Named points at which a test can kill the process or make a step fail.
//!
//! Always compiled in, asked for by the environment only: `HEADWATER_FAILPOINT=name[:n]` aborts
//! the process, as SIGKILL would, when `name` is reached for the n-th time (default: the first), and
//! `name:n:stop` lets it stand still there as SIGSTOP does, until it gets SIGCONT.
//! Points stand between the steps of a checkpoint, never on a row's path.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

struct Armed {
    name: String,
    left: AtomicU64,
    stop: bool,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Reaches a failpoint.
pub fn reach(name: &str) {
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var("HEADWATER_FAILPOINT").ok()?;
        let mut parts = text.split(':');
        Some(Armed {
            name: parts.next()?.to_owned(),
            left: AtomicU64::new(parts.next().map_or(Some(1), |n| n.parse().ok())?),
            stop: parts.next() == Some("stop"),
        })
    });
    if let Some(armed) = armed
        && armed.name == name
        && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        if armed.stop {
            let pid = std::process::id().to_string();
            // Comes back after SIGCONT.
            let _ = std::process::Command::new("kill")
                .args(["-STOP", &pid])
                .status();
            return;
        }
        // No destructors, no buffers flushed: what a kill -9 leaves behind.
        std::process::abort();
    }
}
