//! The engine `partial-update`: values that are not NULL replace those before, column by column.
//!
//! Columns may stand in sequence groups, whose ordering columns say which row is the newer one for
//! the group's columns; those may have aggregate functions then.
//!
//! Source: `PartialUpdateMergeFunction`.

use std::{cmp::Ordering, ops::Range};

use arrow_array::{Array, Int8Array, Int64Array};
use arrow_row::{RowConverter, Rows};

use super::{
    Groups, MergeFunction,
    aggregator::Aggregator,
    fold::Op,
    function::{LAST_NON_NULL_VALUE, PRIMARY_KEY},
    options::{Options, names},
    order::{converter, rows_of},
    pick::is_retract,
};
use crate::{
    data_file::{KeyValueBatch, kind},
    error::{Error, Result},
    schema::Schema,
};

/// Merges what rows say about some columns into one row.
#[derive(Debug)]
pub(super) struct PartialUpdate {
    ignore_delete: bool,
    remove_on_delete: bool,
    groups: Vec<SequenceGroup>,
    columns: Vec<Column>,
}

/// Columns that are updated together, by an order of their own.
#[derive(Debug)]
struct SequenceGroup {
    ordering: Vec<usize>,
    converter: RowConverter,
    /// A delete that is newer takes the whole row away.
    removes: bool,
}

#[derive(Debug)]
struct Column {
    role: Role,
    has_function: bool,
    aggregator: Aggregator,
}

/// What a column is to sequence groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Free,
    Ordering(usize),
    Protected(usize),
}

/// What a row does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Nothing,
    /// All its values stand.
    Replace,
    Merge,
    Retract,
    /// All its values stand, then they are taken back.
    ReplaceRetract,
}

/// How a row stands to a group's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// It says nothing about the group: its ordering columns are NULL.
    Silent,
    Newer,
    Older,
}

impl PartialUpdate {
    pub(super) fn new(schema: &Schema) -> Result<Self> {
        let options = Options::of(schema);
        let mut roles = vec![Role::Free; schema.fields.len()];
        let mut groups = Vec::new();
        for (option, list) in &schema.options {
            let Some(ordering) = option
                .strip_prefix("fields.")
                .and_then(|rest| rest.strip_suffix(".sequence-group"))
            else {
                continue;
            };
            let group = groups.len();
            let ordering = assign(
                &options,
                &mut roles,
                option,
                ordering,
                Role::Ordering(group),
            )?;
            assign(&options, &mut roles, option, list, Role::Protected(group))?;
            groups.push(SequenceGroup {
                converter: converter(schema, &ordering, false)?.ok_or_else(|| {
                    Error::Unsupported(format!("option {option} names no column to order by"))
                })?,
                ordering,
                removes: false,
            });
        }
        mark_removing(&options, &roles, &mut groups)?;
        let this = Self {
            ignore_delete: options.ignore_delete()?,
            remove_on_delete: options.truth("partial-update.remove-record-on-delete")?,
            columns: columns(schema, &roles)?,
            groups,
        };
        this.check(&options)?;
        Ok(this)
    }

    fn check(&self, options: &Options<'_>) -> Result<()> {
        let refuse = |a: &str, b: &str| {
            Err(Error::Unsupported(format!(
                "options {a} and {b} at the same time: set one"
            )))
        };
        let on_delete = "partial-update.remove-record-on-delete";
        let on_group = "partial-update.remove-record-on-sequence-group";
        if self.ignore_delete && self.remove_on_delete {
            return refuse("ignore-delete", on_delete);
        }
        if self.ignore_delete && options.text(on_group).is_some() {
            return refuse("ignore-delete", on_group);
        }
        if self.remove_on_delete && !self.groups.is_empty() {
            return refuse("sequence-group", on_delete);
        }
        Ok(())
    }
}

/// Gives columns their role in a group.
fn assign(
    options: &Options<'_>,
    roles: &mut [Role],
    option: &str,
    list: &str,
    role: Role,
) -> Result<Vec<usize>> {
    let mut positions = Vec::new();
    for name in names(list) {
        let at = options.position(option, name)?;
        let refuse = |why: &str| Err(Error::Unsupported(format!("option {option}: {why} {name}")));
        if options.is_key(name) {
            return refuse("no sequence group may hold key column");
        }
        let Some(has) = roles.get_mut(at) else {
            continue;
        };
        match (*has, role) {
            (Role::Free, _) => *has = role,
            // A group's own ordering column may be named among those it protects.
            (Role::Ordering(a), Role::Protected(b)) if a == b => {}
            _ => return refuse("two sequence groups hold column"),
        }
        positions.push(at);
    }
    Ok(positions)
}

