//! What a job file says, typed, with every default filled in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headwater_connectors::schema::TableName;
use headwater_paimon::{Location, StoreOptions};
use secrecy::SecretString;

/// A job file. Its `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct JobFile {
    /// Name of the job: `pipeline.name`, else the file's name without its end.
    pub name: String,
    /// Where rows come from.
    pub source: MysqlSource,
    /// Where they go.
    pub sink: PaimonSink,
    /// Routes in the file's order; none: every table keeps its name.
    pub routes: Vec<Route>,
    /// `pipeline`.
    pub pipeline: Pipeline,
    /// `checkpoint`.
    pub checkpoint: Checkpoint,
    /// `state`.
    pub state: State,
    /// `limits`.
    pub limits: Limits,
    /// Keys that are read and do nothing, or less than elsewhere; to be logged.
    pub warnings: Vec<Warning>,
}

/// A source of type mysql.
#[derive(Debug, Clone)]
pub struct MysqlSource {
    /// A name for people.
    pub name: Option<String>,
    /// Host name or address.
    pub hostname: String,
    /// TCP port.
    pub port: u16,
    /// User to connect as.
    pub username: String,
    /// Its password.
    pub password: SecretString,
    /// Tables to capture, in Flink CDC's pattern syntax.
    pub tables: String,
    /// Tables not to capture, same syntax.
    pub tables_exclude: Option<String>,
    /// First and last replication client id; `None`: choose a free one.
    pub server_id: Option<(u32, u32)>,
    /// Where a new job starts.
    pub startup_mode: StartupMode,
    /// Whether comments are taken over.
    pub include_comments: bool,
    /// Whether TINYINT(1) becomes BOOLEAN.
    pub tinyint1_as_boolean: bool,
    /// Whether TIME becomes STRING.
    pub time_as_string: bool,
    /// Whether tables are captured whose rows foreign keys change without log events.
    pub accept_foreign_key_cascades: bool,
    /// Which tables are captured that come later.
    pub new_tables: NewTables,
    /// Rows of a chunk to begin with.
    pub chunk_size_rows: u32,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How often a failed connection is tried again at the start.
    pub connect_retries_max: u32,
    /// Most connections; [`SourceLimits::connections_max`] applies too.
    pub connection_pool_size: u32,
    /// How often an idle server reports where its log is.
    pub heartbeat_interval: Duration,
}

/// Which tables a job captures that it did not capture when it was started first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTables {
    /// None.
    Ignored,
    /// Those that are there when it starts again.
    AtStart,
    /// Those, and what is created while it runs.
    AtOnce,
}

/// Where a new job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupMode {
    /// All rows, then all changes.
    Initial,
    /// All rows, then the job ends.
    Snapshot,
    /// Changes from now on.
    LatestOffset,
}

/// A sink of type paimon in a filesystem catalog.
#[derive(Debug, Clone)]
pub struct PaimonSink {
    /// A name for people.
    pub name: Option<String>,
    /// Where the warehouse is.
    pub warehouse: Location,
    /// `catalog.properties.s3.*` and their other spellings: how a bucket is reached, be it the
    /// warehouse's or that of `state.path`.
    pub store_options: StoreOptions,
    /// `table.properties.*` by their own names: options of every table that the job creates.
    pub table_options: BTreeMap<String, String>,
    /// Start of the commit user's name.
    pub commit_user_prefix: String,
    /// Partition columns by sink table.
    pub partition_keys: BTreeMap<TableName, Vec<String>>,
    /// Schema changes that the file wants applied, `exclude.schema.changes` taken off. Always has
    /// [`SchemaChangeKind::CreateTable`] in this version.
    pub schema_changes: BTreeSet<SchemaChangeKind>,
}

/// A kind of schema change, as `include.schema.changes` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemaChangeKind {
    /// `add.column`
    AddColumn,
    /// `alter.column.type`
    AlterColumnType,
    /// `alter.table.comment`
    AlterTableComment,
    /// `create.table`
    CreateTable,
    /// `drop.column`
    DropColumn,
    /// `drop.table`
    DropTable,
    /// `rename.column`
    RenameColumn,
    /// `truncate.table`
    TruncateTable,
}

