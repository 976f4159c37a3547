//! Numbers as other numbers.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    cast::AsArray,
    types::{Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type},
};

use super::is_integer;
use crate::{
    data_type::DataType,
    error::{Error, Result},
};

/// Digits of which a `long` holds every number.
const COMPACT_DIGITS_MAX: u8 = 18;

/// Integers of any width, or 1 and 0 for true and false.
pub(super) fn integers(column: &ArrayRef, from: &DataType) -> Result<Int64Array> {
    Ok(match from {
        DataType::Boolean => {
            let values = column.as_boolean();
            (0..values.len())
                .map(|row| values.is_valid(row).then(|| i64::from(values.value(row))))
                .collect()
        }
        DataType::TinyInt => column.as_primitive::<Int8Type>().unary(i64::from),
        DataType::SmallInt => column.as_primitive::<Int16Type>().unary(i64::from),
        DataType::Int => column.as_primitive::<Int32Type>().unary(i64::from),
        DataType::BigInt => column.as_primitive::<Int64Type>().clone(),
        from => return Err(no_rule(from)),
    })
}

fn no_rule(from: &DataType) -> Error {
    Error::Internal(format!("no cast of {from}"))
}

pub(super) fn floats(column: &ArrayRef, from: &DataType) -> Result<Float64Array> {
    Ok(match from {
        DataType::Float => column.as_primitive::<Float32Type>().unary(f64::from),
        DataType::Double => column.as_primitive::<Float64Type>().clone(),
        from => return Err(no_rule(from)),
    })
}

pub(super) fn to_number(column: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef> {
    match from {
        DataType::Boolean => of_integers(&integers(column, from)?, to),
        from if is_integer(from) => of_integers(&integers(column, from)?, to),
        DataType::Float | DataType::Double => of_floats(&floats(column, from)?, to),
        DataType::Decimal(precision, scale) => {
            of_decimals(column.as_primitive(), *precision, *scale, to)
        }
        from => Err(no_rule(from)),
    }
}

/// Integers that are too large lose their upper bits, as in Java.
fn of_integers(values: &Int64Array, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Boolean => {
            let trues = values.iter().map(|value| value.map(|value| value != 0));
            Arc::new(trues.collect::<BooleanArray>())
        }
        DataType::TinyInt => Arc::new(values.unary::<_, Int8Type>(|value| value as i8)),
        DataType::SmallInt => Arc::new(values.unary::<_, Int16Type>(|value| value as i16)),
        DataType::Int => Arc::new(values.unary::<_, Int32Type>(|value| value as i32)),
        DataType::BigInt => Arc::new(values.clone()),
        DataType::Float => Arc::new(values.unary::<_, Float32Type>(|value| value as f32)),
        DataType::Double => Arc::new(values.unary::<_, Float64Type>(|value| value as f64)),
        DataType::Decimal(precision, scale) => {
            let decimals = values.unary_opt::<_, Decimal128Type>(|value| {
                rescale(i128::from(value), 0, *precision, *scale)
            });
            typed(decimals, *precision, *scale)?
        }
        to => return Err(no_rule(to)),
    })
}

/// Floats are cut, those too large are the greatest of `int` or `long`, NaN is 0, as in Java.
fn of_floats(values: &Float64Array, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::TinyInt => Arc::new(values.unary::<_, Int8Type>(|value| value as i32 as i8)),
        DataType::SmallInt => Arc::new(values.unary::<_, Int16Type>(|value| value as i32 as i16)),
        DataType::Int => Arc::new(values.unary::<_, Int32Type>(|value| value as i32)),
        DataType::BigInt => Arc::new(values.unary::<_, Int64Type>(|value| value as i64)),
        DataType::Float => Arc::new(values.unary::<_, Float32Type>(|value| value as f32)),
        DataType::Double => Arc::new(values.clone()),
        DataType::Decimal(precision, scale) => {
            let mut decimals = Decimal128Array::builder(values.len());
            let mut text = String::new();
            for value in values {
                let decimal = match value {
                    Some(value) if !value.is_finite() => {
                        return Err(Error::Unsupported(format!(
                            "reading {value} as DECIMAL({precision}, {scale})"
                        )));
                    }
                    Some(value) => of_float(value, *precision, *scale, &mut text),
                    None => None,
                };
                decimals.append_option(decimal);
            }
            typed(decimals.finish(), *precision, *scale)?
        }
        to => return Err(no_rule(to)),
    })
}

