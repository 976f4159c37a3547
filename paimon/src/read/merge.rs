//! Merges the sorted runs of a section, key by key, in memory bounded by the number of runs.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array, ArrayRef,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_select::interleave::interleave;

use crate::{
    compact::take_rows,
    data_file::KeyValueBatch,
    data_type::DataField,
    error::{Error, Result},
    merge::{Groups, MergeFunction},
    schema::Schema,
    table_options::{MergeEngine, TableOptions},
};

use super::{
    bucket::{BATCH_ROWS, leaves_row},
    file::FileOpener,
    run::{Layout, OpenBatch, RowSource, Run},
    section::Section,
    spill::Spill,
};

/// Rows that all runs together hold decoded, about. Wide ones come in smaller batches: see
/// [`FileOpener::with_memory`].
const OPEN_ROWS: usize = 128 << 10;
/// Bytes of batches that are done and held for what was picked from them: with less, pieces that are
/// handed on are small.
const DONE_BYTES_MIN: usize = 1 << 20;
/// Bytes of the rows that are handed on at a time, about.
const PICKED_BYTES: usize = 4 << 20;

/// Rows that a merge hands on, by key.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The columns asked for, sequence numbers and kinds.
    pub(crate) rows: KeyValueBatch,
    /// Where each row came from (a row made of several: where the newest of them did).
    pub(crate) sources: Vec<RowSource>,
}

/// All rows of some keys, not merged.
#[derive(Debug)]
pub(crate) struct KeyGroups {
    /// Rows in the order of their key, those of one key from the oldest to the newest.
    pub(crate) rows: KeyValueBatch,
    /// Where each key's rows end (exclusive), ascending.
    pub(crate) ends: Vec<usize>,
    /// Where each row came from.
    pub(crate) sources: Vec<RowSource>,
}

/// What is merged: sorted runs of a section, and rows of others of it that were merged before.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) section: Section,
    pub(crate) spills: Vec<Spill>,
}

impl From<Section> for Inputs {
    fn from(section: Section) -> Self {
        let spills = Vec::new();
        Self { section, spills }
    }
}

impl Inputs {
    fn len(&self) -> usize {
        self.section.len() + self.spills.len()
    }
}

/// A k-way merge over the sorted runs of a section.
///
/// Rows of one key are ordered by `sequence.field`, if the table has one, then by sequence number,
/// then by place in the manifest. What becomes of them is the merge function's to say; where it
/// [takes the last](MergeFunction::takes_the_last), only that one is gathered, which is cheaper.
/// Each run holds one decoded batch; a file of the section is opened when its run comes to it.
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
    runs: Vec<Run>,
    /// The first run of the heap, when its open batch is used up.
    used_up: Option<usize>,
    /// Positions in `runs`, a binary heap by [`SortedMerge::precedes`]: the first has the next row.
    heap: Vec<usize>,
    /// Batches that the runs and `picked` refer to.
    batches: Vec<OpenBatch>,
    /// Bytes of those that no run has open any more.
    done_bytes: usize,
    done_bytes_max: usize,
    /// Rows that are handed on at a time, as wide as they are now.
    picked_max: usize,
    /// Rows to be handed on: which batch, which row.
    picked: Vec<(usize, usize)>,
    /// Where the complete groups of `picked` end; not used with `newest_only`.
    ends: Vec<usize>,
    /// Key of the row looked at last.
    last_key: Option<Vec<u8>>,
    /// Its beginning, as [`Run::head`] has it.
    last_head: u128,
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

