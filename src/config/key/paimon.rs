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
        "Where the warehouse is: a path, a `file://` URL, or `s3://bucket/prefix` (`s3a://` too)",
    )
    .required(),
    key(
        "catalog.properties.s3.endpoint",
        Kind::Text,
        "",
        "Address of an S3 server; AWS when absent. For all of `s3.*`: `fs.s3a.*` and `s3a.*` are \
         the same, and what is absent comes from the environment (`AWS_ENDPOINT_URL`, …)",
    ),
    key(
        "catalog.properties.s3.path.style.access",
        Kind::Bool,
        "",
        "Whether the bucket is named in the path of a URL instead of its host, as MinIO and Ceph \
         mostly want it; when absent, for hosts that are numbers",
    ),
    key(
        "catalog.properties.s3.region",
        Kind::Text,
        "",
        "Region of the bucket; `us-east-1` when absent",
    )
    .also("catalog.properties.s3.endpoint.region"),
    key(
        "catalog.properties.s3.access-key",
        Kind::Text,
        "",
        "Key to the bucket; with `s3.secret-key`. When both are absent: from the environment, a \
         web identity, the container or the machine",
    )
    .secret(),
    key(
        "catalog.properties.s3.secret-key",
        Kind::Text,
        "",
        "Its secret",
    )
    .secret(),
    key(
        "catalog.properties.s3.session.token",
        Kind::Text,
        "",
        "Token of a temporary key",
    )
    .secret(),
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
        "Schema changes to apply; all when absent. `create.table` is always in",
    ),
    key(
        "exclude.schema.changes",
        Kind::List,
        "",
        "Schema changes not to apply; wins over `include.schema.changes`",
    ),
];
