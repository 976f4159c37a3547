//! Statistics of a data file's columns, gathered batch by batch.
//!
//! Minimum, maximum and null count of each column are kept whole; when the file is complete they
//! become the key statistics (whole) and the value statistics (as the table's options say). Java
//! takes them from the Parquet footer, so what a footer lacks is not known here either: bytes and
//! timestamps of 7 to 9 digits have null counts only, nested columns nothing at all.
//!
//! Source: `SimpleStatsConverter`, `TruncateSimpleColStatsCollector`,
//! `ParquetSimpleStatsExtractor`; checked against files of Java Paimon 1.4.2
//! (`tests/data/file_stats.jsonl`).

use std::cmp::Ordering;

use arrow_array::Array;
use arrow_buffer::NullBuffer;

use crate::{
    binary_row::{self, Column, Value, order_f32, order_f64, timestamp},
    data_file_meta::{DataFileMeta, SimpleStats},
    data_type::{DataField, DataType},
    error::{Error, Result},
    schema::Schema,
    table_options::Reader,
};

/// What value statistics say of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsMode {
    /// Nothing.
    None,
    /// The null count.
    Counts,
    /// Text cut to so many code points, the maximum raised.
    Truncate(usize),
    /// Everything, whole.
    Full,
}

impl std::str::FromStr for StatsMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.trim().to_ascii_lowercase();
        let cut = lower
            .strip_prefix("truncate(")
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|digits| digits.parse().ok())
            .filter(|characters| *characters > 0);
        match (lower.as_str(), cut) {
            ("none", _) => Ok(Self::None),
            ("counts", _) => Ok(Self::Counts),
            ("full", _) => Ok(Self::Full),
            (_, Some(characters)) => Ok(Self::Truncate(characters)),
            _ => Err(Error::Unsupported(format!("statistics mode '{text}'"))),
        }
    }
}

/// What the table's options say about value statistics.
#[derive(Debug, Clone)]
pub(crate) struct StatsPlan {
    modes: Vec<StatsMode>,
    /// Leave out columns about which nothing is known.
    dense: bool,
}

impl StatsPlan {
    /// With the mode `text` of option `name` for columns that have none of their own.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names an option that cannot be read.
    pub(crate) fn new(schema: &Schema, name: &str, text: &str) -> Result<Self> {
        let read = |name: &str, text: &str| {
            text.parse::<StatsMode>().map_err(|_| {
                Error::Unsupported(format!(
                    "option {name} = {text}: set none, counts, truncate(16) or full"
                ))
            })
        };
        let usual = read(name, text)?;
        let first = "metadata.stats-keep-first-n-columns";
        let reader = Reader(schema);
        let columns_max = reader.count(first, -1_i64)?.unwrap_or(-1);
        let columns_max = usize::try_from(columns_max).unwrap_or(usize::MAX);
        let modes = schema.fields.iter().enumerate().map(|(at, field)| {
            let own = format!("fields.{}.stats-mode", field.name);
            match schema.options.get(&own) {
                Some(text) => read(&own, text),
                None if at >= columns_max => Ok(StatsMode::None),
                None => Ok(usual),
            }
        });
        Ok(Self {
            modes: modes.collect::<Result<_>>()?,
            dense: reader.switch(&["metadata.stats-dense-store"], true)?,
        })
    }
}

/// Minimum, maximum (null until a value was seen) and null count of a column.
#[derive(Debug, Clone)]
struct ColumnStats {
    min: Value,
    max: Value,
    nulls: i64,
}

/// Statistics of the value columns of one file.
#[derive(Debug, Clone)]
pub(crate) struct FileStats {
    columns: Vec<ColumnStats>,
}

