//! Settings to a typed [`JobFile`]: defaults from the key table, checks between keys.

use std::{collections::BTreeSet, path::Path, time::Duration};

use headwater_paimon::{Location, StoreOptions};
use secrecy::SecretString;

use super::{
    job_file::{
        Checkpoint, JobFile, Limits, MysqlSource, NewTables, PaimonSink, Pipeline, Route,
        RouteMode, RuntimeMode, SchemaBehavior, SchemaChangeKind, SourceLimits, StartupMode, State,
    },
    key::{self, Section},
    problem::{ConfigError, Mark},
    settings::{Group, Settings},
    text, value,
};
use crate::route::Rule;

/// The shortest time between checkpoints.
const CHECKPOINT_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The least memory that a job can work with, in bytes.
const MEMORY_MIN_BYTES: u64 = 32 << 20;

/// Reads the settings. `file` names the job when the file does not.
pub(crate) fn job_file(settings: Settings, file: &str) -> Result<JobFile, ConfigError> {
    let mut reader = Reader { settings };
    for section in [Section::Source, Section::Sink] {
        if reader.settings.told.contains(&section) {
            continue;
        }
        match reader.settings.groups.remove(&section) {
            Some(group) => {
                reader
                    .settings
                    .require(section, section.name(), &group, None);
                reader.settings.groups.insert(section, group);
            }
            None => {
                let message = format!("`{}` is missing; it is required", section.name());
                reader.settings.fail_file(message);
            }
        }
    }
    let source = reader.source();
    let sink = reader.sink();
    let routes = reader.routes();
    let pipeline = reader.pipeline();
    let job = JobFile {
        name: reader.name(file),
        checkpoint: reader.checkpoint(),
        state: State {
            path: reader.parsed(Section::Job, "state.path", text::location),
        },
        limits: reader.limits(),
        source,
        sink,
        routes,
        pipeline,
        warnings: Vec::new(),
    };
    reader.check_modes(&job);
    let mut settings = reader.settings;
    if !settings.problems.is_empty() {
        return Err(settings.error());
    }
    let mut warnings = std::mem::take(&mut settings.warnings);
    warnings.sort_by_key(|warning| warning.line);
    Ok(JobFile { warnings, ..job })
}

struct Reader {
    settings: Settings,
}

impl Reader {
    /// What the file says, else the table's default, else `None`.
    fn raw(&self, section: Section, name: &str) -> Option<(String, Option<Mark>)> {
        let set = self
            .settings
            .groups
            .get(&section)
            .and_then(|group| group.get(name))
            .map(|setting| (setting.text.clone(), Some(setting.mark)));
        set.or_else(|| key::find(section, name).map(|key| (key.default.to_owned(), None)))
            .filter(|(text, _)| !text.is_empty())
    }

    fn text(&self, section: Section, name: &str) -> Option<String> {
        self.raw(section, name).map(|(text, _)| text)
    }

