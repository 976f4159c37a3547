//! Dates, times of day and timestamps.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int64Array, PrimitiveArray,
    cast::AsArray,
    types::{Date32Type, Int32Type, Int64Type, Time32MillisecondType},
};
use arrow_schema::DataType as ArrowType;

use super::number;
use crate::{
    data_type::DataType,
    error::{Error, Result},
};

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// How many ticks of a timestamp of so many digits make a millisecond.
pub(super) fn per_milli(digits: u8) -> i64 {
    match digits {
        0..=3 => 1,
        4..=6 => 1_000,
        _ => NANOS_PER_MILLI,
    }
}

/// The plain numbers of a timestamp column.
pub(super) fn ticks(column: &ArrayRef) -> Result<Int64Array> {
    let data = column.to_data().into_builder();
    let data = data.data_type(ArrowType::Int64).build()?;
    Ok(PrimitiveArray::from(data))
}

fn digits(data_type: &DataType) -> Result<u8> {
    match data_type {
        DataType::Timestamp(digits) | DataType::TimestampLtz(digits) => Ok(*digits),
        other => Err(Error::Internal(format!("{other} is no timestamp"))),
    }
}

pub(super) fn to_timestamp(column: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef> {
    let wanted = digits(to)?;
    let per_milli = per_milli(wanted);
    let too_far = |value: i64| Error::Unsupported(format!("reading {value} of {from} as {to}"));
    let of_millis = |value: i64, millis: Option<i64>| {
        millis
            .and_then(|millis| millis.checked_mul(per_milli))
            .ok_or_else(|| too_far(value))
    };
    let moved: Int64Array = match from {
        DataType::Date => column.as_primitive::<Date32Type>().try_unary(|days| {
            let days = i64::from(days);
            of_millis(days, days.checked_mul(MILLIS_PER_DAY))
        })?,
        DataType::Time(_) => column
            .as_primitive::<Time32MillisecondType>()
            .try_unary(|millis| of_millis(i64::from(millis), Some(i64::from(millis))))?,
        DataType::Int | DataType::BigInt => number::integers(column, from)?
            .try_unary(|seconds| of_millis(seconds, seconds.checked_mul(1000)))?,
        from => {
            let had = digits(from)?;
            ticks(column)?
                .try_unary(|tick| change_digits(tick, had, wanted).ok_or_else(|| too_far(tick)))?
        }
    };
    let data = moved.into_data().into_builder();
    let data = data.data_type(to.arrow()).build()?;
    Ok(arrow_array::make_array(data))
}

/// A timestamp with other digits. Java cuts the milliseconds towards 1970, what is below them
/// towards the past.
fn change_digits(tick: i64, from: u8, to: u8) -> Option<i64> {
    let (had, wants) = (per_milli(from), per_milli(to));
    if from <= to {
        return tick.checked_mul(wants / had);
    }
    let (millis, part) = (tick.div_euclid(had), tick.rem_euclid(had));
    let nanos = part * (NANOS_PER_MILLI / had);
    let cut = |value: i64, digits: u8| {
        let unit = 10_i64.pow(u32::from(digits));
        value / unit * unit
    };
    match to {
        0..=3 => Some(cut(millis, 3 - to)),
        _ => {
            let nanos = cut(nanos, 9 - to);
            millis
                .checked_mul(wants)?
                .checked_add(nanos / (NANOS_PER_MILLI / wants))
        }
    }
}

pub(super) fn from_timestamp(
    column: &ArrayRef,
    from: &DataType,
    to: &DataType,
) -> Result<ArrayRef> {
    let unit = per_milli(digits(from)?);
    let ticks = ticks(column)?;
    let millis = |tick: i64| tick.div_euclid(unit);
    Ok(match to {
        DataType::Date => Arc::new(
            ticks.unary::<_, Date32Type>(|tick| millis(tick).div_euclid(MILLIS_PER_DAY) as i32),
        ),
        DataType::Time(_) => Arc::new(ticks.unary::<_, Time32MillisecondType>(|tick| {
            millis(tick).rem_euclid(MILLIS_PER_DAY) as i32
        })),
        DataType::Int => Arc::new(ticks.unary::<_, Int32Type>(|tick| (millis(tick) / 1000) as i32)),
        DataType::BigInt => Arc::new(ticks.unary::<_, Int64Type>(|tick| millis(tick) / 1000)),
        to => return Err(Error::Internal(format!("no cast of {from} to {to}"))),
    })
}
