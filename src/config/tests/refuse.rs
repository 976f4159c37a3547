//! Files that must not run, and what is said of them.

use super::*;

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let text = minimal("  hostnam: x\n", "", "");
    assert_eq!(
        read(&text).unwrap_err().to_string(),
        "unknown key `source.hostnam`; did you mean `hostname`?\n  --> shop.yaml:7:3\n   |\n \
         7 |   hostnam: x\n   |   ^"
    );
    let cases = [
        (
            "  host: x\n",
            "unknown key `source.host`; did you mean `hostname`?",
        ),
        (
            "  scan.startup.mod: initial\n",
            "unknown key `source.scan.startup.mod`; did you mean `scan.startup.mode`?",
        ),
        ("  zzz: 1\n", "unknown key `source.zzz`"),
        (
            "  parallelism: 1\n",
            "unknown key `source.parallelism`; the key belongs in `pipeline`",
        ),
        (
            "  checkpoint.interval: 1s\n",
            "unknown key `source.checkpoint.interval`; the key belongs at the top of the file",
        ),
        (
            "  scan.incremental.snapshot.enabled: true\n",
            "unknown key `source.scan.incremental.snapshot.enabled`; remove it: the snapshot is always read incrementally",
        ),
    ];
    for (line, message) in cases {
        assert_eq!(refused(&minimal(line, "", "")), [format!("7: {message}")]);
    }
}

#[test]
fn unknown_names_at_the_top_and_in_our_own_sections() {
    let cases = [
        (
            "routes: []\n",
            "10: unknown key `routes`; did you mean `route`?",
        ),
        (
            "hostname: x\n",
            "10: unknown key `hostname`; the key belongs in `source`",
        ),
        (
            "checkpoint:\n  intervall: 1s\n",
            "11: unknown key `checkpoint.intervall`; did you mean `checkpoint.interval`?",
        ),
        (
            "limits:\n  source:\n    conections: 3\n",
            "12: unknown key `limits.source.conections`; did you mean `limits.source.connections`?",
        ),
        (
            "execution.checkpointing.interval: 3000\n",
            "10: unknown key `execution.checkpointing.interval`; this is `checkpoint.interval` here, at the top of the file",
        ),
        (
            "pipeline:\n  execution.checkpointing.interval: 3000\n",
            "11: unknown key `pipeline.execution.checkpointing.interval`; this is `checkpoint.interval` here, at the top of the file",
        ),
        ("checkpoint: 10s\n", "10: `checkpoint` must be a mapping"),
        (
            "checkpoint:\n  interval: {}\n",
            "11: `checkpoint.interval` must be a single value",
        ),
        (
            "checkpoint.interval: 1s\ncheckpoint:\n  interval: 2s\n",
            "12: `checkpoint.interval` means the same as `checkpoint.interval`, which stands in line 10",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refused(&minimal("", "", text)), [message]);
    }
}

