//! Aggregate functions whose value is one of the rows' own: the last, the first, the least, the
//! greatest, and those of truths.
//!
//! Source: `FieldLastValueAgg`, `FieldLastNonNullValueAgg`, `FieldFirstValueAgg`,
//! `FieldFirstNonNullValueAgg`, `FieldMaxAgg`, `FieldMinAgg`, `FieldBoolAndAgg`, `FieldBoolOrAgg`,
//! `FieldPrimaryKeyAgg`.

use std::cmp::Ordering;

use arrow_array::{
    Array, ArrayRef, BooleanArray, PrimitiveArray,
    cast::AsArray,
    types::{ArrowPrimitiveType, Float32Type, Float64Type},
};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_schema::{DataType as ArrowType, SortOptions};

use super::{aggregator::no_retraction, fold::Chooser};
use crate::error::Result;

/// Values of key columns, and of columns without a function: the row's, whatever it does.
pub(super) struct PrimaryKey;

impl Chooser for PrimaryKey {
    fn choose(&mut self, _: Option<usize>, row: usize) -> Option<usize> {
        Some(row)
    }

    fn choose_older(&mut self, standing: Option<usize>, _: usize) -> Option<usize> {
        standing
    }

    fn retract(&mut self, _: Option<usize>, row: usize) -> Result<Option<usize>> {
        Ok(Some(row))
    }
}

/// `last_value`
pub(super) struct LastValue;

impl Chooser for LastValue {
    fn choose(&mut self, _: Option<usize>, row: usize) -> Option<usize> {
        Some(row)
    }

    fn choose_older(&mut self, standing: Option<usize>, _: usize) -> Option<usize> {
        standing
    }

    fn retract(&mut self, _: Option<usize>, _: usize) -> Result<Option<usize>> {
        Ok(None)
    }
}

/// `last_non_null_value`
pub(super) struct LastNonNull<'a>(pub(super) &'a dyn Array);

impl Chooser for LastNonNull<'_> {
    fn choose(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        if self.0.is_null(row) {
            standing
        } else {
            Some(row)
        }
    }

    fn choose_older(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        valid(self.0, standing).or(Some(row))
    }

    fn retract(&mut self, standing: Option<usize>, row: usize) -> Result<Option<usize>> {
        Ok(if self.0.is_null(row) { standing } else { None })
    }
}

/// `first_value`
#[derive(Default)]
pub(super) struct FirstValue {
    found: bool,
}

impl Chooser for FirstValue {
    fn begin(&mut self) {
        self.found = false;
    }

    fn choose(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        if std::mem::replace(&mut self.found, true) {
            standing
        } else {
            Some(row)
        }
    }

    fn choose_older(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        if std::mem::replace(&mut self.found, true) {
            Some(row)
        } else {
            standing
        }
    }

    fn retract(&mut self, _: Option<usize>, _: usize) -> Result<Option<usize>> {
        Err(no_retraction())
    }
}

/// `first_non_null_value`
pub(super) struct FirstNonNull<'a> {
    pub(super) array: &'a dyn Array,
    pub(super) found: bool,
}

impl Chooser for FirstNonNull<'_> {
    fn begin(&mut self) {
        self.found = false;
    }

    fn choose(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        if self.found || self.array.is_null(row) {
            return standing;
        }
        self.found = true;
        Some(row)
    }

    fn choose_older(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        let standing = valid(self.array, standing);
        if self.found || standing.is_none() {
            return Some(row);
        }
        self.found = true;
        standing
    }

    fn retract(&mut self, _: Option<usize>, _: usize) -> Result<Option<usize>> {
        Err(no_retraction())
    }
}

/// The row when it has a value.
fn valid(array: &dyn Array, row: Option<usize>) -> Option<usize> {
    row.filter(|row| array.is_valid(*row))
}

/// A function of two values that gives one of them; NULLs do not count.
pub(super) struct OfTwo<'a, F> {
    pub(super) array: &'a dyn Array,
    /// Whether the first of two rows' values stands.
    pub(super) takes_first: F,
}

impl<F: Fn(usize, usize) -> bool> OfTwo<'_, F> {
    fn of(&self, first: Option<usize>, second: Option<usize>) -> Option<usize> {
        match (valid(self.array, first), valid(self.array, second)) {
            (Some(a), Some(b)) => Some(if (self.takes_first)(a, b) { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}

impl<F: Fn(usize, usize) -> bool> Chooser for OfTwo<'_, F> {
    fn choose(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        self.of(standing, Some(row))
    }

    fn choose_older(&mut self, standing: Option<usize>, row: usize) -> Option<usize> {
        self.of(Some(row), standing)
    }

    fn retract(&mut self, _: Option<usize>, _: usize) -> Result<Option<usize>> {
        Err(no_retraction())
    }
}

/// `max`
pub(super) fn max(array: &ArrayRef) -> Result<OfTwo<'_, impl Fn(usize, usize) -> bool>> {
    let compare = comparator(array)?;
    Ok(OfTwo {
        array,
        takes_first: move |a, b| compare(a, b) != Ordering::Less,
    })
}

/// `min`
pub(super) fn min(array: &ArrayRef) -> Result<OfTwo<'_, impl Fn(usize, usize) -> bool>> {
    let compare = comparator(array)?;
    Ok(OfTwo {
        array,
        takes_first: move |a, b| compare(a, b) == Ordering::Less,
    })
}

/// `bool_and` (`stands` false) and `bool_or` (`stands` true): once a value is `stands`, it stays.
pub(super) fn truth(
    array: &BooleanArray,
    stands: bool,
) -> OfTwo<'_, impl Fn(usize, usize) -> bool + '_> {
    OfTwo {
        array,
        takes_first: move |a, _| array.value(a) == stands,
    }
}

/// Compares values as Java does: of floats, all NaN are the same and the greatest, -0 is below 0.
fn comparator(array: &ArrayRef) -> Result<DynComparator> {
    fn floats<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        compare: impl Fn(&T::Native, &T::Native) -> Ordering + Send + Sync + 'static,
    ) -> DynComparator {
        let array: PrimitiveArray<T> = array.as_primitive::<T>().clone();
        Box::new(move |a, b| compare(&array.value(a), &array.value(b)))
    }
    let plain = |x: f32| if x.is_nan() { f32::NAN } else { x };
    let plain_double = |x: f64| if x.is_nan() { f64::NAN } else { x };
    Ok(match array.data_type() {
        ArrowType::Float32 => {
            floats::<Float32Type>(array, move |a, b| plain(*a).total_cmp(&plain(*b)))
        }
        ArrowType::Float64 => floats::<Float64Type>(array, move |a, b| {
            plain_double(*a).total_cmp(&plain_double(*b))
        }),
        _ => make_comparator(array, array, SortOptions::default())?,
    })
}
