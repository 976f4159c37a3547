//! A sorted run of a section, read batch by batch, and what the heap compares of its rows.

use std::{cmp::Ordering, ops::Range, sync::Arc};

use arrow_array::{
    ArrayRef, Int8Array, Int64Array, RecordBatch,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use futures::TryStreamExt;

use crate::{
    data_type::DataField,
    error::{Error, Result},
    key_order::{KeyOrder, Keys},
    schema::Schema,
};

use super::{
    bucket::leaves_row,
    file::{FileOpener, FileStream, KIND, POSITION, SEQUENCE, Wanted},
    section::{OrderedFile, SortedRun},
};

/// Where a row of a merge came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowSource {
    /// Place of the file among those that the sections were made of.
    pub(crate) file: usize,
    /// Level of the file.
    pub(crate) level: i32,
    /// Position of the row in the file; 0 unless positions were asked for.
    pub(crate) position: i64,
}

/// What is read of the files of a merge, and how their rows are compared.
pub(super) struct Layout {
    wanted: Wanted,
    /// Columns that are handed on; behind them those of the key, then those of `sequence.field`.
    values: usize,
    keys: usize,
    key_order: KeyOrder,
    /// For tables with `sequence.field`.
    sequence_converter: Option<RowConverter>,
    batch_rows: usize,
    with_positions: bool,
}

impl Layout {
    pub(super) fn new(
        schema: &Schema,
        columns: &[DataField],
        keys: &[DataField],
        batch_rows: usize,
        with_positions: bool,
    ) -> Result<Self> {
        let sequence = sequence_fields(schema)?;
        // Key columns once more: they may not be among those handed on.
        let all = columns.iter().chain(keys).chain(&sequence.fields);
        let sequence_converter = match sequence.fields.as_slice() {
            [] => None,
            fields => {
                let fields = fields.iter().map(|field| {
                    SortField::new_with_options(field.data_type.arrow(), sequence.options)
                });
                Some(RowConverter::new(fields.collect())?)
            }
        };
        let system: &'static [&'static str] = match with_positions {
            true => &[SEQUENCE, KIND, POSITION],
            false => &[SEQUENCE, KIND],
        };
        Ok(Self {
            wanted: Wanted::new(all.cloned().collect(), system),
            with_positions,
            values: columns.len(),
            keys: keys.len(),
            key_order: KeyOrder::new(keys)?,
            sequence_converter,
            batch_rows,
        })
    }
}

/// The columns of option `sequence.field` and their order.
struct SequenceFields {
    fields: Vec<DataField>,
    options: SortOptions,
}

/// Source: `CoreOptions.sequenceField`, `UserDefinedSeqComparator`: NULL is older than every value,
/// whatever the order.
fn sequence_fields(schema: &Schema) -> Result<SequenceFields> {
    let option = |name: &str| schema.options.get(name).map(|text| text.trim());
    let names = option("sequence.field").unwrap_or_default();
    let fields = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let found = schema.field(name).map(|(_, field)| field.clone());
            found.ok_or_else(|| {
                Error::Unsupported(format!(
                    "option sequence.field = {names}: there is no column '{name}'"
                ))
            })
        })
        .collect::<Result<_>>()?;
    let descending = option("sequence.field.sort-order")
        .is_some_and(|order| order.eq_ignore_ascii_case("descending"));
    Ok(SequenceFields {
        fields,
        options: SortOptions {
            descending,
            nulls_first: true,
        },
    })
}

/// The columns of a batch that are handed on, then sequence numbers and kinds.
#[derive(Debug, Clone)]
pub(super) struct OpenBatch {
    pub(super) columns: Vec<ArrayRef>,
    source: RowSource,
    positions: Option<Int64Array>,
    /// Memory that it takes.
    pub(super) bytes: usize,
}

impl OpenBatch {
    /// Of a row, on average.
    pub(super) fn row_bytes(&self) -> usize {
        let rows = self.columns.first().map_or(1, |column| column.len().max(1));
        self.bytes / rows
    }

    /// Where a row came from.
    pub(super) fn source(&self, row: usize) -> RowSource {
        let position = self.positions.as_ref();
        let position = position.and_then(|positions| positions.values().get(row));
        RowSource {
            position: position.copied().unwrap_or(0),
            ..self.source
        }
    }
}

/// A sorted run and its open batch.
pub(super) struct Run {
    files: SortedRun,
    stream: Option<FileStream>,
    /// Of the open file; its name is for errors.
    source: RowSource,
    file_name: String,
    /// The key of each row as a number, or its [`head`].
    heads: Vec<u128>,
    /// The keys as bytes, where numbers do not tell all of them apart.
    keys: Option<Rows>,
    orders: Option<Rows>,
    sequences: Int64Array,
    kinds: Int8Array,
    /// Whether a row of the open file may be a delete.
    may_have_deletes: bool,
    /// Whether a row of the open batch is one.
    has_deletes: bool,
    /// The greatest key of the batch before, of the same file or not.
    last_key: Option<(u128, Vec<u8>)>,
    /// Which of the merge's batches is open.
    pub(super) batch: usize,
    /// Row of the open batch.
    pub(super) at: usize,
}

