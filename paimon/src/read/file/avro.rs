//! Data files in Avro, which others write under `file.format = avro` or `file.format.per.level`.
//!
//! ```text
//! file  = "Obj" 0x01 map of schema and codec, sync marker (16)  block*
//! block = rows (zigzag varint) size (zigzag varint) compressed rows, sync marker (16)
//! ```
//!
//! A file is fetched as its blocks are decoded, a piece at a time. It has no footer that would say
//! how many rows it has: the manifest's count is what it is held against.
//!
//! Source: `org.apache.paimon.format.avro.{AvroSchemaConverter, FieldReaderFactory}`, and the Avro
//! specification, chapter Object Container Files.

mod snappy;

use std::{io::Cursor, sync::Arc};

use apache_avro::{Codec, DeflateSettings, ZstandardSettings};
use arrow_array::RecordBatch;
use arrow_avro::{
    compression::CompressionCodec,
    errors::AvroError,
    reader::{Decoder, DecoderMode, HeaderInfo, ReaderBuilder, read_header_info},
    schema::{Fingerprint, FingerprintAlgorithm, SchemaStore},
};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use serde_json::Value;

use crate::error::{Error, Result};

/// Bytes fetched at a time.
const PIECE: usize = 1 << 20;
/// Bytes of rows in a batch, about.
const BATCH_BYTES: usize = 8 << 20;
/// What an open file takes, about: a piece, a block and a batch.
pub(super) const OPEN_BYTES: u64 = (2 * PIECE + BATCH_BYTES) as u64;
/// Bytes of a header at most: the names and types of many thousand columns.
const HEADER_MAX: usize = 64 << 20;
const SYNC: usize = 16;
/// Bytes that the two numbers in front of a block take at most.
const BLOCK_HEAD: usize = 20;

/// Where the bytes of a file come from, and how many rows it should have.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    pub(super) size: u64,
    pub(super) rows: u64,
}

impl Source {
    fn damaged(&self, message: impl ToString) -> Error {
        Error::Corrupt {
            path: self.path.to_string(),
            message: message.to_string(),
        }
    }
}

/// The bytes of a file that are fetched and not used yet.
#[derive(Debug)]
struct Bytes {
    source: Source,
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that are used.
    used: usize,
    fetched: u64,
}

impl Bytes {
    /// Bytes of the file that are not used yet.
    fn left(&self) -> u64 {
        let here = self.buffer.len() - self.used;
        self.source.size.saturating_sub(self.fetched) + here as u64
    }

    fn here(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    /// Fetches until so many bytes are here.
    async fn want(&mut self, count: usize) -> Result<()> {
        if self.left() < count as u64 {
            return Err(self.source.damaged("it ends within a block of rows"));
        }
        while self.here().len() < count {
            self.buffer.drain(..self.used);
            self.used = 0;
            let missing = (count - self.buffer.len()).max(PIECE) as u64;
            let until = self.source.size.min(self.fetched + missing);
            let Source { store, path, .. } = &self.source;
            let piece = store.get_range(path, self.fetched..until).await;
            let piece = piece.map_err(|error| Error::store("cannot read", path, error))?;
            if piece.len() as u64 != until - self.fetched {
                return Err(self.source.damaged("it is shorter than is recorded"));
            }
            self.buffer.extend_from_slice(&piece);
            self.fetched = until;
        }
        Ok(())
    }

    fn header_max(&self) -> usize {
        usize::try_from(self.source.size).map_or(HEADER_MAX, |size| size.min(HEADER_MAX))
    }

    async fn header(&mut self) -> Result<HeaderInfo> {
        loop {
            match read_header_info(Cursor::new(self.here())) {
                Ok(header) => {
                    self.used = usize::try_from(header.header_len()).unwrap_or(usize::MAX);
                    return Ok(header);
                }
                // It may be longer than what is here.
                Err(AvroError::EOF(_)) if self.here().len() < self.header_max() => {
                    let more = (self.here().len() * 2).max(PIECE).min(self.header_max());
                    self.want(more).await?;
                }
                Err(error) => return Err(self.source.damaged(error)),
            }
        }
    }
}

/// The rows of a file, in its own types.
pub(super) struct Rows {
    bytes: Bytes,
    codec: Option<CompressionCodec>,
    sync: [u8; SYNC],
    decoder: Decoder,
    block: Vec<u8>,
    /// Bytes of the block that are decoded.
    decoded: usize,
    /// Rows of the block that are not decoded yet.
    rest: u64,
    /// Rows that were decoded.
    rows: u64,
}

impl Rows {
    /// Reads the header. `choose` says which columns are read, given the names of all.
    pub(super) async fn open(
        source: Source,
        batch_rows: usize,
        choose: impl FnOnce(&[String]) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let mut bytes = Bytes {
            source,
            buffer: Vec::new(),
            used: 0,
            fetched: 0,
        };
        let header = bytes.header().await?;
        let source = &bytes.source;
        let schema = header.writer_schema();
        let schema = schema.map_err(|error| source.damaged(error))?;
        let names = names(&schema.json_string).map_err(|what| source.damaged(what))?;
        let mut columns = choose(&names)?;
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            // Rows are counted all the same.
            columns.push(0);
        }
        let codec = header.compression();
        let codec = codec.map_err(|error| source.damaged(error))?;
        let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        let number = Fingerprint::Id(0);
        let decoder = store.set(number, schema).and_then(|_| {
            ReaderBuilder::new()
                .with_writer_schema_store(store)
                .with_active_fingerprint(number)
                .with_decoder_mode(DecoderMode::UnframedDatum)
                .with_projection(columns)
                .with_batch_size(batch_rows.max(1))
                .build_decoder()
        });
        let decoder = decoder.map_err(|error| source.damaged(error))?;
        Ok(Self {
            codec,
            sync: header.sync(),
            decoder,
            block: Vec::new(),
            decoded: 0,
            rest: 0,
            rows: 0,
            bytes,
        })
    }

