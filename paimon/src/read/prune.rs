//! What statistics say about a predicate: whether a partition, a file or a row group can hold a row
//! for which it is true.
//!
//! Where nothing is known of a column, everything is possible. Bounds need not be values that are
//! there: Paimon cuts long text in statistics, Parquet too.

use std::{cmp::Ordering, collections::HashMap};

use parquet::file::{metadata::RowGroupMetaData, statistics::Statistics};

use crate::{
    binary_row::{Value, decode},
    data_file_meta::{DataFileMeta, SimpleStats},
    data_type::{DataField, DataType},
    schema::Schema,
};

use super::predicate::{Bound, Comparison, Test};

/// What is known of a column in some rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnBounds {
    /// No value is below the first or above the second; `None`: not known.
    pub(super) range: Option<(Value, Value)>,
    /// How many rows are NULL, if known.
    pub(super) nulls: Option<i64>,
    pub(super) rows: i64,
}

/// What a predicate may be for some of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Possible {
    can_be_true: bool,
    can_be_false: bool,
}

const EVERYTHING: Possible = Possible {
    can_be_true: true,
    can_be_false: true,
};

/// What is known of columns, by field id.
pub(super) type Bounds = HashMap<i32, ColumnBounds>;

impl Bound {
    /// False only when no row within the bounds can match.
    pub(super) fn may_match(&self, bounds: &Bounds) -> bool {
        self.possible(bounds).can_be_true
    }

    fn possible(&self, bounds: &Bounds) -> Possible {
        match self {
            Self::Leaf { field, test } => match bounds.get(&field.id) {
                Some(column) => leaf(test, column),
                None => EVERYTHING,
            },
            Self::And(some) => {
                let each = || some.iter().map(|one| one.possible(bounds));
                Possible {
                    can_be_true: each().all(|one| one.can_be_true),
                    can_be_false: each().any(|one| one.can_be_false),
                }
            }
            Self::Or(some) => {
                let each = || some.iter().map(|one| one.possible(bounds));
                Possible {
                    can_be_true: each().any(|one| one.can_be_true),
                    can_be_false: each().all(|one| one.can_be_false),
                }
            }
            Self::Not(one) => {
                let one = one.possible(bounds);
                Possible {
                    can_be_true: one.can_be_false,
                    can_be_false: one.can_be_true,
                }
            }
        }
    }
}

fn leaf(test: &Test, column: &ColumnBounds) -> Possible {
    let has_nulls = column.nulls.is_none_or(|nulls| nulls > 0);
    let has_values = column.nulls.is_none_or(|nulls| nulls < column.rows);
    if matches!(test, Test::IsNull) {
        return Possible {
            can_be_true: has_nulls,
            can_be_false: has_values,
        };
    }
    let (can_be_true, can_be_false) = match (test, &column.range) {
        (Test::Compare(comparison, literal), Some((min, max))) => {
            compare(*comparison, &literal.value, min, max)
        }
        (Test::StartsWith(prefix), Some((Value::Bytes(min), Value::Bytes(max)))) => {
            let prefix = prefix.as_bytes();
            let head = min.get(..prefix.len().min(min.len())).unwrap_or_default();
            (head <= prefix && max.as_slice() >= prefix, true)
        }
        _ => (true, true),
    };
    Possible {
        can_be_true: has_values && can_be_true,
        can_be_false: has_values && can_be_false,
    }
}

/// Whether a value between `min` and `max` can compare so with the literal, and whether one can not.
fn compare(comparison: Comparison, literal: &Value, min: &Value, max: &Value) -> (bool, bool) {
    use Ordering::{Equal, Greater, Less};
    let (low, high) = (min.compare(literal), max.compare(literal));
    match comparison {
        Comparison::Eq => (
            low != Greater && high != Less,
            !(low == Equal && high == Equal),
        ),
        Comparison::Lt => (low == Less, high != Less),
        Comparison::Le => (low != Greater, high == Greater),
        Comparison::Gt => (high == Greater, low != Greater),
        Comparison::Ge => (high != Less, low == Less),
    }
}

/// The values of a partition.
pub(super) fn of_partition(fields: &[DataField], partition: &[u8]) -> Bounds {
    let types: Vec<DataType> = fields.iter().map(|it| it.data_type.clone()).collect();
    let values = decode(partition, &types).unwrap_or_default();
    let bounds = fields.iter().zip(values).map(|(field, value)| {
        let value = value.owned();
        let is_null = value == Value::Null;
        let column = ColumnBounds {
            range: (!is_null).then(|| (value.clone(), value)),
            nulls: Some(i64::from(is_null)),
            rows: 1,
        };
        (field.id, column)
    });
    bounds.collect()
}

