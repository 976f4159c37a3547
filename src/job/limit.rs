//! Rows and bytes a second that the source may be asked for.

use std::time::Duration;

use arrow_array::{Array, RecordBatch};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

/// Rates of snapshot reads over all workers; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadRates {
    /// Rows a second.
    pub rows: Option<u64>,
    /// Bytes of values a second.
    pub bytes: Option<u64>,
}

/// Keeps snapshot reads within their rates.
#[derive(Debug)]
pub struct ReadLimit {
    rates: ReadRates,
    /// When what was taken so far is paid for.
    paid: Mutex<Instant>,
}

impl ReadLimit {
    /// A limit; without rates it never waits.
    pub fn new(rates: ReadRates) -> Self {
        Self {
            rates,
            paid: Mutex::new(Instant::now()),
        }
    }

    /// Waits until a batch that was read is within both rates.
    pub async fn read(&self, batch: &RecordBatch) {
        let bytes = match self.rates.bytes {
            Some(_) => bytes_of(batch),
            None => 0,
        };
        self.take(batch.num_rows() as u64, bytes).await;
    }

    async fn take(&self, rows: u64, bytes: u64) {
        let seconds = |amount: u64, rate: Option<u64>| match rate {
            Some(rate) if rate > 0 => amount as f64 / rate as f64,
            _ => 0.0,
        };
        let cost = seconds(rows, self.rates.rows).max(seconds(bytes, self.rates.bytes));
        if cost == 0.0 {
            return;
        }
        let mut paid = self.paid.lock().await;
        *paid = (*paid).max(Instant::now()) + Duration::from_secs_f64(cost);
        let until = *paid;
        drop(paid);
        sleep_until(until).await;
    }
}

/// Bytes of a batch's values.
fn bytes_of(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter().map(|column| {
        let bytes = column.to_data().get_slice_memory_size();
        bytes.unwrap_or_else(|_| column.get_array_memory_size()) as u64
    });
    columns.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn takes(rates: ReadRates) -> u128 {
        let limit = ReadLimit::new(rates);
        let start = Instant::now();
        for _ in 0..5 {
            limit.take(500, 10_000).await;
        }
        start.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn the_slower_rate_holds() {
        let rates = |rows, bytes| ReadRates { rows, bytes };
        for (rates, about_ms) in [
            (rates(None, None), 0),
            (rates(Some(1000), None), 2500),
            (rates(None, Some(10_000)), 5000),
            (rates(Some(1000), Some(10_000)), 5000),
            (rates(Some(100), Some(10_000)), 25_000),
        ] {
            let took = takes(rates).await;
            assert!(took.abs_diff(about_ms) <= 10, "{rates:?}: {took}");
        }
    }
}
