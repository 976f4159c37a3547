//! What a comparison found, for people and for programs.

use std::fmt::Write;

use serde::Serialize;

/// How a key differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The source has it, the lake does not.
    Missing,
    /// The lake has it, the source does not.
    Extra,
    /// Both have it, with different values.
    Different,
    /// The lake has it more than once.
    Doubled,
    /// It changed at the source each time it was looked at.
    Undecided,
}

/// A key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedKey {
    /// The key: `id=7`, or `a=1, b='x'`.
    pub key: String,
    /// How it differs.
    pub difference: Difference,
}

/// What is said of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every row is equal.
    Equal,
    /// Some rows are not.
    Different,
    /// No row is known to be different, and some keys could not be decided in time.
    Undecided,
    /// Its snapshot is not wholly read yet: not compared.
    Incomplete,
    /// It could not be compared.
    Failed,
}

/// One table, compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableVerdict {
    /// `database.table` at the source.
    pub source: String,
    /// `database.table` in the lake.
    pub sink: String,
    /// Checkpoint at which the lake was last looked at.
    pub checkpoint: i64,
    /// The table's snapshot of that checkpoint; `None` before its first.
    pub snapshot: Option<i64>,
    /// Rows read at the source.
    pub source_rows: u64,
    /// Rows read in the lake. While the source moves the two numbers may differ by what moved.
    pub lake_rows: u64,
    /// Keys that the lake lacks.
    pub missing: u64,
    /// Keys that only the lake has.
    pub extra: u64,
    /// Keys with different values.
    pub different: u64,
    /// Keys that the lake has more than once.
    pub doubled: u64,
    /// Keys that changed each time they were looked at.
    pub undecided: u64,
    /// The numbers of keys are lower bounds: there were more than memory could hold.
    pub at_least: bool,
    /// Some of the keys.
    pub keys: Vec<ListedKey>,
    /// Why it could not be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is said of it.
    pub verdict: Verdict,
}

impl TableVerdict {
    /// Counts a key and lists it when there is room.
    pub(super) fn count(&mut self, key: String, difference: Difference, room: usize) {
        match difference {
            Difference::Missing => self.missing += 1,
            Difference::Extra => self.extra += 1,
            Difference::Different => self.different += 1,
            Difference::Doubled => self.doubled += 1,
            Difference::Undecided => self.undecided += 1,
        }
        if self.keys.len() < room {
            self.keys.push(ListedKey { key, difference });
        }
    }

    /// Says what the counts mean, unless the table was not compared.
    pub(super) fn judge(&mut self) {
        if matches!(self.verdict, Verdict::Incomplete | Verdict::Failed) {
            return;
        }
        let differs = self.missing + self.extra + self.different + self.doubled;
        self.verdict = match (differs, self.undecided) {
            (0, 0) if !self.at_least => Verdict::Equal,
            (0, _) => Verdict::Undecided,
            _ => Verdict::Different,
        };
    }
}

