//! What becomes of the rows of one key: the merge engines.
//!
//! Whoever merges (the sort buffer, a compaction, a reader) brings rows in order, whole groups at a
//! time; a merge function makes one row, or none, of each group, column by column. Where rows come
//! from is not decided here; [`order`] says which row of a key is the newer one.
//!
//! Source: `org.apache.paimon.mergetree.compact`: `MergeFunction` and its implementations, behind
//! `ReducerMergeFunctionWrapper`, under which a key that has one row keeps that row as it is.

use std::sync::Arc;

use crate::{
    data_file::KeyValueBatch,
    error::{Error, Result},
    schema::Schema,
};

mod aggregation;
mod aggregator;
mod bitmap;
mod bitmap64;
mod choice;
mod collection;
mod fold;
mod function;
mod key_time;
mod nested;
mod number;
mod options;
pub(crate) mod order;
mod partial_update;
mod pick;
mod text;

/// Rows of one key each, one group behind the other.
///
/// Rows stand in the order of their key; those of one key from the oldest to the newest: by
/// `sequence.field` if the table has one, then by sequence number, then by place in the manifest.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    /// The rows.
    pub(crate) rows: &'a KeyValueBatch,
    /// Where each group ends (exclusive), ascending; the last is the number of rows.
    pub(crate) ends: &'a [usize],
}

impl Groups<'_> {
    /// The rows of each group. Ends that do not ascend or pass the last row give empty groups.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let rows = self.rows.rows();
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = (*end).min(rows);
            let range = start.min(end)..end;
            start = end;
            range
        })
    }

    /// Whether each group is one row: then nothing is to be merged.
    pub(crate) fn are_single(&self) -> bool {
        self.ends.len() == self.rows.rows()
    }
}

/// Makes one row of the rows of a key.
pub(crate) trait MergeFunction: Send + Sync + std::fmt::Debug {
    /// One row a group at most, in order, deletes included: whether a delete may be dropped is the
    /// caller's to decide. Second: for each row that comes out, the number of its group. A group of
    /// one row comes out as it is, whatever its kind.
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)>;

    /// True when the last row of a group is all that counts and comes out as it is: then callers
    /// may pick it without gathering the others.
    fn takes_the_last(&self) -> bool {
        false
    }
}

/// The merge function that a table's options ask for (`merge-engine` and what belongs to it).
///
/// # Errors
/// [`Error::Unsupported`] for an engine, a function or a combination that does not exist.
pub(crate) fn function(schema: &Schema) -> Result<Arc<dyn MergeFunction>> {
    let options = options::Options::of(schema);
    let ignore_delete = options.ignore_delete()?;
    Ok(match options.engine()? {
        options::Engine::Deduplicate => Arc::new(pick::Deduplicate { ignore_delete }),
        options::Engine::FirstRow => Arc::new(pick::FirstRow { ignore_delete }),
        options::Engine::PartialUpdate => Arc::new(partial_update::PartialUpdate::new(schema)?),
        options::Engine::Aggregation => Arc::new(aggregation::Aggregation::new(schema)?),
    })
}

/// Refuses a schema whose options contradict each other or its columns, as to merging.
///
/// Source: `SchemaValidation`.
pub(crate) fn check(schema: &Schema) -> Result<()> {
    let options = options::Options::of(schema);
    let refuse = |why: &str| Err(Error::Unsupported(why.to_owned()));
    function(schema)?;
    let order = order::SequenceOrder::new(schema)?;
    let producer = options.text("changelog-producer").unwrap_or("none");
    if options.engine()? == options::Engine::FirstRow {
        if !order.columns().is_empty() {
            return refuse("option sequence.field with merge-engine first-row: set one");
        }
        if !["none", "lookup"].contains(&producer.to_ascii_lowercase().as_str()) {
            return refuse(
                "option changelog-producer with merge-engine first-row: set none or lookup",
            );
        }
    }
    for name in options.sequence_fields() {
        if let Some(function) = options.of_column(name, "aggregate-function") {
            return Err(Error::Unsupported(format!(
                "option fields.{name}.aggregate-function = {function}: {name} is a sequence.field"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