#[test]
fn what_this_version_cannot_do_is_refused_by_name_and_line() {
    let source = [
        (
            "scan.startup.mode: earliest-offset",
            "`source.scan.startup.mode: earliest-offset` is not supported yet",
        ),
        (
            "scan.startup.mode: timestamp",
            "`source.scan.startup.mode: timestamp` is not supported yet",
        ),
        (
            "scan.startup.timestamp-millis: 1",
            "`source.scan.startup.timestamp-millis` is not supported yet",
        ),
        (
            "schema-change.enabled: false",
            "`source.schema-change.enabled: false` is not supported yet; this version knows `true` only",
        ),
        (
            "scan.incremental.snapshot.chunk.key-column: a.b:c",
            "`source.scan.incremental.snapshot.chunk.key-column` is not supported yet",
        ),
        (
            "metadata.list: op_ts",
            "`source.metadata.list` is not supported yet",
        ),
        (
            "debezium.decimal.handling.mode: string",
            "`source.debezium.decimal.handling.mode: string` is not supported yet: it may change rows, values or the connection",
        ),
        (
            "debezium.column.exclude.list: a.b.c",
            "`source.debezium.column.exclude.list: a.b.c` is not supported yet: it may change rows, values or the connection",
        ),
        (
            "jdbc.properties.useSSL: true",
            "`source.jdbc.properties.useSSL: true` is not supported yet: it would change the connection or the columns' types",
        ),
        (
            "jdbc.properties.trustCertificateKeyStoreUrl: x",
            "`source.jdbc.properties.trustCertificateKeyStoreUrl: x` is not supported yet: it would change the connection or the columns' types",
        ),
    ];
    for (line, message) in source {
        let text = minimal(&format!("  {line}\n"), "", "");
        assert_eq!(refused(&text), [format!("7: {message}")]);
    }
    let sink = [
        (
            "catalog.properties.metastore: hive",
            "`sink.catalog.properties.metastore: hive` is not supported yet",
        ),
        (
            "catalog.properties.fs.oss.endpoint: x",
            "`sink.catalog.properties.fs.oss.endpoint: x` is not supported yet: only a warehouse in a folder or on S3 is written",
        ),
        (
            "catalog.properties.fs.s3a.encryption.algorithm: SSE-C",
            "`sink.catalog.properties.fs.s3a.encryption.algorithm: SSE-C` is not supported yet: it would change how objects are kept or reached",
        ),
        (
            "catalog.properties.s3.path.style.access: x",
            "`sink.catalog.properties.s3.path.style.access: x` is not valid: write `true` or `false`",
        ),
        (
            "exclude.schema.changes: [create]",
            "leaving out `create.table` is not supported yet",
        ),
        (
            "exclude.schema.changes: [drop.tabel]",
            "`sink.exclude.schema.changes`: `drop.tabel` is no kind of schema change; did you mean `drop.table`?",
        ),
        (
            "include.schema.changes: drop",
            "`sink.include.schema.changes` must be a list, as in `[a, b]`",
        ),
        (
            "partition.key: a.b",
            "`sink.partition.key` is not valid: `a.b` is not `database.table:column,column`",
        ),
    ];
    for (line, message) in sink {
        let text = minimal("", &format!("  {line}\n"), "");
        assert_eq!(refused(&text), [format!("10: {message}")]);
    }
    let rest = [
        (
            "transform:\n  - source-table: a.b\n",
            "10: `transform` is not supported yet",
        ),
        (
            "user-defined-function:\n  - name: f\n",
            "10: `user-defined-function` is not supported yet",
        ),
        (
            "pipeline:\n  model:\n    - name: m\n",
            "11: `pipeline.model` is not supported yet",
        ),
        (
            "pipeline:\n  user-defined-function:\n    - name: f\n",
            "11: `pipeline.user-defined-function` is not supported yet",
        ),
        (
            "pipeline:\n  sink.partitioning.strategy: TABLE_ID\n",
            "11: `pipeline.sink.partitioning.strategy: TABLE_ID` is not supported yet",
        ),
        (
            "pipeline:\n  execution.runtime-mode: BATCH\n",
            "11: `pipeline.execution.runtime-mode: BATCH` needs `source.scan.startup.mode: snapshot`",
        ),
        (
            "server.listen: 0.0.0.0:9464\n",
            "10: `server.listen: 0.0.0.0:9464` is not supported yet; this version knows `off` only",
        ),
        (
            "on-bad-row: dead-letter\n",
            "10: `on-bad-row: dead-letter` is not supported yet",
        ),
        (
            "state.path: gs://bucket/x\n",
            "10: `state.path` is not valid: `gs://` is not supported; write a folder of this machine, or `s3://bucket/…` for S3 and what speaks its protocol",
        ),
    ];
    for (text, message) in rest {
        assert_eq!(refused(&minimal("", "", text)), [message]);
    }
}

#[test]
fn other_sources_sinks_and_warehouses() {
    let text = format!("source:\n  type: postgres\n  slot.name: x\n{SINK}");
    assert_eq!(
        refused(&text),
        ["2: a source of type `postgres` is not supported yet; this version knows `mysql` only"]
    );
    let text = format!("{SOURCE}sink:\n  type: doris\n  fenodes: x\n");
    assert_eq!(
        refused(&text),
        ["8: a sink of type `doris` is not supported yet; this version knows `paimon` only"]
    );
    for warehouse in ["gs://b/w", "oss://b/w", "hdfs://n/w"] {
        let text = minimal("", "", "").replace("/w", warehouse);
        let scheme = warehouse.split(':').next().unwrap();
        assert_eq!(
            refused(&text),
            [format!(
                "9: `sink.catalog.properties.warehouse` is not valid: `{scheme}://` is \
                 not supported; write a folder of this machine, or `s3://bucket/…` for S3 and what \
                 speaks its protocol"
            )]
        );
    }
}