/// All tables of a job, compared at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The newest checkpoint that was looked at.
    pub checkpoint: i64,
    /// Its position at the source.
    pub position: String,
    /// When it was made, milliseconds since the epoch.
    pub created_ms: i64,
    /// The job was running while it was compared.
    pub job_running: bool,
    /// By name of the source table.
    pub tables: Vec<TableVerdict>,
    /// What a reader has to know besides.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether every table is equal. Nothing compared is not equal.
    pub fn equal(&self) -> bool {
        !self.tables.is_empty()
            && self
                .tables
                .iter()
                .all(|table| table.verdict == Verdict::Equal)
    }

    /// The exit code of `headwater verify`: 0 when equal, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.equal())
    }

    /// The report as one JSON object, with `equal` besides the fields.
    ///
    /// # Errors
    /// None that can be met: every field has a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Whole<'a> {
            equal: bool,
            #[serde(flatten)]
            report: &'a Report,
        }
        serde_json::to_string_pretty(&Whole {
            equal: self.equal(),
            report: self,
        })
    }

    /// The report as text: a table, the keys that differ, and a sentence.
    pub fn to_text(&self) -> String {
        let mut text = grid(&self.tables);
        for table in &self.tables {
            list_keys(&mut text, table);
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = write!(
            text,
            "\nCompared at checkpoint {}, position {}.\n{}\n",
            self.checkpoint,
            self.position,
            self.conclusion()
        );
        text
    }

    fn conclusion(&self) -> String {
        let count = |verdict| {
            let tables = self.tables.iter();
            tables.filter(|table| table.verdict == verdict).count()
        };
        if self.tables.is_empty() {
            return "NOT EQUAL: the job captures no table.".to_owned();
        }
        if self.equal() {
            let rows: u64 = self.tables.iter().map(|table| table.lake_rows).sum();
            let tables = self.tables.len();
            return format!(
                "EQUAL: {}, {}.",
                counted(tables as u64, "table"),
                counted(rows, "row")
            );
        }
        let said = [
            (Verdict::Different, "different"),
            (
                Verdict::Undecided,
                "undecided (they kept changing; counted as not equal)",
            ),
            (Verdict::Incomplete, "with their snapshot not wholly read"),
            (Verdict::Failed, "not compared"),
        ];
        let parts: Vec<String> = said
            .iter()
            .map(|(verdict, words)| (count(*verdict), words))
            .filter(|(tables, _)| *tables > 0)
            .map(|(tables, words)| format!("{tables} {words}"))
            .collect();
        format!(
            "NOT EQUAL: of {} {}.",
            counted(self.tables.len() as u64, "table"),
            parts.join(", ")
        )
    }
}

const HEAD: [&str; 9] = [
    "table",
    "source rows",
    "lake rows",
    "missing",
    "extra",
    "different",
    "undecided",
    "snapshot",
    "verdict",
];

/// Cells in columns: names to the left, numbers to the right.
fn grid(tables: &[TableVerdict]) -> String {
    let mut lines: Vec<[String; 9]> = vec![HEAD.map(str::to_owned)];
    lines.extend(tables.iter().map(cells));
    let mut widths = [0; 9];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let _ = match column {
                0 | 8 => write!(row, "{cell:<width$}  "),
                _ => write!(row, "{cell:>width$}  "),
            };
        }
        text.push_str(row.trim_end());
        text.push('\n');
        if index == 0 {
            let width = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            text.push_str(&"─".repeat(width));
            text.push('\n');
        }
    }
    text
}

fn cells(table: &TableVerdict) -> [String; 9] {
    let name = match table.source == table.sink {
        true => table.source.clone(),
        false => format!("{} → {}", table.source, table.sink),
    };
    let keys = |count: u64| match (count, table.at_least) {
        (0, _) => "0".to_owned(),
        (count, true) => format!("≥ {}", thousands(count)),
        (count, false) => thousands(count),
    };
    [
        name,
        thousands(table.source_rows),
        thousands(table.lake_rows),
        keys(table.missing),
        keys(table.extra + table.doubled),
        keys(table.different),
        keys(table.undecided),
        table
            .snapshot
            .map_or("-".to_owned(), |snapshot| snapshot.to_string()),
        match table.verdict {
            Verdict::Equal => "equal",
            Verdict::Different => "DIFFERENT",
            Verdict::Undecided => "UNDECIDED",
            Verdict::Incomplete => "INCOMPLETE",
            Verdict::Failed => "FAILED",
        }
        .to_owned(),
    ]
}

fn list_keys(text: &mut String, table: &TableVerdict) {
    if let Some(error) = &table.error {
        let _ = writeln!(text, "\n{}: {error}", table.source);
    }
    if table.keys.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}:", table.source);
    for listed in &table.keys {
        let what = match listed.difference {
            Difference::Missing => "missing in the lake",
            Difference::Extra => "only in the lake",
            Difference::Different => "different values",
            Difference::Doubled => "more than once in the lake",
            Difference::Undecided => "kept changing",
        };
        let _ = writeln!(text, "  {}  {what}", listed.key);
    }
    let counted = table.missing + table.extra + table.different + table.doubled + table.undecided;
    let more = counted.saturating_sub(table.keys.len() as u64);
    if more > 0 || table.at_least {
        let bound = if table.at_least { "at least " } else { "" };
        let _ = writeln!(text, "  … and {bound}{} more", thousands(more));
    }
}

/// A number of things: `1 table`, `2,000 tables`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(count))
}

/// A number with its digits in groups of three.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
