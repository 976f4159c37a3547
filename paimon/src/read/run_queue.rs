//! The runs of a merge by the key of their next row.

use std::cmp::Ordering;

use super::run::Run;

/// A run, with the head of its next key: most comparisons need no more.
#[derive(Debug, Clone, Copy)]
struct Entry {
    head: u128,
    run: usize,
}

/// Runs that have rows left, a binary heap: the first has the smallest key. Of equal keys the newer
/// row comes first if only that counts, else the older one.
#[derive(Debug)]
pub(super) struct RunQueue {
    entries: Vec<Entry>,
    newest_first: bool,
}

impl RunQueue {
    pub(super) fn new(newest_first: bool) -> Self {
        Self {
            entries: Vec::new(),
            newest_first,
        }
    }

    /// Starts with these runs.
    pub(super) fn fill(&mut self, runs: &[Run], with_rows: Vec<usize>) {
        let entry = |run: usize| Entry {
            head: runs.get(run).map_or(0, Run::head),
            run,
        };
        self.entries = with_rows.into_iter().map(entry).collect();
        for at in (0..self.entries.len() / 2).rev() {
            self.sift_down(runs, at);
        }
    }

    /// How many runs.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them, in no order.
    pub(super) fn runs(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().map(|entry| entry.run)
    }

    /// The run with the next row.
    pub(super) fn first(&self) -> Option<usize> {
        self.entries.first().map(|entry| entry.run)
    }

    /// The run that comes after the first one.
    pub(super) fn second(&self, runs: &[Run]) -> Option<usize> {
        let left = *self.entries.get(1)?;
        let second = match self.entries.get(2) {
            Some(right) if self.precedes(runs, *right, left) => *right,
            _ => left,
        };
        Some(second.run)
    }

    /// The first run has moved on.
    pub(super) fn moved(&mut self, runs: &[Run]) {
        if let Some(first) = self.entries.first_mut() {
            first.head = runs.get(first.run).map_or(0, Run::head);
            self.sift_down(runs, 0);
        }
    }

    /// The first run has no more rows.
    pub(super) fn remove(&mut self, runs: &[Run]) {
        if !self.entries.is_empty() {
            self.entries.swap_remove(0);
            self.sift_down(runs, 0);
        }
    }

    fn precedes(&self, runs: &[Run], a: Entry, b: Entry) -> bool {
        match a.head.cmp(&b.head) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                let (Some(a), Some(b)) = (runs.get(a.run), runs.get(b.run)) else {
                    return false;
                };
                let by_age = || match self.newest_first {
                    true => b.compare_age(a),
                    false => a.compare_age(b),
                };
                a.compare_key(b).then_with(by_age) == Ordering::Less
            }
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "every index is compared with the heap's length first"
    )]
    fn sift_down(&mut self, runs: &[Run], mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                let is_less = child < self.entries.len()
                    && self.precedes(runs, self.entries[child], self.entries[least]);
                if is_less {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.entries.swap(at, least);
            at = least;
        }
    }
}
