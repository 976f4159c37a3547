//! The options that decide what this crate does, read into one value with the format's defaults.
//!
//! Source: `org.apache.paimon.CoreOptions`.

use std::time::Duration;

use super::value::Reader;
use crate::{
    error::{Error, Result},
    schema::Schema,
};

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
    /// `compaction.file-num-limit`: files that are compacted at a time, of a partition of an
    /// append-only table without buckets.
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
    /// [`Error::Unsupported`] with the name, the value and what is expected instead.
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

fn zstd() -> String {
    "zstd".to_owned()
}

fn merge(reader: &Reader<'_>) -> Result<MergeOptions> {
    let engines = [
        ("deduplicate", MergeEngine::Deduplicate),
        ("partial-update", MergeEngine::PartialUpdate),
        ("aggregation", MergeEngine::Aggregation),
        ("first-row", MergeEngine::FirstRow),
    ];
    Ok(MergeOptions {
        engine: reader
            .choice("merge-engine", &engines)?
            .unwrap_or(MergeEngine::Deduplicate),
        sequence_fields: reader.names("sequence.field"),
        sequence_descending: reader
            .choice(
                "sequence.field.sort-order",
                &[("ascending", false), ("descending", true)],
            )?
            .unwrap_or(false),
        ignore_delete: reader.switch(
            &[
                "ignore-delete",
                "first-row.ignore-delete",
                "deduplicate.ignore-delete",
                "partial-update.ignore-delete",
            ],
            false,
        )?,
        ignore_update_before: reader.switch(&["ignore-update-before"], false)?,
        rowkind_field: reader.text("rowkind.field"),
        partial_update_remove_on_delete: reader
            .switch(&["partial-update.remove-record-on-delete"], false)?,
        partial_update_remove_on_sequence_group: reader
            .names("partial-update.remove-record-on-sequence-group"),
        aggregation_remove_on_delete: reader
            .switch(&["aggregation.remove-record-on-delete"], false)?,
        record_expire_time: reader.time(&["record-level.expire-time"])?,
        record_time_field: reader.text("record-level.time-field"),
    })
}

fn changelog(reader: &Reader<'_>, run_trigger: usize) -> Result<ChangelogOptions> {
    let producers = [
        ("none", ChangelogProducer::None),
        ("input", ChangelogProducer::Input),
        ("lookup", ChangelogProducer::Lookup),
        ("full-compaction", ChangelogProducer::FullCompaction),
    ];
    let interval = u32::try_from(run_trigger.saturating_mul(2)).unwrap_or(u32::MAX);
    Ok(ChangelogOptions {
        producer: reader
            .choice("changelog-producer", &producers)?
            .unwrap_or(ChangelogProducer::None),
        row_deduplicate: reader.switch(&["changelog-producer.row-deduplicate"], false)?,
        row_deduplicate_ignore_fields: reader
            .names("changelog-producer.row-deduplicate-ignore-fields"),
        force_lookup: reader.switch(&["force-lookup"], false)?,
        lookup_wait: reader.switch(&["lookup-wait", "changelog-producer.lookup-wait"], true)?,
        lookup_gentle: reader
            .choice("lookup-compact", &[("radical", false), ("gentle", true)])?
            .unwrap_or(false),
        lookup_gentle_interval: reader
            .count("lookup-compact.max-interval", 1)?
            .unwrap_or(interval)
            .max(u32::try_from(run_trigger).unwrap_or(u32::MAX)),
        compression: reader.text("changelog-file.compression"),
    })
}

fn compaction(reader: &Reader<'_>) -> Result<CompactionOptions> {
    let run_trigger: usize = reader
        .count("num-sorted-run.compaction-trigger", 1)?
        .unwrap_or(5);
    let stop_trigger: usize = reader
        .count("num-sorted-run.stop-trigger", 1)?
        .unwrap_or(run_trigger.saturating_add(3));
    let levels = i32::try_from(run_trigger.saturating_add(1)).unwrap_or(i32::MAX);
    Ok(CompactionOptions {
        write_only: reader.switch(&["write-only", "write.compaction-skip"], false)?,
        run_trigger,
        stop_trigger: stop_trigger.max(run_trigger),
        levels: reader.count("num-levels", 2)?.unwrap_or(levels),
        max_size_amplification_percent: reader
            .count("compaction.max-size-amplification-percent", 0)?
            .unwrap_or(200),
        size_ratio_percent: reader.count("compaction.size-ratio", 0)?.unwrap_or(1),
        optimization_interval: reader.time(&["compaction.optimization-interval"])?,
        total_size_threshold_bytes: reader.bytes("compaction.total-size-threshold")?,
        incremental_size_threshold_bytes: reader.bytes("compaction.incremental-size-threshold")?,
        min_file_num: reader.count("compaction.min.file-num", 1)?.unwrap_or(5),
        file_num_limit: reader
            .count("compaction.file-num-limit", 1)?
            .unwrap_or(100_000),
        delete_ratio_threshold: reader.ratio("compaction.delete-ratio-threshold", 0.2)?,
        small_file_ratio: reader.ratio("compaction.small-file-ratio", 0.7)?,
        force_up_level_0: reader.switch(&["compaction.force-up-level-0"], false)?,
        force_rewrite_all_files: reader.switch(&["compaction.force-rewrite-all-files"], false)?,
        full_delta_commits: reader.count("full-compaction.delta-commits", 1)?,
    })
}

