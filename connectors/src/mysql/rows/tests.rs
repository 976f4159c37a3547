use arrow_array::{Array, cast::AsArray, types::Int32Type};
use mysql_async::binlog::events::{
    DeleteRowsEvent, FormatDescriptionEvent, UpdateRowsEvent, WriteRowsEvent,
};
use mysql_common::{
    binlog::{
        BinlogCtx,
        consts::{BinlogVersion, EventType},
    },
    io::ParseBuf,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    mysql::{table::MysqlColumn, types::TypeOptions},
    schema::TableName,
};

/// Type, wire type, metadata and the bytes of a value.
type Spec = (&'static str, u8, &'static [u8], &'static [u8]);

/// One column of every kind of value.
const COLUMNS: [Spec; 18] = [
    ("int", 3, &[], &[7, 0, 0, 0]),
    ("mediumint", 9, &[], &[0xFF, 0xFF, 0xFF]),
    ("bigint unsigned", 8, &[], &[0xFF; 8]),
    ("float", 4, &[4], &[0, 0, 0x80, 0x3F]),
    ("decimal(10,2)", 246, &[10, 2], &[0x80, 0, 0, 1, 50]),
    (
        "decimal(40,2)",
        246,
        &[40, 2],
        &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 50],
    ),
    ("varchar(20)", 15, &[80, 0], &[2, b'h', b'i']),
    ("char(10)", 254, &[0xFE, 40], &[1, b'c']),
    ("blob", 252, &[2], &[1, 0, 0xFF]),
    (
        "json",
        245,
        &[4],
        &[13, 0, 0, 0, 2, 2, 0, 12, 0, 5, 1, 0, 4, 1, 0, 0, 0],
    ),
    (
        "geometry",
        255,
        &[4],
        &[
            25, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    ),
    ("vector(3)", 242, &[4], &[4, 0, 0, 0, 0, 0, 0x80, 0x3F]),
    ("enum('a','b')", 254, &[247, 1], &[2]),
    ("set('a','b')", 254, &[248, 1], &[3]),
    ("bit(10)", 16, &[2, 1], &[2, 1]),
    ("time(6)", 19, &[6], &[0x80, 0, 1, 0, 0, 1]),
    (
        "datetime(6)",
        18,
        &[6],
        &[0x99, 0xB2, 0x42, 0x80, 0x00, 0, 0, 1],
    ),
    ("timestamp(3)", 17, &[3], &[0x65, 0, 0, 0, 0x04, 0xB0]),
];

fn table() -> Arc<MysqlTable> {
    let columns = COLUMNS.iter().enumerate();
    let columns = columns
        .map(|(at, (text, ..))| {
            let options = TypeOptions::default();
            let nullable = at > 0;
            let name = format!("c{at}");
            MysqlColumn::from_definition(&name, text, None, None, nullable, None, &options).unwrap()
        })
        .collect();
    Arc::new(MysqlTable {
        name: TableName::new("d", "t"),
        version: 0,
        columns,
        primary_key: vec!["c0".into()],
        comment: None,
        engine: "InnoDB".into(),
        charset: "utf8mb4".into(),
        collation: "utf8mb4_0900_ai_ci".into(),
    })
}

fn parse<'a, T>(body: &'a [u8], fde: &'a FormatDescriptionEvent<'a>) -> T
where
    T: mysql_common::proto::MyDeserialize<'a, Ctx = BinlogCtx<'a>>,
{
    ParseBuf(body)
        .parse(BinlogCtx::new(
            body.len(),
            fde,
            EventType::WRITE_ROWS_EVENT as u8,
        ))
        .unwrap()
}

fn map_body() -> Vec<u8> {
    let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0];
    body.push(COLUMNS.len() as u8);
    body.extend(COLUMNS.iter().map(|(_, kind, ..)| *kind));
    let metadata: Vec<u8> = COLUMNS
        .iter()
        .flat_map(|(_, _, meta, _)| meta.to_vec())
        .collect();
    body.push(metadata.len() as u8);
    body.extend(metadata);
    body.extend([0xFE, 0xFF, 0x03]);
    body
}

/// The head of a rows event with `bitmaps` full bitmaps.
fn head(bitmaps: usize) -> Vec<u8> {
    let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 2, 0, COLUMNS.len() as u8];
    for _ in 0..bitmaps {
        body.extend([0xFF, 0xFF, 0x03]);
    }
    body
}

fn image(id: u8, nulls: [u8; 3]) -> Vec<u8> {
    let mut image = nulls.to_vec();
    for (at, (.., value)) in COLUMNS.iter().enumerate() {
        if nulls[at / 8] >> (at % 8) & 1 == 0 {
            image.extend_from_slice(value);
        }
        if at == 0 && nulls[0] & 1 == 0 {
            image[3] = id;
        }
    }
    image
}

fn decoder() -> RowDecoder {
    let fde = FormatDescriptionEvent::new(BinlogVersion::Version4);
    let body = map_body();
    RowDecoder::new(table(), &parse(&body, &fde)).unwrap()
}

