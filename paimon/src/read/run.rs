//! A sorted run of a section, read batch by batch, and what the heap compares of its rows.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use arrow_array::{
    ArrayRef, Int8Array, Int32Array, Int64Array,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use futures::TryStreamExt;

use crate::{
    data_type::DataField,
    error::{Error, Result},
    schema::Schema,
};

use super::{
    file::{FileOpener, FileStream, KIND, POSITION, SEQUENCE, Wanted},
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

/// What is read of the files of a merge, and how their rows are compared.
pub(super) struct Layout {
    wanted: Wanted,
    /// Columns that are handed on; behind them those of the key, then those of `sequence.field`.
    values: usize,
    keys: usize,
    key_converter: RowConverter,
    /// For tables with `sequence.field`.
    sequence_converter: Option<RowConverter>,
    /// Where the key's columns and those of `sequence.field` stand among those that are handed on,
    /// if they all do.
    among: Option<Vec<usize>>,
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
        let converter = |fields: &[DataField], options: SortOptions| {
            let fields = fields
                .iter()
                .map(|field| SortField::new_with_options(field.data_type.arrow(), options))
                .collect();
            RowConverter::new(fields)
        };
        let sequence_converter = match sequence.fields.as_slice() {
            [] => None,
            fields => Some(converter(fields, sequence.options)?),
        };
        let system: &'static [&'static str] = match with_positions {
            true => &[SEQUENCE, KIND, POSITION],
            false => &[SEQUENCE, KIND],
        };
        let behind = keys.iter().chain(&sequence.fields);
        let place = |field: &DataField| columns.iter().position(|column| column.id == field.id);
        Ok(Self {
            among: behind.map(place).collect(),
            wanted: Wanted::new(all.cloned().collect(), system),
            with_positions,
            values: columns.len(),
            keys: keys.len(),
            key_converter: converter(keys, SortOptions::default())?,
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
    keys: Option<Rows>,
    /// The [`head`] of each key.
    heads: Vec<u128>,
    orders: Option<Rows>,
    sequences: Int64Array,
    kinds: Int8Array,
    /// Which file each row is from, where that is not the open one.
    row_files: Option<Int32Array>,
    /// Keys may have several rows.
    repeats: bool,
    /// The greatest key of the batch before, of the same file or not.
    last_key: Option<Vec<u8>>,
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
            keys: None,
            heads: Vec::new(),
            orders: None,
            sequences: Int64Array::from(Vec::<i64>::new()),
            kinds: Int8Array::from(Vec::<i8>::new()),
            last_key: None,
            batch: 0,
            at: 0,
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        match &self.keys {
            Some(rows) if self.at < rows.num_rows() => rows.row(self.at).data(),
            _ => &[],
        }
    }

    /// The beginning of the key; different for different keys that are short.
    pub(super) fn head(&self) -> u128 {
        self.heads.get(self.at).copied().unwrap_or(0)
    }

    /// The order of two keys: most differ in their heads, and these are one comparison.
    pub(super) fn compare_key(&self, other: &Self) -> Ordering {
        self.head()
            .cmp(&other.head())
            .then_with(|| self.key().cmp(other.key()))
    }

    /// Value of `sequence.field`, comparable.
    fn order(&self) -> &[u8] {
        match &self.orders {
            Some(rows) if self.at < rows.num_rows() => rows.row(self.at).data(),
            _ => &[],
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the heap holds only runs whose `at` is within the open batch"
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
        self.order()
            .cmp(other.order())
            .then_with(|| self.sequence().cmp(&other.sequence()))
            .then_with(|| self.file().cmp(&other.file()))
    }

    fn file(&self) -> usize {
        let of_row = self.row_files.as_ref();
        let of_row = of_row.and_then(|files| files.values().get(self.at));
        of_row.map_or(self.source.file, |file| *file as usize)
    }

    /// Goes to the next row; false when the open batch has none.
    pub(super) fn step(&mut self) -> bool {
        self.at += 1;
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
        let keys = layout
            .key_converter
            .convert_columns(some(layout.values..behind_keys))?;
        self.heads.clear();
        self.heads.extend(keys.iter().map(|key| head(key.data())));
        self.check_order(&keys)?;
        self.orders = match &layout.sequence_converter {
            Some(converter) => Some(converter.convert_columns(some(behind_keys..hidden))?),
            None => None,
        };
        self.keys = Some(keys);
        let (sequences, kinds, positions) = match some(hidden..all.len()) {
            [sequences, kinds] => (sequences, kinds, None),
            [sequences, kinds, positions] => (sequences, kinds, Some(positions)),
            _ => return Err(Error::Internal("a batch without sequence numbers".into())),
        };
        self.sequences = sequences.as_primitive::<Int64Type>().clone();
        self.kinds = kinds.as_primitive::<Int8Type>().clone();
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
    fn check_order(&mut self, keys: &Rows) -> Result<()> {
        let first = keys.iter().next();
        let repeats = self.repeats;
        let follows = |a: &[u8], b: &[u8]| a < b || repeats && a == b;
        let behind = match (&self.last_key, first) {
            (Some(last), Some(first)) => follows(last, first.data()),
            _ => true,
        };
        let heads = self.heads.iter().zip(self.heads.iter().skip(1));
        let ascending = heads.enumerate().all(|(at, (a, b))| {
            a < b || a == b && follows(keys.row(at).data(), keys.row(at + 1).data())
        });
        if behind && ascending {
            self.last_key = keys.iter().next_back().map(|key| key.data().to_vec());
            return Ok(());
        }
        Err(Error::Corrupt {
            path: self.file_name.clone(),
            message: "its rows are not in the order of the key".into(),
        })
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
