//! The aggregate functions `nested_update` and `nested_partial_update`: tables within a column.
//!
//! Java keeps elements with a nested key in no order; here they stand in the order in which their
//! keys came. Versions before 2 know neither `nested-sequence-field` nor
//! `nested-key-null-strategy`, leave the first array of a key as it came, and stop updating elements
//! once `count-limit` is reached.
//!
//! Source: `FieldNestedUpdateAgg`, `FieldNestedPartialUpdateAgg`.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet, hash_map::Entry},
    ops::Range,
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, ListArray, StructArray, UInt32Array, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType as ArrowType;
use arrow_select::take::take;

use super::{
    aggregator::no_retraction,
    collection::{Gathered, lists, places},
    fold::Combiner,
};
use crate::error::{Error, Result};

/// What is done with elements whose nested key holds a NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullKeys {
    /// They are as others.
    Merge,
    /// They are left out.
    Ignore,
    /// They are errors.
    Error,
}

/// What the options say about a column of nested rows.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// Positions of the nested key within a row; empty: elements are not updated.
    pub(super) keys: Vec<usize>,
    /// What comes first is replaced by what is greater or equal in these, NULL the least; empty: by
    /// what comes later.
    pub(super) sequence: Vec<usize>,
    pub(super) null_keys: NullKeys,
    /// Elements that a value may have.
    pub(super) limit: usize,
}

/// The elements of all rows, with what is compared of them.
struct Elements<'a> {
    list: &'a ListArray,
    rows: &'a StructArray,
    rule: &'a Rule,
    /// The nested key, or the whole element where there is none; made when it is asked for.
    identities: OnceCell<Rows>,
    sequences: Option<Rows>,
}

impl<'a> Elements<'a> {
    fn new(array: &'a ArrayRef, rule: &'a Rule) -> Result<Self> {
        let list = array
            .as_list_opt::<i32>()
            .ok_or_else(|| Error::Internal(format!("nested rows in {}", array.data_type())))?;
        let rows = list
            .values()
            .as_struct_opt()
            .ok_or_else(|| Error::Internal(format!("nested rows in {}", array.data_type())))?;
        let sequences = (!rule.sequence.is_empty()).then(|| comparable(rows, &rule.sequence));
        Ok(Self {
            identities: OnceCell::new(),
            sequences: sequences.transpose()?,
            list,
            rows,
            rule,
        })
    }

    fn of(&self, row: usize) -> Option<Range<u32>> {
        places(self.list, self.list.value_offsets(), row)
    }

    fn identities(&self) -> Result<&Rows> {
        if let Some(rows) = self.identities.get() {
            return Ok(rows);
        }
        let all: Vec<usize> = (0..self.rows.num_columns()).collect();
        let columns = match self.rule.keys.as_slice() {
            [] => all.as_slice(),
            keys => keys,
        };
        let rows = comparable(self.rows, columns)?;
        Ok(self.identities.get_or_init(|| rows))
    }

    fn is_row(&self, at: &u32) -> bool {
        self.rows.is_valid(*at as usize)
    }

    /// Whether an element takes part, by its nested key.
    fn counts(&self, at: u32) -> Result<bool> {
        if !self.is_row(&at) {
            return Ok(false);
        }
        if self.rule.null_keys == NullKeys::Merge {
            return Ok(true);
        }
        let mut keys = self.rule.keys.iter();
        let has_null = keys.any(|key| {
            let column = self.rows.columns().get(*key);
            column.is_some_and(|column| column.is_null(at as usize))
        });
        match (has_null, self.rule.null_keys) {
            (true, NullKeys::Error) => Err(Error::Unsupported(
                "the nested key of an element is NULL, and option nested-key-null-strategy is error"
                    .into(),
            )),
            (has_null, _) => Ok(!has_null),
        }
    }

    /// Whether an element replaces the one with its key.
    fn replaces(&self, at: u32, standing: u32) -> bool {
        self.sequences
            .as_ref()
            .is_none_or(|rows| rows.row(at as usize) >= rows.row(standing as usize))
    }
}

/// Bytes that compare as some columns of the rows do.
fn comparable(rows: &StructArray, columns: &[usize]) -> Result<Rows> {
    let columns: Vec<ArrayRef> = columns
        .iter()
        .filter_map(|at| rows.columns().get(*at).cloned())
        .collect();
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?.convert_columns(&columns)?)
}

