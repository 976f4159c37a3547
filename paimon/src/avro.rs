//! Avro files of one record type, as the format uses them for its metadata: codec `zstandard`, no
//! other file metadata than schema and codec.

use std::sync::{Arc, Mutex, PoisonError};

use apache_avro::{Codec, Schema, Writer, ZstandardSettings, reader::datum::GenericDatumReader};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Visitor},
};

use crate::error::{Error, Result};

/// Bytes of records in a block before compression; Java's `DataFileWriter` uses the same order of
/// size.
const BLOCK_SIZE: usize = 64 << 10;

/// Writes records one after the other; knows how large the file has become.
pub(crate) struct AvroFile<'a> {
    writer: Writer<'a, Vec<u8>>,
}

impl<'a> AvroFile<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Result<Self> {
        let writer = Writer::builder()
            .schema(schema)
            .writer(Vec::new())
            .codec(Codec::Zstandard(ZstandardSettings::new(1)))
            .block_size(BLOCK_SIZE)
            .build()
            .map_err(internal)?;
        Ok(Self { writer })
    }

    pub(crate) fn append(&mut self, record: impl Serialize) -> Result<()> {
        self.writer.append_ser(record).map_err(internal)?;
        Ok(())
    }

    /// Bytes written, without the block that is open.
    pub(crate) fn size(&self) -> usize {
        self.writer.get_ref().len()
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        self.writer.into_inner().map_err(internal)
    }
}

fn internal(error: apache_avro::Error) -> Error {
    Error::Internal(format!("cannot encode Avro: {error}"))
}

/// Parses one of this crate's own schemas.
pub(crate) fn schema(text: &str) -> Result<Schema> {
    Schema::parse_str(text).map_err(internal)
}

/// A record whatever its name: writers do not agree on the names of the records, only on those of
/// the fields, and the library compares them.
#[derive(Debug)]
pub(crate) struct Record<T>(pub(crate) T);

impl<T: Serialize> Serialize for Record<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Record<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(AnyName(deserializer)).map(Self)
    }
}

/// Asks for a map where a record of a certain name is wanted.
struct AnyName<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for AnyName<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

/// Reads all records; fields are found by name, so older files with fewer fields are fine.
pub(crate) fn decode<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<Vec<T>> {
    let damaged = |message: String| Error::Corrupt {
        path: path.to_owned(),
        message,
    };
    let (header, mut rest) = Header::read(bytes).map_err(damaged)?;
    let schema = writer_schema(header.schema).map_err(damaged)?;
    let reader = GenericDatumReader::builder(&schema)
        .build()
        .map_err(|error| damaged(error.to_string()))?;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (count, block) = header.block(&mut rest).map_err(damaged)?;
        let mut block = block.as_slice();
        for _ in 0..count {
            let before = block.len();
            let record = reader.read_deser::<Record<T>>(&mut block);
            records.push(record.map_err(|error| damaged(error.to_string()))?.0);
            // No end would ever come.
            if block.len() == before {
                return Err(damaged("an Avro record without bytes".to_owned()));
            }
        }
    }
    Ok(records)
}

const MAGIC: &[u8; 4] = b"Obj\x01";

/// What stands before the blocks of a file.
///
/// The library's own reader parses the schema of each file anew, which takes far longer than the few
/// records that a manifest holds.
struct Header<'a> {
    schema: &'a [u8],
    codec: Codec,
    marker: &'a [u8],
}

