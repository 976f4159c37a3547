//! `headwater table check` and `orphan`: is a table whole, and what stands in its folder that
//! nothing refers to?

use headwater_paimon::{CheckReport, CheckRequest, OrphanRequest, Orphans};
use serde::Serialize;

use super::{Answer, TableName, Warehouse, open};
use crate::{
    cli::table::{CheckArgs, OrphanArgs},
    error::Result,
};

/// What a check found.
#[derive(Debug, Serialize)]
pub struct CheckAnswer {
    table: String,
    snapshots: usize,
    files: usize,
    rows: i64,
    files_not_read: usize,
    problems: Vec<FoundProblem>,
    orphans: usize,
    orphan_bytes: u64,
}

#[derive(Debug, Serialize)]
struct FoundProblem {
    kind: String,
    path: String,
    message: String,
}

/// Walks a table.
pub async fn check(
    warehouse: &Warehouse,
    name: &TableName,
    args: &CheckArgs,
) -> Result<CheckAnswer> {
    let table = open(warehouse, name).await?;
    let request = CheckRequest {
        all: !args.newest,
        data: !args.metadata,
        orphans: true,
    };
    let report: CheckReport = table.check(&request).await?;
    Ok(CheckAnswer {
        table: table.name().to_owned(),
        snapshots: report.snapshots,
        files: report.files,
        rows: report.rows,
        files_not_read: report.files_not_read,
        orphans: report.orphans.len(),
        orphan_bytes: report.orphans.iter().map(|file| file.bytes).sum(),
        problems: report
            .problems
            .into_iter()
            .map(|problem| FoundProblem {
                kind: format!("{:?}", problem.kind),
                path: problem.path,
                message: problem.message,
            })
            .collect(),
    })
}

impl Answer for CheckAnswer {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            text += &format!("{}: {}: {}\n", problem.kind, problem.path, problem.message);
        }
        if self.orphans > 0 {
            text += &format!(
                "{} files ({} bytes) that nothing refers to: headwater table orphan lists them\n",
                self.orphans, self.orphan_bytes
            );
        }
        if self.files_not_read > 0 {
            text += &format!(
                "{} files were not read: not Parquet, or outside of the table\n",
                self.files_not_read
            );
        }
        text += &format!(
            "{}: {} snapshots, {} files, {} rows read, {} problems\n",
            self.table,
            self.snapshots,
            self.files,
            self.rows,
            self.problems.len()
        );
        text
    }

    fn is_good(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Files that nothing refers to.
#[derive(Debug, Serialize)]
pub struct OrphanAnswer {
    table: String,
    deleted: bool,
    bytes: u64,
    files: Vec<String>,
    empty_folders: Vec<String>,
}

/// Lists files that nothing refers to, or deletes them.
pub async fn orphan(
    warehouse: &Warehouse,
    name: &TableName,
    args: &OrphanArgs,
) -> Result<OrphanAnswer> {
    let table = open(warehouse, name).await?;
    let now = crate::clock::now_ms();
    let age = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX);
    let found: Orphans = table
        .clean_orphans(&OrphanRequest {
            older_than_ms: Some(now.saturating_sub(age)),
            force: args.force,
            delete: args.delete,
        })
        .await?;
    Ok(OrphanAnswer {
        table: table.name().to_owned(),
        deleted: found.deleted,
        bytes: found.bytes(),
        files: found.files.into_iter().map(|file| file.path).collect(),
        empty_folders: found.empty_folders,
    })
}

impl Answer for OrphanAnswer {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            text += &format!("{file}\n");
        }
        for folder in &self.empty_folders {
            text += &format!("{folder}/ (empty)\n");
        }
        let done = match self.deleted {
            true => "deleted",
            false => "found; --delete deletes them",
        };
        text += &format!(
            "{}: {} files ({} bytes) and {} empty folders that nothing refers to {done}\n",
            self.table,
            self.files.len(),
            self.bytes,
            self.empty_folders.len()
        );
        text
    }
}
