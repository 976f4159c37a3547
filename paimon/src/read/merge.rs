//! Merges the sorted runs of a section, key by key, in memory bounded by the number of runs.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};

use crate::{
    data_file::KeyValueBatch,
    data_type::DataField,
    error::{Error, Result},
    merge::{Groups, MergeFunction},
    schema::Schema,
    table_options::{MergeEngine, TableOptions},
};

use super::{
    bucket::leaves_row,
    file::FileOpener,
    key_groups::{KeyGroups, Merged, counting},
    layout::Layout,
    picked::{Gatherer, Picked},
    run::{OpenBatch, Run},
    run_queue::RunQueue,
    spill::Inputs,
};

/// Rows that all runs together hold decoded, about. Wide ones come in smaller batches: see
/// [`FileOpener::with_memory`].
const OPEN_ROWS: usize = 128 << 10;
/// Rows that a run holds decoded, and that are handed on at a time, at most: batches of a few hundred
/// kilobytes are copied while they are in the processor's cache.
const MERGE_ROWS: usize = 2048;
/// Bytes of batches that are done and held for what was picked from them: with less, pieces that are
/// handed on are small.
const DONE_BYTES_MIN: usize = 1 << 20;
/// Bytes of the rows that are handed on at a time, about.
const PICKED_BYTES: usize = 4 << 20;
/// Rows of a run before the next key of any other from which on they are handed on by themselves, as
/// they are: no copy. Copying fewer takes less than what a batch costs whoever gets it.
const SLICE_ROWS: usize = 256;

/// A k-way merge over the sorted runs of a section.
///
/// Rows of one key are ordered by `sequence.field`, if the table has one, then by sequence number,
/// then by place in the manifest. What becomes of them is the merge function's to say; where it
/// [takes the last](MergeFunction::takes_the_last), only that one is gathered, which is cheaper.
/// Each run holds one decoded batch; a file of the section is opened when its run comes to it.
///
/// A run's rows before the next key of any other run are all there is of their keys: they are found by
/// a search and picked as one stretch. Only keys that several runs have are looked at one by one.
pub(crate) struct SortedMerge {
    opener: FileOpener,
    layout: Layout,
    /// `None`: groups are handed on as they are.
    function: Option<Arc<dyn MergeFunction>>,
    /// Only the newest row of a key is picked.
    newest_only: bool,
    /// Of a key only the rows of level 0 and that of the lowest level above count. Source:
    /// `PrimaryKeyFileStoreTable`, `LookupMergeFunction`: where compactions look older rows up, that
    /// one has those above it merged in, which stand there still.
    lowest_is_all: bool,
    /// Picks no deletes. For readers, and only with `newest_only`.
    drops_deletes: bool,
    /// Somebody wants to know where rows came from.
    with_sources: bool,
    runs: Vec<Run>,
    queue: RunQueue,
    /// The first run of the queue, when its open batch is used up.
    used_up: Option<usize>,
    /// Batches that the runs and `picked` refer to.
    batches: Vec<OpenBatch>,
    /// Bytes of those that no run has open any more.
    done_bytes: usize,
    done_bytes_max: usize,
    /// Rows that are handed on at a time, as wide as they are now.
    picked_max: usize,
    /// Rows to be handed on.
    picked: Picked,
    /// Where the complete groups of `picked` end; not used with `newest_only`.
    ends: Vec<usize>,
    /// The last row picked may get others of its key; not used with `newest_only`.
    is_open: bool,
    /// The last key that several runs had, or may have had.
    last_key: Vec<u8>,
    /// Its number or beginning, as [`Run::head`] has it; `None` before the first.
    last_head: Option<u128>,
}

/// Why picking came to a halt.
enum Halt {
    /// Enough rows.
    Full,
    /// The open batch of the first run is used up.
    UsedUp(usize),
    /// No rows are left.
    End,
}

/// Whether compactions of a table merge what they look up into what they write. Of `first-row` the
/// older row stays, which is the one above.
fn looks_up(schema: &Schema) -> Result<bool> {
    let options = TableOptions::of(schema)?;
    Ok(options.merge.engine != MergeEngine::FirstRow && options.looks_up())
}