    /// The next rows; `None` when there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut taken = 0;
        while !self.decoder.batch_is_full() && taken < BATCH_BYTES {
            if self.rest == 0 {
                if self.decoded != self.block.len() {
                    let message = "bytes behind the rows of a block";
                    return Err(self.bytes.source.damaged(message));
                }
                if !self.next_block().await? {
                    break;
                }
                continue;
            }
            let row = self.block.get(self.decoded..).unwrap_or_default();
            let row = self.decoder.decode(row);
            let row = row.map_err(|error| self.bytes.source.damaged(error))?;
            self.decoded += row;
            taken += row;
            self.rest -= 1;
            self.rows += 1;
        }
        let batch = self.decoder.flush();
        let batch = batch.map_err(|error| self.bytes.source.damaged(error))?;
        if batch.is_none() && self.rows != self.bytes.source.rows {
            let recorded = self.bytes.source.rows;
            let message = format!("{} rows, {recorded} are recorded", self.rows);
            return Err(self.bytes.source.damaged(message));
        }
        Ok(batch)
    }

    /// False when there is no more.
    async fn next_block(&mut self) -> Result<bool> {
        let left = usize::try_from(self.bytes.left()).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(false);
        }
        self.bytes.want(left.min(BLOCK_HEAD)).await?;
        let head = number(self.bytes.here()).and_then(|(rows, rest)| {
            let (size, rest) = number(rest)?;
            let used = self.bytes.here().len() - rest.len();
            Some((u64::try_from(rows).ok()?, usize::try_from(size).ok()?, used))
        });
        let source = &self.bytes.source;
        let (rows, size, head) = head.ok_or_else(|| source.damaged("a block without a size"))?;
        if rows > source.rows.saturating_sub(self.rows) {
            let message = format!("more rows than the {} that are recorded", source.rows);
            return Err(source.damaged(message));
        }
        self.bytes.used += head;
        let whole = size.saturating_add(SYNC);
        self.bytes.want(whole).await?;
        let source = &self.bytes.source;
        let block = self.bytes.here().split_at_checked(size);
        let (data, rest) = block.ok_or_else(|| source.damaged("a block without an end"))?;
        if !rest.starts_with(&self.sync) {
            return Err(source.damaged("a block does not end where its size says"));
        }
        self.block = decompress(self.codec, data).map_err(|error| match error {
            Failed::Damaged(what) => source.damaged(what),
            Failed::Unknown(codec) => Error::Unsupported(format!(
                "data file {}: its blocks are compressed with {codec:?}, and only zstandard, \
                 deflate and snappy are read. Compact the table fully with another engine and \
                 option file.compression = zstd, then read it",
                source.path
            )),
        })?;
        self.bytes.used += whole;
        self.decoded = 0;
        self.rest = rows;
        Ok(true)
    }
}

enum Failed {
    Damaged(String),
    Unknown(CompressionCodec),
}

/// The library bounds what a block may become.
fn decompress(codec: Option<CompressionCodec>, data: &[u8]) -> Result<Vec<u8>, Failed> {
    let codec = match codec {
        None => Codec::Null,
        Some(CompressionCodec::ZStandard) => Codec::Zstandard(ZstandardSettings::default()),
        Some(CompressionCodec::Deflate) => Codec::Deflate(DeflateSettings::default()),
        Some(CompressionCodec::Snappy) => {
            return snappy::decompress(data).map_err(|what| Failed::Damaged(what.to_owned()));
        }
        Some(other) => return Err(Failed::Unknown(other)),
    };
    let mut bytes = data.to_vec();
    let done = codec.decompress(&mut bytes);
    done.map_err(|error| Failed::Damaged(error.to_string()))?;
    Ok(bytes)
}

/// Names of the columns. Refuses what could stand for any number of rows or items without a byte.
fn names(schema: &str) -> Result<Vec<String>, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    let fields = schema.get("fields").and_then(Value::as_array);
    let fields = fields.filter(|_| takes_bytes(&schema));
    let fields = fields.ok_or("its Avro schema is none of a data file")?;
    let name = |field: &Value| field.get("name")?.as_str().map(str::to_owned);
    let names: Option<Vec<_>> = fields.iter().map(name).collect();
    names.ok_or_else(|| "a column of its Avro schema has no name".to_owned())
}

/// Whether values of a type, and of all types in it, take a byte at least.
fn takes_bytes(schema: &Value) -> bool {
    match schema {
        Value::String(name) => name != "null",
        // The number of the branch is a byte.
        Value::Array(branches) => {
            let mut branches = branches.iter();
            branches.all(|branch| branch == "null" || takes_bytes(branch))
        }
        Value::Object(object) => {
            let nested = ["type", "items", "values"];
            let mut nested = nested.iter().filter_map(|name| object.get(*name));
            let fields = object.get("fields").and_then(Value::as_array);
            let mut fields = fields.into_iter().flatten();
            let is_empty = match object.get("type").and_then(Value::as_str) {
                Some("record") => fields.clone().next().is_none(),
                Some("fixed") => object.get("size").and_then(Value::as_u64) == Some(0),
                _ => false,
            };
            !is_empty && nested.all(takes_bytes) && fields.all(takes_bytes)
        }
        _ => false,
    }
}

/// A zigzag varint, and what is behind it.
fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let signed = (value >> 1) as i64 ^ -((value & 1) as i64);
            return Some((signed, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests;
