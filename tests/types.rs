//! Every column type arrives with the same value through the snapshot and through the log.

use std::time::Duration;

use crate::support::{Headwater, JobFile, Lake, Server, dump, eventually};

const TABLES: &str = "
CREATE TABLE numbers (id INT PRIMARY KEY, t1 TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, \
mu MEDIUMINT UNSIGNED, i INT, iu INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED, z INT(6) ZEROFILL, zb BIGINT ZEROFILL, f FLOAT, \
f2 FLOAT(10,2), d DOUBLE, n DECIMAL(9,2), n38 DECIMAL(38,10), n65 DECIMAL(65,30), y YEAR, flag TINYINT(1), bit1 BIT(1), bit10 BIT(10));
CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(5), v VARCHAR(50), l VARCHAR(20) CHARACTER SET latin1, g VARCHAR(20) CHARACTER SET gbk, \
t TEXT, lt LONGTEXT, bi BINARY(4), vb VARBINARY(20), bl BLOB, e ENUM('a','b','größe'), s SET('x','y','z'), j JSON);
CREATE TABLE times (id INT PRIMARY KEY, d DATE, dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL, \
t TIME, t3 TIME(3))";

/// Rows of each table; `{}` is the key.
const ROWS: [(&str, &[&str]); 3] = [
    (
        "numbers",
        &[
            "({}, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808, \
             18446744073709551615, 42, 7, 0.1, 12345.67, 0.1, -1234567.89, 1234567890123456789012345678.0123456789, \
             12345678901234567890123456789012345.123456789012345678901234567890, 2155, 1, b'1', b'1000000001')",
            "({}, 127, 0, 32767, 0, 8388607, 0, 2147483647, 0, 9223372036854775807, 0, 0, 0, 16777216, -0.5, -2.5e300, 0.01, \
             -0.0000000001, -0.000000000000000000000000000001, 1901, 0, b'0', b'0')",
            "({}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
             NULL, NULL, NULL)",
        ],
    ),
    (
        "texts",
        &[
            "({}, 'ab', 'naïve 🚀', 'é ÿ', '中文', 'line\\nbreak \\\"quoted\\\" back\\\\slash', REPEAT('長い', 5000), \
             x'AB000000', x'00FF00', x'', 'größe', 'x,z', '{\"a\": [1, -2.5, null, true, \"x: y, z\"], \"ключ\": {\"deep\": {}}}')",
            "({}, '', '', '', '', '', '', x'00000000', x'', REPEAT(x'00', 300), 'a', '', '[]')",
            "({}, '     ', ' padded ', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        ],
    ),
    (
        "times",
        &[
            "({}, '2024-02-29', '2024-01-01 08:00:00', '1969-12-31 23:59:59.999', '9999-12-31 23:59:59.999999', \
             '2024-01-01 08:00:00', '2037-12-31 00:00:00.000001', '23:59:59', '00:00:00.001')",
            "({}, '1000-01-01', '1000-01-01 00:00:00', '1582-10-10 00:00:00.5', '1970-01-01 00:00:00', '1970-01-01 00:00:01', \
             NULL, '00:00:00', '12:34:56.789')",
            "({}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn both_phases_give_the_same_values() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("types").await;
    database.run(TABLES).await;
    let insert = async |from: usize| {
        for (table, rows) in ROWS {
            for (i, row) in rows.iter().enumerate() {
                let row = row.replacen("{}", &(from + i).to_string(), 1);
                database
                    .run(&format!("INSERT INTO {table} VALUES {row}"))
                    .await;
            }
        }
    };
    insert(0).await;
    // The dump is ours too, so hold some values against what was typed.
    let mut source = String::new();
    for (table, _) in ROWS {
        source += &dump::lines(&database, table).await.join("\n");
    }
    for text in [
        r#""bu":"18446744073709551615""#,
        r#""z":42"#,
        r#""f":1e-1"#,
        r#""f":1.6777216e7"#,
        r#""n65":"12345678901234567890123456789012345.123456789012345678901234567890""#,
        r#""bit10":"AgE=""#,
        r#""flag":true"#,
        r#""l":"é ÿ","g":"中文""#,
        r#""bi":"qwAAAA==""#,
        r#""s":["x","z"]"#,
        r#"\"ключ\": {\"deep\": {}}"#,
        r#""dt6":"9999-12-31 23:59:59.999999","ts":"2024-01-01 08:00:00Z""#,
        r#""t3":"00:00:00.001""#,
    ] {
        assert!(source.contains(text), "{text} is not in {source}");
    }
    let job = JobFile::new(server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    let times = format!("{}.times", database.name);
    for phase in 1..=2 {
        eventually("rows arrive", Duration::from_secs(60), async || {
            process.assert_runs();
            lake.read(&times, None).len() == 3 * phase
        })
        .await;
        if phase == 1 {
            insert(100).await;
        }
    }
    process.stop().await;
    lake.assert_equal(&database).await;
}

/// Geometry is a text that keeps type and coordinates, the same in both phases.
#[tokio::test(flavor = "multi_thread")]
async fn geometry_is_text() {
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("geometry").await;
    let rows = "(ST_GeomFromText('POINT(1 2)')), (ST_GeomFromText('POINT(3 4)', 4326)), \
                (ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))')), (NULL)";
    database
        .run(&format!(
            "CREATE TABLE g (id INT PRIMARY KEY AUTO_INCREMENT, v GEOMETRY);\nINSERT INTO g (v) VALUES {rows}"
        ))
        .await;
    let job = JobFile::new(server, &database, &lake);
    let mut process = Headwater::run(&job, &lake);
    let table = format!("{}.g", database.name);
    let values = |lake: &Lake| -> Vec<serde_json::Value> {
        let mut rows: Vec<serde_json::Value> = lake
            .read(&table, None)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        rows.sort_by_key(|row| row["id"].as_i64());
        rows.into_iter().map(|mut row| row["v"].take()).collect()
    };
    for phase in 1..=2 {
        eventually("rows arrive", Duration::from_secs(60), async || {
            process.assert_runs();
            values(&lake).len() == 4 * phase
        })
        .await;
        if phase == 1 {
            database
                .run(&format!("INSERT INTO g (v) VALUES {rows}"))
                .await;
        }
    }
    process.stop().await;
    let all = values(&lake);
    assert_eq!(all[..4], all[4..], "snapshot and log differ");
    assert!(all[0].as_str().unwrap().contains("Point"), "{all:?}");
    assert!(all[1].as_str().unwrap().contains("4326"), "{all:?}");
    assert!(all[3].is_null());
}
