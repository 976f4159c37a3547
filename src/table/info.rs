//! `headwater table info`.

use std::collections::{BTreeMap, HashMap};

use headwater_paimon::{PaimonSnapshot, Schema, Table};
use serde::Serialize;

use super::{Answer, TableName, Warehouse, open};
use crate::error::Result;

/// What there is to know of a table without reading its rows.
#[derive(Debug, Serialize)]
pub struct Info {
    table: String,
    location: String,
    schema: Schema,
    /// All versions of the schema: id, milliseconds since the epoch, columns.
    schema_history: Vec<SchemaVersion>,
    snapshots: Vec<PaimonSnapshot>,
    snapshot_count: usize,
    levels: Vec<Level>,
    buckets: usize,
    /// The most sorted runs that a bucket has.
    sorted_runs_max: usize,
    /// Sorted runs a bucket: how many files a read opens for a key, on the average.
    read_amplification: f64,
}

#[derive(Debug, Serialize)]
struct SchemaVersion {
    id: i64,
    time_ms: i64,
    columns: usize,
}

#[derive(Debug, Default, Serialize)]
struct Level {
    level: i32,
    files: usize,
    bytes: i64,
    rows: i64,
    deletes: i64,
}

/// Looks at a table; shows the newest `snapshots`.
pub async fn info(warehouse: &Warehouse, name: &TableName, snapshots: usize) -> Result<Info> {
    let table = open(warehouse, name).await?;
    let ids = table.snapshot_ids().await?;
    let mut shown = Vec::new();
    for id in ids.iter().rev().take(snapshots) {
        // It may expire while we look.
        shown.extend(table.snapshot(*id).await?);
    }
    let mut info = Info {
        table: table.name().to_owned(),
        location: table.path().to_string(),
        schema: table.schema().as_ref().clone(),
        schema_history: history(&table).await?,
        snapshot_count: ids.len(),
        snapshots: shown,
        levels: Vec::new(),
        buckets: 0,
        sorted_runs_max: 0,
        read_amplification: 0.0,
    };
    if let Some(latest) = table.latest_snapshot().await? {
        info.measure(&table, &latest).await?;
    }
    Ok(info)
}

async fn history(table: &Table) -> Result<Vec<SchemaVersion>> {
    let mut versions = Vec::new();
    for id in 0..=table.schema().id {
        // Versions that a rollback removed are missing.
        if let Ok(schema) = table.schema_of(id).await {
            versions.push(SchemaVersion {
                id,
                time_ms: schema.time_millis,
                columns: schema.fields.len(),
            });
        }
    }
    Ok(versions)
}

impl Info {
    async fn measure(&mut self, table: &Table, latest: &PaimonSnapshot) -> Result<()> {
        let mut levels: BTreeMap<i32, Level> = BTreeMap::new();
        // Level-0 files, and which higher levels have any.
        let mut runs: HashMap<(Vec<u8>, i32), (usize, std::collections::BTreeSet<i32>)> =
            HashMap::new();
        for file in table.live_files(latest).await? {
            let level = levels.entry(file.meta.level).or_default();
            level.level = file.meta.level;
            level.files += 1;
            level.bytes += file.meta.file_size;
            level.rows += file.meta.row_count;
            level.deletes += file.meta.delete_row_count.unwrap_or(0);
            let (at_zero, above) = runs.entry((file.partition, file.bucket)).or_default();
            match file.meta.level {
                0 => *at_zero += 1,
                level => {
                    above.insert(level);
                }
            }
        }
        let runs = runs.into_values().map(|(zero, above)| zero + above.len());
        let runs: Vec<usize> = runs.collect();
        self.levels = levels.into_values().collect();
        self.buckets = runs.len();
        self.sorted_runs_max = runs.iter().copied().max().unwrap_or(0);
        if !runs.is_empty() {
            self.read_amplification = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
        }
        Ok(())
    }
}

impl Answer for Info {
    fn to_text(&self) -> String {
        let mut text = format!("{}  (schema {})\n", self.table, self.schema.id);
        let widest = self.schema.fields.iter().map(|field| field.name.len());
        let widest = widest.max().unwrap_or(0);
        for field in &self.schema.fields {
            let mut marks = String::new();
            if self.schema.primary_keys.contains(&field.name) {
                marks += "  key";
            }
            if self.schema.partition_keys.contains(&field.name) {
                marks += "  partition";
            }
            let null = if field.nullable { "" } else { " NOT NULL" };
            text += &format!(
                "  {:<widest$}  {}{null}{marks}\n",
                field.name, field.data_type
            );
        }
        for (name, value) in &self.schema.options {
            text += &format!("  option {name} = {value}\n");
        }
        text += "schemas\n";
        for version in &self.schema_history {
            text += &format!(
                "  {}  {}  {} columns\n",
                version.id,
                moment(version.time_ms),
                version.columns
            );
        }
        text += &format!("files  ({} buckets)\n", self.buckets);
        for level in &self.levels {
            text += &format!(
                "  level {}  {} files  {} bytes  {} rows  {} deletes\n",
                level.level, level.files, level.bytes, level.rows, level.deletes
            );
        }
        text += &format!(
            "  sorted runs: at most {} a bucket, {:.1} on the average (read amplification)\n",
            self.sorted_runs_max, self.read_amplification
        );
        text += &format!("snapshots  ({})\n", self.snapshot_count);
        for snapshot in &self.snapshots {
            text += &format!(
                "  {}  {}  {:?}  {} records ({:+})  by {} #{}\n",
                snapshot.id,
                moment(snapshot.time_millis),
                snapshot.commit_kind,
                snapshot.total_record_count.unwrap_or(0),
                snapshot.delta_record_count.unwrap_or(0),
                snapshot.commit_user,
                snapshot.commit_identifier
            );
        }
        text
    }
}

/// Milliseconds since the epoch as people read them, in UTC.
pub(super) fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}
