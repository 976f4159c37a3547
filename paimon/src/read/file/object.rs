//! Objects of the store, for the Parquet reader.

use std::{collections::HashMap, ops::Range, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::{ParquetMetaData, ParquetMetaDataReader},
};

use super::pages;
use crate::error::{Error, Result};

/// What the store said, if it was the store; else the file is damaged.
pub(super) fn read_error(path: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<object_store::Error>() {
            Ok(source) => Error::store("cannot read", path, *source),
            Err(source) => Error::Corrupt {
                path: path.to_owned(),
                message: source.to_string(),
            },
        },
        other => Error::Corrupt {
            path: path.to_owned(),
            message: other.to_string(),
        },
    }
}

/// A file in the store, for the Parquet reader.
pub(super) struct ObjectReader {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    pub(super) size: u64,
    /// Bytes of each column chunk when it is not compressed, by where it begins.
    pub(super) chunks: HashMap<u64, i64>,
}

impl ObjectReader {
    fn check(&self, range: &Range<u64>, bytes: &[u8]) -> Result<(), ParquetError> {
        match self.chunks.get(&range.start) {
            Some(size) => pages::check(bytes, *size).map_err(ParquetError::General),
            None => Ok(()),
        }
    }
}

fn external(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for ObjectReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move {
            let bytes = self.store.get_range(&self.path, range.clone()).await;
            let bytes = bytes.map_err(external)?;
            self.check(&range, &bytes)?;
            Ok(bytes)
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move {
            let pieces = self.store.get_ranges(&self.path, &ranges).await;
            let pieces = pieces.map_err(external)?;
            for (range, bytes) in ranges.iter().zip(&pieces) {
                self.check(range, bytes)?;
            }
            Ok(pieces)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            let size = self.size;
            let metadata = ParquetMetaDataReader::new()
                .with_prefetch_hint(Some(32 << 10))
                .load_and_finish(&mut *self, size)
                .await?;
            let columns = metadata.row_groups().iter().flat_map(|it| it.columns());
            self.chunks = columns
                .map(|column| (column.byte_range().0, column.uncompressed_size()))
                .collect();
            Ok(Arc::new(metadata))
        }
        .boxed()
    }
}