impl SchemaChangeKind {
    /// Every kind.
    pub fn all() -> BTreeSet<Self> {
        let all = super::text::SCHEMA_CHANGES.iter();
        all.map(|(_, kind)| *kind).collect()
    }
}

/// An item of `route`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Tables that it is for, in Flink CDC's pattern syntax.
    pub source_table: String,
    /// `database.table` to write to, with `$1` or the symbol in it.
    pub sink_table: String,
    /// Text in `sink_table` that stands for the source table's name.
    pub replace_symbol: Option<String>,
    /// A note for people.
    pub description: Option<String>,
}

/// Which of the routes that match a table apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteMode {
    /// All of them.
    AllMatch,
    /// The first.
    FirstMatch,
}

/// Whether the job goes on after the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeMode {
    /// It goes on.
    Streaming,
    /// It ends with the snapshot; only with [`StartupMode::Snapshot`].
    Batch,
}

/// What the file asks for when a schema changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaBehavior {
    /// Apply what loses nothing.
    Lenient,
    /// Apply all, stop when one cannot be applied.
    Evolve,
    /// Apply all, go on when one cannot be applied.
    TryEvolve,
    /// Apply none; rows go on as far as the sink tables have their columns.
    Ignore,
    /// Stop at the first.
    Exception,
}

/// `pipeline`.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Workers that read the snapshot.
    pub parallelism: u32,
    /// Whether the job goes on after the snapshot.
    pub runtime_mode: RuntimeMode,
    /// Which matching routes apply.
    pub route_mode: RouteMode,
    /// What the file asks for when a schema changes.
    pub schema_behavior: SchemaBehavior,
}

/// `checkpoint`.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Time between checkpoints.
    pub interval: Duration,
    /// Records that are kept, at least 1.
    pub retained: u32,
    /// How often all tables get a tag of the same name; `None`: never.
    pub tag_interval: Option<Duration>,
}

/// `state`.
#[derive(Debug, Clone)]
pub struct State {
    /// Folder of the checkpoint records; `None`: see [`JobFile::state_path`].
    pub path: Option<Location>,
}

/// `limits`.
#[derive(Debug, Clone)]
pub struct Limits {
    /// All buffers of the job together.
    pub memory_bytes: u64,
    /// What the source is spared.
    pub source: SourceLimits,
}

/// `limits.source`.
#[derive(Debug, Clone)]
pub struct SourceLimits {
    /// Most rows that the snapshot reads in a second.
    pub rows_per_second: Option<u64>,
    /// Most bytes that the snapshot reads in a second; always `None` in this version.
    pub bytes_per_second: Option<u64>,
    /// Most connections, at least 2.
    pub connections_max: u32,
    /// Most chunks that are read at a time.
    pub concurrent_chunks_max: u32,
}

/// Something in a job file that works, but not as one might think.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The key, with its section.
    pub key: String,
    /// Its line, from 1.
    pub line: usize,
    /// What to know.
    pub message: String,
}

impl JobFile {
    /// Folder of the checkpoint records: `state.path`, else `<warehouse>/.headwater/<job>`.
    /// Characters of the job's name that a folder should not have are written as `%` and two hex
    /// digits, so that two jobs never share a folder.
    pub fn state_path(&self) -> Location {
        if let Some(path) = &self.state.path {
            return path.clone();
        }
        let mut folder = String::with_capacity(self.name.len());
        for byte in self.name.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => folder.push(byte.into()),
                b'.' if !folder.is_empty() => folder.push('.'),
                _ => folder.push_str(&format!("%{byte:02X}")),
            }
        }
        self.sink.warehouse.join(".headwater").join(&folder)
    }

    /// Chunks that are read at a time: `limits.source.concurrent-chunks`, or fewer when
    /// `pipeline.parallelism` is set and smaller. At least 1.
    pub fn snapshot_workers(&self) -> u32 {
        let limit = self.limits.source.concurrent_chunks_max.max(1);
        match self.pipeline.parallelism {
            // The default, and what most files say: no word about the source.
            0 | 1 => limit,
            asked => asked.min(limit),
        }
    }
}
