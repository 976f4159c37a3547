//! What a merge reads of its files.

use arrow_row::{RowConverter, SortField};
use arrow_schema::SortOptions;

use crate::{
    data_type::DataField,
    error::{Error, Result},
    key_order::KeyOrder,
    schema::Schema,
};

use super::file::{KIND, POSITION, SEQUENCE, Wanted};

/// What is read of the files of a merge, and how their rows are compared.
pub(super) struct Layout {
    pub(super) wanted: Wanted,
    /// Columns that are handed on; behind them those of the key, then those of `sequence.field`.
    pub(super) values: usize,
    pub(super) keys: usize,
    pub(super) key_order: KeyOrder,
    /// For tables with `sequence.field`.
    pub(super) sequence_converter: Option<RowConverter>,
    /// Where the key's columns and those of `sequence.field` stand among those that are handed on,
    /// if they all do.
    pub(super) among: Option<Vec<usize>>,
    pub(super) batch_rows: usize,
    pub(super) with_positions: bool,
}

impl Layout {
    pub(super) fn new(
        schema: &Schema,
        columns: &[DataField],
        keys: &[DataField],
        batch_rows: usize,
        with_positions: bool,
    ) -> Result<Self> {
        let sequence = sequence_fields(schema)?;
        // Key columns once more: they may not be among those handed on.
        let all = columns.iter().chain(keys).chain(&sequence.fields);
        let sequence_converter = match sequence.fields.as_slice() {
            [] => None,
            fields => {
                let fields = fields.iter().map(|field| {
                    SortField::new_with_options(field.data_type.arrow(), sequence.options)
                });
                Some(RowConverter::new(fields.collect())?)
            }
        };
        let system: &'static [&'static str] = match with_positions {
            true => &[SEQUENCE, KIND, POSITION],
            false => &[SEQUENCE, KIND],
        };
        let behind = keys.iter().chain(&sequence.fields);
        let place = |field: &DataField| columns.iter().position(|column| column.id == field.id);
        Ok(Self {
            among: behind.map(place).collect(),
            wanted: Wanted::new(all.cloned().collect(), system),
            with_positions,
            values: columns.len(),
            keys: keys.len(),
            key_order: KeyOrder::new(keys)?,
            sequence_converter,
            batch_rows,
        })
    }
}

/// The columns of option `sequence.field` and their order.
struct SequenceFields {
    fields: Vec<DataField>,
    options: SortOptions,
}

/// Source: `CoreOptions.sequenceField`, `UserDefinedSeqComparator`: NULL is older than every value,
/// whatever the order.
fn sequence_fields(schema: &Schema) -> Result<SequenceFields> {
    let option = |name: &str| schema.options.get(name).map(|text| text.trim());
    let names = option("sequence.field").unwrap_or_default();
    let fields = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let found = schema.field(name).map(|(_, field)| field.clone());
            found.ok_or_else(|| {
                Error::Unsupported(format!(
                    "option sequence.field = {names}: there is no column '{name}'"
                ))
            })
        })
        .collect::<Result<_>>()?;
    let descending = option("sequence.field.sort-order")
        .is_some_and(|order| order.eq_ignore_ascii_case("descending"));
    Ok(SequenceFields {
        fields,
        options: SortOptions {
            descending,
            nulls_first: true,
        },
    })
}