/// Of each key the rows of level 0 and that of the lowest level above.
fn counting(groups: KeyGroups) -> Result<KeyGroups> {
    let level = |row: &usize| groups.sources.get(*row).map_or(0, |source| source.level);
    let mut kept: Vec<u64> = Vec::with_capacity(groups.rows.rows());
    let mut ends = Vec::with_capacity(groups.ends.len());
    let mut begin = 0;
    for end in &groups.ends {
        let above = (begin..*end).filter(|row| level(row) > 0);
        let lowest = above.min_by_key(level);
        let counts = (begin..*end).filter(|row| level(row) == 0 || Some(*row) == lowest);
        kept.extend(counts.map(|row| row as u64));
        ends.push(kept.len());
        begin = *end;
    }
    if kept.len() == groups.rows.rows() {
        return Ok(groups);
    }
    let sources = kept
        .iter()
        .filter_map(|row| groups.sources.get(usize::try_from(*row).ok()?).copied())
        .collect();
    Ok(KeyGroups {
        rows: take_rows(&groups.rows, &kept.into())?,
        ends,
        sources,
    })
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
        let batch_rows = (OPEN_ROWS / inputs.len().max(1)).clamp(64, BATCH_ROWS);
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
        let memory_bytes = usize::try_from(opener.memory_bytes()).unwrap_or(usize::MAX);
        let count = inputs.len();
        let Inputs { section, spills } = inputs;
        let mut merge = Self {
            layout,
            function,
            newest_only,
            lowest_is_all,
            drops_deletes: false,
            used_up: None,
            heap: Vec::with_capacity(count),
            opener: opener.among(section.len()),
            runs: {
                let spilled = spills.into_iter().map(Run::spilled);
                section.into_iter().map(Run::new).chain(spilled).collect()
            },
            batches: Vec::new(),
            done_bytes: 0,
            done_bytes_max: (memory_bytes / 6).max(DONE_BYTES_MIN),
            picked_max: BATCH_ROWS,
            picked: Vec::with_capacity(BATCH_ROWS),
            ends: Vec::new(),
            last_key: None,
            last_head: 0,
        };
        for run in 0..merge.runs.len() {
            if merge.load(run).await? {
                merge.heap.push(run);
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        Ok(merge)
    }

    /// Leaves deletes out, as far as that can be done before rows are gathered: with a function
    /// that does not take the last row, they still come.
    pub(crate) fn dropping_deletes(mut self) -> Self {
        self.drops_deletes = self.newest_only;
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
            let newest = |group: &usize| {
                let end = groups.ends.get(*group)?;
                groups.sources.get(end.checked_sub(1)?).copied()
            };
            let sources: Vec<RowSource> = of_groups.iter().filter_map(newest).collect();
            if sources.len() != rows.rows() {
                return Err(Error::Internal(
                    "a merge of groups that are not there".into(),
                ));
            }
            if rows.rows() > 0 {
                return Ok(Some(Merged { rows, sources }));
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
                if !self.load(run).await? {
                    self.heap.swap_remove(0);
                }
                self.sift_down(0);
            }
            match self.pick() {
                Halt::Full => return self.flush().map(Some),
                Halt::End if self.picked.is_empty() => return Ok(None),
                Halt::End => {
                    self.ends.push(self.picked.len());
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
            true => self.picked.len(),
            false => self.ends.last().copied().unwrap_or(0),
        }
    }

    /// Picks rows until something has to be done.
    fn pick(&mut self) -> Halt {
        while let Some(first) = self.heap.first().copied() {
            let Some(run) = self.runs.get_mut(first) else {
                return Halt::End;
            };
            let is_new =
                self.last_head != run.head() || self.last_key.as_deref() != Some(run.key());
            if is_new {
                // All that is picked is complete now.
                if !self.newest_only && !self.picked.is_empty() {
                    self.ends.push(self.picked.len());
                }
                if self.picked.len() >= self.picked_max {
                    return Halt::Full;
                }
                self.last_head = run.head();
                let last_key = self.last_key.get_or_insert_default();
                last_key.clear();
                last_key.extend_from_slice(run.key());
            }
            let wanted = is_new || !self.newest_only;
            if wanted && (!self.drops_deletes || leaves_row(run.kind())) {
                self.picked.push((run.batch, run.at));
            }
            if !run.step() {
                return Halt::UsedUp(first);
            }
            self.sift_down(0);
        }
        Halt::End
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
        (PICKED_BYTES / widest.max(1)).clamp(1, BATCH_ROWS)
    }

    /// Bytes of the batches that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    /// Gathers the complete groups.
    fn flush(&mut self) -> Result<KeyGroups> {
        let rest = self.picked.split_off(self.complete());
        let picked = std::mem::replace(&mut self.picked, rest);
        let ends = std::mem::take(&mut self.ends);
        let width = self.batches.first().map_or(0, |batch| batch.columns.len());
        let mut columns = Vec::with_capacity(width);
        // Sequence numbers and kinds are the last two: readers do not look at them.
        let gathered = match self.drops_deletes {
            true => width.saturating_sub(2),
            false => width,
        };
        for column in 0..gathered {
            columns.push(self.gather(column, &picked)?);
        }
        let (sequences, kinds) = match self.drops_deletes {
            true => (
                arrow_array::Int64Array::from_value(0, picked.len()),
                arrow_array::Int8Array::from_value(0, picked.len()),
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
        let source = |(batch, row): &(usize, usize)| {
            let batch = self.batches.get(*batch)?;
            Some(batch.source(*row))
        };
        let groups = KeyGroups {
            sources: match self.drops_deletes {
                true => Vec::new(),
                false => picked.iter().filter_map(source).collect(),
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

    fn gather(&self, column: usize, picked: &[(usize, usize)]) -> Result<ArrayRef> {
        // A large value is not copied.
        if let [(batch, row)] = picked
            && let Some(batch) = self.batches.get(*batch)
            && let Some(array) = batch.columns.get(column)
        {
            return Ok(array.slice(*row, 1));
        }
        let arrays = self
            .batches
            .iter()
            .map(|batch| batch.columns.get(column).map(AsRef::as_ref))
            .collect::<Option<Vec<&dyn Array>>>()
            .ok_or_else(|| Error::Internal(format!("no column {column} in a merge")))?;
        Ok(interleave(&arrays, picked)?)
    }

    /// Drops batches that no run has open and nothing is picked from.
    fn forget_batches(&mut self) {
        let mut kept = Vec::with_capacity(self.heap.len());
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
        let open = self.heap.iter().filter(|run| self.used_up != Some(**run));
        for run in open {
            if let Some(run) = self.runs.get_mut(*run) {
                run.batch = keep(run.batch);
            }
        }
        for (batch, _) in &mut self.picked {
            *batch = keep(*batch);
        }
        let open = self.heap.len() - usize::from(self.used_up.is_some());
        let done = kept.get(open..).unwrap_or_default().iter();
        self.done_bytes = done.map(|batch| batch.bytes).sum();
        self.batches = kept;
    }

    /// Whether run `a` has its row before run `b`: the smaller key; of equal ones the newer row if
    /// only that counts, else the older one.
    fn precedes(&self, a: usize, b: usize) -> bool {
        let (Some(a), Some(b)) = (self.runs.get(a), self.runs.get(b)) else {
            return false;
        };
        let by_age = || match self.newest_only {
            true => b.compare_age(a),
            false => a.compare_age(b),
        };
        a.compare_key(b).then_with(by_age) == Ordering::Less
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
