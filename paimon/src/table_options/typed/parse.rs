//! Groups of options as they stand in a schema, with the format's defaults.

use std::time::Duration;

use super::{
    ChangelogOptions, ChangelogProducer, CompactionOptions, FileOptions, MergeEngine, MergeOptions,
    PartitionExpiration, RetentionOptions, TagCreation, TagOptions,
};
use crate::{
    error::{Error, Result},
    table_options::value::Reader,
};

pub(super) fn zstd() -> String {
    "zstd".to_owned()
}

pub(super) fn merge(reader: &Reader<'_>) -> Result<MergeOptions> {
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

pub(super) fn changelog(reader: &Reader<'_>, run_trigger: usize) -> Result<ChangelogOptions> {
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

pub(super) fn compaction(reader: &Reader<'_>) -> Result<CompactionOptions> {
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

pub(super) fn files(reader: &Reader<'_>) -> Result<FileOptions> {
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

pub(super) fn retention(reader: &Reader<'_>) -> Result<RetentionOptions> {
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

pub(super) fn tags(reader: &Reader<'_>) -> Result<TagOptions> {
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

pub(super) fn partition_expiration(reader: &Reader<'_>) -> Result<PartitionExpiration> {
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
