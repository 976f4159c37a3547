//! The options that decide what this crate does, read into one value with the format's defaults.
//!
//! Source: `org.apache.paimon.CoreOptions`.

mod parse;

use std::time::Duration;

use super::value::Reader;
use crate::{error::Result, schema::Schema};
use parse::{changelog, compaction, files, merge, partition_expiration, retention, tags, zstd};

/// What becomes of rows with one key: option `merge-engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MergeEngine {
    /// The last row counts.
    Deduplicate,
    /// The last value of each column that is not NULL counts.
    PartialUpdate,
    /// The values of each column are aggregated.
    Aggregation,
    /// The first row counts.
    FirstRow,
}

/// Who writes changelog files: option `changelog-producer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangelogProducer {
    /// Nobody.
    None,
    /// The writer: the rows as they came.
    Input,
    /// Compactions, by looking up what each row replaces.
    Lookup,
    /// Full compactions, by comparing with what was there.
    FullCompaction,
}

/// What makes tags by itself: option `tag.automatic-creation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TagCreation {
    /// Nothing.
    None,
    /// The clock of the writer.
    ProcessTime,
    /// The watermark of the snapshots.
    Watermark,
    /// The end of a batch job.
    Batch,
}

/// What of rows decides about rows with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// `merge-engine`.
    pub engine: MergeEngine,
    /// `sequence.field`: columns whose values order rows with one key; empty: as they were written.
    pub sequence_fields: Vec<String>,
    /// `sequence.field.sort-order` is `descending`: the row with the least value is the last.
    pub sequence_descending: bool,
    /// `ignore-delete` (or one of its older names): deletes are dropped.
    pub ignore_delete: bool,
    /// `ignore-update-before`: −U rows are dropped.
    pub ignore_update_before: bool,
    /// `rowkind.field`: a column whose text is the kind of the row.
    pub rowkind_field: Option<String>,
    /// `partial-update.remove-record-on-delete`.
    pub partial_update_remove_on_delete: bool,
    /// `partial-update.remove-record-on-sequence-group`: sequence columns of groups whose deletes
    /// remove the row.
    pub partial_update_remove_on_sequence_group: Vec<String>,
    /// `aggregation.remove-record-on-delete`.
    pub aggregation_remove_on_delete: bool,
    /// `record-level.expire-time`: rows older than that are gone.
    pub record_expire_time: Option<Duration>,
    /// `record-level.time-field`.
    pub record_time_field: Option<String>,
}

/// How changelog files are made and how compactions look up older rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangelogOptions {
    /// `changelog-producer`.
    pub producer: ChangelogProducer,
    /// `changelog-producer.row-deduplicate`: no −U and +U of equal rows.
    pub row_deduplicate: bool,
    /// `changelog-producer.row-deduplicate-ignore-fields`: columns that don't count for that.
    pub row_deduplicate_ignore_fields: Vec<String>,
    /// `force-lookup`: compactions look up, whatever the producer.
    pub force_lookup: bool,
    /// `lookup-wait`: a commit waits for the compactions that look up.
    pub lookup_wait: bool,
    /// `lookup-compact` is `gentle`: level 0 waits for other compactions at times.
    pub lookup_gentle: bool,
    /// `lookup-compact.max-interval`: twice the compaction trigger unless set.
    pub lookup_gentle_interval: u32,
    /// `changelog-file.compression`: as data files unless set.
    pub compression: Option<String>,
}

/// When compactions run and how far they go.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionOptions {
    /// `write-only`: the writer never compacts, expires or makes tags.
    pub write_only: bool,
    /// `num-sorted-run.compaction-trigger`.
    pub run_trigger: usize,
    /// `num-sorted-run.stop-trigger`, at least the trigger; three more unless set.
    pub stop_trigger: usize,
    /// `num-levels`, level 0 included; one more than the trigger unless set.
    pub levels: i32,
    /// `compaction.max-size-amplification-percent`.
    pub max_size_amplification_percent: u64,
    /// `compaction.size-ratio`, percent.
    pub size_ratio_percent: u64,
    /// `compaction.optimization-interval`: a full compaction is due after that time.
    pub optimization_interval: Option<Duration>,
    /// `compaction.total-size-threshold`: a bucket smaller than that many bytes is compacted fully.
    pub total_size_threshold_bytes: Option<u64>,
    /// `compaction.incremental-size-threshold`: as much above the top level makes it full, bytes.
    pub incremental_size_threshold_bytes: Option<u64>,
    /// `compaction.min.file-num`: files that an append-only table's compaction takes at least.
    pub min_file_num: usize,
    /// `compaction.file-num-limit`.
    pub file_num_limit: usize,
    /// `compaction.delete-ratio-threshold`: share of deleted rows that makes a file worth a rewrite.
    pub delete_ratio_threshold: f64,
    /// `compaction.small-file-ratio`: files below that share of the target size are small.
    pub small_file_ratio: f64,
    /// `compaction.force-up-level-0`.
    pub force_up_level_0: bool,
    /// `compaction.force-rewrite-all-files`: a full compaction upgrades no file without rewriting.
    pub force_rewrite_all_files: bool,
    /// `full-compaction.delta-commits`: a full compaction each so many commits.
    pub full_delta_commits: Option<u32>,
}

