//! The command line: what may be typed, how a run is logged, how it ends.

mod commands;
mod exit;
mod log;
mod service;
pub mod table;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use headwater_connectors::TableName;

pub use exit::ExitCode;

use crate::{ask::Wish, config, progress::Screen};

/// Streams whole MySQL databases into Apache Paimon tables, exact to the row.
#[derive(Debug, Parser)]
#[command(
    name = "headwater",
    version,
    about,
    long_about = None,
    propagate_version = true,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = EXAMPLES,
    after_long_help = exit::HELP,
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// How log lines are written to standard error.
    #[command(flatten)]
    pub log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater check shop.yaml                 What would go wrong, before it does
  headwater run shop.yaml                   All rows, then every change, until stopped
  headwater verify shop.yaml                Are source and lake equal, row by row?
  headwater run shop.yaml --log-format json Logs for a machine
  headwater completion bash > /etc/bash_completion.d/headwater

A job file is a Flink CDC 3.x pipeline file, unchanged.
Exit codes: see `headwater --help`.";

const TABLE_EXAMPLES: &str = "\
Examples:
  headwater table list /lake
  headwater table info /lake shop.orders
  headwater table read /lake shop.orders --where \"status = 'open'\" --limit 10
  headwater table check s3://bucket/lake shop.orders --conf s3.endpoint=http://127.0.0.1:9000";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a job: all rows, then every change.
    ///
    /// Goes on where the last run of the job stopped. SIGTERM and Ctrl-C end it with a final
    /// checkpoint.
    #[command(after_help = "Example:\n  MYSQL_PASSWORD=… headwater run shop.yaml")]
    Run(JobArgs),

    /// Say what would go wrong, before it does.
    ///
    /// Checks connection, privileges, the binary log, tables and types, the warehouse and the
    /// state; each check is named, with what to do. `run` does the same first.
    #[command(after_help = "Example:\n  headwater check shop.yaml && headwater run shop.yaml")]
    Check(JobArgs),

    /// Compare source and lake, row by row.
    ///
    /// Counts and hashes the rows of every table at a checkpoint and names the keys that differ.
    /// Works while the job runs: keys that differ are looked at again after the next checkpoint.
    #[command(after_help = "Examples:\n  headwater verify shop.yaml\n  \
                            headwater verify shop.yaml --timeout 30min --json")]
    Verify(VerifyArgs),

    /// Compact tables that somebody else writes: all of a job, a warehouse, a database, or one.
    ///
    /// Once, or as a service with --every. Jobs compact their tables by themselves, unless the
    /// table option write-only says otherwise.
    #[command(
        after_help = "Examples:\n  headwater compact shop.yaml --every 1min\n  \
                            headwater compact /lake shop.orders --full"
    )]
    Compact(table::CompactArgs),

    /// Read tables anew that a job captures, all rows, in place.
    ///
    /// For a job that runs, on this machine or another, and for one that runs later: the others and the
    /// table's own changes go on meanwhile, and its rows stay readable. Rows that the source no longer
    /// has go at the end.
    #[command(after_help = "Example:\n  headwater resync shop.yaml shop.orders --wait")]
    Resync(AskArgs),

    /// Take up tables that the job file names and the job does not capture yet.
    ///
    /// For a job that runs, if its file named them when it was started, and for one that runs later. With
    /// scan.newly-added-table.enabled a job takes up all such tables when it starts.
    #[command(after_help = "Example:\n  headwater add-table shop.yaml shop.refunds --wait")]
    AddTable(AskArgs),

    /// Look at a Paimon table, or change it: any table of a warehouse, ours or not.
    #[command(subcommand, after_help = TABLE_EXAMPLES)]
    Table(table::TableCommand),

    /// Print the completion script of a shell.
    #[command(after_help = "Examples:\n  \
        headwater completion bash > /etc/bash_completion.d/headwater\n  \
        headwater completion zsh > \"${fpath[1]}/_headwater\"\n  \
        headwater completion fish > ~/.config/fish/completions/headwater.fish")]
    Completion {
        /// Which shell.
        shell: Shell,
    },
}

/// What a command on a job needs.
#[derive(Debug, Clone, Args)]
pub struct JobArgs {
    /// The job file.
    #[arg(value_name = "JOB.yaml", value_hint = ValueHint::FilePath)]
    pub job: PathBuf,
}

/// What `verify` needs.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// The job file.
    #[arg(value_name = "JOB.yaml", value_hint = ValueHint::FilePath)]
    pub job: PathBuf,

    /// How long to wait for source and lake to meet, such as 30s or 10min.
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = config::duration)]
    pub timeout: Duration,

    /// Print the result as one JSON object on standard output.
    #[arg(long)]
    pub json: bool,
}

/// What `resync` and `add-table` need.
#[derive(Debug, Clone, Args)]
pub struct AskArgs {
    /// The job file.
    #[arg(value_name = "JOB.yaml", value_hint = ValueHint::FilePath)]
    pub job: PathBuf,

    /// Tables at the source.
    #[arg(value_name = "DATABASE.TABLE", required = true, value_parser = table_name)]
    pub tables: Vec<TableName>,

    /// Wait until all rows are read and committed, not only until the job has taken the request.
    #[arg(long)]
    pub wait: bool,
}

fn table_name(text: &str) -> Result<TableName, String> {
    match text.split_once('.') {
        Some((database, table)) if !database.is_empty() && !table.is_empty() => {
            Ok(TableName::new(database, table))
        }
        _ => Err("a table is named DATABASE.TABLE".to_owned()),
    }
}

/// How a run is logged.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Form of the log lines; `auto` writes text.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = LogFormat::Auto,
        env = "HEADWATER_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or a filter such as
    /// `info,headwater::job=debug`.
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        default_value = "info",
        env = "HEADWATER_LOG",
        hide_env_values = true,
        value_parser = log::filter
    )]
    pub log_level: String,
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Coloured text and live progress on a terminal, else plain text.
    Auto,
    /// Plain text, a line an event, no progress.
    Text,
    /// A JSON object a line.
    Json,
}

impl LogArgs {
    /// Whether progress may be drawn: a person watches, and no form of logs was asked for.
    pub fn progress(&self) -> bool {
        self.log_format == LogFormat::Auto && std::io::stderr().is_terminal()
    }
}

/// Reads the command line, runs the command and says how it ended. The whole program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too. Nothing is left to say when printing fails.
            let asked_for = !error.use_stderr();
            drop(error.print());
            return if asked_for {
                ExitCode::Ok
            } else {
                ExitCode::Usage
            };
        }
    };
    dispatch(cli)
}

/// Runs a command.
pub fn dispatch(cli: Cli) -> ExitCode {
    let watched = matches!(cli.command, Command::Run(_)) && cli.log.progress();
    let screen = watched.then(Screen::new);
    log::start(&cli.log, screen.as_ref());
    match cli.command {
        Command::Run(args) => commands::run(&args, screen),
        Command::Check(args) => commands::check(&args),
        Command::Verify(args) => commands::verify(&args),
        Command::Resync(args) => commands::ask(&args, Wish::Resync),
        Command::AddTable(args) => commands::ask(&args, Wish::Add),
        Command::Compact(args) => table::compact(&args),
        Command::Table(command) => table::run(&command),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "headwater", &mut script);
            // A reader that has seen enough closes the pipe; that is no error of ours.
            drop(std::io::stdout().write_all(&script));
            ExitCode::Ok
        }
    }
}

#[cfg(test)]
mod tests;
