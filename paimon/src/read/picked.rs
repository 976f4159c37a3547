//! What a merge has picked: stretches of rows of the batches that are open, and how they are copied.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, cast::AsArray, make_array};
use arrow_data::transform::{Capacities, MutableArrayData};
use arrow_schema::DataType as ArrowType;
use arrow_select::interleave::interleave;

use crate::error::{Error, Result};

/// Rows of a stretch, on average, from which on stretches are copied as such. Shorter ones are copied
/// row by row, which takes less for each.
const LONG_ROWS: usize = 4;

/// Rows that follow each other in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
}

/// Rows of batches, in the order in which they are handed on.
#[derive(Debug, Default)]
pub(super) struct Picked {
    stretches: Vec<Stretch>,
    rows: usize,
}

impl Picked {
    /// How many rows.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows of a batch.
    pub(super) fn push(&mut self, batch: usize, rows: Range<usize>) {
        self.rows += rows.len();
        match self.stretches.last_mut() {
            Some(last) if last.batch == batch && last.rows.end == rows.start => {
                last.rows.end = rows.end;
            }
            _ if rows.is_empty() => {}
            _ => self.stretches.push(Stretch { batch, rows }),
        }
    }

    /// Takes the first rows away; the others stay.
    pub(super) fn take(&mut self, rows: usize) -> Self {
        let mut taken = Self::default();
        if rows >= self.rows {
            std::mem::swap(&mut taken, self);
            return taken;
        }
        let mut stays = Self::default();
        for Stretch { batch, rows: range } in self.stretches.drain(..) {
            let middle = range.end.min(range.start + (rows - taken.rows));
            taken.push(batch, range.start..middle);
            stays.push(batch, middle..range.end);
        }
        *self = stays;
        taken
    }

    /// The stretches, for whoever numbers the batches anew.
    pub(super) fn stretches_mut(&mut self) -> impl Iterator<Item = &mut Stretch> {
        self.stretches.iter_mut()
    }

    /// Batch and row of each.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let rows = |stretch: &Stretch| {
            let batch = stretch.batch;
            stretch.rows.clone().map(move |row| (batch, row))
        };
        self.stretches.iter().flat_map(rows)
    }

    /// For several columns of the same batches.
    pub(super) fn gatherer(&self) -> Gatherer<'_> {
        let is_long = self.rows >= LONG_ROWS * self.stretches.len();
        Gatherer {
            stretches: &self.stretches,
            rows: self.rows,
            places: match is_long {
                true => Vec::new(),
                false => self.places().collect(),
            },
        }
    }
}

/// Copies picked rows, column by column.
pub(super) struct Gatherer<'a> {
    stretches: &'a [Stretch],
    rows: usize,
    /// Batch and row of each; empty where stretches are copied.
    places: Vec<(usize, usize)>,
}

impl Gatherer<'_> {
    /// The picked rows of a column that has these arrays, one of each batch. One stretch is not
    /// copied at all.
    pub(super) fn gather(&self, arrays: &[&dyn Array]) -> Result<ArrayRef> {
        let missing = || Error::Internal("a merge picked from a batch that is not there".into());
        if let [Stretch { batch, rows }] = self.stretches {
            let array = arrays.get(*batch).ok_or_else(missing)?;
            return Ok(array.slice(rows.start, rows.len()));
        }
        if !self.places.is_empty() {
            return Ok(interleave(arrays, &self.places)?);
        }
        if arrays.is_empty() {
            return Err(missing());
        }
        let data: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
        let capacities = match self.bytes(arrays) {
            Some(bytes) => Capacities::Binary(self.rows, Some(bytes)),
            None => Capacities::Array(self.rows),
        };
        let of = data.iter().collect();
        let mut copied = MutableArrayData::try_with_capacities(of, false, capacities)?;
        for Stretch { batch, rows } in self.stretches {
            copied.try_extend(*batch, rows.start, rows.end)?;
        }
        Ok(make_array(copied.freeze()))
    }

    /// Bytes of the picked values, of texts and bytes.
    fn bytes(&self, arrays: &[&dyn Array]) -> Option<usize> {
        let offsets: Vec<&[i32]> = match arrays.first()?.data_type() {
            ArrowType::Utf8 => arrays
                .iter()
                .map(|array| array.as_string::<i32>().value_offsets())
                .collect(),
            ArrowType::Binary => arrays
                .iter()
                .map(|array| array.as_binary::<i32>().value_offsets())
                .collect(),
            _ => return None,
        };
        let bytes = self.stretches.iter().map(|Stretch { batch, rows }| {
            let offsets = offsets.get(*batch)?;
            let bytes = offsets.get(rows.end)? - offsets.get(rows.start)?;
            usize::try_from(bytes).ok()
        });
        bytes.sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Int64Array, ListArray, StringArray, types::Int32Type};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn batches(random: &mut StdRng) -> Vec<Vec<ArrayRef>> {
        let mut batch = |number: i64| -> Vec<ArrayRef> {
            let rows = random.random_range(1..300);
            let mut some = |chance: f64| random.random_bool(chance);
            let texts = (0..rows).map(|row| some(0.9).then(|| format!("{number} {row}")));
            let texts: StringArray = texts.collect();
            let lists = (0..rows).map(|row| Some((0..row % 4).map(Some)));
            vec![
                Arc::new(Int64Array::from_iter_values(
                    (0..rows).map(|row| number * 1000 + i64::from(row)),
                )),
                Arc::new(texts),
                Arc::new(
                    (0..rows)
                        .map(|_| some(0.5).then_some(true))
                        .collect::<BooleanArray>(),
                ),
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
            ]
        };
        (0..4).map(&mut batch).collect()
    }

    /// What comes out is what stands in the batches, however it is copied, and however it is taken.
    #[test]
    fn stretches_are_copied_as_they_are() {
        let mut random = StdRng::seed_from_u64(7);
        for round in 0..200 {
            let batches = batches(&mut random);
            let longest = [1, 3, 40, 300][round % 4];
            let mut picked = Picked::default();
            let mut expected = Vec::new();
            for _ in 0..random.random_range(0..30) {
                let batch = random.random_range(0..batches.len());
                let rows = batches[batch][0].len();
                let start = random.random_range(0..rows);
                let end = rows.min(start + random.random_range(0..=longest));
                picked.push(batch, start..end);
                expected.extend((start..end).map(|row| (batch, row)));
            }
            assert_eq!(picked.rows(), expected.len());
            let cut = random.random_range(0..=expected.len());
            let first = picked.take(cut);
            for (picked, expected) in [(first, &expected[..cut]), (picked, &expected[cut..])] {
                assert_eq!(picked.rows(), expected.len());
                assert_eq!(picked.places().collect::<Vec<_>>(), expected);
                let gatherer = picked.gatherer();
                for column in 0..4 {
                    let arrays: Vec<&dyn Array> =
                        batches.iter().map(|batch| batch[column].as_ref()).collect();
                    let gathered = gatherer.gather(&arrays).unwrap();
                    gathered.to_data().validate_full().unwrap();
                    let row_by_row = interleave(&arrays, expected).unwrap();
                    assert_eq!(&gathered, &row_by_row, "column {column}");
                }
            }
        }
    }
}
