//! A terminal that shows progress at its foot and log lines above it.

use std::io::{self, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use super::{
    lines,
    meter::{Frame, TableLine},
};

/// Tables with a bar of their own.
const BARS: usize = 12;
/// Longest table name that is not cut.
const NAME: usize = 36;

/// The terminal on standard error. Log lines written through it do not tear the bars.
#[derive(Debug, Clone)]
pub struct Screen(MultiProgress);

impl Screen {
    /// A screen on standard error; empty until progress is shown.
    pub fn new() -> Self {
        // A frame sets many lines, one after another, and is drawn whole at its end: between that,
        // hardly ever.
        let target = ProgressDrawTarget::stderr_with_hz(1);
        Self(MultiProgress::with_draw_target(target))
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes log lines above the bars.
#[derive(Debug)]
pub struct ScreenWriter(MultiProgress);

impl Write for ScreenWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().lock().write(line))
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.suspend(|| io::stderr().lock().write_all(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = ScreenWriter;

    fn make_writer(&'a self) -> Self::Writer {
        ScreenWriter(self.0.clone())
    }
}

/// The lines at the foot of a screen.
pub(super) struct Foot {
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    rest: Option<ProgressBar>,
    stream: ProgressBar,
    checkpoint: ProgressBar,
    trouble: Option<ProgressBar>,
}

impl Foot {
    pub(super) fn new(screen: &Screen) -> Self {
        let screen = screen.0.clone();
        let stream = screen.add(text_line());
        let checkpoint = screen.add(text_line());
        Self {
            screen,
            bars: Vec::new(),
            rest: None,
            stream,
            checkpoint,
            trouble: None,
        }
    }

    /// Shows a frame in place of the one before.
    pub(super) fn show(&mut self, frame: &Frame) {
        self.show_tables(frame.tables.get(..BARS).unwrap_or(&frame.tables));
        let rest = match frame.tables.is_empty() {
            true => None,
            false => lines::rest(frame, self.bars.len()),
        };
        match (rest, &self.rest) {
            (Some(text), Some(line)) => line.set_message(text),
            (Some(text), None) => {
                let line = self.screen.insert_before(&self.stream, text_line());
                line.set_message(text);
                self.rest = Some(line);
            }
            (None, _) => remove(&self.screen, self.rest.take()),
        }
        self.stream.set_message(lines::stream(frame));
        self.checkpoint.set_message(lines::checkpoint(frame));
        match (lines::trouble(frame), &self.trouble) {
            (Some(text), Some(line)) => line.set_message(text),
            (Some(text), None) => {
                let line = self.screen.add(text_line());
                line.set_message(text);
                self.trouble = Some(line);
            }
            (None, _) => remove(&self.screen, self.trouble.take()),
        }
        self.checkpoint.force_draw();
    }

    fn show_tables(&mut self, tables: &[TableLine]) {
        for surplus in self.bars.drain(tables.len().min(self.bars.len())..) {
            remove(&self.screen, Some(surplus));
        }
        while self.bars.len() < tables.len() {
            let before = self.rest.as_ref().unwrap_or(&self.stream);
            self.bars
                .push(self.screen.insert_before(before, table_line()));
        }
        let width = tables
            .iter()
            .map(|table| table.name.to_string().chars().count())
            .max()
            .map_or(0, |longest| longest.min(NAME));
        for (bar, table) in self.bars.iter().zip(tables) {
            bar.set_prefix(fitted(&table.name.to_string(), width));
            bar.set_length(table.estimated.max(table.read).max(1));
            bar.set_position(table.read);
            bar.set_message(lines::table(table));
        }
    }

    /// Takes the lines away.
    pub(super) fn clear(self) {
        // The terminal may be gone.
        drop(self.screen.clear());
    }
}

fn remove(screen: &MultiProgress, line: Option<ProgressBar>) {
    if let Some(line) = line {
        line.finish_and_clear();
        screen.remove(&line);
    }
}

fn text_line() -> ProgressBar {
    styled(ProgressBar::no_length(), "{wide_msg}")
}

fn table_line() -> ProgressBar {
    styled(ProgressBar::new(1), "{prefix} {bar:20.cyan/dim} {wide_msg}")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("━╸─")),
        Err(_) => bar,
    }
}

/// A name in this many characters: cut at the front, where the database stands, or filled up.
fn fitted(name: &str, width: usize) -> String {
    let length = name.chars().count();
    match length > width {
        true => std::iter::once('…')
            .chain(name.chars().skip(length + 1 - width.max(1)))
            .collect(),
        false => format!("{name:<width$}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use headwater_connectors::{TableName, change::TailProgress};

    use super::*;
    use crate::{
        job::status::{Status, TableProgress},
        progress::meter::Meter,
    };

    #[test]
    fn names_are_cut_at_the_front() {
        assert_eq!(fitted("shop.items", 12), "shop.items  ");
        assert_eq!(fitted("shop.items", 6), "…items");
    }

    #[test]
    fn bars_come_and_go() {
        let screen = Screen(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()));
        let mut foot = Foot::new(&screen);
        let (status, mut meter) = (Status::default(), Meter::default());
        let start = Instant::now();
        let mut frame = |seconds, tables: usize, done: bool| {
            status.update(|inner| {
                for number in 0..tables {
                    let progress = TableProgress {
                        estimated_rows: 100,
                        read_rows: if number == 1 { 50 } else { 0 },
                        done,
                        ..TableProgress::default()
                    };
                    inner
                        .tables
                        .insert(TableName::new("shop", format!("t{number}")), progress);
                }
            });
            let now = start + Duration::from_secs(seconds);
            meter.observe(now, 0, status.view(), TailProgress::default(), true)
        };
        foot.show(&frame(0, 2, false));
        let first = &foot.bars[0];
        assert_eq!(
            (first.prefix().as_str(), first.position(), first.length()),
            ("shop.t1", 50, Some(100))
        );
        assert_eq!(foot.bars[1].message(), "0 of about 100 · waiting");
        assert!(foot.rest.is_none());
        foot.show(&frame(1, 40, false));
        assert_eq!(foot.bars.len(), BARS);
        let rest = foot.rest.as_ref().unwrap().message();
        assert!(
            rest.starts_with("0 of 40 tables read · 28 more: 0 of about 2,800"),
            "{rest}"
        );
        foot.show(&frame(2, 40, true));
        assert!(foot.bars.is_empty() && foot.rest.is_none() && foot.trouble.is_none());
    }
}
