//! Binds the columns of a file to those wanted, by field id: what stands in the file becomes the
//! Arrow type of the column when it was written, and is then cast to the column's type of today.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, ListArray, MapArray, PrimitiveArray, RecordBatch,
    StructArray, cast::AsArray, new_null_array, types::*,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType as ArrowType, FieldRef, Fields, SchemaRef, TimeUnit};

use super::cast::Cast;
use crate::error::{Error, Result};

/// Where a wanted column comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A column of the file, with its type when it was written and today's; none for system
    /// columns.
    File(String, Option<Cast>),
    /// The file is older than the column.
    Missing,
}

/// Makes a batch of the wanted columns from one of the file's.
pub(super) fn bind(
    schema: &SchemaRef,
    origins: &[Origin],
    batch: &RecordBatch,
) -> Result<RecordBatch> {
    let columns = schema
        .fields()
        .iter()
        .zip(origins)
        .map(|(field, origin)| match origin {
            Origin::Missing => Ok(new_null_array(field.data_type(), batch.num_rows())),
            Origin::File(name, cast) => {
                let column = batch.column_by_name(name).ok_or_else(|| {
                    Error::Internal(format!("column '{name}' was asked for and not read"))
                })?;
                match cast {
                    Some(cast) => cast.apply(&as_written(column, &cast.from().arrow())?),
                    None => as_written(column, field.data_type()),
                }
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        columns,
        &options,
    )?)
}

/// The same values in a type that holds them all: writers other than Java's choose other ones.
fn as_written(column: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    use ArrowType::*;
    let from = column.data_type();
    if from == to {
        return Ok(column.clone());
    }
    Ok(match (from, to) {
        // Avro has no smaller integers than INT.
        (Int32, Int8) => narrow::<Int8Type>(column)?,
        (Int32, Int16) => narrow::<Int16Type>(column)?,
        (Int8, Int16) => map::<Int8Type, Int16Type>(column, i16::from),
        (Int8, Int32) => map::<Int8Type, Int32Type>(column, i32::from),
        (Int8, Int64) => map::<Int8Type, Int64Type>(column, i64::from),
        (Int16, Int32) => map::<Int16Type, Int32Type>(column, i32::from),
        (Int16, Int64) => map::<Int16Type, Int64Type>(column, i64::from),
        (Int32, Int64) => map::<Int32Type, Int64Type>(column, i64::from),
        (Float32, Float64) => map::<Float32Type, Float64Type>(column, f64::from),
        (Decimal128(_, from_scale), Decimal128(precision, scale)) if from_scale == scale => {
            let decimals = column.as_primitive::<Decimal128Type>().clone();
            Arc::new(decimals.with_precision_and_scale(*precision, *scale)?)
        }
        (Timestamp(from_unit, _), Timestamp(to_unit, zone)) => {
            timestamps(column, *from_unit, *to_unit, zone.clone())?
        }
        (List(_), List(item)) => list(column.as_list::<i32>(), item)?,
        (Map(..), Map(entries, sorted)) => {
            let map = column.as_map();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            entries_of(map.entries(), offsets, nulls, entries, *sorted)?
        }
        // Avro's maps have texts for keys: others are lists of pairs.
        (List(item), Map(entries, sorted)) if is_pair(item) => {
            let list = column.as_list::<i32>();
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            entries_of(list.values().as_struct(), offsets, nulls, entries, *sorted)?
        }
        (Struct(_), Struct(fields)) => rows(column.as_struct(), fields)?,
        _ => {
            return Err(Error::Unsupported(format!(
                "reading a column written as {from} as {to}"
            )));
        }
    })
}

fn map<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    column: &ArrayRef,
    convert: impl Fn(A::Native) -> B::Native,
) -> ArrayRef {
    Arc::new(column.as_primitive::<A>().unary::<_, B>(convert))
}

fn narrow<B: ArrowPrimitiveType<Native: TryFrom<i32>>>(column: &ArrayRef) -> Result<ArrayRef> {
    let narrow = column.as_primitive::<Int32Type>().try_unary(|value| {
        B::Native::try_from(value).map_err(|_| {
            Error::Unsupported(format!("number {value} in a column of {}", B::DATA_TYPE))
        })
    });
    let narrow: PrimitiveArray<B> = narrow?;
    Ok(Arc::new(narrow))
}

fn list(list: &ListArray, item: &FieldRef) -> Result<ArrayRef> {
    let values = as_written(list.values(), item.data_type())?;
    Ok(Arc::new(ListArray::try_new(
        item.clone(),
        list.offsets().clone(),
        values,
        list.nulls().cloned(),
    )?))
}

/// Whether a list's items are a key and a value each.
fn is_pair(item: &FieldRef) -> bool {
    matches!(item.data_type(), ArrowType::Struct(parts) if parts.len() == 2)
}

/// Keys and values go by their order.
fn entries_of(
    pairs: &StructArray,
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    entries: &FieldRef,
    sorted: bool,
) -> Result<ArrayRef> {
    let ArrowType::Struct(parts) = entries.data_type() else {
        return Err(Error::Internal("a map without entries".into()));
    };
    if pairs.null_count() > 0 {
        return Err(Error::Unsupported(
            "a map with entries that are NULL".into(),
        ));
    }
    let columns = pairs.columns().iter().zip(parts);
    let columns = columns
        .map(|(column, part)| as_written(column, part.data_type()))
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(MapArray::try_new(
        entries.clone(),
        offsets,
        StructArray::try_new(parts.clone(), columns, None)?,
        nulls,
        sorted,
    )?))
}

/// Fields go by their names when the file was written; a file may lack those that are all NULL.
fn rows(rows: &StructArray, fields: &Fields) -> Result<ArrayRef> {
    let columns = fields
        .iter()
        .map(|field| match rows.column_by_name(field.name()) {
            Some(column) => as_written(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), rows.len())),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.clone(),
        columns,
        rows.nulls().cloned(),
        rows.len(),
    )?))
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Timestamps in another unit; digits that the new unit lacks must be zero.
fn timestamps(
    column: &ArrayRef,
    from: TimeUnit,
    to: TimeUnit,
    zone: Option<Arc<str>>,
) -> Result<ArrayRef> {
    let data = column.to_data();
    let ticks =
        PrimitiveArray::<Int64Type>::from(data.into_builder().data_type(ArrowType::Int64).build()?);
    let (have, want) = (per_second(from), per_second(to));
    let moved: PrimitiveArray<Int64Type> = ticks.try_unary(|tick| {
        let moved = if want >= have {
            tick.checked_mul(want / have)
        } else {
            (tick % (have / want) == 0).then_some(tick / (have / want))
        };
        moved.ok_or_else(|| {
            Error::Unsupported(format!("timestamp {tick} of unit {from:?} as {to:?}"))
        })
    })?;
    let data = moved
        .into_data()
        .into_builder()
        .data_type(ArrowType::Timestamp(to, zone))
        .build()?;
    Ok(arrow_array::make_array(data))
}
