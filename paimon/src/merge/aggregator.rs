//! The aggregate function of a column.
//!
//! Source: `FieldAggregatorFactory` and the factories of each function.

use std::ops::Range;

use arrow_array::{ArrayRef, cast::AsArray, types};

use roaring::RoaringBitmap;

use super::{
    bitmap::Union,
    bitmap64::Bitmap64,
    choice::{self, FirstNonNull, FirstValue, LastNonNull, LastValue, PrimaryKey},
    collection::{Collection, Repeats},
    fold::{Choice, Combination, Combiner, Fold, Op, run},
    function::{Function, function},
    key_time::KeyTimes,
    nested::{NestedPartialUpdate, NestedUpdate},
    number::{DecimalProduct, DecimalSum, Number, Product, Sum},
    options::Options,
    text::ListAgg,
};
use crate::{
    data_type::{DataField, DataType},
    error::{Error, Result},
};

/// A column with its function.
#[derive(Debug)]
pub(super) struct Aggregator {
    column: String,
    data_type: DataType,
    name: String,
    function: Function,
    ignore_retract: bool,
}

impl Aggregator {
    /// A column's function by its name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when there is no such function, it does not fit the column's type, or
    /// its options contradict each other.
    pub(super) fn new(options: Options<'_>, field: &DataField, name: &str) -> Result<Self> {
        let ignore_retract = options.truth_of_column(&field.name, "ignore-retract")?;
        let remove = "aggregation.remove-record-on-delete";
        if ignore_retract && options.truth(remove)? {
            return Err(Error::Unsupported(format!(
                "options {remove} and fields.{}.ignore-retract at the same time: set one",
                field.name
            )));
        }
        Ok(Self {
            function: function(options, field, name)?,
            column: field.name.clone(),
            data_type: field.data_type.clone(),
            name: name.to_owned(),
            ignore_retract,
        })
    }

    /// A column without a function.
    pub(super) fn none(field: &DataField) -> Self {
        Self {
            column: field.name.clone(),
            data_type: field.data_type.clone(),
            name: String::new(),
            function: Function::PrimaryKey,
            ignore_retract: false,
        }
    }

    /// What rows do to the column when they do `op` to one that has a function.
    pub(super) fn op(&self, op: Op) -> Op {
        match op {
            Op::Retract if self.ignore_retract => Op::Skip,
            Op::SetRetract if self.ignore_retract => Op::Set,
            op => op,
        }
    }

    /// One value of each group's. Groups are not empty.
    pub(super) fn run(
        &self,
        array: &ArrayRef,
        groups: &[Range<usize>],
        ops: &[Op],
    ) -> Result<ArrayRef> {
        self.dispatch(array, groups, ops)
            .map_err(|error| match error {
                Error::Unsupported(what) => Error::Unsupported(format!(
                    "column {}, aggregate function {}: {what}",
                    self.column, self.name
                )),
                error => error,
            })
    }

    fn dispatch(&self, array: &ArrayRef, groups: &[Range<usize>], ops: &[Op]) -> Result<ArrayRef> {
        let go = Run { array, groups, ops };
        match &self.function {
            Function::PrimaryKey => go.run(Choice::new(array, PrimaryKey)),
            Function::LastValue => go.run(Choice::new(array, LastValue)),
            Function::LastNonNull => go.run(Choice::new(array, LastNonNull(array))),
            Function::FirstValue => go.run(Choice::new(array, FirstValue::default())),
            Function::FirstNonNull => {
                let chooser = FirstNonNull {
                    array,
                    found: false,
                };
                go.run(Choice::new(array, chooser))
            }
            Function::Max => go.run(Choice::new(array, choice::max(array)?)),
            Function::Min => go.run(Choice::new(array, choice::min(array)?)),
            Function::BoolAnd => {
                go.run(Choice::new(array, choice::truth(array.as_boolean(), false)))
            }
            Function::BoolOr => go.run(Choice::new(array, choice::truth(array.as_boolean(), true))),
            Function::Sum => self.sum(&go),
            Function::Product => self.product(&go),
            Function::ListAgg {
                delimiter,
                distinct,
            } => go.run(ListAgg::new(array.as_string(), delimiter, *distinct)),
            Function::Collect(repeats) => {
                // The wrapper that ignores retractions turns every function around.
                let one_way = *repeats != Repeats::Last && !self.ignore_retract;
                go.run(Collection::new(array, *repeats, one_way)?)
            }
            Function::MergeMapWithKeyTime { time } => go.combine(KeyTimes::new(array, *time)?),
            Function::NestedUpdate(rule) => go.combine(NestedUpdate::new(array, rule)?),
            Function::NestedPartialUpdate(rule) => {
                go.combine(NestedPartialUpdate::new(array, rule)?)
            }
            Function::Bitmap32 => go.run(Union::<RoaringBitmap>::new(array.as_binary())),
            Function::Bitmap64 => go.run(Union::<Bitmap64>::new(array.as_binary())),
        }
    }

