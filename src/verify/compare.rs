//! One table, compared in two passes of bounded memory.
//!
//! The first pass adds up row hashes in groups of keys, on both sides. The second looks again at
//! the groups that are not equal, as many at a time as memory allows, and finds the keys that
//! are missing in the lake, extra in it, or different.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::RecordBatch;
use headwater_connectors::{Source, TableSchema};

use super::{
    groups::{GroupSet, Groups},
    hash::RowHasher,
    lake::{Lake, Rows},
    reading::{SourceReading, Visitor, visit_buckets},
    report::Difference,
};
use crate::{checkpoint::TableState, error::Result};

/// Times the second pass is made for one table; what is left then is not counted.
const PASSES: usize = 4;

/// A key that was not equal when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) hash: u128,
    /// As the source spells it.
    pub(super) key: Vec<String>,
    pub(super) difference: Difference,
}

/// What the two passes found.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) source_rows: u64,
    pub(super) lake_rows: u64,
    pub(super) suspects: Vec<Suspect>,
    /// There are more than memory could hold.
    pub(super) at_least: bool,
}

/// Keys that may still be kept, over all tables.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub(super) fn new(keys: usize) -> Self {
        Self(AtomicUsize::new(keys))
    }

    /// Takes one; false when none is left.
    fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}

/// A table and both places where its rows are.
pub(super) struct TableReading<'a> {
    pub(super) source: &'a SourceReading,
    pub(super) lake: &'a dyn Lake,
    pub(super) schema: Arc<TableSchema>,
    pub(super) state: &'a TableState,
    pub(super) hasher: Arc<RowHasher>,
    /// Rows of groups that are not equal held at the same time.
    pub(super) memory_rows: usize,
    pub(super) budget: &'a Arc<Budget>,
}

impl TableReading<'_> {
    /// Buckets at a snapshot; none when the job has committed nothing into the table yet.
    async fn buckets(&self, snapshot: Option<i64>) -> Result<Vec<Rows>> {
        match snapshot {
            Some(snapshot) => self.lake.buckets(self.state, snapshot).await,
            None => Ok(Vec::new()),
        }
    }

    /// First pass: sums of both sides.
    pub(super) async fn sums(&self, snapshot: Option<i64>) -> Result<(Groups, Groups)> {
        let visitor = || Adding {
            hasher: self.hasher.clone(),
            groups: Groups::new(),
        };
        let at_source = self.source.visit(&self.schema, visitor);
        let in_lake = async {
            visit_buckets(self.buckets(snapshot).await?, self.source.workers, visitor).await
        };
        let (source, lake) = tokio::try_join!(at_source, in_lake)?;
        Ok((merged(source), merged(lake)))
    }

    /// Second pass: keys of the groups whose sums are not equal.
    pub(super) async fn keys(
        &self,
        snapshot: Option<i64>,
        (source, lake): (Groups, Groups),
    ) -> Result<Comparison> {
        let mut found = Comparison {
            source_rows: source.rows(),
            lake_rows: lake.rows(),
            ..Comparison::default()
        };
        let mut left = source.differing(&lake);
        drop((source, lake));
        for _ in 0..PASSES {
            if left.is_empty() {
                return Ok(found);
            }
            let rest = left.split_off(fitting(&left, self.memory_rows as u64));
            let wanted = Arc::new(GroupSet::new(&left));
            found.at_least |= self.pass(snapshot, wanted, &mut found.suspects).await?;
            left = rest;
        }
        found.at_least |= !left.is_empty();
        Ok(found)
    }

    /// Looks at some groups: the lake's rows are kept, then the source's are held against them.
    /// True when not every key could be kept.
    async fn pass(
        &self,
        snapshot: Option<i64>,
        wanted: Arc<GroupSet>,
        found: &mut Vec<Suspect>,
    ) -> Result<bool> {
        let workers = self.source.workers;
        let rows = Arc::new(Mutex::new(HashMap::new()));
        let looking = |task| Looking {
            task,
            hasher: self.hasher.clone(),
            wanted: wanted.clone(),
            rows: rows.clone(),
            source: self.source.source.clone(),
            schema: self.schema.clone(),
            budget: self.budget.clone(),
            found: Vec::new(),
            overflow: false,
        };
        let buckets = self.buckets(snapshot).await?;
        visit_buckets(buckets, workers, || looking(Task::KeepLake)).await?;
        let mut looked = self
            .source
            .visit(&self.schema, || looking(Task::MatchSource))
            .await?;
        let extra = {
            let mut rows = lock(&rows);
            rows.retain(|_, row: &mut LakeRow| !row.met);
            !rows.is_empty()
        };
        if extra {
            // Only the lake has these keys, and only their hashes are known.
            let buckets = self.buckets(snapshot).await?;
            looked.extend(visit_buckets(buckets, workers, || looking(Task::SpellExtra)).await?);
        }
        let mut overflow = false;
        for visitor in looked {
            found.extend(visitor.found);
            overflow |= visitor.overflow;
        }
        Ok(overflow)
    }
}

