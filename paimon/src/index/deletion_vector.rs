//! Deletion vectors: which rows of a data file are deleted, as Roaring bitmaps of row positions.
//!
//! ```text
//! file   = 0x01 vector*                                   one file, one vector a data file
//! vector = size (4, big endian) data CRC-32 of data (4, big endian)
//! data   = 1581511376 (4, big endian) bitmap              32-bit
//!        | 1681511377 (4, little endian) count (8) (key (4) bitmap)*      64-bit, little endian
//! ```
//!
//! Source: `org.apache.paimon.deletionvectors.{DeletionVectorsIndexFile, BitmapDeletionVector,
//! Bitmap64DeletionVector}`.

use std::collections::BTreeMap;

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBufferBuilder;
use bytes::Bytes;
use object_store::ObjectStoreExt;
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::{
    error::{Error, Result},
    index_manifest::{DELETION_VECTORS_INDEX, DeletionVectorRange, IndexFileMeta},
    schema::Schema,
    storage,
    table::Table,
    table_options::memory_size,
};

const VERSION: u8 = 1;
const MAGIC_32: [u8; 4] = 1_581_511_376_u32.to_be_bytes();
const MAGIC_64: [u8; 4] = 1_681_511_377_u32.to_le_bytes();
/// Greatest position that readers of 32-bit vectors take.
const POSITION_MAX_32: u64 = i32::MAX as u64;
/// Bytes of the size and of the checksum.
const FRAME: usize = 8;

/// How wide positions in a vector are (option `deletion-vectors.bitmap64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Up to 2³¹−1.
    Bits32,
    /// Up to 2⁶³−1.
    Bits64,
}

impl Width {
    /// What new vectors of a table have.
    pub fn of(schema: &Schema) -> Self {
        let option = schema.options.get("deletion-vectors.bitmap64");
        match option.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
            true => Self::Bits64,
            false => Self::Bits32,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Bits {
    Narrow(RoaringBitmap),
    Wide(RoaringTreemap),
}

/// Positions of the rows of a data file that are deleted; the first row is 0.
///
/// ```
/// use headwater_paimon::index::deletion_vector::{DeletionVector, Width};
///
/// let mut vector = DeletionVector::new(Width::Bits32);
/// assert!(vector.insert(7)?);
/// assert!(!vector.insert(7)?);
/// assert!(vector.is_deleted(7) && !vector.is_deleted(8));
/// let mask = vector.live(6, 3);
/// assert_eq!(mask.iter().flatten().collect::<Vec<_>>(), [true, false, true]);
/// # Ok::<(), headwater_paimon::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DeletionVector {
    bits: Bits,
}

impl DeletionVector {
    /// An empty one.
    pub fn new(width: Width) -> Self {
        Self {
            bits: match width {
                Width::Bits32 => Bits::Narrow(RoaringBitmap::new()),
                Width::Bits64 => Bits::Wide(RoaringTreemap::new()),
            },
        }
    }

    /// Its width.
    pub fn width(&self) -> Width {
        match self.bits {
            Bits::Narrow(_) => Width::Bits32,
            Bits::Wide(_) => Width::Bits64,
        }
    }

    /// Deletes a row; false when it was already.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a position that the width does not hold.
    pub fn insert(&mut self, position: u64) -> Result<bool> {
        let too_large = || {
            Error::Unsupported(format!(
                "row {position} of a data file in its deletion vector: make files smaller (option \
                 target-file-size), or set deletion-vectors.bitmap64 = true"
            ))
        };
        match &mut self.bits {
            Bits::Narrow(bits) if position <= POSITION_MAX_32 => {
                Ok(bits.insert(u32::try_from(position).map_err(|_| too_large())?))
            }
            Bits::Wide(bits) if position <= i64::MAX as u64 => Ok(bits.insert(position)),
            _ => Err(too_large()),
        }
    }

