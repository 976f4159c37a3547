//! What a checkpoint record and its marker say. JSON, versioned, readable by people.

use std::{collections::BTreeMap, time::Duration};

use headwater_connectors::{SourceState, Split, TableName};
use headwater_paimon::CommitMessage;
use serde::{Deserialize, Serialize};

/// Version of the record's format that this program writes.
pub const FORMAT: u32 = 1;

/// A durable cut: where the job goes on, and what has to be committed for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format.
    pub format: u32,
    /// Number of the checkpoint: its id, and the commit identifier in every table.
    pub number: i64,
    /// Counts the instances that have taken the job over.
    pub epoch: u64,
    /// The process that made the record: two never make the same one.
    pub instance: String,
    /// The job's name.
    pub job: String,
    /// Commit user in every table: prefix, job, and an id born with this state.
    pub commit_user: String,
    /// When the record was made, milliseconds since the epoch.
    pub created_ms: i64,
    /// Position and the connector's own facts.
    pub source: SourceState,
    /// The next sequence number of the job's counter.
    pub next_sequence: i64,
    /// Commit time of the last transaction before the position, milliseconds since the epoch.
    pub event_time_ms: Option<i64>,
    /// False while no table was ever committed: then the job may still start over.
    pub committed_before: bool,
    /// Captured tables.
    pub tables: Vec<TableState>,
    /// What step (c) commits.
    pub commits: Vec<TableCommit>,
    /// Tag that all tables get at this checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// When the last such tag was due, milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tagged_ms: Option<i64>,
}

/// A captured table as of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    /// Source table.
    pub source: TableName,
    /// Sink table.
    pub sink: TableName,
    /// Sequence number of all its snapshot rows: lower than that of every tail row.
    pub snapshot_sequence: i64,
    /// Identifier of the job's last commit into it before this record.
    pub last_commit: Option<i64>,
    /// Stretches of its key space; empty when there was nothing to read.
    pub splits: Vec<SplitState>,
    /// Of a table that is read anew: rows of lower sequence numbers that are left when all is read are
    /// no rows of the source any more, and are deleted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_below: Option<i64>,
    /// Schema of the sink table that the rows up to here were written with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<i64>,
    /// The source has no such table any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// The source has yet to say what the table is: then it is read, or read anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// The job captures the table no more, and its sink table holds what it held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

impl TableState {
    /// True while rows of the source are still to be read, or old ones to be removed: rows are to come
    /// that are older than what the sink table has.
    pub fn is_reading(&self) -> bool {
        self.waiting || !self.all_read() || self.sweep_below.is_some()
    }

    /// True when no rows of the source are to be read.
    pub fn all_read(&self) -> bool {
        self.splits.iter().all(|split| split.done)
    }
}

/// Progress of one split, as far as included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitState {
    /// The stretch that is left to read.
    pub split: Split,
    /// Rows read so far.
    pub rows: u64,
    /// Nothing is left.
    pub done: bool,
}

impl SplitState {
    /// A split of which nothing is read.
    pub fn new(split: Split) -> Self {
        Self {
            split,
            rows: 0,
            done: false,
        }
    }
}

/// Files of one table in one checkpoint, in manifest order: chunk files first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCommit {
    /// Sink table.
    pub sink: TableName,
    /// The files.
    pub messages: Vec<CommitMessage>,
}

/// Says that every table of a checkpoint is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Number of the checkpoint.
    pub number: i64,
    /// The process that made the record: a marker is of one record only.
    pub instance: String,
    /// Position of the checkpoint, as text.
    pub position: String,
    /// Snapshot of every sink table that has one: one consistent state of the whole database.
    pub snapshots: BTreeMap<String, i64>,
}

impl Record {
    /// Tables that the job captures.
    pub fn captured(&self) -> impl Iterator<Item = &TableState> {
        self.tables.iter().filter(|table| !table.released)
    }

