//! Every column type, its edges and random values.

use arrow_array::{Array, RecordBatch, StringArray, cast::AsArray, types::*};
use headwater_connectors::DataType;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::phases::{Bench, seed};

/// Types and the literals to try in each; each column stands once nullable and once NOT NULL.
fn edges() -> Vec<(&'static str, Vec<String>)> {
    let list = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    vec![
        ("tinyint", list("-128|127|0|1|-1")),
        ("tinyint(1)", list("0|1|2|-1|127")),
        ("tinyint unsigned", list("0|128|255")),
        ("tinyint zerofill", list("0|5|255")),
        ("smallint", list("-32768|32767|-1")),
        ("smallint unsigned", list("65535|1")),
        ("mediumint", list("-8388608|8388607|-1")),
        ("mediumint unsigned", list("16777215|1")),
        ("int", list("-2147483648|2147483647|-1")),
        ("int unsigned", list("4294967295|0")),
        ("int zerofill", list("42|4294967295")),
        (
            "bigint",
            list("-9223372036854775808|9223372036854775807|-1"),
        ),
        (
            "bigint unsigned",
            list("18446744073709551615|9223372036854775808|0"),
        ),
        ("bigint zerofill", list("7|18446744073709551615")),
        (
            "float",
            list("16777216.0|0.1|-3.4028234e38|1.17549435e-38|0|-0.0|16777217|123456.789"),
        ),
        ("float(10,2)", list("0.1|12345.678|-0.005|99999999.99")),
        ("float unsigned", list("0.3|1e10")),
        (
            "double",
            list("0.1|-1.7976931348623157e308|5e-324|-0.0|1e22|123456789.123456789"),
        ),
        ("double(10,3)", list("0.1235|1234567.8915")),
        (
            "decimal(10,2)",
            list("0|-0.01|99999999.99|-99999999.99|12.30"),
        ),
        ("decimal(5,0)", list("-99999|1")),
        (
            "decimal(38,30)",
            list("0.000000000000000000000000000001|-99999999.999999999999999999999999999999"),
        ),
        (
            "decimal(30,30)",
            list("0.1|-0.000000000000000000000000000001"),
        ),
        (
            "decimal(38,0)",
            list("99999999999999999999999999999999999999|-1"),
        ),
        (
            "decimal(38,10) unsigned",
            list("9999999999999999999999999999.9999999999|0"),
        ),
        ("decimal(12,3) zerofill", list("1.5|0")),
        (
            "decimal(39,1)",
            list("99999999999999999999999999999999999999.9|-0.1|0"),
        ),
        (
            "decimal(65,30)",
            list(
                "12345678901234567890123456789012345.123456789012345678901234567890|-0.000000000000000000000000000001|0|100",
            ),
        ),
        ("decimal(65,30) zerofill", list("7.5|0")),
        ("bit(1)", list("b'0'|b'1'")),
        ("bit(10)", list("b'1000000001'|0")),
        ("bit(64)", list("18446744073709551615|1")),
        ("char(5)", list("''|'a'|'a  '|'\u{e9}\u{1f600}'|'     '")),
        ("char(0)", list("''")),
        ("char(255)", list("repeat('\u{4e2d}',255)|'x'")),
        ("varchar(20)", list("''|'a  '|'\u{1f600}\u{1f600}'|'\0x'")),
        (
            "varchar(3000)",
            list("repeat('\u{4e2d}',3000)|'x'|repeat('y',255)|repeat('z',256)"),
        ),
        ("tinytext", list("''|repeat('t',255)")),
        ("text", list("'\u{1f600}text'|repeat('t',65535)")),
        ("mediumtext", list("repeat('m',100000)|''")),
        ("longtext", list("repeat('l',200000)|'\u{20ac}'")),
        (
            "binary(4)",
            list("x'AB000000'|x'00000000'|x'AB'|''|x'0000AB00'|x'20202020'"),
        ),
        ("binary(255)", list("repeat('b',255)|'b'")),
        (
            "varbinary(300)",
            list("''|x'00'|x'0000FF00'|repeat(x'FF',300)|x'2020'"),
        ),
        ("tinyblob", list("''|x'00'")),
        ("blob", list("x'0020'|repeat(x'FE',65535)")),
        ("mediumblob", list("repeat(x'FE',65536)")),
        ("longblob", list("repeat(x'FD',300000)|''")),
        (
            "date",
            list(
                "'1000-01-01'|'9999-12-31'|'1969-12-31'|'2024-02-29'|'0000-00-00'|'2024-00-15'|'2024-05-00'|'0001-01-01'",
            ),
        ),
        ("time", list("'00:00:00'|'23:59:59'|'12:34:56'")),
        ("time(1)", list("'23:59:59.9'|'00:00:00.1'")),
        ("time(3)", list("'23:59:59.999'|'00:00:00.001'")),
        (
            "time(4)",
            list("'-838:59:59.0000'|'838:59:58.9999'|'-00:00:00.0001'|'00:00:00'"),
        ),
        ("time(5)", list("'-1:02:03.00001'|'123:00:00.99999'")),
        (
            "time(6)",
            list("'-838:59:58.999999'|'00:00:00.000001'|'-00:00:01.000001'|'-00:00:01'|'0'"),
        ),
        (
            "datetime",
            list(
                "'1000-01-01 00:00:00'|'9999-12-31 23:59:59'|'1969-12-31 23:59:59'|'0000-00-00 00:00:00'|'2024-00-15 10:00:00'",
            ),
        ),
        ("datetime(1)", list("'2024-01-01 08:00:00.5'|'0000-00-00'")),
        (
            "datetime(3)",
            list("'1969-12-31 23:59:59.999'|'2024-01-01 08:00:00.123'"),
        ),
        (
            "datetime(4)",
            list("'1969-12-31 23:59:59.9999'|'2024-01-01 08:00:00.0001'"),
        ),
        (
            "datetime(6)",
            list("'9999-12-31 23:59:59.999999'|'1000-01-01 00:00:00.000001'|'0000-00-00 00:00:00'"),
        ),
        (
            "timestamp",
            list(
                "'1970-01-01 00:00:01'|'2038-01-19 03:14:07'|'0000-00-00 00:00:00'|'2024-01-01 08:00:00'",
            ),
        ),
        (
            "timestamp(2)",
            list("'2024-01-01 08:00:00.25'|'0000-00-00 00:00:00'"),
        ),
        (
            "timestamp(3)",
            list("'2024-01-01 08:00:00.123'|'1970-01-01 00:00:01.001'"),
        ),
        (
            "timestamp(6)",
            list(
                "'2024-01-01 08:00:00.123456'|'1970-01-01 00:00:01.000001'|'2038-01-19 03:14:07.999999'",
            ),
        ),
        ("year", list("1901|2155|0|2024")),
        (
            "enum('a','b','it''s, ok','\u{e9}','')",
            list("'a'|'b'|'it''s, ok'|'\u{e9}'|''|'not a label'|3"),
        ),
        (
            "enum('a','\u{e9}','\u{df}') character set latin1",
            list("'\u{e9}'|'\u{df}'|'nope'"),
        ),
        ("set('x','y','z')", list("'x,z'|''|'x,y,z'|'nope'|'y'")),
        (
            "set('a','\u{e9}') character set latin1",
            list("'\u{e9}'|'a,\u{e9}'"),
        ),
        (
            "json",
            list("'{\"b\": 1, \"a\": [1.0, null]}'|'[]'|'\"\u{1f600}\"'|'null'|cast(1.50 as json)"),
        ),
        (
            "geometry",
            list(
                "ST_GeomFromText('POINT(1 2)')|ST_GeomFromText('POINT(1 2)',4326)|ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1.5 -2))')|ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')",
            ),
        ),
        ("point", list("ST_GeomFromText('POINT(-1.25 1e100)')")),
        (
            "linestring",
            list("ST_GeomFromText('LINESTRING(0 0,1 1,2 2.5)')"),
        ),
        (
            "polygon",
            list("ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,7 5,7 7,5 7,5 5))')"),
        ),
        ("multipoint", list("ST_GeomFromText('MULTIPOINT(0 0,1 1)')")),
        (
            "multilinestring",
            list("ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))')"),
        ),
        (
            "multipolygon",
            list("ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((2 2,3 2,3 3,2 2)))')"),
        ),
        (
            "geometrycollection",
            list("ST_GeomFromText('GEOMETRYCOLLECTION(GEOMETRYCOLLECTION(POINT(1 1)))')"),
        ),
        (
            "vector(3)",
            list("to_vector('[1,-2.5,3e10]')|to_vector('[0.1]')"),
        ),
        (
            "varchar(10) character set latin1",
            list("'\u{e9}\u{20ac}'|x'8190'|'abc'"),
        ),
        (
            "varchar(10) character set gbk",
            list("'\u{4e2d}\u{6587}'|'a\u{4e2d}b'"),
        ),
        (
            "varchar(10) character set ucs2",
            list("'\u{4e2d}\u{6587}'|'ab'"),
        ),
        ("char(10) character set utf16le", list("'\u{1f600}a'|'ab '")),
        ("char(10) character set utf32", list("'\u{1f600}a'|'ab '")),
        (
            "char(10) character set gb18030",
            list("'\u{1f600}a'|'\u{4e2d} '"),
        ),
        ("text character set sjis", list("'\u{3042}\u{ff71}'|'x'")),
        ("varchar(10) character set binary", list("x'00FF20'|'a '")),
        ("varchar(10) character set ascii", list("'az'|''")),
        ("text character set utf8mb3", list("'\u{20ac}'|''")),
    ]
}

