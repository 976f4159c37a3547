//! Merges some sorted runs of a compaction before the others, where not all of them can be open at the
//! same time in the memory that it has.
//!
//! What comes out is a [spill](Spill): a run of rows in the order of the merge, of which each still
//! tells its file. Where the newest row of a key is all that counts, older ones are left out: the
//! newest of the newest is the newest, in whatever order they are compared, because what is compared
//! (`sequence.field`, sequence number, place in the manifest) is an order of all rows of a key. With
//! every other engine all rows stay: a partial result would not merge with the rest as its rows do. A
//! retract takes something back from rows that may be in another run, of the row at the lowest level
//! the levels above are to be forgotten, and a changelog compares the row at the top level. So only
//! the last merge calls the merge function, with the same groups as if all were merged at once.
//!
//! The smallest runs are merged first, as many as fit: large ones are read and written once more only
//! where nothing else helps. Two runs always count as few enough.

use std::sync::Arc;

use object_store::{ObjectStore, path::Path};
use uuid::Uuid;

use crate::{
    data_type::DataField,
    error::{Error, Result},
    merge::MergeFunction,
    read::{
        FileOpener, Inputs, KIND, OrderedFile, SEQUENCE, Section, SortedMerge, SortedRun, Spill,
        SpillShape, SpillWriter, Wanted,
    },
};

/// Of the memory for reading, what a block of a spill takes when it is decoded.
const BLOCK_SHARE: u64 = 32;
const BLOCK_BYTES_MIN: u64 = if cfg!(test) { 512 } else { 64 << 10 };

/// How the rows of a bucket are merged.
pub(super) struct Passes<'a> {
    pub(super) store: &'a Arc<dyn ObjectStore>,
    /// Of the bucket.
    pub(super) folder: &'a str,
    pub(super) columns: &'a [DataField],
    pub(super) keys: &'a [DataField],
    pub(super) function: &'a Arc<dyn MergeFunction>,
    /// The function's result is all that the last merge hands on; else it hands on groups.
    pub(super) is_plain: bool,
    pub(super) with_positions: bool,
    /// For reading, bytes.
    pub(super) memory_bytes: u64,
    /// Spills that are not removed yet.
    pub(super) made: Vec<Path>,
}

/// A sorted run, and what it takes.
struct Input {
    of: Of,
    /// Memory while it is open.
    open_bytes: u64,
    /// As it is stored.
    bytes: u64,
}

enum Of {
    Files(SortedRun),
    Spill(Spill),
}

