//! Keys of a source of type mysql, as Flink CDC's `MySqlDataSourceOptions` names them, and two of
//! Headwater's own.

use super::{Choice, Key, Kind, Section, later, noted, works};

const INT_MAX: i64 = i32::MAX as i64;

const STARTUP_MODES: &[Choice] = &[
    works("initial"),
    works("snapshot"),
    works("latest-offset"),
    later("earliest-offset"),
    later("specific-offset"),
    later("timestamp"),
];

const JSON_FORMATS: &[Choice] = &[
    noted(
        "true",
        "JSON text is exactly what the server prints, with a blank behind `,` and `:`",
    ),
    works("false"),
];

const CHUNKS_ADAPT: &str =
    "chunks are cut by the server along the key and need no estimate of how its values are spread";

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key::new(Section::Source, name, kind, default, meaning)
}

pub(super) const KEYS: &[Key] = &[
    key("type", Kind::Text, "", "`mysql`").required(),
    key("name", Kind::Text, "", "A name for people; shown in logs"),
    key(
        "hostname",
        Kind::Text,
        "",
        "Host name or address of the server, also with a port: `host:port`. Several, separated by `,`, are servers of one replication topology with GTIDs: the next is taken where one does not answer",
    )
    .required(),
    key(
        "port",
        Kind::Int(1, 65_535),
        "3306",
        "TCP port of the server",
    ),
    key("username", Kind::Text, "", "User to connect as").required(),
    key(
        "password",
        Kind::Text,
        "",
        "Password of the user; write `${VAR}` or `${file:/path}`",
    )
    .required()
    .secret(),
    key(
        "tables",
        Kind::Text,
        "",
        "Tables to capture: `database.table` separated by `,`; each part is a regular expression \
         in which `.` is written `\\.`",
    )
    .required(),
    key(
        "tables.exclude",
        Kind::Text,
        "",
        "Tables not to capture though `tables` matches them",
    ),
    key(
        "server-id",
        Kind::Text,
        "",
        "Replication client id, or a range `a-b` of which the first is used; a free one of 5400 \
         to 6400 when absent",
    ),
    key(
        "server-time-zone",
        Kind::Text,
        "",
        "Session time zone of the server",
    )
    .accepted("TIMESTAMP columns are read in UTC whatever the server's zone is"),
    key(
        "schema-change.enabled",
        Kind::Bool,
        "true",
        "Whether schema changes are followed",
    )
    .not_yet(),
    key(
        "include-comments.enabled",
        Kind::Bool,
        "false",
        "Whether comments of tables and columns are taken over",
    ),
    key(
        "treat-tinyint1-as-boolean.enabled",
        Kind::Bool,
        "true",
        "Whether TINYINT(1) becomes BOOLEAN (else TINYINT)",
    ),
    key(
        "use.legacy.json.format",
        Kind::Choice(JSON_FORMATS),
        "true",
        "Spelling of JSON text; here it is always the server's own",
    ),
    key(
        "time.as-string.enabled",
        Kind::Bool,
        "false",
        "Headwater's own. Whether TIME becomes STRING, which holds values beyond 24 hours and \
         microseconds",
    ),
    key(
        "accept-foreign-key-cascades.enabled",
        Kind::Bool,
        "false",
        "Headwater's own. Whether tables are captured whose rows foreign keys change on their own \
         (ON DELETE or ON UPDATE CASCADE, SET NULL); the server does not log such changes",
    ),
    key(
        "scan.startup.mode",
        Kind::Choice(STARTUP_MODES),
        "initial",
        "Where a new job starts: all rows then changes, all rows only, or changes from now on",
    ),
    key(
        "scan.startup.specific-offset.file",
        Kind::Text,
        "",
        "Binlog file to start at",
    )
    .not_yet(),
    key(
        "scan.startup.specific-offset.pos",
        Kind::Int(0, i64::MAX),
        "",
        "Position in that file",
    )
    .not_yet(),
    key(
        "scan.startup.specific-offset.gtid-set",
        Kind::Text,
        "",
        "GTID set to start after",
    )
    .not_yet(),
    key(
        "scan.startup.specific-offset.skip-events",
        Kind::Int(0, i64::MAX),
        "",
        "Events to skip after the start",
    )
    .not_yet(),
    key(
        "scan.startup.specific-offset.skip-rows",
        Kind::Int(0, i64::MAX),
        "",
        "Rows to skip after the start",
    )
    .not_yet(),
    key(
        "scan.startup.timestamp-millis",
        Kind::Int(0, i64::MAX),
        "",
        "Time to start at, in milliseconds since 1970",
    )
    .not_yet(),
    key(
        "scan.incremental.snapshot.chunk.size",
        Kind::Int(1, INT_MAX),
        "8096",
        "Rows of a chunk to begin with; it grows and shrinks to about a second of reading",
    ),
    key(
        "scan.incremental.snapshot.chunk.key-column",
        Kind::Text,
        "",
        "Column to cut chunks by, `db.table:column;…`; the primary key when absent",
    )
    .not_yet(),
    key(
        "scan.incremental.snapshot.unbounded-chunk-first.enabled",
        Kind::Bool,
        "false",
        "Whether the open-ended last chunk is read first",
    )
    .accepted("the last chunk is bounded like every other, so its order does not matter"),
    key(
        "scan.incremental.snapshot.backfill.skip",
        Kind::Bool,
        "false",
        "Whether changes made while a chunk is read are applied to it",
    )
    .accepted("there is no backfill: the tail runs all the time and its changes win over chunks"),
    key(
        "scan.snapshot.fetch.size",
        Kind::Int(1, INT_MAX),
        "1024",
        "Rows fetched at a time",
    )
    .accepted("rows are streamed from the server, no fetch size is needed"),
    key(
        "scan.incremental.close-idle-reader.enabled",
        Kind::Bool,
        "false",
        "Whether idle readers end after the snapshot",
    )
    .accepted("readers end by themselves after the snapshot"),
    key(
        "scan.newly-added-table.enabled",
        Kind::Bool,
        "false",
        "Whether tables that the job file names and that are not captured yet are taken up, all rows and then changes, when the job starts again",
    ),
    key(
        "scan.binlog.newly-added-table.enabled",
        Kind::Bool,
        "false",
        "The same, and also at once when such a table is created",
    ),
    key(
        "scan.parse.online.schema.changes.enabled",
        Kind::Bool,
        "false",
        "Whether gh-ost and pt-online-schema-change runs are followed",
    )
    .not_yet(),
    key(
        "chunk-meta.group.size",
        Kind::Int(1, INT_MAX),
        "1000",
        "Size of a group of chunk metadata",
    )
    .accepted("chunk metadata is not sent between processes here"),
    key(
        "chunk-key.even-distribution.factor.upper-bound",
        Kind::Float,
        "1000.0",
        "When a key counts as evenly spread",
    )
    .also("split-key.even-distribution.factor.upper-bound")
    .accepted(CHUNKS_ADAPT),
    key(
        "chunk-key.even-distribution.factor.lower-bound",
        Kind::Float,
        "0.05",
        "When a key counts as evenly spread",
    )
    .also("split-key.even-distribution.factor.lower-bound")
    .accepted(CHUNKS_ADAPT),
    key(
        "connect.timeout",
        Kind::Duration,
        "30s",
        "How long a connection may take",
    ),
    key(
        "connect.max-retries",
        Kind::Int(0, INT_MAX),
        "3",
        "How often a failed connection is tried again before the job stops at its start",
    ),
    key(
        "connection.pool.size",
        Kind::Int(1, INT_MAX),
        "20",
        "Most connections; `limits.source.connections` applies too",
    ),
    key(
        "heartbeat.interval",
        Kind::Duration,
        "30s",
        "How often an idle server reports where its log is",
    ),
    key(
        "metadata.list",
        Kind::Text,
        "",
        "Metadata to pass on: `op_ts`",
    )
    .not_yet(),
];
