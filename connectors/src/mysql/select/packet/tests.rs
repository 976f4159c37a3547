use mysql_async::{
    Row, Value,
    consts::{ColumnFlags, ColumnType as T},
};
use mysql_common::{io::ParseBuf, row::RowDeserializer, value::ServerSide};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::mysql::{
    table::{MysqlColumn, MysqlTable},
    types::TypeOptions,
};

/// Type of a column, and how the server sends it.
const COLUMNS: [(&str, T, bool); 30] = [
    ("int", T::MYSQL_TYPE_LONG, false),
    ("tinyint", T::MYSQL_TYPE_TINY, false),
    ("tinyint unsigned", T::MYSQL_TYPE_TINY, true),
    ("tinyint(1)", T::MYSQL_TYPE_TINY, false),
    ("smallint", T::MYSQL_TYPE_SHORT, false),
    ("smallint unsigned", T::MYSQL_TYPE_SHORT, true),
    ("mediumint", T::MYSQL_TYPE_INT24, false),
    ("int unsigned", T::MYSQL_TYPE_LONG, true),
    ("bigint", T::MYSQL_TYPE_LONGLONG, false),
    ("bigint unsigned", T::MYSQL_TYPE_LONGLONG, true),
    ("year", T::MYSQL_TYPE_YEAR, true),
    ("float", T::MYSQL_TYPE_FLOAT, false),
    ("double", T::MYSQL_TYPE_DOUBLE, false),
    ("decimal(15,2)", T::MYSQL_TYPE_NEWDECIMAL, false),
    ("decimal(38,10)", T::MYSQL_TYPE_NEWDECIMAL, false),
    ("decimal(50,3)", T::MYSQL_TYPE_NEWDECIMAL, false),
    ("varchar(300)", T::MYSQL_TYPE_VAR_STRING, false),
    ("text", T::MYSQL_TYPE_BLOB, false),
    ("binary(9)", T::MYSQL_TYPE_STRING, false),
    ("blob", T::MYSQL_TYPE_BLOB, false),
    ("bit(10)", T::MYSQL_TYPE_BIT, true),
    ("date", T::MYSQL_TYPE_DATE, false),
    ("datetime", T::MYSQL_TYPE_DATETIME, false),
    ("datetime(6)", T::MYSQL_TYPE_DATETIME, false),
    ("timestamp(3)", T::MYSQL_TYPE_TIMESTAMP, false),
    ("time", T::MYSQL_TYPE_TIME, false),
    ("time(6)", T::MYSQL_TYPE_TIME, false),
    ("enum('a','b')", T::MYSQL_TYPE_LONGLONG, true),
    ("set('a','b','c')", T::MYSQL_TYPE_LONGLONG, true),
    ("json", T::MYSQL_TYPE_JSON, false),
];

fn plan() -> (SelectPlan, Vec<Column>) {
    let columns = COLUMNS.iter().enumerate().map(|(at, (text, ..))| {
        let name = format!("c{at}");
        let options = TypeOptions::default();
        MysqlColumn::from_definition(&name, text, None, None, at > 0, None, &options).unwrap()
    });
    let table = MysqlTable {
        name: TableName::new("d", "t"),
        version: 0,
        columns: columns.collect(),
        primary_key: vec!["c0".into()],
        comment: None,
        engine: "InnoDB".into(),
        charset: "utf8mb4".into(),
        collation: "utf8mb4_0900_ai_ci".into(),
    };
    let sent = COLUMNS.iter().map(|(_, kind, unsigned)| {
        let flags = match unsigned {
            true => ColumnFlags::UNSIGNED_FLAG,
            false => ColumnFlags::empty(),
        };
        Column::new(*kind).with_flags(flags)
    });
    (SelectPlan::new(&table).unwrap(), sent.collect())
}

/// Bytes behind a length.
fn counted(bytes: &[u8], out: &mut Vec<u8>) {
    match bytes.len() {
        short @ 0..=250 => out.push(short as u8),
        length @ 251..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        length => {
            out.push(0xFD);
            out.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
        }
    }
    out.extend_from_slice(bytes);
}

fn digits(rng: &mut StdRng, whole: usize, scale: usize) -> String {
    let mut text = String::new();
    if rng.random() {
        text.push('-');
    }
    let mut digit = |_| char::from(b'0' + rng.random_range(0..10_u8));
    let count = 1 + whole / 2;
    text.extend((0..count).map(&mut digit));
    if scale > 0 {
        text.push('.');
        text.extend((0..scale).map(&mut digit));
    }
    text
}

