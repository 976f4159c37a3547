//! The changelog of a full compaction: what each key was at the top level against what it is now.
//!
//! Source: `FullChangelogMergeFunctionWrapper`, `FullChangelogMergeTreeCompactRewriter`.

use arrow_array::{ArrayRef, Int8Array, Int64Array, UInt32Array};
use arrow_row::{RowConverter, SortField};
use arrow_select::{interleave::interleave, take::take};

use crate::{
    data_file::KeyValueBatch,
    error::{Error, Result},
    merge::{Groups, MergeFunction},
    read::{KeyGroups, RowSource},
    schema::Schema,
    table_options::ChangelogProducer,
};

use super::{options::CompactOptions, rewrite::retracts};

const INSERT: i8 = 0;
const UPDATE_BEFORE: i8 = 1;
const UPDATE_AFTER: i8 = 2;
const DELETE: i8 = 3;

/// What becomes of some keys.
#[derive(Debug)]
pub(crate) struct ChangeRows {
    /// Merged rows, deletes among them.
    pub(crate) rows: KeyValueBatch,
    /// Changes, by key.
    pub(crate) changes: KeyValueBatch,
    /// Where rows above the output stand in whose place these are, for deletion vectors.
    pub(crate) superseded: Vec<RowSource>,
}

/// Compares rows of a table, where updates that change nothing are left out.
#[derive(Debug)]
pub(crate) struct RowComparison {
    /// Positions of the columns that count.
    columns: Vec<usize>,
    converter: RowConverter,
}

impl RowComparison {
    /// `None` when every update counts.
    pub(crate) fn new(schema: &Schema, options: &CompactOptions) -> Result<Option<Self>> {
        let changelog = &options.table.changelog;
        if !changelog.row_deduplicate {
            return Ok(None);
        }
        let counts = |name: &String| !changelog.row_deduplicate_ignore_fields.contains(name);
        let (columns, fields): (Vec<_>, Vec<_>) = schema
            .fields
            .iter()
            .enumerate()
            .filter(|(_, field)| counts(&field.name))
            .map(|(at, field)| (at, SortField::new(field.data_type.arrow())))
            .unzip();
        Ok(Some(Self {
            columns,
            converter: RowConverter::new(fields)?,
        }))
    }

    /// For each pair of rows, one of each batch, whether they are equal.
    fn equal(
        &self,
        a: &KeyValueBatch,
        b: &KeyValueBatch,
        pairs: &[(usize, usize)],
    ) -> Result<Vec<bool>> {
        if pairs.is_empty() || self.columns.is_empty() {
            return Ok(vec![true; pairs.len()]);
        }
        let rows = |batch: &KeyValueBatch, at: &mut dyn Iterator<Item = usize>| {
            let at = UInt32Array::from_iter_values(at.filter_map(|at| u32::try_from(at).ok()));
            let columns = self
                .columns
                .iter()
                .filter_map(|column| batch.columns.get(*column))
                .map(|column| take(column, &at, None))
                .collect::<Result<Vec<ArrayRef>, _>>()?;
            Ok::<_, Error>(self.converter.convert_columns(&columns)?)
        };
        let a = rows(a, &mut pairs.iter().map(|(a, _)| *a))?;
        let b = rows(b, &mut pairs.iter().map(|(_, b)| *b))?;
        Ok(a.iter().zip(b.iter()).map(|(a, b)| a == b).collect())
    }
}

/// Rows of changes, gathered from two batches.
#[derive(Debug, Default)]
pub(super) struct Changes {
    picked: Vec<(usize, usize)>,
    kinds: Vec<i8>,
}

impl Changes {
    /// What happened to keys: the row of each in `old` before and in `new` after, `None` where there
    /// is none. Updates that the comparison finds equal are left out. The rows have the sequence
    /// numbers that they have in the batches.
    pub(super) fn of(
        comparison: Option<&RowComparison>,
        old: &KeyValueBatch,
        new: &KeyValueBatch,
        keys: Vec<(Option<usize>, Option<usize>)>,
    ) -> Result<KeyValueBatch> {
        let updates = keys.iter().filter_map(|(before, after)| before.zip(*after));
        let mut equal = match comparison {
            Some(comparison) => comparison.equal(old, new, &updates.collect::<Vec<_>>())?,
            None => Vec::new(),
        }
        .into_iter();
        let mut changes = Self::default();
        for (before, after) in keys {
            let is_update = before.is_some() && after.is_some();
            let is_equal = is_update && equal.next().unwrap_or(false);
            changes.push(before, after, is_equal);
        }
        changes.gather(old, new)
    }