/// Runs every type through both phases: a statement a value, NULLs, then one of many rows.
#[tokio::test]
async fn every_type_gives_the_same_value_in_both_phases() {
    let mut bench = Bench::open().await;
    let mut nullable = vec!["id bigint primary key".to_owned()];
    for (at, (kind, _)) in edges().iter().enumerate() {
        nullable.push(format!("n{at} {kind} null"));
    }
    // Rows of InnoDB are bounded: two tables share the columns' NOT NULL halves.
    bench
        .run(format!(
            "CREATE TABLE t ({}) CHARACTER SET utf8mb4",
            nullable.join(", ")
        ))
        .await;
    let mut inserts = Vec::new();
    let most = edges()
        .iter()
        .map(|(_, values)| values.len())
        .max()
        .unwrap();
    for row in 0..most {
        let values: Vec<String> = edges()
            .iter()
            .map(|(_, values)| values.get(row).cloned().unwrap_or("NULL".into()))
            .collect();
        inserts.push(format!(
            "INSERT IGNORE INTO t VALUES ({row}, {})",
            values.join(", ")
        ));
    }
    inserts.push("INSERT INTO t SELECT * FROM (SELECT * FROM t) s WHERE 1=0".into());
    let batch = bench.both("t", &inserts).await;
    assert_eq!(batch.num_rows(), most);

    let mut columns = vec!["id bigint primary key".to_owned()];
    for (at, (kind, _)) in edges().iter().enumerate() {
        columns.push(format!("m{at} {kind} NOT NULL"));
    }
    bench
        .run(format!(
            "CREATE TABLE m ({}) CHARACTER SET utf8mb4",
            columns.join(", ")
        ))
        .await;
    let inserts: Vec<String> = (0..most)
        .map(|row| {
            let values: Vec<String> = edges()
                .iter()
                .map(|(_, values)| values[row % values.len()].clone())
                .collect();
            format!("INSERT IGNORE INTO m VALUES ({row}, {})", values.join(", "))
        })
        .collect();
    bench.both("m", &inserts).await;
    bench.close().await;
}