/// Decodes a rows event of one kind.
fn decode(decoder: &mut RowDecoder, kind: u8, rows: &[u8]) -> Result<usize> {
    let fde = FormatDescriptionEvent::new(BinlogVersion::Version4);
    let mut body = head(if kind == 1 { 2 } else { 1 });
    body.extend_from_slice(rows);
    decoder.decode(&match kind {
        0 => RowsEventData::WriteRowsEvent(parse::<WriteRowsEvent<'_>>(&body, &fde)),
        1 => RowsEventData::UpdateRowsEvent(parse::<UpdateRowsEvent<'_>>(&body, &fde)),
        _ => RowsEventData::DeleteRowsEvent(parse::<DeleteRowsEvent<'_>>(&body, &fde)),
    })
}

#[test]
fn kinds_follow_the_event_and_the_key() {
    let mut decoder = decoder();
    let one = image(1, [0; 3]);
    let nulls = image(1, [0xFE, 0xFF, 0x03]);
    let two = image(2, [0; 3]);
    assert_eq!(
        decode(&mut decoder, 0, &[&one[..], &two].concat()).unwrap(),
        2
    );
    assert_eq!(
        decode(&mut decoder, 1, &[&one[..], &nulls, &nulls, &two].concat()).unwrap(),
        3
    );
    assert_eq!(decode(&mut decoder, 2, &two).unwrap(), 1);
    let batch = decoder.take().unwrap().unwrap();
    assert_eq!(batch.kinds, RowKinds::Each(vec![0, 0, 2, 3, 0, 3]));
    let keys = batch.rows.column(0).as_primitive::<Int32Type>();
    assert_eq!(keys.values().to_vec(), [1, 2, 1, 1, 2, 2]);
    assert_eq!(
        batch.rows.column(9).as_string::<i32>().value(0),
        "[1, true]"
    );
    assert!(batch.rows.column(9).is_null(2));
    assert!(decoder.take().unwrap().is_none());
}

#[test]
fn a_damaged_event_leaves_the_rows_before_it() {
    let mut decoder = decoder();
    let one = image(1, [0; 3]);
    decode(&mut decoder, 0, &one).unwrap();
    let damaged = [&one[..], &one, &one[..one.len() - 1]].concat();
    for kind in 0..3 {
        let error = decode(&mut decoder, kind, &damaged)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("ends early") && error.contains("d.t"),
            "{error}"
        );
        assert_eq!(decoder.rows(), 1);
    }
    // NULL in the key.
    assert!(decode(&mut decoder, 0, &image(1, [1, 0, 0])[..]).is_err());
    let batch = decoder.take().unwrap().unwrap();
    assert_eq!((batch.rows.num_rows(), batch.kinds), (1, RowKinds::Inserts));
}

#[test]
fn every_cut_is_refused() {
    let one = image(1, [0; 3]);
    let mut decoder = decoder();
    for length in 1..one.len() {
        assert!(decode(&mut decoder, 0, &one[..length]).is_err(), "{length}");
    }
    assert!(decoder.take().unwrap().is_none());
}

#[test]
fn damaged_bytes_never_panic_and_never_leave_half_a_row() {
    let mut random = StdRng::seed_from_u64(7);
    let mut decoder = decoder();
    let (mut good, mut bad) = (0, 0);
    for round in 0..60_000_u32 {
        let mut rows = Vec::new();
        for _ in 0..random.random_range(1..4) * 2 {
            let nulls = if random.random() {
                [0; 3]
            } else {
                [0x50, 0x03, 0x01]
            };
            rows.extend(image(random.random_range(0..3), nulls));
        }
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..rows.len());
            match random.random_range(0..3) {
                0 => rows[at] = random.random(),
                1 => rows[at] ^= 1 << random.random_range(0..8),
                _ => rows.truncate(at.max(1)),
            }
        }
        let before = decoder.rows();
        match decode(&mut decoder, (round % 3) as u8, &rows) {
            Ok(appended) => {
                good += 1;
                assert_eq!(decoder.rows(), before + appended);
            }
            Err(error) => {
                bad += 1;
                assert!(!error.is_transient());
                assert_eq!(decoder.rows(), before);
            }
        }
        if round % 50 == 0 {
            decoder.take().unwrap();
        }
    }
    assert!(good > 1000 && bad > 1000, "{good} good, {bad} bad");
}

#[test]
fn a_damaged_table_map_is_refused_or_fits() {
    let mut random = StdRng::seed_from_u64(8);
    let fde = FormatDescriptionEvent::new(BinlogVersion::Version4);
    for _ in 0..20_000 {
        let mut body = map_body();
        // From the column types on: names and lengths before them are the library's to read.
        let at = random.random_range(15..body.len());
        body[at] = random.random();
        body.extend((0..random.random_range(0..6)).map(|_| random.random::<u8>()));
        let map = ParseBuf(&body).parse(BinlogCtx::new(body.len(), &fde, 19));
        if let Ok(map) = map {
            let _ = RowDecoder::new(table(), &map);
        }
    }
}
