//! JSON documents: our text of the binary form is the server's, byte for byte.

use arrow_array::{Array, StringArray, cast::AsArray};
use mysql_async::prelude::Queryable;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::phases::{Bench, seed};

#[tokio::test]
async fn random_documents_print_as_the_server_prints_them() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id int primary key, j json)")
        .await;
    let mut inserts = Vec::new();
    for statement in 0..60 {
        let rows: Vec<String> = (0..50)
            .map(|row| {
                format!(
                    "({}, JSON_EXTRACT(JSON_ARRAY({}), '$[0]'))",
                    statement * 50 + row,
                    expression(&mut random, 0)
                )
            })
            .collect();
        inserts.push(format!("INSERT INTO t VALUES {}", rows.join(",")));
    }
    inserts.extend(fixed(3000));
    let batch = bench.both("t", &inserts).await;
    let right: Vec<String> = bench
        .conn
        .query("SELECT CAST(j AS CHAR CHARACTER SET utf8mb4) FROM t ORDER BY id")
        .await
        .unwrap();
    let ours: &StringArray = batch.column(1).as_string();
    assert_eq!(ours.len(), right.len());
    for (ours, right) in ours.iter().zip(&right) {
        assert_eq!(ours, Some(right.as_str()));
    }
    bench.close().await;
}

/// Documents at the edges of the format.
fn fixed(first: usize) -> Vec<String> {
    let deep = |depth: usize| format!("'{}1{}'", "[".repeat(depth), "]".repeat(depth));
    let wide: Vec<String> = (0..9000)
        .map(|n| format!("\"key{n}\":{}", n * 70_000))
        .collect();
    [
        "'{}'".to_owned(),
        "'\"\"'".to_owned(),
        deep(100),
        format!("'{{{}}}'", wide.join(",")),
        "JSON_ARRAY(REPEAT('x', 127), REPEAT('x', 128), REPEAT('y', 16384), REPEAT('z', 70000))".into(),
        "'[32767, 32768, -32768, -32769, 65535, 65536, 2147483647, 2147483648, -2147483649, 4294967295, 4294967296, 9223372036854775807, 9223372036854775808, 18446744073709551615, 18446744073709551616, -9223372036854775808, -9223372036854775809]'".into(),
        "JSON_ARRAY(CAST(x'00' AS BINARY), REPEAT(x'FF', 100), REPEAT(x'01', 57), REPEAT(x'01', 58), b'101', ST_GeomFromText('POINT(1 2)'), CAST(2024 AS YEAR))".into(),
        "JSON_ARRAY(DATE'2024-02-29', TIME'-838:59:59', TIMESTAMP'2024-02-29 01:02:03.000004', CAST('0000-00-00' AS DATE), CAST('00:00:00.000001' AS TIME(6)))".into(),
        "JSON_ARRAY(1.50, -0.000000000000000000000000000001, 99999999999999999999999999999999999.999999999999999999999999999999)".into(),
        "JSON_OBJECT('', 1, 'a', NULL, 'b', TRUE, 'aa', FALSE, 'é', '\\0\\b\\t\\n\\r\\Z\\\\\"/')".into(),
    ]
    .iter()
    .enumerate()
    .map(|(at, document)| format!("INSERT INTO t VALUES ({}, {document})", first + at))
    .collect()
}

/// A random SQL expression that makes a document.
fn expression(random: &mut StdRng, depth: u32) -> String {
    let scalar = depth > 4 || random.random_range(0..3) == 0;
    if scalar {
        return match random.random_range(0..12) {
            0 => "CAST('null' AS JSON)".into(),
            1 => format!("CAST('{}' AS JSON)", random.random::<bool>()),
            2..=3 => (random.random::<i64>() >> random.random_range(0..63)).to_string(),
            4 => format!(
                "CAST({} AS UNSIGNED)",
                random.random::<u64>() >> random.random_range(0..63)
            ),
            5 => format!(
                "{:e}",
                f64::from_bits(random.random_range(0..0x7FE0_0000_0000_0000))
            ),
            6 => format!(
                "{}e0",
                random.random_range(-1_000_000_000..1_000_000_000_i64) as f64
                    / 10_f64.powi(random.random_range(0..12))
            ),
            7 => format!("{}.{}", random.random::<i32>(), random.random::<u32>()),
            8 => format!(
                "TIMESTAMP'{}-03-04 05:06:07.{:06}'",
                random.random_range(1000..9999),
                random.random_range(0..1_000_000)
            ),
            9 => format!("TIME'{}:10:11.5'", random.random_range(-838..838)),
            _ => quoted(random),
        };
    }
    let count = random.random_range(0..8);
    let object = random.random();
    let parts: Vec<String> = (0..count)
        .map(|_| {
            let value = expression(random, depth + 1);
            if object {
                format!("{}, {value}", quoted(random))
            } else {
                value
            }
        })
        .collect();
    let function = if object { "JSON_OBJECT" } else { "JSON_ARRAY" };
    // A bare scalar is a JSON value only through a function.
    format!("{function}({})", parts.join(", "))
}

fn quoted(random: &mut StdRng) -> String {
    let alphabet = [
        "a", "B", " ", "é", "中", "😀", "\\\\", "\"", "\\n", "\\t", "''", "/", "\u{7f}", "\u{1}",
    ];
    let count = random.random_range(0..20);
    let text: String = (0..count)
        .map(|_| alphabet[random.random_range(0..alphabet.len())])
        .collect();
    format!("'{text}'")
}