pub fn text(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let column = batch.column_by_name(column).unwrap();
    let column: &StringArray = column.as_string();
    column.iter().map(|text| text.map(str::to_owned)).collect()
}

/// The cases of the list, by their own right answers.
#[tokio::test]
async fn listed_cases_give_the_right_values() {
    let mut bench = Bench::open().await;
    bench
        .run(
            "CREATE TABLE t (id int primary key, m1 int zerofill, m2 mediumint unsigned, \
             m2b bigint unsigned, m3 datetime, m3n datetime not null, m3d date not null, \
             m4 timestamp null, m4d datetime, m5 enum('a','b'), m6 set('x','y','z'), \
             m7 varchar(9) character set latin1, m7g varchar(9) character set gbk, m8 bit(10), \
             m8b bit(1), m9 float, m10 decimal(65,30), m11 geometry, m12 tinyint(1), \
             inv int invisible default 5, v int as (id + 1) virtual, s int as (id + 2) stored)",
        )
        .await;
    let inserts = [
        "INSERT INTO t (id,m1,m2,m2b,m3,m3n,m3d,m4,m4d,m5,m6,m7,m7g,m8,m8b,m9,m10,m11,m12) VALUES \
         (1, 42, 16777215, 18446744073709551615, '0000-00-00', '0000-00-00', '0000-00-00', \
         '2024-01-01 00:00:00', '2024-01-01 08:00:00', 'b', 'x,z', 'é', '中文', b'1000000001', 1, \
         16777216.0, 12345678901234567890123456789012345.123456789012345678901234567890, \
         ST_GeomFromText('POINT(1 2)', 4326), 1)"
            .to_owned(),
        "INSERT IGNORE INTO t (id, m3n, m3d, m5) VALUES (2, '2024-01-01', '2024-01-01', 'wrong')"
            .to_owned(),
    ];
    let batch = bench.both("t", &inserts).await;
    let column = |name: &str| batch.column_by_name(name).unwrap().slice(0, 1);
    assert_eq!(column("m1").as_primitive::<Int64Type>().value(0), 42);
    assert_eq!(
        column("m2").as_primitive::<Int32Type>().value(0),
        16_777_215
    );
    let widest = column("m2b").as_primitive::<Decimal128Type>().value(0);
    assert_eq!(widest, i128::from(u64::MAX));
    assert!(column("m3").is_null(0));
    assert_eq!(
        column("m3n")
            .as_primitive::<TimestampMillisecondType>()
            .value(0),
        0
    );
    assert_eq!(column("m3d").as_primitive::<Date32Type>().value(0), 0);
    let instant = column("m4")
        .as_primitive::<TimestampMillisecondType>()
        .value(0);
    assert_eq!(instant, 1_704_067_200_000);
    let local = column("m4d")
        .as_primitive::<TimestampMillisecondType>()
        .value(0);
    assert_eq!(local, 1_704_096_000_000);
    assert_eq!(text(&batch, "m5"), [Some("b".into()), Some(String::new())]);
    let set = column("m6").as_list::<i32>().value(0);
    let set: Vec<_> = set.as_string::<i32>().iter().flatten().collect();
    assert_eq!(set, ["x", "z"]);
    assert_eq!(text(&batch, "m7")[0].as_deref(), Some("é"));
    assert_eq!(text(&batch, "m7g")[0].as_deref(), Some("中文"));
    assert_eq!(column("m8").as_binary::<i32>().value(0), [2, 1]);
    assert!(column("m8b").as_boolean().value(0));
    assert_eq!(
        column("m9").as_primitive::<Float32Type>().value(0),
        16_777_216.0
    );
    assert_eq!(
        text(&batch, "m10")[0].as_deref(),
        Some("12345678901234567890123456789012345.123456789012345678901234567890")
    );
    let point = text(&batch, "m11")[0].clone().unwrap();
    assert!(
        point.contains("\"type\":\"Point\",\"srid\":4326"),
        "{point}"
    );
    assert!(column("m12").as_boolean().value(0));
    assert_eq!(column("inv").as_primitive::<Int32Type>().value(0), 5);
    assert_eq!(column("v").as_primitive::<Int32Type>().value(0), 2);
    assert_eq!(column("s").as_primitive::<Int32Type>().value(0), 3);
    bench.close().await;
}

