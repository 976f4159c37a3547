//! The aggregate functions `sum` and `product`.
//!
//! Numbers that leave their type are errors; decimals become NULL, but those of up to 18 digits,
//! whose sum may leave the precision as long as it fits 64 bits.
//!
//! Source: `FieldSumAgg`, `FieldProductAgg`, `DecimalUtils`, `Decimal`.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, PrimitiveArray, builder::PrimitiveBuilder, types::ArrowPrimitiveType,
};
use arrow_buffer::{ArrowNativeType, i256};

use super::fold::Fold;
use crate::error::{Error, Result};

/// What a function makes of two values.
pub(super) trait Calculation<N> {
    /// Of the value so far and another.
    fn aggregate(&self, accumulator: N, value: N) -> Result<Option<N>>;
    /// Takes a value back out.
    fn retract(&self, accumulator: N, value: N) -> Result<Option<N>>;
    /// Takes a value back out of nothing.
    fn retract_of_nothing(&self, value: N) -> Result<Option<N>>;
}

/// A column of numbers.
pub(super) struct Number<'a, T: ArrowPrimitiveType, C> {
    array: &'a PrimitiveArray<T>,
    calculation: C,
    value: Option<T::Native>,
    values: PrimitiveBuilder<T>,
}

impl<'a, T: ArrowPrimitiveType, C: Calculation<T::Native>> Number<'a, T, C> {
    pub(super) fn new(array: &'a PrimitiveArray<T>, calculation: C) -> Self {
        Self {
            values: PrimitiveBuilder::new().with_data_type(array.data_type().clone()),
            array,
            calculation,
            value: None,
        }
    }

    fn at(&self, row: usize) -> Option<T::Native> {
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

impl<T: ArrowPrimitiveType, C: Calculation<T::Native>> Fold for Number<'_, T, C> {
    fn begin(&mut self) {
        self.value = None;
    }

    fn set(&mut self, row: usize) {
        self.value = self.at(row);
    }

    fn clear(&mut self) {
        self.value = None;
    }

    fn aggregate(&mut self, row: usize) -> Result<()> {
        self.value = match (self.value, self.at(row)) {
            (Some(a), Some(b)) => self.calculation.aggregate(a, b)?,
            (a, b) => a.or(b),
        };
        Ok(())
    }

    fn aggregate_older(&mut self, row: usize) -> Result<()> {
        self.value = match (self.at(row), self.value) {
            (Some(a), Some(b)) => self.calculation.aggregate(a, b)?,
            (a, b) => a.or(b),
        };
        Ok(())
    }

    fn retract(&mut self, row: usize) -> Result<()> {
        self.value = match (self.value, self.at(row)) {
            (Some(a), Some(b)) => self.calculation.retract(a, b)?,
            (None, Some(b)) => self.calculation.retract_of_nothing(b)?,
            (a, None) => a,
        };
        Ok(())
    }

    fn end(&mut self) {
        self.values.append_option(self.value);
    }

    fn finish(mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.values.finish()))
    }
}

/// Numbers that may leave their type.
pub(super) trait Arithmetic: ArrowNativeType {
    fn plus(self, other: Self) -> Option<Self>;
    fn minus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    fn over(self, other: Self) -> Option<Self>;
    fn negated(self) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            fn plus(self, other: Self) -> Option<Self> { self.checked_add(other) }
            fn minus(self, other: Self) -> Option<Self> { self.checked_sub(other) }
            fn times(self, other: Self) -> Option<Self> { self.checked_mul(other) }
            fn over(self, other: Self) -> Option<Self> { self.checked_div(other) }
            fn negated(self) -> Option<Self> { self.checked_neg() }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            fn plus(self, other: Self) -> Option<Self> { Some(self + other) }
            fn minus(self, other: Self) -> Option<Self> { Some(self - other) }
            fn times(self, other: Self) -> Option<Self> { Some(self * other) }
            fn over(self, other: Self) -> Option<Self> { Some(self / other) }
            fn negated(self) -> Option<Self> { Some(-self) }
        }
    )*};
}

integers!(i8 i16 i32 i64);
floats!(f32 f64);

fn overflow<N: std::fmt::Debug>(a: N, sign: &str, b: N) -> Error {
    Error::Unsupported(format!(
        "{a:?} {sign} {b:?} is no value of the column's type: give it a wider one"
    ))
}

/// `sum`
pub(super) struct Sum;

impl<N: Arithmetic> Calculation<N> for Sum {
    fn aggregate(&self, a: N, b: N) -> Result<Option<N>> {
        a.plus(b).map(Some).ok_or_else(|| overflow(a, "+", b))
    }