/// The shortest digits that name the float, rounded.
fn of_float(value: f64, precision: u8, scale: u8, text: &mut String) -> Option<i128> {
    use std::fmt::Write;
    text.clear();
    let _ = write!(text, "{value:e}");
    let (digits, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let after_point = digits.split_once('.').map_or(0, |(_, after)| after.len());
    let unscaled = digits
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    let signed = if value.is_sign_negative() {
        -unscaled
    } else {
        unscaled
    };
    rescale(
        signed,
        i32::try_from(after_point).ok()? - exponent,
        precision,
        scale,
    )
}

fn of_decimals(
    values: &Decimal128Array,
    from_precision: u8,
    from_scale: u8,
    to: &DataType,
) -> Result<ArrayRef> {
    let whole = |value: i128| value / power(from_scale).unwrap_or(i128::MAX);
    let double = |value: i128| double(value, from_precision, from_scale);
    Ok(match to {
        DataType::TinyInt => Arc::new(values.unary::<_, Int8Type>(|value| whole(value) as i8)),
        DataType::SmallInt => Arc::new(values.unary::<_, Int16Type>(|value| whole(value) as i16)),
        DataType::Int => Arc::new(values.unary::<_, Int32Type>(|value| whole(value) as i32)),
        DataType::BigInt => Arc::new(values.unary::<_, Int64Type>(|value| whole(value) as i64)),
        DataType::Float => Arc::new(values.unary::<_, Float32Type>(|value| double(value) as f32)),
        DataType::Double => Arc::new(values.unary::<_, Float64Type>(double)),
        DataType::Decimal(precision, scale) => {
            let decimals = values.unary_opt::<_, Decimal128Type>(|value| {
                rescale(value, i32::from(from_scale), *precision, *scale)
            });
            typed(decimals, *precision, *scale)?
        }
        to => return Err(no_rule(to)),
    })
}

fn typed(decimals: Decimal128Array, precision: u8, scale: u8) -> Result<ArrayRef> {
    let decimals = decimals.with_precision_and_scale(precision, scale as i8)?;
    Ok(Arc::new(decimals))
}

pub(super) fn power(digits: u8) -> Option<i128> {
    10_i128.checked_pow(u32::from(digits))
}

/// A decimal at another scale, halves rounded away from zero; `None` when it has too many digits.
fn rescale(value: i128, from: i32, precision: u8, to: u8) -> Option<i128> {
    let up = i32::from(to) - from;
    let digits = u8::try_from(up.unsigned_abs()).unwrap_or(u8::MAX);
    let moved = match up >= 0 {
        _ if value == 0 => 0,
        true => value.checked_mul(power(digits)?)?,
        false => match power(digits) {
            None => 0,
            Some(power) => {
                let (whole, rest) = (value / power, value % power);
                let up = rest.unsigned_abs() >= power.unsigned_abs().div_ceil(2);
                whole + if up { value.signum() } else { 0 }
            }
        },
    };
    let limit = power(precision)?.unsigned_abs();
    (moved.unsigned_abs() < limit).then_some(moved)
}

/// Of few digits Java divides, of many it reads the nearest.
fn double(value: i128, precision: u8, scale: u8) -> f64 {
    if precision <= COMPACT_DIGITS_MAX {
        return value as i64 as f64 / 10_f64.powi(i32::from(scale));
    }
    // Read from text, the result is the nearest double.
    format!("{value}e-{scale}").parse().unwrap_or(f64::NAN)
}