/// A value as the server would send it.
fn value(text: &str, kind: T, rng: &mut StdRng, out: &mut Vec<u8>) {
    let bytes =
        |count: usize, rng: &mut StdRng| -> Vec<u8> { (0..count).map(|_| rng.random()).collect() };
    match (text, kind) {
        ("enum('a','b')", _) => out.extend_from_slice(&rng.random_range(0..3_u64).to_le_bytes()),
        ("set('a','b','c')", _) => out.extend_from_slice(&rng.random_range(0..8_u64).to_le_bytes()),
        (_, T::MYSQL_TYPE_TINY) => out.extend(bytes(1, rng)),
        (_, T::MYSQL_TYPE_SHORT | T::MYSQL_TYPE_YEAR) => out.extend(bytes(2, rng)),
        ("mediumint", _) => {
            let number: i32 = rng.random_range(-8_388_608..8_388_608);
            out.extend_from_slice(&number.to_le_bytes());
        }
        (_, T::MYSQL_TYPE_LONG) => out.extend(bytes(4, rng)),
        (_, T::MYSQL_TYPE_LONGLONG) => out.extend(bytes(8, rng)),
        (_, T::MYSQL_TYPE_FLOAT) => out.extend_from_slice(&rng.random::<f32>().to_le_bytes()),
        (_, T::MYSQL_TYPE_DOUBLE) => out.extend_from_slice(&rng.random::<f64>().to_le_bytes()),
        ("decimal(15,2)", _) => counted(digits(rng, 13, 2).as_bytes(), out),
        ("decimal(38,10)", _) => counted(digits(rng, 28, 10).as_bytes(), out),
        ("decimal(50,3)", _) => counted(digits(rng, 47, 3).as_bytes(), out),
        ("varchar(300)" | "text" | "json", _) => {
            let length = rng.random_range(0..300);
            let text: String = (0..length)
                .map(|_| if rng.random() { 'é' } else { 'x' })
                .collect();
            counted(text.as_bytes(), out);
        }
        ("blob", _) => {
            let length = [0, 250, 251, 70_000][rng.random_range(0..4)];
            counted(&bytes(length, rng), out);
        }
        (_, T::MYSQL_TYPE_STRING) => counted(&bytes(9, rng), out),
        (_, T::MYSQL_TYPE_BIT) => counted(&bytes(2, rng), out),
        (_, T::MYSQL_TYPE_TIME) => {
            let length = [0, 8, 12][rng.random_range(0..3)];
            let micros = rng.random_range(0..1_000_000_u32).to_le_bytes();
            let span = [0, 0, 0, 0, 0, 23, 59, rng.random_range(0..60)];
            out.push(length);
            out.extend_from_slice(&[&span[..], &micros].concat()[..length.into()]);
        }
        _ => {
            let length = [0, 4, 7, 11][rng.random_range(0..4)];
            let year = rng.random_range(0..10_000_u16).to_le_bytes();
            let [month, day] = [rng.random_range(0..14), rng.random_range(0..33)];
            let clock = [rng.random_range(0..24), 59, rng.random_range(0..60)];
            let micros = rng.random_range(0..1_000_000_u32).to_le_bytes();
            let moment = [&year[..], &[month, day], &clock, &micros].concat();
            out.push(length);
            out.extend_from_slice(&moment[..length.into()]);
        }
    }
}

/// A row as the server would send it.
fn row(rng: &mut StdRng) -> Vec<u8> {
    let mut nulls = vec![0_u8; (COLUMNS.len() + 9) / 8];
    let mut values = Vec::new();
    let nulls_too: bool = rng.random();
    for (at, (text, kind, _)) in COLUMNS.iter().enumerate() {
        if nulls_too && at > 0 && rng.random_range(0..3) == 0 {
            nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8);
        } else {
            value(text, *kind, rng, &mut values);
        }
    }
    [&[0][..], &nulls, &values].concat()
}

/// The row as the library reads it.
fn by_the_library(packet: &[u8], columns: &[Column]) -> Row {
    let columns = std::sync::Arc::from(columns);
    ParseBuf(packet)
        .parse::<RowDeserializer<ServerSide, mysql_common::proto::Binary>>(columns)
        .unwrap()
        .into()
}

