//! Rows a second that the source may be asked for.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

/// A rate over all workers; none by default.
#[derive(Debug)]
pub struct RowLimit {
    rows_per_second: Option<u64>,
    /// When what was taken so far is paid for.
    paid: Mutex<Instant>,
}

impl RowLimit {
    /// A limit; `None` never waits.
    pub fn new(rows_per_second: Option<u64>) -> Self {
        Self {
            rows_per_second: rows_per_second.filter(|rows| *rows > 0),
            paid: Mutex::new(Instant::now()),
        }
    }

    /// Waits until this many rows are within the rate.
    pub async fn take(&self, rows: u64) {
        let Some(rate) = self.rows_per_second else {
            return;
        };
        let mut paid = self.paid.lock().await;
        let cost = Duration::from_secs_f64(rows as f64 / rate as f64);
        *paid = (*paid).max(Instant::now()) + cost;
        let until = *paid;
        drop(paid);
        sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rate_holds() {
        let limit = RowLimit::new(Some(1000));
        let start = Instant::now();
        for _ in 0..5 {
            limit.take(500).await;
        }
        let took = start.elapsed().as_millis();
        assert!((2490..=2510).contains(&took), "{took}");
    }
}
