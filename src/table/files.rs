//! `headwater table files`.

use headwater_paimon::LiveFile;
use serde::Serialize;

use super::{Answer, TableName, Warehouse, open, snapshot};
use crate::{cli::table::At, error::Result};

/// The data files of a snapshot.
#[derive(Debug, Serialize)]
pub struct Files {
    table: String,
    snapshot: Option<i64>,
    files: Vec<File>,
}

#[derive(Debug, Serialize)]
struct File {
    partition: String,
    bucket: i32,
    level: i32,
    name: String,
    bytes: i64,
    rows: i64,
    deletes: Option<i64>,
    min_sequence: i64,
    max_sequence: i64,
    schema: i64,
    source: &'static str,
}

/// Lists the data files of a state of the table, by partition, bucket and level.
pub async fn files(warehouse: &Warehouse, name: &TableName, at: &At) -> Result<Files> {
    let table = open(warehouse, name).await?;
    let snapshot = snapshot(&table, at).await?;
    let live = match &snapshot {
        Some(snapshot) => table.live_files(snapshot).await?,
        None => Vec::new(),
    };
    let mut files = live
        .iter()
        .map(|file| {
            Ok(File {
                partition: table.partition_name(&file.partition)?,
                ..File::from(file)
            })
        })
        .collect::<Result<Vec<_>>>()?;
    files.sort_by(|a, b| {
        let place = |file: &File| (file.partition.clone(), file.bucket, file.level);
        (place(a), a.min_sequence, &a.name).cmp(&(place(b), b.min_sequence, &b.name))
    });
    Ok(Files {
        table: table.name().to_owned(),
        snapshot: snapshot.map(|snapshot| snapshot.id),
        files,
    })
}

impl From<&LiveFile> for File {
    fn from(file: &LiveFile) -> Self {
        let meta = &file.meta;
        Self {
            partition: String::new(),
            bucket: file.bucket,
            level: meta.level,
            name: meta.file_name.clone(),
            bytes: meta.file_size,
            rows: meta.row_count,
            deletes: meta.delete_row_count,
            min_sequence: meta.min_sequence_number,
            max_sequence: meta.max_sequence_number,
            schema: meta.schema_id,
            source: match meta.file_source {
                Some(0) => "append",
                Some(1) => "compact",
                _ => "unknown",
            },
        }
    }
}

impl Answer for Files {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            let place = match file.partition.is_empty() {
                true => format!("bucket-{}", file.bucket),
                false => format!("{}/bucket-{}", file.partition, file.bucket),
            };
            text += &format!(
                "{place}  level {}  {:>12} bytes  {:>10} rows  {:>8} deletes  {}\n",
                file.level,
                file.bytes,
                file.rows,
                file.deletes.map_or("?".to_owned(), |n| n.to_string()),
                file.name
            );
        }
        let bytes: i64 = self.files.iter().map(|file| file.bytes).sum();
        match self.snapshot {
            None => text += "the table is empty\n",
            Some(snapshot) => {
                text += &format!(
                    "{} files, {bytes} bytes, snapshot {snapshot}\n",
                    self.files.len()
                );
            }
        }
        text
    }
}
