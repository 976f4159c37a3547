//! Pages that are compressed here: the `parquet` crate takes a level of zstd and nothing else.
//!
//! The crate encodes a column without compression and puts each page, its header and then its body,
//! into a [`PageStore`]. Ours compresses the body, says the new size in the header, and says in the
//! column's metadata what became of it.
//!
//! Source: `PageHeader` of parquet.thrift, the compact protocol of Thrift.

use std::{
    io,
    mem::take,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use parquet::{
    arrow::arrow_writer::{ArrowColumnWriter, ArrowLeafColumn},
    basic::Compression,
    column::{
        page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory},
        writer::ColumnCloseResult,
    },
    errors::{ParquetError, Result},
    file::{
        reader::{ChunkReader, Length},
        writer::SerializedRowGroupWriter,
    },
};

use super::{
    search::{self, Habit},
    sink::Sink,
};

/// The number of `DATA_PAGE` in `PageType`.
const DATA_PAGE: u32 = 0;
/// The number of `DICTIONARY_PAGE`.
const DICTIONARY_PAGE: u32 = 2;
/// How the compact protocol begins an `i32` that follows the field before it.
const NEXT_I32: u8 = 0x15;

/// Whether pages are compressed here: at zstd's level 1. Who asks for another gets exactly that.
pub(super) fn are_ours(compression: Compression) -> bool {
    matches!(compression, Compression::ZSTD(level) if level.compression_level() == search::LEVEL)
}

/// The pages of the columns of a file's open row group.
#[derive(Debug)]
pub(super) struct ColumnPages(Vec<Shared>);

type Shared = Arc<Mutex<Pages>>;

impl ColumnPages {
    /// `habits` are those of the file's leaf columns, in order.
    pub(super) fn new(habits: &[Arc<Habit>]) -> Self {
        let pages = habits.iter().map(|habit| Pages {
            habit: habit.clone(),
            chunk: Chunk::default(),
            header: Bytes::new(),
        });
        Self(pages.map(|pages| Arc::new(Mutex::new(pages))).collect())
    }

    /// What its columns are written with, of what the crate made for them.
    pub(super) fn writers(&self, writers: Vec<ArrowColumnWriter>) -> Vec<LeafWriter> {
        let leaves = writers.into_iter().zip(&self.0);
        let leaf = |(writer, pages): (_, &Shared)| LeafWriter {
            writer,
            pages: Some(pages.clone()),
        };
        leaves.map(leaf).collect()
    }
}

impl PageStoreFactory for ColumnPages {
    fn create(&self, args: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = self.0.get(args.column_index());
        let pages = pages.ok_or_else(|| unexpected("a column that is not the file's"))?;
        let mut begun = lock(pages);
        begun.chunk = Chunk::default();
        begun.header = Bytes::new();
        Ok(Box::new(Store(pages.clone())))
    }
}

/// Writes one leaf column of a row group.
pub(super) struct LeafWriter {
    writer: ArrowColumnWriter,
    /// Unless the crate compresses them.
    pages: Option<Shared>,
}

impl LeafWriter {
    /// Of a file whose pages the crate compresses.
    pub(super) fn of_crate(writer: ArrowColumnWriter) -> Self {
        let pages = None;
        Self { writer, pages }
    }

    pub(super) fn write(&mut self, leaf: &ArrowLeafColumn) -> Result<()> {
        self.writer.write(leaf)
    }

    /// Puts the column into the row group. `compression` is what the file says of it.
    pub(super) fn append_to(
        self,
        group: &mut SerializedRowGroupWriter<'_, Sink>,
        compression: Compression,
    ) -> Result<()> {
        let column = self.writer.close()?;
        let Some(pages) = self.pages else {
            return column.append_to_row_group(group);
        };
        let chunk = take(&mut lock(&pages).chunk);
        let close = chunk.describe(column.close().clone(), compression)?;
        group.append_column(&chunk, close)
    }

    pub(super) fn memory_size(&self) -> usize {
        self.writer.memory_size()
    }

    /// About how many bytes the column will have in the file.
    pub(super) fn encoded_bytes(&self) -> usize {
        let encoded = self.writer.get_estimated_total_bytes();
        let saved = self.pages.as_ref().map_or(0, |pages| {
            let pages = lock(pages);
            let uncompressed = usize::try_from(pages.chunk.uncompressed).unwrap_or(usize::MAX);
            uncompressed.saturating_sub(pages.chunk.compressed)
        });
        encoded.saturating_sub(saved)
    }
}

/// The pages of a column, as they come.
#[derive(Debug)]
struct Pages {
    habit: Arc<Habit>,
    chunk: Chunk,
    /// Of the page whose body comes next.
    header: Bytes,
}

fn lock(pages: &Shared) -> MutexGuard<'_, Pages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For the crate, which owns it, while the encoder owns what is in it.
struct Store(Shared);

impl PageStore for Store {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        let mut pages = lock(&self.0);
        if pages.header.is_empty() {
            pages.header = value;
        } else {
            let header = take(&mut pages.header);
            let Pages { habit, chunk, .. } = &mut *pages;
            chunk.add(&header, &value, habit)?;
        }
        // Nobody takes a page by its key.
        Ok(PageKey::new(0))
    }

    fn take(&mut self, _: PageKey) -> Result<Bytes> {
        Err(unexpected("a page that is taken one by one"))
    }

    fn memory_size(&self) -> usize {
        let pages = lock(&self.0);
        pages.chunk.compressed + pages.header.len()
    }
}