/// `nested_update`: elements replace those with their key, or stand beside the others.
pub(super) struct NestedUpdate<'a> {
    array: &'a ArrayRef,
    elements: Elements<'a>,
    gathered: Gathered,
}

impl<'a> NestedUpdate<'a> {
    pub(super) fn new(array: &'a ArrayRef, rule: &'a Rule) -> Result<Self> {
        Ok(Self {
            array,
            elements: Elements::new(array, rule)?,
            gathered: Gathered::default(),
        })
    }

    fn append(&self, standing: Option<Vec<u32>>, newer: Vec<u32>) -> Vec<u32> {
        let mut standing = standing.unwrap_or_default();
        let Some(room @ 1..) = self.elements.rule.limit.checked_sub(standing.len()) else {
            return standing;
        };
        standing.retain(|at| self.elements.is_row(at));
        let newer = newer.into_iter().filter(|at| self.elements.is_row(at));
        standing.extend(newer.take(room));
        standing
    }

    fn update(&self, older: Vec<u32>, newer: Vec<u32>) -> Result<Vec<u32>> {
        let identities = self.elements.identities()?;
        let mut standing: Vec<u32> = Vec::with_capacity(older.len() + newer.len());
        let mut at_key = HashMap::with_capacity(older.len() + newer.len());
        let older = older.into_iter().map(|at| (at, false));
        for (at, is_new) in older.chain(newer.into_iter().map(|at| (at, true))) {
            if !self.elements.counts(at)? {
                continue;
            }
            match at_key.entry(identities.row(at as usize)) {
                Entry::Occupied(place) => {
                    let place: &usize = place.get();
                    if let Some(known) = standing.get_mut(*place)
                        && self.elements.replaces(at, *known)
                    {
                        *known = at;
                    }
                }
                Entry::Vacant(place) if !is_new || standing.len() < self.elements.rule.limit => {
                    place.insert(standing.len());
                    standing.push(at);
                }
                Entry::Vacant(_) => {}
            }
        }
        Ok(standing)
    }

    fn without(&self, standing: Vec<u32>, taken: Range<u32>) -> Result<Vec<u32>> {
        let elements = &self.elements;
        let has_keys = !elements.rule.keys.is_empty();
        let standing = match has_keys {
            true => self.last_of_each(standing)?,
            false => standing,
        };
        let identities = elements.identities()?;
        let mut gone = HashSet::new();
        for at in taken {
            if elements.is_row(&at) && (!has_keys || elements.counts(at)?) {
                gone.insert(identities.row(at as usize));
            }
        }
        let is_gone = |at: &u32| gone.contains(&identities.row(*at as usize));
        let stays = |at: &u32| elements.is_row(at) && !is_gone(at);
        Ok(standing.into_iter().filter(stays).collect())
    }

    /// Of the elements with one key the last.
    fn last_of_each(&self, of: Vec<u32>) -> Result<Vec<u32>> {
        let identities = self.elements.identities()?;
        let mut standing: Vec<u32> = Vec::with_capacity(of.len());
        let mut at_key = HashMap::with_capacity(of.len());
        for at in of {
            if !self.elements.counts(at)? {
                continue;
            }
            let next = standing.len();
            let identity = identities.row(at as usize);
            let place = *at_key.entry(identity).or_insert(next);
            match standing.get_mut(place) {
                Some(known) => *known = at,
                None => standing.push(at),
            }
        }
        Ok(standing)
    }
}

impl Combiner for NestedUpdate<'_> {
    type Value = Vec<u32>;

    fn of(&self, row: usize) -> Option<Vec<u32>> {
        self.elements.of(row).map(Iterator::collect)
    }

    fn put(&self, standing: Option<Vec<u32>>, newer: Option<Vec<u32>>) -> Result<Option<Vec<u32>>> {
        let Some(newer) = newer else {
            return Ok(standing);
        };
        if self.elements.rule.keys.is_empty() {
            return Ok(Some(self.append(standing, newer)));
        }
        let older = standing.unwrap_or_default();
        self.update(older, newer).map(Some)
    }

    fn retract(&self, standing: Option<Vec<u32>>, row: usize) -> Result<Option<Vec<u32>>> {
        match (standing, self.elements.of(row)) {
            (Some(standing), Some(taken)) => self.without(standing, taken).map(Some),
            (standing, _) => Ok(standing),
        }
    }

    fn end(&mut self, standing: Option<Vec<u32>>) {
        self.gathered.push(standing.as_deref());
    }

    fn finish(self) -> Result<ArrayRef> {
        self.gathered.finish(self.array)
    }
}

