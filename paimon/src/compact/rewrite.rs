//! Does what was decided: merges sorted runs into files of a higher level, in a stream.
//!
//! Files that overlap nothing and are large enough only change level. The others are merged section
//! by section, neighbours into one file. Sequence numbers stay.
//!
//! Source: `MergeTreeCompactTask`, `MergeTreeCompactRewriter`, `FileRewriteCompactTask`,
//! `ChangelogMergeTreeRewriter` of `org.apache.paimon.mergetree.compact`.

use std::{collections::HashMap, sync::Arc};

use arrow_array::BooleanArray;
use arrow_array::cast::AsArray;
use arrow_select::filter::{FilterBuilder, FilterPredicate};

use crate::{
    data_file::{CopySource, FileLayout, FilePurpose, KeyValueBatch, RollingWriter},
    data_file_meta::{CompactIncrement, DataFileMeta},
    data_type::{DataField, DataType},
    error::{Error, Result},
    index::deletion_vector::{DeletionVector, DeletionVectors, Width},
    index_manifest::IndexFileMeta,
    merge::MergeFunction,
    read::{
        FileOpener, OrderedFile, RowSource, Section, SortedMerge, SortedRun, matching_rows,
        sections,
    },
    table::Table,
};

use super::{
    changelog::{ChangeRows, FullChangelog},
    expire::{RecordExpiry, WithoutExpired},
    lookup::LookupMerge,
    options::CompactOptions,
    passes::Passes,
    vectors::BucketVectors,
};

/// What is to be compacted in a bucket.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Whole sorted runs, the newest of the bucket; in the order of the manifest.
    pub(crate) files: Vec<DataFileMeta>,
    pub(crate) output_level: i32,
    /// The highest level of the bucket.
    pub(crate) top_level: i32,
    /// No older rows are left that a delete would have to hide.
    pub(crate) drop_deletes: bool,
    /// Each file is rewritten for itself.
    pub(crate) file_by_file: bool,
    /// Files of the levels above the output.
    pub(crate) upper: Vec<DataFileMeta>,
    /// The bucket's files of deletion vectors.
    pub(crate) index: Vec<IndexFileMeta>,
}

/// Where a bucket is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BucketPlace {
    /// A serialized BinaryRow (with the arity prefix).
    pub(crate) partition: Vec<u8>,
    pub(crate) bucket: i32,
}

/// Rewrites files of one table.
#[derive(Debug)]
pub(crate) struct Rewriter {
    table: Table,
    layout: Arc<FileLayout>,
    function: Arc<dyn MergeFunction>,
    expiry: Option<RecordExpiry>,
    style: Style,
    small_file_bytes: u64,
    target_file_bytes: u64,
    force_rewrite: bool,
    keys: Vec<DataField>,
    key_types: Vec<DataType>,
}

/// What else a compaction does with the rows of a key.
#[derive(Debug)]
enum Style {
    Plain,
    Full(FullChangelog),
    Lookup(LookupMerge),
}

/// True for rows that take a row away: −U and −D.
pub(crate) fn retracts(kind: i8) -> bool {
    kind == 1 || kind == 3
}

impl Rewriter {
    pub(crate) fn new(table: &Table, options: &CompactOptions) -> Result<Self> {
        let schema = table.schema();
        let keys: Vec<DataField> = schema
            .trimmed_primary_keys()
            .into_iter()
            .filter_map(|key| schema.field(key))
            .map(|(_, field)| field.clone())
            .collect();
        let style = match FullChangelog::new(schema, options)? {
            Some(changelog) => Style::Full(changelog),
            None => LookupMerge::new(schema, options)?.map_or(Style::Plain, Style::Lookup),
        };
        let expiry = RecordExpiry::of(schema)?;
        let inner = crate::merge::function(schema)?;
        Ok(Self {
            style,
            layout: FileLayout::new(table)?,
            function: match expiry.clone() {
                Some(expiry) => Arc::new(WithoutExpired { inner, expiry }),
                None => inner,
            },
            expiry,
            small_file_bytes: options.small_file_bytes,
            target_file_bytes: options.table.files.target_bytes,
            force_rewrite: options.table.compaction.force_rewrite_all_files,
            key_types: keys.iter().map(|key| key.data_type.clone()).collect(),
            keys,
            table: table.clone(),
        })
    }

