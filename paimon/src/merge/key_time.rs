//! The aggregate function `merge_map_with_keytime`: of the entries with one key the one with the
//! greatest time stays, which is a text in their values. An entry without a value takes the key away.
//!
//! Source: `FieldMergeMapWithKeyTimeAgg`.

use std::{cmp::Ordering, collections::HashMap};

use arrow_array::{Array, ArrayRef, MapArray, StringArray, StructArray, cast::AsArray};
use arrow_row::{RowConverter, Rows, SortField};

use super::{
    aggregator::no_retraction,
    collection::{Gathered, places},
    fold::Combiner,
};
use crate::error::{Error, Result};

/// A column of maps to rows.
pub(super) struct KeyTimes<'a> {
    array: &'a ArrayRef,
    map: &'a MapArray,
    values: &'a StructArray,
    times: &'a StringArray,
    keys: Rows,
    gathered: Gathered,
}

impl<'a> KeyTimes<'a> {
    /// `time` is the position of the time within the rows.
    pub(super) fn new(array: &'a ArrayRef, time: usize) -> Result<Self> {
        let other = || Error::Internal(format!("maps with times in {}", array.data_type()));
        let map = array.as_map_opt().ok_or_else(other)?;
        let values = map.values().as_struct_opt().ok_or_else(other)?;
        let times = values.columns().get(time).ok_or_else(other)?;
        let field = SortField::new(map.keys().data_type().clone());
        let keys = RowConverter::new(vec![field])?;
        Ok(Self {
            array,
            map,
            values,
            times: times.as_string_opt().ok_or_else(other)?,
            keys: keys.convert_columns(std::slice::from_ref(map.keys()))?,
            gathered: Gathered::default(),
        })
    }

    fn time(&self, at: u32) -> Option<&str> {
        let at = at as usize;
        self.times.is_valid(at).then(|| self.times.value(at))
    }

    fn is_newer(&self, at: u32, known: Option<u32>) -> bool {
        let Some(time) = self.time(at) else {
            return false;
        };
        let known = known.filter(|known| self.values.is_valid(*known as usize));
        let known = known.and_then(|known| self.time(known));
        known.is_none_or(|known| as_java_compares(time, known).is_gt())
    }
}

/// By UTF-16 code units.
fn as_java_compares(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

impl Combiner for KeyTimes<'_> {
    type Value = Vec<u32>;

    fn of(&self, row: usize) -> Option<Vec<u32>> {
        places(self.map, self.map.value_offsets(), row).map(Iterator::collect)
    }

    fn put(&self, standing: Option<Vec<u32>>, newer: Option<Vec<u32>>) -> Result<Option<Vec<u32>>> {
        let (Some(standing), Some(newer)) = (&standing, &newer) else {
            return Ok(standing.or(newer));
        };
        // Entries that are taken away leave a hole.
        let mut merged: Vec<Option<u32>> = Vec::with_capacity(standing.len() + newer.len());
        let mut at_key = HashMap::with_capacity(standing.len() + newer.len());
        let older = standing.iter().map(|at| (*at, false));
        for (at, is_new) in older.chain(newer.iter().map(|at| (*at, true))) {
            let next = merged.len();
            let place = *at_key.entry(self.keys.row(at as usize)).or_insert(next);
            if place == next {
                merged.push(None);
            }
            let Some(known) = merged.get_mut(place) else {
                continue;
            };
            if !is_new {
                *known = Some(at);
            } else if self.values.is_null(at as usize) {
                *known = None;
            } else if self.is_newer(at, *known) {
                *known = Some(at);
            }
        }
        Ok(Some(merged.into_iter().flatten().collect()))
    }

    fn retract(&self, _: Option<Vec<u32>>, _: usize) -> Result<Option<Vec<u32>>> {
        Err(no_retraction())
    }

    fn end(&mut self, standing: Option<Vec<u32>>) {
        self.gathered.push(standing.as_deref());
    }

    fn finish(self) -> Result<ArrayRef> {
        self.gathered.finish(self.array)
    }
}
