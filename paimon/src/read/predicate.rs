//! Conditions on rows: what a reader asks for, bound to a table's columns, and tested exactly.
//!
//! Whether a file can be left out because of its statistics is decided in [`super::prune`].

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, Scalar, StringArray,
    Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, cast::AsArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_ord::cmp;

use crate::{
    binary_row::Value,
    data_type::{DataField, DataType},
    error::{Error, Result},
    schema::Schema,
};

/// A condition on the rows of a table, with SQL's logic of three values: a comparison with NULL is
/// neither true nor false, and only rows for which the whole is true are read.
///
/// Integers fit every integer column and floats that hold them; DATE is days since the epoch as
/// [`Value::Int`], TIME milliseconds of the day; a decimal is its digits in the column's scale; text
/// is its UTF-8 bytes.
///
/// ```
/// use headwater_paimon::{Predicate, binary_row::Value};
///
/// let wanted = Predicate::And(vec![
///     Predicate::Ge("id".into(), Value::Int(100)),
///     Predicate::StartsWith("name".into(), "a".into()),
/// ]);
/// # let _ = wanted;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// Column = value.
    Eq(String, Value),
    /// Column <> value.
    NotEq(String, Value),
    /// Column < value.
    Lt(String, Value),
    /// Column <= value.
    Le(String, Value),
    /// Column > value.
    Gt(String, Value),
    /// Column >= value.
    Ge(String, Value),
    /// Column is one of the values.
    In(String, Vec<Value>),
    /// Column is NULL.
    IsNull(String),
    /// Column is not NULL.
    IsNotNull(String),
    /// A text column begins with these characters.
    StartsWith(String, String),
    /// All of them; true when there is none.
    And(Vec<Predicate>),
    /// One of them at least; false when there is none.
    Or(Vec<Predicate>),
    /// Its opposite; NULL stays NULL.
    Not(Box<Predicate>),
}

/// A predicate whose columns are found in a schema and whose literals have the columns' types.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    Leaf { field: DataField, test: Test },
    And(Vec<Bound>),
    Or(Vec<Bound>),
    Not(Box<Bound>),
}

/// What is asked of one column.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Compare(Comparison, Literal),
    IsNull,
    StartsWith(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A value of a column's type, and the same as an Arrow array of one row.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    pub(super) value: Value,
    pub(super) array: ArrayRef,
}

impl Predicate {
    /// Finds the columns; the error names the column and the table.
    pub(super) fn bind(&self, table: &str, schema: &Schema) -> Result<Bound> {
        let binder = Binder { table, schema };
        binder.bind(self)
    }
}

struct Binder<'a> {
    table: &'a str,
    schema: &'a Schema,
}

impl Binder<'_> {
    fn refuse(&self, message: String) -> Error {
        Error::Table {
            table: self.table.to_owned(),
            message,
        }
    }

    fn field(&self, name: &str) -> Result<DataField> {
        let found = self.schema.field(name).map(|(_, field)| field.clone());
        found.ok_or_else(|| self.refuse(format!("no column '{name}', which a filter names")))
    }

    fn bind(&self, predicate: &Predicate) -> Result<Bound> {
        use Comparison::*;
        let all = |some: &[Predicate]| -> Result<Vec<Bound>> {
            some.iter().map(|one| self.bind(one)).collect()
        };
        Ok(match predicate {
            Predicate::Eq(column, value) => self.compare(column, Eq, value)?,
            Predicate::NotEq(column, value) => {
                Bound::Not(Box::new(self.compare(column, Eq, value)?))
            }
            Predicate::Lt(column, value) => self.compare(column, Lt, value)?,
            Predicate::Le(column, value) => self.compare(column, Le, value)?,
            Predicate::Gt(column, value) => self.compare(column, Gt, value)?,
            Predicate::Ge(column, value) => self.compare(column, Ge, value)?,
            Predicate::In(column, values) => {
                self.field(column)?;
                let one_of = values.iter().map(|value| self.compare(column, Eq, value));
                Bound::Or(one_of.collect::<Result<_>>()?)
            }
            Predicate::IsNull(column) => self.is_null(column)?,
            Predicate::IsNotNull(column) => Bound::Not(Box::new(self.is_null(column)?)),
            Predicate::StartsWith(column, prefix) => {
                let field = self.field(column)?;
                if field.data_type.arrow() != arrow_schema::DataType::Utf8 {
                    let data_type = &field.data_type;
                    return Err(self.refuse(format!(
                        "column '{column}' of type {data_type} in a filter on how text begins"
                    )));
                }
                Bound::Leaf {
                    field,
                    test: Test::StartsWith(prefix.clone()),
                }
            }
            Predicate::And(some) => Bound::And(all(some)?),
            Predicate::Or(some) => Bound::Or(all(some)?),
            Predicate::Not(one) => Bound::Not(Box::new(self.bind(one)?)),
        })
    }

    fn is_null(&self, column: &str) -> Result<Bound> {
        Ok(Bound::Leaf {
            field: self.field(column)?,
            test: Test::IsNull,
        })
    }

    fn compare(&self, column: &str, comparison: Comparison, value: &Value) -> Result<Bound> {
        let field = self.field(column)?;
        let literal = literal(value, &field.data_type).ok_or_else(|| {
            let data_type = &field.data_type;
            self.refuse(format!(
                "column '{column}' of type {data_type} cannot be compared with {value:?}"
            ))
        })?;
        Ok(Bound::Leaf {
            field,
            test: Test::Compare(comparison, literal),
        })
    }
}

