//! Keys with a free end: `jdbc.properties.*`, `debezium.*`, `catalog.properties.*`,
//! `table.properties.*`, and settings of a JVM. What would change a value, a row or the safety of
//! the connection is refused; what only tunes a machine that is not here is read with a warning.

use headwater_paimon::{StoreOption, StoreOptions};

use super::Section;

/// What a key with a free end does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Property {
    /// An option of every table, by its own name.
    TableOption(String),
    /// An option of the store that the warehouse is in, by its own name.
    StoreOption(String),
    /// Read with a warning that says why it does nothing.
    Accepted(&'static str),
    /// Refused: it would change something.
    NotYet(&'static str),
}

const JDBC: &str = "there is no JDBC driver here";
const DEBEZIUM: &str = "there is no Debezium engine here";
const JVM: &str = "there is no Java virtual machine here";

/// Debezium keys that tune its engine and change no value.
const DEBEZIUM_TUNING: [&str; 16] = [
    "max.batch.size",
    "max.queue.size",
    "max.queue.size.in.bytes",
    "poll.interval.ms",
    "connect.keep.alive",
    "connect.keep.alive.interval.ms",
    "connect.timeout.ms",
    "connect.backoff.initial.delay.ms",
    "connect.backoff.max.delay.ms",
    "heartbeat.interval.ms",
    "min.row.count.to.stream.results",
    "snapshot.locking.mode",
    "snapshot.fetch.size",
    "snapshot.max.threads",
    "retriable.restart.connector.wait.ms",
    "binlog.buffer.size",
];

/// Debezium keys that change values, with the one setting that Flink CDC has anyway.
const DEBEZIUM_SAME: [(&str, &str); 6] = [
    ("decimal.handling.mode", "precise"),
    ("time.precision.mode", "adaptive_time_microseconds"),
    ("bigint.unsigned.handling.mode", "precise"),
    ("binary.handling.mode", "bytes"),
    ("tombstones.on.delete", "false"),
    ("enable.time.adjuster", "true"),
];

/// JDBC keys that only ask for an encrypted connection, or for another type, when they are not
/// set to this value.
const JDBC_HARMLESS_ONLY: [(&str, &[&str]); 6] = [
    ("usessl", &["false"]),
    ("requiressl", &["false"]),
    ("verifyservercertificate", &["false"]),
    ("sslmode", &["disabled", "preferred"]),
    ("tinyint1isbit", &["true"]),
    ("yearisdatetype", &["true"]),
];

const ENCRYPTION: &str = "it would change the connection or the columns' types";

/// What a key that the table does not list means, if it has a free end.
pub(crate) fn property(section: Section, name: &str, value: &str) -> Option<Property> {
    match section {
        Section::Source => {
            if let Some(name) = name.strip_prefix("jdbc.properties.") {
                return Some(jdbc(name, value));
            }
            name.strip_prefix("debezium.")
                .map(|name| debezium(name, value))
        }
        Section::Sink => {
            if let Some(name) = name.strip_prefix("table.properties.") {
                return (!name.is_empty()).then(|| Property::TableOption(name.to_owned()));
            }
            name.strip_prefix("catalog.properties.").map(catalog)
        }
        Section::Pipeline | Section::Job => ["taskmanager.", "jobmanager.", "env.java.", "akka."]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            .then_some(Property::Accepted(JVM)),
        Section::Route | Section::Transform => None,
    }
}

fn jdbc(name: &str, value: &str) -> Property {
    let lower = name.to_ascii_lowercase();
    let value = value.trim().to_ascii_lowercase();
    let harmless_only = JDBC_HARMLESS_ONLY.iter().find(|(key, _)| *key == lower);
    match harmless_only {
        Some((_, harmless)) if !harmless.contains(&value.as_str()) => Property::NotYet(ENCRYPTION),
        None if lower.contains("keystore") => Property::NotYet(ENCRYPTION),
        _ => Property::Accepted(JDBC),
    }
}

fn debezium(name: &str, value: &str) -> Property {
    let same = DEBEZIUM_SAME
        .iter()
        .any(|(key, usual)| *key == name && value.trim().eq_ignore_ascii_case(usual));
    let tuning = DEBEZIUM_TUNING.contains(&name)
        || name.starts_with("database.history.")
        || name.starts_with("schema.history.internal.")
        || name.starts_with("errors.");
    if same || tuning {
        Property::Accepted(DEBEZIUM)
    } else {
        Property::NotYet("it may change rows, values or the connection")
    }
}

fn catalog(name: &str) -> Property {
    let cache = name == "cache-enabled" || name.starts_with("cache.");
    if cache || name == "client-pool-size" {
        return Property::Accepted("the catalog is a folder and nothing of it is cached");
    }
    match StoreOptions::judge(name) {
        Some(StoreOption::Used) => Property::StoreOption(name.to_owned()),
        Some(StoreOption::Ignored) => Property::Accepted("it only tunes the S3 client of Java"),
        Some(StoreOption::Refused) => {
            Property::NotYet("it would change how objects are kept or reached")
        }
        None => Property::NotYet("only a warehouse in a folder or on S3 is written"),
    }
}
