//! The row groups of a Parquet file as they stand in it, for whoever puts them into another file
//! without decoding them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use object_store::{ObjectStore, path::Path};
use parquet::{
    arrow::{ProjectionMask, async_reader::AsyncFileReader},
    file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
    file::page_index::offset_index::OffsetIndexMetaData,
};

use super::{
    file::{guard, read_error},
    parquet_file::ParquetFile,
};
use crate::error::Result;

/// Bytes of columns that are read at a time; the files of tests are small.
const PART_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// An open file.
#[derive(Debug)]
pub(crate) struct RowGroups {
    file: ParquetFile,
    path: String,
    metadata: ParquetMetaData,
}

/// A column of a row group.
#[derive(Debug)]
pub(crate) struct ColumnChunk {
    pub(crate) metadata: ColumnChunkMetaData,
    /// Where its pages stand, if the file says so.
    pub(crate) pages: Option<OffsetIndexMetaData>,
    pub(crate) bytes: Bytes,
}

impl RowGroups {
    /// Reads a file's footer and the places of its pages.
    ///
    /// # Errors
    /// What the store says, and a footer that is none.
    pub(crate) async fn open(store: Arc<dyn ObjectStore>, path: Path, size: u64) -> Result<Self> {
        let at = path.to_string();
        let mut file = ParquetFile::new(store, path, size);
        let read = async {
            let metadata = file.metadata().await?;
            let groups: Vec<usize> = (0..metadata.num_row_groups()).collect();
            file.with_pages(metadata, &ProjectionMask::all(), &groups)
                .await
        };
        let read = async { read.await.map_err(|error| read_error(&at, error)) };
        let metadata = guard::step(&at, read).await?;
        Ok(Self {
            file,
            path: at,
            metadata,
        })
    }

    pub(crate) fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// The columns of a row group in parts that are read one after the other: of a few MiB, or a
    /// column.
    pub(crate) fn parts(&self, group: usize) -> Vec<Range<usize>> {
        let columns = self.metadata.row_groups().get(group);
        let columns = columns.map_or(&[][..], RowGroupMetaData::columns);
        let mut parts: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0_u64;
        for (at, column) in columns.iter().enumerate() {
            let (_, length) = column.byte_range();
            bytes = bytes.saturating_add(length);
            match parts.last_mut() {
                Some(part) if bytes <= PART_BYTES => part.end = at + 1,
                _ => {
                    parts.push(at..at + 1);
                    bytes = length;
                }
            }
        }
        parts
    }

    /// Columns of a row group: their bytes are in memory then.
    pub(crate) async fn columns(
        &mut self,
        group: usize,
        part: Range<usize>,
    ) -> Result<Vec<ColumnChunk>> {
        let columns = self.metadata.row_groups().get(group);
        let columns = columns.map_or(&[][..], RowGroupMetaData::columns);
        let first = part.start;
        let columns = columns.get(part).unwrap_or_default().to_vec();
        let range = |column: &ColumnChunkMetaData| {
            let (start, length) = column.byte_range();
            start..start.saturating_add(length)
        };
        let ranges: Vec<Range<u64>> = columns.iter().map(range).collect();
        let (path, file) = (&self.path, &mut self.file);
        let read = async {
            let read = file.get_byte_ranges(ranges).await;
            read.map_err(|error| read_error(path, error))
        };
        let bytes = guard::step(path, read).await?;
        let pages = self.metadata.page_index_for_row_group(group);
        let chunk = |(at, (metadata, bytes))| ColumnChunk {
            metadata,
            pages: pages.offset_index(first + at).cloned(),
            bytes,
        };
        let columns = columns.into_iter().zip(bytes);
        Ok(columns.enumerate().map(chunk).collect())
    }
}
