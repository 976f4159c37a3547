//! A Parquet file in the store, read slice by slice.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use arrow_array::RecordBatch;
use bytes::Bytes;
use futures::{FutureExt, TryStreamExt, future::BoxFuture};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use parquet::{
    arrow::{
        ParquetRecordBatchStreamBuilder, ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
        async_reader::{AsyncFileReader, ParquetRecordBatchStream},
    },
    errors::ParquetError,
    file::metadata::{ColumnChunkMask, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader},
};

use super::{pages, slices::Slice};

/// Bytes at the end of a file that are read for its footer.
const FOOTER_BYTES: usize = 32 << 10;

/// A file in the store, for the Parquet reader.
#[derive(Debug, Clone)]
pub(super) struct ParquetFile {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    chunks: Chunks,
}

/// Where each column chunk ends and how many bytes it has when it is not compressed, by where it
/// begins.
type Chunks = Arc<BTreeMap<u64, (u64, i64)>>;

impl ParquetFile {
    pub(super) fn new(store: Arc<dyn ObjectStore>, path: Path, size: u64) -> Self {
        Self {
            store,
            path,
            size,
            chunks: Chunks::default(),
        }
    }

    /// The footer, without the places of pages.
    pub(super) async fn metadata(&mut self) -> Result<ParquetMetaData, ParquetError> {
        let size = self.size;
        let metadata = ParquetMetaDataReader::new()
            .with_prefetch_hint(Some(FOOTER_BYTES))
            .load_and_finish(&mut *self, size)
            .await?;
        self.knows(&metadata);
        Ok(metadata)
    }

    /// Takes a footer that was read before.
    pub(super) fn knows(&mut self, metadata: &ParquetMetaData) {
        let columns = metadata.row_groups().iter().flat_map(|it| it.columns());
        let chunks = columns.map(|column| {
            let (start, length) = column.byte_range();
            (
                start,
                (start.saturating_add(length), column.uncompressed_size()),
            )
        });
        self.chunks = Arc::new(chunks.collect());
    }

    /// Looks at pages that have been fetched: whole ones, from the beginning of the first.
    fn check(&self, range: &Range<u64>, bytes: &[u8]) -> Result<(), ParquetError> {
        match self.chunks.range(..=range.start).next_back() {
            Some((_, (end, size))) if range.start < *end => {
                pages::check(bytes, *size).map_err(ParquetError::General)
            }
            _ => Ok(()),
        }
    }

    /// The same with the places of the pages of these columns in these row groups, as far as the
    /// file has them.
    pub(super) async fn with_pages(
        &mut self,
        metadata: ParquetMetaData,
        mask: &ProjectionMask,
        groups: &[usize],
    ) -> Result<ParquetMetaData, ParquetError> {
        let columns = 0..metadata.file_metadata().schema_descr().num_columns();
        let columns = columns.filter(|leaf| mask.leaf_included(*leaf));
        let wanted = ColumnChunkMask::row_groups_and_columns(groups.iter().copied(), columns);
        let plain = metadata.clone();
        let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
            .with_column_index_policy(PageIndexPolicy::Skip)
            .with_offset_index_policy(PageIndexPolicy::Optional)
            .with_offset_index_mask(wanted);
        match reader.load_page_index(&mut *self).await {
            Ok(()) => reader.finish(),
            Err(error @ ParquetError::External(_)) => Err(error),
            Err(error) => {
                tracing::debug!(path = %self.path, %error, "the places of pages cannot be read");
                Ok(plain)
            }
        }
    }
}

fn external(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for ParquetFile {
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
        async move { self.metadata().await.map(Arc::new) }.boxed()
    }
}

/// Reads slices one after the other.
pub(super) struct SliceReader {
    file: ParquetFile,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    slices: std::vec::IntoIter<Slice>,
    open: Option<ParquetRecordBatchStream<ParquetFile>>,
    /// Rows of the open slice that have not come yet.
    left: usize,
}

impl SliceReader {
    pub(super) fn new(
        file: ParquetFile,
        metadata: ParquetMetaData,
        mask: ProjectionMask,
        slices: Vec<Slice>,
    ) -> Result<Self, ParquetError> {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        Ok(Self {
            file,
            metadata: ArrowReaderMetadata::try_new(Arc::new(metadata), options)?,
            mask,
            slices: slices.into_iter(),
            open: None,
            left: 0,
        })
    }

    /// The next batch; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, ParquetError> {
        loop {
            if let Some(open) = &mut self.open {
                let batch = open.try_next().await?;
                self.left = self
                    .left
                    .saturating_sub(batch.as_ref().map_or(0, RecordBatch::num_rows));
                // The last page of each column is not kept for as long as the rows are looked at.
                if batch.is_none() || self.left == 0 {
                    self.open = None;
                }
                if batch.is_some() {
                    return Ok(batch);
                }
            }
            let Some(slice) = self.slices.next() else {
                return Ok(None);
            };
            let file = self.file.clone();
            let metadata = self.metadata.clone();
            let groups = metadata.metadata().row_groups();
            let all = groups.get(slice.group).map_or(0, |group| group.num_rows());
            self.left = match &slice.rows {
                Some(rows) => rows.row_count(),
                None => usize::try_from(all).unwrap_or(0),
            };
            let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(file, metadata)
                .with_projection(self.mask.clone())
                .with_row_groups(vec![slice.group])
                .with_batch_size(slice.batch_rows);
            let builder = match slice.rows {
                Some(rows) => builder.with_row_selection(rows),
                None => builder,
            };
            self.open = Some(builder.build()?);
        }
    }
}