/// The value as one of the type; `None` when the type cannot hold it.
fn literal(value: &Value, data_type: &DataType) -> Option<Literal> {
    let integer = || match value {
        Value::TinyInt(value) => Some(i64::from(*value)),
        Value::SmallInt(value) => Some(i64::from(*value)),
        Value::Int(value) => Some(i64::from(*value)),
        Value::BigInt(value) => Some(*value),
        _ => None,
    };
    let float = || match value {
        Value::Float(value) => Some(f64::from(*value)),
        Value::Double(value) => Some(*value),
        // Integers that a double holds exactly.
        _ => integer()
            .filter(|value| value.unsigned_abs() <= 1 << 53)
            .map(|value| value as f64),
    };
    let int = || integer().and_then(|value| i32::try_from(value).ok());
    let (value, array): (Value, ArrayRef) = match (data_type, value) {
        (DataType::Boolean, Value::Boolean(it)) => {
            (Value::Boolean(*it), Arc::new(BooleanArray::from(vec![*it])))
        }
        (DataType::TinyInt, _) => {
            let it = i8::try_from(integer()?).ok()?;
            (Value::TinyInt(it), Arc::new(Int8Array::from(vec![it])))
        }
        (DataType::SmallInt, _) => {
            let it = i16::try_from(integer()?).ok()?;
            (Value::SmallInt(it), Arc::new(Int16Array::from(vec![it])))
        }
        (DataType::Int, _) => (Value::Int(int()?), Arc::new(Int32Array::from(vec![int()?]))),
        (DataType::Date, _) => (
            Value::Int(int()?),
            Arc::new(Date32Array::from(vec![int()?])),
        ),
        (DataType::Time(_), _) => (
            Value::Int(int()?),
            Arc::new(Time32MillisecondArray::from(vec![int()?])),
        ),
        (DataType::BigInt, _) => {
            let it = integer()?;
            (Value::BigInt(it), Arc::new(Int64Array::from(vec![it])))
        }
        (DataType::Float, _) => {
            let it = float()? as f32;
            (Value::Float(it), Arc::new(Float32Array::from(vec![it])))
        }
        (DataType::Double, _) => {
            let it = float()?;
            (Value::Double(it), Arc::new(Float64Array::from(vec![it])))
        }
        (DataType::Decimal(precision, scale), Value::Decimal(digits)) => {
            let array = Decimal128Array::from(vec![*digits]);
            let array = array.with_precision_and_scale(*precision, *scale as i8);
            (Value::Decimal(*digits), Arc::new(array.ok()?))
        }
        (DataType::Char(_) | DataType::VarChar(_) | DataType::String, Value::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).ok()?;
            (
                Value::Bytes(bytes.clone()),
                Arc::new(StringArray::from(vec![text])),
            )
        }
        (DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes, Value::Bytes(bytes)) => (
            Value::Bytes(bytes.clone()),
            Arc::new(BinaryArray::from(vec![bytes.as_slice()])),
        ),
        (
            DataType::Timestamp(_) | DataType::TimestampLtz(_),
            Value::Timestamp { millis, nanos },
        ) => (
            Value::Timestamp {
                millis: *millis,
                nanos: *nanos,
            },
            timestamp(*millis, *nanos, &data_type.arrow())?,
        ),
        _ => return None,
    };
    Some(Literal { value, array })
}