#[test]
fn values_of_the_wrong_kind() {
    let cases = [
        (
            "port: 99999",
            "`source.port: 99999` is not valid: it must be at most 65535",
        ),
        (
            "port: http",
            "`source.port: http` is not valid: write a whole number",
        ),
        ("port: [1]", "`source.port` must be a single value"),
        (
            "port:",
            "`source.port` has no value; write one (`\"\"` for an empty text) or remove it",
        ),
        (
            "connect.timeout: soon",
            "`source.connect.timeout: soon` is not valid: write a duration such as `500ms`, `10s`, `5min` or `1h`",
        ),
        (
            "include-comments.enabled: yes",
            "`source.include-comments.enabled: yes` is not valid: write `true` or `false`",
        ),
        (
            "scan.startup.mode: never",
            "`source.scan.startup.mode: never` is not valid: write one of `initial`, `snapshot`, `latest-offset`, `earliest-offset`, `specific-offset`, `timestamp`",
        ),
        (
            "scan.incremental.snapshot.chunk.size: 0",
            "`source.scan.incremental.snapshot.chunk.size: 0` is not valid: it must be at least 1",
        ),
        (
            "server-id: 5404-5400",
            "`source.server-id` is not valid: the range ends before it begins",
        ),
        (
            "tables.exclude: a.b_.*",
            "`source.tables.exclude` is not valid: in `a.b_.*`, a bare `.` parts database from table; write `\\.` for the regular expression's any character, as in `db.\\.*`",
        ),
        (
            "tables.exclude: orders",
            "`source.tables.exclude` is not valid: `orders` is not `database.table`; write `\\.` for the regular expression's any character",
        ),
        (
            "tables.exclude: 'a.b('",
            "`source.tables.exclude` is not valid: `a.b(` is no regular expression: unclosed group",
        ),
    ];
    for (line, message) in cases {
        let text = minimal(&format!("  {line}\n"), "", "");
        assert_eq!(refused(&text), [format!("7: {message}")]);
    }
    for (text, message) in [
        (
            "checkpoint.interval: 50ms\n",
            "10: `checkpoint.interval` is not valid: it must be at least 100ms",
        ),
        (
            "limits.memory: 1MB\n",
            "10: `limits.memory` is not valid: it must be at least 32MB",
        ),
        (
            "limits.source.connections: 1\n",
            "10: `limits.source.connections: 1` is not valid: it must be at least 2",
        ),
    ] {
        assert_eq!(refused(&minimal("", "", text)), [message]);
    }
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        refused("pipeline:\n  name: x\n"),
        [
            "`source` is missing; it is required",
            "`sink` is missing; it is required"
        ]
    );
    assert_eq!(
        refused(&format!(
            "source:\n  type: mysql\n  hostname: h\n  port: x\n{SINK}"
        )),
        [
            "`source.username` is missing; it is required",
            "`source.password` is missing; it is required",
            "`source.tables` is missing; it is required",
            "4: `source.port: x` is not valid: write a whole number",
        ]
    );
    assert_eq!(
        refused(&minimal("", "", "").replace("hostname: db", "hostname: \"\"")),
        ["3: `source.hostname` is empty"]
    );
    assert_eq!(
        refused(&minimal("", "", "").replace("tables: a.\\.*", "tables: ' '")),
        [
            "6: `source.tables` is empty",
            "6: `source.tables` is not valid: it names no table"
        ]
    );
    assert_eq!(
        refused(&format!("source:\n{SINK}")),
        [
            "`source.type` is missing; it is required",
            "`source.hostname` is missing; it is required",
            "`source.username` is missing; it is required",
            "`source.password` is missing; it is required",
            "`source.tables` is missing; it is required",
        ]
    );
}

#[test]
fn both_spellings_of_a_key_are_known_and_not_both_at_once() {
    let job = accepted(&minimal("", "  commit.user: a\n", ""));
    assert_eq!(job.sink.commit_user_prefix, "a");
    let job = accepted(&minimal("", "  commit.user-prefix: b\n", ""));
    assert_eq!(job.sink.commit_user_prefix, "b");
    assert_eq!(
        refused(&minimal(
            "",
            "  commit.user: a\n  commit.user-prefix: b\n",
            ""
        )),
        [
            "11: `sink.commit.user-prefix` means the same as `commit.user-prefix`, which stands in line 10"
        ]
    );
}