fn seeded() -> StdRng {
    let seed = match std::env::var("HEADWATER_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => rand::random(),
    };
    println!("HEADWATER_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[test]
fn packets_give_what_the_library_gives() {
    let mut rng = seeded();
    let (plan, columns) = plan();
    let packets = plan.for_packets(&columns).unwrap();
    let (mut ours, mut theirs) = (plan.builder(), plan.builder());
    for _ in 0..2000 {
        let packet = row(&mut rng);
        let row = by_the_library(&packet, &columns);
        let cells = packets.cells(&packet).unwrap();
        let values: Vec<Value> = row.clone().unwrap();
        assert_eq!(cells, values.iter().map(Cell::from).collect::<Vec<_>>());
        let (one, other) = (ours.push_packet(&packets, &packet), theirs.push(row));
        match (one, other) {
            (Ok(()), Ok(())) => {}
            (Err(one), Err(other)) => {
                assert_eq!(one.to_string(), other.to_string());
                assert_eq!(one.is_transient(), other.is_transient());
            }
            (one, other) => panic!("{one:?} but {other:?}"),
        }
    }
    assert!(ours.rows() > 1000, "{} rows", ours.rows());
    assert_eq!(ours.zero_dates(), theirs.zero_dates());
    assert_eq!(ours.take().unwrap(), theirs.take().unwrap());
}

#[test]
fn damaged_rows_are_errors() {
    let mut rng = seeded();
    let (plan, columns) = plan();
    let packets = plan.for_packets(&columns).unwrap();
    let mut builder = plan.builder();
    let (mut refused, mut whole) = (0, 0);
    for _ in 0..20_000 {
        let mut packet = row(&mut rng);
        match rng.random_range(0..4) {
            0 => packet.truncate(rng.random_range(0..packet.len())),
            1 => packet.push(rng.random()),
            2 => {
                let at = rng.random_range(0..packet.len());
                packet[at] = rng.random();
            }
            _ => {
                let at = rng.random_range(0..packet.len());
                packet.insert(at, rng.random());
            }
        }
        let rows = builder.rows();
        let _ = packets.cells(&packet);
        match builder.push_packet(&packets, &packet) {
            Ok(()) => whole += 1,
            Err(_) => {
                refused += 1;
                assert_eq!(builder.rows(), rows);
            }
        }
        if builder.rows() == 100 {
            // Bytes of JSON are looked at when the batch is made.
            match builder.take() {
                Ok(batch) => assert_eq!(batch.num_rows(), 100),
                Err(error) => assert!(error.to_string().contains("non UTF-8"), "{error}"),
            }
            builder = plan.builder();
        }
    }
    // A byte of a text or a number may well be another one.
    assert!(refused > 5000 && whole > 100, "{refused} and {whole}");
    for short in 0..20 {
        let packet = &row(&mut rng)[..short];
        let error = builder.push_packet(&packets, packet).unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}

#[test]
fn ascii_is_known_at_every_place() {
    for length in 0..100 {
        let mut text = vec![b'x'; length];
        assert!(is_ascii(&text));
        for at in 0..length {
            text[at] = 0x80;
            assert!(!is_ascii(&text), "{at} of {length}");
            text[at] = 0x7F;
        }
    }
}

#[test]
fn columns_behind_the_list_are_left_alone() {
    let mut rng = seeded();
    let (plan, mut columns) = plan();
    columns.push(Column::new(T::MYSQL_TYPE_VAR_STRING));
    let packets = plan.for_packets(&columns).unwrap();
    assert_eq!(packets.columns(), COLUMNS.len() + 1);
    let mut packet = loop {
        let packet = row(&mut rng);
        if plan
            .builder()
            .push(by_the_library(&packet, &columns[..COLUMNS.len()]))
            .is_ok()
        {
            break packet;
        }
    };
    // 31 columns have a byte more of NULL bits than 30.
    packet.insert(5, 0);
    counted(b"key", &mut packet);
    let mut builder = plan.builder();
    builder.push_packet(&packets, &packet).unwrap();
    assert_eq!(builder.take().unwrap().num_columns(), COLUMNS.len());
    assert_eq!(
        packets.cells(&packet).unwrap().last(),
        Some(&Cell::Bytes(b"key"))
    );
    packet.pop();
    assert!(
        builder
            .push_packet(&packets, &packet)
            .unwrap_err()
            .is_transient()
    );
    assert!(plan.for_packets(&columns[1..COLUMNS.len()]).is_err());
    let strange = Column::new(T::MYSQL_TYPE_TYPED_ARRAY);
    columns.push(strange);
    assert!(plan.for_packets(&columns).is_err());
}
