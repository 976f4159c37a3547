//! The engine `aggregation`: a function of each column's values.
//!
//! Source: `AggregateMergeFunction`.

use arrow_array::{Int8Array, Int64Array};

use super::{
    Groups, MergeFunction,
    aggregator::Aggregator,
    fold::Op,
    function::{LAST_NON_NULL_VALUE, LAST_VALUE, PRIMARY_KEY},
    options::Options,
    pick::is_retract,
};
use crate::{
    data_file::{KeyValueBatch, kind},
    error::Result,
    schema::Schema,
};

/// Aggregates each column on its own.
#[derive(Debug)]
pub(super) struct Aggregation {
    columns: Vec<Aggregator>,
    /// A delete takes the row away, with all that it had gathered.
    remove_on_delete: bool,
}

impl Aggregation {
    pub(super) fn new(schema: &Schema) -> Result<Self> {
        let options = Options::of(schema);
        let sequence = options.sequence_fields();
        let columns = schema.fields.iter().map(|field| {
            let name = if sequence.contains(&field.name.as_str()) {
                LAST_VALUE
            } else if schema.primary_keys.contains(&field.name) {
                PRIMARY_KEY
            } else {
                let own = options.of_column(&field.name, "aggregate-function");
                own.map(str::trim)
                    .or(options.default_function())
                    .unwrap_or(LAST_NON_NULL_VALUE)
            };
            Aggregator::new(options, field, name)
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            remove_on_delete: options.truth("aggregation.remove-record-on-delete")?,
        })
    }

    fn removes(&self, kind: i8) -> bool {
        self.remove_on_delete && kind == kind::DELETE
    }
}

impl MergeFunction for Aggregation {
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)> {
        if groups.are_single() {
            return Ok((groups.rows.clone(), (0..groups.ends.len()).collect()));
        }
        let rows = groups.rows;
        let (numbers, ranges): (Vec<_>, Vec<_>) = groups
            .ranges()
            .enumerate()
            .filter(|(_, range)| !range.is_empty())
            .unzip();
        let mut ops = vec![Op::Skip; rows.rows()];
        let mut kinds = Vec::with_capacity(ranges.len());
        let mut sequences = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let of_key = rows.kinds.values().get(range.clone()).unwrap_or_default();
            let ops = ops.get_mut(range.clone()).unwrap_or_default();
            let last = of_key.last().copied().unwrap_or(kind::INSERT);
            sequences.push(rows.sequences.value(range.end - 1));
            if let [op] = ops {
                *op = Op::Set;
                kinds.push(last);
                continue;
            }
            for (op, kind) in ops.iter_mut().zip(of_key) {
                *op = match (self.removes(*kind), is_retract(*kind)) {
                    (true, _) => Op::Set,
                    (false, true) => Op::Retract,
                    (false, false) => Op::Aggregate,
                };
            }
            kinds.push(if self.removes(last) {
                kind::DELETE
            } else {
                kind::INSERT
            });
        }
        let columns = self.columns.iter().zip(&rows.columns);
        let columns = columns.map(|(column, array)| {
            let ops: Vec<Op> = ops.iter().map(|op| column.op(*op)).collect();
            column.run(array, &ranges, &ops)
        });
        let merged = KeyValueBatch {
            columns: columns.collect::<Result<_>>()?,
            sequences: Int64Array::from(sequences),
            kinds: Int8Array::from(kinds),
        };
        Ok((merged, numbers))
    }
}
