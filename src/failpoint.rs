//! Named points at which a test can kill the process or make a step fail.
//!
//! Always compiled in, asked for by the environment only: `HEADWATER_FAILPOINT=name[:n]` aborts
//! the process, as SIGKILL would, when `name` is reached for the n-th time (default: the first).
//! Points stand between the steps of a checkpoint, never on a row's path.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

struct Armed {
    name: String,
    left: AtomicU64,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Reaches a failpoint.
pub fn reach(name: &str) {
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var("HEADWATER_FAILPOINT").ok()?;
        let (name, count) = match text.split_once(':') {
            Some((name, count)) => (name.to_owned(), count.parse().ok()?),
            None => (text, 1),
        };
        Some(Armed {
            name,
            left: AtomicU64::new(count),
        })
    });
    if let Some(armed) = armed
        && armed.name == name
        && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        // No destructors, no buffers flushed: what a kill -9 leaves behind.
        std::process::abort();
    }
}
