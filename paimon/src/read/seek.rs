//! Which rows of large files have keys that stand in a few others: only the keys are read to find
//! out, and of the large files only these rows are read then.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{RecordBatch, cast::AsArray, types::Int64Type};
use arrow_row::{RowConverter, Rows, SortField};
use futures::TryStreamExt;

use crate::{
    binary_row::{Value, decode},
    data_file_meta::DataFileMeta,
    data_type::{DataField, DataType},
    error::{Error, Result},
};

use super::{
    bucket::BATCH_ROWS,
    file::{FileOpener, POSITION, Wanted},
    predicate::Predicate,
};

/// Rows that are read of files, by the files' names; of others all are.
pub(crate) type Selected = HashMap<String, Vec<Range<u64>>>;

/// Keys are looked up where there are so many times as many rows.
const ROWS_PER_KEY: i64 = 4;
/// Files that together are smaller are read whole: that asks the store less often, bytes. Tests have
/// small files only.
const WHOLE_BYTES: i64 = if cfg!(test) { 0 } else { 1 << 20 };
/// Keys that are looked up, bytes: they are all in memory.
const KEYS_BYTES_MAX: usize = 16 << 20;

/// Keys, sorted.
struct Keys {
    converter: RowConverter,
    batches: Vec<Rows>,
    /// Batch and row of each key, ascending; each key once.
    order: Vec<(u32, u32)>,
}

/// The rows of `others` whose keys are among those of `few`; `None` where it is better to read them
/// all. `keys` are the table's trimmed primary key. Every one of `others` is among what comes back.
///
/// # Errors
/// What the store says, and files that are damaged.
pub(crate) async fn matching_rows(
    opener: &FileOpener,
    keys: &[DataField],
    few: &[DataFileMeta],
    others: &[DataFileMeta],
) -> Result<Option<Selected>> {
    let rows = |files: &[DataFileMeta]| files.iter().map(|file| file.row_count).sum::<i64>();
    let bytes: i64 = others.iter().map(|file| file.file_size).sum();
    let is_worth_it = bytes > WHOLE_BYTES && rows(others) >= rows(few).saturating_mul(ROWS_PER_KEY);
    if others.is_empty() || !is_worth_it {
        return Ok(None);
    }
    let Some(wanted) = Keys::read(opener, keys, few).await? else {
        return Ok(None);
    };
    let opener = within(opener, keys, few);
    let mut selected = Selected::new();
    for file in others {
        let rows = wanted.find(&opener, keys, file).await?;
        selected.insert(file.file_name.clone(), rows);
    }
    Ok(Some(selected))
}

impl Keys {
    /// `None` when they are too many.
    async fn read(
        opener: &FileOpener,
        keys: &[DataField],
        files: &[DataFileMeta],
    ) -> Result<Option<Self>> {
        let fields = keys.iter().map(|key| SortField::new(key.data_type.arrow()));
        let converter = RowConverter::new(fields.collect())?;
        let wanted = Wanted::new(keys.to_vec(), &[]);
        let mut batches = Vec::new();
        let mut order = Vec::new();
        let mut bytes = 0;
        for file in files {
            let mut stream = opener.open(file, &wanted, BATCH_ROWS).await?;
            while let Some(batch) = stream.try_next().await? {
                let rows = converter.convert_columns(batch.columns())?;
                bytes += rows.size() + rows.num_rows() * size_of::<(u32, u32)>();
                if bytes > KEYS_BYTES_MAX {
                    return Ok(None);
                }
                let at = batches.len() as u32;
                order.extend((0..rows.num_rows() as u32).map(|row| (at, row)));
                batches.push(rows);
            }
        }
        let mut this = Self {
            converter,
            batches,
            order: Vec::new(),
        };
        order.sort_unstable_by(|a, b| this.key(*a).cmp(this.key(*b)));
        order.dedup_by(|a, b| this.key(*a) == this.key(*b));
        this.order = order;
        Ok(Some(this))
    }