/// Elements that are put together of values of several ones.
#[derive(Debug, Default)]
pub(super) struct Mixed {
    /// Of each element the one that its key is of; `None`: it is NULL.
    keys: Vec<Option<u32>>,
    /// Of each element and field the element that the value is of; `None`: NULL.
    cells: Vec<Option<u32>>,
}

/// `nested_partial_update`: values that are not NULL replace those of the element with their key.
pub(super) struct NestedPartialUpdate<'a> {
    elements: Elements<'a>,
    all: Mixed,
    valid: Vec<bool>,
    ends: Vec<i32>,
}

impl<'a> NestedPartialUpdate<'a> {
    pub(super) fn new(array: &'a ArrayRef, rule: &'a Rule) -> Result<Self> {
        Ok(Self {
            elements: Elements::new(array, rule)?,
            all: Mixed::default(),
            valid: Vec::new(),
            ends: Vec::new(),
        })
    }
}

impl Combiner for NestedPartialUpdate<'_> {
    type Value = Mixed;

    /// The elements of a row as they are.
    fn of(&self, row: usize) -> Option<Mixed> {
        let places = self.elements.of(row)?;
        let fields = self.elements.rows.num_columns();
        let mut mixed = Mixed::default();
        for at in places {
            let is_row = self.elements.is_row(&at);
            mixed.keys.push(is_row.then_some(at));
            let cells = std::iter::repeat_n(Some(at), fields);
            mixed.cells.extend(cells);
        }
        Some(mixed)
    }

    fn put(&self, standing: Option<Mixed>, newer: Option<Mixed>) -> Result<Option<Mixed>> {
        let Some(newer) = newer else {
            return Ok(standing);
        };
        let identities = self.elements.identities()?;
        let columns = self.elements.rows.columns();
        let fields = columns.len();
        let mut merged = Mixed::default();
        let mut at_key = HashMap::new();
        for part in standing.iter().chain([&newer]) {
            for (key, cells) in part.keys.iter().zip(part.cells.chunks(fields.max(1))) {
                let Some(key) = *key else { continue };
                if !self.elements.counts(key)? {
                    continue;
                }
                let next = merged.keys.len();
                let identity = identities.row(key as usize);
                let place = *at_key.entry(identity).or_insert(next);
                if place == next {
                    merged.keys.push(Some(key));
                    merged.cells.extend(std::iter::repeat_n(None, fields));
                }
                let known = merged.cells.iter_mut().skip(place * fields);
                for ((known, cell), column) in known.zip(cells).zip(columns) {
                    let is_value = |at: &u32| column.is_valid(*at as usize);
                    if cell.as_ref().is_some_and(is_value) {
                        *known = *cell;
                    }
                }
            }
        }
        Ok(Some(merged))
    }

    fn retract(&self, _: Option<Mixed>, _: usize) -> Result<Option<Mixed>> {
        Err(no_retraction())
    }

    fn end(&mut self, standing: Option<Mixed>) {
        self.valid.push(standing.is_some());
        if let Some(standing) = standing {
            self.all.keys.extend(standing.keys);
            self.all.cells.extend(standing.cells);
        }
        // Too many of them are found at the end.
        self.ends
            .push(i32::try_from(self.all.keys.len()).unwrap_or(-1));
    }

    fn finish(self) -> Result<ArrayRef> {
        let (offsets, nulls) = lists(self.ends, self.valid)?;
        let rows = self.elements.rows;
        let fields = rows.num_columns();
        let columns = rows.columns().iter().enumerate().map(|(at, column)| {
            let cells = self.all.cells.iter().skip(at).step_by(fields.max(1));
            let places: UInt32Array = cells.copied().collect();
            take(column, &places, None)
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let is_row = self.all.keys.iter().map(Option::is_some);
        let is_row = Some(NullBuffer::from_iter(is_row)).filter(|rows| rows.null_count() > 0);
        let values = StructArray::try_new(rows.fields().clone(), columns, is_row)?;
        let ArrowType::List(field) = self.elements.list.data_type() else {
            return Err(Error::Internal("nested rows in no list".into()));
        };
        let list = ListArray::try_new(field.clone(), offsets, Arc::new(values), nulls)?;
        Ok(Arc::new(list))
    }
}

#[cfg(test)]
mod tests;