/// Marks the groups of option `partial-update.remove-record-on-sequence-group`.
fn mark_removing(
    options: &Options<'_>,
    roles: &[Role],
    groups: &mut [SequenceGroup],
) -> Result<()> {
    let option = "partial-update.remove-record-on-sequence-group";
    for name in names(options.text(option).unwrap_or_default()) {
        let at = options.position(option, name)?;
        match roles.get(at) {
            Some(Role::Ordering(group)) => {
                if let Some(group) = groups.get_mut(*group) {
                    group.removes = true;
                }
            }
            _ => {
                return Err(Error::Unsupported(format!(
                    "option {option} names column {name}, by which no sequence group is ordered"
                )));
            }
        }
    }
    Ok(())
}

fn columns(schema: &Schema, roles: &[Role]) -> Result<Vec<Column>> {
    let options = Options::of(schema);
    let fields = schema.fields.iter().zip(roles);
    let columns = fields.map(|(field, role)| {
        let own = options.of_column(&field.name, "aggregate-function");
        let name = match role {
            Role::Ordering(_) => None,
            _ if schema.primary_keys.contains(&field.name) => Some(PRIMARY_KEY),
            _ => own.map(str::trim).or(options.default_function()),
        };
        let is_free = !matches!(role, Role::Protected(_));
        if let Some(name) = name
            && is_free
            && ![PRIMARY_KEY, LAST_NON_NULL_VALUE].contains(&name)
        {
            return Err(Error::Unsupported(format!(
                "aggregate function {name} of column {}: with merge-engine partial-update the \
                 column must stand in a sequence group",
                field.name
            )));
        }
        Ok(Column {
            role: *role,
            has_function: name.is_some(),
            aggregator: match name {
                Some(name) => Aggregator::new(options, field, name)?,
                None => Aggregator::none(field),
            },
        })
    });
    columns.collect()
}

/// What the rows of a batch do, and what comes out beside the columns.
struct Plan {
    acts: Vec<Act>,
    /// By group, then row.
    ages: Vec<Vec<Age>>,
    kinds: Vec<i8>,
    sequences: Vec<i64>,
}

/// The ordering columns of a group.
struct Ordered {
    rows: Rows,
    is_silent: Vec<bool>,
    /// The row whose ordering values stand; `None`: all NULL.
    standing: Option<usize>,
}

impl MergeFunction for PartialUpdate {
    fn merge(&self, groups: &Groups<'_>) -> Result<(KeyValueBatch, Vec<usize>)> {
        if groups.are_single() {
            return Ok((groups.rows.clone(), (0..groups.ends.len()).collect()));
        }
        let rows = groups.rows;
        let (numbers, ranges): (Vec<_>, Vec<_>) = groups
            .ranges()
            .enumerate()
            .filter(|(_, range)| !range.is_empty())
            .unzip();
        let plan = self.plan(rows, &ranges)?;
        let columns = self.columns.iter().zip(&rows.columns);
        let columns = columns.map(|(column, array)| {
            let ops = self.ops(column, &plan);
            column.aggregator.run(array, &ranges, &ops)
        });
        let merged = KeyValueBatch {
            columns: columns.collect::<Result<_>>()?,
            sequences: Int64Array::from(plan.sequences),
            kinds: Int8Array::from(plan.kinds),
        };
        Ok((merged, numbers))
    }
}

impl PartialUpdate {
    fn plan(&self, rows: &KeyValueBatch, ranges: &[Range<usize>]) -> Result<Plan> {
        let mut ordered = self
            .groups
            .iter()
            .map(|group| group.ordered(rows))
            .collect::<Result<Vec<_>>>()?;
        let mut plan = Plan {
            acts: vec![Act::Nothing; rows.rows()],
            ages: vec![vec![Age::Silent; rows.rows()]; self.groups.len()],
            kinds: Vec::with_capacity(ranges.len()),
            sequences: Vec::with_capacity(ranges.len()),
        };
        for range in ranges {
            if range.len() == 1 {
                if let Some(act) = plan.acts.get_mut(range.start) {
                    *act = Act::Replace;
                }
                plan.kinds.push(rows.kinds.value(range.start));
                plan.sequences.push(rows.sequences.value(range.start));
            } else {
                self.plan_key(rows, range.clone(), &mut ordered, &mut plan)?;
            }
        }
        Ok(plan)
    }

