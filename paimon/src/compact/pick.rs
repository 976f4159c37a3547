//! Decides what a compaction takes: numbers in, numbers out.
//!
//! Sorted runs come ordered from the newest rows to the oldest; a compaction always takes the first
//! ones, so that no older row overtakes a newer one.
//!
//! Source: `UniversalCompaction`, `EarlyFullCompaction`, `ForceUpLevel0Compaction`,
//! `OffPeakHours` of `org.apache.paimon.mergetree.compact`.

use super::levels::RunSize;

/// The first `runs` sorted runs go to a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) runs: usize,
    pub(crate) output_level: i32,
}

/// When a decision is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Milliseconds since the epoch.
    pub(crate) now_ms: i64,
    /// Hour of the local day, 0 to 23.
    pub(crate) hour: i32,
}

/// Takes everything early, before size or number of the runs ask for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EarlyFull {
    /// At the latest this long after the last one.
    pub(crate) interval_ms: Option<i64>,
    /// While the bucket is smaller than this, bytes.
    pub(crate) total_bytes: Option<i64>,
    /// When what is not at the top level is larger than this, bytes.
    pub(crate) incremental_bytes: Option<i64>,
}

/// Hours of the local day in which another size ratio is added; end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffPeak {
    pub(crate) start_hour: i32,
    pub(crate) end_hour: i32,
    pub(crate) ratio_percent: i32,
}

impl OffPeak {
    fn ratio_percent(&self, hour: i32) -> i32 {
        let within = if self.start_hour <= self.end_hour {
            self.start_hour <= hour && hour < self.end_hour
        } else {
            hour < self.end_hour || self.start_hour <= hour
        };
        if within { self.ratio_percent } else { 0 }
    }
}

/// Whether level 0 is emptied even if nothing else asks for it: rows of tables read with deletion
/// vectors, of first-row tables, and the changelog of `lookup` wait for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForceLevel0 {
    Never,
    Always,
    /// Every so many decisions.
    Every(u32),
}

/// Universal compaction with its thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Universal {
    /// All is taken when the newer runs have more than so many percent of the oldest's bytes.
    pub(crate) size_amplification_percent: i64,
    /// A run is taken along unless it is more than so many percent larger than all before it.
    pub(crate) size_ratio_percent: i32,
    /// Runs from which on a bucket is compacted.
    pub(crate) trigger: usize,
    pub(crate) early: Option<EarlyFull>,
    pub(crate) off_peak: Option<OffPeak>,
    pub(crate) level0: ForceLevel0,
}

/// What one bucket's decisions remember of those before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// When everything was taken last, milliseconds since the epoch.
    pub(crate) last_full_ms: Option<i64>,
    /// Decisions since level 0 was emptied last.
    pub(super) skipped: u32,
}

impl Universal {
    /// What to compact of runs on levels up to `top_level`, if anything.
    pub(crate) fn pick(
        &self,
        top_level: i32,
        runs: &[RunSize],
        memory: &mut Memory,
        moment: Moment,
    ) -> Option<Pick> {
        let pick = self.pick_universal(top_level, runs, memory, moment);
        if pick.is_some() {
            return pick;
        }
        match self.level0 {
            ForceLevel0::Never => return None,
            ForceLevel0::Always => {}
            ForceLevel0::Every(decisions) => {
                memory.skipped += 1;
                if memory.skipped < decisions {
                    return None;
                }
                memory.skipped = 0;
            }
        }
        let newest = runs.iter().take_while(|run| run.level == 0).count();
        if newest == 0 {
            return None;
        }
        self.by_size_ratio(top_level, runs, newest, true, memory, moment)
    }

    fn pick_universal(
        &self,
        top_level: i32,
        runs: &[RunSize],
        memory: &mut Memory,
        moment: Moment,
    ) -> Option<Pick> {
        if self.early_full(top_level, runs, memory, moment)
            || self.amplified(runs) && runs.len() >= self.trigger
        {
            memory.last_full_ms = Some(moment.now_ms);
            return Some(Pick {
                runs: runs.len(),
                output_level: top_level,
            });
        }
        if runs.len() >= self.trigger
            && let Some(pick) = self.by_size_ratio(top_level, runs, 1, false, memory, moment)
        {
            return Some(pick);
        }
        if runs.len() > self.trigger {
            let candidates = runs.len() - self.trigger + 1;
            return self.by_size_ratio(top_level, runs, candidates, false, memory, moment);
        }
        None
    }

    fn early_full(
        &self,
        top_level: i32,
        runs: &[RunSize],
        memory: &Memory,
        moment: Moment,
    ) -> bool {
        let Some(early) = self.early else {
            return false;
        };
        // One run is as good as it gets; none: nothing to do.
        if runs.len() <= 1 {
            return false;
        }
        let overdue = early.interval_ms.is_some_and(|interval| {
            memory
                .last_full_ms
                .is_none_or(|last| moment.now_ms.saturating_sub(last) > interval)
        });
        let small = early.total_bytes.is_some_and(|limit| bytes(runs) < limit);
        let grown = early.incremental_bytes.is_some_and(|limit| {
            let below = runs.iter().filter(|run| run.level != top_level);
            below.fold(0, |sum, run| run.bytes.saturating_add(sum)) > limit
        });
        overdue || small || grown
    }

    /// Whether the newer runs take too much room beside the oldest.
    fn amplified(&self, runs: &[RunSize]) -> bool {
        let Some((oldest, newer)) = runs.split_last() else {
            return false;
        };
        let newer = i128::from(bytes(newer)) * 100;
        newer > i128::from(self.size_amplification_percent) * i128::from(oldest.bytes)
    }

    /// The first `candidates` runs and those behind them that are not much larger.
    fn by_size_ratio(
        &self,
        top_level: i32,
        runs: &[RunSize],
        candidates: usize,
        force: bool,
        memory: &mut Memory,
        moment: Moment,
    ) -> Option<Pick> {
        let (first, rest) = runs.split_at_checked(candidates)?;
        let off_peak = self
            .off_peak
            .map_or(0, |off_peak| off_peak.ratio_percent(moment.hour));
        let ratio = 100.0 + f64::from(self.size_ratio_percent) + f64::from(off_peak);
        let mut taken = candidates;
        let mut sum = bytes(first);
        let mut triggered = force || candidates > 1;
        for next in rest {
            let larger = sum as f64 * ratio / 100.0 < next.bytes as f64;
            if larger && (!triggered || next.level > 1) {
                break;
            }
            sum = sum.saturating_add(next.bytes);
            taken += 1;
            triggered = true;
        }
        triggered.then(|| unit(top_level, runs, taken, memory, moment))
    }
}

/// Finds the level for the first `taken` runs: right below the next run's. That is never level 0,
/// so runs are taken until it is a higher one.
fn unit(
    top_level: i32,
    runs: &[RunSize],
    mut taken: usize,
    memory: &mut Memory,
    moment: Moment,
) -> Pick {
    let mut output_level = match runs.get(taken) {
        None => top_level,
        Some(next) => (next.level - 1).max(0),
    };
    if output_level == 0 {
        for next in runs.iter().skip(taken) {
            taken += 1;
            if next.level != 0 {
                output_level = next.level;
                break;
            }
        }
    }
    if taken == runs.len() {
        memory.last_full_ms = Some(moment.now_ms);
        output_level = top_level;
    }
    Pick {
        runs: taken,
        output_level,
    }
}

fn bytes(runs: &[RunSize]) -> i64 {
    runs.iter()
        .fold(0, |sum, run| run.bytes.saturating_add(sum))
}

#[cfg(test)]
mod tests;
