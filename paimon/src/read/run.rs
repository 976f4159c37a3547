//! A sorted run of a section, read batch by batch, and what the heap compares of its rows.

use std::{cmp::Ordering, collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{
    ArrayRef, Int8Array, Int32Array, Int64Array,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_row::Rows;
use futures::TryStreamExt;

use crate::{
    error::{Error, Result},
    key_order::Keys,
};

use super::{
    bucket::leaves_row,
    file::{FileOpener, FileStream},
    layout::Layout,
    section::{OrderedFile, SortedRun},
    spill::{Block, Spill, SpillReader},
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

/// The columns of a batch that are handed on, then sequence numbers and kinds.
#[derive(Debug, Clone)]
pub(super) struct OpenBatch {
    pub(super) columns: Vec<ArrayRef>,
    source: RowSource,
    /// Of rows that come from several files: which, and the level of each.
    files: Option<(Int32Array, Arc<HashMap<usize, i32>>)>,
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
        let position = position.copied().unwrap_or(0);
        let Some((files, levels)) = &self.files else {
            return RowSource {
                position,
                ..self.source
            };
        };
        let file = files.values().get(row).map_or(0, |file| *file as usize);
        RowSource {
            file,
            level: levels.get(&file).copied().unwrap_or(0),
            position,
        }
    }
}

/// What a run has left to open.
enum Rest {
    Files(SortedRun),
    Spill(SpillReader),
}

/// A sorted run and its open batch.
pub(super) struct Run {
    rest: Rest,
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
    /// Which file each row is from, where that is not the open one.
    row_files: Option<Int32Array>,
    /// Keys may have several rows.
    repeats: bool,
    /// The greatest key of the batch before, of the same file or not.
    last_key: Option<(u128, Vec<u8>)>,
    /// Which of the merge's batches is open.
    pub(super) batch: usize,
    /// Row of the open batch.
    pub(super) at: usize,
}

impl Run {
    pub(super) fn new(files: SortedRun) -> Self {
        Self::of(Rest::Files(files))
    }

    /// Of rows that were merged before.
    pub(super) fn spilled(spill: Spill) -> Self {
        let reader = SpillReader::new(spill);
        Self {
            repeats: reader.shape().repeats,
            file_name: reader.name(),
            may_have_deletes: true,
            ..Self::of(Rest::Spill(reader))
        }
    }

    fn of(rest: Rest) -> Self {
        Self {
            rest,
            row_files: None,
            repeats: false,
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

    /// Rows of the open batch from here on that are all there is of their keys, since they come before
    /// another run's next key: all of it, where there is no other run, and none where the run itself may
    /// have several of a key. Looked for in steps that double, so that a few rows take a few
    /// comparisons and many not many more.
    pub(super) fn rows_before(&self, other: Option<&Self>) -> usize {
        if self.repeats {
            return 0;
        }
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
            .then_with(|| self.file().cmp(&other.file()))
    }

    fn file(&self) -> usize {
        let of_row = self.row_files.as_ref();
        let of_row = of_row.and_then(|files| files.values().get(self.at));
        of_row.map_or(self.source.file, |file| *file as usize)
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
            let batch = match (&mut self.stream, &mut self.rest) {
                (Some(stream), _) => stream.try_next().await?,
                (None, Rest::Spill(spill)) => {
                    return match spill.next().await? {
                        Some(block) => self.take_block(layout, block).map(Some),
                        None => Ok(None),
                    };
                }
                (None, Rest::Files(files)) => match files.pop_front() {
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
                Some(batch) => {
                    let bytes = batch.get_array_memory_size();
                    return self.take(layout, batch.columns(), bytes).map(Some);
                }
            }
        }
    }

    /// A block of a spill has its columns once.
    fn take_block(&mut self, layout: &Layout, block: Block) -> Result<OpenBatch> {
        let Rest::Spill(reader) = &self.rest else {
            return Err(Error::Internal("a block of no spill".into()));
        };
        let levels = reader.shape().levels.clone();
        let without = || Error::Internal("a spill without the columns of the key".into());
        let mut all = block.columns;
        let system = all.split_off(layout.values.min(all.len()));
        for place in layout.among.as_ref().ok_or_else(without)? {
            all.push(all.get(*place).ok_or_else(without)?.clone());
        }
        all.extend(system);
        if layout.with_positions {
            let positions = block.positions.ok_or_else(without)?;
            all.push(Arc::new(positions));
        }
        self.row_files = Some(block.files.clone());
        let batch = self.take(layout, &all, block.bytes)?;
        Ok(OpenBatch {
            files: Some((block.files, levels)),
            ..batch
        })
    }

    fn take(&mut self, layout: &Layout, all: &[ArrayRef], bytes: usize) -> Result<OpenBatch> {
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
        let (sequences, kinds, positions) = match some(hidden..all.len()) {
            [sequences, kinds] => (sequences, kinds, None),
            [sequences, kinds, positions] => (sequences, kinds, Some(positions)),
            _ => return Err(Error::Internal("a batch without sequence numbers".into())),
        };
        self.sequences = sequences.as_primitive::<Int64Type>().clone();
        self.kinds = kinds.as_primitive::<Int8Type>().clone();
        let mut kinds = self.kinds.values().iter();
        self.has_deletes = self.may_have_deletes && !kinds.all(|kind| leaves_row(*kind));
        self.at = 0;
        let mut columns = some(0..layout.values).to_vec();
        columns.push(Arc::new(self.sequences.clone()));
        columns.push(Arc::new(self.kinds.clone()));
        Ok(OpenBatch {
            bytes,
            columns,
            source: self.source,
            files: None,
            positions: positions.map(|it| it.as_primitive::<Int64Type>().clone()),
        })
    }

    /// Keys of a run ascend; a file that breaks that would silently lose rows here.
    fn check_order(&mut self) -> Result<()> {
        let rows = self.heads.len();
        let first = self.heads.first().copied().unwrap_or(0);
        let repeats = self.repeats;
        let follows = |a: &[u8], b: &[u8]| a < b || repeats && a == b;
        let behind = match &self.last_key {
            Some((head, key)) => *head < first || *head == first && follows(key, self.key_at(0)),
            None => true,
        };
        let ascending = match &self.keys {
            None if repeats => self.heads.is_sorted(),
            None => self.heads.is_sorted_by(|a, b| a < b),
            Some(_) => {
                let heads = self.heads.iter().zip(self.heads.iter().skip(1));
                let mut heads = heads.enumerate();
                heads.all(|(at, (a, b))| {
                    a < b || a == b && follows(self.key_at(at), self.key_at(at + 1))
                })
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