fn files(reader: &Reader<'_>) -> Result<FileOptions> {
    let target_bytes = match reader.0.primary_keys.is_empty() {
        false => 128 << 20,
        true => 256 << 20,
    };
    Ok(FileOptions {
        target_bytes: reader.bytes("target-file-size")?.unwrap_or(target_bytes),
        target_rows: reader
            .count("target-file-row-num", 1)?
            .unwrap_or(i64::MAX.unsigned_abs()),
        compression: reader.text("file.compression").unwrap_or_else(zstd),
        zstd_level: reader
            .count("file.compression.zstd-level", i32::MIN)?
            .unwrap_or(1),
        block_bytes: reader.bytes("file.block-size")?,
        write_buffer_bytes: reader.bytes("write-buffer-size")?.unwrap_or(256 << 20),
    })
}

fn retention(reader: &Reader<'_>) -> Result<RetentionOptions> {
    let snapshots_min = reader.count("snapshot.num-retained.min", 1)?.unwrap_or(10);
    let snapshots_max = reader
        .count("snapshot.num-retained.max", 1)?
        .unwrap_or(i32::MAX.unsigned_abs());
    let snapshot_time = reader
        .time(&["snapshot.time-retained"])?
        .unwrap_or(Duration::from_secs(3600));
    let changelogs_min = reader
        .count("changelog.num-retained.min", 1)?
        .unwrap_or(snapshots_min);
    let changelogs_max = reader
        .count("changelog.num-retained.max", 1)?
        .unwrap_or(snapshots_max);
    for (what, min, max) in [
        ("snapshot", snapshots_min, snapshots_max),
        ("changelog", changelogs_min, changelogs_max),
    ] {
        if min > max {
            return Err(Error::Unsupported(format!(
                "option {what}.num-retained.min = {min}: it is above {what}.num-retained.max = {max}"
            )));
        }
    }
    Ok(RetentionOptions {
        snapshots_min,
        snapshots_max,
        snapshot_time,
        expire_limit: reader.count("snapshot.expire.limit", 1)?.unwrap_or(50),
        clean_empty_directories: reader.switch(
            &[
                "snapshot.clean-empty-directories",
                "snapshot.expire.clean-empty-directories",
            ],
            false,
        )?,
        changelogs_min,
        changelogs_max,
        changelog_time: reader
            .time(&["changelog.time-retained"])?
            .unwrap_or(snapshot_time),
        consumer_time: reader.time(&["consumer.expiration-time"])?,
    })
}

fn tags(reader: &Reader<'_>) -> Result<TagOptions> {
    let creations = [
        ("none", TagCreation::None),
        ("process-time", TagCreation::ProcessTime),
        ("watermark", TagCreation::Watermark),
        ("batch", TagCreation::Batch),
    ];
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let periods = [
        ("daily", hours(24)),
        ("hourly", hours(1)),
        ("two-hours", hours(2)),
    ];
    let period = reader.choice("tag.creation-period", &periods)?;
    Ok(TagOptions {
        creation: reader
            .choice("tag.automatic-creation", &creations)?
            .unwrap_or(TagCreation::None),
        period: reader
            .time(&["tag.creation-period-duration"])?
            .or(period)
            .unwrap_or(hours(24)),
        delay: reader.time(&["tag.creation-delay"])?.unwrap_or_default(),
        formatter: reader
            .text("tag.period-formatter")
            .map_or_else(|| "with_dashes".to_owned(), |text| text.to_lowercase()),
        automatic_max: reader.count("tag.num-retained-max", 1)?,
        time_retained: reader.time(&["tag.default-time-retained"])?,
        time_expire: reader.switch(&["tag.time-expire-enabled"], true)?,
        completion: reader.switch(&["tag.automatic-completion"], false)?,
    })
}

fn partition_expiration(reader: &Reader<'_>) -> Result<PartitionExpiration> {
    let max_num = reader
        .count("partition.expiration-max-num", 1)?
        .unwrap_or(100);
    Ok(PartitionExpiration {
        time: reader.time(&["partition.expiration-time"])?,
        check_interval: reader
            .time(&["partition.expiration-check-interval"])?
            .unwrap_or(Duration::from_secs(3600)),
        max_num,
        batch_size: reader
            .count("partition.expiration-batch-size", 1)?
            .unwrap_or(max_num),
        strategy: reader
            .text("partition.expiration-strategy")
            .unwrap_or_else(|| "values-time".to_owned()),
        timestamp_formatter: reader.text("partition.timestamp-formatter"),
        timestamp_pattern: reader.text("partition.timestamp-pattern"),
    })
}
