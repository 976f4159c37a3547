//! A way in for benchmarks: the rows events of a recorded log file, decoded from memory as the tail
//! decodes them, without a server and without the network.

use std::{fs::File, io::BufReader, path::Path, sync::Arc};

use mysql_async::binlog::events::{Event, EventData, TableMapEvent};
use mysql_common::binlog::{BinlogFile, consts::BinlogVersion};

use super::{
    rows::RowDecoder,
    table::{MysqlColumn, MysqlTable},
    tail::{BYTES_MAX, ROWS_MAX},
    types::TypeOptions,
};
use crate::{
    change::ChangeBatch,
    error::{Error, Result},
    schema::TableName,
};

/// A table of columns with a name and the text of a type each, all of them utf8mb4. A column whose
/// type ends in `NOT NULL` holds no NULL.
///
/// # Errors
/// Definite, when a type is not known.
pub fn table(
    name: TableName,
    columns: &[(String, String)],
    primary_key: Vec<String>,
) -> Result<MysqlTable> {
    let columns = columns.iter().map(|(name, text)| {
        let (text, nullable) = match text.strip_suffix(" NOT NULL") {
            Some(text) => (text, false),
            None => (text.as_str(), true),
        };
        let (charset, options) = (Some("utf8mb4"), TypeOptions::default());
        MysqlColumn::from_definition(name, text, charset, None, nullable, None, &options)
    });
    Ok(MysqlTable {
        name,
        version: 0,
        columns: columns.collect::<Result<_>>()?,
        primary_key,
        comment: None,
        engine: "InnoDB".to_owned(),
        charset: "utf8mb4".to_owned(),
        collation: "utf8mb4_0900_ai_ci".to_owned(),
    })
}

/// The rows events of one table, in memory.
#[derive(Debug)]
pub struct Recording {
    events: Vec<Event>,
    map: TableMapEvent<'static>,
    bytes: usize,
}

impl Recording {
    /// Reads the file of a server's log (`mysqlbinlog --raw`) and keeps what it holds of a table.
    ///
    /// # Errors
    /// The file cannot be read, is not a log, or has no row of the table.
    pub fn read(file: &Path, table: &TableName) -> Result<Self> {
        let wrong = |what: &dyn std::fmt::Display| {
            Error::definite(format!("the log file {}: {what}", file.display()))
        };
        let opened = File::open(file).map_err(|error| wrong(&error))?;
        let log = BinlogFile::new(BinlogVersion::Version4, BufReader::new(opened))
            .map_err(|error| wrong(&error))?;
        let (mut map, mut id, mut events, mut bytes) = (None, None, Vec::new(), 0);
        for event in log {
            let event = event.map_err(|error| wrong(&error))?;
            match event.read_data().map_err(|error| wrong(&error))? {
                Some(EventData::TableMapEvent(found))
                    if found.database_name() == table.database
                        && found.table_name() == table.table =>
                {
                    id = Some(found.table_id());
                    map.get_or_insert_with(|| found.into_owned());
                    continue;
                }
                Some(EventData::RowsEvent(rows)) if Some(rows.table_id()) == id => {
                    bytes += rows.rows_data().len();
                }
                _ => continue,
            }
            events.push(event);
        }
        match map {
            Some(map) if !events.is_empty() => Ok(Self { events, map, bytes }),
            _ => Err(wrong(&"it has no row of the table").table(table)),
        }
    }

    /// Bytes of row images.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A decoder for the rows.
    ///
    /// # Errors
    /// The rows are not of this table.
    pub fn decoder(&self, table: &Arc<MysqlTable>) -> Result<RowDecoder> {
        RowDecoder::new(table.clone(), &self.map)
    }

    /// Decodes the rows from the bytes of their events on, in batches as large as the tail's.
    ///
    /// # Errors
    /// Those of the decoder.
    pub fn batches<'a>(
        &'a self,
        decoder: &'a mut RowDecoder,
    ) -> impl Iterator<Item = Result<ChangeBatch>> + 'a {
        let mut events = self.events.iter();
        std::iter::from_fn(move || {
            for event in events.by_ref() {
                if let Err(error) = push(decoder, event) {
                    return Some(Err(error));
                }
                if decoder.rows() >= ROWS_MAX || decoder.bytes() >= BYTES_MAX {
                    break;
                }
            }
            decoder.take().transpose()
        })
    }
}

fn push(decoder: &mut RowDecoder, event: &Event) -> Result<()> {
    let data = event.read_data();
    let data = data.map_err(|error| Error::definite(format!("an event: {error}")))?;
    if let Some(EventData::RowsEvent(event)) = data {
        decoder.decode(&event)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::{cast::AsArray, types::Int32Type};

    use super::*;

    #[test]
    fn what_a_server_logged_comes_out() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/bench/recorded");
        let log = folder.join("sysbench.binlog");
        let name = TableName::new("headwater_bench", "sysbench");
        let columns = [
            ("id", "INT NOT NULL"),
            ("k", "INT NOT NULL"),
            ("c", "CHAR(120) NOT NULL"),
            ("pad", "CHAR(60) NOT NULL"),
        ];
        let columns = columns.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let table = Arc::new(table(name.clone(), &columns, vec!["id".to_owned()]).unwrap());
        let recording = Recording::read(&log, &name).unwrap();
        assert!(recording.bytes() > 500 * 180, "{}", recording.bytes());
        let mut decoder = recording.decoder(&table).unwrap();
        let mut ids = Vec::new();
        for batch in recording.batches(&mut decoder) {
            let rows = batch.unwrap().rows;
            ids.extend_from_slice(rows.column(0).as_primitive::<Int32Type>().values());
            assert!(
                rows.column(2)
                    .as_string::<i32>()
                    .iter()
                    .all(|text| text.unwrap().len() == 119)
            );
        }
        assert_eq!(ids, (1..=500).collect::<Vec<_>>());

        let other = Recording::read(&log, &TableName::new("headwater_bench", "other"));
        let error = other.unwrap_err().to_string();
        assert!(error.contains("no row of the table"), "{error}");
        let none = Recording::read(&folder.join("sysbench.json"), &name);
        assert!(none.unwrap_err().to_string().contains("sysbench.json"));
    }
}
