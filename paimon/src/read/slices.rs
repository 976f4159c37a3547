//! Cuts the rows of a Parquet file into slices that are fetched and decoded one after the other, so
//! that an open file takes a bounded share of memory however large its row groups are.
//!
//! A small row group is one slice. Of others the offset index says where the pages of each column
//! stand: a slice is a range of rows, and what is fetched for it are the pages with these rows. A
//! page at an edge is fetched for both slices. Pages without a wanted row are not fetched. Where a
//! column has no offset index, a row group cannot be cut.
//!
//! Rows of a batch are counted by their bytes too: wide ones come in smaller batches.

use std::ops::Range;

use parquet::{
    arrow::{ProjectionMask, arrow_reader::RowSelection},
    basic::Type,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
};

/// Of a row group of which few rows are wanted only their pages are fetched, from so many bytes on.
const SPARSE_BYTES: u64 = 1 << 20;
/// Few are less than one of so many.
const SPARSE_SHARE: usize = 4;

/// Decoded bytes of a page that nobody tells about, and of a dictionary for each of its bytes.
const PAGE_BYTES: u64 = 1 << 20;
const DICTIONARY_RATIO: u64 = 4;

/// A page, or a row, that is so large when it is decoded is read for itself.
const LARGE_BYTES: u64 = 4 << 20;

/// What an open file may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// As it stands in the file, at a time.
    pub(super) fetched_bytes: u64,
    /// Of a batch of decoded rows.
    pub(super) batch_bytes: u64,
}

/// Rows of a row group that are read at once.
#[derive(Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) group: usize,
    /// `None`: all of it.
    pub(super) rows: Option<RowSelection>,
    pub(super) batch_rows: usize,
}

/// Rows of a row group that are wanted: ascending, counted from its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) group: usize,
    pub(super) rows: Vec<Range<usize>>,
}

impl Wanted {
    /// Sorts rows of a file, ranges that lie within one row group each, by row group.
    pub(super) fn by_group(metadata: &ParquetMetaData, rows: &[Range<usize>]) -> Vec<Self> {
        let mut wanted = Vec::new();
        let mut rest = rows;
        let mut first = 0;
        for (group, of) in metadata.row_groups().iter().enumerate() {
            let end = first + row_count(of);
            let here = rest.partition_point(|range| range.start < end);
            let (own, behind) = rest.split_at(here);
            rest = behind;
            if !own.is_empty() {
                let relative = |range: &Range<usize>| range.start - first..range.end - first;
                wanted.push(Self {
                    group,
                    rows: own.iter().map(relative).collect(),
                });
            }
            first = end;
        }
        wanted
    }

    fn count(&self) -> usize {
        self.rows.iter().map(ExactSizeIterator::len).sum()
    }
}

fn row_count(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

/// What is to be read of a file.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    metadata: &'a ParquetMetaData,
    mask: &'a ProjectionMask,
    budget: Budget,
    batch_rows: usize,
}

/// Rows of one page that are wanted.
#[derive(Debug, Clone, Copy)]
struct Page {
    column: usize,
    first_row: usize,
    end_row: usize,
    bytes: u64,
    decoded_bytes: u64,
}

impl Page {
    fn rows(&self) -> u64 {
        (self.end_row - self.first_row) as u64
    }
}

impl<'p> Plan<'p> {
    /// Of these columns, in batches of at most so many rows.
    pub(super) fn new(
        metadata: &'p ParquetMetaData,
        mask: &'p ProjectionMask,
        budget: Budget,
        batch_rows: usize,
    ) -> Self {
        Self {
            metadata,
            mask,
            budget,
            batch_rows,
        }
    }