    pub(crate) fn key_types(&self) -> &[DataType] {
        &self.key_types
    }

    /// Whether a file holds rows that are to go because they are too old.
    pub(crate) fn expires(&self, file: &DataFileMeta) -> bool {
        let expiry = self.expiry.as_ref();
        expiry.is_some_and(|expiry| expiry.is_due(file))
    }

    /// Compacts, with so much memory for the files that are read. On an error nothing is left behind.
    pub(crate) async fn compact(
        &self,
        place: &BucketPlace,
        unit: &Unit,
        read_bytes: u64,
    ) -> Result<CompactIncrement> {
        let mut work = Work {
            read_bytes,
            vectors: BucketVectors::read(&self.table, &unit.index).await?,
            rewriter: self,
            folder: self
                .table
                .bucket_path(&place.partition, place.bucket)?
                .to_string(),
            place,
            unit,
            done: CompactIncrement::default(),
        };
        let result = work.run().await;
        if let Err(error) = result {
            let written = written(&work.done).cloned().collect::<Vec<_>>();
            self.layout.delete(&work.folder, &written).await;
            return Err(error);
        }
        Ok(work.done)
    }
}

/// Files that a compaction wrote: those that it only moved to another level are not among them.
pub(crate) fn written(done: &CompactIncrement) -> impl Iterator<Item = &DataFileMeta> {
    let is_new = |file: &&DataFileMeta| {
        !done
            .before
            .iter()
            .any(|old| old.file_name == file.file_name)
    };
    done.after
        .iter()
        .filter(is_new)
        .chain(&done.changelog_files)
}

/// One compaction.
struct Work<'a> {
    rewriter: &'a Rewriter,
    place: &'a BucketPlace,
    folder: String,
    unit: &'a Unit,
    read_bytes: u64,
    vectors: BucketVectors,
    done: CompactIncrement,
}