impl FileStats {
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            columns: vec![ColumnStats::nothing(); columns],
        }
    }

    /// What the metadata of a file says, where that is all that statistics by `plan` need of its
    /// rows. `keys` are the places of the key columns among `fields`, the columns of the file.
    pub(crate) fn of_file(
        fields: &[DataField],
        keys: &[usize],
        file: &DataFileMeta,
        plan: &StatsPlan,
    ) -> Option<Self> {
        let key_fields = keys.iter().map(|at| fields.get(*at));
        let key_fields: Vec<&DataField> = key_fields.collect::<Option<_>>()?;
        let of_keys = read(&key_fields, &file.key_stats)?;
        let covered: Vec<&DataField> = match &file.value_stats_cols {
            None => fields.iter().collect(),
            Some(names) => {
                let named = |name: &String| fields.iter().find(|field| field.name == *name);
                names.iter().map(named).collect::<Option<_>>()?
            }
        };
        let of_values = read(&covered, &file.value_stats)?;
        let of = |(at, (field, mode)): (usize, (&DataField, &StatsMode))| {
            if let Some(key) = keys.iter().position(|key| *key == at) {
                // Those of keys are whole.
                let stats = of_keys.get(key)?.clone();
                return (!has_bounds(&field.data_type) || stats.min != Value::Null)
                    .then_some(stats);
            }
            if *mode == StatsMode::None || !is_known(&field.data_type) {
                return Some(ColumnStats::nothing());
            }
            let place = covered.iter().position(|column| column.id == field.id)?;
            let stats = of_values.get(place)?.clone();
            let has_values = stats.nulls < file.row_count;
            let is_exact = match mode {
                StatsMode::Truncate(_) => true,
                // A bound may have been cut.
                StatsMode::Full => !matches!(stats.min, Value::Bytes(_)),
                StatsMode::None | StatsMode::Counts => return Some(stats),
            };
            let is_whole = !has_bounds(&field.data_type) || stats.min != Value::Null;
            (is_exact && (is_whole || !has_values)).then_some(stats)
        };
        let columns = fields.iter().zip(&plan.modes).enumerate().map(of);
        Some(Self {
            columns: columns.collect::<Option<_>>()?,
        })
    }

    /// Takes in those of other rows.
    pub(crate) fn merge(&mut self, other: Self) {
        for (stats, other) in self.columns.iter_mut().zip(other.columns) {
            stats.nulls += other.nulls;
            stats.widen(other.min, other.max);
        }
    }

    /// Takes in a batch: its value columns, in order.
    pub(crate) fn update(&mut self, columns: &[Column]) {
        for (stats, column) in self.columns.iter_mut().zip(columns) {
            stats.nulls += column.array().null_count() as i64;
            let Some((min, max)) = extremes_of(column) else {
                continue;
            };
            stats.widen(min, max);
        }
    }

    /// Minimum, maximum (null when there is no value, or it is not known) and nulls of a column.
    pub(crate) fn bounds(&self, column: usize) -> Option<(&Value, &Value, i64)> {
        let stats = self.columns.get(column)?;
        Some((&stats.min, &stats.max, stats.nulls))
    }

    /// Statistics of the key columns, by their positions among the value columns.
    pub(crate) fn keys(&self, fields: &[DataField], keys: &[usize]) -> Result<SimpleStats> {
        let mut rows = Rows::default();
        for at in keys {
            let (stats, field) = self
                .columns
                .get(*at)
                .zip(fields.get(*at))
                .ok_or_else(|| Error::Internal(format!("no key column {at}")))?;
            let whole = Some(stats.clone()).filter(|_| is_known(&field.data_type));
            rows.push(&field.data_type, whole);
        }
        rows.finish()
    }

    /// Statistics of the value columns, and the columns they cover when not all.
    pub(crate) fn values(
        &self,
        fields: &[DataField],
        plan: &StatsPlan,
    ) -> Result<(SimpleStats, Option<Vec<String>>)> {
        let mut rows = Rows::default();
        let mut covered = Vec::new();
        for ((stats, field), mode) in self.columns.iter().zip(fields).zip(&plan.modes) {
            let shown = Some(stats)
                .filter(|_| is_known(&field.data_type))
                .and_then(|stats| stats.shown(*mode));
            if shown.is_some() || !plan.dense {
                covered.push(field.name.clone());
                rows.push(&field.data_type, shown);
            }
        }
        let all = covered.len() == fields.len();
        Ok((rows.finish()?, (!all).then_some(covered)))
    }
}

impl ColumnStats {
    fn nothing() -> Self {
        Self {
            min: Value::Null,
            max: Value::Null,
            nulls: 0,
        }
    }

    /// Takes in bounds of other values; of none, when they are NULL.
    fn widen(&mut self, min: Value, max: Value) {
        if min != Value::Null && (self.min == Value::Null || min.compare(&self.min).is_lt()) {
            self.min = min;
        }
        if max != Value::Null && (self.max == Value::Null || max.compare(&self.max).is_gt()) {
            self.max = max;
        }
    }