/// How many of the groups fit; one at least.
fn fitting(groups: &[(usize, u64)], rows: u64) -> usize {
    let mut sum = 0;
    let fit = groups.iter().take_while(|(_, more)| {
        sum += more;
        sum <= rows
    });
    fit.count().max(1).min(groups.len())
}

fn merged(visitors: Vec<Adding>) -> Groups {
    let mut all = Groups::new();
    visitors
        .iter()
        .for_each(|visitor| all.merge(&visitor.groups));
    all
}

/// First pass.
struct Adding {
    hasher: Arc<RowHasher>,
    groups: Groups,
}

impl Visitor for Adding {
    type Part = Vec<(u128, u128)>;

    fn look(&self, batch: &RecordBatch) -> Result<Self::Part> {
        let bound = self.hasher.bind(batch)?;
        let keys = self.hasher.keys(&bound)?;
        let rows = self.hasher.rows(&bound)?;
        Ok(keys.into_iter().zip(rows).collect())
    }

    fn keep(&mut self, part: Self::Part) {
        for (key, row) in part {
            self.groups.add(key, row);
        }
    }
}

/// A row of the lake in the second pass.
#[derive(Debug)]
struct LakeRow {
    hash: u128,
    copies: u32,
    /// The source has the key, with another row.
    met: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    KeepLake,
    MatchSource,
    SpellExtra,
}

/// Second pass.
struct Looking {
    task: Task,
    hasher: Arc<RowHasher>,
    wanted: Arc<GroupSet>,
    /// Rows of the lake by key; equal ones are taken out.
    rows: Arc<Mutex<HashMap<u128, LakeRow>>>,
    source: Arc<dyn Source>,
    schema: Arc<TableSchema>,
    budget: Arc<Budget>,
    found: Vec<Suspect>,
    overflow: bool,
}

/// A row of a wanted group.
enum Seen {
    Row(u128, u128),
    Equal(u128),
    Unequal(Suspect),
}

impl Looking {
    fn compare(&self, bound: &RecordBatch, row: usize, key: u128, hash: u128) -> Result<Seen> {
        let difference = match lock(&self.rows).get(&key) {
            Some(there) if there.copies > 1 => Difference::Doubled,
            Some(there) if there.hash == hash => return Ok(Seen::Equal(key)),
            Some(_) => Difference::Different,
            None => Difference::Missing,
        };
        self.suspect(bound, row, key, difference)
    }

    fn suspect(
        &self,
        bound: &RecordBatch,
        row: usize,
        hash: u128,
        difference: Difference,
    ) -> Result<Seen> {
        Ok(Seen::Unequal(Suspect {
            hash,
            key: self.source.key_of(&self.schema, bound, row)?,
            difference,
        }))
    }
}

impl Visitor for Looking {
    type Part = Vec<Seen>;

    fn look(&self, batch: &RecordBatch) -> Result<Self::Part> {
        let bound = self.hasher.bind(batch)?;
        let keys = self.hasher.keys(&bound)?;
        if !keys.iter().any(|key| self.wanted.has(*key)) {
            return Ok(Vec::new());
        }
        let hashes = self.hasher.rows(&bound)?;
        let mut seen = Vec::new();
        for (row, (key, hash)) in keys.into_iter().zip(hashes).enumerate() {
            if !self.wanted.has(key) {
                continue;
            }
            match self.task {
                Task::KeepLake => seen.push(Seen::Row(key, hash)),
                Task::MatchSource => seen.push(self.compare(&bound, row, key, hash)?),
                Task::SpellExtra if lock(&self.rows).contains_key(&key) => {
                    seen.push(self.suspect(&bound, row, key, Difference::Extra)?);
                }
                Task::SpellExtra => {}
            }
        }
        Ok(seen)
    }

    fn keep(&mut self, part: Self::Part) {
        for seen in part {
            let mut rows = lock(&self.rows);
            match seen {
                Seen::Row(key, hash) => {
                    let row = rows.entry(key).or_insert(LakeRow {
                        hash,
                        copies: 0,
                        met: false,
                    });
                    row.copies += 1;
                }
                Seen::Equal(key) => {
                    rows.remove(&key);
                }
                Seen::Unequal(suspect) => {
                    match self.task {
                        // Told once, also when the lake has it twice.
                        Task::SpellExtra => {
                            if rows.remove(&suspect.hash).is_none() {
                                continue;
                            }
                        }
                        _ => {
                            if let Some(row) = rows.get_mut(&suspect.hash) {
                                row.met = true;
                            }
                        }
                    }
                    match self.budget.take() {
                        true => self.found.push(suspect),
                        false => self.overflow = true,
                    }
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_taken_as_memory_allows() {
        let groups = [(1, 5), (2, 5), (3, 1)];
        assert_eq!(fitting(&groups, 10), 2);
        assert_eq!(fitting(&groups, 100), 3);
        assert_eq!(
            fitting(&groups, 2),
            1,
            "one at least, or it would never end"
        );
        assert_eq!(fitting(&[], 2), 0);
    }
}
