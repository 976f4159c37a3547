//! Rows that are too old: option `record-level.expire-time`. Compactions leave them out, each for
//! itself and before rows of a key are merged; readers do not.
//!
//! Source: `RecordLevelExpire`, `CompactStrategy.pickFullCompaction`, `MergeTreeCompactTask`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array, cast::AsArray, types};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use crate::{
    binary_row::{Value, decode},
    data_file::KeyValueBatch,
    data_file_meta::DataFileMeta,
    data_type::DataType,
    error::{Error, Result},
    merge::{Groups, MergeFunction},
    read::KeyGroups,
    schema::Schema,
    table_options::TableOptions,
};

use super::lookup::take_rows;

/// From here on a BIGINT is milliseconds, below it is seconds.
const MILLIS_FROM: i64 = 1_000_000_000_000;

/// Which rows are too old.
#[derive(Debug, Clone)]
pub(crate) struct RecordExpiry {
    column: usize,
    schema: Arc<Schema>,
    age_max_s: i64,
}

impl RecordExpiry {
    /// As a table's options say; `None`: rows never are.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names the option that does not fit.
    pub(crate) fn of(schema: &Arc<Schema>) -> Result<Option<Self>> {
        let column = column(schema)?;
        Ok(column.map(|(column, age_max_s)| Self {
            column,
            schema: schema.clone(),
            age_max_s,
        }))
    }

    fn is_old(&self, time_s: i64, now_s: i64) -> bool {
        now_s > time_s.saturating_add(self.age_max_s)
    }

    /// Places of the rows that are not too old; `None`: none is.
    fn kept(&self, rows: &KeyValueBatch, now_s: i64) -> Result<Option<Vec<u64>>> {
        let times = rows.columns.get(self.column).map(times).transpose()?;
        let Some(times) = times else {
            return Err(Error::Internal("rows without their time".into()));
        };
        let is_kept = |time: Option<i64>| !time.is_some_and(|time| self.is_old(time, now_s));
        let kept = BooleanArray::from_iter(times.iter().map(|time| Some(is_kept(time))));
        if kept.true_count() == kept.len() {
            return Ok(None);
        }
        let places = kept.values().set_indices().map(|place| place as u64);
        Ok(Some(places.collect()))
    }

    /// Whether a file holds rows that are too old, as far as its statistics say. What is said of a
    /// file of another schema is not looked at: it counts as such.
    pub(crate) fn is_due(&self, file: &DataFileMeta) -> bool {
        if file.schema_id != self.schema.id {
            return true;
        }
        let Some(field) = self.schema.fields.get(self.column) else {
            return false;
        };
        let fields: Vec<&str> = match &file.value_stats_cols {
            None => self
                .schema
                .fields
                .iter()
                .map(|it| it.name.as_str())
                .collect(),
            Some(names) => names.iter().map(String::as_str).collect(),
        };
        let Some(at) = fields.iter().position(|name| *name == field.name) else {
            return false;
        };
        let types: Option<Vec<DataType>> = fields
            .iter()
            .map(|name| Some(self.schema.field(name)?.1.data_type.clone()))
            .collect();
        let min = types.and_then(|types| {
            let values = decode(&file.value_stats.min_values, &types).ok()?;
            match values.get(at)? {
                Value::Int(seconds) => Some(i64::from(*seconds)),
                Value::BigInt(time) => Some(seconds_of(*time)),
                Value::Timestamp { millis, .. } => Some(millis / 1000),
                _ => None,
            }
        });
        min.is_some_and(|min| self.is_old(min, now_s()))
    }

    /// Groups without the rows that are too old; their number stays.
    pub(crate) fn without(&self, groups: KeyGroups) -> Result<KeyGroups> {
        let Some(kept) = self.kept(&groups.rows, now_s())? else {
            return Ok(groups);
        };
        let sources = kept
            .iter()
            .filter_map(|row| groups.sources.get(usize::try_from(*row).ok()?).copied());
        Ok(KeyGroups {
            sources: sources.collect(),
            ends: ends_of(&groups.ends, &kept),
            rows: take_rows(&groups.rows, &UInt64Array::from(kept))?,
        })
    }
}

