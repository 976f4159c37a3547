//! Compactions of level 0 that look at the older rows of a key: for the changelog, and for merge
//! engines whose readers do not merge levels.
//!
//! The files above the output that have keys of the compacted ones are merged along, as the oldest
//! runs; their rows are looked at and not written. So a lookup costs reading these files once, in
//! the order of the key, and no memory. Where there are many more rows above than are compacted,
//! only the keys of all are read, and the pages of the rows that have the same ones.
//!
//! Of the rows above level 0 only the one at the lowest level counts: it has the older ones merged
//! into it already.
//!
//! With deletion vectors readers do not merge either: the rows above that were looked at are deleted
//! by the vectors of their files.
//!
//! Source: `LookupMergeFunction`, `LookupChangelogMergeFunctionWrapper`,
//! `FirstRowMergeFunctionWrapper`, `LookupMergeTreeCompactRewriter`.

use std::ops::Range;

use arrow_array::{UInt64Array, cast::AsArray};
use arrow_select::take::take;

use crate::{
    data_file::KeyValueBatch,
    error::Result,
    merge::{Groups, MergeFunction},
    read::KeyGroups,
    schema::Schema,
    table_options::{ChangelogProducer, MergeEngine},
};

use super::{
    changelog::{ChangeRows, Changes, RowComparison},
    options::CompactOptions,
    rewrite::retracts,
};

/// Merges rows of level 0 with what is above.
#[derive(Debug)]
pub(crate) struct LookupMerge {
    first_row: bool,
    /// Changelog producer `lookup`.
    pub(crate) makes_changelog: bool,
    /// The newest row of a key is all that counts, so that a file may move up as it is.
    pub(crate) newest_is_all: bool,
    /// Rows above the output are deleted by deletion vectors.
    pub(crate) deletes_above: bool,
    comparison: Option<RowComparison>,
}

/// What is merged of a key.
#[derive(Debug, Default)]
struct Picked {
    /// Its row above level 0.
    before: Option<usize>,
    /// Whether the changelog tells of it.
    is_change: bool,
}

impl LookupMerge {
    /// `None` for tables that look nothing up.
    pub(crate) fn new(schema: &Schema, options: &CompactOptions) -> Result<Option<Self>> {
        let table = &options.table;
        if !table.looks_up() {
            return Ok(None);
        }
        Ok(Some(Self {
            first_row: table.merge.engine == MergeEngine::FirstRow,
            makes_changelog: table.changelog.producer == ChangelogProducer::Lookup,
            newest_is_all: table.merge.engine == MergeEngine::Deduplicate
                && table.merge.sequence_fields.is_empty(),
            deletes_above: table.deletion_vectors.enabled,
            comparison: RowComparison::new(schema, options)?,
        }))
    }

    /// Merges the rows of some keys up to the output level with what is above, and says what
    /// changed.
    pub(crate) fn changes(
        &self,
        groups: &KeyGroups,
        function: &dyn MergeFunction,
        output_level: i32,
    ) -> Result<ChangeRows> {
        let all = Groups {
            rows: &groups.rows,
            ends: &groups.ends,
        };
        let mut rows: Vec<u64> = Vec::with_capacity(groups.rows.rows());
        let mut ends = Vec::with_capacity(groups.ends.len());
        let mut picked = Vec::with_capacity(groups.ends.len());
        let mut superseded = Vec::new();
        for range in all.ranges() {
            let key = match self.first_row {
                true => self.pick_first(groups, range.clone(), output_level, &mut rows),
                false => self.pick(groups, range.clone(), output_level, &mut rows),
            };
            if let Some(key) = key {
                if self.deletes_above {
                    let sources = groups.sources.get(range).unwrap_or_default().iter();
                    superseded.extend(sources.filter(|row| row.level > output_level));
                }
                picked.push(key);
                ends.push(rows.len());
            }
        }
        let candidates = take_rows(&groups.rows, &rows.into())?;
        let (merged, of_groups) = function.merge(&Groups {
            rows: &candidates,
            ends: &ends,
        })?;
        let mut after = vec![None; picked.len()];
        for (row, group) in of_groups.iter().enumerate() {
            if let Some(after) = after.get_mut(*group) {
                *after = adds(&merged, row).then_some(row);
            }
        }
        let keys: Vec<(Option<usize>, Option<usize>)> = picked
            .iter()
            .zip(after)
            .filter(|(key, _)| self.makes_changelog && key.is_change)
            .map(|(key, after)| (key.before.filter(|row| adds(&groups.rows, *row)), after))
            .collect();
        let comparison = self.comparison.as_ref();
        Ok(ChangeRows {
            changes: Changes::of(comparison, &groups.rows, &merged, keys)?,
            superseded,
            rows: merged,
        })
    }

    /// Rows of level 0, and that of the lowest level above.
    fn pick(
        &self,
        groups: &KeyGroups,
        range: Range<usize>,
        output_level: i32,
        rows: &mut Vec<u64>,
    ) -> Option<Picked> {
        let level = |row: &usize| groups.sources.get(*row).map_or(0, |source| source.level);
        if !range.clone().any(|row| level(&row) <= output_level) {
            return None;
        }
        let above = range.clone().filter(|row| level(row) > 0);
        let before = above.min_by_key(level);
        let is_change = range.clone().any(|row| level(&row) == 0);
        let counts = range.filter(|row| level(row) == 0 || Some(*row) == before);
        rows.extend(counts.map(|row| row as u64));
        Some(Picked { before, is_change })
    }

    /// Rows that are compacted, unless there is one above already.
    fn pick_first(
        &self,
        groups: &KeyGroups,
        range: Range<usize>,
        output_level: i32,
        rows: &mut Vec<u64>,
    ) -> Option<Picked> {
        let level = |row: &usize| groups.sources.get(*row).map_or(0, |source| source.level);
        let own = |row: &usize| level(row) <= output_level;
        let is_known = range.clone().any(|row| level(&row) > 0 && own(&row));
        let is_above = range.clone().any(|row| !own(&row));
        if !is_known && is_above || !range.clone().any(|row| own(&row)) {
            return None;
        }
        rows.extend(range.filter(own).map(|row| row as u64));
        Some(Picked {
            before: None,
            is_change: !is_known,
        })
    }
}

fn adds(rows: &KeyValueBatch, row: usize) -> bool {
    let kind = rows.kinds.values().get(row);
    kind.is_some_and(|kind| !retracts(*kind))
}

/// Rows by their places.
pub(crate) fn take_rows(batch: &KeyValueBatch, places: &UInt64Array) -> Result<KeyValueBatch> {
    let columns = batch
        .columns
        .iter()
        .map(|column| take(column, places, None));
    Ok(KeyValueBatch {
        columns: columns.collect::<Result<_, _>>()?,
        sequences: take(&batch.sequences, places, None)?.as_primitive().clone(),
        kinds: take(&batch.kinds, places, None)?.as_primitive().clone(),
    })
}