    fn columns<'a>(
        &'a self,
        group: &'a RowGroupMetaData,
    ) -> impl Iterator<Item = (usize, &'a ColumnChunkMetaData)> + 'a {
        let columns = group.columns().iter().enumerate();
        columns.filter(|(leaf, _)| self.mask.leaf_included(*leaf))
    }

    fn chunk_bytes(&self, group: &RowGroupMetaData) -> u64 {
        sum(self.columns(group).map(|(_, chunk)| byte_range(chunk).1))
    }

    /// Row groups whose pages are to be known, since they are not fetched whole.
    pub(super) fn cut_groups(&self, wanted: &[Wanted]) -> Vec<usize> {
        let groups = self.metadata.row_groups();
        let is_cut = |of: &&Wanted| {
            let group = groups.get(of.group);
            group.is_some_and(|group| self.is_cut(group, of))
        };
        let cut = wanted.iter().filter(is_cut);
        cut.map(|of| of.group).collect()
    }

    fn is_cut(&self, group: &RowGroupMetaData, of: &Wanted) -> bool {
        let bytes = self.chunk_bytes(group);
        let rows = row_count(group);
        let is_sparse = of.count() < rows / SPARSE_SHARE;
        let decoded = || sum(self.columns(group).map(|(_, chunk)| decoded_bytes(chunk)));
        let is_wide = || decoded() / (rows as u64).max(1) > LARGE_BYTES;
        bytes > self.budget.fetched_bytes || is_sparse && bytes > SPARSE_BYTES || is_wide()
    }

    /// Whether the pages of all that is to be cut are known.
    pub(super) fn has_pages(&self, wanted: &[Wanted]) -> bool {
        let groups = self.metadata.row_groups();
        let is_known = |of: &Wanted| {
            let group = groups.get(of.group);
            group.is_none_or(|group| !self.is_cut(group, of) || self.pages(group, of).is_some())
        };
        wanted.iter().all(is_known)
    }

    /// What the file takes while it is open, at least: of a row group the pages that are fetched at a
    /// time, those that are decoded, and a row.
    pub(super) fn least_bytes(&self) -> u64 {
        let groups = self.metadata.row_groups().iter().enumerate();
        let least = groups.map(|(at, group)| self.least_of(at, group));
        least.max().unwrap_or(0)
    }

    fn least_of(&self, at: usize, group: &RowGroupMetaData) -> u64 {
        let rows = row_count(group);
        let fetched = self.chunk_bytes(group);
        let decoded = sum(self.columns(group).map(|(_, chunk)| decoded_bytes(chunk)));
        let of = Wanted {
            group: at,
            rows: std::iter::once(0..rows).collect(),
        };
        let dictionaries = sum(self
            .columns(group)
            .map(|(_, chunk)| dictionary_bytes(chunk)));
        let Some(pages) = self.pages(group, &of) else {
            // It cannot be cut, and how large its pages are is not known.
            let columns = self.columns(group).count() as u64;
            let page = decoded.min(columns.saturating_mul(PAGE_BYTES));
            let row = decoded / (rows as u64).max(1);
            return fetched + page + dictionaries * DICTIONARY_RATIO + row;
        };
        let largest = |bytes: &dyn Fn(&Page) -> u64| {
            let mut largest = vec![0; group.columns().len()];
            for page in &pages {
                if let Some(largest) = largest.get_mut(page.column) {
                    *largest = bytes(page).max(*largest);
                }
            }
            sum(largest.into_iter())
        };
        // What is fetched twice is new once at least: see `cut`.
        let slice = 2 * (dictionaries + largest(&|page| page.bytes));
        let page = largest(&|page| page.decoded_bytes);
        let row = largest(&|page| page.decoded_bytes / page.rows().max(1));
        slice.min(fetched) + page.min(decoded) + dictionaries * DICTIONARY_RATIO + row
    }

    /// More than that the file never takes, whatever its pages are.
    pub(super) fn most_bytes(&self) -> u64 {
        let groups = self.metadata.row_groups().iter();
        let most = groups.map(|group| {
            let decoded = sum(self.columns(group).map(|(_, chunk)| decoded_bytes(chunk)));
            self.chunk_bytes(group)
                .saturating_add(decoded.saturating_mul(2))
        });
        most.max().unwrap_or(0)
    }

    /// Cuts the wanted rows.
    pub(super) fn slices(&self, wanted: Vec<Wanted>) -> Vec<Slice> {
        let mut slices = Vec::with_capacity(wanted.len());
        for of in wanted {
            let Some(group) = self.metadata.row_groups().get(of.group) else {
                continue;
            };
            let is_cut = self.is_cut(group, &of);
            match is_cut.then(|| self.pages(group, &of)).flatten() {
                Some(pages) => self.cut(group, &of, pages, &mut slices),
                None => {
                    let is_all = of.count() == row_count(group);
                    let decoded = sum(self.columns(group).map(|(_, chunk)| decoded_bytes(chunk)));
                    slices.push(Slice {
                        group: of.group,
                        batch_rows: self.batch_rows(decoded, row_count(group)),
                        rows: (!is_all).then(|| selection(group, of.rows.into_iter())),
                    });
                }
            }
        }
        slices
    }

    /// Rows of a batch, where so many rows take so many bytes.
    fn batch_rows(&self, bytes: u64, rows: usize) -> usize {
        let row_bytes = (bytes / (rows as u64).max(1)).max(1);
        let rows = self.budget.batch_bytes / row_bytes;
        usize::try_from(rows)
            .unwrap_or(usize::MAX)
            .clamp(1, self.batch_rows.max(1))
    }

    /// Pages that have wanted rows, by their first row; `None` where a column has no offset index
    /// that makes sense.
    fn pages(&self, group: &RowGroupMetaData, of: &Wanted) -> Option<Vec<Page>> {
        let index = self.metadata.page_index_for_row_group(of.group);
        let rows = row_count(group);
        let mut pages = Vec::new();
        for (column, chunk) in self.columns(group) {
            let locations = index.page_locations(column)?;
            let (begin, bytes) = byte_range(chunk);
            let decoded = decoded_bytes(chunk) as f64 / bytes.max(1) as f64;
            let known = index.offset_index(column);
            let known = known.and_then(|it| it.unencoded_byte_array_data_bytes());
            let mut wanted = of.rows.as_slice();
            let mut behind = begin;
            for (at, location) in locations.iter().enumerate() {
                let first_row = usize::try_from(location.first_row_index).ok()?;
                let end_row = match locations.get(at + 1) {
                    Some(next) => usize::try_from(next.first_row_index).ok()?,
                    None => rows,
                };
                let offset = u64::try_from(location.offset).ok()?;
                let size = u64::try_from(location.compressed_page_size).ok()?;
                let is_sound = first_row < end_row
                    && (at > 0 || first_row == 0)
                    && offset >= behind
                    && size > 0
                    && offset.checked_add(size)? <= begin.checked_add(bytes)?;
                if !is_sound {
                    return None;
                }
                behind = offset + size;
                let done = wanted.partition_point(|range| range.end <= first_row);
                wanted = wanted.get(done..).unwrap_or_default();
                if wanted.first().is_some_and(|range| range.start < end_row) {
                    let values = known.and_then(|known| u64::try_from(*known.get(at)?).ok());
                    let offsets = 4 * (end_row - first_row) as u64;
                    let estimate = (size as f64 * decoded) as u64;
                    pages.push(Page {
                        column,
                        first_row,
                        end_row,
                        bytes: size,
                        decoded_bytes: values.map_or(estimate, |bytes| bytes + offsets),
                    });
                }
            }
            if locations.is_empty() {
                return None;
            }
        }
        pages.sort_by_key(|page| page.first_row);
        Some(pages)
    }

    /// Cuts a row group where its pages begin.
    fn cut(
        &self,
        group: &RowGroupMetaData,
        of: &Wanted,
        pages: Vec<Page>,
        slices: &mut Vec<Slice>,
    ) {
        let dictionaries = sum(self
            .columns(group)
            .map(|(_, chunk)| dictionary_bytes(chunk)));
        let mut slice = Cut::new(dictionaries, group.columns().len());
        // At least as much as is fetched twice is new in every slice.
        let least = 2 * slice.least(&pages);
        let most = self.budget.fetched_bytes.max(least);
        let mut rows = of.rows.as_slice();
        let mut close = |slice: &Cut, end: usize| {
            let (own, behind) = split(rows, slice.start..end);
            rows = behind;
            if own.is_empty() {
                return;
            }
            let batch_rows = self.batch_rows(slice.decoded_bytes(end), end - slice.start);
            slices.push(Slice {
                group: of.group,
                batch_rows,
                rows: Some(selection(group, own.into_iter())),
            });
        };
        let mut rest = pages.as_slice();
        let mut was_large = false;
        while let Some(first) = rest.first() {
            let here = rest.partition_point(|page| page.first_row <= first.first_row);
            let (begin, behind) = rest.split_at(here);
            rest = behind;
            let bytes: u64 = begin.iter().map(|page| page.bytes).sum();
            // A page that is large when it is decoded is given back before the next one comes, however
            // little of the file it takes.
            let is_large = begin.iter().any(|page| page.decoded_bytes > LARGE_BYTES);
            let is_full = slice.bytes + bytes > most || is_large || was_large;
            if first.first_row > slice.start && is_full {
                close(&slice, first.first_row);
                slice.begin(first.first_row);
            }
            was_large = is_large;
            slice.add(begin);
        }
        close(&slice, row_count(group));
    }
}

