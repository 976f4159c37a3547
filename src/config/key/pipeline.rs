//! Keys of `pipeline`, `route` and `transform`, as Flink CDC names them.

use super::{Choice, Key, Kind, Section, later, noted, works};

const BEHAVIOURS: &[Choice] = &[
    works("lenient"),
    works("evolve"),
    works("try_evolve"),
    works("ignore"),
    works("exception"),
];

const PARTITIONING: &[Choice] = &[
    noted(
        "SINK_DEFINED",
        "rows are spread by the bucket of their key, always",
    ),
    later("PRIMARY_KEY"),
    later("TABLE_ID"),
];

const PRECISIONS: &[Choice] = &[works("UP_TO_19"), later("UP_TO_38")];

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key::new(Section::Pipeline, name, kind, default, meaning)
}

const fn route(name: &'static str, meaning: &'static str) -> Key {
    Key::new(Section::Route, name, Kind::Text, "", meaning)
}

const fn transform(name: &'static str, meaning: &'static str) -> Key {
    Key::new(Section::Transform, name, Kind::Text, "", meaning).not_yet()
}

const NO_OPERATORS: &str = "there are no Flink operators here";

pub(super) const KEYS: &[Key] = &[
    key(
        "name",
        Kind::Text,
        "",
        "Name of the job; the file's name without its end when absent",
    ),
    key(
        "parallelism",
        Kind::Int(1, 1_024),
        "1",
        "Workers that read the snapshot side by side",
    ),
    key(
        "local-time-zone",
        Kind::Text,
        "systemDefault",
        "Zone of the session",
    )
    .accepted(
        "instants are written as instants and other times as the server has them; none is shifted",
    ),
    key(
        "execution.runtime-mode",
        Kind::Choice(&[works("STREAMING"), works("BATCH")]),
        "STREAMING",
        "Whether the job goes on after the snapshot; `BATCH` needs `scan.startup.mode: snapshot`",
    ),
    key(
        "route-mode",
        Kind::Choice(&[works("ALL_MATCH"), works("FIRST_MATCH")]),
        "ALL_MATCH",
        "Whether all routes that match a table apply, or the first",
    ),
    key(
        "schema.change.behavior",
        Kind::Choice(BEHAVIOURS),
        "lenient",
        "What a schema change of a captured table does to its sink table; see \
         docs/schema-changes.md",
    ),
    key(
        "schema-operator.rpc-timeout",
        Kind::Duration,
        "3min",
        "Timeout of the schema operator",
    )
    .accepted("there is no schema operator here"),
    key(
        "operator.uid.prefix",
        Kind::Text,
        "",
        "Start of the operators' names",
    )
    .accepted(NO_OPERATORS),
    key(
        "schema.operator.uid",
        Kind::Text,
        "$$_schema_operator_$$",
        "Name of the schema operator",
    )
    .accepted(NO_OPERATORS),
    key(
        "sink.partitioning.strategy",
        Kind::Choice(PARTITIONING),
        "SINK_DEFINED",
        "How rows are spread over writers; Flink CDC's Paimon sink takes `SINK_DEFINED` only too",
    ),
    key(
        "transform.decimal.precision.mode",
        Kind::Choice(PRECISIONS),
        "UP_TO_19",
        "Precision of decimals in transforms",
    ),
    key(
        "user-defined-function",
        Kind::List,
        "",
        "Functions in Java or Python for transforms",
    )
    .not_yet(),
    key("model", Kind::List, "", "AI models for transforms").not_yet(),
];

pub(super) const ROUTE_KEYS: &[Key] = &[
    route(
        "source-table",
        "Tables that the route is for, as in `source.tables`; case matters",
    )
    .required(),
    route(
        "sink-table",
        "`database.table` to write to; `$1` stands for the first group of `source-table`",
    )
    .required(),
    route(
        "replace-symbol",
        "Text in `sink-table` that stands for the source table's name",
    ),
    route("description", "A note for people"),
];

pub(super) const TRANSFORM_KEYS: &[Key] = &[
    transform("source-table", "Tables that the transform is for"),
    transform("projection", "Columns and expressions"),
    transform("filter", "Condition for rows"),
    transform("primary-keys", "Key of the sink table"),
    transform("partition-keys", "Partition columns of the sink table"),
    transform("table-options", "Options of the sink table"),
    transform("table-options.delimiter", "What separates the options"),
    transform(
        "converter-after-transform",
        "`SOFT_DELETE` turns deletes into updates",
    ),
    transform("description", "A note for people"),
];
