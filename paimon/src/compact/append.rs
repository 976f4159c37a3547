//! Append tables (no primary key): small files become larger ones, rows stay in order.
//!
//! In a fixed bucket files follow each other by sequence number, and only neighbours are put
//! together. Without buckets (`bucket` = -1) there is no order, and files are packed by size.
//!
//! Source: `AppendCompactCoordinator`, `AppendCompactTask`, `BucketedAppendCompactManager` of
//! `org.apache.paimon.append`.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Int8Array, Int64Array};
use futures::TryStreamExt;

use crate::{
    data_file::{FileLayout, FilePurpose, KeyValueBatch, RollingWriter},
    data_file_meta::{CompactIncrement, DataFileMeta},
    error::Result,
    index_manifest::IndexFileMeta,
    read::{FileOpener, Wanted},
    table::Table,
};

use super::{
    options::CompactOptions,
    rewrite::BucketPlace,
    task::CompactScope,
    vectors::{BucketVectors, deleted_rows},
};

/// What opening a file costs, as bytes: option `source.split.open-file-cost`.
const OPEN_FILE_BYTES: u64 = 4 << 20;
/// Files from which on a bucket is worth a full compaction.
const FULL_FILES_MIN: usize = 3;
const BATCH_ROWS: usize = 8192;

/// Sizes that decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendLimits {
    pub(crate) target_bytes: u64,
    /// Files smaller than this are small.
    pub(crate) small_bytes: u64,
    pub(crate) files_min: usize,
    /// Files of a partition without buckets that are compacted at a time, unless all are: of more
    /// the others wait for the next time.
    pub(crate) files_max: usize,
    pub(crate) open_file_bytes: u64,
    pub(crate) force_rewrite: bool,
    /// Share of a file's rows that are deleted from which on it is rewritten.
    pub(crate) delete_ratio: f64,
}

/// Rows of files that deletion vectors delete, if that is known.
type Deleted<'a> = HashMap<&'a str, Option<i64>>;

fn size(file: &DataFileMeta) -> u64 {
    u64::try_from(file.file_size).unwrap_or(0)
}

impl AppendLimits {
    fn new(table: &Table, options: &CompactOptions) -> Self {
        let cost = table.schema().options.get("source.split.open-file-cost");
        Self {
            target_bytes: options.table.files.target_bytes,
            small_bytes: options.small_file_bytes,
            files_min: options.table.compaction.min_file_num,
            files_max: options.table.compaction.file_num_limit,
            open_file_bytes: cost
                .and_then(|text| crate::table_options::memory_size(text))
                .unwrap_or(OPEN_FILE_BYTES),
            force_rewrite: options.table.compaction.force_rewrite_all_files,
            delete_ratio: options.table.compaction.delete_ratio_threshold,
        }
    }

    /// Whether so many of a file's rows are deleted that it is worth a rewrite.
    fn is_holed(&self, file: &DataFileMeta, deleted: &Deleted<'_>) -> bool {
        match deleted.get(file.file_name.as_str()) {
            None => false,
            Some(None) => true,
            Some(Some(rows)) => *rows as f64 > file.row_count as f64 * self.delete_ratio,
        }
    }

    /// Groups of small files to be put together, of a partition without buckets. `full` takes what
    /// is left as well.
    pub(crate) fn pack(
        &self,
        files: &[DataFileMeta],
        deleted: &Deleted<'_>,
        full: bool,
    ) -> Vec<Vec<DataFileMeta>> {
        let small = |file: &&DataFileMeta| {
            self.force_rewrite || size(file) < self.small_bytes || self.is_holed(file, deleted)
        };
        let at_most = if full { usize::MAX } else { self.files_max };
        let small = files.iter().filter(small).take(at_most);
        let mut files: Vec<DataFileMeta> = small.cloned().collect();
        files.sort_by_key(size);
        let mut groups = Vec::new();
        let mut group = Vec::new();
        let mut bytes = 0u64;
        for file in files {
            bytes = bytes.saturating_add(size(&file) + self.open_file_bytes);
            group.push(file);
            if group.len() > 1 && bytes >= self.target_bytes.saturating_mul(2) {
                groups.push(std::mem::take(&mut group));
                bytes = 0;
            }
        }
        let least = if full { 2 } else { self.files_min.max(2) };
        if group.len() >= least || group.iter().any(|file| self.is_holed(file, deleted)) {
            groups.push(group);
        }
        groups
    }

    /// Files of no group that are rewritten for themselves.
    fn holed(
        &self,
        files: &[DataFileMeta],
        deleted: &Deleted<'_>,
        mut groups: Vec<Vec<DataFileMeta>>,
    ) -> Vec<Vec<DataFileMeta>> {
        let holed = files.iter().filter(|file| self.is_holed(file, deleted));
        for file in holed {
            let mut grouped = groups.iter().flatten();
            if !grouped.any(|other| other.file_name == file.file_name) {
                groups.push(vec![file.clone()]);
            }
        }
        groups
    }