impl Run {
    pub(super) fn new(files: SortedRun) -> Self {
        Self {
            files,
            stream: None,
            source: RowSource {
                file: 0,
                level: 0,
                position: 0,
            },
            file_name: String::new(),
            heads: Vec::new(),
            keys: None,
            orders: None,
            sequences: Int64Array::from(Vec::<i64>::new()),
            kinds: Int8Array::from(Vec::<i8>::new()),
            may_have_deletes: false,
            has_deletes: false,
            last_key: None,
            batch: 0,
            at: 0,
        }
    }

    /// The key as bytes; none where the head says it all.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.key_at(self.at)
    }

    #[inline]
    fn key_at(&self, row: usize) -> &[u8] {
        match &self.keys {
            Some(rows) if row < rows.num_rows() => rows.row(row).data(),
            _ => &[],
        }
    }

    /// The key as a number, or its beginning: different for different keys that are short.
    #[inline]
    pub(super) fn head(&self) -> u128 {
        self.heads.get(self.at).copied().unwrap_or(0)
    }

    /// The order of two keys: most differ in their heads, and these are one comparison.
    pub(super) fn compare_key(&self, other: &Self) -> Ordering {
        self.head().cmp(&other.head()).then_with(|| {
            // Not even empty slices are compared where there are none: in glibc's comparison for
            // AVX-512, bytes at an address that does not exist take hundreds of cycles, though none
            // of them counts.
            match (&self.keys, &other.keys) {
                (Some(_), Some(_)) => self.key().cmp(other.key()),
                _ => Ordering::Equal,
            }
        })
    }

    /// Whether the key is this one.
    pub(super) fn has_key(&self, head: u128, key: &[u8]) -> bool {
        self.head() == head && (self.keys.is_none() || self.key() == key)
    }

    /// The order of two rows by `sequence.field`.
    fn compare_order(&self, other: &Self) -> Ordering {
        let (Some(own), Some(others)) = (&self.orders, &other.orders) else {
            return Ordering::Equal;
        };
        match self.at < own.num_rows() && other.at < others.num_rows() {
            true => own.row(self.at).cmp(&others.row(other.at)),
            false => Ordering::Equal,
        }
    }

    /// Rows of the open batch from here on that come before another run's next key: all of it, where
    /// there is no other run. Looked for in steps that double, so that a few rows take a few
    /// comparisons and many not many more.
    pub(super) fn rows_before(&self, other: Option<&Self>) -> usize {
        let rest = self.heads.get(self.at..).unwrap_or_default();
        let Some(other) = other else {
            return rest.len();
        };
        let (head, key) = (other.head(), other.key());
        let is_before = |row: usize| match rest.get(row).map(|own| own.cmp(&head)) {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => self.keys.is_some() && self.key_at(self.at + row) < key,
            _ => false,
        };
        let mut step = 1;
        let mut before = 0;
        while is_before(before + step - 1) {
            before += step;
            step *= 2;
        }
        // Below `before` all are, and the one that the step went to is not.
        let (mut low, mut high) = (before, before + step - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Of so many rows from here on those that leave a row, in ranges of the open batch.
    pub(super) fn without_deletes(&self, rows: usize) -> impl Iterator<Item = Range<usize>> {
        let kinds = self.kinds.values().get(self.at..self.at + rows);
        let first = self.at;
        let mut rest = kinds.unwrap_or_default();
        let mut done = 0;
        let has_deletes = self.has_deletes;
        std::iter::from_fn(move || {
            let deletes = match has_deletes {
                true => rest.iter().take_while(|kind| !leaves_row(**kind)).count(),
                false => 0,
            };
            rest = rest.get(deletes..)?;
            let left = match has_deletes {
                true => rest.iter().take_while(|kind| leaves_row(**kind)).count(),
                false => rest.len(),
            };
            rest = rest.get(left..)?;
            let start = first + done + deletes;
            done += deletes + left;
            (left > 0).then_some(start..start + left)
        })
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the queue holds only runs whose `at` is within the open batch"
    )]
    pub(super) fn sequence(&self) -> i64 {
        self.sequences.values()[self.at]
    }

    #[expect(clippy::indexing_slicing, reason = "as in `sequence`")]
    pub(super) fn kind(&self) -> i8 {
        self.kinds.values()[self.at]
    }

    /// Of two rows of one key, which is older: by `sequence.field`, then by sequence number, then
    /// by place in the manifest.
    pub(super) fn compare_age(&self, other: &Self) -> Ordering {
        self.compare_order(other)
            .then_with(|| self.sequence().cmp(&other.sequence()))
            .then_with(|| self.source.file.cmp(&other.source.file))
    }

    /// Goes so many rows further; false when the open batch has none.
    #[inline]
    pub(super) fn step(&mut self, rows: usize) -> bool {
        self.at += rows;
        self.at < self.sequences.len()
    }

    /// Opens the next batch that has rows; `None` when there is no more. The caller puts it among
    /// its batches and sets `batch`.
    pub(super) async fn load(
        &mut self,
        layout: &Layout,
        opener: &FileOpener,
    ) -> Result<Option<OpenBatch>> {
        loop {
            let batch = match &mut self.stream {
                Some(stream) => stream.try_next().await?,
                None => match self.files.pop_front() {
                    None => return Ok(None),
                    Some(OrderedFile { order, meta }) => {
                        let stream = opener.open(&meta, &layout.wanted, layout.batch_rows);
                        self.stream = Some(stream.await?);
                        self.source = RowSource {
                            file: order,
                            level: meta.level,
                            position: 0,
                        };
                        self.may_have_deletes = meta.delete_row_count != Some(0);
                        self.file_name = meta.file_name;
                        continue;
                    }
                },
            };
            match batch {
                None => self.stream = None,
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => return self.take(layout, &batch).map(Some),
            }
        }
    }

    fn take(&mut self, layout: &Layout, batch: &RecordBatch) -> Result<OpenBatch> {
        let all = batch.columns();
        let behind_keys = layout.values + layout.keys;
        let hidden = all
            .len()
            .saturating_sub(2 + usize::from(layout.with_positions));
        let some = |range: std::ops::Range<usize>| all.get(range).unwrap_or_default();
        let keys = some(layout.values..behind_keys);
        if keys.iter().any(|column| column.null_count() > 0) && !layout.key_order.is_bytes() {
            return Err(self.corrupt("a column of its key is NULL"));
        }
        (self.heads, self.keys) = heads(layout.key_order.wide_keys(keys)?);
        self.check_order()?;
        self.orders = match &layout.sequence_converter {
            Some(converter) => Some(converter.convert_columns(some(behind_keys..hidden))?),
            None => None,
        };
        self.sequences = batch.column(hidden).as_primitive::<Int64Type>().clone();
        self.kinds = batch.column(hidden + 1).as_primitive::<Int8Type>().clone();
        let mut kinds = self.kinds.values().iter();
        self.has_deletes = self.may_have_deletes && !kinds.all(|kind| leaves_row(*kind));
        self.at = 0;
        let mut columns = some(0..layout.values).to_vec();
        columns.push(Arc::new(self.sequences.clone()));
        columns.push(Arc::new(self.kinds.clone()));
        Ok(OpenBatch {
            bytes: batch.get_array_memory_size(),
            columns,
            source: self.source,
            positions: layout
                .with_positions
                .then(|| batch.column(hidden + 2).as_primitive::<Int64Type>().clone()),
        })
    }

    /// Keys of a run ascend; a file that breaks that would silently lose rows here.
    fn check_order(&mut self) -> Result<()> {
        let rows = self.heads.len();
        let first = self.heads.first().copied().unwrap_or(0);
        let behind = match &self.last_key {
            Some((head, key)) => (*head, key.as_slice()) < (first, self.key_at(0)),
            None => true,
        };
        let ascending = match &self.keys {
            None => self.heads.is_sorted_by(|a, b| a < b),
            Some(_) => {
                let heads = self.heads.iter().zip(self.heads.iter().skip(1));
                let mut heads = heads.enumerate();
                heads.all(|(at, (a, b))| a < b || a == b && self.key_at(at) < self.key_at(at + 1))
            }
        };
        if !(behind && ascending) {
            return Err(self.corrupt("its rows are not in the order of the key"));
        }
        let last = self.key_at(rows.saturating_sub(1)).to_vec();
        self.last_key = self.heads.last().map(|head| (*head, last));
        Ok(())
    }

    fn corrupt(&self, message: &str) -> Error {
        Error::Corrupt {
            path: self.file_name.clone(),
            message: message.to_owned(),
        }
    }
}

