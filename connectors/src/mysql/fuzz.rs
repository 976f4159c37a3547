//! Ways in for the fuzz targets: the readers of bytes that a server sends.

use std::sync::Arc;

use mysql_async::{
    Column,
    binlog::events::{
        DeleteRowsEvent, FormatDescriptionEvent, RowsEventData, TableMapEvent, UpdateRowsEvent,
        WriteRowsEvent,
    },
    consts::{ColumnFlags, ColumnType},
};
use mysql_common::{
    binlog::{
        BinlogCtx,
        consts::{BinlogVersion, EventType},
    },
    io::ParseBuf,
    proto::MyDeserialize,
};

use super::{
    ddl::{self, Captured, Dialect},
    json,
    rows::RowDecoder,
    select::SelectPlan,
    table::{MysqlColumn, MysqlTable},
    types::TypeOptions,
};
use crate::schema::TableName;

/// Type, wire type and metadata of the columns of the table that is decoded.
const COLUMNS: [(&str, u8, &[u8]); 16] = [
    ("int", 3, &[]),
    ("bigint unsigned", 8, &[]),
    ("double", 5, &[8]),
    ("decimal(40,2)", 246, &[40, 2]),
    ("varchar(20)", 15, &[80, 0]),
    ("char(10)", 254, &[0xFE, 40]),
    ("blob", 252, &[2]),
    ("json", 245, &[4]),
    ("geometry", 255, &[4]),
    ("vector(3)", 242, &[4]),
    ("enum('a','b')", 254, &[247, 1]),
    ("set('a','b')", 254, &[248, 1]),
    ("bit(10)", 16, &[2, 1]),
    ("time(6)", 19, &[6]),
    ("datetime(6)", 18, &[6]),
    ("timestamp(3)", 17, &[3]),
];

fn table() -> Option<MysqlTable> {
    let options = TypeOptions::default();
    let columns = COLUMNS.iter().enumerate().map(|(at, (text, ..))| {
        let name = format!("c{at}");
        MysqlColumn::from_definition(&name, text, None, None, at > 0, None, &options).ok()
    });
    Some(MysqlTable {
        name: TableName::new("d", "t"),
        version: 0,
        columns: columns.collect::<Option<_>>()?,
        primary_key: vec!["c0".into()],
        comment: None,
        engine: "InnoDB".into(),
        charset: "utf8mb4".into(),
        collation: "utf8mb4_0900_ai_ci".into(),
    })
}

fn event<'a, T>(body: &'a [u8], format: &'a FormatDescriptionEvent<'a>) -> Option<T>
where
    T: MyDeserialize<'a, Ctx = BinlogCtx<'a>>,
{
    let kind = EventType::WRITE_ROWS_EVENT as u8;
    let context = BinlogCtx::new(body.len(), format, kind);
    ParseBuf(body).parse(context).ok()
}

/// Column bits, all set.
const ALL: [u8; 2] = [0xFF, 0xFF];

/// The first byte chooses the kind of rows event, the others are its rows.
pub fn rows(bytes: &[u8]) {
    let format = FormatDescriptionEvent::new(BinlogVersion::Version4);
    let count = COLUMNS.len() as u8;
    let mut map = vec![9, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, count];
    map.extend(COLUMNS.iter().map(|(_, kind, _)| *kind));
    let metadata = COLUMNS.map(|(_, _, metadata)| metadata).concat();
    map.push(metadata.len() as u8);
    map.extend(metadata);
    map.extend(ALL);
    let (Some(table), Some(map)) = (table(), event::<TableMapEvent<'_>>(&map, &format)) else {
        return;
    };
    let (Ok(mut decoder), Some((kind, rows))) =
        (RowDecoder::new(Arc::new(table), &map), bytes.split_first())
    else {
        return;
    };
    let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 2, 0, count];
    body.extend(ALL);
    if kind % 3 == 1 {
        body.extend(ALL);
    }
    body.extend_from_slice(rows);
    let data = match kind % 3 {
        0 => event::<WriteRowsEvent<'_>>(&body, &format).map(RowsEventData::WriteRowsEvent),
        1 => event::<UpdateRowsEvent<'_>>(&body, &format).map(RowsEventData::UpdateRowsEvent),
        _ => event::<DeleteRowsEvent<'_>>(&body, &format).map(RowsEventData::DeleteRowsEvent),
    };
    if let Some(data) = data {
        let _ = decoder.decode(&data);
        let _ = decoder.take();
    }
}

