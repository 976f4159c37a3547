//! Headwater's own keys. A Flink CDC file has none of them; each has a default.

use super::{Choice, Key, Kind, Section, later, works};

const BAD_ROW: &[Choice] = &[works("fail"), later("dead-letter")];

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key::new(Section::Job, name, kind, default, meaning)
}

pub(super) const KEYS: &[Key] = &[
    key(
        "checkpoint.interval",
        Kind::Duration,
        "10s",
        "Time between checkpoints, at least 100ms; each makes the changes so far visible",
    ),
    key(
        "checkpoint.retained",
        Kind::Int(1, 10_000),
        "10",
        "Checkpoint records that are kept",
    ),
    key(
        "checkpoint.tag-interval",
        Kind::DurationOrOff,
        "off",
        "How often all tables get a tag of the same name, `headwater-<UTC time>`: the whole \
         database at one moment, for VERSION AS OF. Tags live for the table's \
         `tag.default-time-retained`, or for ever",
    ),
    key(
        "state.path",
        Kind::Text,
        "",
        "Where the checkpoint records are, as `catalog.properties.warehouse`; `<warehouse>/.headwater/<job>` when absent",
    ),
    key(
        "limits.memory",
        Kind::Size,
        "256MB",
        "All buffers of the job together, at least 32MB",
    ),
    key(
        "limits.source.rows-per-second",
        Kind::IntOrOff(1, i64::MAX),
        "off",
        "Most rows that the snapshot reads in a second",
    ),
    key(
        "limits.source.bytes-per-second",
        Kind::SizeOrOff,
        "off",
        "Most bytes of values that the snapshot reads in a second",
    ),
    key(
        "limits.source.connections",
        Kind::Int(2, 1_024),
        "8",
        "Most connections to the source",
    ),
    key(
        "limits.source.concurrent-chunks",
        Kind::Int(1, 1_024),
        "4",
        "Most chunks that are read at a time",
    ),
    key(
        "server.listen",
        Kind::Text,
        "off",
        "Address for metrics, health and console",
    )
    .not_yet(),
    key(
        "on-bad-row",
        Kind::Choice(BAD_ROW),
        "fail",
        "What a row does that cannot be written exactly: stops the job, or is set aside",
    ),
];

/// What a key of Flink's own configuration corresponds to here.
pub(crate) fn counterpart(name: &str) -> Option<&'static str> {
    Some(match name {
        "execution.checkpointing.interval" | "checkpointing.interval" => {
            "this is `checkpoint.interval` here, at the top of the file"
        }
        "state.checkpoints.num-retained" => {
            "this is `checkpoint.retained` here, at the top of the file"
        }
        "state.checkpoints.dir" | "execution.checkpointing.dir" | "state.savepoints.dir" => {
            "this is `state.path` here, at the top of the file"
        }
        "parallelism.default" => "this is `pipeline.parallelism` here",
        "taskmanager.memory.process.size" | "taskmanager.memory.flink.size" => {
            "this is `limits.memory` here, at the top of the file"
        }
        "scan.incremental.snapshot.enabled" => {
            "remove it: the snapshot is always read incrementally"
        }
        _ => return None,
    })
}