/// `None` when the column's unit cannot hold it.
fn timestamp(millis: i64, nanos: i32, to: &arrow_schema::DataType) -> Option<ArrayRef> {
    use arrow_schema::{DataType::Timestamp, TimeUnit::*};
    let nanos = i64::from(nanos);
    let Timestamp(unit, zone) = to else {
        return None;
    };
    let ticks = |per_milli: i64| {
        let within = nanos / (1_000_000 / per_milli);
        let exact = within * (1_000_000 / per_milli) == nanos;
        let ticks = millis.checked_mul(per_milli)?.checked_add(within)?;
        exact.then_some(ticks)
    };
    Some(match unit {
        Second => return None,
        Millisecond => Arc::new(
            TimestampMillisecondArray::from(vec![ticks(1)?]).with_timezone_opt(zone.clone()),
        ),
        Microsecond => Arc::new(
            TimestampMicrosecondArray::from(vec![ticks(1_000)?]).with_timezone_opt(zone.clone()),
        ),
        Nanosecond => Arc::new(
            TimestampNanosecondArray::from(vec![ticks(1_000_000)?]).with_timezone_opt(zone.clone()),
        ),
    })
}

/// For each row whether something is true, or false, or neither.
struct Truth {
    is_true: BooleanBuffer,
    is_false: BooleanBuffer,
}

impl From<&BooleanArray> for Truth {
    fn from(array: &BooleanArray) -> Self {
        let values = array.values();
        match array.nulls() {
            None => Self {
                is_true: values.clone(),
                is_false: !values,
            },
            Some(nulls) => Self {
                is_true: values & nulls.inner(),
                is_false: &!values & nulls.inner(),
            },
        }
    }
}

impl Bound {
    /// Columns that it looks at, each once.
    pub(super) fn fields(&self) -> Vec<DataField> {
        let mut fields = Vec::new();
        self.collect_fields(&mut fields);
        fields
    }

    fn collect_fields(&self, fields: &mut Vec<DataField>) {
        match self {
            Self::Leaf { field, .. } => {
                if !fields.iter().any(|other| other.id == field.id) {
                    fields.push(field.clone());
                }
            }
            Self::And(some) | Self::Or(some) => {
                some.iter().for_each(|one| one.collect_fields(fields));
            }
            Self::Not(one) => one.collect_fields(fields),
        }
    }

    /// The rows of a batch, which has the columns by their names, for which it is true.
    pub(super) fn test(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        Ok(BooleanArray::new(self.truth(batch)?.is_true, None))
    }

    fn truth(&self, batch: &RecordBatch) -> Result<Truth> {
        let rows = batch.num_rows();
        match self {
            Self::Leaf { field, test } => {
                let column = batch.column_by_name(&field.name).ok_or_else(|| {
                    Error::Internal(format!("a filter on column '{}', not read", field.name))
                })?;
                leaf(column, test)
            }
            Self::And(some) => {
                let mut all = Truth {
                    is_true: BooleanBuffer::new_set(rows),
                    is_false: BooleanBuffer::new_unset(rows),
                };
                for one in some {
                    let one = one.truth(batch)?;
                    all.is_true = &all.is_true & &one.is_true;
                    all.is_false = &all.is_false | &one.is_false;
                }
                Ok(all)
            }
            Self::Or(some) => {
                let mut any = Truth {
                    is_true: BooleanBuffer::new_unset(rows),
                    is_false: BooleanBuffer::new_set(rows),
                };
                for one in some {
                    let one = one.truth(batch)?;
                    any.is_true = &any.is_true | &one.is_true;
                    any.is_false = &any.is_false & &one.is_false;
                }
                Ok(any)
            }
            Self::Not(one) => {
                let one = one.truth(batch)?;
                Ok(Truth {
                    is_true: one.is_false,
                    is_false: one.is_true,
                })
            }
        }
    }
}

fn leaf(column: &ArrayRef, test: &Test) -> Result<Truth> {
    let rows = column.len();
    Ok(match test {
        Test::IsNull => {
            let is_false = match column.nulls() {
                Some(nulls) => nulls.inner().clone(),
                None => BooleanBuffer::new_set(rows),
            };
            Truth {
                is_true: !&is_false,
                is_false,
            }
        }
        Test::StartsWith(prefix) => {
            let texts = column.as_string::<i32>();
            let begins = BooleanBuffer::collect_bool(rows, |row| {
                texts.value(row).as_bytes().starts_with(prefix.as_bytes())
            });
            (&BooleanArray::new(begins, texts.nulls().cloned())).into()
        }
        Test::Compare(comparison, literal) => {
            let right = Scalar::new(literal.array.clone());
            let compare = match comparison {
                Comparison::Eq => cmp::eq,
                Comparison::Lt => cmp::lt,
                Comparison::Le => cmp::lt_eq,
                Comparison::Gt => cmp::gt,
                Comparison::Ge => cmp::gt_eq,
            };
            (&compare(column, &right)?).into()
        }
    })
}