    /// Groups of neighbours to be put together, of a fixed bucket whose files are in order.
    pub(crate) fn neighbours(&self, files: &[DataFileMeta]) -> Vec<Vec<DataFileMeta>> {
        let mut groups = Vec::new();
        let mut group = std::collections::VecDeque::new();
        let mut bytes = 0u64;
        for file in files {
            bytes = bytes.saturating_add(size(file));
            group.push_back(file.clone());
            if group.len() >= self.files_min.max(2) {
                groups.push(Vec::from(std::mem::take(&mut group)));
                bytes = 0;
            } else if bytes >= self.target_bytes.saturating_mul(2)
                && let Some(first) = group.pop_front()
            {
                bytes -= size(&first).min(bytes);
            }
        }
        groups
    }

    /// All files of a fixed bucket, in order, behind the large ones it begins with, if most of
    /// them are small.
    pub(crate) fn all(&self, files: &[DataFileMeta]) -> Vec<Vec<DataFileMeta>> {
        if self.force_rewrite {
            return match files {
                [] => Vec::new(),
                files => vec![files.to_vec()],
            };
        }
        let is_small = |file: &&DataFileMeta| size(file) < self.small_bytes;
        let rest: Vec<DataFileMeta> = files
            .iter()
            .skip_while(|file| !is_small(file))
            .cloned()
            .collect();
        let small = rest.iter().filter(is_small).count();
        match rest.len() >= FULL_FILES_MIN && small > rest.len() - small {
            true => vec![rest],
            false => Vec::new(),
        }
    }
}

/// Puts files of an append table together.
#[derive(Debug)]
pub(crate) struct AppendRewriter {
    table: Table,
    layout: Arc<FileLayout>,
    limits: AppendLimits,
}

impl AppendRewriter {
    pub(crate) fn new(table: &Table, options: &CompactOptions) -> Result<Self> {
        Ok(Self {
            layout: FileLayout::new(table)?,
            limits: AppendLimits::new(table, options),
            table: table.clone(),
        })
    }

    /// Groups of files to be put together, each in the order of its rows.
    pub(crate) fn pick(
        &self,
        scope: CompactScope,
        files: Vec<DataFileMeta>,
        index: &[IndexFileMeta],
    ) -> Vec<Vec<DataFileMeta>> {
        let deleted = deleted_rows(index);
        let full = scope == CompactScope::Full;
        if self.table.schema().buckets() < 0 {
            return self.limits.pack(&files, &deleted, full);
        }
        let mut files = files;
        files.sort_by_key(|file| file.min_sequence_number);
        let groups = match full {
            true => self.limits.all(&files),
            false => self.limits.neighbours(&files),
        };
        self.limits.holed(&files, &deleted, groups)
    }

    /// Rewrites groups of files, without the rows that deletion vectors delete, with so much memory
    /// for the file that is read. On an error nothing is left behind.
    pub(crate) async fn compact(
        &self,
        place: &BucketPlace,
        groups: &[Vec<DataFileMeta>],
        index: &[IndexFileMeta],
        read_bytes: u64,
    ) -> Result<CompactIncrement> {
        // Those without a vector of these files stay.
        let touched = |file: &&IndexFileMeta| {
            let of_file = deleted_rows(std::slice::from_ref(*file));
            let mut files = groups.iter().flatten();
            files.any(|file| of_file.contains_key(file.file_name.as_str()))
        };
        let index: Vec<IndexFileMeta> = index.iter().filter(touched).cloned().collect();
        let mut vectors = BucketVectors::read(&self.table, &index).await?;
        let mut done = CompactIncrement::default();
        let opener = FileOpener::new(self.table.clone(), place.partition.clone(), place.bucket)
            .without_rows(vectors.before())
            .with_memory(read_bytes);
        let result = self.rewrite_all(place, &opener, groups, &mut vectors, &mut done);
        if let Err(error) = result.await {
            let folder = self.table.bucket_path(&place.partition, place.bucket)?;
            self.layout.delete(folder.as_ref(), &done.after).await;
            return Err(error);
        }
        Ok(done)
    }

    async fn rewrite_all(
        &self,
        place: &BucketPlace,
        opener: &FileOpener,
        groups: &[Vec<DataFileMeta>],
        vectors: &mut BucketVectors,
        done: &mut CompactIncrement,
    ) -> Result<()> {
        for group in groups {
            let files = self.rewrite(place, opener, group).await?;
            done.after.extend(files);
            done.before.extend(group.iter().cloned());
            group
                .iter()
                .for_each(|file| vectors.forget(&file.file_name));
        }
        vectors.write(&self.table, done).await
    }

    async fn rewrite(
        &self,
        place: &BucketPlace,
        opener: &FileOpener,
        files: &[DataFileMeta],
    ) -> Result<Vec<DataFileMeta>> {
        let folder = self.table.bucket_path(&place.partition, place.bucket)?;
        let target = self.limits.target_bytes;
        let mut writer = RollingWriter::new(&self.layout, folder.to_string(), 0, target)
            .with_purpose(FilePurpose::Compact);
        match self.copy(opener, files, &mut writer).await {
            Ok(()) => writer.finish().await,
            Err(error) => {
                writer.abort().await;
                Err(error)
            }
        }
    }