    fn key(&self, (batch, row): (u32, u32)) -> &[u8] {
        match self.batches.get(batch as usize) {
            Some(rows) if (row as usize) < rows.num_rows() => rows.row(row as usize).data(),
            _ => &[],
        }
    }

    /// Positions of the rows of a file that have one of the keys.
    async fn find(
        &self,
        opener: &FileOpener,
        keys: &[DataField],
        file: &DataFileMeta,
    ) -> Result<Vec<Range<u64>>> {
        let wanted = Wanted::new(keys.to_vec(), &[POSITION]);
        let mut stream = opener.open(file, &wanted, BATCH_ROWS).await?;
        let mut found: Vec<Range<u64>> = Vec::new();
        // Keys of the file ascend too, so that those before are done with.
        let mut rest = self.order.as_slice();
        while let Some(batch) = stream.try_next().await?
            && !rest.is_empty()
        {
            let rows = self.rows(&batch, keys.len(), file)?;
            let positions = batch.column(keys.len()).as_primitive::<Int64Type>();
            let count = rows.num_rows();
            let mut from = 0;
            while let Some(key) = rest.first().map(|at| self.key(*at)) {
                from += first_not_before(&rows, from..count, key);
                if from == count {
                    break;
                }
                if rows.row(from).data() == key {
                    let position = positions.values().get(from).copied().unwrap_or(0);
                    push(&mut found, u64::try_from(position).unwrap_or(0));
                    rest = rest.get(1..).unwrap_or_default();
                } else {
                    let next = rows.row(from);
                    let skipped = rest.partition_point(|at| self.key(*at) < next.data());
                    rest = rest.get(skipped..).unwrap_or_default();
                }
            }
        }
        Ok(found)
    }

    /// The keys of a batch, which ascend: where they did not, some would not be found.
    fn rows(&self, batch: &RecordBatch, keys: usize, file: &DataFileMeta) -> Result<Rows> {
        let columns = batch.columns().get(..keys).unwrap_or_default();
        let rows = self.converter.convert_columns(columns)?;
        let pairs = rows.iter().zip(rows.iter().skip(1));
        match pairs.into_iter().all(|(a, b)| a.data() < b.data()) {
            true => Ok(rows),
            false => Err(Error::Corrupt {
                path: file.file_name.clone(),
                message: "its rows are not in the order of the key".into(),
            }),
        }
    }
}

/// How many of the rows within a range are before a key.
fn first_not_before(rows: &Rows, range: Range<usize>, key: &[u8]) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match rows.row(middle).data() < key {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low - range.start
}

fn push(found: &mut Vec<Range<u64>>, row: u64) {
    match found.last_mut() {
        Some(last) if last.end == row => last.end += 1,
        _ => found.push(row..row + 1),
    }
}

/// Leaves out row groups in which the first column of the key is out of the range of these files'.
fn within(opener: &FileOpener, keys: &[DataField], files: &[DataFileMeta]) -> FileOpener {
    let types: Vec<DataType> = keys.iter().map(|key| key.data_type.clone()).collect();
    let first = |key: &[u8]| -> Option<Value> {
        let values = decode(key, &types).ok()?;
        values.into_iter().next().map(Value::owned)
    };
    let by = |a: &Value, b: &Value| a.compare(b);
    let least: Option<Vec<_>> = files.iter().map(|file| first(&file.min_key)).collect();
    let greatest: Option<Vec<_>> = files.iter().map(|file| first(&file.max_key)).collect();
    let bounds = least
        .and_then(|values| values.into_iter().min_by(by))
        .zip(greatest.and_then(|values| values.into_iter().max_by(by)));
    let (Some((least, greatest)), Some(key)) = (bounds, keys.first()) else {
        return opener.clone();
    };
    let range = Predicate::And(vec![
        Predicate::Ge(key.name.clone(), least),
        Predicate::Le(key.name.clone(), greatest),
    ]);
    let table = opener.table();
    match range.bind(table.name(), table.schema()) {
        Ok(range) => opener.pruning(Some(Arc::new(range)), keys),
        // A type that filters do not know: then all is looked at.
        Err(_) => opener.clone(),
    }
}
