//! The rows of a table with a primary key, on their way from bucket to bucket.
//!
//! A row's bucket is its hash modulo the count, so that with g the greatest common divisor of both
//! counts the rows of the old buckets of one class modulo g are those of the new buckets of that
//! class. Each class is read once, its old buckets merged in key order, and every new bucket gets
//! one sorted run on the top level.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int64Type};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_select::interleave::interleave;

use crate::{
    append::give_memory_back,
    bucket::BucketAssigner,
    commit::LiveFile,
    compact::{BucketVectors, filter, of_bucket, retracts},
    data_file::{FileLayout, FilePurpose, KeyValueBatch, RollingWriter},
    data_file_meta::{CommitMessage, DataFileMeta},
    data_type::{DataField, DataType},
    error::{Error, Result},
    index_manifest::IndexManifestEntry,
    merge::MergeFunction,
    read::{FileOpener, Section, SortedMerge, sections},
    table::Table,
    table_options::TableOptions,
    write_buffer::CHUNK_ROWS_MAX,
};

/// Bytes of memory that the open files take, at most.
const OPEN_BYTES_MAX: usize = 256 << 20;

/// Rewrites a partition.
pub(super) struct KeyedRescale {
    table: Table,
    partition: Vec<u8>,
    /// Files of deletion vectors.
    index: Vec<IndexManifestEntry>,
    layout: Arc<FileLayout>,
    function: Arc<dyn MergeFunction>,
    keys: Vec<DataField>,
    key_types: Vec<DataType>,
    converter: RowConverter,
    /// `None`: rows stay in their bucket.
    assigner: Option<BucketAssigner>,
    /// Level of the new files.
    level: i32,
    purpose: FilePurpose,
    /// Of files that are not all of the partition: what they delete may stand in others.
    keeps_deletes: bool,
    /// Added to every sequence number.
    raise: i64,
    target_file_bytes: u64,
}

/// Merged rows of an old bucket, in key order.
struct Source {
    bucket: i32,
    opener: FileOpener,
    sections: VecDeque<Section>,
    merge: Option<SortedMerge>,
    /// Rows that are yet to be handed on, from `at`.
    open: Option<Open>,
    at: usize,
}

struct Open {
    /// The table's columns, sequence numbers, kinds.
    columns: Vec<ArrayRef>,
    keys: Rows,
    buckets: Vec<i32>,
}

fn divisor(a: i32, b: i32) -> i32 {
    match b {
        0 => a,
        b => divisor(b, a % b),
    }
}

impl KeyedRescale {
    pub(super) fn new(
        table: &Table,
        partition: &[u8],
        index: &[IndexManifestEntry],
    ) -> Result<Self> {
        let assigner = BucketAssigner::new(table.schema())?;
        Self::with(table, partition, index, Some(assigner))
    }

    fn with(
        table: &Table,
        partition: &[u8],
        index: &[IndexManifestEntry],
        assigner: Option<BucketAssigner>,
    ) -> Result<Self> {
        let schema = table.schema();
        let options = TableOptions::of(schema)?;
        let keys: Vec<DataField> = schema
            .trimmed_primary_keys()
            .into_iter()
            .filter_map(|key| schema.field(key))
            .map(|(_, field)| field.clone())
            .collect();
        let sorted = keys.iter().map(|key| SortField::new(key.data_type.arrow()));
        Ok(Self {
            layout: FileLayout::new(table)?,
            function: crate::merge::function(schema)?,
            converter: RowConverter::new(sorted.collect())?,
            key_types: keys.iter().map(|key| key.data_type.clone()).collect(),
            keys,
            assigner,
            level: options.compaction.top_level(),
            purpose: FilePurpose::Compact,
            keeps_deletes: false,
            raise: 0,
            target_file_bytes: options.files.target_bytes,
            partition: partition.to_vec(),
            index: index.to_vec(),
            table: table.clone(),
        })
    }

    /// For files that are to be added to the partition, not all of it: a new sorted run a bucket on
    /// level 0, with the rows that delete, and `raise` added to every sequence number. With `stay`
    /// rows stay in their bucket, whose count is the table's.
    pub(super) fn adding(table: &Table, partition: &[u8], raise: i64, stay: bool) -> Result<Self> {
        let assigner = match stay {
            true => None,
            false => Some(BucketAssigner::new(table.schema())?),
        };
        Ok(Self {
            level: 0,
            purpose: FilePurpose::Append,
            keeps_deletes: true,
            raise,
            ..Self::with(table, partition, &[], assigner)?
        })
    }