/// A table map, compared with the table it should describe.
pub fn table_map(bytes: &[u8]) {
    let format = FormatDescriptionEvent::new(BinlogVersion::Version4);
    if let (Some(table), Some(map)) = (table(), event::<TableMapEvent<'_>>(bytes, &format)) {
        let _ = RowDecoder::new(Arc::new(table), &map);
    }
}

/// Rows of a result as packets, each behind a length of two bytes.
pub fn packets(bytes: &[u8]) {
    let Some(plan) = table().and_then(|table| SelectPlan::new(&table).ok()) else {
        return;
    };
    let columns = COLUMNS.map(|(text, kind, _)| match ColumnType::try_from(kind) {
        _ if text.starts_with("enum") || text.starts_with("set") => {
            Column::new(ColumnType::MYSQL_TYPE_LONGLONG).with_flags(ColumnFlags::UNSIGNED_FLAG)
        }
        Ok(ColumnType::MYSQL_TYPE_TIME2) => Column::new(ColumnType::MYSQL_TYPE_TIME),
        Ok(ColumnType::MYSQL_TYPE_DATETIME2) => Column::new(ColumnType::MYSQL_TYPE_DATETIME),
        Ok(ColumnType::MYSQL_TYPE_TIMESTAMP2) => Column::new(ColumnType::MYSQL_TYPE_TIMESTAMP),
        Ok(kind) => Column::new(kind),
        Err(_) => Column::new(ColumnType::MYSQL_TYPE_NULL),
    });
    let Ok(packets) = plan.for_packets(&columns) else {
        return;
    };
    let (mut builder, mut rest) = (plan.builder(), bytes);
    while let Some(([a, b], tail)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*a, *b])).min(tail.len());
        let (packet, tail) = tail.split_at(length);
        let _ = packets.cells(packet);
        let _ = builder.push_packet(&packets, packet);
        rest = tail;
    }
    let _ = builder.take();
}

/// A JSON document as the log holds it.
pub fn jsonb(bytes: &[u8]) {
    let _ = json::write(bytes, &mut Vec::new());
}

struct One(MysqlTable);

impl Captured for One {
    fn table(&self, database: &str, table: &str) -> Option<&MysqlTable> {
        let name = &self.0.name;
        (name.database == database && name.table == table).then_some(&self.0)
    }

    fn in_database(&self, database: &str) -> Vec<&TableName> {
        let name = Some(&self.0.name);
        name.filter(|name| name.database == database)
            .into_iter()
            .collect()
    }

    fn names(&self) -> Box<dyn Iterator<Item = &TableName> + '_> {
        Box::new(std::iter::once(&self.0.name))
    }

    fn key_index(&self, _: &TableName) -> Option<&str> {
        None
    }

    fn is_dark(&self, _: &TableName) -> bool {
        false
    }

    fn folds(&self) -> bool {
        false
    }
}

/// The text of a statement.
pub fn ddl(text: &str) {
    let Some(table) = table().map(One) else {
        return;
    };
    let context = ddl::Context {
        captured: &table,
        database: "d",
        dialect: Dialect {
            ansi_quotes: false,
            no_backslash_escapes: false,
            version: 80040,
        },
        mode: ddl::Mode::default(),
        utf8mb4_collation: "utf8mb4_0900_ai_ci",
        types: &TypeOptions::default(),
        timestamps_nullable: true,
        accept_cascades: false,
    };
    let _ = ddl::effects(text, &context);
}