impl SortedMerge {
    /// Opens the first file of every run. `keys` are the table's trimmed primary key; `columns`
    /// are what is handed on. A function that does not [take the
    /// last](MergeFunction::takes_the_last) needs all columns of the table, in order.
    pub(crate) async fn open(
        opener: FileOpener,
        inputs: impl Into<Inputs>,
        columns: &[DataField],
        keys: &[DataField],
        function: Arc<dyn MergeFunction>,
    ) -> Result<Self> {
        let newest_only = function.takes_the_last();
        let inputs = inputs.into();
        let layout = Self::layout(&opener, &inputs, columns, keys, false)?;
        Self::begin(opener, inputs, layout, Some(function), newest_only).await
    }

    /// As [`open`](Self::open), for a caller that looks at all rows of a key:
    /// [`next_groups`](Self::next_groups), and at where they came from, `with_positions` to the row.
    pub(crate) async fn open_groups(
        opener: FileOpener,
        inputs: impl Into<Inputs>,
        columns: &[DataField],
        keys: &[DataField],
        with_positions: bool,
    ) -> Result<Self> {
        let inputs = inputs.into();
        let layout = Self::layout(&opener, &inputs, columns, keys, with_positions)?;
        Self::begin(opener, inputs, layout, None, false).await
    }

    fn layout(
        opener: &FileOpener,
        inputs: &Inputs,
        columns: &[DataField],
        keys: &[DataField],
        with_positions: bool,
    ) -> Result<Layout> {
        let batch_rows = (OPEN_ROWS / inputs.len().max(1)).clamp(64, MERGE_ROWS);
        let schema = opener.table().schema();
        Layout::new(schema, columns, keys, batch_rows, with_positions)
    }

    async fn begin(
        opener: FileOpener,
        inputs: Inputs,
        layout: Layout,
        function: Option<Arc<dyn MergeFunction>>,
        newest_only: bool,
    ) -> Result<Self> {
        let schema = opener.table().schema();
        let lowest_is_all = function.is_some() && !newest_only && looks_up(schema)?;
        let with_sources = function.is_none() || lowest_is_all;
        let memory_bytes = usize::try_from(opener.memory_bytes()).unwrap_or(usize::MAX);
        let Inputs { section, spills } = inputs;
        let mut merge = Self {
            layout,
            opener: opener.among(section.len()),
            function,
            newest_only,
            lowest_is_all,
            drops_deletes: false,
            with_sources,
            queue: RunQueue::new(newest_only),
            used_up: None,
            runs: {
                let spilled = spills.into_iter().map(Run::spilled);
                section.into_iter().map(Run::new).chain(spilled).collect()
            },
            batches: Vec::new(),
            done_bytes: 0,
            done_bytes_max: (memory_bytes / 6).max(DONE_BYTES_MIN),
            picked_max: MERGE_ROWS,
            picked: Picked::default(),
            ends: Vec::new(),
            is_open: false,
            last_key: Vec::new(),
            last_head: None,
        };
        let mut with_rows = Vec::with_capacity(merge.runs.len());
        for run in 0..merge.runs.len() {
            if merge.load(run).await? {
                with_rows.push(run);
            }
        }
        merge.queue.fill(&merge.runs, with_rows);
        Ok(merge)
    }

    /// Leaves deletes out, as far as that can be done before rows are gathered: with a function
    /// that does not take the last row, they still come.
    pub(crate) fn dropping_deletes(mut self) -> Self {
        self.drops_deletes = self.newest_only;
        self
    }

    /// Tells of merged rows too where they came from.
    pub(crate) fn with_sources(mut self) -> Self {
        self.with_sources = true;
        self
    }