impl Passes<'_> {
    /// Makes few enough runs of those of a section, and says how to open them.
    pub(super) async fn few_enough(
        &mut self,
        section: Section,
        opener: &FileOpener,
    ) -> Result<(Inputs, FileOpener)> {
        if section.len() <= 2 {
            return Ok((section.into(), opener.clone()));
        }
        let shape = self.shape(&section);
        let mut inputs = self.inputs(section, opener).await?;
        let usual = opener.clone().with_memory(self.memory_bytes);
        if open_bytes(&inputs) <= self.memory_bytes / 2 {
            return Ok((self.all(inputs), usual));
        }
        let limit = self.memory_bytes / 4 * 3;
        while open_bytes(&inputs) > limit && inputs.len() > 2 {
            // Largest first: the smallest are taken from the end.
            inputs.sort_by_key(|input| std::cmp::Reverse(input.bytes));
            let taken = self.taken(&inputs, limit);
            if taken == inputs.len() {
                break;
            }
            let some = inputs.split_off(inputs.len() - taken);
            inputs.push(self.merged(some, shape.clone(), opener).await?);
        }
        let left = self.left(&inputs);
        Ok((self.all(inputs), opener.clone().with_memory(left)))
    }

    fn shape(&self, section: &Section) -> SpillShape {
        let files = section.iter().flatten();
        let levels = files.map(|file| (file.order, file.meta.level));
        SpillShape {
            levels: Arc::new(levels.collect()),
            with_positions: self.with_positions,
            repeats: !self.newest_only(),
        }
    }

    fn newest_only(&self) -> bool {
        self.is_plain && self.function.takes_the_last()
    }

    fn all(&self, inputs: Vec<Input>) -> Inputs {
        let mut all = Inputs::default();
        for input in inputs {
            match input.of {
                Of::Files(run) => all.section.push(run),
                Of::Spill(spill) => all.spills.push(spill),
            }
        }
        all
    }

    /// How many of the last inputs are merged: until enough is saved, and as many as can be open.
    fn taken(&self, inputs: &[Input], limit: u64) -> usize {
        let excess = open_bytes(inputs).saturating_sub(limit);
        let mut taken = 0;
        let mut bytes = 0_u64;
        for input in inputs.iter().rev() {
            let together = bytes.saturating_add(input.open_bytes);
            let saved = bytes.saturating_sub(2 * self.block_bytes());
            if taken >= 2 && (together > limit || saved >= excess) {
                break;
            }
            taken += 1;
            bytes = together;
        }
        taken
    }

    fn block_bytes(&self) -> u64 {
        (self.memory_bytes / BLOCK_SHARE).max(BLOCK_BYTES_MIN)
    }

    /// Memory for the files that these have open, apart from what they take at least.
    fn left(&self, inputs: &[Input]) -> u64 {
        self.memory_bytes.saturating_sub(open_bytes(inputs))
    }

    async fn inputs(&self, section: Section, opener: &FileOpener) -> Result<Vec<Input>> {
        let wanted = Wanted::new(self.columns.to_vec(), &[SEQUENCE, KIND]);
        let enough = self.memory_bytes / 2 / section.len().max(1) as u64;
        let mut inputs = Vec::with_capacity(section.len());
        for run in section {
            let mut input = Input {
                of: Of::Files(SortedRun::new()),
                open_bytes: 0,
                bytes: 0,
            };
            for OrderedFile { meta, .. } in &run {
                let least = opener.least_bytes(meta, &wanted, enough).await?;
                input.open_bytes = input.open_bytes.max(least);
                let size = u64::try_from(meta.file_size).unwrap_or(0);
                input.bytes = input.bytes.saturating_add(size);
            }
            input.of = Of::Files(run);
            inputs.push(input);
        }
        Ok(inputs)
    }

    /// Merges some runs into a spill, and removes the spills among them.
    async fn merged(
        &mut self,
        inputs: Vec<Input>,
        shape: SpillShape,
        opener: &FileOpener,
    ) -> Result<Input> {
        let path = format!("{}/spill-{}", self.folder, Uuid::new_v4());
        let path = Path::parse(path).map_err(|error| Error::Internal(error.to_string()))?;
        tracing::debug!(%path, runs = inputs.len(), "some sorted runs are merged first");
        let opener = opener.clone().with_memory(self.left(&inputs));
        #[cfg(test)]
        tests::PASSES.with_borrow_mut(|passes| passes.push(open_bytes(&inputs)));
        let inputs = self.all(inputs);
        let used: Vec<Path> = inputs.spills.iter().map(|it| it.path().clone()).collect();
        self.made.push(path.clone());
        let block_bytes = usize::try_from(self.block_bytes()).unwrap_or(usize::MAX);
        let mut writer = SpillWriter::new(self.store, path, shape, block_bytes);
        let spill = match self.write(inputs, opener, &mut writer).await {
            Ok(()) => writer.finish().await?,
            Err(error) => {
                writer.abort().await;
                return Err(error);
            }
        };
        for path in used {
            self.remove(&path).await;
        }
        Ok(Input {
            open_bytes: spill.open_bytes(),
            bytes: spill.bytes(),
            of: Of::Spill(spill),
        })
    }

    async fn write(
        &self,
        inputs: Inputs,
        opener: FileOpener,
        writer: &mut SpillWriter,
    ) -> Result<()> {
        let (columns, keys) = (self.columns, self.keys);
        if self.newest_only() {
            let function = self.function.clone();
            let merge = SortedMerge::open(opener, inputs, columns, keys, function);
            let mut merge = merge.await?.with_sources();
            while let Some(merged) = merge.next().await? {
                writer.write(&merged.rows, &merged.sources).await?;
            }
            return Ok(());
        }
        let merge = SortedMerge::open_groups(opener, inputs, columns, keys, self.with_positions);
        let mut merge = merge.await?;
        while let Some(groups) = merge.next_groups().await? {
            writer.write(&groups.rows, &groups.sources).await?;
        }
        Ok(())
    }

    /// Removes all that was made. What cannot be removed is left to orphan cleaning.
    pub(super) async fn remove_all(&mut self) {
        for path in self.made.clone() {
            self.remove(&path).await;
        }
    }

    async fn remove(&mut self, path: &Path) {
        if let Err(error) = crate::storage::delete(self.store.as_ref(), path).await {
            tracing::warn!(%path, %error, "cannot delete what a compaction made for itself");
        }
        self.made.retain(|made| made != path);
    }
}

fn open_bytes(inputs: &[Input]) -> u64 {
    let bytes = inputs.iter().map(|input| input.open_bytes);
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
