//! Values of a column as the column's type of today, as Java's readers cast them.
//!
//! What Java parses from text, or converts in the time zone of whoever reads, is refused: such
//! values are not the same for every reader, or may fail in the middle.
//!
//! Source: `SchemaEvolutionUtil`, `org.apache.paimon.casting.CastExecutors` and its rules.

mod number;
mod text;
mod time;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ListArray, MapArray, StructArray, cast::AsArray, new_null_array,
};
use arrow_schema::DataType as ArrowType;

use crate::{
    data_type::{DataField, DataType},
    error::{Error, Result},
};

/// A type that was written and the one to read it as; the cast is possible.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    from: DataType,
    to: DataType,
}

impl Cast {
    /// Of a column written as `from`; the name is for the error.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with both types and why.
    pub(crate) fn new(column: &str, from: &DataType, to: &DataType) -> Result<Self> {
        check(from, to).map_err(|why| {
            Error::Unsupported(format!(
                "reading column '{column}', which was written as {from}, as {to}: {why}"
            ))
        })?;
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
        })
    }

    /// Type of what is cast.
    pub(crate) fn from(&self) -> &DataType {
        &self.from
    }

    /// Casts a column of the Arrow type of `from`.
    pub(crate) fn apply(&self, column: &ArrayRef) -> Result<ArrayRef> {
        cast(column, &self.from, &self.to)
    }
}

const PARSED: &str = "texts would have to be parsed, and one may be no such value";
const ZONED: &str = "the result depends on the time zone of the reader";
const NO_RULE: &str = "the format has no such cast";

/// Whether values can be cast; the reason if not.
pub(crate) fn check(from: &DataType, to: &DataType) -> Result<(), String> {
    use DataType::*;
    match (from, to) {
        (Array(from), Array(to)) => check(&from.data_type, &to.data_type),
        (Map(key, from), Map(to_key, to)) => {
            if !key.data_type.is_like(&to_key.data_type) {
                return Err("keys of maps keep their type".into());
            }
            check(&key.data_type, &to_key.data_type)?;
            check(&from.data_type, &to.data_type)
        }
        (Multiset(from), Multiset(to)) if from.data_type.is_like(&to.data_type) => Ok(()),
        (Row(from), Row(to)) => to.iter().try_for_each(|to| match of_id(from, to.id) {
            Some((_, from)) => check(&from.data_type, &to.data_type)
                .map_err(|why| format!("field '{}': {why}", to.name)),
            None if to.nullable => Ok(()),
            None => Err(format!("field '{}' is NOT NULL and not there", to.name)),
        }),
        (from, to) if from == to => Ok(()),
        (from, to) if from.is_nested() || to.is_nested() => Err(NO_RULE.into()),
        (from, to) => check_plain(from, to).map_err(str::to_owned),
    }
}

fn check_plain(from: &DataType, to: &DataType) -> Result<(), &'static str> {
    use DataType::*;
    let number = |data_type: &DataType| {
        is_integer(data_type) || matches!(data_type, Float | Double | Decimal(..))
    };
    match (from, to) {
        (from, to) if number(from) && number(to) => Ok(()),
        (Boolean, to) if number(to) => Ok(()),
        (from, Boolean) if is_integer(from) => Ok(()),
        (from, to) if (number(from) || *from == Boolean || is_text(from)) && is_text(to) => Ok(()),
        (from, to) if is_binary(from) && (is_binary(to) || is_text(to)) => Ok(()),
        (from, to) if is_text(from) && is_binary(to) => Ok(()),
        (from, _) if is_text(from) => Err(PARSED),
        (TimestampLtz(_), TimestampLtz(_)) | (TimestampLtz(_), Int | BigInt) => Ok(()),
        (Date | Time(_) | Timestamp(_) | Int | BigInt, TimestampLtz(_)) | (TimestampLtz(_), _) => {
            Err(ZONED)
        }
        (Date | Time(_) | Timestamp(_) | Int | BigInt, Timestamp(_)) => Ok(()),
        (Timestamp(_), Date | Time(_) | Int | BigInt) => Ok(()),
        (Date | Time(_) | Timestamp(_), String) => Ok(()),
        _ => Err(NO_RULE),
    }
}

pub(crate) fn is_integer(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, TinyInt | SmallInt | Int | BigInt)
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Char(_) | VarChar(_) | String)
}

pub(crate) fn is_binary(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Binary(_) | VarBinary(_) | Bytes)
}

fn of_id(fields: &[DataField], id: i32) -> Option<(usize, &DataField)> {
    let mut fields = fields.iter().enumerate();
    fields.find(|(_, field)| field.id == id)
}

/// `column` is of the Arrow type of `from`.
fn cast(column: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef> {
    match (from, to) {
        (DataType::Array(from), DataType::Array(to)) => {
            let list = column.as_list::<i32>();
            let values = cast(list.values(), &from.data_type, &to.data_type)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let item = Arc::new(to.arrow("element"));
            Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?))
        }
        (DataType::Map(..) | DataType::Multiset(_), DataType::Map(..) | DataType::Multiset(_)) => {
            map(column.as_map(), from, to)
        }
        (DataType::Row(from), DataType::Row(to)) => row(column.as_struct(), from, to),
        (from, to) if from == to => Ok(column.clone()),
        (_, to) if is_text(to) => text::to_text(column, from, to),
        (_, to) if is_binary(to) => Ok(text::to_binary(column, to)),
        (_, DataType::Timestamp(_) | DataType::TimestampLtz(_)) => {
            time::to_timestamp(column, from, to)
        }
        (DataType::Timestamp(_) | DataType::TimestampLtz(_), _) => {
            time::from_timestamp(column, from, to)
        }
        _ => number::to_number(column, from, to),
    }
}

fn map(map: &MapArray, from: &DataType, to: &DataType) -> Result<ArrayRef> {
    let arrow = to.arrow();
    let (ArrowType::Map(entries, sorted), [keys, values]) = (&arrow, map.entries().columns())
    else {
        return Err(Error::Internal(format!("a map as {to}")));
    };
    let ArrowType::Struct(parts) = entries.data_type() else {
        return Err(Error::Internal(format!("a map as {to}")));
    };
    let columns = match (from, to) {
        (DataType::Map(key, value), DataType::Map(to_key, to_value)) => vec![
            cast(keys, &key.data_type, &to_key.data_type)?,
            cast(values, &value.data_type, &to_value.data_type)?,
        ],
        _ => vec![keys.clone(), values.clone()],
    };
    let rows = StructArray::try_new(parts.clone(), columns, None)?;
    let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
    let map = MapArray::try_new(entries.clone(), offsets, rows, nulls, *sorted)?;
    Ok(Arc::new(map))
}

fn row(rows: &StructArray, from: &[DataField], to: &[DataField]) -> Result<ArrayRef> {
    let columns = to.iter().map(|to| {
        let found = of_id(from, to.id);
        let found = found.and_then(|(at, from)| Some((rows.columns().get(at)?, from)));
        match found {
            Some((column, from)) => cast(column, &from.data_type, &to.data_type),
            None => Ok(new_null_array(&to.data_type.arrow(), rows.len())),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = to.iter().map(DataField::arrow).collect();
    let rows =
        StructArray::try_new_with_length(fields, columns, rows.nulls().cloned(), rows.len())?;
    Ok(Arc::new(rows))
}

#[cfg(test)]
mod tests;
