//! The aggregate functions `rbm32` and `rbm64`: unions of roaring bitmaps in columns of bytes.
//!
//! Source: `FieldRoaringBitmap32Agg`, `FieldRoaringBitmap64Agg`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, builder::BinaryBuilder};
use roaring::RoaringBitmap;

use super::{aggregator::no_retraction, fold::Fold};
use crate::error::{Error, Result};

/// A set in the bytes of a column.
pub(super) trait Bitmap: Sized {
    /// Reads one; on bytes that are none says what is wrong with them.
    fn read(bytes: &[u8]) -> std::result::Result<Self, String>;
    /// Takes in another one.
    fn unite(&mut self, other: Self);
    /// As Java writes it.
    fn write(self) -> Vec<u8>;
}

/// `rbm32`: the portable form.
impl Bitmap for RoaringBitmap {
    fn read(bytes: &[u8]) -> std::result::Result<Self, String> {
        Self::deserialize_from(bytes).map_err(|error| error.to_string())
    }

    fn unite(&mut self, other: Self) {
        *self |= other;
    }

    fn write(mut self) -> Vec<u8> {
        self.optimize();
        let mut bytes = Vec::with_capacity(self.serialized_size());
        // A vector takes everything.
        let _ = self.serialize_into(&mut bytes);
        bytes
    }
}

/// The value so far.
enum Standing<B> {
    Null,
    /// That of a row, as it is.
    Row(usize),
    United(B),
}

/// A column of bitmaps.
pub(super) struct Union<'a, B> {
    array: &'a BinaryArray,
    standing: Standing<B>,
    values: BinaryBuilder,
}

impl<'a, B: Bitmap> Union<'a, B> {
    pub(super) fn new(array: &'a BinaryArray) -> Self {
        Self {
            array,
            standing: Standing::Null,
            values: BinaryBuilder::new(),
        }
    }

    fn read(&self, row: usize) -> Result<B> {
        let bitmap = B::read(self.array.value(row));
        bitmap.map_err(|what| Error::Unsupported(format!("a value is no such bitmap: {what}")))
    }
}

impl<B: Bitmap> Fold for Union<'_, B> {
    fn begin(&mut self) {
        self.standing = Standing::Null;
    }

    fn set(&mut self, row: usize) {
        self.standing = match self.array.is_valid(row) {
            true => Standing::Row(row),
            false => Standing::Null,
        };
    }

    fn clear(&mut self) {
        self.standing = Standing::Null;
    }

    fn aggregate(&mut self, row: usize) -> Result<()> {
        if self.array.is_null(row) {
            return Ok(());
        }
        let mut standing = match std::mem::replace(&mut self.standing, Standing::Null) {
            Standing::Null => {
                self.standing = Standing::Row(row);
                return Ok(());
            }
            Standing::Row(standing) => self.read(standing)?,
            Standing::United(standing) => standing,
        };
        standing.unite(self.read(row)?);
        self.standing = Standing::United(standing);
        Ok(())
    }

    fn aggregate_older(&mut self, row: usize) -> Result<()> {
        self.aggregate(row)
    }

    fn retract(&mut self, _: usize) -> Result<()> {
        Err(no_retraction())
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.standing, Standing::Null) {
            Standing::Null => self.values.append_null(),
            Standing::Row(row) => self.values.append_value(self.array.value(row)),
            Standing::United(bitmap) => self.values.append_value(bitmap.write()),
        }
    }

    fn finish(mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.values.finish()))
    }
}