    /// Reads a value whose kind the key table has not checked in full.
    fn parsed<T>(
        &mut self,
        section: Section,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (text, mark) = self.raw(section, name)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(problem) => {
                let message = format!("`{}` is not valid: {problem}", section.path(name));
                match mark {
                    Some(mark) => self.settings.fail(mark, message),
                    None => self.settings.fail_file(message),
                }
                None
            }
        }
    }

    fn boolean(&mut self, name: &str) -> bool {
        self.parsed(Section::Source, name, value::boolean)
            .unwrap_or_default()
    }

    fn number<T: TryFrom<i64> + Default>(&mut self, section: Section, name: &str) -> T {
        self.parsed(section, name, |text| {
            let number = value::integer(text, 0, i64::MAX)?;
            T::try_from(number).map_err(|_| "the number is too large".to_owned())
        })
        .unwrap_or_default()
    }

    fn duration(&mut self, section: Section, name: &str, min: Duration) -> Duration {
        self.parsed(section, name, |text| {
            let duration = value::duration(text)?;
            if duration < min {
                return Err(format!("it must be at least {}ms", min.as_millis()));
            }
            Ok(duration)
        })
        .unwrap_or_default()
    }

    /// The value of a choice, by name.
    fn choice<T>(&self, section: Section, name: &str, choices: &[(&str, T)], default: T) -> T
    where
        T: Copy,
    {
        let text = self.text(section, name).unwrap_or_default();
        choices
            .iter()
            .find(|(choice, _)| choice.eq_ignore_ascii_case(text.trim()))
            .map_or(default, |(_, value)| *value)
    }

    fn name(&mut self, file: &str) -> String {
        let stem = || {
            let stem = Path::new(file).file_stem()?;
            Some(stem.to_string_lossy().into_owned())
        };
        self.text(Section::Pipeline, "name")
            .or_else(stem)
            .unwrap_or_else(|| "headwater".to_owned())
    }

    fn source(&mut self) -> MysqlSource {
        const S: Section = Section::Source;
        self.filled(S, "tables");
        let tables = self.parsed(S, "tables", |text| {
            text::check_tables(text).map(|()| text.to_owned())
        });
        let tables_exclude = self.parsed(S, "tables.exclude", |text| {
            text::check_tables(text).map(|()| text.to_owned())
        });
        let password = self.text(S, "password").unwrap_or_default();
        let millisecond = Duration::from_millis(1);
        MysqlSource {
            name: self.text(S, "name"),
            hostname: self.filled(S, "hostname"),
            port: self.number(S, "port"),
            username: self.filled(S, "username"),
            password: SecretString::from(password),
            tables: tables.unwrap_or_default(),
            tables_exclude,
            server_id: self.parsed(S, "server-id", text::server_id),
            startup_mode: self.startup_mode(),
            include_comments: self.boolean("include-comments.enabled"),
            tinyint1_as_boolean: self.boolean("treat-tinyint1-as-boolean.enabled"),
            time_as_string: self.boolean("time.as-string.enabled"),
            accept_foreign_key_cascades: self.boolean("accept-foreign-key-cascades.enabled"),
            new_tables: match (
                self.boolean("scan.newly-added-table.enabled"),
                self.boolean("scan.binlog.newly-added-table.enabled"),
            ) {
                (_, true) => NewTables::AtOnce,
                (true, false) => NewTables::AtStart,
                (false, false) => NewTables::Ignored,
            },
            chunk_size_rows: self.number(S, "scan.incremental.snapshot.chunk.size"),
            connect_timeout: self.duration(S, "connect.timeout", millisecond),
            connect_retries_max: self.number(S, "connect.max-retries"),
            connection_pool_size: self.number(S, "connection.pool.size"),
            heartbeat_interval: self.duration(S, "heartbeat.interval", millisecond),
        }
    }

    /// A required text that must not be empty either.
    fn filled(&mut self, section: Section, name: &str) -> String {
        let empty = self
            .settings
            .groups
            .get(&section)
            .and_then(|group| group.get(name))
            .filter(|setting| setting.text.trim().is_empty() && !setting.broken)
            .map(|setting| setting.mark);
        if let Some(mark) = empty {
            let message = format!("`{}` is empty", section.path(name));
            self.settings.fail(mark, message);
        }
        self.text(section, name).unwrap_or_default()
    }

    fn startup_mode(&self) -> StartupMode {
        let modes = [
            ("initial", StartupMode::Initial),
            ("snapshot", StartupMode::Snapshot),
            ("latest-offset", StartupMode::LatestOffset),
        ];
        self.choice(
            Section::Source,
            "scan.startup.mode",
            &modes,
            StartupMode::Initial,
        )
    }

    fn sink(&mut self) -> PaimonSink {
        const S: Section = Section::Sink;
        self.filled(S, "catalog.properties.warehouse");
        let schema_changes = self.schema_changes();
        PaimonSink {
            name: self.text(S, "name"),
            warehouse: self
                .parsed(S, "catalog.properties.warehouse", text::location)
                .unwrap_or_else(|| Location::folder("")),
            store_options: self.store_options(),
            table_options: std::mem::take(&mut self.settings.table_options),
            commit_user_prefix: self.filled(S, "commit.user-prefix"),
            partition_keys: self
                .parsed(S, "partition.key", text::partition_keys)
                .unwrap_or_default(),
            schema_changes,
        }
    }

    /// Keys of the table and, in other spellings, those with a free end.
    fn store_options(&mut self) -> StoreOptions {
        let mut options = std::mem::take(&mut self.settings.store_options);
        for key in key::keys().filter(|key| key.section == Section::Sink) {
            let name = key.name.strip_prefix("catalog.properties.");
            let used = name.filter(|name| StoreOptions::judge(name).is_some());
            if let Some(name) = used
                && let Some((text, Some(_))) = self.raw(Section::Sink, key.name)
            {
                options.insert(name, text);
            }
        }
        options
    }

    /// `include.schema.changes` without `exclude.schema.changes`.
    fn schema_changes(&mut self) -> BTreeSet<SchemaChangeKind> {
        let mut wanted = self.change_list("include.schema.changes");
        if wanted.is_empty() {
            wanted = SchemaChangeKind::all().into_iter().collect();
        }
        let mut wanted: BTreeSet<SchemaChangeKind> = wanted.into_iter().collect();
        wanted.insert(SchemaChangeKind::CreateTable);
        for kind in self.change_list("exclude.schema.changes") {
            wanted.remove(&kind);
        }
        if !wanted.contains(&SchemaChangeKind::CreateTable) {
            let message = "leaving out `create.table` is not supported yet";
            match self.change_mark() {
                Some(mark) => self.settings.fail(mark, message),
                None => self.settings.fail_file(message),
            }
        }
        wanted
    }

    fn change_mark(&self) -> Option<Mark> {
        let group = self.settings.groups.get(&Section::Sink)?;
        group
            .get("exclude.schema.changes")
            .or_else(|| group.get("include.schema.changes"))
            .map(|setting| setting.mark)
    }

    fn change_list(&mut self, name: &'static str) -> Vec<SchemaChangeKind> {
        let items = self
            .settings
            .groups
            .get(&Section::Sink)
            .and_then(|group| group.get(name))
            .map(|setting| setting.items.clone())
            .unwrap_or_default();
        let mut kinds = Vec::new();
        for (tag, mark) in items {
            match text::schema_change(&tag) {
                Ok(found) => kinds.extend(found),
                Err(problem) => self
                    .settings
                    .fail(mark, format!("`{}`: {problem}", Section::Sink.path(name))),
            }
        }
        kinds
    }

    fn routes(&mut self) -> Vec<Route> {
        let mut routes = Vec::new();
        for (mark, group) in std::mem::take(&mut self.settings.routes) {
            let text = |name| text_of(&group, name);
            let (Some(source_table), Some(sink_table)) = (text("source-table"), text("sink-table"))
            else {
                continue;
            };
            let route = Route {
                source_table,
                sink_table,
                replace_symbol: text("replace-symbol"),
                description: text("description"),
            };
            match Rule::compile(&route) {
                Ok(rule) => {
                    if let Some(note) = rule.suspicion() {
                        let mark = group.get("source-table").map_or(mark, |s| s.mark);
                        self.settings.warn("route.source-table", mark, note);
                    }
                }
                Err(error) => {
                    let name = error.key();
                    let mark = group.get(name).map_or(mark, |setting| setting.mark);
                    self.settings
                        .fail(mark, format!("`route.{name}` is not valid: {error}"));
                }
            }
            routes.push(route);
        }
        routes
    }

    fn pipeline(&mut self) -> Pipeline {
        const S: Section = Section::Pipeline;
        let runtime = [
            ("STREAMING", RuntimeMode::Streaming),
            ("BATCH", RuntimeMode::Batch),
        ];
        let route = [
            ("ALL_MATCH", RouteMode::AllMatch),
            ("FIRST_MATCH", RouteMode::FirstMatch),
        ];
        let schema = [
            ("lenient", SchemaBehavior::Lenient),
            ("evolve", SchemaBehavior::Evolve),
            ("try_evolve", SchemaBehavior::TryEvolve),
            ("ignore", SchemaBehavior::Ignore),
            ("exception", SchemaBehavior::Exception),
        ];
        Pipeline {
            parallelism: self.number(S, "parallelism"),
            runtime_mode: self.choice(
                S,
                "execution.runtime-mode",
                &runtime,
                RuntimeMode::Streaming,
            ),
            route_mode: self.choice(S, "route-mode", &route, RouteMode::AllMatch),
            schema_behavior: self.choice(
                S,
                "schema.change.behavior",
                &schema,
                SchemaBehavior::Lenient,
            ),
        }
    }

    fn checkpoint(&mut self) -> Checkpoint {
        Checkpoint {
            interval: self.duration(Section::Job, "checkpoint.interval", CHECKPOINT_INTERVAL_MIN),
            retained: self.number(Section::Job, "checkpoint.retained"),
            tag_interval: self.unless_off("checkpoint.tag-interval", value::duration),
        }
    }

    fn limits(&mut self) -> Limits {
        const S: Section = Section::Job;
        let memory_bytes = self
            .parsed(S, "limits.memory", |text| match value::size(text)? {
                bytes if bytes < MEMORY_MIN_BYTES => Err("it must be at least 32MB".to_owned()),
                bytes => Ok(bytes),
            })
            .unwrap_or_default();
        let rows_per_second = self.unless_off("limits.source.rows-per-second", |text| {
            value::integer(text, 1, i64::MAX).map(i64::unsigned_abs)
        });
        let bytes_per_second =
            self.unless_off(
                "limits.source.bytes-per-second",
                |text| match value::size(text)? {
                    0 => Err("it must be above 0, or off".to_owned()),
                    bytes => Ok(bytes),
                },
            );
        Limits {
            memory_bytes,
            source: SourceLimits {
                rows_per_second,
                bytes_per_second,
                connections_max: self.number(S, "limits.source.connections"),
                concurrent_chunks_max: self.number(S, "limits.source.concurrent-chunks"),
            },
        }
    }

    /// The value of one of Headwater's own keys; `None` where it is off.
    fn unless_off<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let found = self.parsed(Section::Job, name, |text| {
            match text.trim().eq_ignore_ascii_case("off") {
                true => Ok(None),
                false => read(text).map(Some),
            }
        });
        found.flatten()
    }

    /// Keys that only make sense together.
    fn check_modes(&mut self, job: &JobFile) {
        if job.pipeline.runtime_mode == RuntimeMode::Batch
            && job.source.startup_mode != StartupMode::Snapshot
            && let Some((_, Some(mark))) = self.raw(Section::Pipeline, "execution.runtime-mode")
        {
            self.settings.fail(
                mark,
                "`pipeline.execution.runtime-mode: BATCH` needs \
                 `source.scan.startup.mode: snapshot`",
            );
        }
    }
}

fn text_of(group: &Group, name: &str) -> Option<String> {
    group
        .get(name)
        .filter(|setting| !setting.broken)
        .map(|setting| setting.text.clone())
}
