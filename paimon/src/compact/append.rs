//! Append tables (no primary key): small files become larger ones, rows stay in order.
//!
//! In a fixed bucket files follow each other by sequence number, and only neighbours are put
//! together. Without buckets (`bucket` = -1) there is no order, and files are packed by size.
//!
//! Source: `AppendCompactCoordinator`, `AppendCompactTask`, `BucketedAppendCompactManager` of
//! `org.apache.paimon.append`.

use std::sync::Arc;

use arrow_array::{Int8Array, Int64Array};
use futures::TryStreamExt;

use crate::{
    data_file::{FileLayout, FilePurpose, KeyValueBatch, RollingWriter},
    data_file_meta::{CompactIncrement, DataFileMeta},
    error::{Error, Result},
    read::{FileOpener, Wanted},
    table::Table,
};

use super::{options::CompactOptions, rewrite::BucketPlace, task::CompactScope};

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
    pub(crate) open_file_bytes: u64,
    pub(crate) force_rewrite: bool,
}

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
            open_file_bytes: cost
                .and_then(|text| crate::table_options::memory_size(text))
                .unwrap_or(OPEN_FILE_BYTES),
            force_rewrite: options.table.compaction.force_rewrite_all_files,
        }
    }

    /// Groups of small files to be put together, of a partition without buckets. `full` takes what
    /// is left as well.
    pub(crate) fn pack(&self, files: &[DataFileMeta], full: bool) -> Vec<Vec<DataFileMeta>> {
        let small = |file: &&DataFileMeta| self.force_rewrite || size(file) < self.small_bytes;
        let mut files: Vec<DataFileMeta> = files.iter().filter(small).cloned().collect();
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
        if group.len() >= least {
            groups.push(group);
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
    /// # Errors
    /// [`Error::Unsupported`] for tables with deletion vectors.
    pub(crate) fn new(table: &Table, options: &CompactOptions) -> Result<Self> {
        if options.table.deletion_vectors.enabled {
            return Err(Error::Unsupported(format!(
                "compacting append table {} with deletion vectors",
                table.name()
            )));
        }
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
    ) -> Vec<Vec<DataFileMeta>> {
        let full = scope == CompactScope::Full;
        if self.table.schema().buckets() < 0 {
            return self.limits.pack(&files, full);
        }
        let mut files = files;
        files.sort_by_key(|file| file.min_sequence_number);
        match full {
            true => self.limits.all(&files),
            false => self.limits.neighbours(&files),
        }
    }

    /// Rewrites groups of files. On an error nothing is left behind.
    pub(crate) async fn compact(
        &self,
        place: &BucketPlace,
        groups: &[Vec<DataFileMeta>],
    ) -> Result<CompactIncrement> {
        let mut done = CompactIncrement::default();
        for group in groups {
            match self.rewrite(place, group).await {
                Ok(files) => {
                    done.before.extend(group.iter().cloned());
                    done.after.extend(files);
                }
                Err(error) => {
                    let folder = self.table.bucket_path(&place.partition, place.bucket)?;
                    self.layout.delete(folder.as_ref(), &done.after).await;
                    return Err(error);
                }
            }
        }
        Ok(done)
    }

    async fn rewrite(
        &self,
        place: &BucketPlace,
        files: &[DataFileMeta],
    ) -> Result<Vec<DataFileMeta>> {
        let folder = self.table.bucket_path(&place.partition, place.bucket)?;
        let target = self.limits.target_bytes;
        let mut writer = RollingWriter::new(&self.layout, folder.to_string(), 0, target)
            .with_purpose(FilePurpose::Compact);
        match self.copy(place, files, &mut writer).await {
            Ok(()) => writer.finish().await,
            Err(error) => {
                writer.abort().await;
                Err(error)
            }
        }
    }

    async fn copy(
        &self,
        place: &BucketPlace,
        files: &[DataFileMeta],
        writer: &mut RollingWriter,
    ) -> Result<()> {
        let opener = FileOpener::new(self.table.clone(), place.partition.clone(), place.bucket);
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
            open_file_bytes: 1,
            force_rewrite: false,
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
        assert_eq!(sizes(&limits.pack(&of, false)), [vec![10, 20, 60, 60, 60]]);
        let few = files(&[10, 90, 10]);
        assert!(limits.pack(&few, false).is_empty());
        assert_eq!(sizes(&limits.pack(&few, true)), [[10, 10]]);
        assert!(limits.pack(&files(&[10]), true).is_empty());
        assert_eq!(sizes(&limits.pack(&files(&[5, 6, 7]), false)), [[5, 6, 7]]);
    }

    #[test]
    fn neighbours_of_a_bucket_are_put_together_in_order() {
        let limits = limits();
        assert_eq!(
            sizes(&limits.neighbours(&files(&[90, 150, 10, 30, 20, 5]))),
            [[10, 30, 20]]
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