/// The column that says how old a row is, and how many seconds it may be.
fn column(schema: &Schema) -> Result<Option<(usize, i64)>> {
    let options = TableOptions::of(schema)?.merge;
    let Some(age_max) = options
        .record_expire_time
        .filter(|_| !schema.primary_keys.is_empty())
    else {
        return Ok(None);
    };
    let refuse = |why: String| Err(Error::Unsupported(format!("option record-level.{why}")));
    let Some(name) = options.record_time_field else {
        return refuse("expire-time without record-level.time-field: set both".into());
    };
    let Some((at, field)) = schema.field(&name) else {
        return refuse(format!("time-field = {name}, which is not a column"));
    };
    match field.data_type {
        DataType::Int | DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let seconds = i64::try_from(age_max.as_secs()).unwrap_or(i64::MAX);
            Ok(Some((at, seconds)))
        }
        _ => refuse(format!(
            "time-field = {name}: a column of type INT, BIGINT or TIMESTAMP is expected"
        )),
    }
}

/// Refuses options of a schema that contradict each other or its columns.
pub(crate) fn check(schema: &Schema) -> Result<()> {
    column(schema).map(|_| ())
}

fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn seconds_of(bigint: i64) -> i64 {
    match bigint >= MILLIS_FROM {
        true => bigint / 1000,
        false => bigint,
    }
}

/// Seconds since the epoch.
fn times(column: &ArrayRef) -> Result<arrow_array::Int64Array> {
    let ticks = |of_milli: i64| move |ticks: i64| ticks.div_euclid(of_milli) / 1000;
    Ok(match column.data_type() {
        ArrowType::Int32 => column.as_primitive::<types::Int32Type>().unary(i64::from),
        ArrowType::Int64 => column.as_primitive::<types::Int64Type>().unary(seconds_of),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => column
            .as_primitive::<types::TimestampMillisecondType>()
            .unary(ticks(1)),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => column
            .as_primitive::<types::TimestampMicrosecondType>()
            .unary(ticks(1000)),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => column
            .as_primitive::<types::TimestampNanosecondType>()
            .unary(ticks(1_000_000)),
        other => return Err(Error::Internal(format!("times in {other}"))),
    })
}

/// Where groups end once only some rows (ascending) are kept.
fn ends_of(ends: &[usize], kept: &[u64]) -> Vec<usize> {
    let end = |end: &usize| kept.partition_point(|row| *row < *end as u64);
    ends.iter().map(end).collect()
}

/// Merges what is not too old.
#[derive(Debug)]
pub(crate) struct WithoutExpired {
    pub(crate) inner: Arc<dyn MergeFunction>,
    pub(crate) expiry: RecordExpiry,
}

impl MergeFunction for WithoutExpired {
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)> {
        let rows = match self.expiry.kept(groups.rows, now_s())? {
            None => groups.rows.clone(),
            Some(kept) => {
                let rows = take_rows(groups.rows, &UInt64Array::from(kept.clone()))?;
                return self.merge_some(&rows, &ends_of(groups.ends, &kept));
            }
        };
        self.merge_some(&rows, groups.ends)
    }
}

impl WithoutExpired {
    /// Functions are not asked about groups without rows.
    fn merge_some(
        &self,
        rows: &KeyValueBatch,
        ends: &[usize],
    ) -> Result<(KeyValueBatch, Vec<usize>)> {
        let mut numbers = Vec::with_capacity(ends.len());
        let mut some = Vec::with_capacity(ends.len());
        let mut start = 0;
        for (number, end) in ends.iter().enumerate() {
            if *end > start {
                numbers.push(number);
                some.push(*end);
            }
            start = *end;
        }
        let (merged, of_groups) = self.inner.merge(&Groups { rows, ends: &some })?;
        let numbers = of_groups
            .iter()
            .filter_map(|group| numbers.get(*group).copied());
        Ok((merged, numbers.collect()))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int8Array, Int32Array, Int64Array, TimestampMicrosecondArray};