    /// A captured table, by its name at the source.
    pub fn captured_table(&self, name: &TableName) -> Option<&TableState> {
        self.captured().find(|table| table.source == *name)
    }

    /// True when every split of every table is included.
    pub fn snapshot_is_complete(&self) -> bool {
        !self.tables.iter().any(TableState::is_reading)
    }

    /// Its commits are made: they are the last ones of their tables now.
    pub fn settle(&mut self) {
        for commit in std::mem::take(&mut self.commits) {
            let table = self
                .tables
                .iter_mut()
                .find(|table| table.sink == commit.sink);
            if let Some(table) = table {
                table.last_commit = Some(self.number);
            }
        }
    }

    /// Tags this checkpoint when it is time to: the whole snapshot is in, and the last tag is an
    /// interval old.
    pub fn tag_when_due(&mut self, interval: Option<Duration>) {
        let Some(interval) = interval else {
            return;
        };
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        let due = self
            .tagged_ms
            .is_none_or(|last| self.created_ms.saturating_sub(last) >= interval_ms);
        if !due || !self.snapshot_is_complete() {
            return;
        }
        self.tag = Some(tag_name(self.created_ms));
        self.tagged_ms = Some(self.created_ms);
        // A table without a snapshot can have no tag: it gets an empty one.
        let without = self.captured().filter(|table| table.last_commit.is_none());
        let without = without.map(|table| table.sink.clone());
        let sinks: Vec<TableName> = without
            .filter(|sink| self.commits.iter().all(|commit| commit.sink != *sink))
            .collect();
        self.commits
            .extend(sinks.into_iter().map(|sink| TableCommit {
                sink,
                messages: Vec::new(),
            }));
    }

    /// What says that the record's commits are made.
    pub fn marker(&self, snapshots: BTreeMap<String, i64>) -> Marker {
        Marker {
            number: self.number,
            instance: self.instance.clone(),
            position: self.source.position.to_string(),
            snapshots,
        }
    }

    /// The record that follows this one, with nothing to commit yet.
    pub fn successor(&self, instance: &str, epoch: u64, created_ms: i64) -> Self {
        Self {
            number: self.number.saturating_add(1),
            instance: instance.to_owned(),
            epoch,
            created_ms,
            commits: Vec::new(),
            tag: None,
            ..self.clone()
        }
    }
}

/// `headwater-20261130T120000Z`
fn tag_name(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    time.strftime("headwater-%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Damaged records are errors or other records, never a panic. `HEADWATER_DAMAGE_SEED` gives a
    /// seed again.
    #[test]
    fn damaged_records_do_no_harm() {
        let good = r#"{"format":1,"number":7,"epoch":2,"instance":"i","job":"j","commit_user":"u","created_ms":1,
"next_sequence":9,"event_time_ms":null,"committed_before":true,"tables":[{"source":{"database":"d",
"table":"t"},"sink":{"database":"d","table":"t"},"snapshot_sequence":0,"last_commit":3,"splits":[]}],
"commits":[{"sink":{"database":"d","table":"t"},"messages":[]}],"source":{"position":{"source":"log","offset":5},"connector":null}}"#;
        serde_json::from_str::<Record>(good).unwrap();
        let given = std::env::var("HEADWATER_DAMAGE_SEED").ok();
        let seed = given.map_or_else(rand::random, |seed| seed.parse().unwrap());
        println!("HEADWATER_DAMAGE_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..3000 {
            let mut bytes = good.as_bytes().to_vec();
            for _ in 0..rng.random_range(1..5) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..3) {
                    0 => bytes[at] = rng.random(),
                    1 => bytes[at] = b"0123456789{}[]\",:-"[rng.random_range(0..18)],
                    _ => bytes.truncate(at.max(1)),
                }
            }
            if let Ok(mut record) = serde_json::from_slice::<Record>(&bytes) {
                record.settle();
                let _ = record.successor("other", 1, 1).snapshot_is_complete();
            }
            let _ = serde_json::from_slice::<Marker>(&bytes);
        }
    }
}
