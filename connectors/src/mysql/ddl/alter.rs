//! A table after the clauses of an ALTER TABLE.
//!
//! The order in which the server applies them: `prepare_fields_and_keys` in MySQL's
//! `sql/sql_table.cc`. Columns that are dropped, changed or renamed are named as the table was before
//! the statement, places (AFTER) as it is becoming.

use super::{
    Change, Context, Effect, Place,
    clauses::{Clause, read},
    column::{Definition, TableText},
    cursor::Cursor,
    rows::{Altered, altered},
    steps::{Origin, steps},
};
use crate::{
    change::RowsAfter,
    mysql::table::{MysqlColumn, MysqlTable, same_name},
    schema::TableName,
};

/// Effects of what follows `ALTER TABLE name`.
pub(super) fn effects(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
    effects: &mut Vec<Effect>,
) {
    let clauses = match read(cursor, context) {
        Ok(clauses) => clauses,
        Err(reason) => {
            effects.push(Effect::Dark(table.name.clone(), reason));
            // Names may stand behind what was not understood.
            let words: Vec<_> = cursor.rest().iter().filter_map(|t| t.name()).collect();
            for other in context.captured.names() {
                if *other != table.name && words.iter().any(|word| same_name(word, &other.table)) {
                    let reason = "may be a part of a statement that is not understood";
                    effects.push(Effect::Dark(other.clone(), reason.into()));
                }
            }
            return;
        }
    };
    let moves = others(&clauses, Some(table), context, effects);
    if moves {
        effects.push(Effect::Moved(table.name.clone()));
        return;
    }
    if context.captured.is_dark(&table.name) {
        let reason = "changes a table whose schema is still to be read";
        effects.push(Effect::Dark(table.name.clone(), reason.into()));
        return;
    }
    match apply(table, &clauses, context) {
        Ok(Some(change)) => effects.push(Effect::Change(Box::new(change))),
        Ok(None) => {}
        Err(reason) => effects.push(Effect::Dark(table.name.clone(), reason)),
    }
}

/// Effects of an ALTER TABLE of a table that is not captured.
pub(super) fn of_another(
    cursor: &mut Cursor<'_>,
    context: &Context<'_>,
    effects: &mut Vec<Effect>,
) {
    // Most say nothing of another table.
    let names_one = |token: &super::lexer::Token| token.is("RENAME") || token.is("EXCHANGE");
    if !cursor.rest().iter().any(names_one) {
        return;
    }
    match read(cursor, context) {
        Ok(clauses) => {
            others(&clauses, None, context, effects);
        }
        Err(_) => super::mentioned(cursor.rest(), context, effects),
    }
}

/// What clauses do to other tables; whether the table itself gets another name.
fn others(
    clauses: &[Clause],
    own: Option<&MysqlTable>,
    context: &Context<'_>,
    effects: &mut Vec<Effect>,
) -> bool {
    let mut moves = false;
    for clause in clauses {
        match clause {
            Clause::Exchange(database, other) => {
                if let Some(other) = context.captured.table(database, other) {
                    let rows = RowsAfter::Unknown("exchanges its rows with a partition".into());
                    effects.push(same_columns(other, rows));
                }
            }
            Clause::Rename(database, name) => {
                let known = context.captured.table(database, name);
                if own.is_some() && known.map(|known| &known.name) == own.map(|own| &own.name) {
                    continue;
                }
                let name = match known {
                    Some(known) => known.name.clone(),
                    None => TableName::new(database.as_str(), name.as_str()),
                };
                effects.push(Effect::Came(name, false));
                moves = true;
            }
            _ => {}
        }
    }
    moves
}

/// A change of a table's rows alone.
pub(super) fn same_columns(table: &MysqlTable, rows: RowsAfter) -> Effect {
    let mut after = table.clone();
    after.version += 1;
    Effect::Change(Box::new(Change {
        table: after,
        steps: Vec::new(),
        rows,
    }))
}

/// A column under way.
struct Slot {
    column: MysqlColumn,
    /// Which it was before the statement; `None`: it is new.
    origin: Origin,
}

/// What the clauses add up to.
struct Plan<'a> {
    before: &'a MysqlTable,
    slots: Vec<Slot>,
    unknown: Option<String>,
}