    fn shown(&self, mode: StatsMode) -> Option<Self> {
        match mode {
            StatsMode::None => None,
            StatsMode::Counts => Some(self.without_bounds()),
            StatsMode::Full => Some(self.clone()),
            StatsMode::Truncate(characters) => Some(self.cut(characters)),
        }
    }

    fn without_bounds(&self) -> Self {
        Self {
            min: Value::Null,
            max: Value::Null,
            nulls: self.nulls,
        }
    }

    fn cut(&self, characters: usize) -> Self {
        let (Value::Bytes(min), Value::Bytes(max)) = (&self.min, &self.max) else {
            return self.clone();
        };
        let (Ok(min), Ok(max)) = (std::str::from_utf8(min), std::str::from_utf8(max)) else {
            return self.without_bounds();
        };
        match cut_up(max, characters) {
            Some(max) => Self {
                min: Value::Bytes(cut_down(min, characters).as_bytes().to_vec()),
                max: Value::Bytes(max.into_bytes()),
                nulls: self.nulls,
            },
            None => self.without_bounds(),
        }
    }
}

/// Nested columns have no statistics at all.
fn is_known(data_type: &DataType) -> bool {
    !data_type.is_nested()
}

/// Whether minimum and maximum of a column are known where it has values.
fn has_bounds(data_type: &DataType) -> bool {
    match data_type {
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => false,
        DataType::Timestamp(digits) | DataType::TimestampLtz(digits) => *digits <= 6,
        other => is_known(other),
    }
}

/// The statistics of these columns; `None` where they cannot be read or a null count is missing.
fn read(fields: &[&DataField], stats: &SimpleStats) -> Option<Vec<ColumnStats>> {
    let types: Vec<DataType> = fields.iter().map(|it| it.data_type.clone()).collect();
    let min = binary_row::decode(&stats.min_values, &types).ok()?;
    let max = binary_row::decode(&stats.max_values, &types).ok()?;
    let columns = min.into_iter().zip(max).zip(&stats.null_counts);
    let columns = columns.map(|((min, max), nulls)| {
        Some(ColumnStats {
            min: min.owned(),
            max: max.owned(),
            nulls: (*nulls)?,
        })
    });
    columns
        .collect::<Option<Vec<_>>>()
        .filter(|read| read.len() == fields.len())
}