/// M12: large values and TINYINT(1) with the option off; TIME as text.
#[tokio::test]
async fn options_and_large_values() {
    let mut bench = Bench::open().await;
    bench.options.tinyint1_as_boolean = false;
    bench.options.time_as_string = true;
    bench
        .run("CREATE TABLE t (id int primary key, t tinyint(1), d time, b longblob)")
        .await;
    let inserts = ["INSERT INTO t VALUES (1, 7, '-838:59:59', repeat('x', 20*1024*1024))".into()];
    let batch = bench.both("t", &inserts).await;
    assert_eq!(batch.column(1).as_primitive::<Int8Type>().value(0), 7);
    assert_eq!(text(&batch, "d")[0].as_deref(), Some("-838:59:59"));
    assert_eq!(batch.column(3).as_binary::<i32>().value(0).len(), 20 << 20);
    bench.close().await;
}

/// Random numbers, times and bytes, many rows a statement.
#[tokio::test]
async fn random_values_agree() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut bench = Bench::open().await;
    bench
        .run(
            "CREATE TABLE t (id int primary key, a bigint, b double, c float, d decimal(38,12), \
             e decimal(60,20), f datetime(6), g time(6), h timestamp(5) null, i varbinary(400), \
             j binary(7), k varchar(300), l mediumint, m bit(33), n date)",
        )
        .await;
    let mut inserts = Vec::new();
    for statement in 0..40 {
        let mut rows = Vec::new();
        for row in 0..50 {
            rows.push(random_row(&mut random, statement * 50 + row));
        }
        inserts.push(format!("INSERT INTO t VALUES {}", rows.join(",")));
    }
    let batch = bench.both("t", &inserts).await;
    assert_eq!(batch.num_rows(), 2000);
    bench.close().await;
}