    /// Writes the rows of the partition's files, in the order of the manifest. On an error nothing
    /// is left behind.
    pub(super) async fn write(&self, files: &[LiveFile]) -> Result<Vec<CommitMessage>> {
        let counts = files.iter().map(|file| file.total_buckets);
        let classes = match &self.assigner {
            Some(assigner) => counts.fold(assigner.buckets(), divisor),
            // Each bucket is a class.
            None => i32::MAX,
        };
        let mut olds: BTreeMap<i32, BTreeMap<i32, Vec<DataFileMeta>>> = BTreeMap::new();
        for file in files {
            let class = olds.entry(file.bucket % classes).or_default();
            let bucket = class.entry(file.bucket).or_default();
            bucket.push(file.meta.clone());
        }
        let mut messages = Vec::new();
        for (class, olds) in olds {
            let mut writers = self.writers(class, classes)?;
            let written = match self.write_class(olds, class, classes, &mut writers).await {
                Ok(()) => finish(writers).await,
                Err(error) => {
                    abort(writers).await;
                    Err(error)
                }
            };
            match written {
                Ok(files) => {
                    let some = files.into_iter().filter(|(_, files)| !files.is_empty());
                    messages.extend(some.map(|(bucket, new_files)| CommitMessage {
                        partition: self.partition.clone(),
                        bucket,
                        total_buckets: self.table.schema().buckets(),
                        new_files,
                        ..CommitMessage::default()
                    }));
                }
                Err(error) => {
                    self.table.discard(&messages).await;
                    return Err(error);
                }
            }
        }
        Ok(messages)
    }

    /// The writers of the new buckets of a class, in order.
    fn writers(&self, class: i32, classes: i32) -> Result<Vec<(i32, RollingWriter)>> {
        let end = match &self.assigner {
            Some(assigner) => assigner.buckets(),
            None => class.saturating_add(1),
        };
        let buckets = class..end;
        let step = usize::try_from(classes).unwrap_or(1).max(1);
        let buckets = buckets.step_by(step);
        buckets
            .map(|bucket| {
                let folder = self.table.bucket_path(&self.partition, bucket)?.to_string();
                let target = self.target_file_bytes;
                let writer = RollingWriter::new(&self.layout, folder, self.level, target);
                Ok((bucket, writer.with_purpose(self.purpose)))
            })
            .collect()
    }

    async fn write_class(
        &self,
        olds: BTreeMap<i32, Vec<DataFileMeta>>,
        class: i32,
        classes: i32,
        writers: &mut [(i32, RollingWriter)],
    ) -> Result<()> {
        let mut sources = Vec::new();
        for (bucket, files) in olds {
            let index = of_bucket(&self.index, &self.partition, bucket);
            let vectors = BucketVectors::read(&self.table, &index).await?;
            sources.push(Source {
                bucket,
                opener: FileOpener::new(self.table.clone(), self.partition.clone(), bucket)
                    .without_rows(vectors.before()),
                sections: sections(&self.key_types, &files)?,
                merge: None,
                open: None,
                at: 0,
            });
        }
        loop {
            for source in &mut sources {
                self.load(source).await?;
            }
            sources.retain(|source| source.open.is_some());
            if sources.is_empty() {
                return Ok(());
            }
            let picked = pick(&mut sources);
            let mut rows_of: Vec<Vec<(usize, usize)>> = vec![Vec::new(); writers.len()];
            for (source, row) in picked {
                let open = sources.get(source).and_then(|source| source.open.as_ref());
                let bucket = open.and_then(|open| open.buckets.get(row)).copied();
                let at = bucket.map(|bucket| (bucket - class) / classes.max(1));
                let at = at.and_then(|at| usize::try_from(at).ok());
                let is_of_class = bucket.is_some_and(|bucket| bucket % classes == class);
                match at.and_then(|at| rows_of.get_mut(at)) {
                    Some(rows) if is_of_class => rows.push((source, row)),
                    _ => {
                        return Err(Error::Corrupt {
                            path: self.table.path().to_string(),
                            message: "a row stands in a bucket that its key does not belong to"
                                .into(),
                        });
                    }
                }
            }
            for ((_, writer), rows) in writers.iter_mut().zip(rows_of) {
                for rows in rows.chunks(CHUNK_ROWS_MAX) {
                    writer.write(&gather(&sources, rows)?).await?;
                }
            }
            give_memory_back(writers.iter_mut().map(|(_, it)| it), OPEN_BYTES_MAX).await?;
            tokio::task::yield_now().await;
        }
    }