/// A slice that is being cut.
struct Cut {
    start: usize,
    dictionaries: u64,
    bytes: u64,
    /// Pages that reach into the slice; the last of each column reaches beyond what is cut already.
    pages: Vec<Page>,
    columns: usize,
}

impl Cut {
    fn new(dictionaries: u64, columns: usize) -> Self {
        Self {
            start: 0,
            dictionaries,
            bytes: dictionaries,
            pages: Vec::new(),
            columns,
        }
    }

    /// The largest page of each column, and the dictionaries.
    fn least(&self, pages: &[Page]) -> u64 {
        let mut largest = vec![0; self.columns];
        for page in pages {
            if let Some(largest) = largest.get_mut(page.column) {
                *largest = page.bytes.max(*largest);
            }
        }
        self.dictionaries + largest.iter().sum::<u64>()
    }

    /// Goes on at a row, with the pages that reach over it.
    fn begin(&mut self, start: usize) {
        self.start = start;
        self.pages.retain(|page| page.end_row > start);
        self.bytes = self.dictionaries + self.pages.iter().map(|page| page.bytes).sum::<u64>();
    }

    fn add(&mut self, pages: &[Page]) {
        self.pages.extend_from_slice(pages);
        self.bytes += pages.iter().map(|page| page.bytes).sum::<u64>();
    }

