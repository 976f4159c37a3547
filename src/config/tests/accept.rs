//! Files that must run as they are.

use std::time::Duration;

use headwater_connectors::schema::TableName;
use headwater_paimon::Location;

use super::*;

/// The example of Flink CDC's own Paimon page.
const FLINK_PAIMON_PAGE: &str = r"source:
  type: mysql
  name: MySQL Source
  hostname: 127.0.0.1
  port: 3306
  username: admin
  password: pass
  tables: adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*
  server-id: 5401-5404

sink:
  type: paimon
  name: Paimon Sink
  catalog.properties.metastore: filesystem
  catalog.properties.warehouse: /path/warehouse

pipeline:
  name: MySQL to Paimon Pipeline
  parallelism: 2
";

/// Everything at once, as people write it: comments, quotes, blanks, flow style, Windows ends.
const EVERYTHING: &str = r#"################################################################################
# Sync the shop
################################################################################
source:
  type: "mysql"
  name: 'shop'
  hostname: mysql.internal
  port: "3307"
  username: repl
  password: 0123456
  tables: >-
    shop.\.*,
    crm.customer_\.*
  tables.exclude: shop.tmp_\.*
  server-id: 5400
  server-time-zone: Asia/Shanghai
  schema-change.enabled: true
  include-comments.enabled: "TRUE"
  treat-tinyint1-as-boolean.enabled: false
  use.legacy.json.format: false
  scan.startup.mode: Initial
  scan.incremental.snapshot.chunk.size: 20000
  scan.incremental.snapshot.backfill.skip: true
  scan.newly-added-table.enabled: true
  scan.snapshot.fetch.size: 4096
  split-key.even-distribution.factor.upper-bound: 500
  connect.timeout: 30 s
  connect.max-retries: 5
  connection.pool.size: 10
  heartbeat.interval: PT1M
  jdbc.properties.useSSL: false
  jdbc.properties.connectTimeout: 60000
  debezium.max.batch.size: 4096
  debezium.decimal.handling.mode: precise
  time.as-string.enabled: true
  accept-foreign-key-cascades.enabled: true

sink: {type: paimon, commit.user: etl, catalog.properties.warehouse: "file:///lake/wh",
  catalog.properties.cache-enabled: false,
  table.properties.bucket: 4, table.properties.file.format: parquet,
  partition.key: "shop.orders:dt;shop.items:dt,hh;",
  include.schema.changes: [column, create.table, drop],
  exclude.schema.changes: [drop.table]}

route:
  - source-table: shop.(\.*)
    sink-table: ods.shop_$1
    description: keep the origin in the name
  - source-table: crm.\.*
    sink-table: ods.crm_<>
    replace-symbol: <>

pipeline:
  name: shop to the lake
  parallelism: 4
  local-time-zone: Asia/Shanghai
  execution.runtime-mode: streaming
  route-mode: FIRST_MATCH
  schema.change.behavior: evolve
  schema-operator.rpc-timeout: 1 h
  operator.uid.prefix: shop
  sink.partitioning.strategy: SINK_DEFINED
  transform.decimal.precision.mode: UP_TO_19
  taskmanager.memory.network.min: 64mb

checkpoint:
  interval: 1min
  retained: 3
state.path: /var/lib/headwater/shop
limits:
  memory: 512 mb
  source:
    rows-per-second: 50000
    bytes-per-second: 5MB
    connections: 6
  source.concurrent-chunks: 2
server:
  listen: off
on-bad-row: fail
"#;

#[test]
fn the_page_of_flink_cdc_runs_unchanged() {
    let job = accepted(FLINK_PAIMON_PAGE);
    assert_eq!(job.name, "MySQL to Paimon Pipeline");
    assert_eq!(job.source.name.as_deref(), Some("MySQL Source"));
    assert_eq!(
        (job.source.hostname.as_str(), job.source.port),
        ("127.0.0.1", 3306)
    );
    assert_eq!(job.source.password.expose_secret(), "pass");
    assert_eq!(
        job.source.tables,
        r"adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*"
    );
    assert_eq!(job.source.server_id, Some((5401, 5404)));
    assert_eq!(job.sink.warehouse, Location::folder("/path/warehouse"));
    assert_eq!(job.pipeline.parallelism, 2);
    assert_eq!(job.snapshot_workers(), 2);
    assert_eq!(job.warnings, []);
    assert_eq!(
        job.state_path(),
        Location::folder("/path/warehouse/.headwater/MySQL%20to%20Paimon%20Pipeline")
    );
}