impl Work<'_> {
    async fn run(&mut self) -> Result<()> {
        self.run_files().await?;
        let done = &mut self.done;
        self.vectors.write(&self.rewriter.table, done).await
    }

    async fn run_files(&mut self) -> Result<()> {
        if self.unit.file_by_file {
            for (order, file) in self.unit.files.iter().enumerate() {
                self.rewrite(vec![alone(order, file.clone())]).await?;
            }
            return Ok(());
        }
        let mut neighbours: Vec<Section> = Vec::new();
        for section in sections(&self.rewriter.key_types, &self.unit.files)? {
            match single(&section) {
                Some(file) if !self.is_small(&file.meta) => {
                    let file = file.clone();
                    self.rewrite_neighbours(std::mem::take(&mut neighbours))
                        .await?;
                    self.upgrade(file).await?;
                }
                _ => neighbours.push(section),
            }
        }
        self.rewrite_neighbours(neighbours).await
    }

    fn is_small(&self, file: &DataFileMeta) -> bool {
        u64::try_from(file.file_size).unwrap_or(0) < self.rewriter.small_file_bytes
    }

    /// A small file without neighbours stays as it is, too.
    async fn rewrite_neighbours(&mut self, neighbours: Vec<Section>) -> Result<()> {
        match neighbours.as_slice() {
            [] => Ok(()),
            [section] if let Some(file) = single(section) => self.upgrade(file.clone()).await,
            _ => self.rewrite(neighbours).await,
        }
    }

    /// Changes a file's level, or rewrites it where it cannot stay as it is.
    async fn upgrade(&mut self, file: OrderedFile) -> Result<()> {
        let unit = self.unit;
        let deletes = file.meta.delete_row_count.is_none_or(|count| count > 0);
        let at_top = unit.output_level == unit.top_level;
        // With deletion vectors readers would take a delete above level 0 for a row.
        let is_new = self.deletes_above() && file.meta.level == 0;
        let drops = deletes && unit.drop_deletes && (at_top || is_new);
        if self.rewriter.force_rewrite || drops || self.rewriter.expires(&file.meta) {
            return self.rewrite(vec![alone(file.order, file.meta)]).await;
        }
        if file.meta.level == unit.output_level {
            return Ok(());
        }
        match &self.rewriter.style {
            Style::Full(_) if at_top => {
                self.merge(vec![alone(file.order, file.meta.clone())], false)
                    .await?;
            }
            Style::Lookup(lookup) if file.meta.level == 0 => {
                let section = alone(file.order, file.meta.clone());
                if !at_top && (!lookup.newest_is_all || self.may_be_older(&file.meta)) {
                    return self.rewrite(vec![section]).await;
                }
                if lookup.makes_changelog || lookup.deletes_above && !at_top {
                    self.merge(vec![section], false).await?;
                }
            }
            _ => {}
        }
        let mut moved = file.meta.clone();
        moved.level = unit.output_level;
        self.done.before.push(file.meta);
        self.done.after.push(moved);
        Ok(())
    }

    fn deletes_above(&self) -> bool {
        matches!(&self.rewriter.style, Style::Lookup(lookup) if lookup.deletes_above)
    }

    /// Whether rows of a file may be older than those above, which are to be deleted: a chunk of a
    /// snapshot that had to stand on level 0.
    fn may_be_older(&self, file: &DataFileMeta) -> bool {
        let newest = self
            .unit
            .upper
            .iter()
            .map(|upper| upper.max_sequence_number);
        self.deletes_above()
            && newest
                .max()
                .is_some_and(|it| it >= file.min_sequence_number)
    }

    async fn rewrite(&mut self, sections: Vec<Section>) -> Result<()> {
        let replaced: Vec<DataFileMeta> = sections
            .iter()
            .flatten()
            .flatten()
            .map(|file| file.meta.clone())
            .collect();
        self.merge(sections, true).await?;
        for file in &replaced {
            self.vectors.forget(&file.file_name);
        }
        self.done.before.extend(replaced);
        Ok(())
    }

    /// Merges sections in key order into files, or, without `rewrite`, only into the changelog.
    async fn merge(&mut self, sections: Vec<Section>, rewrite: bool) -> Result<()> {
        let mut files = self.writer(FilePurpose::Compact);
        let mut changes = self.writer(FilePurpose::Changelog);
        let merged = self
            .merge_into(sections, &mut files, &mut changes, rewrite)
            .await;
        let superseded = merged.and_then(|rows| self.vectors.delete(rows));
        if let Err(error) = superseded {
            files.abort().await;
            changes.abort().await;
            return Err(error);
        }
        match files.finish().await {
            Ok(files) => self.done.after.extend(files),
            Err(error) => {
                changes.abort().await;
                return Err(error);
            }
        }
        self.done.changelog_files.extend(changes.finish().await?);
        Ok(())
    }

    fn writer(&self, purpose: FilePurpose) -> RollingWriter {
        let rewriter = self.rewriter;
        RollingWriter::new(
            &rewriter.layout,
            self.folder.clone(),
            self.unit.output_level,
            rewriter.target_file_bytes,
        )
        .with_purpose(purpose)
    }

    /// Returns which rows above are deleted now, by file.
    async fn merge_into(
        &self,
        sections: Vec<Section>,
        files: &mut RollingWriter,
        changes: &mut RollingWriter,
        rewrite: bool,
    ) -> Result<DeletionVectors> {
        let rewriter = self.rewriter;
        let opener = FileOpener::new(
            rewriter.table.clone(),
            self.place.partition.clone(),
            self.place.bucket,
        )
        .without_rows(self.vectors.before())
        .with_memory(self.read_bytes);
        let mut output = Output {
            files,
            changes,
            rewrite,
            deleted: DeletionVectors::new(),
        };
        let is_plain = match &rewriter.style {
            Style::Plain => true,
            Style::Full(_) => self.unit.output_level != self.unit.top_level,
            Style::Lookup(_) => false,
        };
        for section in self.with_upper(sections)? {
            if is_plain && let Some(source) = self.copy_source(&section).await? {
                output.files.copy(source).await?;
                continue;
            }
            let (section, opener) = self.narrowed(section, &opener).await?;
            let mut passes = self.passes(is_plain);
            let merged = self
                .merge_section(section, &opener, &mut passes, &mut output)
                .await;
            passes.remove_all().await;
            merged?;
        }
        Ok(output.deleted)
    }

    fn passes(&self, is_plain: bool) -> Passes<'_> {
        let rewriter = self.rewriter;
        Passes {
            store: rewriter.table.store(),
            folder: &self.folder,
            columns: &rewriter.table.schema().fields,
            keys: &rewriter.keys,
            function: &rewriter.function,
            is_plain,
            with_positions: !is_plain && self.deletes_above(),
            memory_bytes: self.read_bytes,
            made: Vec::new(),
        }
    }

    async fn merge_section(
        &self,
        section: Section,
        opener: &FileOpener,
        passes: &mut Passes<'_>,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let rewriter = self.rewriter;
        let columns = &rewriter.table.schema().fields;
        let keys = &rewriter.keys;
        let output_level = self.unit.output_level;
        let width = Width::of(rewriter.table.schema());
        let mut above = Above::new(&section, output_level, width);
        let (inputs, opener) = passes.few_enough(section, opener).await?;
        if passes.is_plain {
            let function = rewriter.function.clone();
            let mut merge = SortedMerge::open(opener, inputs, columns, keys, function).await?;
            while let Some(merged) = merge.next().await? {
                output.files.write(&self.kept(merged.rows)?).await?;
            }
            return Ok(());
        }
        let with_positions = passes.with_positions;
        let merge = SortedMerge::open_groups(opener, inputs, columns, keys, with_positions);
        let mut merge = merge.await?;
        while let Some(mut groups) = merge.next_groups().await? {
            // With deletion vectors even an old row above must not stand beside a new one.
            if let Some(expiry) = &rewriter.expiry
                && !with_positions
            {
                groups = expiry.without(groups)?;
            }
            let function = rewriter.function.as_ref();
            let made = match &rewriter.style {
                Style::Plain => continue,
                Style::Full(full) => full.changes(&groups, function, self.unit.top_level)?,
                Style::Lookup(lookup) => lookup.changes(&groups, function, output_level)?,
            };
            let ChangeRows {
                rows,
                changes: made,
                superseded,
            } = made;
            above.delete(&superseded)?;
            output.changes.write(&made).await?;
            if output.rewrite {
                output.files.write(&self.kept(rows)?).await?;
            }
        }
        for (file, rows) in above.deleted.into_values() {
            let of_file = output.deleted.entry(file);
            let of_file = of_file.or_insert_with(|| DeletionVector::new(width));
            of_file.merge(&rows)?;
        }
        Ok(())
    }

    /// The only file of a section, where its rows need not be looked at: inserts that overlap
    /// nothing, none of which goes.
    async fn copy_source(&self, section: &Section) -> Result<Option<CopySource>> {
        let (rewriter, unit) = (self.rewriter, self.unit);
        let Some(OrderedFile { meta, .. }) = single(section) else {
            return Ok(None);
        };
        let is_copied = meta.delete_row_count == Some(0)
            && rewriter.function.takes_the_last()
            && rewriter.expiry.is_none()
            && !rewriter.force_rewrite
            && !unit.file_by_file
            && !self.vectors.before().contains_key(&meta.file_name);
        if !is_copied {
            return Ok(None);
        }
        let place = self.place;
        let path = rewriter
            .table
            .file_path(&place.partition, place.bucket, meta)?;
        let level = unit.output_level;
        rewriter.layout.copy_source(path, meta, level).await
    }

    /// Sections together with the files above that have rows of their keys, where older rows are
    /// looked up: rows of level 0 are compared with them.
    fn with_upper(&self, of: Vec<Section>) -> Result<Vec<Section>> {
        let files = || of.iter().flatten().flatten();
        let has_level0 = files().any(|file| file.meta.level == 0);
        if !matches!(self.rewriter.style, Style::Lookup(_))
            || self.unit.upper.is_empty()
            || !has_level0
        {
            return Ok(of);
        }
        // Of rows with one key and one sequence number those above are the older ones.
        let mut all = self.unit.upper.clone();
        let mut own: Vec<&OrderedFile> = files().collect();
        own.sort_by_key(|file| file.order);
        all.extend(own.into_iter().map(|file| file.meta.clone()));
        let mut sections = Vec::from(sections(&self.rewriter.key_types, &all)?);
        let is_own = |file: &OrderedFile| file.meta.level <= self.unit.output_level;
        sections.retain(|section| section.iter().flatten().any(is_own));
        Ok(sections)
    }

    /// Where few rows are compared with many above, only those that have the same keys are read of
    /// these. Nobody looks at the others.
    async fn narrowed(
        &self,
        mut section: Section,
        opener: &FileOpener,
    ) -> Result<(Section, FileOpener)> {
        let (above, own): (Vec<DataFileMeta>, Vec<_>) = section
            .iter()
            .flatten()
            .map(|file| file.meta.clone())
            .partition(|file| file.level > self.unit.output_level);
        if above.is_empty() || !matches!(self.rewriter.style, Style::Lookup(_)) {
            return Ok((section, opener.clone()));
        }
        let matching = matching_rows(opener, &self.rewriter.keys, &own, &above);
        let Some(selected) = matching.await? else {
            return Ok((section, opener.clone()));
        };
        let matches = |file: &OrderedFile| {
            let rows = selected.get(&file.meta.file_name);
            rows.is_none_or(|rows| !rows.is_empty())
        };
        for run in &mut section {
            run.retain(matches);
        }
        section.retain(|run| !run.is_empty());
        Ok((section, opener.clone().only(selected)))
    }

    /// Without deletes, where they may go.
    fn kept(&self, rows: KeyValueBatch) -> Result<KeyValueBatch> {
        let kinds = rows.kinds.values();
        if !self.unit.drop_deletes || !kinds.iter().any(|kind| retracts(*kind)) {
            return Ok(rows);
        }
        filter(&rows, |kind| !retracts(kind))
    }
}