#[test]
fn routes_are_checked_where_they_stand() {
    let rest = "route:\n  - source-table: a.(b\n    sink-table: x.y\n  - sink-table: x.y\n  - source-table: a.b\n    sink-table: x.$2\n  - source-tabel: a.b\n    sink-table: x.y\n  - text\n";
    assert_eq!(
        refused(&minimal("", "", rest)),
        [
            "11: `route.source-table` is not valid: `a.(b` is no regular expression: unclosed group (a bare `.` parts database from table; write `\\.` for any character)",
            "13: `route[1].source-table` is missing; it is required",
            "15: `route.sink-table` is not valid: `x.$2` cannot name a table: `source-table` has no group 2",
            "16: unknown key `route[3].source-tabel`; did you mean `source-table`?",
            "18: `route[4]` must be a mapping",
        ]
    );
    assert_eq!(
        warned(&minimal(
            "",
            "",
            "route:\n  - source-table: mydb.order_.*\n    sink-table: x.y\n"
        )),
        ["11 route.source-table"]
    );
}

#[test]
fn broken_yaml_has_a_place() {
    assert_eq!(refused(""), ["the job file is empty"]);
    assert_eq!(refused("# nothing\n"), ["the job file is empty"]);
    assert_eq!(
        refused("- a\n"),
        ["1: a job file is a mapping with `source` and `sink`"]
    );
    let text = minimal("  port: 1\n  port: 2\n", "", "");
    assert_eq!(
        refused(&text),
        ["8: the key `port` is here twice; it first stands in line 7"]
    );
    let text = minimal("", "", "sink: {}\n");
    assert_eq!(
        refused(&text),
        ["10: the key `sink` is here twice; it first stands in line 7"]
    );
    let text = minimal("  name: &a x\n", "  name: *a\n", "");
    assert!(
        refused(&text)[0].contains("aliases are not supported"),
        "{:?}",
        refused(&text)
    );
    let text = minimal("  name: !env X\n", "", "");
    assert_eq!(refused(&text), ["7: the YAML tag `!env` is not supported"]);
    let text = minimal("", "", "---\nsource: {}\n");
    assert_eq!(
        refused(&text),
        ["10: a job file holds one YAML document; a second one begins here"]
    );
    let text = minimal("", "", "pipeline:\n  name: [a\n");
    assert!(
        refused(&text)[0].contains("not valid YAML"),
        "{:?}",
        refused(&text)
    );
    assert!(refused(&"[".repeat(5000))[0].contains("not valid YAML"));
    assert!(refused(&"#".repeat(2 << 20))[0].contains("at most"));
    let tabs = minimal("\tport: 1\n", "", "");
    assert!(
        refused(&tabs)[0].contains("not valid YAML"),
        "{:?}",
        refused(&tabs)
    );
}

#[test]
fn variables_that_cannot_be_expanded_name_key_and_line() {
    let cases = [
        (
            "name: ${NOPE}",
            "`source.name`: the variable `NOPE` is not set; set it or write `${NOPE:-default}`",
        ),
        (
            "name: ${file:/nope}",
            "`source.name`: `${file:/nope}` cannot be read: no such file",
        ),
        (
            "name: ${NOPE",
            "`source.name`: `${` is never closed; write `$${` for a plain `${`",
        ),
        (
            "name: ${a b}",
            "`source.name`: `${a b}` is not a variable; write `${NAME}`, `${NAME:-default}`, `${file:/path}`, or `$${` for a plain `${`",
        ),
    ];
    for (line, message) in cases {
        let text = minimal(&format!("  {line}\n"), "", "");
        assert_eq!(refused(&text), [format!("7: {message}")]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = load(Path::new("/nonexistent/job.yaml")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the job file cannot be read: ")
    );
    assert!(error.to_string().ends_with("\n  --> /nonexistent/job.yaml"));
    // Neither an endless file nor one that is no text is a trap.
    let endless = load(Path::new("/dev/zero")).unwrap_err();
    assert!(
        endless.to_string().contains("more than 1048576 bytes"),
        "{endless}"
    );
    let endless = parse(
        "shop.yaml",
        &minimal("  name: ${file:/dev/zero}\n", "", ""),
        &ProcessEnvironment,
    );
    assert!(
        endless
            .unwrap_err()
            .to_string()
            .contains("more than 65536 bytes")
    );
}
