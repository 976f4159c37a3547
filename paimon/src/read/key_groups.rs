//! What a merge hands on: merged rows, or all rows of some keys.

use crate::{compact::take_rows, data_file::KeyValueBatch, error::Result};

use super::run::RowSource;

/// Rows that a merge hands on, by key.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The columns asked for, sequence numbers and kinds.
    pub(crate) rows: KeyValueBatch,
    /// Where each row came from (a row made of several: where the newest of them did). Empty unless
    /// the merge was to tell.
    pub(crate) sources: Vec<RowSource>,
}

/// All rows of some keys, not merged.
#[derive(Debug)]
pub(crate) struct KeyGroups {
    /// Rows in the order of their key, those of one key from the oldest to the newest.
    pub(crate) rows: KeyValueBatch,
    /// Where each key's rows end (exclusive), ascending.
    pub(crate) ends: Vec<usize>,
    /// Where each row came from.
    pub(crate) sources: Vec<RowSource>,
}

impl KeyGroups {
    /// Where the newest row of each of these groups came from; empty where that is not told of rows.
    pub(super) fn newest_sources(&self, groups: &[usize]) -> Vec<RowSource> {
        if self.sources.is_empty() {
            return Vec::new();
        }
        let newest = |group: &usize| {
            let end = self.ends.get(*group)?;
            self.sources.get(end.checked_sub(1)?).copied()
        };
        groups.iter().filter_map(newest).collect()
    }
}

/// Of each key the rows of level 0 and that of the lowest level above.
pub(super) fn counting(groups: KeyGroups) -> Result<KeyGroups> {
    let level = |row: &usize| groups.sources.get(*row).map_or(0, |source| source.level);
    let mut kept: Vec<u64> = Vec::with_capacity(groups.rows.rows());
    let mut ends = Vec::with_capacity(groups.ends.len());
    let mut begin = 0;
    for end in &groups.ends {
        let above = (begin..*end).filter(|row| level(row) > 0);
        let lowest = above.min_by_key(level);
        let counts = (begin..*end).filter(|row| level(row) == 0 || Some(*row) == lowest);
        kept.extend(counts.map(|row| row as u64));
        ends.push(kept.len());
        begin = *end;
    }
    if kept.len() == groups.rows.rows() {
        return Ok(groups);
    }
    let sources = kept
        .iter()
        .filter_map(|row| groups.sources.get(usize::try_from(*row).ok()?).copied())
        .collect();
    Ok(KeyGroups {
        rows: take_rows(&groups.rows, &kept.into())?,
        ends,
        sources,
    })
}
