//! Rows of a source table as its sink table has them: columns by name, in the sink's types.
//!
//! A sink table need not look like its source: it keeps columns that the source has dropped and types
//! that hold more, and lacks columns that were not to be added. What a type of the sink cannot hold is
//! an error, never another value.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef};
use headwater_connectors::{TableName, TableSchema};
use headwater_paimon::{DataField, DataType, Schema};

use crate::error::{JobError, Result};

/// How rows of one version of a source table become rows of one schema of its sink table.
#[derive(Debug, Clone)]
pub struct Shape {
    table: TableName,
    /// Of each column that goes on: where it stands, and what it is cast to.
    columns: Vec<(usize, Option<Target>)>,
    schema: SchemaRef,
    /// A column that has nowhere to go, though all have to.
    lost: Option<String>,
    /// Rows go on as they are.
    is_same: bool,
}

/// A type of the sink that is not the source's.
#[derive(Debug, Clone)]
struct Target {
    arrow: ArrowType,
    name: String,
    source: String,
}

impl Shape {
    /// Binds the columns of a source table to those of its sink table that have their names. Unless the
    /// sink `may_differ`, rows with a column that it does not have are an error.
    pub fn new(source: &TableSchema, sink: &Schema, may_differ: bool) -> Self {
        let mut columns = Vec::with_capacity(source.columns.len());
        let mut fields = Vec::with_capacity(source.columns.len());
        let (mut is_same, mut lost) = (true, None);
        for (at, column) in source.columns.iter().enumerate() {
            let Some(field) = named(&sink.fields, &column.name) else {
                is_same = false;
                if !may_differ {
                    lost = Some(column.name.clone());
                }
                continue;
            };
            let arrow = field.data_type.arrow();
            let differs = arrow != column.data_type.arrow() && !is_list(&arrow);
            is_same &= !differs && field.name == column.name;
            let target = differs.then(|| Target {
                arrow: arrow.clone(),
                name: field.data_type.to_string(),
                source: column.source_type.clone(),
            });
            let arrow = match &target {
                Some(target) => target.arrow.clone(),
                None => column.data_type.arrow(),
            };
            fields.push(Field::new(&field.name, arrow, true));
            columns.push((at, target));
        }
        Self {
            table: source.name.clone(),
            columns,
            schema: Arc::new(ArrowSchema::new(fields)),
            lost,
            is_same,
        }
    }

    /// Rows of the source as rows of the sink.
    ///
    /// # Errors
    /// [`JobError::Definite`] when a value is none of the sink's type; names table, column and types.
    pub fn fit(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        if self.is_same {
            return Ok(rows.clone());
        }
        if let Some(lost) = &self.lost {
            return Err(JobError::Definite(format!(
                "table {}: its sink table has no column {lost}. Did someone drop or rename it? Add it \
                 again, or remove the job's state and its sink tables to start again",
                self.table
            )));
        }
        let columns = self.columns.iter().map(|(at, target)| {
            let column = rows.columns().get(*at).ok_or_else(|| {
                JobError::Internal(format!("a column of {} is missing", self.table))
            })?;
            match target {
                None => Ok(column.clone()),
                Some(target) => self.cast(column, target, rows.schema_ref().field(*at).name()),
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(|error| JobError::Internal(format!("rows of {}: {error}", self.table)))
    }

    fn cast(&self, column: &ArrayRef, target: &Target, name: &str) -> Result<ArrayRef> {
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(column, &target.arrow, &strict).map_err(|error| {
            JobError::Definite(format!(
                "table {}: column {name} is {} at the source and {} in the lake, which cannot hold \
                 one of its values ({error}). Change the column's type in the lake, or set \
                 schema.change.behavior to lenient or evolve and start the job anew into an empty \
                 table",
                self.table, target.source, target.name
            ))
        })
    }
}

fn is_list(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::List(_))
}

/// Where a name stands: as it is spelt, or else in any case.
pub fn position<'a>(names: impl Iterator<Item = &'a str> + Clone, name: &str) -> Option<usize> {
    let exact = names.clone().position(|own| own == name);
    exact.or_else(|| {
        let (lower, mut names) = (name.to_lowercase(), names);
        names.position(|own| own.to_lowercase() == lower)
    })
}

/// A column of the sink by name: as it is spelt, or else in any case.
pub fn named<'a>(fields: &'a [DataField], name: &str) -> Option<&'a DataField> {
    let at = position(fields.iter().map(|field| field.name.as_str()), name)?;
    fields.get(at)
}

/// Whether a column of the sink holds every value of another type as the same value.
pub fn holds(sink: &DataType, wanted: &DataType) -> bool {
    use DataType::{
        BigInt, Binary, Boolean, Bytes, Char, Decimal, Double, Float, Int, SmallInt, String, Time,
        Timestamp, TimestampLtz, TinyInt, VarBinary, VarChar,
    };
    let digits = |data_type: &DataType| match data_type {
        TinyInt => Some(3),
        SmallInt => Some(5),
        Int => Some(10),
        BigInt => Some(19),
        _ => None,
    };
    match (sink, wanted) {
        (String, Char(_) | VarChar(_)) | (Bytes, Binary(_) | VarBinary(_)) => true,
        (Char(room) | VarChar(room), Char(length) | VarChar(length))
        | (VarBinary(room), Binary(length) | VarBinary(length)) => room >= length,
        (Time(room), Time(digits))
        | (Timestamp(room), Timestamp(digits))
        | (TimestampLtz(room), TimestampLtz(digits)) => room >= digits,
        (Decimal(precision, scale), Decimal(other, other_scale)) => {
            scale >= other_scale && precision - scale >= other - other_scale
        }
        (Decimal(precision, scale), other) => {
            digits(other).is_some_and(|digits| precision - scale >= digits)
        }
        (Double, Float | TinyInt | SmallInt | Int) | (Float, TinyInt | SmallInt) => true,
        (TinyInt | SmallInt | Int | BigInt, Boolean) => true,
        (String, Decimal(..)) => true,
        (String, other) if digits(other).is_some() => true,
        (VarChar(room), other) if digits(other).is_some() => {
            digits(other).is_some_and(|digits| *room > u32::from(digits))
        }
        (sink, wanted) => match (digits(sink), digits(wanted)) {
            (Some(room), Some(digits)) => room >= digits,
            _ => sink == wanted,
        },
    }
}

/// A type that holds every value of both, and that columns of the first can be given.
pub fn common(lake: &DataType, wanted: &DataType) -> Option<DataType> {
    use DataType::{BigInt, Decimal, Double, Float, Int, SmallInt, TinyInt};
    if holds(lake, wanted) {
        return Some(lake.clone());
    }
    if holds(wanted, lake) {
        return Some(wanted.clone());
    }
    let whole = |data_type: &DataType| match data_type {
        TinyInt => Some((3, 0)),
        SmallInt => Some((5, 0)),
        Int => Some((10, 0)),
        BigInt => Some((19, 0)),
        Decimal(precision, scale) => Some((precision - scale, *scale)),
        _ => None,
    };
    if let (Some((digits, scale)), Some((other, other_scale))) = (whole(lake), whole(wanted)) {
        let (digits, scale) = (digits.max(other), scale.max(other_scale));
        return (digits + scale <= 38).then_some(Decimal(digits + scale, scale));
    }
    match (lake, wanted) {
        (Float, Int) => Some(Double),
        (lake, wanted) => {
            let text = DataType::String;
            (holds(&text, lake) && holds(&text, wanted)).then_some(text)
        }
    }
}
