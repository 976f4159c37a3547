//! Which bucket a row belongs to, as every other engine computes it.
//!
//! `abs(hash % buckets)` with murmur3 (32 bits, seed 42) over the BinaryRow of the bucket key,
//! taken in words of 4 bytes. Source: `DefaultBucketFunction`, `MurmurHashUtils`; checked against
//! rows that Java Paimon 1.4.2 placed (`tests/data/binary_rows.jsonl`).

use arrow_array::{
    ArrayRef,
    cast::AsArray,
    types::{Int32Type, Int64Type},
};

use crate::{
    binary_row::{BinaryRowWriter, RowEncoder},
    data_type::DataType,
    error::{Error, Result},
    schema::Schema,
};

const SEED: u32 = 42;

/// The hash of a row's bytes (without the arity prefix).
pub fn hash(row: &[u8]) -> i32 {
    let words = row.chunks_exact(4);
    let state = words.fold(SEED, |state, word| {
        let word = word
            .iter()
            .rev()
            .fold(0, |word, byte| (word << 8) | u32::from(*byte));
        mix(state, word)
    });
    finish(state, row.len() as u32)
}

/// The bucket of a hash. `buckets` is at least 1.
pub fn bucket_of(hash: i32, buckets: i32) -> i32 {
    hash.checked_rem(buckets).unwrap_or(0).abs()
}

const fn mix(state: u32, word: u32) -> u32 {
    let word = word
        .wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593);
    (state ^ word)
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(0xe654_6b64)
}

const fn finish(state: u32, bytes: u32) -> i32 {
    let mut hash = state ^ bytes;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^= hash >> 16;
    hash as i32
}

/// The hash of a row of one field that fills (part of) its word: header and null bits are zero.
const fn hash_of_word(word: u64) -> i32 {
    let state = mix(mix(SEED, 0), 0);
    let state = mix(mix(state, word as u32), (word >> 32) as u32);
    finish(state, 16)
}

/// Finds the buckets of a table's rows.
#[derive(Debug, Clone)]
pub struct BucketAssigner {
    keys: Vec<(usize, DataType)>,
    buckets: i32,
}

impl BucketAssigner {
    /// For a table with a fixed number of buckets; others are refused.
    pub fn new(schema: &Schema) -> Result<Self> {
        let buckets = schema.buckets();
        if buckets < 1 {
            return Err(Error::Unsupported(format!(
                "option bucket = {buckets}, where a fixed number of buckets (at least 1) is needed"
            )));
        }
        schema.check_writable()?;
        let keys = schema
            .bucket_keys()
            .into_iter()
            .map(|name| {
                let (at, field) = schema.field(name).ok_or_else(|| {
                    Error::Unsupported(format!("bucket key {name}, which is not a column"))
                })?;
                Ok((at, field.data_type.clone()))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { keys, buckets })
    }

    /// Buckets of the table.
    pub fn buckets(&self) -> i32 {
        self.buckets
    }

    /// The bucket of each row of `columns`, which are the table's, in order; all of one length.
    pub fn assign(&self, columns: &[ArrayRef]) -> Result<Vec<i32>> {
        let rows = columns.first().map_or(0, |column| column.len());
        if self.buckets == 1 {
            return Ok(vec![0; rows]);
        }
        let keys = self
            .keys
            .iter()
            .map(|(at, data_type)| {
                let column = columns
                    .get(*at)
                    .ok_or_else(|| Error::Internal(format!("no column {at}")))?;
                Ok((column, data_type))
            })
            .collect::<Result<Vec<_>>>()?;
        if let [(column, data_type)] = keys.as_slice()
            && column.null_count() == 0
        {
            if **data_type == DataType::Int && column.as_primitive_opt::<Int32Type>().is_some() {
                let values = column.as_primitive::<Int32Type>().values();
                let bucket =
                    |value: &i32| bucket_of(hash_of_word(u64::from(*value as u32)), self.buckets);
                return Ok(values.iter().map(bucket).collect());
            }
            if **data_type == DataType::BigInt && column.as_primitive_opt::<Int64Type>().is_some() {
                let values = column.as_primitive::<Int64Type>().values();
                let bucket = |value: &i64| bucket_of(hash_of_word(*value as u64), self.buckets);
                return Ok(values.iter().map(bucket).collect());
            }
        }
        let encoder = RowEncoder::new(keys)?;
        let mut writer = BinaryRowWriter::new(encoder.arity());
        Ok((0..rows)
            .map(|row| {
                encoder.encode(row, &mut writer);
                bucket_of(hash(writer.row()), self.buckets)
            })
            .collect())
    }
}

/// The hash of each row's key (the primary key without the partition columns), which decides about
/// dynamic buckets.
pub(crate) fn key_hashes(schema: &Schema, columns: &[ArrayRef]) -> Result<Vec<i32>> {
    let keys = schema
        .trimmed_primary_keys()
        .into_iter()
        .filter_map(|name| schema.field(name))
        .filter_map(|(at, field)| Some((columns.get(at)?, &field.data_type)))
        .collect::<Vec<_>>();
    let rows = keys.first().map_or(0, |(column, _)| column.len());
    let encoder = RowEncoder::new(keys)?;
    let mut writer = BinaryRowWriter::new(encoder.arity());
    Ok((0..rows)
        .map(|row| {
            encoder.encode(row, &mut writer);
            hash(writer.row())
        })
        .collect())
}

#[cfg(test)]
mod tests;
