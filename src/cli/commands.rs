//! The commands, each from its arguments to its exit code.

use std::{path::Path, sync::Arc};

use headwater_connectors::{CheckStatus, Meaning};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{AskArgs, ExitCode, JobArgs, VerifyArgs, service};
use crate::{
    ask::{self, Answer, Wish},
    assemble::{assemble, make_folders},
    check,
    checkpoint::StateError,
    config::{self, JobFile},
    error::JobError,
    job::{Ended, Job},
    progress::{self, Mode, Screen},
    verify::{self, VerifyOptions},
};

/// `headwater run`.
pub(super) fn run(args: &JobArgs, screen: Option<Screen>) -> ExitCode {
    with_job(&args.job, make_folders, async |job| {
        // What is wrong with a bucket is told better by a try than by the first read. One that is
        // away may be back in a moment.
        if job.catalog.is_in_bucket()
            && let Err(error) = job.catalog.probe().await
            && !error.is_transient()
        {
            return told(&job, &error.into());
        }
        // Another instance explains most of what the checks would find.
        if let Err(error) = job.wait_free().await {
            return told(&job, &error);
        }
        if !ready(&job).await {
            return ExitCode::Definite;
        }
        let shutdown = CancellationToken::new();
        if let Err(error) = service::stop_on_signals(shutdown.clone()) {
            error!(%error, "cannot listen to signals");
            return ExitCode::Definite;
        }
        service::tell_systemd();
        let shown = CancellationToken::new();
        let mode = screen.map_or(Mode::Log, Mode::Terminal);
        let showing = tokio::spawn(progress::show(job.status.clone(), mode, shown.clone()));
        let ended = job.run(shutdown).await;
        shown.cancel();
        if let Err(error) = showing.await {
            warn!(%error, "the progress display failed");
        }
        match ended {
            Ok(Ended::Stopped) => info!("stopped; the final checkpoint is committed"),
            Ok(Ended::StoppedWithoutCheckpoint) => {
                warn!("stopped without a final checkpoint; the next run goes on from the last one");
            }
            Ok(Ended::SnapshotComplete) => info!("the snapshot is complete and committed"),
            Err(error) => return told(&job, &error),
        }
        ExitCode::Ok
    })
}

/// `headwater check`.
pub(super) fn check(args: &JobArgs) -> ExitCode {
    with_job(&args.job, as_they_are, async |job| {
        let checks = check::check(&job).await;
        print!("{}", check::render(&checks));
        match check::count(&checks, CheckStatus::Failed) {
            0 => ExitCode::Ok,
            _ => ExitCode::Failed,
        }
    })
}

/// `headwater verify`.
pub(super) fn verify(args: &VerifyArgs) -> ExitCode {
    with_job(&args.job, as_they_are, async |job| {
        let options = VerifyOptions {
            timeout: args.timeout,
            ..VerifyOptions::default()
        };
        let report = match verify::verify(&job, &options).await {
            Ok(report) => report,
            Err(error) => return told(&job, &error),
        };
        if args.json {
            match report.to_json() {
                Ok(json) => println!("{json}"),
                Err(error) => {
                    error!(%error, "cannot write the report");
                    return ExitCode::Definite;
                }
            }
        } else {
            print!("{}", report.to_text());
        }
        match report.equal() {
            true => ExitCode::Ok,
            false => ExitCode::Failed,
        }
    })
}

/// `headwater resync` and `headwater add-table`.
pub(super) fn ask(args: &AskArgs, wish: Wish) -> ExitCode {
    with_job(&args.job, as_they_are, async |job| {
        match ask::ask(&job, wish, &args.tables, args.wait).await {
            Ok(Answer::Later) => {
                info!("the job does not run: it does so when it runs next");
            }
            Ok(Answer::Taken) => {
                info!("taken: it is under way, and goes on where it is whatever stops the job");
            }
            Ok(Answer::Complete) => info!("all rows are read and committed"),
            Err(error) => return told(&job, &error),
        }
        ExitCode::Ok
    })
}

/// The checks of `run`: failed ones are logged and end it. A job that has run before needs no
/// check to go on: what is out of reach now may be back in a moment, and it waits for that.
async fn ready(job: &Job) -> bool {
    let has_run = matches!(job.state.newest().await, Ok(Some(_)));
    let checks = check::check(job).await;
    let connected = checks
        .first()
        .is_some_and(|connection| connection.status != CheckStatus::Failed);
    if has_run && !connected {
        return true;
    }
    for check in &checks {
        let advice = check.advice.as_deref().unwrap_or_default();
        match check.status {
            CheckStatus::Passed => {}
            CheckStatus::Warning => warn!(advice, "{}: {}", check.name, check.found),
            CheckStatus::Failed => error!(advice, "{}: {}", check.name, check.found),
        }
    }
    check::count(&checks, CheckStatus::Failed) == 0
}

/// Logs the error that ended a job, and gives its exit code.
fn told(job: &Job, error: &JobError) -> ExitCode {
    error!(job = job.settings.name, "{error}");
    match error {
        JobError::Held { .. } | JobError::State(StateError::Fenced { .. }) => ExitCode::Held,
        JobError::Source(error) if error.means(Meaning::AnotherInstance) => ExitCode::Held,
        error if error.is_transient() => ExitCode::Transient,
        _ => ExitCode::Definite,
    }
}

/// For commands that only look: they leave no folder behind.
fn as_they_are(_: &JobFile) -> Result<(), JobError> {
    Ok(())
}

/// Reads the job file, sees to the folders, makes the job and gives it to a command on a runtime.
fn with_job(
    path: &Path,
    folders: fn(&JobFile) -> Result<(), JobError>,
    command: impl AsyncFnOnce(Arc<Job>) -> ExitCode,
) -> ExitCode {
    let file = match load(path) {
        Ok(file) => file,
        Err(code) => return code,
    };
    on_runtime(async {
        match folders(&file).and_then(|()| assemble(&file)) {
            Ok(job) => command(job).await,
            Err(error) => {
                error!(job = file.name, "{error}");
                ExitCode::Definite
            }
        }
    })
}

/// Runs a command to its end on a runtime of its own.
pub(super) fn on_runtime(command: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "cannot start the runtime");
            return ExitCode::Definite;
        }
    };
    let code = runtime.block_on(command);
    // Reads under way on blocking threads must not hold the process up.
    runtime.shutdown_background();
    code
}

/// Reads a job file and logs its warnings. A file that is wrong is told to the person who typed
/// the command, with the lines that are meant, whatever the form of the logs.
pub(super) fn load(path: &Path) -> Result<JobFile, ExitCode> {
    match config::load(path) {
        Ok(job) => {
            for warning in &job.warnings {
                warn!(
                    key = warning.key,
                    line = warning.line,
                    "{}",
                    warning.message
                );
            }
            Ok(job)
        }
        Err(error) => {
            eprintln!("{error}");
            Err(ExitCode::Usage)
        }
    }
}