/// Keys as numbers that compare as they do; and as bytes, where numbers do not tell all of them apart.
fn heads(keys: Keys) -> (Vec<u128>, Option<Rows>) {
    match keys {
        Keys::Narrow(keys) => (keys.into_iter().map(u128::from).collect(), None),
        Keys::Wide(keys) => (keys, None),
        Keys::Bytes(rows) => {
            let heads = rows.iter().map(|key| head(key.data())).collect();
            (heads, Some(rows))
        }
    }
}

/// The first 16 bytes of a key as a number, zeros behind a shorter one: where two of them differ,
/// their order is that of the keys.
fn head(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(key) {
        *to = *from;
    }
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::head;

    /// Heads may be the same for different keys, but never in another order.
    #[test]
    fn heads_are_in_the_order_of_the_keys() {
        let long = |last: u8| [&[7_u8; 16][..], &[last]].concat();
        let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![1], long(0), long(9)];
        for first in [0, 1, 127, 128, 255] {
            for length in [1, 8, 9, 15, 16, 17, 40] {
                let mut key = vec![first; length];
                keys.push(key.clone());
                key.insert(length / 2, 128);
                keys.push(key);
            }
        }
        for a in &keys {
            for b in &keys {
                let by_head = head(a).cmp(&head(b));
                assert!(by_head.is_eq() || by_head == a.cmp(b), "{a:?} {b:?}");
                assert_eq!(by_head.then_with(|| a.cmp(b)), a.cmp(b));
            }
        }
    }
}