    async fn copy(
        &self,
        opener: &FileOpener,
        files: &[DataFileMeta],
        writer: &mut RollingWriter,
    ) -> Result<()> {
        let wanted = Wanted::new(self.table.schema().fields.clone(), &[]);
        // Numbers go on from the first file's.
        let mut sequence = files.first().map_or(0, |file| file.min_sequence_number);
        for file in files {
            let mut rows = opener.open(file, &wanted, BATCH_ROWS).await?;
            while let Some(batch) = rows.try_next().await? {
                let count = i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
                let end = sequence.saturating_add(count);
                let rows = KeyValueBatch {
                    columns: batch.columns().to_vec(),
                    sequences: Int64Array::from_iter_values(sequence..end),
                    kinds: Int8Array::from_value(0, batch.num_rows()),
                };
                sequence = end;
                writer.write(&rows).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::tests::file;

    fn limits() -> AppendLimits {
        AppendLimits {
            target_bytes: 100,
            small_bytes: 70,
            files_min: 3,
            files_max: 1000,
            open_file_bytes: 1,
            force_rewrite: false,
            delete_ratio: 0.2,
        }
    }

    fn files(sizes: &[i64]) -> Vec<DataFileMeta> {
        let sized = |(at, size): (usize, &i64)| DataFileMeta {
            file_size: *size,
            min_sequence_number: at as i64,
            ..file(&format!("f{at}"), 0, 1..=2)
        };
        sizes.iter().enumerate().map(sized).collect()
    }

    fn sizes(groups: &[Vec<DataFileMeta>]) -> Vec<Vec<i64>> {
        let sizes = |group: &Vec<DataFileMeta>| group.iter().map(|file| file.file_size).collect();
        groups.iter().map(sizes).collect()
    }

    #[test]
    fn small_files_without_buckets_are_packed_by_size() {
        let limits = limits();
        let of = files(&[60, 90, 10, 60, 20, 60, 65]);
        assert_eq!(
            sizes(&limits.pack(&of, &HashMap::new(), false)),
            [vec![10, 20, 60, 60, 60]]
        );
        let few = files(&[10, 90, 10]);
        assert!(limits.pack(&few, &HashMap::new(), false).is_empty());
        assert_eq!(sizes(&limits.pack(&few, &HashMap::new(), true)), [[10, 10]]);
        assert!(limits.pack(&files(&[10]), &HashMap::new(), true).is_empty());
        assert_eq!(
            sizes(&limits.pack(&files(&[5, 6, 7]), &HashMap::new(), false)),
            [[5, 6, 7]]
        );
        let few = AppendLimits {
            files_max: 3,
            ..limits
        };
        let of = files(&[9, 90, 8, 7, 6, 5]);
        assert_eq!(sizes(&few.pack(&of, &HashMap::new(), false)), [[7, 8, 9]]);
        assert_eq!(
            sizes(&few.pack(&of, &HashMap::new(), true)),
            [[5, 6, 7, 8, 9]]
        );
    }

    #[test]
    fn files_of_which_much_is_deleted_are_rewritten() {
        let limits = limits();
        let of: Vec<DataFileMeta> = files(&[90, 90, 90])
            .into_iter()
            .map(|file| DataFileMeta {
                row_count: 10,
                ..file
            })
            .collect();
        let deleted = HashMap::from([("f0", Some(2)), ("f1", Some(3))]);
        let names = |groups: Vec<Vec<DataFileMeta>>| {
            let files = groups.into_iter().flatten().map(|file| file.file_name);
            files.collect::<Vec<_>>()
        };
        assert_eq!(names(limits.pack(&of, &deleted, false)), ["f1"]);
        assert_eq!(names(limits.holed(&of, &deleted, Vec::new())), ["f1"]);
        let grouped = vec![vec![of[1].clone(), of[2].clone()]];
        assert_eq!(names(limits.holed(&of, &deleted, grouped)), ["f1", "f2"]);
        let unknown = HashMap::from([("f2", None)]);
        assert_eq!(names(limits.pack(&of, &unknown, true)), ["f2"]);
    }

    #[test]
    fn neighbours_of_a_bucket_are_put_together_in_order() {
        let limits = limits();
        assert_eq!(
            sizes(&limits.neighbours(&files(&[90, 150, 10, 30, 20, 5]))),
            [[150, 10, 30]]
        );
        assert!(limits.neighbours(&files(&[1, 2])).is_empty());
    }

    #[test]
    fn a_full_compaction_leaves_the_large_files_at_the_start() {
        let limits = limits();
        assert_eq!(
            sizes(&limits.all(&files(&[90, 80, 10, 90, 20]))),
            [[10, 90, 20]]
        );
        assert!(limits.all(&files(&[10, 90, 90])).is_empty());
        assert!(limits.all(&files(&[90, 10, 10])).is_empty());
        let force = AppendLimits {
            force_rewrite: true,
            ..limits
        };
        assert_eq!(sizes(&force.all(&files(&[90]))), [[90]]);
    }
}