/// What the key statistics of a file say; `schema` is the file's.
pub(super) fn of_keys(schema: &Schema, file: &DataFileMeta) -> Bounds {
    let keys = schema.trimmed_primary_keys();
    let keys = keys
        .iter()
        .filter_map(|key| schema.field(key))
        .map(|(_, field)| field);
    of_stats(&keys.collect::<Vec<_>>(), &file.key_stats, file.row_count)
}

/// What the value statistics of a file say; `schema` is the file's. Columns that are younger than
/// the file are NULL in it; `table` is the schema that is read.
pub(super) fn of_values(table: &Schema, schema: &Schema, file: &DataFileMeta) -> Bounds {
    let fields: Vec<&DataField> = match &file.value_stats_cols {
        None => schema.fields.iter().collect(),
        Some(names) => names
            .iter()
            .filter_map(|name| schema.field(name))
            .map(|(_, field)| field)
            .collect(),
    };
    let mut bounds = of_stats(&fields, &file.value_stats, file.row_count);
    for field in &table.fields {
        let then = schema.fields.iter().find(|then| then.id == field.id);
        match then {
            None => {
                let column = ColumnBounds {
                    range: None,
                    nulls: Some(file.row_count),
                    rows: file.row_count,
                };
                bounds.insert(field.id, column);
            }
            Some(then) if then.data_type != field.data_type => {
                bounds.remove(&field.id);
            }
            Some(_) => {}
        }
    }
    bounds
}

fn of_stats(fields: &[&DataField], stats: &SimpleStats, rows: i64) -> Bounds {
    let types: Vec<DataType> = fields.iter().map(|field| field.data_type.clone()).collect();
    let (Ok(min), Ok(max)) = (
        decode(&stats.min_values, &types),
        decode(&stats.max_values, &types),
    ) else {
        return Bounds::new();
    };
    let mut bounds = Bounds::new();
    for (at, ((field, min), max)) in fields.iter().zip(min).zip(max).enumerate() {
        let (min, max) = (min.owned(), max.owned());
        let known = min != Value::Null && max != Value::Null;
        let column = ColumnBounds {
            range: known.then_some((min, max)),
            nulls: stats.null_counts.get(at).copied().flatten(),
            rows,
        };
        bounds.insert(field.id, column);
    }
    bounds
}

/// What Parquet's statistics of a row group say of these fields, which have the same types in the
/// file. `columns` are the names of the group's leaves that are columns of their own.
pub(super) fn of_row_group(fields: &[DataField], group: &RowGroupMetaData) -> Bounds {
    let mut bounds = Bounds::new();
    for column in group.columns() {
        let [name] = column.column_path().parts() else {
            continue;
        };
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            continue;
        };
        let Some(statistics) = column.statistics() else {
            continue;
        };
        let nulls = statistics.null_count_opt();
        bounds.insert(
            field.id,
            ColumnBounds {
                range: parquet_range(statistics, &field.data_type),
                nulls: nulls.and_then(|nulls| i64::try_from(nulls).ok()),
                rows: group.num_rows(),
            },
        );
    }
    bounds
}

/// `None` where the statistics have no bounds, or their order is not that of the type. Floats are
/// left out: their bounds do not count NaN; timestamps: writers choose their unit.
fn parquet_range(statistics: &Statistics, data_type: &DataType) -> Option<(Value, Value)> {
    let integer = |digits: i64| match data_type {
        DataType::TinyInt => i8::try_from(digits).ok().map(Value::TinyInt),
        DataType::SmallInt => i16::try_from(digits).ok().map(Value::SmallInt),
        DataType::Int | DataType::Date | DataType::Time(_) => {
            i32::try_from(digits).ok().map(Value::Int)
        }
        DataType::BigInt => Some(Value::BigInt(digits)),
        DataType::Decimal(..) => Some(Value::Decimal(i128::from(digits))),
        _ => None,
    };
    match statistics {
        Statistics::Boolean(of) => Some((
            Value::Boolean(*of.min_opt()?),
            Value::Boolean(*of.max_opt()?),
        )),
        Statistics::Int32(of) => Some((
            integer(i64::from(*of.min_opt()?))?,
            integer(i64::from(*of.max_opt()?))?,
        )),
        Statistics::Int64(of) => Some((integer(*of.min_opt()?)?, integer(*of.max_opt()?)?)),
        Statistics::ByteArray(of) if !statistics.is_min_max_deprecated() => match data_type {
            DataType::Char(_)
            | DataType::VarChar(_)
            | DataType::String
            | DataType::Binary(_)
            | DataType::VarBinary(_)
            | DataType::Bytes => Some((
                Value::Bytes(of.min_opt()?.data().to_vec()),
                Value::Bytes(of.max_opt()?.data().to_vec()),
            )),
            _ => None,
        },
        _ => None,
    }
}
