//! The words of the progress display.

use std::time::Duration;

use super::meter::{Frame, Lag, Phase, TableLine};
use crate::verify::{counted, thousands};

/// Behind a table's bar.
pub(super) fn table(line: &TableLine) -> String {
    let mut text = thousands(line.read);
    if line.estimated > 0 {
        text.push_str(&format!(
            " of about {}",
            thousands(line.estimated.max(line.read))
        ));
    }
    if line.read == 0 {
        text.push_str(" · waiting");
        return text;
    }
    text.push_str(&format!(" · {} rows/s", rate(line.per_second)));
    if let Some(left) = line.left {
        text.push_str(&format!(" · {} left", span(left)));
    }
    text
}

/// What stands for the tables that have no bar of their own; `None` when all have.
pub(super) fn rest(frame: &Frame, shown: usize) -> Option<String> {
    let hidden = frame.tables.get(shown..)?;
    if hidden.is_empty() && frame.tables_done == 0 {
        return None;
    }
    let mut parts = vec![format!(
        "{} of {} read",
        frame.tables_done,
        counted(frame.tables_all as u64, "table")
    )];
    if !hidden.is_empty() {
        let read: u64 = hidden.iter().map(|table| table.read).sum();
        let estimated: u64 = hidden.iter().map(|table| table.estimated).sum();
        parts.push(format!(
            "{} more: {} of about {}",
            hidden.len(),
            thousands(read),
            thousands(estimated.max(read))
        ));
    }
    parts.push(format!(
        "{} rows, {} rows/s",
        thousands(frame.snapshot_rows),
        rate(frame.snapshot_per_second)
    ));
    Some(parts.join(" · "))
}

/// The stream of changes.
pub(super) fn stream(frame: &Frame) -> String {
    let lag = match (frame.phase, frame.lag) {
        (Phase::Starting, _) => return format!("starting, {}", span(frame.running)),
        (_, Lag::Unknown) => "waiting for the log".to_owned(),
        (_, Lag::CaughtUp) => "caught up".to_owned(),
        (_, Lag::Behind(lag)) => format!("lag {}", span(lag)),
    };
    format!(
        "changes     {lag} · {} rows/s · {:.1} MB/s of log · {} rows",
        rate(frame.rows_per_second),
        frame.log_bytes_per_second / 1e6,
        thousands(frame.rows)
    )
}

/// The last checkpoint.
pub(super) fn checkpoint(frame: &Frame) -> String {
    match &frame.checkpoint {
        None => "checkpoint  none yet in this run".to_owned(),
        Some(checkpoint) => format!(
            "checkpoint  {} · {} ago · took {} · {}",
            checkpoint.number,
            span(frame.checkpoint_age),
            span(Duration::from_millis(checkpoint.took_ms)),
            counted(checkpoint.tables as u64, "table")
        ),
    }
}

/// What went wrong and was tried again; `None` when nothing did.
pub(super) fn trouble(frame: &Frame) -> Option<String> {
    match (&frame.last_error, frame.retries) {
        (Some(error), retries) => Some(format!("trying again ({retries}): {}", one_line(error))),
        (None, 0) => None,
        (None, retries) => Some(format!("recovered   {} so far", counted(retries, "time"))),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn rate(per_second: f64) -> String {
    thousands(per_second.round().max(0.0) as u64)
}

/// A time as people say it.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() == 0 => "0 s".to_owned(),
        0 => format!("{} ms", time.as_millis()),
        1..=9 => format!("{:.1} s", time.as_secs_f64()),
        10..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use headwater_connectors::TableName;

    use super::*;
    use crate::job::status::CheckpointProgress;

    fn line(name: &str, read: u64, estimated: u64) -> TableLine {
        TableLine {
            name: TableName::new("shop", name),
            read,
            estimated,
            per_second: 1234.5,
            left: (estimated > read).then_some(Duration::from_secs(90)),
        }
    }

    fn frame() -> Frame {
        Frame {
            phase: Phase::Snapshot,
            running: Duration::from_secs(3),
            tables: vec![line("a", 500, 2_000), line("b", 0, 10), line("c", 70, 60)],
            tables_all: 5,
            tables_done: 2,
            finished: Vec::new(),
            snapshot_rows: 1_070,
            snapshot_per_second: 2_000.4,
            lag: Lag::Behind(Duration::from_millis(350)),
            rows: 12_345,
            rows_per_second: 77.7,
            log_bytes_per_second: 1_250_000.0,
            zero_dates: 0,
            position: "p".into(),
            checkpoint: None,
            checkpoint_age: Duration::from_millis(3_400),
            retries: 0,
            last_error: None,
        }
    }

    #[test]
    fn lines_read_well() {
        let mut frame = frame();
        assert_eq!(
            table(&frame.tables[0]),
            "500 of about 2,000 · 1,235 rows/s · 90 s left"
        );
        assert_eq!(table(&frame.tables[1]), "0 of about 10 · waiting");
        assert_eq!(table(&frame.tables[2]), "70 of about 70 · 1,235 rows/s");
        assert_eq!(
            rest(&frame, 1).unwrap(),
            "2 of 5 tables read · 2 more: 70 of about 70 · 1,070 rows, 2,000 rows/s"
        );
        assert_eq!(
            stream(&frame),
            "changes     lag 350 ms · 78 rows/s · 1.2 MB/s of log · 12,345 rows"
        );
        assert_eq!(checkpoint(&frame), "checkpoint  none yet in this run");
        assert_eq!(trouble(&frame), None);
        frame.lag = Lag::CaughtUp;
        frame.checkpoint = Some(CheckpointProgress {
            number: 12,
            position: "p".into(),
            event_time_ms: None,
            committed: std::time::Instant::now(),
            took_ms: 140,
            tables: 4,
        });
        frame.retries = 2;
        assert!(stream(&frame).starts_with("changes     caught up · "));
        assert_eq!(
            checkpoint(&frame),
            "checkpoint  12 · 3.4 s ago · took 140 ms · 4 tables"
        );
        assert_eq!(trouble(&frame).unwrap(), "recovered   2 times so far");
        frame.last_error = Some("source: the network\nis gone".into());
        assert_eq!(
            trouble(&frame).unwrap(),
            "trying again (2): source: the network is gone"
        );
    }

    #[test]
    fn spans() {
        let cases = [
            (0, "0 s"),
            (9_940, "9.9 s"),
            (61_000, "61 s"),
            (125_000, "2 min"),
            (7_320_000, "2 h 2 min"),
        ];
        for (millis, text) in cases {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }
}