    /// Deletes what another one deletes. Widths may differ, as long as the positions fit.
    ///
    /// # Errors
    /// As [`DeletionVector::insert`].
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        match (&mut self.bits, &other.bits) {
            (Bits::Narrow(bits), Bits::Narrow(others)) => *bits |= others,
            (Bits::Wide(bits), Bits::Wide(others)) => *bits |= others,
            (_, Bits::Narrow(others)) => {
                for position in others {
                    self.insert(position.into())?;
                }
            }
            (_, Bits::Wide(others)) => {
                for position in others {
                    self.insert(position)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a row is deleted.
    pub fn is_deleted(&self, position: u64) -> bool {
        match &self.bits {
            Bits::Narrow(bits) => u32::try_from(position).is_ok_and(|at| bits.contains(at)),
            Bits::Wide(bits) => bits.contains(position),
        }
    }

    /// Rows that it deletes.
    pub fn cardinality(&self) -> u64 {
        match &self.bits {
            Bits::Narrow(bits) => bits.len(),
            Bits::Wide(bits) => bits.len(),
        }
    }

    /// Whether it deletes nothing.
    pub fn is_empty(&self) -> bool {
        self.cardinality() == 0
    }

    /// Positions of the deleted rows, ascending.
    pub fn positions(&self) -> Box<dyn Iterator<Item = u64> + Send + '_> {
        match &self.bits {
            Bits::Narrow(bits) => Box::new(bits.iter().map(u64::from)),
            Bits::Wide(bits) => Box::new(bits.iter()),
        }
    }

    /// A mask for Arrow's filter: of `rows` rows from position `first` on, true for those that
    /// stay. Costs as much as rows are deleted among them.
    pub fn live(&self, first: u64, rows: usize) -> BooleanArray {
        let mut mask = BooleanBufferBuilder::new(rows);
        mask.append_n(rows, true);
        let end = first.saturating_add(rows as u64);
        let mut clear = |position: u64| {
            if let Ok(at) = usize::try_from(position - first)
                && at < rows
            {
                mask.set_bit(at, false);
            }
        };
        match &self.bits {
            Bits::Narrow(bits) => {
                if let Ok(from) = u32::try_from(first) {
                    let until = u32::try_from(end).unwrap_or(u32::MAX);
                    bits.range(from..until).for_each(|at| clear(at.into()));
                }
            }
            Bits::Wide(bits) => {
                for (key, bits) in bits.bitmaps() {
                    let base = u64::from(key) << 32;
                    let until = end.saturating_sub(base).min(1 << 32);
                    let from = first.saturating_sub(base);
                    if until == 0 || from >= until {
                        continue;
                    }
                    let (from, last) = (from as u32, (until - 1) as u32);
                    bits.range(from..=last)
                        .for_each(|at| clear(base + u64::from(at)));
                }
            }
        }
        BooleanArray::new(mask.finish(), None)
    }

    /// Appends the vector with its size and checksum; returns the length that manifests give it.
    fn encode(&self, out: &mut Vec<u8>) -> Result<i32> {
        let mut data = Vec::new();
        let written = match &self.bits {
            Bits::Narrow(bits) => {
                data.extend(MAGIC_32);
                let mut bits = bits.clone();
                bits.optimize();
                bits.serialize_into(&mut data)
            }
            Bits::Wide(bits) => {
                data.extend(MAGIC_64);
                let mut bits = bits.clone();
                bits.optimize();
                bits.serialize_into(&mut data)
            }
        };
        written.map_err(|error| Error::Internal(format!("deletion vector: {error}")))?;
        let too_large = || Error::Unsupported("a deletion vector of more than 2 GiB".into());
        let size = i32::try_from(data.len()).map_err(|_| too_large())?;
        out.extend(size.to_be_bytes());
        out.extend(&data);
        out.extend(crc32fast::hash(&data).to_be_bytes());
        match self.width() {
            Width::Bits32 => Ok(size),
            Width::Bits64 => size.checked_add(FRAME as i32).ok_or_else(too_large),
        }
    }

    /// Decodes the vector that begins at `bytes`, which may go on behind it. `length` is what the
    /// manifest gives it. The text says what is wrong.
    pub(crate) fn decode(bytes: &[u8], length: i32) -> Result<Self, String> {
        let short = || "it ends within a deletion vector".to_owned();
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let size = i32::from_be_bytes(*size);
        let size_bytes = usize::try_from(size).map_err(|_| format!("a vector of {size} bytes"))?;
        let (data, rest) = rest.split_at_checked(size_bytes).ok_or_else(short)?;
        let (sum, _) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        if crc32fast::hash(data) != u32::from_be_bytes(*sum) {
            return Err("the checksum of a deletion vector is wrong".into());
        }
        let (magic, mut data) = data.split_first_chunk::<4>().ok_or_else(short)?;
        let (bits, expected) = match *magic {
            MAGIC_32 => {
                let bits = RoaringBitmap::deserialize_from(&mut data);
                (bits.map(Bits::Narrow), Some(size))
            }
            MAGIC_64 => {
                let bits = RoaringTreemap::deserialize_from(&mut data);
                (bits.map(Bits::Wide), size.checked_add(FRAME as i32))
            }
            other => {
                return Err(format!(
                    "a deletion vector of an unknown kind, magic {other:?}"
                ));
            }
        };
        let bits = bits.map_err(|error| format!("the bitmap of a deletion vector: {error}"))?;
        if !data.is_empty() {
            return Err(format!("{} bytes behind a bitmap", data.len()));
        }
        if expected != Some(length) {
            return Err(format!(
                "a deletion vector has {size} bytes, its manifest says {length}"
            ));
        }
        Ok(Self { bits })
    }
}

/// Vectors by the name of their data file.
pub type DeletionVectors = BTreeMap<String, DeletionVector>;

/// Encodes vectors as index files, in order; one ends when it is larger than `target_size`.
fn encode_files(
    vectors: &DeletionVectors,
    target_size: usize,
) -> Result<Vec<(Vec<u8>, Vec<DeletionVectorRange>)>> {
    let mut files = Vec::new();
    let mut open: Option<(Vec<u8>, Vec<DeletionVectorRange>)> = None;
    for (name, vector) in vectors {
        let (bytes, ranges) = open.get_or_insert_with(|| (vec![VERSION], Vec::new()));
        let offset = i32::try_from(bytes.len())
            .map_err(|_| Error::Unsupported("an index file of more than 2 GiB".into()))?;
        let length = vector.encode(bytes)?;
        ranges.push(DeletionVectorRange {
            data_file_name: name.clone(),
            offset,
            length,
            cardinality: i64::try_from(vector.cardinality()).ok(),
        });
        if bytes.len() > target_size {
            files.extend(open.take());
        }
    }
    files.extend(open);
    Ok(files)
}

fn decode_at(path: &str, bytes: &[u8], range: &DeletionVectorRange) -> Result<DeletionVector> {
    let damaged = |message: String| Error::Corrupt {
        path: path.to_owned(),
        message: format!("of data file {}: {message}", range.data_file_name),
    };
    let from = usize::try_from(range.offset).ok();
    let vector = from
        .and_then(|from| bytes.get(from..))
        .ok_or_else(|| damaged(format!("it has no byte {}", range.offset)))?;
    let vector = DeletionVector::decode(vector, range.length).map_err(&damaged)?;
    match range.cardinality {
        Some(rows) if u64::try_from(rows) != Ok(vector.cardinality()) => Err(damaged(format!(
            "{} rows are deleted, its manifest says {rows}",
            vector.cardinality()
        ))),
        _ => Ok(vector),
    }
}

/// Decodes all vectors of an index file; `path` is for errors.
pub(crate) fn decode_file(
    path: &str,
    bytes: &[u8],
    ranges: &[DeletionVectorRange],
) -> Result<DeletionVectors> {
    if bytes.first() != Some(&VERSION) {
        return Err(Error::Corrupt {
            path: path.to_owned(),
            message: format!(
                "deletion vectors of version {:?}, this program knows {VERSION}",
                bytes.first()
            ),
        });
    }
    ranges
        .iter()
        .map(|range| Ok((range.data_file_name.clone(), decode_at(path, bytes, range)?)))
        .collect()
}

impl Table {
    /// All vectors of an index file.
    ///
    /// # Errors
    /// What the store says, and [`Error::Corrupt`].
    pub async fn read_deletion_vectors(&self, file: &IndexFileMeta) -> Result<DeletionVectors> {
        let path = self.index_file_path(file)?;
        let bytes = storage::read(self.store().as_ref(), &path).await?;
        decode_file(
            path.as_ref(),
            &bytes,
            file.dv_ranges.as_deref().unwrap_or_default(),
        )
    }

    /// One vector of an index file; reads no more than that.
    ///
    /// # Errors
    /// What the store says, and [`Error::Corrupt`].
    pub async fn read_deletion_vector(
        &self,
        file: &IndexFileMeta,
        range: &DeletionVectorRange,
    ) -> Result<DeletionVector> {
        let path = self.index_file_path(file)?;
        let from = u64::try_from(range.offset).unwrap_or(0);
        let length = u64::try_from(range.length).unwrap_or(0);
        // The length of a 32-bit vector is without its frame.
        let until = (from + length + FRAME as u64).min(u64::try_from(file.file_size).unwrap_or(0));
        if until <= from {
            return Err(Error::Corrupt {
                path: path.to_string(),
                message: format!("it has no byte {}", range.offset),
            });
        }
        let bytes: Bytes = self
            .store()
            .get_range(&path, from..until)
            .await
            .map_err(|error| Error::store("cannot read", &path, error))?;
        let here = DeletionVectorRange {
            offset: 0,
            ..range.clone()
        };
        decode_at(path.as_ref(), &bytes, &here)
    }

    /// Writes vectors as index files, which a commit must make visible. Tables with buckets get one
    /// file (each bucket has one), the others files of option
    /// `deletion-vector.index-file.target-size` (2 MB). Empty vectors are left out; without any
    /// other there is no file.
    ///
    /// # Errors
    /// What the store says.
    pub async fn write_deletion_vectors(
        &self,
        mut vectors: DeletionVectors,
    ) -> Result<Vec<IndexFileMeta>> {
        vectors.retain(|_, vector| !vector.is_empty());
        let schema = self.schema();
        let bucketed = !schema.primary_keys.is_empty() || schema.buckets() != -1;
        let option = schema.options.get("deletion-vector.index-file.target-size");
        let target = match bucketed {
            true => usize::MAX,
            false => option
                .and_then(|text| memory_size(text))
                .map_or(2 << 20, |bytes| {
                    usize::try_from(bytes).unwrap_or(usize::MAX)
                }),
        };
        let id = uuid::Uuid::new_v4();
        let mut files = Vec::new();
        for (number, (bytes, ranges)) in encode_files(&vectors, target)?.into_iter().enumerate() {
            let file = IndexFileMeta {
                index_type: DELETION_VECTORS_INDEX.into(),
                file_name: format!("index-{id}-{number}"),
                file_size: bytes.len() as i64,
                row_count: ranges.len() as i64,
                dv_ranges: Some(ranges),
                external_path: None,
            };
            let path = self.index_file_path(&file)?;
            storage::put(self.store().as_ref(), &path, bytes).await?;
            files.push(file);
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests;