    fn sum(&self, go: &Run<'_>) -> Result<ArrayRef> {
        let array = go.array;
        match self.data_type {
            DataType::TinyInt => {
                go.run(Number::<types::Int8Type, _>::new(array.as_primitive(), Sum))
            }
            DataType::SmallInt => go.run(Number::<types::Int16Type, _>::new(
                array.as_primitive(),
                Sum,
            )),
            DataType::Int => go.run(Number::<types::Int32Type, _>::new(
                array.as_primitive(),
                Sum,
            )),
            DataType::BigInt => go.run(Number::<types::Int64Type, _>::new(
                array.as_primitive(),
                Sum,
            )),
            DataType::Float => go.run(Number::<types::Float32Type, _>::new(
                array.as_primitive(),
                Sum,
            )),
            DataType::Double => go.run(Number::<types::Float64Type, _>::new(
                array.as_primitive(),
                Sum,
            )),
            DataType::Decimal(precision, _) => go.run(Number::<types::Decimal128Type, _>::new(
                array.as_primitive(),
                DecimalSum { precision },
            )),
            _ => Err(self.other_type()),
        }
    }

    fn product(&self, go: &Run<'_>) -> Result<ArrayRef> {
        let array = go.array;
        match self.data_type {
            DataType::TinyInt => go.run(Number::<types::Int8Type, _>::new(
                array.as_primitive(),
                Product,
            )),
            DataType::SmallInt => go.run(Number::<types::Int16Type, _>::new(
                array.as_primitive(),
                Product,
            )),
            DataType::Int => go.run(Number::<types::Int32Type, _>::new(
                array.as_primitive(),
                Product,
            )),
            DataType::BigInt => go.run(Number::<types::Int64Type, _>::new(
                array.as_primitive(),
                Product,
            )),
            DataType::Float => go.run(Number::<types::Float32Type, _>::new(
                array.as_primitive(),
                Product,
            )),
            DataType::Double => go.run(Number::<types::Float64Type, _>::new(
                array.as_primitive(),
                Product,
            )),
            DataType::Decimal(precision, scale) => go.run(Number::<types::Decimal128Type, _>::new(
                array.as_primitive(),
                DecimalProduct { precision, scale },
            )),
            _ => Err(self.other_type()),
        }
    }

    fn other_type(&self) -> Error {
        Error::Unsupported(format!("type {}", self.data_type))
    }
}

/// One run of a column.
struct Run<'a> {
    array: &'a ArrayRef,
    groups: &'a [Range<usize>],
    ops: &'a [Op],
}

impl Run<'_> {
    fn run(&self, fold: impl Fold) -> Result<ArrayRef> {
        run(fold, self.array, self.groups, self.ops)
    }

    fn combine(&self, combiner: impl Combiner) -> Result<ArrayRef> {
        self.run(Combination::new(combiner))
    }
}

/// The error of a function that cannot take values back.
pub(super) fn no_retraction() -> Error {
    Error::Unsupported(
        "it cannot take values back, and there are deletes: set the column's option \
         ignore-retract to true, or do not send them"
            .into(),
    )
}