    fn retract(&self, a: N, b: N) -> Result<Option<N>> {
        a.minus(b).map(Some).ok_or_else(|| overflow(a, "-", b))
    }

    fn retract_of_nothing(&self, b: N) -> Result<Option<N>> {
        let nothing = N::default();
        b.negated()
            .map(Some)
            .ok_or_else(|| overflow(nothing, "-", b))
    }
}

/// `product`
pub(super) struct Product;

impl<N: Arithmetic> Calculation<N> for Product {
    fn aggregate(&self, a: N, b: N) -> Result<Option<N>> {
        a.times(b).map(Some).ok_or_else(|| overflow(a, "*", b))
    }

    fn retract(&self, a: N, b: N) -> Result<Option<N>> {
        a.over(b).map(Some).ok_or_else(|| overflow(a, "/", b))
    }

    fn retract_of_nothing(&self, _: N) -> Result<Option<N>> {
        Ok(None)
    }
}

/// Digits of a decimal that Java keeps in 64 bits.
const COMPACT_DIGITS: u8 = 18;

/// `sum` of decimals, by their digits.
pub(super) struct DecimalSum {
    pub(super) precision: u8,
}

impl DecimalSum {
    fn fit(&self, value: Option<i128>) -> Option<i128> {
        let value = value?;
        if self.precision <= COMPACT_DIGITS && i64::try_from(value).is_ok() {
            return Some(value);
        }
        fits(value, self.precision).then_some(value)
    }
}

impl Calculation<i128> for DecimalSum {
    fn aggregate(&self, a: i128, b: i128) -> Result<Option<i128>> {
        Ok(self.fit(a.checked_add(b)))
    }

    fn retract(&self, a: i128, b: i128) -> Result<Option<i128>> {
        Ok(self.fit(a.checked_sub(b)))
    }

    fn retract_of_nothing(&self, b: i128) -> Result<Option<i128>> {
        let value = b.checked_neg();
        Ok(value.filter(|value| fits(*value, self.precision)))
    }
}

/// `product` of decimals, rounded half up to the column's scale.
pub(super) struct DecimalProduct {
    pub(super) precision: u8,
    pub(super) scale: u8,
}

impl Calculation<i128> for DecimalProduct {
    fn aggregate(&self, a: i128, b: i128) -> Result<Option<i128>> {
        let product = i256::from_i128(a).wrapping_mul(i256::from_i128(b));
        let unit = ten_to(self.scale);
        Ok(rounded(product, unit).filter(|value| fits(*value, self.precision)))
    }

    fn retract(&self, a: i128, b: i128) -> Result<Option<i128>> {
        // The quotient must have an end: after reducing, nothing but 2 and 5 may divide by.
        let mut rest =
            b.unsigned_abs() / greatest_divisor(a.unsigned_abs(), b.unsigned_abs()).max(1);
        for prime in [2, 5] {
            while rest > 0 && rest.is_multiple_of(prime) {
                rest /= prime;
            }
        }
        if rest != 1 {
            return Err(Error::Unsupported(format!(
                "{a} / {b}, of decimals without their point, has no end: do not take back from a \
                 product"
            )));
        }
        let above = i256::from_i128(a).wrapping_mul(ten_to(self.scale));
        Ok(rounded(above, i256::from_i128(b)).filter(|value| fits(*value, self.precision)))
    }

    fn retract_of_nothing(&self, _: i128) -> Result<Option<i128>> {
        Ok(None)
    }
}

fn greatest_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn ten_to(digits: u8) -> i256 {
    i256::from_i128(10i128.checked_pow(u32::from(digits)).unwrap_or(i128::MAX))
}

fn fits(value: i128, precision: u8) -> bool {
    10u128
        .checked_pow(u32::from(precision))
        .is_none_or(|end| value.unsigned_abs() < end)
}

/// A quotient, halves away from zero; `None` when it does not fit 128 bits.
fn rounded(above: i256, below: i256) -> Option<i128> {
    let quotient = above.checked_div(below)?;
    let rest = above.checked_rem(below)?;
    let is_half = rest.wrapping_abs().wrapping_add(rest.wrapping_abs()) >= below.wrapping_abs();
    let is_negative = (above < i256::ZERO) != (below < i256::ZERO);
    let step = match (is_half, is_negative) {
        (false, _) => i256::ZERO,
        (true, false) => i256::ONE,
        (true, true) => i256::MINUS_ONE,
    };
    quotient.wrapping_add(step).to_i128()
}