#[test]
fn what_a_file_leaves_out_has_flinks_defaults() {
    let job = accepted(&minimal("", "", ""));
    assert_eq!(job.name, "shop");
    let source = &job.source;
    assert_eq!(source.port, 3306);
    assert_eq!(source.server_id, None);
    assert_eq!(source.startup_mode, StartupMode::Initial);
    assert_eq!(source.chunk_size_rows, 8096);
    assert_eq!(source.connect_timeout, Duration::from_secs(30));
    assert_eq!(source.connect_retries_max, 3);
    assert_eq!(source.connection_pool_size, 20);
    assert_eq!(source.heartbeat_interval, Duration::from_secs(30));
    assert!(source.tinyint1_as_boolean);
    assert!(!source.include_comments && !source.time_as_string);
    assert!(!source.accept_foreign_key_cascades);
    assert_eq!(source.new_tables, NewTables::Ignored);
    assert_eq!(job.sink.commit_user_prefix, "admin");
    assert_eq!(job.sink.schema_changes.len(), 8);
    assert_eq!(job.pipeline.route_mode, RouteMode::AllMatch);
    assert_eq!(job.pipeline.schema_behavior, SchemaBehavior::Lenient);
    assert_eq!(job.checkpoint.interval, Duration::from_secs(10));
    assert_eq!(job.checkpoint.retained, 10);
    assert_eq!(job.limits.memory_bytes, 256 << 20);
    assert_eq!(job.limits.source.rows_per_second, None);
    assert_eq!(job.limits.source.connections_max, 8);
    assert_eq!(job.limits.source.concurrent_chunks_max, 4);
    assert_eq!(job.state_path(), Location::folder("/w/.headwater/shop"));
    assert_eq!(job.warnings, []);
}

#[test]
fn everything_at_once() {
    for text in [EVERYTHING.to_owned(), EVERYTHING.replace('\n', "\r\n")] {
        let job = accepted(&text);
        assert_eq!(job.source.port, 3307);
        // A number keeps the file's spelling where a text is wanted.
        assert_eq!(job.source.password.expose_secret(), "0123456");
        assert_eq!(job.source.tables, r"shop.\.*, crm.customer_\.*");
        assert_eq!(job.source.tables_exclude.as_deref(), Some(r"shop.tmp_\.*"));
        assert_eq!(job.source.server_id, Some((5400, 5400)));
        assert!(job.source.include_comments && !job.source.tinyint1_as_boolean);
        assert_eq!(job.source.new_tables, NewTables::AtStart);
        assert_eq!(job.limits.source.bytes_per_second, Some(5 << 20));
        assert!(job.source.time_as_string && job.source.accept_foreign_key_cascades);
        assert_eq!(job.source.heartbeat_interval, Duration::from_secs(60));
        assert_eq!(job.sink.warehouse, Location::folder("/lake/wh"));
        assert_eq!(job.sink.commit_user_prefix, "etl");
        assert_eq!(job.sink.table_options["bucket"], "4");
        assert_eq!(job.sink.table_options["file.format"], "parquet");
        assert_eq!(
            job.sink.partition_keys[&TableName::new("shop", "items")],
            ["dt", "hh"]
        );
        use SchemaChangeKind::*;
        assert_eq!(
            job.sink.schema_changes.iter().copied().collect::<Vec<_>>(),
            [
                AddColumn,
                AlterColumnType,
                CreateTable,
                DropColumn,
                RenameColumn
            ]
        );
        assert_eq!(job.routes.len(), 2);
        assert_eq!(job.routes[1].replace_symbol.as_deref(), Some("<>"));
        assert_eq!(job.pipeline.route_mode, RouteMode::FirstMatch);
        assert_eq!(job.checkpoint.interval, Duration::from_secs(60));
        assert_eq!(
            job.state_path(),
            Location::folder("/var/lib/headwater/shop")
        );
        assert_eq!(job.limits.memory_bytes, 512 << 20);
        assert_eq!(job.limits.source.rows_per_second, Some(50_000));
        assert_eq!(job.limits.source.connections_max, 6);
        assert_eq!(job.snapshot_workers(), 2);
        assert_eq!(
            warned(&text),
            [
                "16 source.server-time-zone",
                "23 source.scan.incremental.snapshot.backfill.skip",
                "25 source.scan.snapshot.fetch.size",
                "26 source.split-key.even-distribution.factor.upper-bound",
                "31 source.jdbc.properties.useSSL",
                "32 source.jdbc.properties.connectTimeout",
                "33 source.debezium.max.batch.size",
                "34 source.debezium.decimal.handling.mode",
                "39 sink.catalog.properties.cache-enabled",
                "56 pipeline.local-time-zone",
                "60 pipeline.schema-operator.rpc-timeout",
                "61 pipeline.operator.uid.prefix",
                "62 pipeline.sink.partitioning.strategy",
                "64 pipeline.taskmanager.memory.network.min",
            ]
        );
    }
}

#[test]
fn a_snapshot_job_may_be_a_batch_job() {
    let job = accepted(&minimal(
        "  scan.startup.mode: snapshot\n",
        "",
        "pipeline:\n  execution.runtime-mode: BATCH\n",
    ));
    assert_eq!(job.source.startup_mode, StartupMode::Snapshot);
    assert_eq!(job.pipeline.runtime_mode, RuntimeMode::Batch);
}