/// The table after all clauses; `None`: nothing of it changes. An error says what is not
/// understood.
fn apply(
    before: &MysqlTable,
    clauses: &[Clause],
    context: &Context<'_>,
) -> Result<Option<Change>, String> {
    let mut after = before.clone();
    let mut plan = Plan {
        before,
        slots: Vec::with_capacity(before.columns.len()),
        unknown: None,
    };
    let mut key = None;
    for clause in clauses {
        match clause {
            Clause::Text(charset, collation) => {
                after.charset.clone_from(charset);
                after.collation.clone_from(collation);
            }
            Clause::Comment(comment) if context.types.include_comments => {
                after.comment = Some(comment.clone()).filter(|comment| !comment.is_empty());
            }
            Clause::Engine(engine) if !engine.eq_ignore_ascii_case("innodb") => {
                return Err("changes the table's engine".into());
            }
            Clause::Rows(reason) => plan.unknown = Some((*reason).into()),
            Clause::Exchange(..) => {
                plan.unknown = Some("exchanges a partition's rows".into());
            }
            Clause::Index(name, _) if is_key_index(name, before, context) => {
                return Err("changes the index that is the table's key".into());
            }
            Clause::DropPrimary if has_primary(before, context) => {
                key.get_or_insert_with(Vec::new);
            }
            Clause::AddPrimary(columns) => key = Some(columns.clone()),
            _ => {}
        }
    }
    let text = TableText {
        charset: &after.charset,
        collation: &after.collation,
    };
    plan.kept(clauses, &text, context)?;
    plan.placed(clauses, &text, context)?;
    plan.key(&mut after, key, clauses, context)?;
    after.columns = plan.slots.iter().map(|slot| slot.column.clone()).collect();
    let key = after.primary_key.clone();
    after.set_key(key);
    for (slot, column) in plan.slots.iter_mut().zip(&after.columns) {
        slot.column = column.clone();
    }
    if plan.unknown.is_none() {
        plan.unknown = plan.rows(context);
    }
    if after == *before && plan.unknown.is_none() {
        return Ok(None);
    }
    after.version += 1;
    let origins: Vec<Origin> = plan.slots.iter().map(|slot| slot.origin).collect();
    Ok(Some(Change {
        steps: steps(before, &after, &origins),
        table: after,
        rows: plan.unknown.map_or(RowsAfter::Kept, RowsAfter::Unknown),
    }))
}

