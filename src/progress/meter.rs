//! From what the job's parts count to what a person reads: rates, time left, lag.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use headwater_connectors::{TableName, change::TailProgress};

use crate::job::status::{CheckpointProgress, Inner};

/// Rates follow what happens within about this time.
const SMOOTHING: Duration = Duration::from_secs(5);
/// A tail that reports, and has nothing new for this long, is at the end of the log.
const QUIET: Duration = Duration::from_secs(2);
/// A tail that has not reported for this long is held up or away.
const SILENT: Duration = Duration::from_secs(3);

/// What the job is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    /// Tables are read, and the log beside them.
    Snapshot,
    Stream,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Snapshot => "snapshot",
            Self::Stream => "stream",
        }
    }
}

/// How far behind the source the job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lag {
    /// The log has said nothing yet.
    Unknown,
    /// Nothing new in the log.
    CaughtUp,
    /// Age of the last transaction that was read.
    Behind(Duration),
}

impl Lag {
    /// As a number for logs.
    pub(super) fn millis(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::CaughtUp => Some(0),
            Self::Behind(lag) => Some(u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// A table whose snapshot is being read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableLine {
    pub(super) name: TableName,
    pub(super) read: u64,
    /// By the server; 0 when it is not known.
    pub(super) estimated: u64,
    pub(super) per_second: f64,
    pub(super) left: Option<Duration>,
}

/// Everything that is shown at one moment.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) phase: Phase,
    pub(super) running: Duration,
    /// Tables being read, the furthest first, then those that wait.
    pub(super) tables: Vec<TableLine>,
    pub(super) tables_all: usize,
    pub(super) tables_done: usize,
    /// Tables whose snapshot was finished since the last frame, with their rows.
    pub(super) finished: Vec<(TableName, u64)>,
    pub(super) snapshot_rows: u64,
    pub(super) snapshot_per_second: f64,
    pub(super) lag: Lag,
    pub(super) rows: u64,
    pub(super) rows_per_second: f64,
    pub(super) log_bytes_per_second: f64,
    /// Dates that are none, replaced by NULL or 1970-01-01.
    pub(super) zero_dates: u64,
    pub(super) position: String,
    pub(super) checkpoint: Option<CheckpointProgress>,
    pub(super) checkpoint_age: Duration,
    pub(super) retries: u64,
    pub(super) last_error: Option<String>,
}

/// A counter's smoothed rate.
#[derive(Debug, Clone, Default)]
struct Pace {
    last: Option<(Instant, u64)>,
    per_second: f64,
    steady: bool,
}

impl Pace {
    /// Takes the counter's value now. One that fell has begun anew.
    fn observe(&mut self, now: Instant, total: u64) -> f64 {
        if let Some((then, before)) = self.last {
            let passed = now.saturating_duration_since(then).as_secs_f64();
            if passed < 0.01 {
                return self.per_second;
            }
            let rate = total.saturating_sub(before) as f64 / passed;
            let weight = match self.steady {
                true => 1.0 - (-passed / SMOOTHING.as_secs_f64()).exp(),
                false => 1.0,
            };
            self.per_second += weight * (rate - self.per_second);
            self.steady = rate > 0.0 || self.steady;
        }
        self.last = Some((now, total));
        self.per_second
    }
}

/// Watches the counters from moment to moment.
#[derive(Debug, Default)]
pub(super) struct Meter {
    snapshot: Pace,
    rows: Pace,
    bytes: Pace,
    /// Tables whose snapshot is not finished.
    open: HashMap<TableName, Pace>,
    seen: TailProgress,
    moved: Option<Instant>,
    reported: Option<Instant>,
}

impl Meter {
    /// Looks at the counters. `reported`: the tail has reported since the last look.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        now_ms: i64,
        view: Inner,
        tail: TailProgress,
        reported: bool,
    ) -> Frame {
        let lag = self.lag(now, now_ms, &tail, reported);
        let snapshot_rows = view.tables.values().map(|table| table.read_rows).sum();
        let mut tables = Vec::new();
        let mut finished = Vec::new();
        for (name, table) in &view.tables {
            if table.done {
                if self.open.remove(name).is_some() {
                    finished.push((name.clone(), table.read_rows));
                }
                continue;
            }
            let pace = self.open.entry(name.clone()).or_default();
            let per_second = pace.observe(now, table.read_rows);
            let unread = table.estimated_rows.saturating_sub(table.read_rows) as f64;
            let left = unread / per_second;
            tables.push(TableLine {
                name: name.clone(),
                read: table.read_rows,
                estimated: table.estimated_rows,
                per_second,
                left: (per_second >= 1.0 && unread > 0.0)
                    .then(|| Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)),
            });
        }
        tables.sort_by(|left, right| {
            let waits = |line: &TableLine| line.read == 0;
            waits(left)
                .cmp(&waits(right))
                .then_with(|| left.name.cmp(&right.name))
        });
        let phase = match (view.tables.is_empty(), tables.is_empty()) {
            (true, _) => Phase::Starting,
            (false, false) => Phase::Snapshot,
            (false, true) => Phase::Stream,
        };
        let committed = view
            .checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.committed);
        Frame {
            phase,
            running: now.saturating_duration_since(view.began),
            tables_all: view.tables.len(),
            tables_done: view.tables.len() - tables.len(),
            tables,
            finished,
            snapshot_rows,
            snapshot_per_second: self.snapshot.observe(now, snapshot_rows),
            lag,
            rows: tail.rows,
            rows_per_second: self.rows.observe(now, tail.rows),
            log_bytes_per_second: self.bytes.observe(now, tail.bytes),
            zero_dates: tail.zero_dates,
            position: tail.position,
            checkpoint_age: committed
                .map_or(Duration::ZERO, |at| now.saturating_duration_since(at)),
            checkpoint: view.checkpoint,
            retries: view.retries,
            last_error: view.last_error,
        }
    }

    /// Age of the last transaction, unless there is nothing behind it. A tail that is held up
    /// by the lake has nothing new either, but it does not report.
    fn lag(&mut self, now: Instant, now_ms: i64, tail: &TailProgress, reported: bool) -> Lag {
        let seen = (self.seen.rows, self.seen.event_time_ms, self.seen.bytes);
        if reported {
            self.reported = Some(now);
        }
        if seen != (tail.rows, tail.event_time_ms, tail.bytes) {
            self.moved = Some(now);
            self.seen = TailProgress {
                rows: tail.rows,
                event_time_ms: tail.event_time_ms,
                bytes: tail.bytes,
                ..TailProgress::default()
            };
        }
        let since = |then: Option<Instant>| then.map(|then| now.saturating_duration_since(then));
        let alive = since(self.reported).is_some_and(|since| since < SILENT);
        let quiet = since(self.moved).is_none_or(|since| since >= QUIET);
        match tail.event_time_ms {
            _ if alive && quiet => Lag::CaughtUp,
            None => Lag::Unknown,
            Some(event) => {
                let lag = u64::try_from(now_ms.saturating_sub(event)).unwrap_or(0);
                Lag::Behind(Duration::from_millis(lag))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::status::{Status, TableProgress};

    fn view(tables: &[(&str, u64, u64, bool)]) -> Inner {
        let status = Status::default();
        status.update(|inner| {
            for (name, estimated_rows, read_rows, done) in tables {
                let progress = TableProgress {
                    estimated_rows: *estimated_rows,
                    read_rows: *read_rows,
                    done: *done,
                    ..TableProgress::default()
                };
                inner.tables.insert(TableName::new("d", *name), progress);
            }
        });
        status.view()
    }

    fn tail(rows: u64, event_time_ms: Option<i64>) -> TailProgress {
        TailProgress {
            rows,
            bytes: rows * 100,
            event_time_ms,
            ..TailProgress::default()
        }
    }

    #[test]
    fn rates_and_time_left() {
        let mut meter = Meter::default();
        let start = Instant::now();
        let mut frame = None;
        for second in 0..=30 {
            let read = second * 1_000;
            let now = start + Duration::from_secs(second);
            let tables = [
                ("a", 90_000, read, false),
                ("b", 5, 0, false),
                ("c", 7, 7, true),
            ];
            frame = Some(meter.observe(now, 0, view(&tables), tail(read / 2, None), true));
        }
        let frame = frame.unwrap();
        assert_eq!(frame.phase, Phase::Snapshot);
        assert_eq!((frame.tables_done, frame.tables_all), (1, 3));
        assert_eq!(
            frame.tables[0].name.table, "a",
            "what is read stands before what waits"
        );
        assert!((frame.tables[0].per_second - 1_000.0).abs() < 1.0);
        assert_eq!(frame.tables[0].left.unwrap().as_secs(), 60);
        assert_eq!(frame.tables[1].left, None);
        assert!((frame.rows_per_second - 500.0).abs() < 1.0);
        assert!(frame.finished.is_empty(), "c was done before anyone looked");

        let done = [
            ("a", 90_000, 91_000, true),
            ("b", 5, 5, true),
            ("c", 7, 7, true),
        ];
        let end = start + Duration::from_secs(31);
        let frame = meter.observe(end, 0, view(&done), tail(15_000, None), true);
        assert_eq!(frame.phase, Phase::Stream);
        assert_eq!(frame.finished.len(), 2);
        // A tail that begins anew counts from 0.
        let frame = meter.observe(end + SMOOTHING, 0, view(&done), tail(0, None), true);
        assert!(frame.rows_per_second < 500.0 && frame.rows_per_second >= 0.0);
        assert!(frame.finished.is_empty(), "told once");
    }

    #[test]
    fn lag_and_its_end() {
        let mut meter = Meter::default();
        let start = Instant::now();
        let mut look = |ms: u64, rows, event, reported| {
            let now = start + Duration::from_millis(ms);
            meter
                .observe(
                    now,
                    10_000 + ms as i64,
                    view(&[]),
                    tail(rows, event),
                    reported,
                )
                .lag
        };
        assert_eq!(look(0, 1, None, true), Lag::Unknown);
        assert_eq!(
            look(500, 5, Some(9_000), true),
            Lag::Behind(Duration::from_millis(1_500))
        );
        assert_eq!(
            look(1_000, 5, Some(9_000), true),
            Lag::Behind(Duration::from_millis(2_000))
        );
        assert_eq!(look(3_000, 5, Some(9_000), true), Lag::CaughtUp);
        assert_eq!(
            look(3_500, 6, Some(13_400), true),
            Lag::Behind(Duration::from_millis(100))
        );
        // Held up: nothing new, and no report.
        assert_eq!(
            look(9_500, 6, Some(13_400), false),
            Lag::Behind(Duration::from_millis(6_100))
        );
    }
}