fn cut_down(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// A text of at most that many code points that is not less; `None` if there is none.
fn cut_up(text: &str, characters: usize) -> Option<String> {
    let cut = cut_down(text, characters);
    if cut.len() == text.len() {
        return Some(text.to_owned());
    }
    let mut points: Vec<char> = cut.chars().collect();
    while let Some(last) = points.pop() {
        // Java steps into the surrogates, which no text holds; the next character is behind them.
        let next = match u32::from(last) {
            0xd7ff => char::from_u32(0xe000),
            point => char::from_u32(point + 1),
        };
        if let Some(next) = next {
            points.push(next);
            return Some(points.into_iter().collect());
        }
    }
    None
}

/// Rows of minima and maxima under construction.
#[derive(Default)]
struct Rows {
    types: Vec<DataType>,
    min: Vec<Value>,
    max: Vec<Value>,
    null_counts: Vec<Option<i64>>,
}

impl Rows {
    fn push(&mut self, data_type: &DataType, stats: Option<ColumnStats>) {
        self.types.push(data_type.clone());
        self.null_counts
            .push(stats.as_ref().map(|stats| stats.nulls));
        let (min, max) = stats.map_or((Value::Null, Value::Null), |stats| (stats.min, stats.max));
        self.min.push(min);
        self.max.push(max);
    }

    fn finish(self) -> Result<SimpleStats> {
        Ok(SimpleStats {
            min_values: binary_row::encode(&self.min, &self.types)?,
            max_values: binary_row::encode(&self.max, &self.types)?,
            null_counts: self.null_counts,
        })
    }
}

/// Minimum and maximum of a batch's column; `None` when there is none that would be shown.
fn extremes_of(column: &Column) -> Option<(Value, Value)> {
    let nulls = column.array().nulls();
    match column {
        Column::Boolean(array) => {
            let trues = array.true_count();
            let values = array.len() - array.null_count();
            (values > 0).then_some((Value::Boolean(trues == values), Value::Boolean(trues > 0)))
        }
        Column::TinyInt(array) => extremes(array.values(), nulls, i8::cmp)
            .map(|(min, max)| (Value::TinyInt(min), Value::TinyInt(max))),
        Column::SmallInt(array) => extremes(array.values(), nulls, i16::cmp)
            .map(|(min, max)| (Value::SmallInt(min), Value::SmallInt(max))),
        Column::Int(array) => extremes(array.values(), nulls, i32::cmp)
            .map(|(min, max)| (Value::Int(min), Value::Int(max))),
        Column::BigInt(array) => extremes(array.values(), nulls, i64::cmp)
            .map(|(min, max)| (Value::BigInt(min), Value::BigInt(max))),
        Column::Float(array) => extremes(array.values(), nulls, order_f32)
            .map(|(min, max)| (Value::Float(min), Value::Float(max))),
        Column::Double(array) => extremes(array.values(), nulls, order_f64)
            .map(|(min, max)| (Value::Double(min), Value::Double(max))),
        Column::Decimal { digits, .. } => extremes(digits.values(), nulls, i128::cmp)
            .map(|(min, max)| (Value::Decimal(min), Value::Decimal(max))),
        Column::Text(array) => {
            let (min, max) = extreme_bytes(array.iter().flatten())?;
            Some((Value::Bytes(min.to_vec()), Value::Bytes(max.to_vec())))
        }
        Column::Timestamp { ticks, per_milli } if *per_milli <= 1_000 => {
            extremes(ticks.values(), nulls, i64::cmp)
                .map(|(min, max)| (timestamp(min, *per_milli), timestamp(max, *per_milli)))
        }
        Column::Timestamp { .. } | Column::Bytes(_) | Column::Nested(_) => None,
    }
}

/// The least and the greatest of some values. Their first eight bytes decide nearly always, as one
/// number.
fn extreme_bytes<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<(&'a [u8], &'a [u8])> {
    // Bytes that a shorter value lacks are behind no others.
    let beginning = |bytes: &[u8]| match bytes.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => (0..8).fold(0, |word, at| {
            (word << 8) | u64::from(bytes.get(at).copied().unwrap_or(0))
        }),
    };
    let first = values.next()?;
    let first = (beginning(first), first);
    let (min, max) = values.fold((first, first), |(min, max), value| {
        let value = (beginning(value), value);
        (min.min(value), max.max(value))
    });
    Some((min.1, max.1))
}

fn extremes<T: Copy>(
    values: &[T],
    nulls: Option<&NullBuffer>,
    order: impl Fn(&T, &T) -> Ordering,
) -> Option<(T, T)> {
    let widen = |found: Option<(T, T)>, value: &T| match found {
        Some((min, max)) => Some((
            if order(value, &min).is_lt() {
                *value
            } else {
                min
            },
            if order(value, &max).is_gt() {
                *value
            } else {
                max
            },
        )),
        None => Some((*value, *value)),
    };
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => {
            let (first, rest) = values.split_first()?;
            Some(rest.iter().fold((*first, *first), |(min, max), value| {
                (
                    if order(value, &min).is_lt() {
                        *value
                    } else {
                        min
                    },
                    if order(value, &max).is_gt() {
                        *value
                    } else {
                        max
                    },
                )
            }))
        }
        Some(nulls) => nulls
            .valid_indices()
            .filter_map(|row| values.get(row))
            .fold(None, widen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_of_texts_are_those_of_their_bytes() {
        let texts: [&[u8]; 12] = [
            b"abcdefgh",
            b"abcdefg",
            b"abcdefghi",
            b"abcdefgh\x00",
            b"",
            b"\x00",
            b"\x00\x00",
            b"abcdefgha",
            b"abcdefghb",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"zz",
        ];
        assert_eq!(extreme_bytes([].into_iter()), None);
        for start in 0..texts.len() {
            for end in start + 1..=texts.len() {
                let some = &texts[start..end];
                let least = some.iter().min().copied();
                let greatest = some.iter().max().copied();
                let found = extreme_bytes(some.iter().copied());
                assert_eq!(found, least.zip(greatest));
            }
        }
    }
}