    use super::*;
    use crate::fixture::fixture;

    fn expiry(data_type: &str, options: &[(&str, &str)]) -> Result<Option<RecordExpiry>> {
        let columns = [("id", "INT NOT NULL"), ("t", data_type)];
        let fixture = fixture(&columns, &["id"], &[], options);
        RecordExpiry::of(fixture.table.schema())
    }

    const OPTIONS: [(&str, &str); 2] = [
        ("record-level.expire-time", "1 h"),
        ("record-level.time-field", "t"),
    ];

    fn batch(times: ArrayRef) -> KeyValueBatch {
        let rows = times.len() as i32;
        KeyValueBatch {
            columns: vec![Arc::new(Int32Array::from_iter_values(0..rows)), times],
            sequences: Int64Array::from_iter_values(0..i64::from(rows)),
            kinds: Int8Array::from(vec![0; rows as usize]),
        }
    }

    #[test]
    fn times_are_read_in_seconds_or_milliseconds() {
        let now = 1_700_000_000;
        let just = now - 3600;
        for (data_type, times) in [
            (
                "INT",
                Arc::new(Int32Array::from(vec![
                    Some(just as i32),
                    Some(just as i32 - 1),
                    None,
                ])) as ArrayRef,
            ),
            (
                "BIGINT",
                Arc::new(Int64Array::from(vec![Some(just), Some(just - 1), None])),
            ),
            (
                "BIGINT",
                Arc::new(Int64Array::from(vec![
                    Some(just * 1000),
                    Some(just * 1000 - 1),
                    None,
                ])),
            ),
            (
                "TIMESTAMP(6)",
                Arc::new(TimestampMicrosecondArray::from(vec![
                    Some(just * 1_000_000),
                    Some(just * 1_000_000 - 1),
                    None,
                ])),
            ),
        ] {
            let expiry = expiry(data_type, &OPTIONS).unwrap().unwrap();
            let kept = expiry.kept(&batch(times.clone()), now).unwrap();
            assert_eq!(kept, Some(vec![0, 2]), "{data_type}");
            let kept = expiry.kept(&batch(times), now - 10).unwrap();
            assert_eq!(kept, None, "{data_type}");
        }
    }

    #[test]
    fn groups_lose_their_old_rows_and_keep_their_numbers() {
        let expiry = expiry("BIGINT", &OPTIONS).unwrap().unwrap();
        let schema = expiry.schema.clone();
        let now = now_s();
        let times = vec![Some(now), Some(5), Some(6), None, Some(now), Some(7)];
        let rows = batch(Arc::new(Int64Array::from(times)));
        let function = WithoutExpired {
            inner: crate::merge::function(&schema).unwrap(),
            expiry,
        };
        let groups = Groups {
            rows: &rows,
            ends: &[2, 3, 6],
        };
        let (merged, numbers) = function.merge(&groups).unwrap();
        assert_eq!(numbers, [0, 2]);
        let ids = merged.columns[0].as_primitive::<types::Int32Type>();
        assert_eq!(ids.values(), &[0, 4]);
    }

    #[test]
    fn options_that_do_not_fit_are_named() {
        let alone = expiry("INT", &OPTIONS[..1]).unwrap_err().to_string();
        assert!(alone.contains("record-level.time-field"), "{alone}");
        let other = expiry("STRING", &OPTIONS).unwrap_err().to_string();
        assert!(other.contains("INT, BIGINT"), "{other}");
        assert!(expiry("STRING", &OPTIONS[1..]).unwrap().is_none());
    }
}
