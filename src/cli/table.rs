//! `headwater table`: its arguments, and the verb that each of them calls.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use headwater_paimon::{Location, StoreOptions};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    ExitCode,
    commands::{load, on_runtime},
    service,
};
use crate::{
    config,
    error::JobError,
    table::{self, Answer, CompactRequest, TableName, Warehouse},
};

/// What to do with a table of a warehouse.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Databases and tables of a warehouse.
    List(ListArgs),
    /// Schema, options, snapshots, files by level, sorted runs, read amplification.
    Info(InfoArgs),
    /// The data files of a snapshot.
    Files(FilesArgs),
    /// The rows of a snapshot.
    #[command(after_help = "Examples:\n  \
        headwater table read /lake shop.orders --where \"status = 'open' and id > 7\" --limit 20\n  \
        headwater table read /lake shop.orders --tag eod-2026-11-30 --format csv")]
    Read(ReadArgs),
    /// Expire old snapshots and tags, and delete the files that only they need.
    Expire(ExpireArgs),
    /// Tags: snapshots with a name, which outlive their expiry.
    Tag(TagArgs),
    /// Make a former snapshot the newest one; what came after is deleted.
    Rollback(RollbackArgs),
    /// Merge its files as its options call for, or all of them; as `headwater compact`.
    Compact(TableCompactArgs),
    /// List files that nothing refers to, such as those of a process that was killed; delete them
    /// when asked to.
    Orphan(OrphanArgs),
    /// Walk everything: files exist, sizes, counts, statistics, order and levels are true.
    Check(CheckArgs),
    /// Give the table another number of buckets and move its rows into them. Jobs go on by
    /// themselves; other engines' writers must be stopped. After a crash, run it again.
    #[command(after_help = "Examples:\n  \
        headwater table rescale /lake shop.orders --buckets 8\n  \
        headwater table rescale /lake shop.orders --buckets 8 --partition day=2026-11-30")]
    Rescale(RescaleArgs),
}

/// What `table compact` needs.
#[derive(Debug, Clone, Args)]
pub struct TableCompactArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// How.
    #[command(flatten)]
    pub how: CompactHow,
}

/// How to compact.
#[derive(Debug, Clone, Args)]
pub struct CompactHow {
    /// All files of each bucket into one sorted run of the top level.
    #[arg(long)]
    pub full: bool,
    /// Only partitions whose folders begin so, such as d=2026-11-30/h=7.
    #[arg(long, value_name = "K=V")]
    pub partition: Option<String>,
    /// Again and again, with this pause between, such as 1min; once when not said.
    #[arg(long, value_name = "DURATION", value_parser = config::duration)]
    pub every: Option<Duration>,
    /// Memory for it, such as 256MB.
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = config::size)]
    pub memory: u64,
    /// Buckets at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub parallelism: usize,
}

/// What `headwater compact` needs.
#[derive(Debug, Clone, Args)]
pub struct CompactArgs {
    /// A job file, for the tables that the job writes; or the folder or URL of a warehouse.
    #[arg(value_name = "JOB.yaml|WAREHOUSE", value_hint = ValueHint::AnyPath)]
    pub target: String,
    /// Only this database, or this table of it.
    #[arg(value_name = "DATABASE[.TABLE]")]
    pub name: Option<String>,
    /// Option of the warehouse's store, such as s3.endpoint=…; may stand several times.
    #[arg(long = "conf", value_name = "KEY=VALUE", value_parser = pair)]
    pub options: Vec<(String, String)>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// How.
    #[command(flatten)]
    pub how: CompactHow,
}

/// What `orphan` needs.
#[derive(Debug, Clone, Args)]
pub struct OrphanArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Only files that are older than this: younger ones may belong to a commit under way.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = config::duration)]
    pub older_than: Duration,
    /// Delete them; otherwise they are only listed.
    #[arg(long)]
    pub delete: bool,
    /// Take also an age of less than an hour: only when nobody writes.
    #[arg(long)]
    pub force: bool,
}

/// What `check` needs.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Only the newest snapshot, not all of them, tags and branches.
    #[arg(long)]
    pub newest: bool,
    /// Only manifests and sizes; data files are not read.
    #[arg(long)]
    pub metadata: bool,
}

/// What `rescale` needs.
#[derive(Debug, Clone, Args)]
pub struct RescaleArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// The new number of buckets.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    pub buckets: i32,
    /// Only partitions whose column has this value; may stand several times, once a column. The
    /// others are read as before, but must be rescaled before they are written to again.
    #[arg(long, value_name = "COLUMN=VALUE", value_parser = pair)]
    pub partition: Vec<(String, String)>,
}

/// What `expire` needs. What is not said is as the table's options say.
#[derive(Debug, Clone, Args)]
pub struct ExpireArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Snapshots that stay however old they are.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub retain_min: Option<i64>,
    /// Snapshots that stay however young they are.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub retain_max: Option<i64>,
    /// Age at which snapshots between the two numbers go, such as 1h.
    #[arg(long, value_name = "DURATION", value_parser = config::duration)]
    pub older_than: Option<Duration>,
}