fn random_row(random: &mut StdRng, id: i32) -> String {
    fn digits(random: &mut StdRng, most: usize) -> String {
        let count = random.random_range(1..=most);
        (0..count)
            .map(|_| char::from(b'0' + random.random_range(0..10)))
            .collect()
    }
    let mut values = vec![
        (random.random::<i64>() >> random.random_range(0..63)).to_string(),
        format!(
            "{:e}",
            f64::from_bits(random.random_range(0..0x7FE0_0000_0000_0000))
        ),
        format!("{:e}", f32::from_bits(random.random_range(0..0x7F00_0000))),
    ];
    for (integer, fraction) in [(26, 12), (40, 20)] {
        let sign = if random.random() { "-" } else { "" };
        let (whole, part) = (digits(random, integer), digits(random, fraction));
        values.push(format!("{sign}{whole}.{part}"));
    }
    let date = format!(
        "{:04}-{:02}-{:02}",
        random.random_range(1..9999),
        random.random_range(1..13),
        random.random_range(1..29)
    );
    let clock = format!(
        "{:02}:{:02}:{:02}.{:06}",
        random.random_range(0..24),
        random.random_range(0..60),
        random.random_range(0..60),
        random.random_range(0..1_000_000)
    );
    values.push(format!("'{date} {clock}'"));
    let sign = if random.random() { "-" } else { "" };
    values.push(format!(
        "'{sign}{}:00:00.{:06}'",
        random.random_range(0..838),
        random.random_range(0..1_000_000)
    ));
    values.push(format!(
        "'{}-06-15 {clock}'",
        random.random_range(1971..2038)
    ));
    for most in [400, 7] {
        let count = random.random_range(0..=most);
        let bytes: Vec<String> = (0..count)
            .map(|_| {
                format!(
                    "{:02X}",
                    if random.random() {
                        0
                    } else {
                        random.random::<u8>()
                    }
                )
            })
            .collect();
        values.push(format!("x'{}'", bytes.concat()));
    }
    let chars: String = (0..random.random_range(0..300))
        .map(|_| ['a', ' ', 'é', '中', '😀', '0'][random.random_range(0..6)])
        .collect();
    values.push(format!("'{chars}'"));
    values.push(random.random_range(-8_388_608..8_388_608).to_string());
    values.push((random.random::<u64>() >> 31).to_string());
    values.push(format!("'{date}'"));
    for value in &mut values {
        if random.random_range(0..10) == 0 {
            *value = "NULL".into();
        }
    }
    format!("({id}, {})", values.join(", "))
}

/// Errors name table, column and what to do.
#[tokio::test]
async fn values_that_cannot_be_carried_are_named() {
    let mut bench = Bench::open().await;
    bench
        .run("CREATE TABLE t (id int primary key, d time)")
        .await;
    let from = bench.position().await;
    bench.run("INSERT INTO t VALUES (1, '25:00:00')").await;
    let table = std::sync::Arc::new(bench.table("t").await);
    assert_eq!(table.columns[1].lake, DataType::Time(0));
    for error in [
        bench.select(&table).await.unwrap_err(),
        bench.tail(&table, from).await.unwrap_err(),
    ] {
        let message = error.to_string();
        assert!(!error.is_transient());
        for part in ["25:00:00", "t", "column d", "time.as-string.enabled"] {
            assert!(message.contains(part), "{message}");
        }
    }
    bench.run("CREATE TABLE k (id datetime primary key)").await;
    let from = bench.position().await;
    bench
        .run("INSERT INTO k VALUES ('0000-00-00 00:00:00')")
        .await;
    let table = std::sync::Arc::new(bench.table("k").await);
    for error in [
        bench.select(&table).await.unwrap_err(),
        bench.tail(&table, from).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("zero date in a key"), "{error}");
    }
    bench.close().await;
}