impl CompactionOptions {
    /// The highest level.
    pub fn top_level(&self) -> i32 {
        self.levels - 1
    }
}

/// Sizes and codecs of data files and of what is held in memory before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// `target-file-size`, bytes; 128 MB of tables with, 256 MB of those without a primary key.
    pub target_bytes: u64,
    /// `target-file-row-num`.
    pub target_rows: u64,
    /// `file.compression`.
    pub compression: String,
    /// `file.compression.zstd-level`.
    pub zstd_level: i32,
    /// `file.block-size`, bytes: of a Parquet row group.
    pub block_bytes: Option<u64>,
    /// `write-buffer-size`, bytes.
    pub write_buffer_bytes: u64,
}

/// Deletion vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionVectorOptions {
    /// `deletion-vectors.enabled`.
    pub enabled: bool,
    /// `deletion-vectors.bitmap64`: 64-bit vectors are written.
    pub bitmap64: bool,
    /// `deletion-vector.index-file.target-size`, bytes.
    pub target_bytes: u64,
}

/// Buckets that grow with the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicBucketOptions {
    /// `dynamic-bucket.target-row-num`: rows of a bucket before another is begun.
    pub target_rows: u64,
    /// `dynamic-bucket.initial-buckets`.
    pub initial_buckets: Option<i32>,
    /// `dynamic-bucket.max-buckets`; none without a limit (-1).
    pub max_buckets: Option<i32>,
}

/// When manifests are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestOptions {
    /// `manifest.compression`.
    pub compression: String,
    /// `manifest.target-file-size`, bytes.
    pub target_bytes: u64,
    /// `manifest.full-compaction-threshold-size`, bytes.
    pub full_threshold_bytes: u64,
    /// `manifest.merge-min-count`.
    pub merge_min_count: usize,
}

/// How commits retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitOptions {
    /// `commit.max-retries`.
    pub retries_max: u32,
    /// `commit.min-retry-wait`.
    pub retry_wait_min: Duration,
    /// `commit.max-retry-wait`.
    pub retry_wait_max: Duration,
    /// `commit.timeout`; none without a limit.
    pub timeout: Option<Duration>,
    /// `commit.force-create-snapshot`: also a commit without files makes a snapshot.
    pub force_create_snapshot: bool,
}

/// How long snapshots and changelogs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionOptions {
    /// `snapshot.num-retained.min`.
    pub snapshots_min: u32,
    /// `snapshot.num-retained.max`.
    pub snapshots_max: u32,
    /// `snapshot.time-retained`.
    pub snapshot_time: Duration,
    /// `snapshot.expire.limit`: snapshots that one expiry deletes at most.
    pub expire_limit: u32,
    /// `snapshot.clean-empty-directories`.
    pub clean_empty_directories: bool,
    /// `changelog.num-retained.min`; as of snapshots unless set.
    pub changelogs_min: u32,
    /// `changelog.num-retained.max`; as of snapshots unless set.
    pub changelogs_max: u32,
    /// `changelog.time-retained`; as of snapshots unless set.
    pub changelog_time: Duration,
    /// `consumer.expiration-time`.
    pub consumer_time: Option<Duration>,
}

impl RetentionOptions {
    /// Changelogs outlive their snapshots.
    pub fn changelog_decoupled(&self) -> bool {
        self.changelogs_max > self.snapshots_max
            || self.changelog_time > self.snapshot_time
            || self.changelogs_min > self.snapshots_min
    }
}

/// Tags that are made and deleted by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagOptions {
    /// `tag.automatic-creation`.
    pub creation: TagCreation,
    /// `tag.creation-period` or `tag.creation-period-duration`.
    pub period: Duration,
    /// `tag.creation-delay`.
    pub delay: Duration,
    /// `tag.period-formatter`, in lower case: `with_dashes` and its like.
    pub formatter: String,
    /// `tag.num-retained-max`: of the automatic ones.
    pub automatic_max: Option<u32>,
    /// `tag.default-time-retained`.
    pub time_retained: Option<Duration>,
    /// `tag.time-expire-enabled`.
    pub time_expire: bool,
    /// `tag.automatic-completion`: missing tags are made later.
    pub completion: bool,
}