/// What `tag` needs.
#[derive(Debug, Clone, Args)]
pub struct TagArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// What to do with its tags.
    #[command(subcommand)]
    pub action: TagAction,
}

/// What to do with a table's tags.
#[derive(Debug, Clone, Subcommand)]
pub enum TagAction {
    /// All tags.
    List,
    /// Make a tag.
    Create {
        /// Its name.
        tag: String,
        /// Snapshot to be tagged; the newest when not said.
        #[arg(long, value_name = "ID")]
        snapshot: Option<i64>,
        /// How long the tag lives, such as 7d; as the table's options say, else for ever.
        #[arg(long, value_name = "DURATION", value_parser = config::duration)]
        retain: Option<Duration>,
    },
    /// Give a tag another name.
    Rename {
        /// Its name.
        tag: String,
        /// The new name.
        new: String,
    },
    /// Delete a tag, and the files that only it needs.
    Delete {
        /// Its name.
        tag: String,
    },
}

/// What `rollback` needs.
#[derive(Debug, Clone, Args)]
pub struct RollbackArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// To this snapshot.
    #[arg(long, value_name = "ID", conflicts_with = "tag")]
    pub snapshot: Option<i64>,
    /// To this tag.
    #[arg(long, value_name = "NAME")]
    pub tag: Option<String>,
}

/// A warehouse.
#[derive(Debug, Clone, Args)]
pub struct WarehouseArgs {
    /// Folder or URL of the warehouse, such as /lake or s3://bucket/lake.
    #[arg(value_name = "WAREHOUSE")]
    pub warehouse: Location,

    /// Option of the warehouse's store, as a job file's catalog.properties.* spell it, such as
    /// s3.endpoint=http://127.0.0.1:9000; may stand several times.
    #[arg(long = "conf", value_name = "KEY=VALUE", value_parser = pair)]
    pub options: Vec<(String, String)>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// A table of a warehouse.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// The warehouse.
    #[command(flatten)]
    pub warehouse: WarehouseArgs,
    // Behind the warehouse on the command line.
    /// The table.
    #[arg(value_name = "DATABASE.TABLE")]
    pub table: TableName,
}

/// What `list` needs.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// The warehouse.
    #[command(flatten)]
    pub warehouse: WarehouseArgs,
    /// Only this database.
    #[arg(value_name = "DATABASE")]
    pub database: Option<String>,
}

/// What `info` needs.
#[derive(Debug, Clone, Args)]
pub struct InfoArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Newest snapshots that are shown.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub snapshots: usize,
}

/// Which state of the table is meant; the newest when nothing is said.
#[derive(Debug, Clone, Default, Args)]
#[group(multiple = false)]
pub struct At {
    /// A snapshot by its id.
    #[arg(long, value_name = "ID")]
    pub snapshot: Option<i64>,
    /// A snapshot by a tag's name.
    #[arg(long, value_name = "NAME")]
    pub tag: Option<String>,
    /// The newest snapshot that was made at or before this time: milliseconds since the epoch, or
    /// 2026-11-30T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub timestamp: Option<String>,
    /// The first snapshot that is complete up to this event time, milliseconds since the epoch.
    #[arg(long, value_name = "TIME")]
    pub watermark: Option<i64>,
}

/// What `files` needs.
#[derive(Debug, Clone, Args)]
pub struct FilesArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Which state.
    #[command(flatten)]
    pub at: At,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A JSON object a line.
    Json,
    /// Comma-separated values, with a header.
    Csv,
    /// A table for people.
    Pretty,
}

/// What `read` needs.
#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Which state.
    #[command(flatten)]
    pub at: At,
    /// Columns, by comma; all when not said.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// Only rows for which this holds: SQL comparisons of columns with values, joined by and, or,
    /// not.
    #[arg(long = "where", value_name = "CONDITION")]
    pub filter: Option<String>,
    /// No more rows than this.
    #[arg(long, value_name = "ROWS")]
    pub limit: Option<usize>,
    /// How rows are printed; pretty on a terminal, else JSON lines.
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

impl WarehouseArgs {
    fn place(&self) -> Warehouse {
        Warehouse {
            location: self.warehouse.clone(),
            options: store_options(&self.options),
        }
    }
}

