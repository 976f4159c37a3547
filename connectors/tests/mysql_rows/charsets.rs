//! Every code of every character set, against the server's own conversion.

use arrow_array::{StringArray, cast::AsArray};
use mysql_async::prelude::Queryable;

use crate::phases::Bench;

/// Sets with one byte a character, and those with more.
const SINGLE: &str = "armscii8 ascii cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 geostd8 \
    greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman tis620";
const DOUBLE: &str = "gbk gb2312 big5 sjis cp932 ujis eucjpms euckr gb18030 ucs2";

/// Fills a table with every code the server takes for valid and compares all three.
async fn compare(bench: &mut Bench, charset: &str, codes: &str, last: u32) -> Vec<String> {
    bench.run("DROP TABLE IF EXISTS t").await;
    bench
        .run(format!(
            "CREATE TABLE t (id int auto_increment primary key, c varchar(9) character set {charset})"
        ))
        .await;
    bench
        .run("SET SESSION cte_max_recursion_depth = 1000000")
        .await;
    let insert = format!(
        "INSERT INTO t (c) WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s \
         WHERE n < {last}) SELECT CONVERT({codes} USING {charset}) FROM s \
         WHERE CONVERT({codes} USING {charset}) IS NOT NULL"
    );
    let batch = bench.both("t", &[insert]).await;
    let ours: &StringArray = batch.column(1).as_string();
    let right: Vec<(String, String)> = bench
        .conn
        .query("SELECT HEX(c), CAST(c AS CHAR CHARACTER SET utf8mb4) FROM t ORDER BY id")
        .await
        .unwrap();
    let pairs = right.iter().zip(ours.iter());
    pairs
        .filter(|((_, right), ours)| *ours != Some(right.as_str()))
        .map(|((code, right), ours)| format!("{charset} {code}: {ours:?}, right is {right:?}"))
        .collect()
}

#[tokio::test]
async fn single_byte_sets_convert_as_the_server_does() {
    let mut bench = Bench::open().await;
    let mut wrong = Vec::new();
    for charset in SINGLE.split_whitespace() {
        let last = if charset == "ascii" { 127 } else { 255 };
        let codes = "UNHEX(LPAD(HEX(n), 2, '0'))";
        wrong.extend(compare(&mut bench, charset, codes, last).await);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    bench.close().await;
}

#[tokio::test]
async fn multi_byte_sets_convert_as_the_server_does() {
    let mut bench = Bench::open().await;
    let mut wrong = Vec::new();
    let codes = "UNHEX(IF(n < 256, LPAD(HEX(n), 2, '0'), LPAD(HEX(n), 4, '0')))";
    for charset in DOUBLE.split_whitespace() {
        let codes = if charset == "ucs2" {
            "UNHEX(LPAD(HEX(n), 4, '0'))"
        } else {
            codes
        };
        // Behind 0xD7FF ucs2 has surrogates, which are no characters.
        let last = if charset == "ucs2" { 0xD7FF } else { 0xFFFF };
        wrong.extend(compare(&mut bench, charset, codes, last).await);
    }
    for charset in ["ujis", "eucjpms"] {
        let codes = "UNHEX(CONCAT('8F', LPAD(HEX(n + 41377), 4, '0')))";
        wrong.extend(compare(&mut bench, charset, codes, 0xFEFE - 41377).await);
    }
    // Four-byte codes of gb18030: 81308130 and on, in steps that reach every lead.
    let codes = "UNHEX(CONCAT(HEX(0x81 + n DIV 12600), HEX(0x30 + n DIV 1260 MOD 10), \
                 HEX(0x81 + n DIV 10 MOD 126), HEX(0x30 + n MOD 10)))";
    wrong.extend(compare(&mut bench, "gb18030", codes, 50_399).await);
    if let Ok(path) = std::env::var("HEADWATER_TEST_CHARSETS") {
        std::fs::write(path, wrong.join("\n")).unwrap();
    }
    assert!(
        wrong.is_empty(),
        "{} codes, {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(40)]
    );
    bench.close().await;
}

/// Codes that share a character: in a key all but the first are refused, alike in both phases.
#[tokio::test]
async fn keys_hold_no_second_code_of_a_character() {
    let mut bench = Bench::open().await;
    for (charset, first, second) in [
        ("cp932", "81CA", "EEF9"),
        ("cp932", "FA5C", "ED40"),
        ("sjis", "5C", "815F"),
        ("ujis", "7E", "8FA2B7"),
        ("eucjpms", "A2E2", "ADF0"),
        ("armscii8", "29", "A4"),
    ] {
        bench.run("DROP TABLE IF EXISTS t").await;
        bench
            .run(format!(
                "CREATE TABLE t (id varchar(9) character set {charset} collate {charset}_bin \
                 primary key, v varchar(9) character set {charset})"
            ))
            .await;
        let row = |key: &str, value: &str| format!("INSERT INTO t VALUES (x'{key}', x'{value}')");
        // Beside the key it is text like any other.
        bench.both("t", &[row(first, second)]).await;
        let from = bench.position().await;
        bench.run(row(second, first)).await;
        let table = std::sync::Arc::new(bench.table("t").await);
        for error in [
            bench.select(&table).await.unwrap_err(),
            bench.tail(&table, from).await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                !error.is_transient() && text.contains("column id") && text.contains("code"),
                "{charset}: {text}"
            );
        }
    }
    bench.close().await;
}