impl Plan<'_> {
    /// The columns that were there, where they were.
    fn kept(
        &mut self,
        clauses: &[Clause],
        text: &TableText<'_>,
        context: &Context<'_>,
    ) -> Result<(), String> {
        for clause in clauses {
            let (named, if_exists) = match clause {
                Clause::Change(name, _, if_exists)
                | Clause::Drop(name, if_exists)
                | Clause::RenameColumn(name, _, if_exists) => (name, *if_exists),
                Clause::Invisible(name, _) => (name, false),
                _ => continue,
            };
            if !if_exists && self.before.column(named).is_none() {
                return Err(format!("names column {named}, which is not known"));
            }
        }
        for (at, column) in self.before.columns.iter().enumerate() {
            let mut column = column.clone();
            let mut stays = true;
            for clause in clauses {
                let own = &self.before.columns.get(at);
                let is_own = |name: &str| own.is_some_and(|own| same_name(&own.name, name));
                match clause {
                    Clause::Drop(name, _) if is_own(name) => stays = false,
                    // One that gets another place stands here until its turn comes.
                    Clause::Change(name, definition, _) if is_own(name) => {
                        column = self.changed(at, definition, text, context)?;
                    }
                    Clause::RenameColumn(name, to, _) if is_own(name) => {
                        column.name.clone_from(to);
                    }
                    Clause::Invisible(name, invisible) if is_own(name) => {
                        column.invisible = *invisible;
                    }
                    _ => {}
                }
            }
            if stays {
                let origin = Some(at);
                self.slots.push(Slot { column, origin });
            }
        }
        Ok(())
    }

    /// New columns, and those that get another place, in the statement's order.
    fn placed(
        &mut self,
        clauses: &[Clause],
        text: &TableText<'_>,
        context: &Context<'_>,
    ) -> Result<(), String> {
        for clause in clauses {
            match clause {
                Clause::Add(columns, if_not_exists) => {
                    for definition in columns {
                        if *if_not_exists && self.before.column(&definition.name).is_some() {
                            continue;
                        }
                        self.added(definition);
                        let column = definition.column(text, context)?;
                        let origin = None;
                        self.put(Slot { column, origin }, definition.place.as_ref())?;
                    }
                }
                Clause::Change(name, definition, _) => {
                    let Some(place) = &definition.place else {
                        continue;
                    };
                    let mut columns = self.before.columns.iter();
                    let at = columns.position(|own| same_name(&own.name, name));
                    let mut slots = self.slots.iter();
                    let now = slots.position(|slot| at.is_some() && slot.origin == at);
                    let Some(now) = now else { continue };
                    let slot = self.slots.remove(now);
                    self.put(slot, Some(place))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, slot: Slot, place: Option<&Place>) -> Result<(), String> {
        let find = |name: &str| {
            let mut slots = self.slots.iter();
            slots.position(|own| same_name(&own.column.name, name))
        };
        if find(&slot.column.name).is_some() {
            return Err(format!("adds column {}, which is there", slot.column.name));
        }
        let at = match place {
            Some(Place::First) => 0,
            Some(Place::After(name)) => {
                1 + find(name)
                    .ok_or_else(|| format!("puts a column behind {name}, which is not known"))?
            }
            None => self.slots.len(),
        };
        self.slots.insert(at, slot);
        Ok(())
    }

    /// Rows that are there get NULL in a new column, or some value.
    fn added(&mut self, definition: &Definition) {
        let name = &definition.name;
        if definition.auto_increment {
            self.doubt(format!("adds column {name} with AUTO_INCREMENT"));
        } else if definition.generated.is_some() {
            self.doubt(format!("adds generated column {name}"));
        } else if definition.has_default {
            self.doubt(format!("adds column {name} with a default"));
        }
    }

    fn doubt(&mut self, reason: String) {
        self.unknown.get_or_insert(reason);
    }

    fn changed(
        &mut self,
        at: usize,
        definition: &Definition,
        text: &TableText<'_>,
        context: &Context<'_>,
    ) -> Result<MysqlColumn, String> {
        let mut column = definition.column(text, context)?;
        if let Some(before) = self.before.columns.get(at) {
            if self.before.is_key(&before.name) && has_primary(self.before, context) {
                column.nullable = false;
            }
            if column.auto_increment && !before.auto_increment {
                self.doubt(format!("numbers column {}", column.name));
            }
            if before.generated.is_some() || column.generated.is_some() {
                self.doubt(format!("computes column {} anew", column.name));
            }
        }
        Ok(column)
    }

    /// The key after the statement; another key is not followed.
    fn key(
        &mut self,
        after: &mut MysqlTable,
        key: Option<Vec<String>>,
        clauses: &[Clause],
        context: &Context<'_>,
    ) -> Result<(), String> {
        let another = "changes the table's key";
        // Where a column becomes a key by its own words.
        let own_key = |definition: &Definition| definition.primary;
        let mut key = key;
        for clause in clauses {
            match clause {
                Clause::Add(columns, _) => {
                    if let Some(column) = columns.iter().find(|column| own_key(column)) {
                        key = Some(vec![column.name.clone()]);
                    }
                }
                Clause::Change(_, column, _) if own_key(column) => {
                    key = Some(vec![column.name.clone()]);
                }
                _ => {}
            }
        }
        // Key columns under their names from now on.
        let mut renamed = Vec::with_capacity(self.before.primary_key.len());
        for name in &self.before.primary_key {
            let mut columns = self.before.columns.iter();
            let at = columns.position(|own| same_name(&own.name, name));
            let slot = self.slots.iter().find(|slot| slot.origin == at);
            renamed.push(slot.ok_or(another)?.column.name.clone());
        }
        if let Some(key) = key {
            if has_primary(self.before, context) {
                let same = key.len() == renamed.len()
                    && key.iter().zip(&renamed).all(|(a, b)| same_name(a, b));
                if !same {
                    return Err(another.into());
                }
            } else {
                // The unique index stays the key; the columns of a primary key are NOT NULL.
                for slot in &mut self.slots {
                    if key.iter().any(|name| same_name(name, &slot.column.name)) {
                        slot.column.nullable = false;
                    }
                }
            }
        }
        for name in &renamed {
            let mut slots = self.slots.iter();
            if slots.any(|slot| same_name(&slot.column.name, name) && slot.column.nullable) {
                return Err("lets a column of the table's key be NULL".into());
            }
        }
        after.primary_key = renamed;
        Ok(())
    }

    /// Why the rows that are there may have other values now, if they may.
    fn rows(&self, context: &Context<'_>) -> Option<String> {
        let has_generated =
            |columns: &[MysqlColumn]| columns.iter().any(|column| column.generated.is_some());
        for slot in &self.slots {
            let name = &slot.column.name;
            let Some(before) = slot.origin.and_then(|at| self.before.columns.get(at)) else {
                if !slot.column.nullable {
                    return Some(format!("adds column {name} as NOT NULL"));
                }
                continue;
            };
            match altered(before, &slot.column, context.mode.strict) {
                Altered::Not => {}
                Altered::Kept if !has_generated(&self.before.columns) => {}
                Altered::Kept => {
                    return Some(format!(
                        "changes the type of column {name} beside generated columns"
                    ));
                }
                Altered::Rows(reason) => return Some(format!("{reason} of column {name}")),
            }
        }
        None
    }
}

/// Whether the table's key is its primary key, and not a unique index.
fn has_primary(table: &MysqlTable, context: &Context<'_>) -> bool {
    !table.primary_key.is_empty() && context.captured.key_index(&table.name).is_none()
}

/// Whether an index is the one that keeps the table's key unique.
pub(super) fn is_key_index(index: &str, table: &MysqlTable, context: &Context<'_>) -> bool {
    let key = context.captured.key_index(&table.name).unwrap_or("PRIMARY");
    same_name(index, key)
}
