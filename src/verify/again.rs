//! A moving source: keys that were not equal are looked at again at later checkpoints, and only
//! those that stay different count.
//!
//! Once around: each suspect is looked up at the source (a); H is taken; a checkpoint at or after
//! H is waited for, and the source until it shows all of that checkpoint; the lake's rows of the
//! suspects are read at it; each suspect is looked up once more (b). The lake is equal when it has
//! a or b. It differs when a and b are the same and the lake has something else, the same each
//! time, three times in a row: a row that is taken away and put back meanwhile looks so once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::RecordBatch;
use futures::{StreamExt, TryStreamExt, stream};
use headwater_connectors::{Source, TableSchema};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Cut, POLL, TABLES_AT_ONCE, Verifier,
    compare::Suspect,
    hash::RowHasher,
    reading::{Visitor, visit_buckets},
    report::Difference,
};
use crate::{
    checkpoint::TableState,
    error::{JobError, Result},
};

/// Keys asked for with one query.
const LOOKUP_KEYS: usize = 200;
/// Times in a row that a key must differ in the same way.
const STRIKES: u8 = 3;
/// Times that are enough when there is no time for more.
const STRIKES_LATE: u8 = 2;

/// Row hash of each key that is there.
type Values = HashMap<u128, u128>;

/// Suspects of one table.
pub(super) struct Open {
    /// Which of the report's tables.
    pub(super) table: usize,
    pub(super) schema: Arc<TableSchema>,
    pub(super) state: TableState,
    pub(super) hasher: Arc<RowHasher>,
    pub(super) keys: Vec<Watched>,
}

/// A suspect and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) suspect: Suspect,
    /// Times in a row that it differed in the same way.
    strikes: u8,
    /// Its values when it last differed: at the source and in the lake.
    seen: (Option<u128>, Option<u128>),
}

impl From<Suspect> for Watched {
    fn from(suspect: Suspect) -> Self {
        Self {
            suspect,
            strikes: 0,
            seen: (None, None),
        }
    }
}

/// A suspect that is settled as not equal.
pub(super) struct Settled {
    /// Which of the report's tables.
    pub(super) table: usize,
    pub(super) schema: Arc<TableSchema>,
    pub(super) suspect: Suspect,
}

/// What came of looking again.
pub(super) struct Outcome {
    pub(super) settled: Vec<Settled>,
    /// The last checkpoint looked at, when there was one.
    pub(super) cut: Option<Cut>,
    /// The job ended while its next checkpoint was waited for.
    pub(super) job_ended: bool,
}

/// Looks at the suspects again until all are settled, until `deadline`, or until the job ends.
pub(super) async fn look_again(
    verifier: &Verifier<'_>,
    mut open: Vec<Open>,
    deadline: Instant,
) -> Result<Outcome> {
    let mut outcome = Outcome {
        settled: Vec::new(),
        cut: None,
        job_ended: false,
    };
    while open.iter().any(|table| !table.keys.is_empty()) {
        let before = look_up(verifier, &open).await?;
        let high = verifier.source.round_high().await?;
        let reached = |cut: &Cut| cut.record.source.position.is_at_or_after(&high);
        let cut = match verifier.wait_for(deadline, reached).await? {
            Waited::Reached(cut) => *cut,
            Waited::JobEnded => {
                outcome.job_ended = true;
                break;
            }
            Waited::TimedOut => break,
        };
        // The log is ahead of what a query sees: without this wait `after` may be older than the
        // checkpoint.
        let position = &cut.record.source.position;
        let Ok(low) = timeout_at(deadline, verifier.source.round_low(position)).await else {
            break;
        };
        low?;
        let lake = look_in_lake(verifier, &open, &cut).await?;
        let after = look_up(verifier, &open).await?;
        for (index, table) in open.iter_mut().enumerate() {
            let looks = (before.get(index), after.get(index), lake.get(index));
            if let (Some(a), Some(b), Some(lake)) = looks {
                settle(table, a, b, lake, &mut outcome.settled);
            }
        }
        outcome.cut = Some(cut);
    }
    for table in open {
        for watched in table.keys {
            let mut suspect = watched.suspect;
            if watched.strikes < STRIKES_LATE {
                suspect.difference = Difference::Undecided;
            }
            outcome.settled.push(Settled {
                table: table.table,
                schema: table.schema.clone(),
                suspect,
            });
        }
    }
    Ok(outcome)
}

