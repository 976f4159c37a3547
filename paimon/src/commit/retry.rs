//! How often and how soon a commit that lost a race tries again: options `commit.max-retries`,
//! `commit.min-retry-wait`, `commit.max-retry-wait` and `commit.timeout`.

use std::time::{Duration, Instant};

use rand::Rng;

use crate::{error::Result, schema::Schema, table_options::TableOptions};

/// Races that one commit may lose before it gives up, unless the table's options say.
const RACES_MAX: u32 = 200;
/// Waits after lost races, unless the table's options say.
const WAIT_MIN: Duration = Duration::from_millis(4);
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The races of one commit.
#[derive(Debug)]
pub(super) struct Retries {
    races_max: u32,
    wait_min: Duration,
    wait_max: Duration,
    until: Option<Instant>,
    pub(super) lost: u32,
}

impl Retries {
    /// As a table's options say.
    pub(super) fn of(schema: &Schema) -> Result<Self> {
        let options = TableOptions::of(schema)?.commit;
        let races_max = options.retries_max.map(|retries| retries.saturating_add(1));
        Ok(Self {
            races_max: races_max.unwrap_or(RACES_MAX),
            wait_min: options.retry_wait_min.unwrap_or(WAIT_MIN),
            wait_max: options.retry_wait_max.unwrap_or(WAIT_MAX),
            until: options
                .timeout
                .and_then(|timeout| Instant::now().checked_add(timeout)),
            lost: 0,
        })
    }

    /// After a lost race: false when it was the last one.
    pub(super) async fn again(&mut self) -> bool {
        self.lost += 1;
        if self.lost >= self.races_max || self.until.is_some_and(|until| Instant::now() >= until) {
            return false;
        }
        let doubled = 2u32.saturating_pow(self.lost.min(10) - 1);
        let ceiling = self.wait_min.saturating_mul(doubled).min(self.wait_max);
        let ceiling_us = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX);
        let wait_us = rand::rng().random_range(0..=ceiling_us);
        tokio::time::sleep(Duration::from_micros(wait_us)).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn options_say_how_often_and_how_long() {
        let with = |name: &str, value: &str| Schema {
            options: [
                (name.to_owned(), value.to_owned()),
                ("commit.min-retry-wait".to_owned(), "0 ms".to_owned()),
            ]
            .into(),
            ..Schema::empty()
        };
        let mut three = Retries::of(&with("commit.max-retries", "2")).unwrap();
        let again = [
            three.again().await,
            three.again().await,
            three.again().await,
        ];
        assert_eq!(again, [true, true, false]);
        let mut late = Retries::of(&with("commit.timeout", "0 ms")).unwrap();
        assert!(!late.again().await);
        let mut usual = Retries::of(&Schema::empty()).unwrap();
        usual.wait_min = Duration::ZERO;
        for _ in 1..RACES_MAX {
            assert!(usual.again().await);
        }
        assert!(!usual.again().await);
    }
}