/// Where the rows of a merge go.
struct Output<'a> {
    files: &'a mut RollingWriter,
    changes: &'a mut RollingWriter,
    /// Else only into the changelog.
    rewrite: bool,
    /// Rows above that are deleted now, by file.
    deleted: DeletionVectors,
}

/// Rows of a section's files above the output that are to be deleted.
struct Above {
    /// By place of the file: its name, and which.
    deleted: HashMap<usize, (String, DeletionVector)>,
}

impl Above {
    fn new(section: &Section, output_level: i32, width: Width) -> Self {
        let files = section.iter().flatten();
        let above = files.filter(|file| file.meta.level > output_level);
        Self {
            deleted: above
                .map(|file| {
                    let rows = DeletionVector::new(width);
                    (file.order, (file.meta.file_name.clone(), rows))
                })
                .collect(),
        }
    }

    fn delete(&mut self, rows: &[RowSource]) -> Result<()> {
        for row in rows {
            if let Some((file, vector)) = self.deleted.get_mut(&row.file) {
                let position = u64::try_from(row.position)
                    .map_err(|_| Error::Internal(format!("row {} of file {file}", row.position)))?;
                vector.insert(position)?;
            }
        }
        Ok(())
    }
}

/// The rows of some kinds.
pub(crate) fn filter(rows: &KeyValueBatch, keep: impl Fn(i8) -> bool) -> Result<KeyValueBatch> {
    let keep = BooleanArray::from_unary(&rows.kinds, keep);
    let keep: FilterPredicate = FilterBuilder::new(&keep).optimize().build();
    let columns = rows.columns.iter().map(|column| keep.filter(column));
    Ok(KeyValueBatch {
        columns: columns.collect::<Result<_, _>>()?,
        sequences: keep.filter(&rows.sequences)?.as_primitive().clone(),
        kinds: keep.filter(&rows.kinds)?.as_primitive().clone(),
    })
}

/// The file of a section that has only one.
fn single(section: &Section) -> Option<&OrderedFile> {
    match section.as_slice() {
        [run] if run.len() == 1 => run.front(),
        _ => None,
    }
}

fn alone(order: usize, meta: DataFileMeta) -> Section {
    vec![SortedRun::from([OrderedFile { order, meta }])]
}

#[cfg(test)]
mod tests;