/// Runs a verb.
pub(super) fn run(command: &TableCommand) -> ExitCode {
    on_runtime(async {
        match command {
            TableCommand::List(args) => {
                let warehouse = args.warehouse.place();
                let listed = table::list(&warehouse, args.database.as_deref()).await;
                tell(listed, args.warehouse.json)
            }
            TableCommand::Info(args) => {
                let at = &args.table;
                let found = table::info(&at.warehouse.place(), &at.table, args.snapshots).await;
                tell(found, at.warehouse.json)
            }
            TableCommand::Files(args) => {
                let at = &args.table;
                let files = table::files(&at.warehouse.place(), &at.table, &args.at).await;
                tell(files, at.warehouse.json)
            }
            TableCommand::Read(args) => {
                let at = &args.table;
                match table::read(&at.warehouse.place(), &at.table, args).await {
                    Ok(()) => ExitCode::Ok,
                    Err(error) => failed(&error),
                }
            }
            TableCommand::Expire(args) => {
                let at = &args.table;
                let done = table::expire(&at.warehouse.place(), &at.table, args).await;
                tell(done, at.warehouse.json)
            }
            TableCommand::Tag(args) => {
                let at = &args.table;
                let done = table::tag(&at.warehouse.place(), &at.table, &args.action).await;
                tell(done, at.warehouse.json)
            }
            TableCommand::Compact(args) => {
                let at = &args.table;
                let request = CompactRequest {
                    database: Some(at.table.database().to_owned()),
                    table: Some(at.table.table().to_owned()),
                    ..request(&args.how)
                };
                compact_until_stopped(&at.warehouse.place(), &request, at.warehouse.json).await
            }
            TableCommand::Orphan(args) => {
                let at = &args.table;
                let found = table::orphan(&at.warehouse.place(), &at.table, args).await;
                tell(found, at.warehouse.json)
            }
            TableCommand::Check(args) => {
                let at = &args.table;
                let found = table::check(&at.warehouse.place(), &at.table, args).await;
                tell(found, at.warehouse.json)
            }
            TableCommand::Rescale(args) => {
                let at = &args.table;
                let done = table::rescale(&at.warehouse.place(), &at.table, args).await;
                tell(done, at.warehouse.json)
            }
            TableCommand::Rollback(args) => {
                let at = &args.table;
                let done = table::rollback(&at.warehouse.place(), &at.table, args).await;
                tell(done, at.warehouse.json)
            }
        }
    })
}

fn request(how: &CompactHow) -> CompactRequest {
    CompactRequest {
        partition: how.partition.clone(),
        full: how.full,
        every: how.every,
        memory_bytes: how.memory,
        parallelism: how.parallelism.max(1),
        ..CompactRequest::default()
    }
}

/// `headwater compact`.
pub(super) fn compact(args: &CompactArgs) -> ExitCode {
    let mut request = request(&args.how);
    if let Some(name) = &args.name {
        let (database, table) = match name.split_once('.') {
            Some((database, table)) => (database, Some(table.to_owned())),
            None => (name.as_str(), None),
        };
        request.database = Some(database.to_owned());
        request.table = table;
    }
    let is_job = [".yaml", ".yml"]
        .iter()
        .any(|end| args.target.ends_with(end));
    let warehouse = if is_job {
        let file = match load(Path::new(&args.target)) {
            Ok(file) => file,
            Err(code) => return code,
        };
        request.job = Some(file.name);
        Warehouse {
            location: file.sink.warehouse,
            options: file.sink.store_options,
        }
    } else {
        let location = match args.target.parse() {
            Ok(location) => location,
            Err(error) => {
                eprintln!("{}: {error}", args.target);
                return ExitCode::Usage;
            }
        };
        Warehouse {
            location,
            options: store_options(&args.options),
        }
    };
    on_runtime(async { compact_until_stopped(&warehouse, &request, args.json).await })
}

async fn compact_until_stopped(
    warehouse: &Warehouse,
    request: &CompactRequest,
    json: bool,
) -> ExitCode {
    let stop = CancellationToken::new();
    if request.every.is_some() {
        if let Err(error) = service::stop_on_signals(stop.clone()) {
            error!(%error, "cannot listen to signals");
            return ExitCode::Definite;
        }
        service::tell_systemd();
    }
    let done = table::compact(warehouse, request, &stop).await;
    match (request.every, done) {
        (Some(_), Ok(_)) => ExitCode::Ok,
        (_, done) => tell(done, json),
    }
}

fn store_options(pairs: &[(String, String)]) -> StoreOptions {
    let mut options = StoreOptions::new();
    for (key, value) in pairs {
        options.insert(key, value);
    }
    options
}

fn failed(error: &JobError) -> ExitCode {
    error!("{error}");
    match error.is_transient() {
        true => ExitCode::Transient,
        false => ExitCode::Definite,
    }
}

/// Prints what a verb found.
fn tell<T: Answer>(answer: Result<T, JobError>, json: bool) -> ExitCode {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return failed(&error),
    };
    let text = match json {
        true => match serde_json::to_string_pretty(&answer) {
            Ok(text) => text + "\n",
            Err(error) => return failed(&JobError::Internal(error.to_string())),
        },
        false => answer.to_text(),
    };
    table::print(&text);
    match answer.is_good() {
        true => ExitCode::Ok,
        false => ExitCode::Failed,
    }
}