#[test]
fn sections_that_say_nothing_are_fine() {
    let job = accepted(&minimal(
        "",
        "",
        "pipeline:\nroute:\ntransform: []\nlimits:\n  source:\n",
    ));
    assert!(job.routes.is_empty());
    let job = accepted(&format!(
        "---\n{}...\n",
        minimal("", "", "checkpoint.interval: 500\n")
    ));
    assert_eq!(job.checkpoint.interval, Duration::from_millis(500));
}

#[test]
fn variables_and_files_are_expanded_in_values() {
    let environment = Fixed {
        variables: [("HOST", "db1"), ("PORT", "3308"), ("EMPTY", "")].into(),
        files: [("/run/secrets/db", "s3cr${et\r\n")].into(),
    };
    let text = minimal(
        "  port: ${PORT}\n  server-id: ${ID:-77}\n  name: ${EMPTY:-x}-${HOST}-$${HOST}-$1\n",
        "",
        "",
    )
    .replace("hostname: db", "hostname: ${HOST}.internal")
    .replace("password: p", "password: ${file:/run/secrets/db}");
    let job = parse("shop.yaml", &text, &environment).unwrap();
    assert_eq!(job.source.hostname, "db1.internal");
    assert_eq!(job.source.port, 3308);
    assert_eq!(job.source.server_id, Some((77, 77)));
    assert_eq!(job.source.name.as_deref(), Some("x-db1-${HOST}-$1"));
    // What a variable or a file holds is taken as it is, not expanded again.
    assert_eq!(job.source.password.expose_secret(), "s3cr${et");
}

#[test]
fn durations_and_sizes_as_flink_writes_them() {
    let millis = |text| value::duration(text).unwrap().as_millis();
    for (text, wanted) in [
        ("500ms", 500),
        ("500", 500),
        ("10s", 10_000),
        ("30 s", 30_000),
        ("5min", 300_000),
        ("5 m", 300_000),
        ("1h", 3_600_000),
        ("2 Days", 172_800_000),
        ("3 minutes", 180_000),
        ("PT30S", 30_000),
        ("PT1M30S", 90_000),
    ] {
        assert_eq!(millis(text), wanted, "{text}");
    }
    for text in [
        "",
        "s",
        "1.5s",
        "-1s",
        "10 parsec",
        "-PT1S",
        "99999999999999999999s",
        "999999999d",
    ] {
        assert!(value::duration(text).is_err(), "{text}");
    }
    for (text, wanted) in [
        ("64MB", 64 << 20),
        ("64 mb", 64 << 20),
        ("1g", 1 << 30),
        ("512", 512),
        ("8 kb", 8192),
    ] {
        assert_eq!(value::size(text), Ok(wanted), "{text}");
    }
    for text in ["", "MB", "1.5MB", "12 parsec", "99999999999t"] {
        assert!(value::size(text).is_err(), "{text}");
    }
}

#[test]
fn every_default_of_the_table_is_a_valid_value_and_every_name_is_unique() {
    let mut seen = std::collections::BTreeSet::new();
    for key in key::keys() {
        if !key.default.is_empty() {
            assert_eq!(key.kind.check(key.default), Ok(()), "{}", key.path());
            assert!(key.is_default(key.default), "{}", key.path());
        }
        for name in [Some(key.name), key.older_name].into_iter().flatten() {
            assert!(seen.insert((key.section, name)), "{}", key.path());
        }
    }
}

#[test]
fn names_that_are_no_folder_names_never_share_a_folder() {
    let path = |name: &str| {
        let text = minimal("", "", &format!("pipeline:\n  name: \"{name}\"\n"));
        accepted(&text).state_path()
    };
    assert_eq!(path("a/../b"), Location::folder("/w/.headwater/a%2F..%2Fb"));
    assert_eq!(path(".."), Location::folder("/w/.headwater/%2E."));
    assert_ne!(path("a b"), path("a_b"));
}

#[test]
fn a_warehouse_on_s3_in_every_spelling() {
    let text = minimal(
        "",
        "  catalog.properties.s3.endpoint: http://127.0.0.1:9000\n  \
         catalog.properties.fs.s3a.path.style.access: true\n  \
         catalog.properties.s3.access-key: k\n  catalog.properties.s3a.secret-key: hunter2\n  \
         catalog.properties.fs.s3a.connection.maximum: 100\n",
        "state.path: s3a://states/shop\n",
    )
    .replace("/w\n", "s3://lake/w/\n");
    let job = accepted(&text);
    assert_eq!(job.sink.warehouse.to_string(), "s3://lake/w");
    assert_eq!(job.state_path().to_string(), "s3://states/shop");
    let shown = format!("{job:?}");
    for option in [
        "s3.endpoint",
        "fs.s3a.path.style.access",
        "s3.access-key",
        "s3a.secret-key",
    ] {
        assert!(shown.contains(option), "{option}: {shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(job.warnings.len(), 1);
    let text = minimal("", "", "").replace("/w\n", "s3://lake\n");
    let state = accepted(&text).state_path().to_string();
    assert_eq!(state, "s3://lake/.headwater/shop");
}