/// Takes out the keys that are decided.
fn settle(table: &mut Open, a: &Values, b: &Values, lake: &Values, settled: &mut Vec<Settled>) {
    let (index, schema) = (table.table, table.schema.clone());
    table.keys.retain_mut(|watched| {
        let hash = watched.suspect.hash;
        let (a, b, lake) = (a.get(&hash), b.get(&hash), lake.get(&hash));
        if lake == a || lake == b {
            return false;
        }
        if a != b {
            watched.strikes = 0;
            return true;
        }
        let seen = (a.copied(), lake.copied());
        watched.strikes = match watched.seen == seen {
            true => watched.strikes + 1,
            false => 1,
        };
        watched.seen = seen;
        watched.suspect.difference = match (a, lake) {
            (Some(_), None) => Difference::Missing,
            (None, Some(_)) => Difference::Extra,
            _ if watched.suspect.difference == Difference::Doubled => Difference::Doubled,
            _ => Difference::Different,
        };
        let decided = watched.strikes >= STRIKES;
        if decided {
            settled.push(Settled {
                table: index,
                schema: schema.clone(),
                suspect: watched.suspect.clone(),
            });
        }
        !decided
    });
}

/// How waiting for a checkpoint ended.
pub(super) enum Waited {
    Reached(Box<Cut>),
    JobEnded,
    TimedOut,
}

impl Verifier<'_> {
    /// Waits for a committed checkpoint that is good enough.
    pub(super) async fn wait_for(
        &self,
        deadline: Instant,
        good: impl Fn(&Cut) -> bool,
    ) -> Result<Waited> {
        let mut polls = 0_u32;
        loop {
            let cut = self.newest().await?;
            if good(&cut) {
                return Ok(Waited::Reached(Box::new(cut)));
            }
            if Instant::now() >= deadline {
                return Ok(Waited::TimedOut);
            }
            polls += 1;
            if polls.is_multiple_of(16) && self.job_has_ended().await? {
                // It may have committed its last checkpoint in between.
                let cut = self.newest().await?;
                return Ok(match good(&cut) {
                    true => Waited::Reached(Box::new(cut)),
                    false => Waited::JobEnded,
                });
            }
            sleep(POLL).await;
        }
    }
}

/// Values of all suspects at the source, by table.
async fn look_up(verifier: &Verifier<'_>, open: &[Open]) -> Result<Vec<Values>> {
    stream::iter(open)
        .map(|table| look_up_table(verifier.source.as_ref(), table))
        .buffered(TABLES_AT_ONCE)
        .try_collect()
        .await
}

async fn look_up_table(source: &dyn Source, table: &Open) -> Result<Values> {
    let mut values = Values::new();
    for some in table.keys.chunks(LOOKUP_KEYS) {
        let keys: Vec<Vec<String>> = some.iter().map(|key| key.suspect.key.clone()).collect();
        let found = source.lookup(&table.schema, &keys).await?;
        let found = table.hasher.bind(&found)?;
        let hashes = table.hasher.keys(&found)?;
        values.extend(hashes.into_iter().zip(table.hasher.rows(&found)?));
    }
    Ok(values)
}

/// Values of all suspects in the lake, by table.
async fn look_in_lake(verifier: &Verifier<'_>, open: &[Open], cut: &Cut) -> Result<Vec<Values>> {
    stream::iter(open)
        .map(|table| async move {
            let snapshot = cut.marker.snapshots.get(&table.state.sink.to_string());
            let (Some(snapshot), false) = (snapshot, table.keys.is_empty()) else {
                return Ok(Values::new());
            };
            let buckets = verifier.lake.buckets(&table.state, *snapshot).await?;
            let wanted = table.keys.iter().map(|key| key.suspect.hash).collect();
            let watching = Watching {
                hasher: table.hasher.clone(),
                wanted: Arc::new(wanted),
                values: Arc::default(),
            };
            let workers = verifier.workers();
            let mut watched = visit_buckets(buckets, workers, || watching.clone()).await?;
            let one = watched.pop();
            drop(watched);
            drop(watching);
            Ok::<_, JobError>(one.map(Watching::values).unwrap_or_default())
        })
        .buffered(TABLES_AT_ONCE)
        .try_collect()
        .await
}

/// Keeps the rows of the suspects.
#[derive(Clone)]
struct Watching {
    hasher: Arc<RowHasher>,
    wanted: Arc<std::collections::HashSet<u128>>,
    values: Arc<Mutex<Values>>,
}

impl Watching {
    fn values(self) -> Values {
        std::mem::take(&mut *self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Visitor for Watching {
    type Part = Vec<(u128, u128)>;

    fn look(&self, batch: &RecordBatch) -> Result<Self::Part> {
        let bound = self.hasher.bind(batch)?;
        let keys = self.hasher.keys(&bound)?;
        if !keys.iter().any(|key| self.wanted.contains(key)) {
            return Ok(Vec::new());
        }
        let rows = self.hasher.rows(&bound)?;
        let pairs = keys.into_iter().zip(rows);
        Ok(pairs.filter(|(key, _)| self.wanted.contains(key)).collect())
    }

    fn keep(&mut self, part: Self::Part) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, row) in part {
            // A key that is there twice has a value that no row of the source has.
            values
                .entry(key)
                .and_modify(|there| *there = there.wrapping_add(row) ^ 1)
                .or_insert(row);
        }
    }
}
