//! Makes one value of the values that a column has in the rows of a key.
//!
//! An engine says once per row what the row does to a column ([`Op`]); columns then go through all
//! rows one after the other, so that nothing is boxed and no row is built.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_select::take::take;

use crate::error::Result;

/// What a row does to a column's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Nothing.
    Skip,
    /// The row's value, NULL too.
    Set,
    /// The row's value unless it is NULL.
    Update,
    /// NULL.
    Clear,
    /// The function of the value so far and the row's.
    Aggregate,
    /// The function of the row's value and the value so far: the row is older than it.
    AggregateOlder,
    /// Takes the row's value back out.
    Retract,
    /// [`Op::Set`], then [`Op::Retract`].
    SetRetract,
}

/// The value of a column while the rows of a key go by. Rows are named by their place in the batch.
pub(super) trait Fold {
    /// A new key, whose value is NULL so far.
    fn begin(&mut self);
    /// The row's value, NULL too.
    fn set(&mut self, row: usize);
    /// NULL.
    fn clear(&mut self);
    /// The function of the value so far and the row's.
    fn aggregate(&mut self, row: usize) -> Result<()>;
    /// The function of the row's value and the value so far.
    fn aggregate_older(&mut self, row: usize) -> Result<()>;
    /// Takes the row's value back out.
    fn retract(&mut self, row: usize) -> Result<()>;
    /// The key has no more rows.
    fn end(&mut self);
    /// The values of all keys.
    fn finish(self) -> Result<ArrayRef>;
}

/// Runs a column over its rows. Groups are not empty.
pub(super) fn run(
    mut fold: impl Fold,
    array: &dyn Array,
    groups: &[Range<usize>],
    ops: &[Op],
) -> Result<ArrayRef> {
    for group in groups {
        fold.begin();
        let ops = ops.get(group.clone()).unwrap_or_default();
        for (row, op) in group.clone().zip(ops) {
            match op {
                Op::Skip => {}
                Op::Set => fold.set(row),
                Op::Update if array.is_null(row) => {}
                Op::Update => fold.set(row),
                Op::Clear => fold.clear(),
                Op::Aggregate => fold.aggregate(row)?,
                Op::AggregateOlder => fold.aggregate_older(row)?,
                Op::Retract => fold.retract(row)?,
                Op::SetRetract => {
                    fold.set(row);
                    fold.retract(row)?;
                }
            }
        }
        fold.end();
    }
    fold.finish()
}

/// Functions that put a value together with a row's.
pub(super) trait Combiner {
    /// A value that is not NULL.
    type Value;
    /// A row's value; `None`: NULL.
    fn of(&self, row: usize) -> Option<Self::Value>;
    /// What stands of an older value and a newer one.
    fn put(
        &self,
        older: Option<Self::Value>,
        newer: Option<Self::Value>,
    ) -> Result<Option<Self::Value>>;
    /// What stands when a row is taken back.
    fn retract(&self, standing: Option<Self::Value>, row: usize) -> Result<Option<Self::Value>>;
    /// The value of a key that has no more rows.
    fn end(&mut self, standing: Option<Self::Value>);
    /// The values of all keys.
    fn finish(self) -> Result<ArrayRef>;
}

/// A column whose value is put together of the rows'.
pub(super) struct Combination<C: Combiner> {
    combiner: C,
    standing: Option<C::Value>,
}

impl<C: Combiner> Combination<C> {
    pub(super) fn new(combiner: C) -> Self {
        Self {
            combiner,
            standing: None,
        }
    }
}

impl<C: Combiner> Fold for Combination<C> {
    fn begin(&mut self) {
        self.standing = None;
    }

    fn set(&mut self, row: usize) {
        self.standing = self.combiner.of(row);
    }

    fn clear(&mut self) {
        self.standing = None;
    }

    fn aggregate(&mut self, row: usize) -> Result<()> {
        let standing = self.standing.take();
        self.standing = self.combiner.put(standing, self.combiner.of(row))?;
        Ok(())
    }

    fn aggregate_older(&mut self, row: usize) -> Result<()> {
        let standing = self.standing.take();
        self.standing = self.combiner.put(self.combiner.of(row), standing)?;
        Ok(())
    }

    fn retract(&mut self, row: usize) -> Result<()> {
        let standing = self.standing.take();
        self.standing = self.combiner.retract(standing, row)?;
        Ok(())
    }

    fn end(&mut self) {
        self.combiner.end(self.standing.take());
    }

    fn finish(self) -> Result<ArrayRef> {
        self.combiner.finish()
    }
}

/// Functions whose value is always one of the rows' own.
pub(super) trait Chooser {
    /// Of the row whose value stands and another, the one whose value stands then.
    fn choose(&mut self, standing: Option<usize>, row: usize) -> Option<usize>;
    /// As [`Chooser::choose`], when the other is the older one.
    fn choose_older(&mut self, standing: Option<usize>, row: usize) -> Option<usize>;
    /// What stands when a row is taken back.
    fn retract(&mut self, standing: Option<usize>, row: usize) -> Result<Option<usize>>;
    /// A new key.
    fn begin(&mut self) {}
}

/// A column whose value is one of the rows' own: only places are kept, and gathered at the end.
pub(super) struct Choice<'a, C> {
    array: &'a ArrayRef,
    chooser: C,
    standing: Option<usize>,
    picked: Vec<Option<u64>>,
}

impl<'a, C: Chooser> Choice<'a, C> {
    pub(super) fn new(array: &'a ArrayRef, chooser: C) -> Self {
        Self {
            array,
            chooser,
            standing: None,
            picked: Vec::new(),
        }
    }
}

impl<C: Chooser> Fold for Choice<'_, C> {
    fn begin(&mut self) {
        self.standing = None;
        self.chooser.begin();
    }

    fn set(&mut self, row: usize) {
        self.standing = Some(row);
    }

    fn clear(&mut self) {
        self.standing = None;
    }

    fn aggregate(&mut self, row: usize) -> Result<()> {
        self.standing = self.chooser.choose(self.standing, row);
        Ok(())
    }

    fn aggregate_older(&mut self, row: usize) -> Result<()> {
        self.standing = self.chooser.choose_older(self.standing, row);
        Ok(())
    }

    fn retract(&mut self, row: usize) -> Result<()> {
        self.standing = self.chooser.retract(self.standing, row)?;
        Ok(())
    }

    fn end(&mut self) {
        self.picked.push(self.standing.map(|row| row as u64));
    }

    fn finish(self) -> Result<ArrayRef> {
        Ok(take(self.array, &UInt64Array::from(self.picked), None)?)
    }
}
