//! Keys of a sink of type paimon, as Flink CDC's `PaimonDataSinkOptions` names them.

use super::{Choice, Key, Kind, Section, later, works};

const METASTORES: &[Choice] = &[
    works("filesystem"),
    later("hive"),
    later("jdbc"),
    later("rest"),
];

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key::new(Section::Sink, name, kind, default, meaning)
}

pub(super) const KEYS: &[Key] = &[
    key("type", Kind::Text, "", "`paimon`").required(),
    key("name", Kind::Text, "", "A name for people; shown in logs"),
    key(
        "catalog.properties.metastore",
        Kind::Choice(METASTORES),
        "filesystem",
        "Kind of catalog",
    ),
    key(
        "catalog.properties.warehouse",
        Kind::Text,
        "",
        "Folder of the warehouse: a path or a `file://` URL",
    )
    .required(),
    key(
        "catalog.properties.uri",
        Kind::Text,
        "",
        "Address of a metastore server",
    )
    .accepted("a filesystem catalog has no metastore server"),
    key(
        "commit.user-prefix",
        Kind::Text,
        "admin",
        "Start of the commit user that snapshots name",
    )
    .also("commit.user"),
    key(
        "partition.key",
        Kind::Text,
        "",
        "Partition columns, `db.t1:a,b;db.t2:c`; those that the primary key lacks are added to it",
    ),
    key(
        "include.schema.changes",
        Kind::List,
        "",
        "Schema changes to apply; all when absent. `create.table` is always in. In this version a \
         change other than ADD COLUMN stops the job, whatever stands here",
    ),
    key(
        "exclude.schema.changes",
        Kind::List,
        "",
        "Schema changes not to apply; wins over `include.schema.changes`",
    ),
];