impl<'a> Header<'a> {
    /// The header of a file and what is behind it.
    ///
    /// Source: Avro specification 1.11, "Object Container Files".
    fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), String> {
        let ends = || "it ends within the header of an Avro file".to_owned();
        let mut rest = bytes.strip_prefix(MAGIC).ok_or("it is no Avro file")?;
        let (mut schema, mut codec) = (None, Codec::Null);
        loop {
            let count = long(&mut rest).ok_or_else(ends)?;
            if count == 0 {
                break;
            }
            // A negative count is followed by the size of its block.
            if count < 0 {
                long(&mut rest).ok_or_else(ends)?;
            }
            for _ in 0..count.unsigned_abs() {
                let key = part(&mut rest).ok_or_else(ends)?;
                let value = part(&mut rest).ok_or_else(ends)?;
                match key {
                    b"avro.schema" => schema = Some(value),
                    b"avro.codec" => {
                        let name = String::from_utf8_lossy(value);
                        let unknown = |_| format!("it is compressed with the codec {name:?}");
                        codec = name.parse().map_err(unknown)?;
                    }
                    _ => {}
                }
            }
        }
        let (marker, rest) = rest.split_at_checked(16).ok_or_else(ends)?;
        let header = Self {
            schema: schema.ok_or("an Avro file without its schema")?,
            codec,
            marker,
        };
        Ok((header, rest))
    }

    /// The number of records of the next block, and their bytes.
    fn block(&self, rest: &mut &'a [u8]) -> Result<(u64, Vec<u8>), String> {
        let ends = || "it ends within a block of an Avro file".to_owned();
        let negative = |_| "a block of an Avro file with a negative size".to_owned();
        let count = long(rest).ok_or_else(ends)?;
        let count = u64::try_from(count).map_err(negative)?;
        let mut block = part(rest).ok_or_else(ends)?.to_vec();
        let (marker, behind) = rest.split_at_checked(16).ok_or_else(ends)?;
        if marker != self.marker {
            return Err("a block of an Avro file does not end where it should".to_owned());
        }
        *rest = behind;
        let decompressed = self.codec.decompress(&mut block);
        decompressed.map_err(|error| error.to_string())?;
        Ok((count, block))
    }
}

/// Takes a number of variable length.
fn long(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

/// Takes bytes that their length stands before.
fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(long(bytes)?).ok()?;
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

/// Schemas that are kept: one for each kind of file and each writer whose files are met.
const SCHEMAS_MAX: usize = 32;

/// A schema and the text that it was parsed from.
struct Known {
    text: Box<[u8]>,
    schema: Arc<Schema>,
}

static SCHEMAS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The schema of a text, parsed when it is first met.
fn writer_schema(text: &[u8]) -> Result<Arc<Schema>, String> {
    let schemas = || SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = schemas()
        .iter()
        .find(|known| *known.text == *text)
        .map(|known| known.schema.clone());
    if let Some(schema) = known {
        return Ok(schema);
    }
    let utf8 = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let schema = Arc::new(Schema::parse_str(utf8).map_err(|error| error.to_string())?);
    let mut schemas = schemas();
    if schemas.len() >= SCHEMAS_MAX {
        schemas.remove(0);
    }
    schemas.push(Known {
        text: text.into(),
        schema: schema.clone(),
    });
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[
{"name":"a","type":"long"},{"name":"b","type":"string"}]}"#;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Row {
        a: i64,
        b: String,
    }

    fn rows(count: usize) -> Vec<Row> {
        let row = |n: usize| Row {
            a: n as i64 * 7919 - 5000,
            b: format!("row {n}"),
        };
        (0..count).map(row).collect()
    }

    fn encoded(rows: &[Row]) -> Vec<u8> {
        let schema = schema(SCHEMA).unwrap();
        let mut file = AvroFile::new(&schema).unwrap();
        for row in rows {
            file.append(Record(row.clone())).unwrap();
        }
        file.finish().unwrap()
    }

    #[test]
    fn records_of_many_blocks_read_back() {
        for count in [0, 1, 20_000] {
            let rows = rows(count);
            assert_eq!(decode::<Row>("f", &encoded(&rows)).unwrap(), rows);
        }
    }

    #[test]
    fn a_file_that_is_cut_or_changed_is_an_error_or_shorter() {
        let rows = rows(3);
        let bytes = encoded(&rows);
        for end in 0..bytes.len() {
            let cut = decode::<Row>("f", &bytes[..end]);
            assert!(cut.is_err() || cut.unwrap().len() < rows.len(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                // Neither a panic nor a loop.
                let _ = decode::<Row>("f", &bytes);
            }
        }
    }

    #[test]
    fn a_schema_is_parsed_once() {
        let text = SCHEMA.replace("\"r\"", "\"once\"");
        let first = writer_schema(text.as_bytes()).unwrap();
        let second = writer_schema(text.as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        for number in 0..2 * SCHEMAS_MAX {
            let other = SCHEMA.replace("\"r\"", &format!("\"r{number}\""));
            writer_schema(other.as_bytes()).unwrap();
        }
        assert!(SCHEMAS.lock().unwrap().len() <= SCHEMAS_MAX);
        assert!(writer_schema(b"{").is_err());
    }
}
