//! The aggregate functions by their names.
//!
//! Source: the factories in `org.apache.paimon.mergetree.compact.aggregate.factory`.

use super::{
    collection::Repeats,
    nested::{NullKeys, Rule},
    options::{Options, names},
};
use crate::{
    data_type::{DataField, DataType},
    error::{Error, Result},
};

/// Names of functions that engines give to columns by themselves.
pub(super) const PRIMARY_KEY: &str = "primary-key";
pub(super) const LAST_VALUE: &str = "last_value";
pub(super) const LAST_NON_NULL_VALUE: &str = "last_non_null_value";

/// What is made of a column's values.
#[derive(Debug)]
pub(super) enum Function {
    PrimaryKey,
    LastValue,
    LastNonNull,
    FirstValue,
    FirstNonNull,
    Max,
    Min,
    Sum,
    Product,
    BoolAnd,
    BoolOr,
    ListAgg { delimiter: String, distinct: bool },
    Collect(Repeats),
    MergeMapWithKeyTime { time: usize },
    NestedUpdate(Rule),
    NestedPartialUpdate(Rule),
    Bitmap32,
    Bitmap64,
}

/// A column's function.
///
/// # Errors
/// [`Error::Unsupported`] when there is no such function, it does not fit the column's type, or its
/// options contradict each other.
pub(super) fn function(options: Options<'_>, field: &DataField, name: &str) -> Result<Function> {
    let column = Column {
        options,
        field,
        name,
    };
    let is_number = matches!(
        field.data_type,
        DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Float
            | DataType::Double
            | DataType::Decimal(..)
    );
    let is_truth = field.data_type == DataType::Boolean;
    let is_compared = !field.data_type.is_nested();
    let is_bytes = matches!(field.data_type, DataType::VarBinary(_) | DataType::Bytes);
    Ok(match name {
        PRIMARY_KEY => Function::PrimaryKey,
        LAST_VALUE => Function::LastValue,
        LAST_NON_NULL_VALUE => Function::LastNonNull,
        "first_value" => Function::FirstValue,
        "first_non_null_value" | "first_not_null_value" => Function::FirstNonNull,
        "max" if is_compared => Function::Max,
        "min" if is_compared => Function::Min,
        "max" | "min" => return column.refuse("a type whose values have an order"),
        "sum" if is_number => Function::Sum,
        "product" if is_number => Function::Product,
        "sum" | "product" => return column.refuse("a number"),
        "bool_and" if is_truth => Function::BoolAnd,
        "bool_or" if is_truth => Function::BoolOr,
        "bool_and" | "bool_or" => return column.refuse("a BOOLEAN"),
        "listagg" => return column.listagg(),
        "collect" => return column.collect(),
        "merge_map" if matches!(field.data_type, DataType::Map(..)) => {
            Function::Collect(Repeats::Last)
        }
        "merge_map" => return column.refuse("a MAP"),
        "merge_map_with_keytime" => return column.merge_map_with_keytime(),
        "nested_update" => Function::NestedUpdate(column.nested()?),
        "nested_partial_update" => Function::NestedPartialUpdate(column.nested()?),
        "rbm32" if is_bytes => Function::Bitmap32,
        "rbm64" if is_bytes => Function::Bitmap64,
        "rbm32" | "rbm64" => return column.refuse("a VARBINARY or BYTES"),
        "hll_sketch" | "theta_sketch" => {
            return Err(Error::Unsupported(format!(
                "aggregate function {name} of column {}: sketches are not supported",
                field.name
            )));
        }
        _ => {
            return Err(Error::Unsupported(format!(
                "aggregate function {name} of column {}: there is no such function here",
                field.name
            )));
        }
    })
}

/// A column and the name of its function.
struct Column<'a> {
    options: Options<'a>,
    field: &'a DataField,
    name: &'a str,
}

