//! Engines that take one row of a key as it is: `deduplicate` and `first-row`.
//!
//! Source: `DeduplicateMergeFunction`, `FirstRowMergeFunction`.

use arrow_array::UInt64Array;
use arrow_array::cast::AsArray;
use arrow_select::take::take;

use super::{Groups, MergeFunction};
use crate::{
    data_file::{KeyValueBatch, kind},
    error::{Error, Result},
};

/// Whether a kind takes back what stood before: −U and −D.
pub(super) fn is_retract(kind: i8) -> bool {
    matches!(kind, kind::UPDATE_BEFORE | kind::DELETE)
}

/// The newest row.
#[derive(Debug)]
pub(super) struct Deduplicate {
    /// Deletes do not count, unless a key has one row only.
    pub(super) ignore_delete: bool,
}

impl MergeFunction for Deduplicate {
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)> {
        pick(groups, |kinds| {
            let counts = |kind: &i8| !(self.ignore_delete && is_retract(*kind));
            Ok(kinds.iter().rposition(counts))
        })
    }

    fn takes_the_last(&self) -> bool {
        !self.ignore_delete
    }
}

/// The oldest row.
#[derive(Debug)]
pub(super) struct FirstRow {
    /// Deletes do not count, unless a key has one row only; otherwise they are errors.
    pub(super) ignore_delete: bool,
}

impl MergeFunction for FirstRow {
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)> {
        pick(groups, |kinds| {
            if !self.ignore_delete && kinds.iter().any(|kind| is_retract(*kind)) {
                return Err(Error::Unsupported(
                    "deletes in a table with merge-engine first-row: set its option ignore-delete \
                     to true, or do not send them"
                        .into(),
                ));
            }
            Ok(kinds.iter().position(|kind| !is_retract(*kind)))
        })
    }
}

/// One row of each group: the one at the place in it that `choose` finds by the kinds.
fn pick(
    groups: &Groups<'_>,
    choose: impl Fn(&[i8]) -> Result<Option<usize>>,
) -> Result<(KeyValueBatch, Vec<usize>)> {
    if groups.are_single() {
        return Ok((groups.rows.clone(), (0..groups.ends.len()).collect()));
    }
    let kinds = groups.rows.kinds.values();
    let mut picked: Vec<u64> = Vec::with_capacity(groups.ends.len());
    let mut numbers = Vec::with_capacity(groups.ends.len());
    for (number, range) in groups.ranges().enumerate() {
        let found = match range.len() {
            0 => None,
            1 => Some(0),
            _ => choose(kinds.get(range.clone()).unwrap_or_default())?,
        };
        if let Some(at) = found {
            picked.push((range.start + at) as u64);
            numbers.push(number);
        }
    }
    Ok((take_rows(groups.rows, &picked.into())?, numbers))
}

/// Rows of a batch by their places.
pub(super) fn take_rows(batch: &KeyValueBatch, places: &UInt64Array) -> Result<KeyValueBatch> {
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
