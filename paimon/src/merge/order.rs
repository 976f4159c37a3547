//! Which row of a key is the newer one: `sequence.field`, before the sequence number.
//!
//! Source: `org.apache.paimon.utils.UserDefinedSeqComparator`.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;

use super::options::Options;
use crate::{
    error::{Error, Result},
    schema::Schema,
};

/// The order that the columns of option `sequence.field` give to the rows of a key. Rows that are
/// equal in it are ordered by sequence number, ascending.
#[derive(Debug)]
pub(crate) struct SequenceOrder {
    columns: Vec<usize>,
    /// `None` where the table has no such columns.
    converter: Option<RowConverter>,
}

impl SequenceOrder {
    /// Of a table.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the option names what is no column.
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        let options = Options::of(schema);
        let columns = options
            .sequence_fields()
            .into_iter()
            .map(|name| options.position("sequence.field", name))
            .collect::<Result<Vec<_>>>()?;
        let name = "sequence.field.sort-order";
        let descending = match options.text(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("ascending") => false,
            Some("descending") => true,
            Some(other) => {
                return Err(Error::Unsupported(format!(
                    "option {name} = {other}: set ascending or descending"
                )));
            }
        };
        Ok(Self {
            converter: converter(schema, &columns, descending)?,
            columns,
        })
    }

    /// Positions of the columns among the table's; empty when the sequence number alone decides.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Bytes of each row that compare as the rows do, from the table's columns; those of several
    /// batches compare with each other. `None`: the sequence number alone decides.
    #[cfg(test)]
    pub(crate) fn rows(&self, columns: &[ArrayRef]) -> Result<Option<Rows>> {
        let Some(converter) = &self.converter else {
            return Ok(None);
        };
        rows_of(converter, &self.columns, columns).map(Some)
    }

    /// As [`SequenceOrder::rows`], from nothing but its [`columns`](Self::columns).
    pub(crate) fn rows_of_own(&self, columns: &[ArrayRef]) -> Result<Option<Rows>> {
        let converter = self.converter.as_ref();
        let rows = converter.map(|converter| converter.convert_columns(columns));
        Ok(rows.transpose()?)
    }
}

/// Makes comparable bytes of columns; NULL is the least, also where the order descends. `None`
/// without columns.
pub(super) fn converter(
    schema: &Schema,
    columns: &[usize],
    descending: bool,
) -> Result<Option<RowConverter>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let options = SortOptions {
        descending,
        nulls_first: true,
    };
    let fields = columns
        .iter()
        .filter_map(|at| schema.fields.get(*at))
        .map(|field| SortField::new_with_options(field.data_type.arrow(), options))
        .collect();
    Ok(Some(RowConverter::new(fields)?))
}

/// The rows of some of a table's columns.
pub(super) fn rows_of(
    converter: &RowConverter,
    positions: &[usize],
    columns: &[ArrayRef],
) -> Result<Rows> {
    let columns = positions
        .iter()
        .map(|at| columns.get(*at).cloned())
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::Internal("a batch without its sequence columns".into()))?;
    Ok(converter.convert_columns(&columns)?)
}
