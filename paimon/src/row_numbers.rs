//! Rows of several batches, counted through: what sorts and groups rows handles 4 bytes a row.

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;

use crate::error::{Error, Result};

/// Rows in a block, for which the first batch is known at once.
const BLOCK_ROWS_SHIFT: u32 = 12;

/// Where the rows of some batches stand.
#[derive(Debug)]
pub(crate) struct RowNumbers {
    /// Number of the first row of each batch, and at the end of all rows.
    starts: Vec<u32>,
    /// The batch that holds the first row of each block.
    blocks: Vec<u32>,
}

impl RowNumbers {
    /// Of batches of these lengths.
    ///
    /// # Errors
    /// More rows than `u32` counts.
    pub(crate) fn new(lengths: impl IntoIterator<Item = usize>) -> Result<Self> {
        let mut starts = vec![0_u32];
        let mut rows = 0_u32;
        for length in lengths {
            let sum = u32::try_from(length).ok();
            rows = sum
                .and_then(|length| rows.checked_add(length))
                .ok_or_else(|| {
                    Error::Unsupported(
                    "more than 4,294,967,295 rows buffered for one table: lower the memory limit"
                        .into(),
                )
                })?;
            starts.push(rows);
        }
        let mut numbers = Self {
            starts,
            blocks: Vec::new(),
        };
        let firsts = (0..rows).step_by(1 << BLOCK_ROWS_SHIFT);
        numbers.blocks = firsts
            .map(|first| numbers.search(first, 0, numbers.starts.len()) as u32)
            .collect();
        Ok(numbers)
    }

    /// How many rows.
    pub(crate) fn rows(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The number of a batch's first row.
    pub(crate) fn start(&self, batch: usize) -> u32 {
        self.starts.get(batch).copied().unwrap_or(self.rows())
    }

    /// The batch of a row there is, and where it stands in it.
    pub(crate) fn locate(&self, row: u32) -> (usize, usize) {
        let block = (row >> BLOCK_ROWS_SHIFT) as usize;
        let block_at = |block: usize| self.blocks.get(block).map(|batch| *batch as usize);
        let low = block_at(block).unwrap_or(0);
        let high = block_at(block + 1).map_or(self.starts.len(), |batch| batch + 2);
        let batch = self.search(row, low, high);
        (batch, (row - self.start(batch)) as usize)
    }

    /// The last batch that starts at or before a row, among those from `low` on and below `high`.
    fn search(&self, row: u32, low: usize, high: usize) -> usize {
        let starts = self.starts.get(low..high.min(self.starts.len()));
        let starts = starts.unwrap_or_default();
        (low + starts.partition_point(|start| *start <= row)).saturating_sub(1)
    }

    /// Where rows stand.
    pub(crate) fn locate_all(&self, rows: &[u32]) -> Vec<(usize, usize)> {
        rows.iter().map(|row| self.locate(*row)).collect()
    }
}

/// Some rows of one column of several batches.
pub(crate) fn gather<'a>(
    batches: impl IntoIterator<Item = &'a Vec<ArrayRef>>,
    column: usize,
    rows: &[(usize, usize)],
) -> Result<ArrayRef> {
    let arrays = batches
        .into_iter()
        .map(|columns| columns.get(column).map(AsRef::as_ref))
        .collect::<Option<Vec<&dyn Array>>>()
        .ok_or_else(|| Error::Internal(format!("no column {column}")))?;
    Ok(interleave(&arrays, rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_in_its_batch() {
        for lengths in [
            vec![3, 0, 0, 5, 1],
            vec![1; 10_000],
            vec![5000, 1, 70_000, 0, 9],
        ] {
            let numbers = RowNumbers::new(lengths.iter().copied()).unwrap();
            let all = lengths.iter().enumerate();
            let all = all.flat_map(|(batch, length)| (0..*length).map(move |row| (batch, row)));
            let all: Vec<_> = all.collect();
            assert_eq!(numbers.rows() as usize, all.len());
            let rows: Vec<u32> = (0..numbers.rows()).collect();
            assert_eq!(numbers.locate_all(&rows), all);
        }
    }

    #[test]
    fn more_rows_than_can_be_counted_are_an_error() {
        let half = 1 << 31;
        assert!(RowNumbers::new([half, half - 1]).is_ok());
        assert!(RowNumbers::new([half, half]).is_err());
    }
}