/// When partitions expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionExpiration {
    /// `partition.expiration-time`; none: never.
    pub time: Option<Duration>,
    /// `partition.expiration-check-interval`.
    pub check_interval: Duration,
    /// `partition.expiration-max-num`.
    pub max_num: usize,
    /// `partition.expiration-batch-size`; as `max_num` unless set.
    pub batch_size: usize,
    /// `partition.expiration-strategy`: `values-time` or `update-time`.
    pub strategy: String,
    /// `partition.timestamp-formatter`.
    pub timestamp_formatter: Option<String>,
    /// `partition.timestamp-pattern`.
    pub timestamp_pattern: Option<String>,
}

/// All options that decide what this crate does, with the format's defaults for those not set.
#[derive(Debug, Clone, PartialEq)]
pub struct TableOptions {
    /// Merging of rows with one key.
    pub merge: MergeOptions,
    /// Changelog files and lookups.
    pub changelog: ChangelogOptions,
    /// Compactions.
    pub compaction: CompactionOptions,
    /// Data files.
    pub files: FileOptions,
    /// Deletion vectors.
    pub deletion_vectors: DeletionVectorOptions,
    /// Dynamic buckets.
    pub dynamic_bucket: DynamicBucketOptions,
    /// Manifests.
    pub manifests: ManifestOptions,
    /// Commits.
    pub commit: CommitOptions,
    /// Snapshots and changelogs.
    pub retention: RetentionOptions,
    /// Tags.
    pub tags: TagOptions,
    /// Partitions.
    pub partition_expiration: PartitionExpiration,
}

impl TableOptions {
    /// Compactions of level 0 look up the older rows of a key in the levels above.
    pub fn looks_up(&self) -> bool {
        self.changelog.producer == ChangelogProducer::Lookup
            || self.changelog.force_lookup
            || self.deletion_vectors.enabled
            || self.merge.engine == MergeEngine::FirstRow
    }

    /// Files on level 0 are to be compacted as soon as there are any: compactions of them make the
    /// changelog or the deletion vectors, or the option `compaction.force-up-level-0` says so.
    pub fn compacts_level_0_at_once(&self) -> bool {
        self.compaction.force_up_level_0 || self.looks_up()
    }

    /// Reads the options of a table.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) with the name, the value and what is expected instead.
    pub fn of(schema: &Schema) -> Result<Self> {
        let reader = Reader(schema);
        let compaction = compaction(&reader)?;
        Ok(Self {
            merge: merge(&reader)?,
            changelog: changelog(&reader, compaction.run_trigger)?,
            files: files(&reader)?,
            deletion_vectors: DeletionVectorOptions {
                enabled: reader.switch(&["deletion-vectors.enabled"], false)?,
                bitmap64: reader.switch(&["deletion-vectors.bitmap64"], false)?,
                target_bytes: reader
                    .bytes("deletion-vector.index-file.target-size")?
                    .unwrap_or(2 << 20),
            },
            dynamic_bucket: DynamicBucketOptions {
                target_rows: reader
                    .count("dynamic-bucket.target-row-num", 1)?
                    .unwrap_or(2_000_000),
                initial_buckets: reader.count("dynamic-bucket.initial-buckets", 1)?,
                max_buckets: reader
                    .count("dynamic-bucket.max-buckets", -1)?
                    .filter(|most| *most > 0),
            },
            manifests: ManifestOptions {
                compression: reader.text("manifest.compression").unwrap_or_else(zstd),
                target_bytes: reader
                    .bytes("manifest.target-file-size")?
                    .unwrap_or(8 << 20),
                full_threshold_bytes: reader
                    .bytes("manifest.full-compaction-threshold-size")?
                    .unwrap_or(16 << 20),
                merge_min_count: reader.count("manifest.merge-min-count", 1)?.unwrap_or(30),
            },
            commit: CommitOptions {
                retries_max: reader.count("commit.max-retries", 0)?.unwrap_or(10),
                retry_wait_min: reader
                    .time(&["commit.min-retry-wait"])?
                    .unwrap_or(Duration::from_millis(10)),
                retry_wait_max: reader
                    .time(&["commit.max-retry-wait"])?
                    .unwrap_or(Duration::from_secs(10)),
                timeout: reader.time(&["commit.timeout"])?,
                force_create_snapshot: reader.switch(&["commit.force-create-snapshot"], false)?,
            },
            retention: retention(&reader)?,
            tags: tags(&reader)?,
            partition_expiration: partition_expiration(&reader)?,
            compaction,
        })
    }
}
