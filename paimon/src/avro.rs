//! Avro files of one record type, as the format uses them for its metadata: codec `zstandard`, no
//! other file metadata than schema and codec.

use apache_avro::{Codec, Reader, Schema, Writer, ZstandardSettings};
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
    let damaged = |error: apache_avro::Error| Error::Corrupt {
        path: path.to_owned(),
        message: error.to_string(),
    };
    Reader::new(bytes)
        .map_err(damaged)?
        .into_deser_iter::<Record<T>>()
        .map(|record| record.map(|record| record.0).map_err(damaged))
        .collect()
}