    /// The next merged rows, deletes among them; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Merged>> {
        loop {
            let Some(groups) = self.advance().await? else {
                return Ok(None);
            };
            let function = match &self.function {
                Some(function) if !self.newest_only => function,
                _ => {
                    return Ok(Some(Merged {
                        rows: groups.rows,
                        sources: groups.sources,
                    }));
                }
            };
            let groups = match self.lowest_is_all {
                true => counting(groups)?,
                false => groups,
            };
            let (rows, of_groups) = function.merge(&Groups {
                rows: &groups.rows,
                ends: &groups.ends,
            })?;
            let are_there = of_groups
                .last()
                .is_none_or(|last| *last < groups.ends.len());
            if of_groups.len() != rows.rows() || !are_there {
                return Err(Error::Internal(
                    "a merge of groups that are not there".into(),
                ));
            }
            if rows.rows() > 0 {
                return Ok(Some(Merged {
                    rows,
                    sources: groups.newest_sources(&of_groups),
                }));
            }
        }
    }

    /// The next rows, whole keys at a time, not merged; `None` at the end. Only for a merge made
    /// by [`open_groups`](Self::open_groups).
    pub(crate) async fn next_groups(&mut self) -> Result<Option<KeyGroups>> {
        self.advance().await
    }

    async fn advance(&mut self) -> Result<Option<KeyGroups>> {
        let batches_max = 2 * self.runs.len() + 16;
        loop {
            if let Some(run) = self.used_up.take() {
                match self.load(run).await? {
                    true => self.queue.moved(&self.runs),
                    false => self.queue.remove(&self.runs),
                }
            }
            match self.pick() {
                Halt::Full => return self.flush().map(Some),
                Halt::End if self.picked.rows() == 0 => return Ok(None),
                Halt::End => {
                    self.close_group();
                    return self.flush().map(Some);
                }
                Halt::UsedUp(run) => {
                    self.used_up = Some(run);
                    self.done_bytes += self.open_bytes(run);
                }
            }
            // Batches that are done are held by what was picked from them. They are given back before
            // the next one is read: of large rows each batch is as large.
            if self.batches.len() > batches_max || self.done_bytes > self.done_bytes_max {
                match self.complete() {
                    0 => self.forget_batches(),
                    _ => return self.flush().map(Some),
                }
            }
        }
    }

    /// Bytes of the open batch of a run.
    fn open_bytes(&self, run: usize) -> usize {
        let run = self.runs.get(run);
        let batch = run.and_then(|run| self.batches.get(run.batch));
        batch.map_or(0, |batch| batch.bytes)
    }

    /// How many of the picked rows belong to complete groups.
    fn complete(&self) -> usize {
        match self.newest_only {
            true => self.picked.rows(),
            false => self.ends.last().copied().unwrap_or(0),
        }
    }

    /// No more rows come of the key of the last row picked.
    fn close_group(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.ends.push(self.picked.rows());
        }
    }

    /// Picks rows until something has to be done.
    fn pick(&mut self) -> Halt {
        while let Some(first) = self.queue.first() {
            let Some(run) = self.runs.get(first) else {
                return Halt::End;
            };
            let is_last = |head| run.has_key(head, &self.last_key);
            let is_new = !self.last_head.is_some_and(is_last);
            let mut rows = 1;
            if is_new {
                let second = self.queue.second(&self.runs);
                let alone = run.rows_before(second.and_then(|second| self.runs.get(second)));
                self.close_group();
                let done = self.picked.rows();
                if done >= self.picked_max || done > 0 && alone >= SLICE_ROWS {
                    return Halt::Full;
                }
                match alone {
                    0 => self.pick_shared(first),
                    _ => {
                        rows = alone.min(self.picked_max - done);
                        self.pick_alone(first, rows);
                    }
                }
            } else if !self.newest_only {
                self.picked.push(run.batch, run.at..run.at + 1);
            }
            match self.runs.get_mut(first).map(|run| run.step(rows)) {
                Some(true) => self.queue.moved(&self.runs),
                _ => return Halt::UsedUp(first),
            }
            if self.picked.rows() >= SLICE_ROWS && rows >= SLICE_ROWS {
                return Halt::Full;
            }
        }
        Halt::End
    }

    /// Picks the first row of a key that other runs have too.
    fn pick_shared(&mut self, run: usize) {
        let Some(run) = self.runs.get(run) else {
            return;
        };
        self.last_head = Some(run.head());
        self.last_key.clear();
        self.last_key.extend_from_slice(run.key());
        if !self.drops_deletes || leaves_row(run.kind()) {
            self.picked.push(run.batch, run.at..run.at + 1);
        }
        self.is_open = !self.newest_only;
    }

    /// Picks rows of keys that no other run has.
    fn pick_alone(&mut self, run: usize, rows: usize) {
        let Some(run) = self.runs.get(run) else {
            return;
        };
        if self.drops_deletes {
            for left in run.without_deletes(rows) {
                self.picked.push(run.batch, left);
            }
            return;
        }
        let done = self.picked.rows();
        self.picked.push(run.batch, run.at..run.at + rows);
        if !self.newest_only {
            self.ends.extend(done + 1..=done + rows);
        }
    }

    /// Opens the next batch of a run; false when it has no more.
    async fn load(&mut self, run: usize) -> Result<bool> {
        let Some(run) = self.runs.get_mut(run) else {
            return Ok(false);
        };
        let Some(batch) = run.load(&self.layout, &self.opener).await? else {
            return Ok(false);
        };
        run.batch = self.batches.len();
        self.batches.push(batch);
        self.picked_max = self.picked_max();
        Ok(true)
    }

    /// Rows that take [`PICKED_BYTES`] when all are like the widest that are open.
    fn picked_max(&self) -> usize {
        let open = self.runs.iter().map(|run| self.batches.get(run.batch));
        let widest = open.flatten().map(OpenBatch::row_bytes).max().unwrap_or(0);
        (PICKED_BYTES / widest.max(1)).clamp(1, MERGE_ROWS)
    }

    /// Bytes of the batches that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    /// Gathers the complete groups.
    fn flush(&mut self) -> Result<KeyGroups> {
        let picked = self.picked.take(self.complete());
        let ends = std::mem::take(&mut self.ends);
        let width = self.batches.first().map_or(0, |batch| batch.columns.len());
        let mut columns = Vec::with_capacity(width);
        // Sequence numbers and kinds are the last two: readers do not look at them.
        let gathered = match self.drops_deletes {
            true => width.saturating_sub(2),
            false => width,
        };
        let gatherer = picked.gatherer();
        for column in 0..gathered {
            columns.push(self.gather(column, &gatherer)?);
        }
        let (sequences, kinds) = match self.drops_deletes {
            true => (
                arrow_array::Int64Array::from_value(0, picked.rows()),
                arrow_array::Int8Array::from_value(0, picked.rows()),
            ),
            false => {
                let (Some(kinds), Some(sequences)) = (columns.pop(), columns.pop()) else {
                    return Err(Error::Internal("a merge without batches".into()));
                };
                (
                    sequences.as_primitive::<Int64Type>().clone(),
                    kinds.as_primitive::<Int8Type>().clone(),
                )
            }
        };
        let source = |(batch, row): (usize, usize)| {
            let batch = self.batches.get(batch)?;
            Some(batch.source(row))
        };
        let groups = KeyGroups {
            sources: match self.with_sources {
                true => picked.places().filter_map(source).collect(),
                false => Vec::new(),
            },
            rows: KeyValueBatch {
                columns,
                sequences,
                kinds,
            },
            ends,
        };
        self.forget_batches();
        Ok(groups)
    }

    fn gather(&self, column: usize, gatherer: &Gatherer<'_>) -> Result<ArrayRef> {
        let arrays = self
            .batches
            .iter()
            .map(|batch| batch.columns.get(column).map(AsRef::as_ref))
            .collect::<Option<Vec<&dyn Array>>>()
            .ok_or_else(|| Error::Internal(format!("no column {column} in a merge")))?;
        gatherer.gather(&arrays)
    }

    /// Drops batches that no run has open and nothing is picked from.
    fn forget_batches(&mut self) {
        let mut kept = Vec::with_capacity(self.queue.len());
        let mut places: Vec<Option<usize>> = vec![None; self.batches.len()];
        let batches = &self.batches;
        let mut keep = |at: usize| match (places.get_mut(at), batches.get(at)) {
            (Some(Some(place)), _) => *place,
            (Some(place), Some(batch)) => {
                kept.push(batch.clone());
                *place.insert(kept.len() - 1)
            }
            _ => at,
        };
        let used_up = self.used_up;
        for run in self.queue.runs().filter(|run| used_up != Some(*run)) {
            if let Some(run) = self.runs.get_mut(run) {
                run.batch = keep(run.batch);
            }
        }
        for stretch in self.picked.stretches_mut() {
            stretch.batch = keep(stretch.batch);
        }
        let open = self.queue.len() - usize::from(used_up.is_some());
        let done = kept.get(open..).unwrap_or_default().iter();
        self.done_bytes = done.map(|batch| batch.bytes).sum();
        self.batches = kept;
    }
}
