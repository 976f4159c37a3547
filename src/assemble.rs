//! From a job file to a job: the one place where source, lake and state are chosen and joined.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use headwater_connectors::mysql::{
    MysqlOptions, MysqlSource,
    options::{Hosts, Password, ServerIds, Startup as MysqlStartup, TableFilter, TypeOptions},
    replica_uuid,
};
use headwater_paimon::{Catalog, Error as LakeError, Location};
use secrecy::ExposeSecret;

use crate::{
    checkpoint::StateStore,
    config::{JobFile, NewTables, StartupMode},
    error::{JobError, Result},
    job::{Job, Settings, Startup, limit::ReadRates},
    route::Router,
    sink::{SchemaPolicy, SinkOptions},
};

/// Longest wait between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Makes the folders of a job that will run: what it says when it cannot is clearer than what the
/// first write would say.
pub fn make_folders(file: &JobFile) -> Result<()> {
    let made = |what: &str, location: &Location, advice: &str| {
        let Some(folder) = location.as_folder() else {
            return Ok(());
        };
        std::fs::create_dir_all(folder).map_err(|error| {
            JobError::Definite(format!(
                "cannot make the {what} folder {}: {error}. {advice}",
                folder.display()
            ))
        })
    };
    made(
        "warehouse",
        &file.sink.warehouse,
        "Make it writable for this user, or set catalog.properties.warehouse",
    )?;
    made(
        "state",
        &file.state_path(),
        "Make it writable for this user, or set state.path",
    )
}

/// A job as its file says; nothing is connected and nothing is made yet.
pub fn assemble(file: &JobFile) -> Result<Arc<Job>> {
    let source = Arc::new(MysqlSource::new(mysql_options(file)?));
    Ok(Job::new(
        settings(file)?,
        source,
        Catalog::open(&file.sink.warehouse, &file.sink.store_options).map_err(misplaced)?,
        state(file)?,
    ))
}

/// A location that cannot be is the file's fault.
fn misplaced(error: LakeError) -> JobError {
    match error {
        LakeError::Location { .. } => JobError::Definite(format!(
            "the warehouse cannot be used: {error}. Set catalog.properties of the sink"
        )),
        other => other.into(),
    }
}

fn settings(file: &JobFile) -> Result<Settings> {
    let router = Router::new(&file.routes, file.pipeline.route_mode)
        .map_err(|error| JobError::Definite(error.to_string()))?;
    Ok(Settings {
        name: file.name.clone(),
        commit_user_prefix: file.sink.commit_user_prefix.clone(),
        interval: file.checkpoint.interval,
        retained: file.checkpoint.retained as usize,
        tag_interval: file.checkpoint.tag_interval,
        startup: match file.source.startup_mode {
            StartupMode::Initial => Startup::Initial,
            StartupMode::Snapshot => Startup::Snapshot,
            StartupMode::LatestOffset => Startup::LatestOffset,
        },
        memory_bytes: usize::try_from(file.limits.memory_bytes).unwrap_or(usize::MAX),
        concurrent_chunks: file.snapshot_workers() as usize,
        adds_tables: file.source.new_tables != NewTables::Ignored,
        rates: ReadRates {
            rows: file.limits.source.rows_per_second,
            bytes: file.limits.source.bytes_per_second,
        },
        router,
        sink: SinkOptions {
            table_options: file.sink.table_options.clone(),
            partition_keys: file.sink.partition_keys.clone(),
            policy: SchemaPolicy {
                behavior: file.pipeline.schema_behavior,
                kinds: file.sink.schema_changes.clone(),
            },
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
        capture_created: source.new_tables == NewTables::AtOnce,
        accept_foreign_key_cascades: source.accept_foreign_key_cascades,
        hosts: Hosts::parse(&source.hostname, source.port)?,
        ..MysqlOptions::new("", source.port, &source.username)
    })
}

/// What tells the job from every other, and is the same in each of its runs.
fn who(file: &JobFile) -> String {
    let location = match file.state_path() {
        Location::Folder(folder) => {
            Location::Folder(std::path::absolute(&folder).unwrap_or(folder))
        }
        bucket => bucket,
    };
    format!("{}\n{location}", file.name)
}

fn state(file: &JobFile) -> Result<StateStore> {
    let location = match file.state_path() {
        Location::Folder(folder) => Location::Folder(resolved(&folder).map_err(|error| {
            let folder = folder.display();
            JobError::Definite(format!(
                "the state folder {folder} cannot be used: {error}. Set state.path"
            ))
        })?),
        bucket => bucket,
    };
    Ok(StateStore::open(&location, &file.sink.store_options)?)
}

/// The absolute path of a folder, without links as far as it is there.
fn resolved(folder: &Path) -> std::io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    for there in folder.ancestors() {
        if let (Ok(real), Ok(rest)) = (there.canonicalize(), folder.strip_prefix(there)) {
            return Ok(match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            });
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_probe_makes_no_folder_and_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
        let state = resolved(&folder.path().join("link/not/there")).unwrap();
        assert_eq!(state, real.join("not/there"));
        let store = StateStore::local(&state).unwrap();
        assert_eq!(store.folder(), state.display().to_string());
        store.probe().await.unwrap();
        assert!(store.newest().await.unwrap().is_none());
        assert_eq!(std::fs::read_dir(&real).unwrap().count(), 1, "the link");

        let nowhere = StateStore::local(Path::new("/proc/headwater/state")).unwrap();
        let error = nowhere.probe().await.unwrap_err().to_string();
        assert!(error.contains(" /proc/"), "{error}");
    }
}
