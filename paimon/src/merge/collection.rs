//! The aggregate functions `collect` and `merge_map`: elements of arrays and entries of maps, put
//! together. Only places of elements are kept, and gathered at the end. Java keeps distinct
//! elements and entries in no order; here they stand in the order in which they came.
//!
//! Source: `FieldCollectAgg`, `FieldMergeMapAgg`.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, ListArray, MapArray, UInt32Array, cast::AsArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType as ArrowType;
use arrow_select::take::take;

use super::fold::Fold;
use crate::error::{Error, Result};

/// What is done with elements that are there twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    /// `collect`: they stay.
    Stay,
    /// `collect` with option `distinct`: the first stays.
    First,
    /// `merge_map`: of entries with one key the last stays.
    Last,
}

/// A column of arrays or maps.
pub(super) struct Collection<'a> {
    array: &'a ArrayRef,
    offsets: &'a [i32],
    /// Elements of arrays; keys of maps.
    identities: Rows,
    repeats: Repeats,
    /// The function is the same whichever row is the older one.
    one_way: bool,
    is_null: bool,
    /// Places of the elements that stand.
    standing: Vec<u32>,
    gathered: Gathered,
}

/// Collections whose elements are those of an array's rows: places are kept, and gathered at the end.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    valid: Vec<bool>,
    ends: Vec<i32>,
    picked: Vec<u32>,
}

impl Gathered {
    /// The next collection; `None`: NULL.
    pub(super) fn push(&mut self, places: Option<&[u32]>) {
        self.valid.push(places.is_some());
        self.picked.extend(places.unwrap_or_default());
        // Too many of them are found at the end.
        self.ends
            .push(i32::try_from(self.picked.len()).unwrap_or(-1));
    }

    /// All of them, of elements of `array`.
    pub(super) fn finish(self, array: &ArrayRef) -> Result<ArrayRef> {
        let (offsets, nulls) = lists(self.ends, self.valid)?;
        let places = UInt32Array::from(self.picked);
        Ok(match array.data_type() {
            ArrowType::Map(field, ordered) => {
                let entries = take(array.as_map().entries(), &places, None)?;
                let entries = entries.as_struct().clone();
                let map = MapArray::try_new(field.clone(), offsets, entries, nulls, *ordered)?;
                Arc::new(map)
            }
            ArrowType::List(field) => {
                let values = take(array.as_list::<i32>().values(), &places, None)?;
                Arc::new(ListArray::try_new(field.clone(), offsets, values, nulls)?)
            }
            other => return Err(Error::Internal(format!("a collection of {other}"))),
        })
    }
}

/// Offsets and validity of collections that end there; an end below 0 did not fit.
pub(super) fn lists(
    mut ends: Vec<i32>,
    valid: Vec<bool>,
) -> Result<(OffsetBuffer<i32>, Option<NullBuffer>)> {
    if ends.last().is_some_and(|end| *end < 0) {
        return Err(Error::Unsupported(
            "more than 2³¹ elements at a time".into(),
        ));
    }
    ends.insert(0, 0);
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    Ok((OffsetBuffer::new(ends.into()), nulls))
}

/// Places of the elements of a row of lists or maps with these offsets.
pub(super) fn places(array: &dyn Array, offsets: &[i32], row: usize) -> Option<Range<u32>> {
    if array.is_null(row) {
        return None;
    }
    let start = *offsets.get(row)?;
    let end = *offsets.get(row + 1)?;
    Some(u32::try_from(start).ok()?..u32::try_from(end).ok()?)
}

impl<'a> Collection<'a> {
    pub(super) fn new(array: &'a ArrayRef, repeats: Repeats, one_way: bool) -> Result<Self> {
        let (offsets, identities) = match array.data_type() {
            ArrowType::List(_) => {
                let list = array.as_list::<i32>();
                (list.value_offsets(), list.values().clone())
            }
            ArrowType::Map(..) => {
                let map = array.as_map();
                (map.value_offsets(), map.keys().clone())
            }
            other => return Err(Error::Internal(format!("a collection of {other}"))),
        };
        let field = SortField::new(identities.data_type().clone());
        Ok(Self {
            array,
            offsets,
            identities: RowConverter::new(vec![field])?.convert_columns(&[identities])?,
            repeats,
            one_way,
            is_null: true,
            standing: Vec::new(),
            gathered: Gathered::default(),
        })
    }

    /// Places of a row's elements; `None`: NULL.
    fn at(&self, row: usize) -> Option<Range<u32>> {
        places(self.array, self.offsets, row)
    }

    /// What stands, of elements in the order in which they came.
    fn put(&mut self, elements: impl Iterator<Item = u32>) {
        self.is_null = false;
        self.standing = match self.repeats {
            Repeats::Stay => elements.collect(),
            Repeats::First => {
                let mut known = HashSet::new();
                let is_new = |at: &u32| known.insert(self.identities.row(*at as usize));
                elements.filter(is_new).collect()
            }
            Repeats::Last => {
                let mut standing: Vec<u32> = Vec::new();
                let mut places = HashMap::new();
                for at in elements {
                    let place = *places
                        .entry(self.identities.row(at as usize))
                        .or_insert(standing.len());
                    match standing.get_mut(place) {
                        Some(known) => *known = at,
                        None => standing.push(at),
                    }
                }
                standing
            }
        };
    }
}

impl Fold for Collection<'_> {
    fn begin(&mut self) {
        self.clear();
    }

    fn set(&mut self, row: usize) {
        self.clear();
        if let Some(elements) = self.at(row) {
            self.is_null = false;
            self.standing.extend(elements);
        }
    }

    fn clear(&mut self) {
        self.is_null = true;
        self.standing.clear();
    }

    fn aggregate(&mut self, row: usize) -> Result<()> {
        match self.at(row) {
            Some(_) if self.is_null && self.repeats != Repeats::First => self.set(row),
            Some(elements) => {
                let standing = std::mem::take(&mut self.standing);
                self.put(standing.into_iter().chain(elements));
            }
            None => {}
        }
        Ok(())
    }

    fn aggregate_older(&mut self, row: usize) -> Result<()> {
        if self.one_way || self.is_null {
            return self.aggregate(row);
        }
        if let Some(elements) = self.at(row) {
            let standing = std::mem::take(&mut self.standing);
            self.put(elements.chain(standing));
        }
        Ok(())
    }

    fn retract(&mut self, row: usize) -> Result<()> {
        let Some(elements) = self.at(row) else {
            return Ok(());
        };
        let mut counts = HashMap::new();
        for at in elements {
            *counts.entry(self.identities.row(at as usize)).or_insert(0) += 1;
        }
        let one_each = self.repeats != Repeats::Last;
        let identities = &self.identities;
        self.standing
            .retain(|at| match counts.get_mut(&identities.row(*at as usize)) {
                Some(0) | None => true,
                Some(count) => {
                    *count -= i32::from(one_each);
                    false
                }
            });
        Ok(())
    }

    fn end(&mut self) {
        let standing = (!self.is_null).then_some(self.standing.as_slice());
        self.gathered.push(standing);
    }

    fn finish(self) -> Result<ArrayRef> {
        self.gathered.finish(self.array)
    }
}