    /// Bytes of the rows of all pages up to a row, decoded.
    fn decoded_bytes(&self, end: usize) -> u64 {
        let share = |page: &Page| {
            let rows = page
                .end_row
                .min(end)
                .saturating_sub(page.first_row.max(self.start));
            let of = (page.end_row - page.first_row).max(1);
            (page.decoded_bytes as f64 * rows as f64 / of as f64) as u64
        };
        self.pages.iter().map(share).sum()
    }
}

/// The ranges within `of`, and those behind it.
fn split(rows: &[Range<usize>], of: Range<usize>) -> (Vec<Range<usize>>, &[Range<usize>]) {
    let before = rows.partition_point(|range| range.end <= of.start);
    let behind = rows.partition_point(|range| range.start < of.end);
    let own = rows.get(before..behind).unwrap_or_default().iter();
    let own = own.map(|range| range.start.max(of.start)..range.end.min(of.end));
    // A range that reaches over the end is among both.
    let reaching = rows.get(..behind).unwrap_or_default();
    let reaches = reaching.last().is_some_and(|range| range.end > of.end);
    let behind = behind - usize::from(reaches);
    (own.collect(), rows.get(behind..).unwrap_or_default())
}

fn selection(group: &RowGroupMetaData, rows: impl Iterator<Item = Range<usize>>) -> RowSelection {
    RowSelection::from_consecutive_ranges(rows, row_count(group))
}

/// Bytes of the values of a column of a row group when they are decoded, about.
fn decoded_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let values = count(chunk.num_values());
    let each = match chunk.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 8,
        Type::INT64 | Type::DOUBLE | Type::INT96 => 16,
        Type::FIXED_LEN_BYTE_ARRAY => count(i64::from(chunk.column_descr().type_length())).max(16),
        Type::BYTE_ARRAY => {
            let encoded = count(chunk.uncompressed_size());
            let known = chunk.unencoded_byte_array_data_bytes().map(count);
            // How often a dictionary's values stand in the rows nobody says.
            let repeated = match chunk.dictionary_page_offset() {
                Some(_) => 4,
                None => 1,
            };
            let bytes = known.unwrap_or(encoded.saturating_mul(repeated));
            return bytes.saturating_add(values.saturating_mul(4));
        }
    };
    values.saturating_mul(each)
}

/// Bytes in front of a column's first data page.
fn dictionary_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    let dictionary = chunk.dictionary_page_offset();
    let bytes = dictionary.and_then(|offset| chunk.data_page_offset().checked_sub(offset));
    u64::try_from(bytes.unwrap_or(0)).unwrap_or(0)
}

/// Where a column's pages begin, and how many bytes they take.
fn byte_range(chunk: &ColumnChunkMetaData) -> (u64, u64) {
    let begin = chunk.dictionary_page_offset();
    let begin = begin.unwrap_or(chunk.data_page_offset());
    let bytes = u64::try_from(chunk.compressed_size());
    (u64::try_from(begin).unwrap_or(0), bytes.unwrap_or(0))
}

fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}