    /// Makes sure that a source has rows, unless it is at its end.
    async fn load(&self, source: &mut Source) -> Result<()> {
        let has_rows = |source: &Source| {
            let open = source.open.as_ref();
            open.is_some_and(|open| source.at < open.keys.num_rows())
        };
        while !has_rows(source) {
            source.open = None;
            source.at = 0;
            let Some(merge) = &mut source.merge else {
                let Some(section) = source.sections.pop_front() else {
                    return Ok(());
                };
                let merge = SortedMerge::open(
                    source.opener.clone(),
                    section,
                    &self.table.schema().fields,
                    &self.keys,
                    self.function.clone(),
                );
                source.merge = Some(merge.await?);
                continue;
            };
            let Some(merged) = merge.next().await? else {
                source.merge = None;
                continue;
            };
            let rows = filter(&merged.rows, |kind| self.keeps_deletes || !retracts(kind))?;
            let keys = self.layout.keys().iter();
            let keys: Vec<ArrayRef> = keys
                .filter_map(|at| rows.columns.get(*at).cloned())
                .collect();
            let buckets = match &self.assigner {
                Some(assigner) => assigner.assign(&rows.columns)?,
                None => vec![source.bucket; rows.sequences.len()],
            };
            let keys = self.converter.convert_columns(&keys)?;
            let mut columns = rows.columns;
            let raised = |sequence: i64| sequence.saturating_add(self.raise);
            columns.push(Arc::new(rows.sequences.unary::<_, Int64Type>(raised)));
            columns.push(Arc::new(rows.kinds));
            source.open = Some(Open {
                columns,
                keys,
                buckets,
            });
        }
        Ok(())
    }
}

/// Rows that nothing yet unread goes before, in key order: (source, row). At least one source is at
/// the end of its rows then.
fn pick(sources: &mut [Source]) -> Vec<(usize, usize)> {
    let last = |open: &Open| open.keys.num_rows().checked_sub(1);
    let ends = sources.iter().filter_map(|source| {
        let open = source.open.as_ref()?;
        Some(open.keys.row(last(open)?))
    });
    let Some(bound) = ends.min().map(|row| row.owned()) else {
        return Vec::new();
    };
    let mut picked = Vec::new();
    let mut ends = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let rows = source.open.as_ref().map_or(0, |open| open.keys.num_rows());
        let is_within = |row: usize| {
            let open = source.open.as_ref();
            open.is_some_and(|open| open.keys.row(row) <= bound.row())
        };
        // The first row beyond the bound.
        let (mut low, mut high) = (source.at, rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_within(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        picked.extend((source.at..low).map(|row| (at, row)));
        ends.push(low);
    }
    if sources.len() > 1 {
        let key = |(source, row): &(usize, usize)| {
            let open = sources.get(*source).and_then(|it| it.open.as_ref());
            open.map(|open| open.keys.row(*row))
        };
        picked.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }
    for (source, end) in sources.iter_mut().zip(ends) {
        source.at = end;
    }
    picked
}

/// Rows of several sources as one batch.
fn gather(sources: &[Source], rows: &[(usize, usize)]) -> Result<KeyValueBatch> {
    let open: Vec<&Open> = sources.iter().filter_map(|it| it.open.as_ref()).collect();
    let count = open.first().map_or(0, |open| open.columns.len());
    let mut columns = (0..count)
        .map(|column| {
            let arrays: Vec<&dyn Array> = open
                .iter()
                .filter_map(|open| open.columns.get(column).map(AsRef::as_ref))
                .collect();
            Ok(interleave(&arrays, rows)?)
        })
        .collect::<Result<Vec<_>>>()?;
    let (Some(kinds), Some(sequences)) = (columns.pop(), columns.pop()) else {
        return Err(Error::Internal("rows without kinds".into()));
    };
    Ok(KeyValueBatch {
        columns,
        sequences: sequences.as_primitive().clone(),
        kinds: kinds.as_primitive().clone(),
    })
}

/// Completes all files; on an error all are deleted.
async fn finish(writers: Vec<(i32, RollingWriter)>) -> Result<Vec<(i32, Vec<DataFileMeta>)>> {
    let mut writers = writers.into_iter();
    let mut done = Vec::new();
    while let Some((bucket, mut writer)) = writers.next() {
        if let Err(error) = writer.close_file().await {
            writer.abort().await;
            abort(writers).await;
            abort(done).await;
            return Err(error);
        }
        done.push((bucket, writer));
    }
    let mut files = Vec::new();
    for (bucket, writer) in done {
        // All of them are closed.
        files.push((bucket, writer.finish().await?));
    }
    Ok(files)
}

async fn abort(writers: impl IntoIterator<Item = (i32, RollingWriter)>) {
    for (_, writer) in writers {
        writer.abort().await;
    }
}
