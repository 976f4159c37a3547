//! The options that decide what this crate does, read into one value with the format's defaults.
//!
//! Source: `org.apache.paimon.CoreOptions`.

use std::time::Duration;

use super::{kept::check_kept_of_writers, value::Reader};
use crate::{error::Result, schema::Schema};

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
    /// `compaction.max-size-amplification-percent`; 200 in Java where it is not set.
    pub max_size_amplification_percent: Option<u64>,
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

/// Sizes of data files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// `target-file-size`, bytes; 128 MB of tables with, 256 MB of those without a primary key.
    pub target_bytes: u64,
    /// `target-file-row-num`: rows of a file of a writer; compactions look at bytes only.
    pub target_rows: u64,
    /// `file.block-size`, bytes: of a Parquet row group, where it is less than this crate's own.
    pub block_bytes: Option<u64>,
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
    /// `manifest.target-file-size`, bytes.
    pub target_bytes: u64,
    /// `manifest.full-compaction-threshold-size`, bytes.
    pub full_threshold_bytes: u64,
    /// `manifest.merge-min-count`.
    pub merge_min_count: usize,
}

/// How commits retry; what is not set is this crate's to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitOptions {
    /// `commit.max-retries`.
    pub retries_max: Option<u32>,
    /// `commit.min-retry-wait`.
    pub retry_wait_min: Option<Duration>,
    /// `commit.max-retry-wait`.
    pub retry_wait_max: Option<Duration>,
    /// `commit.timeout`; none without a limit.
    pub timeout: Option<Duration>,
}

/// All options that decide what this crate does to rows and files, with the format's defaults for those not set.
///
/// Those that say how much of its past a table keeps are read by [`Retention`](crate::Retention),
/// [`AutoTagger`](crate::AutoTagger) and [`PartitionExpiry`](crate::PartitionExpiry).
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
        check_kept_of_writers(&reader)?;
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
                target_bytes: reader
                    .bytes("manifest.target-file-size")?
                    .unwrap_or(8 << 20),
                full_threshold_bytes: reader
                    .bytes("manifest.full-compaction-threshold-size")?
                    .unwrap_or(16 << 20),
                merge_min_count: reader.count("manifest.merge-min-count", 1)?.unwrap_or(30),
            },
            commit: CommitOptions {
                retries_max: reader.count("commit.max-retries", 0)?,
                retry_wait_min: reader.time(&["commit.min-retry-wait"])?,
                retry_wait_max: reader.time(&["commit.max-retry-wait"])?,
                timeout: reader.time(&["commit.timeout"])?,
            },
            compaction,
        })
    }
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
            .count("compaction.max-size-amplification-percent", 0)?,
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
        block_bytes: reader.bytes("file.block-size")?,
    })
}
