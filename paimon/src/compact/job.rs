//! What is to be done in a bucket, and the memory that it takes.

use std::collections::HashMap;

use crate::{commit::LiveFile, data_file_meta::DataFileMeta, index_manifest::IndexFileMeta};

use super::rewrite::{BucketPlace, Unit};

/// Memory that the files which a compaction writes take, about, bytes.
const WRITER_BYTES: u64 = 48 << 20;
/// Memory for reading a sorted run beyond which nothing is gained, bytes.
const RUN_BYTES_MAX: u64 = 24 << 20;
/// The same for all runs of a compaction, bytes. What is taken altogether is a multiple of it.
const READ_BYTES_MAX: u64 = 64 << 20;
/// With less than this reading is slow, bytes.
const READ_BYTES_MIN: u64 = 16 << 20;

/// What is to be done in a bucket.
#[derive(Debug)]
pub(super) enum Job {
    Keyed(Unit),
    /// Groups of files, each in the order of its rows, and the bucket's files of deletion vectors.
    Append(Vec<Vec<DataFileMeta>>, Vec<IndexFileMeta>),
}

impl Job {
    fn files(&self) -> Box<dyn Iterator<Item = &DataFileMeta> + '_> {
        match self {
            Self::Keyed(unit) => Box::new(unit.files.iter()),
            Self::Append(groups, _) => Box::new(groups.iter().flatten()),
        }
    }

    pub(super) fn bytes(&self) -> i64 {
        let sizes = self.files().map(|file| file.file_size);
        sizes.fold(0, i64::saturating_add)
    }

    /// Memory that is of use for reading. Files of append tables are read one after the other.
    fn read_bytes(&self) -> u64 {
        let mut largest: HashMap<(i32, &str), u64> = HashMap::new();
        for file in self.files() {
            let run = match (self, file.level) {
                (Self::Keyed(_), 0) => (0, file.file_name.as_str()),
                (_, level) => (level, ""),
            };
            // Decoded rows are larger than those in a file.
            let size = u64::try_from(file.file_size).unwrap_or(0).saturating_mul(3);
            let of_run = largest.entry(run).or_default();
            *of_run = (*of_run).max(size.min(RUN_BYTES_MAX));
        }
        largest.values().sum::<u64>().min(READ_BYTES_MAX)
    }
}

/// What a compaction may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobMemory {
    /// All of it, MiB.
    pub(super) mebibytes: u32,
    /// For reading, bytes.
    pub(super) read_bytes: u64,
}

/// Of a job, where all have so much together.
pub(super) fn memory_of(job: &Job, all_bytes: u64) -> JobMemory {
    let wanted = (WRITER_BYTES + job.read_bytes()).min(all_bytes) >> 20;
    let mebibytes = u32::try_from(wanted).unwrap_or(u32::MAX).max(1);
    let left = (u64::from(mebibytes) << 20).saturating_sub(WRITER_BYTES);
    JobMemory {
        mebibytes,
        read_bytes: left.max(READ_BYTES_MIN),
    }
}

/// The files of a bucket.
pub(super) struct Bucket {
    pub(super) place: BucketPlace,
    pub(super) total_buckets: i32,
    pub(super) files: Vec<DataFileMeta>,
}

/// Sorts files by bucket; those of one stay in their order.
pub(super) fn buckets(files: Vec<LiveFile>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut at: HashMap<BucketPlace, usize> = HashMap::new();
    for file in files {
        let place = BucketPlace {
            partition: file.partition,
            bucket: file.bucket,
        };
        let index = *at.entry(place.clone()).or_insert(buckets.len());
        match buckets.get_mut(index) {
            Some(bucket) => bucket.files.push(file.meta),
            None => buckets.push(Bucket {
                place,
                total_buckets: file.total_buckets,
                files: vec![file.meta],
            }),
        }
    }
    buckets
}