    /// Plans a key of several rows.
    fn plan_key(
        &self,
        rows: &KeyValueBatch,
        range: Range<usize>,
        ordered: &mut [Ordered],
        plan: &mut Plan,
    ) -> Result<()> {
        for group in &mut *ordered {
            group.standing = None;
        }
        let (mut filled, mut inserted, mut deleted) = (false, false, false);
        let mut sequence = 0;
        for row in range {
            let kind = rows.kinds.value(row);
            let retracts = is_retract(kind);
            let first = retracts && !filled;
            filled = true;
            deleted = false;
            if first {
                ordered
                    .iter_mut()
                    .for_each(|group| group.standing = Some(row));
            }
            let mut act = if first { Act::Replace } else { Act::Nothing };
            if !(retracts && self.ignore_delete) {
                sequence = rows.sequences.value(row);
            }
            if !retracts {
                inserted = true;
                act = Act::Merge;
                self.age(row, ordered, plan);
            } else if self.ignore_delete {
                // Nothing but what the first row of a key does.
            } else if !self.groups.is_empty() {
                let removes = self.age(row, ordered, plan) && kind == kind::DELETE;
                act = match (removes, first) {
                    (true, _) => Act::Replace,
                    (false, true) => Act::ReplaceRetract,
                    (false, false) => Act::Retract,
                };
                if removes {
                    deleted = true;
                    ordered
                        .iter_mut()
                        .for_each(|group| group.standing = Some(row));
                }
            } else if !self.remove_on_delete {
                return Err(Error::Unsupported(
                    "deletes in a table with merge-engine partial-update: set its option \
                     ignore-delete or partial-update.remove-record-on-delete, or sequence groups"
                        .into(),
                ));
            } else if kind == kind::DELETE {
                deleted = true;
                act = Act::Replace;
            }
            if let Some(at) = plan.acts.get_mut(row) {
                *at = act;
            }
        }
        plan.kinds.push(if deleted || !inserted {
            kind::DELETE
        } else {
            kind::INSERT
        });
        plan.sequences.push(sequence);
        Ok(())
    }

    /// Notes how a row stands to each group; true when a newer delete would take the row away.
    fn age(&self, row: usize, ordered: &mut [Ordered], plan: &mut Plan) -> bool {
        let mut removes = false;
        let groups = ordered.iter_mut().zip(&mut plan.ages).zip(&self.groups);
        for ((ordered, ages), group) in groups {
            let age = ordered.age(row);
            if age == Age::Newer {
                ordered.standing = Some(row);
                removes |= group.removes;
            }
            if let Some(at) = ages.get_mut(row) {
                *at = age;
            }
        }
        removes
    }

    fn ops(&self, column: &Column, plan: &Plan) -> Vec<Op> {
        let has_function = column.has_function;
        let ages = match column.role {
            Role::Free => None,
            Role::Ordering(group) | Role::Protected(group) => plan.ages.get(group),
        };
        let Some(ages) = ages else {
            // Without any group not even key columns are aggregated; the value is the same.
            let merge = match has_function && !self.groups.is_empty() {
                true => Op::Aggregate,
                false => Op::Update,
            };
            let op = |act: &Act| match act {
                Act::Nothing | Act::Retract => Op::Skip,
                Act::Replace | Act::ReplaceRetract => Op::Set,
                Act::Merge => merge,
            };
            return plan.acts.iter().map(op).collect();
        };
        let is_ordering = matches!(column.role, Role::Ordering(_));
        let op = |(act, age): (&Act, &Age)| match (act, age) {
            (Act::Nothing, _) | (Act::Merge | Act::Retract, Age::Silent) => Op::Skip,
            (Act::Replace, _) | (Act::ReplaceRetract, Age::Silent) => Op::Set,
            (Act::Merge | Act::Retract | Act::ReplaceRetract, Age::Newer) if is_ordering => Op::Set,
            (Act::Merge, Age::Newer) if has_function => Op::Aggregate,
            (Act::Merge, Age::Newer) => Op::Set,
            (Act::Merge, Age::Older) if has_function => Op::AggregateOlder,
            (Act::Retract, _) if has_function => Op::Retract,
            (Act::ReplaceRetract, _) if has_function => Op::SetRetract,
            (Act::Retract | Act::ReplaceRetract, Age::Newer) => Op::Clear,
            (_, Age::Older) => Op::Skip,
        };
        let ops = plan.acts.iter().zip(ages).map(op);
        ops.map(|op| column.aggregator.op(op)).collect()
    }
}

impl SequenceGroup {
    fn ordered(&self, batch: &KeyValueBatch) -> Result<Ordered> {
        let is_null = |row: usize| {
            let columns = self.ordering.iter().filter_map(|at| batch.columns.get(*at));
            columns.into_iter().all(|column| column.is_null(row))
        };
        Ok(Ordered {
            rows: rows_of(&self.converter, &self.ordering, &batch.columns)?,
            is_silent: (0..batch.rows()).map(is_null).collect(),
            standing: None,
        })
    }
}

impl Ordered {
    fn age(&self, row: usize) -> Age {
        if self.is_silent.get(row).copied().unwrap_or(true) {
            return Age::Silent;
        }
        let older = self.standing.is_some_and(|standing| {
            self.rows.row(row).cmp(&self.rows.row(standing)) == Ordering::Less
        });
        if older { Age::Older } else { Age::Newer }
    }
}
