//! Tables that get other names, and those that migration tools put beside a table.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Effect, cursor::Cursor};
use crate::schema::TableName;

/// Effects of what follows `RENAME TABLE`: pairs, one after the other.
pub(super) fn renamed(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    // What stands under a name, by the name that it had before the statement.
    let mut now: BTreeMap<TableName, Option<TableName>> = BTreeMap::new();
    loop {
        cursor.eat_all(&["IF", "EXISTS"]);
        let Some(from) = name(cursor, context) else {
            break;
        };
        if cursor.eat("WAIT") {
            cursor.next();
        }
        cursor.eat("NOWAIT");
        if !(cursor.eat("TO") || cursor.eat("AS")) {
            break;
        }
        let Some(to) = name(cursor, context) else {
            break;
        };
        let moved = now.insert(from.clone(), None).unwrap_or(Some(from));
        now.insert(to, moved);
        if !cursor.eat_symbol(',') {
            break;
        }
    }
    for (name, now) in now {
        match now {
            None => effects.extend(captured(&name, context).map(Effect::Moved)),
            Some(before) if before != name => effects.push(Effect::Came(name, false)),
            Some(_) => {}
        }
    }
}

/// A name as the server compares it.
fn name(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Option<TableName> {
    let (database, table) = cursor.qualified(context.database)?;
    // A captured table's own spelling stands for all that are the same.
    Some(match context.captured.table(&database, &table) {
        Some(known) => known.name.clone(),
        None if context.captured.folds() => {
            TableName::new(database.to_lowercase(), table.to_lowercase())
        }
        None => TableName::new(database, table),
    })
}

fn captured(name: &TableName, context: &Context<'_>) -> Option<TableName> {
    let table = context.captured.table(&name.database, &name.table)?;
    Some(table.name.clone())
}

/// What a table of a migration tool is the shadow of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shadow<'a> {
    /// The name of the table that is changed.
    pub original: &'a str,
    /// The name alone says so; otherwise only together with a table of the original's name.
    pub is_sure: bool,
}

/// Reads a name as gh-ost (`_t_gho`, `_t_ghc`, `_t_del`, each with a time before the ending where
/// that is asked for) and pt-online-schema-change (`_t_new`, `_t_old`, with more underscores where
/// the name is taken) make it.
pub(crate) fn shadow(table: &str) -> Option<Shadow<'_>> {
    let rest = table.strip_prefix('_')?;
    let (body, ending) = rest.rsplit_once('_')?;
    let is_sure = matches!(ending, "gho" | "ghc");
    if !is_sure && !matches!(ending, "del" | "new" | "old") {
        return None;
    }
    let mut original = match ending {
        "new" | "old" => body.trim_start_matches('_'),
        _ => body,
    };
    let mut is_timed = false;
    if let Some((name, time)) = original.rsplit_once('_')
        && time.len() == 14
        && time.bytes().all(|byte| byte.is_ascii_digit())
        && !matches!(ending, "new" | "old")
    {
        original = name;
        is_timed = true;
    }
    let is_sure = is_sure || is_timed;
    (!original.is_empty()).then_some(Shadow { original, is_sure })
}

/// Those of the names that are shadows, with the table beside which they stand.
pub(crate) fn shadows(names: &[TableName]) -> BTreeMap<TableName, TableName> {
    let all: BTreeSet<&TableName> = names.iter().collect();
    let mut found = BTreeMap::new();
    for name in names {
        if let Some(shadow) = shadow(&name.table) {
            let original = TableName::new(name.database.as_str(), shadow.original);
            if shadow.is_sure || all.contains(&original) {
                found.insert(name.clone(), original);
            }
        }
    }
    found
}
