//! From a job file to a job: the one place where source, lake and state are chosen and joined.

use std::{sync::Arc, time::Duration};

use headwater_connectors::mysql::{
    MysqlOptions, MysqlSource,
    options::{Password, ServerIds, Startup as MysqlStartup, TableFilter, TypeOptions},
    replica_uuid,
};
use headwater_paimon::Catalog;
use object_store::{ObjectStore, local::LocalFileSystem, path::Path};
use secrecy::ExposeSecret;

use crate::{
    checkpoint::StateStore,
    config::{JobFile, StartupMode},
    error::{JobError, Result},
    job::{Job, Settings, Startup},
    route::Router,
    sink::SinkOptions,
};

/// Longest wait between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A job as its file says; nothing is connected yet, only folders are made.
pub fn assemble(file: &JobFile) -> Result<Arc<Job>> {
    let source = Arc::new(MysqlSource::new(mysql_options(file)?));
    Ok(Job::new(
        settings(file)?,
        source,
        Catalog::local(&file.sink.warehouse)?,
        state(file)?,
    ))
}

fn settings(file: &JobFile) -> Result<Settings> {
    let router = Router::new(&file.routes, file.pipeline.route_mode)
        .map_err(|error| JobError::Definite(error.to_string()))?;
    Ok(Settings {
        name: file.name.clone(),
        commit_user_prefix: file.sink.commit_user_prefix.clone(),
        interval: file.checkpoint.interval,
        retained: file.checkpoint.retained as usize,
        startup: match file.source.startup_mode {
            StartupMode::Initial => Startup::Initial,
            StartupMode::Snapshot => Startup::Snapshot,
            StartupMode::LatestOffset => Startup::LatestOffset,
        },
        memory_bytes: usize::try_from(file.limits.memory_bytes).unwrap_or(usize::MAX),
        concurrent_chunks: file.snapshot_workers() as usize,
        rows_per_second: file.limits.source.rows_per_second,
        router,
        sink: SinkOptions {
            table_options: file.sink.table_options.clone(),
            partition_keys: file.sink.partition_keys.clone(),
        },
        retry_max: RETRY_MAX,
    })
}

fn mysql_options(file: &JobFile) -> Result<MysqlOptions> {
    let source = &file.source;
    Ok(MysqlOptions {
        password: Password::new(source.password.expose_secret()),
        tables: TableFilter::parse(&source.tables, source.tables_exclude.as_deref())?,
        server_ids: match source.server_id {
            Some((first, last)) => ServerIds::Range(first..=last),
            None => ServerIds::Random,
        },
        replica_uuid: replica_uuid(&who(file)),
        startup: match source.startup_mode {
            StartupMode::Initial => MysqlStartup::Initial,
            StartupMode::Snapshot => MysqlStartup::Snapshot,
            StartupMode::LatestOffset => MysqlStartup::LatestOffset,
        },
        chunk_rows: source.chunk_size_rows as usize,
        types: TypeOptions {
            tinyint1_as_boolean: source.tinyint1_as_boolean,
            time_as_string: source.time_as_string,
            include_comments: source.include_comments,
            ..TypeOptions::default()
        },
        connect_timeout: source.connect_timeout,
        connect_max_retries: source.connect_retries_max,
        heartbeat_interval: source.heartbeat_interval,
        connections_max: source
            .connection_pool_size
            .min(file.limits.source.connections_max) as usize,
        accept_foreign_key_cascades: source.accept_foreign_key_cascades,
        ..MysqlOptions::new(&source.hostname, source.port, &source.username)
    })
}

/// What tells the job from every other, and is the same in each of its runs.
fn who(file: &JobFile) -> String {
    let folder = file.state_path();
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    format!("{}\n{}", file.name, folder.display())
}

fn state(file: &JobFile) -> Result<StateStore> {
    let folder = file.state_path();
    let failed = |error: &dyn std::fmt::Display| {
        JobError::Definite(format!(
            "cannot make the state folder {}: {error}. Make it writable for this user, or set \
             state.path",
            folder.display()
        ))
    };
    std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
    let folder = folder.canonicalize().map_err(|error| failed(&error))?;
    let path = Path::from_absolute_path(&folder).map_err(|error| failed(&error))?;
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new().with_fsync(true));
    Ok(StateStore::new(store, path))
}