/// A compressed column of a row group, each page with its header.
#[derive(Debug, Default)]
struct Chunk {
    dictionary: Option<Bytes>,
    pages: Vec<Bytes>,
    /// Bytes of all pages with their headers.
    compressed: usize,
    /// Bytes that they would have without compression.
    uncompressed: i64,
}

impl Chunk {
    fn add(&mut self, header: &[u8], body: &[u8], habit: &Habit) -> Result<()> {
        let unknown = || unexpected("a page header of a form that is not known");
        let header = Header::parse(header).ok_or_else(unknown)?;
        let page = match header.page_type {
            DICTIONARY_PAGE => search::by_level(body, |packed| header.page(packed)),
            DATA_PAGE => habit.compress(body, |packed| header.page(packed)),
            // In version 2 the levels before the values stay as they are.
            _ => return Err(unexpected("a page of another kind")),
        };
        let (page, header_bytes) = page?;
        self.compressed += page.len();
        self.uncompressed += (header_bytes + body.len()) as i64;
        match header.page_type {
            DICTIONARY_PAGE => self.dictionary = Some(page),
            _ => self.pages.push(page),
        }
        Ok(())
    }

    /// What the crate says of the column, which it wrote without compression and with the
    /// dictionary behind the other pages.
    fn describe(
        &self,
        close: ColumnCloseResult,
        compression: Compression,
    ) -> Result<ColumnCloseResult> {
        let dictionary = self.dictionary.as_ref().map_or(0, Bytes::len) as i64;
        let metadata = close.metadata.into_builder();
        let metadata = metadata
            .set_compression(compression)
            .set_total_compressed_size(self.compressed as i64)
            .set_total_uncompressed_size(self.uncompressed)
            .set_dictionary_page_offset(self.dictionary.as_ref().map(|_| 0))
            .set_data_page_offset(dictionary)
            .build()?;
        let mut offset_index = close.offset_index;
        if let Some(index) = &mut offset_index {
            if index.page_locations.len() != self.pages.len() {
                return Err(unexpected("an index of other pages"));
            }
            let mut offset = dictionary;
            for (location, page) in index.page_locations.iter_mut().zip(&self.pages) {
                location.offset = offset;
                location.compressed_page_size = i32::try_from(page.len())?;
                offset += page.len() as i64;
            }
        }
        Ok(ColumnCloseResult {
            bytes_written: self.compressed as u64,
            metadata,
            offset_index,
            ..close
        })
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.compressed as u64
    }
}

impl ChunkReader for Chunk {
    type T = PageBytes;

    /// From the dictionary on, or the first page: nobody asks for another place.
    fn get_read(&self, start: u64) -> Result<PageBytes> {
        if start != 0 {
            return Err(unexpected("a column that is not read from its start"));
        }
        let mut pages: Vec<Bytes> = self.dictionary.iter().chain(&self.pages).cloned().collect();
        pages.reverse();
        let page = Bytes::new();
        Ok(PageBytes { page, pages })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        io::Read::read_exact(&mut self.get_read(start)?, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// Pages one after the other.
struct PageBytes {
    page: Bytes,
    /// Those behind it, the next one last.
    pages: Vec<Bytes>,
}

impl io::Read for PageBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.page.is_empty() {
            match self.pages.pop() {
                Some(page) => self.page = page,
                None => return Ok(0),
            }
        }
        let length = self.page.len().min(into.len());
        let now = self.page.split_to(length);
        let (into, _) = into.split_at_mut(length);
        into.copy_from_slice(&now);
        Ok(length)
    }
}

/// A page header, in its parts.
struct Header<'a> {
    page_type: u32,
    /// Type and uncompressed size.
    start: &'a [u8],
    /// What stands behind the compressed size.
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// Type, uncompressed and compressed size are the first fields and always there.
    fn parse(header: &'a [u8]) -> Option<Self> {
        let (page_type, behind) = next_i32(header)?;
        let (_, behind) = next_i32(behind)?;
        let (start, _) = header.split_at(header.len() - behind.len());
        let (_, rest) = next_i32(behind)?;
        Some(Self {
            page_type: page_type >> 1,
            start,
            rest,
        })
    }

    /// Header and body of the compressed page, and how much of it is header.
    fn page(&self, packed: &[u8]) -> Result<(Bytes, usize)> {
        let size = i32::try_from(packed.len())?;
        let mut page = Vec::with_capacity(self.start.len() + 6 + self.rest.len() + packed.len());
        page.extend_from_slice(self.start);
        page.push(NEXT_I32);
        // In zigzag order, as signed numbers are.
        let mut left = size.unsigned_abs() << 1;
        while left >= 0x80 {
            page.push(left as u8 | 0x80);
            left >>= 7;
        }
        page.push(left as u8);
        page.extend_from_slice(self.rest);
        let header = page.len();
        page.extend_from_slice(packed);
        Ok((page.into(), header))
    }
}

/// The zigzag number of an `i32` and what is behind it.
fn next_i32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (&NEXT_I32, mut bytes) = bytes.split_first()? else {
        return None;
    };
    let mut number = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, behind) = bytes.split_first()?;
        bytes = behind;
        number |= u32::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some((number, bytes));
        }
    }
    None
}

fn unexpected(what: &str) -> ParquetError {
    ParquetError::General(format!("pages of the writer: {what}"))
}

#[cfg(test)]
mod tests;
