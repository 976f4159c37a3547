//! Merges sorted runs: of each key the row with the highest sequence number, unless it is a delete.

use std::cmp::Ordering;

use arrow_array::{
    Int8Array, Int64Array, RecordBatch,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_select::interleave::interleave_record_batch;
use futures::TryStreamExt;

use crate::{
    data_type::DataField,
    error::{Error, Result},
};

use super::{
    bucket::{BATCH_ROWS, leaves_row},
    file::{FileOpener, FileStream, KIND, SEQUENCE, Wanted},
    section::{OrderedFile, Section, SortedRun},
};

/// Rows that all runs together hold decoded, about.
const OPEN_ROWS: usize = 128 << 10;

/// A k-way merge over the runs of a section.
pub(super) struct Merge {
    runs: Vec<Run>,
    /// Positions in `runs`, a binary heap by [`Merge::precedes`]: the first has the next row.
    heap: Vec<usize>,
    /// Value columns of the batches that the runs and `picked` refer to.
    batches: Vec<RecordBatch>,
    /// Rows to be handed on: which batch, which row.
    picked: Vec<(usize, usize)>,
    /// Key of the row looked at last.
    last_key: Vec<u8>,
    converter: RowConverter,
    wanted: Wanted,
    /// How many of the wanted columns are handed on; the key columns follow them.
    values: usize,
    keys: usize,
    batch_rows: usize,
}

/// A sorted run and its open batch.
struct Run {
    files: SortedRun,
    stream: Option<FileStream>,
    /// Place in the manifest of the open file, and its name for errors.
    order: usize,
    file_name: String,
    rows: Option<Rows>,
    sequences: Int64Array,
    kinds: Int8Array,
    /// Which of the batches is open.
    batch: usize,
    at: usize,
}

impl Run {
    fn key(&self) -> &[u8] {
        match &self.rows {
            Some(rows) if self.at < rows.num_rows() => rows.row(self.at).data(),
            _ => &[],
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the heap holds only runs whose `at` is within the open batch"
    )]
    fn sequence(&self) -> i64 {
        self.sequences.values()[self.at]
    }

    #[expect(clippy::indexing_slicing, reason = "as in `sequence`")]
    fn kind(&self) -> i8 {
        self.kinds.values()[self.at]
    }
}

impl Merge {
    pub(super) async fn open(
        section: Section,
        fields: &[DataField],
        keys: &[DataField],
        opener: &mut FileOpener,
    ) -> Result<Self> {
        // Key columns once more at the end: they may not be among those handed on.
        let columns = fields.iter().chain(keys).cloned().collect();
        let converter = RowConverter::new(
            keys.iter()
                .map(|key| SortField::new(key.data_type.arrow()))
                .collect(),
        )?;
        let mut merge = Self {
            batch_rows: (OPEN_ROWS / section.len().max(1)).clamp(64, BATCH_ROWS),
            runs: Vec::with_capacity(section.len()),
            heap: Vec::with_capacity(section.len()),
            batches: Vec::new(),
            picked: Vec::with_capacity(BATCH_ROWS),
            last_key: Vec::new(),
            converter,
            wanted: Wanted::new(columns, &[SEQUENCE, KIND]),
            values: fields.len(),
            keys: keys.len(),
        };
        for files in section {
            let run = merge.runs.len();
            merge.runs.push(Run {
                files,
                stream: None,
                order: 0,
                file_name: String::new(),
                rows: None,
                sequences: Int64Array::from(Vec::<i64>::new()),
                kinds: Int8Array::from(Vec::<i8>::new()),
                batch: 0,
                at: 0,
            });
            if merge.load(run, opener).await? {
                merge.heap.push(run);
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        Ok(merge)
    }

    /// The next batch of rows; `None` at the end.
    pub(super) async fn next(&mut self, opener: &mut FileOpener) -> Result<Option<RecordBatch>> {
        loop {
            let exhausted = self.pick();
            let Some(run) = exhausted else {
                let done = self.heap.is_empty();
                if done && self.picked.is_empty() {
                    return Ok(None);
                }
                return self.flush().map(Some);
            };
            if !self.load(run, opener).await? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
            // The batches that are done are held by what was picked from them.
            if self.batches.len() > 2 * self.runs.len() + 16 && !self.picked.is_empty() {
                return self.flush().map(Some);
            }
            if self.batches.len() > 2 * self.runs.len() + 16 {
                self.forget_batches();
            }
        }
    }

    /// Picks rows until a batch is full or the heap is empty (`None`), or until the batch of the
    /// first run is used up: then that run.
    fn pick(&mut self) -> Option<usize> {
        while self.picked.len() < BATCH_ROWS {
            let first = *self.heap.first()?;
            let run = self.runs.get_mut(first)?;
            let rows = run.sequences.len();
            if run.key() != self.last_key.as_slice() || self.last_key.is_empty() {
                self.last_key.clear();
                self.last_key.extend_from_slice(run.key());
                if leaves_row(run.kind()) {
                    self.picked.push((run.batch, run.at));
                }
            }
            run.at += 1;
            if run.at >= rows {
                return Some(first);
            }
            self.sift_down(0);
        }
        None
    }

    /// Opens the next batch of a run; false when it has no more.
    async fn load(&mut self, run: usize, opener: &mut FileOpener) -> Result<bool> {
        let Some(state) = self.runs.get_mut(run) else {
            return Ok(false);
        };
        loop {
            let batch = match &mut state.stream {
                Some(stream) => stream.try_next().await?,
                None => match state.files.pop_front() {
                    None => return Ok(false),
                    Some(OrderedFile { order, meta }) => {
                        let stream = opener.open(&meta, &self.wanted, self.batch_rows).await?;
                        state.stream = Some(stream);
                        state.order = order;
                        state.file_name = meta.file_name;
                        continue;
                    }
                },
            };
            match batch {
                None => state.stream = None,
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    let values: Vec<usize> = (0..self.values).collect();
                    let hidden = self.values + self.keys;
                    let keys = batch.columns().get(self.values..hidden).unwrap_or_default();
                    let rows = self.converter.convert_columns(keys)?;
                    check_order(&rows, &state.file_name)?;
                    state.rows = Some(rows);
                    state.sequences = batch.column(hidden).as_primitive::<Int64Type>().clone();
                    state.kinds = batch.column(hidden + 1).as_primitive::<Int8Type>().clone();
                    state.at = 0;
                    state.batch = self.batches.len();
                    self.batches.push(batch.project(&values)?);
                    return Ok(true);
                }
            }
        }
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let batch = interleave_record_batch(&batches, &self.picked)?;
        self.picked.clear();
        self.forget_batches();
        Ok(batch)
    }

    /// Drops batches that no run has open. Nothing may be picked from them.
    fn forget_batches(&mut self) {
        let mut kept = Vec::with_capacity(self.heap.len());
        for run in &self.heap {
            if let Some(run) = self.runs.get_mut(*run)
                && let Some(batch) = self.batches.get(run.batch)
            {
                run.batch = kept.len();
                kept.push(batch.clone());
            }
        }
        self.batches = kept;
    }

    /// Whether run `a` has its row before run `b`: the smaller key, of equal ones the newer row.
    fn precedes(&self, a: usize, b: usize) -> bool {
        let (Some(a), Some(b)) = (self.runs.get(a), self.runs.get(b)) else {
            return false;
        };
        let newer = || (b.sequence(), b.order).cmp(&(a.sequence(), a.order));
        a.key().cmp(b.key()).then_with(newer) == Ordering::Less
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "every index is compared with the heap's length first"
    )]
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.precedes(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}

/// Keys of a file ascend; a file that breaks that would silently lose rows here.
fn check_order(rows: &Rows, file_name: &str) -> Result<()> {
    let ascending = rows
        .iter()
        .zip(rows.iter().skip(1))
        .all(|(a, b)| a.data() < b.data());
    if ascending {
        return Ok(());
    }
    Err(Error::Corrupt {
        path: file_name.to_owned(),
        message: "its rows are not in the order of the key".into(),
    })
}