impl Column<'_> {
    fn refuse<T>(&self, needs: &str) -> Result<T> {
        Err(Error::Unsupported(format!(
            "aggregate function {} of column {} {}: it needs {needs}",
            self.name, self.field.name, self.field.data_type
        )))
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.of_column(&self.field.name, name)
    }

    fn listagg(&self) -> Result<Function> {
        if self.field.data_type != DataType::String {
            return self.refuse("a STRING");
        }
        Ok(Function::ListAgg {
            delimiter: self.option("list-agg-delimiter").unwrap_or(",").to_owned(),
            distinct: self.options.truth_of_column(&self.field.name, "distinct")?,
        })
    }

    fn collect(&self) -> Result<Function> {
        if !matches!(self.field.data_type, DataType::Array(_)) {
            return self.refuse("an ARRAY");
        }
        let distinct = self.options.truth_of_column(&self.field.name, "distinct")?;
        Ok(Function::Collect(match distinct {
            true => Repeats::First,
            false => Repeats::Stay,
        }))
    }

    fn merge_map_with_keytime(&self) -> Result<Function> {
        let needs = "a MAP whose values are ROWs of at least two fields";
        let DataType::Map(_, value) = &self.field.data_type else {
            return self.refuse(needs);
        };
        let fields = match &value.data_type {
            DataType::Row(fields) if fields.len() >= 2 => fields,
            _ => return self.refuse(needs),
        };
        let time = match self.option("ts-field").map(str::trim) {
            None => fields.len() - 1,
            Some(name) => self.position("ts-field", fields, name)?,
        };
        match fields.get(time).map(|field| &field.data_type) {
            Some(DataType::Char(_) | DataType::VarChar(_) | DataType::String) => {
                Ok(Function::MergeMapWithKeyTime { time })
            }
            _ => self.refuse("a text for the time of an entry (option ts-field; the last field)"),
        }
    }

    fn nested(&self) -> Result<Rule> {
        let needs = "an ARRAY of ROWs";
        let DataType::Array(element) = &self.field.data_type else {
            return self.refuse(needs);
        };
        let DataType::Row(fields) = &element.data_type else {
            return self.refuse(needs);
        };
        let positions = |option: &str| {
            let list = names(self.option(option).unwrap_or_default()).into_iter();
            list.map(|name| self.position(option, fields, name))
                .collect::<Result<Vec<_>>>()
        };
        let keys = positions("nested-key")?;
        let needs_key = self.name == "nested_partial_update"
            || self.option("nested-key-null-strategy").is_some()
            || self.option("nested-sequence-field").is_some();
        if keys.is_empty() && needs_key {
            return self.refuse("the column's option nested-key");
        }
        let null_keys = match self.option("nested-key-null-strategy").map(str::trim) {
            None => NullKeys::Merge,
            Some(text) => match text.to_ascii_lowercase().as_str() {
                "merge" => NullKeys::Merge,
                "ignore" => NullKeys::Ignore,
                "error" => NullKeys::Error,
                _ => return self.wrong("nested-key-null-strategy", text, "merge, ignore or error"),
            },
        };
        let limit = match self.option("count-limit").map(str::trim) {
            None => i32::MAX as usize,
            Some(text) => match text.parse::<i32>().map(usize::try_from) {
                Ok(Ok(limit)) => limit,
                _ => return self.wrong("count-limit", text, "a number of at least 0"),
            },
        };
        Ok(Rule {
            keys,
            sequence: positions("nested-sequence-field")?,
            null_keys,
            limit,
        })
    }

    fn wrong<T>(&self, option: &str, value: &str, expected: &str) -> Result<T> {
        Err(Error::Unsupported(format!(
            "option fields.{}.{option} = {value}: set {expected}",
            self.field.name
        )))
    }

    fn position(&self, option: &str, fields: &[DataField], name: &str) -> Result<usize> {
        let found = fields.iter().position(|field| field.name == name);
        found.ok_or_else(|| {
            Error::Unsupported(format!(
                "option fields.{}.{option} names {name}, which is no field of its ROW",
                self.field.name
            ))
        })
    }
}