    /// A row of the batch with what was before.
    fn before(&mut self, kind: i8, row: usize) {
        self.picked.push((0, row));
        self.kinds.push(kind);
    }

    /// A row of the batch with what is now.
    fn after(&mut self, kind: i8, row: usize) {
        self.picked.push((1, row));
        self.kinds.push(kind);
    }

    /// What happened to a key: its row before and after, `None` where there is none.
    /// `is_equal` says that an update changes nothing that counts.
    fn push(&mut self, before: Option<usize>, after: Option<usize>, is_equal: bool) {
        match (before, after) {
            (None, None) => {}
            (None, Some(after)) => self.after(INSERT, after),
            (Some(before), None) => self.before(DELETE, before),
            (Some(_), Some(_)) if is_equal => {}
            (Some(before), Some(after)) => {
                self.before(UPDATE_BEFORE, before);
                self.after(UPDATE_AFTER, after);
            }
        }
    }

    fn gather(self, before: &KeyValueBatch, after: &KeyValueBatch) -> Result<KeyValueBatch> {
        let columns = before
            .columns
            .iter()
            .zip(&after.columns)
            .map(|(before, after)| interleave(&[before, after], &self.picked))
            .collect::<Result<_, _>>()?;
        let sequence = |(batch, row): &(usize, usize)| {
            let of = if *batch == 0 { before } else { after };
            of.sequences.values().get(*row).copied()
        };
        Ok(KeyValueBatch {
            columns,
            sequences: Int64Array::from_iter_values(self.picked.iter().filter_map(sequence)),
            kinds: Int8Array::from(self.kinds),
        })
    }
}

/// Makes the changelog of full compactions.
#[derive(Debug)]
pub(crate) struct FullChangelog {
    comparison: Option<RowComparison>,
}

impl FullChangelog {
    /// `None` for tables whose changelog is made otherwise, or not at all.
    pub(crate) fn new(schema: &Schema, options: &CompactOptions) -> Result<Option<Self>> {
        if options.table.changelog.producer != ChangelogProducer::FullCompaction {
            return Ok(None);
        }
        let comparison = RowComparison::new(schema, options)?;
        Ok(Some(Self { comparison }))
    }

    /// Merges the rows of some keys, those at the top level among them, and says what changed.
    pub(crate) fn changes(
        &self,
        groups: &KeyGroups,
        function: &dyn MergeFunction,
        top_level: i32,
    ) -> Result<ChangeRows> {
        let of = Groups {
            rows: &groups.rows,
            ends: &groups.ends,
        };
        let (rows, of_groups) = function.merge(&of)?;
        let mut merged = vec![None; groups.ends.len()];
        for (row, group) in of_groups.iter().enumerate() {
            let adds = rows
                .kinds
                .values()
                .get(row)
                .is_some_and(|kind| !retracts(*kind));
            if let Some(merged) = merged.get_mut(*group) {
                *merged = adds.then_some(row);
            }
        }
        let is_top = |row: &usize| {
            let source = groups.sources.get(*row);
            source.is_some_and(|source| source.level == top_level)
        };
        // A key of which only the row at the top is there has not changed.
        let mut keys: Vec<(Option<usize>, Option<usize>)> = Vec::new();
        for (range, after) in of.ranges().zip(merged) {
            let is_alone = range.len() == 1;
            let before = range.clone().find(is_top);
            if !(is_alone && before.is_some()) {
                keys.push((before, after));
            }
        }
        let comparison = self.comparison.as_ref();
        Ok(ChangeRows {
            changes: Changes::of(comparison, &groups.rows, &rows, keys)?,
            superseded: Vec::new(),
            rows,
        })
    }
}
