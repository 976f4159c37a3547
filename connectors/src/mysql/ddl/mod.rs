//! What a logged statement does to captured tables.
//!
//! A lexer and a reader of clauses, not a grammar: what a clause does to columns, keys and rows
//! is kept, the rest is skipped. Nothing is ever guessed: where a statement on a captured table is
//! not understood, the answer is [`Effect::Dark`], and the server is asked what the table is now.

mod alter;
mod clauses;
mod column;
mod cursor;
mod lexer;
mod names;
mod rows;
mod steps;

#[cfg(test)]
mod tests;

use self::{
    cursor::Cursor,
    lexer::{Token, tokens},
};
pub(crate) use self::{
    lexer::Dialect,
    names::{shadow, shadows},
    steps::difference,
};
use super::{table::MysqlTable, types::TypeOptions};
use crate::{
    change::{ColumnStep, RowsAfter},
    schema::TableName,
};

/// Where a new column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before all others.
    First,
    /// Behind the named one.
    After(String),
}

/// A captured table after a statement that is understood wholly.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// The table after it, at its next version.
    pub table: MysqlTable,
    /// The way there.
    pub steps: Vec<ColumnStep>,
    /// What became of the rows.
    pub rows: RowsAfter,
}

/// What a statement does to one table. All but [`Effect::Came`] name captured tables only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// The table changes as told.
    Change(Box<Change>),
    /// What the table is from now on is not known; why, as a clause that follows "it".
    Dark(TableName, String),
    /// The table is dropped.
    Dropped(TableName),
    /// The table has another name now, and no other table has its own.
    Moved(TableName),
    /// A table of this name comes into being; `true`: unless there is one.
    Came(TableName, bool),
    /// A statement that changes rows and was logged as text.
    Rows(String),
}

/// The tables that the job captures, as of the statement.
pub(crate) trait Captured {
    /// A captured table by name.
    fn table(&self, database: &str, table: &str) -> Option<&MysqlTable>;
    /// Captured tables of a database.
    fn in_database(&self, database: &str) -> Vec<&TableName>;
    /// All captured tables.
    fn names(&self) -> Box<dyn Iterator<Item = &TableName> + '_>;
    /// The index that serves as the key of a table without a primary key.
    fn key_index(&self, table: &TableName) -> Option<&str>;
    /// Whether it is not known what a captured table is.
    fn is_dark(&self, table: &TableName) -> bool;
    /// Whether names of databases and tables compare without case.
    fn folds(&self) -> bool;
}

/// What the session's `sql_mode` makes of a statement's meaning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mode {
    /// Values that do not fit make the statement fail.
    pub strict: bool,
    /// REAL is FLOAT.
    pub real_as_float: bool,
}

/// What the statement's meaning depends on.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Captured tables.
    pub captured: &'a dyn Captured,
    /// The database of names without one.
    pub database: &'a str,
    /// How the text is read.
    pub dialect: Dialect,
    /// How values are converted.
    pub mode: Mode,
    /// The collation of `utf8mb4` where none is named.
    pub utf8mb4_collation: &'a str,
    /// How types are mapped.
    pub types: &'a TypeOptions,
    /// A TIMESTAMP column without NULL or NOT NULL may hold NULL.
    pub timestamps_nullable: bool,
    /// Foreign keys whose actions leave no trace in the log are accepted.
    pub accept_cascades: bool,
}

/// Effects of a text on captured tables, in order; none: harmless.
pub(crate) fn effects(text: &str, context: &Context<'_>) -> Vec<Effect> {
    let tokens = match tokens(text, context.dialect) {
        Ok(tokens) => tokens,
        Err(reason) => {
            let text = text.to_lowercase();
            return context
                .captured
                .names()
                .filter(|name| text.contains(&name.table.to_lowercase()))
                .map(|name| Effect::Dark(name.clone(), format!("cannot be read: {reason}")))
                .collect();
        }
    };
    let mut effects = Vec::new();
    let mut rest = tokens.as_slice();
    while !rest.is_empty() {
        if has_body(rest) {
            break;
        }
        let end = rest
            .iter()
            .position(|token| token.is_symbol(';'))
            .unwrap_or(rest.len());
        let (statement, behind) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        statement_effects(&mut Cursor::new(statement), context, &mut effects);
        rest = behind.get(1..).unwrap_or_default();
    }
    effects
}

/// Stored programs and views: their bodies hold `;` and any words.
fn has_body(tokens: &[Token]) -> bool {
    let kind = tokens
        .first()
        .filter(|first| first.is("CREATE") || first.is("ALTER"));
    if kind.is_none() {
        return false;
    }
    for token in tokens.iter().skip(1) {
        if [
            "PROCEDURE",
            "FUNCTION",
            "TRIGGER",
            "EVENT",
            "VIEW",
            "LIBRARY",
        ]
        .iter()
        .any(|word| token.is(word))
        {
            return true;
        }
        if [
            "TABLE", "INDEX", "DATABASE", "SCHEMA", "USER", "ROLE", "SERVER",
        ]
        .iter()
        .any(|word| token.is(word))
        {
            return false;
        }
    }
    false
}

fn statement_effects(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    let all = cursor.rest();
    let Some(Token::Word(verb)) = cursor.next() else {
        return mentioned(all, context, effects);
    };
    match verb.to_ascii_uppercase().as_str() {
        "ALTER" => alter_statement(cursor, context, effects),
        "CREATE" => create(cursor, context, effects),
        "DROP" => drop(cursor, context, effects),
        "RENAME" => {
            if cursor.eat("TABLE") || cursor.eat("TABLES") {
                names::renamed(cursor, context, effects);
            }
        }
        "TRUNCATE" => {
            cursor.eat("TABLE");
            if let Some(table) = captured(cursor, context) {
                effects.push(alter::same_columns(table, RowsAfter::Gone));
            }
        }
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH" | "CALL" | "DO" | "SELECT"
        | "IMPORT" | "TABLE" | "VALUES" | "HANDLER" => {
            if !only_system(all) {
                effects.push(Effect::Rows(verb.to_ascii_uppercase()));
            }
        }
        "ANALYZE" | "OPTIMIZE" | "CHECK" | "REPAIR" | "CHECKSUM" | "CACHE" | "FLUSH" | "GRANT"
        | "REVOKE" | "SET" | "USE" | "INSTALL" | "UNINSTALL" | "PURGE" | "RESET" | "KILL"
        | "LOCK" | "UNLOCK" | "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT"
        | "RELEASE" | "XA" | "STOP" | "CHANGE" | "CLONE" | "SHUTDOWN" | "RESTART" | "SHOW" => {}
        _ => mentioned(all, context, effects),
    }
}

/// Of a statement that is not known, every captured table whose name is in it is unsure.
fn mentioned(tokens: &[Token], context: &Context<'_>, effects: &mut Vec<Effect>) {
    for name in context.captured.names() {
        let hit = tokens
            .iter()
            .filter_map(Token::name)
            .any(|word| word.eq_ignore_ascii_case(&name.table));
        if hit {
            effects.push(Effect::Dark(
                name.clone(),
                "is a statement that is not known".into(),
            ));
        }
    }
}

/// Whether a row statement concerns the server's own schemas only (a managed server's
/// heartbeat table): its first table is qualified with one.
fn only_system(tokens: &[Token]) -> bool {
    let first_table = tokens.windows(2).find_map(|pair| match pair {
        [name, dot] if dot.is_symbol('.') => name.name(),
        _ => None,
    });
    tokens.iter().filter(|token| token.is_symbol('.')).count() == 1
        && first_table.is_some_and(|database| {
            ["mysql", "sys", "performance_schema"]
                .iter()
                .any(|own| database.eq_ignore_ascii_case(own))
        })
}

fn alter_statement(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    let mut context = *context;
    while cursor.at("ONLINE") || cursor.at("OFFLINE") || cursor.at("IGNORE") {
        // IGNORE makes values fit.
        context.mode.strict &= !cursor.at("IGNORE");
        cursor.next();
    }
    let context = &context;
    let before = cursor.rest();
    if !cursor.eat("TABLE") {
        let known = [
            "DATABASE",
            "SCHEMA",
            "USER",
            "SERVER",
            "INSTANCE",
            "TABLESPACE",
            "LOGFILE",
            "UNDO",
            "RESOURCE",
            "ROLE",
            "JSON",
        ];
        if !before
            .first()
            .is_some_and(|token| known.iter().any(|word| token.is(word)))
        {
            mentioned(before, context, effects);
        }
        return;
    }
    cursor.eat_all(&["IF", "EXISTS"]);
    match captured(cursor, context) {
        Some(table) => alter::effects(cursor, table, context, effects),
        // Of others only their names count, and rows that they exchange.
        None => alter::of_another(cursor, context, effects),
    }
}

/// Reads a name; gives the captured table that has it.
fn captured<'a>(cursor: &mut Cursor<'_>, context: &Context<'a>) -> Option<&'a MysqlTable> {
    let (database, table) = cursor.qualified(context.database)?;
    context.captured.table(&database, &table)
}

fn create(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    let before = cursor.rest();
    cursor.eat_all(&["OR", "REPLACE"]);
    if cursor.eat("TEMPORARY") {
        return;
    }
    if !cursor.eat("TABLE") {
        let known = [
            "DATABASE",
            "SCHEMA",
            "USER",
            "ROLE",
            "SERVER",
            "TABLESPACE",
            "LOGFILE",
            "UNDO",
            "SPATIAL",
            "INDEX",
            "UNIQUE",
            "FULLTEXT",
            "RESOURCE",
        ];
        if !before
            .first()
            .is_some_and(|token| known.iter().any(|word| token.is(word)))
        {
            mentioned(before, context, effects);
        }
        return;
    }
    let unless_there = cursor.eat_all(&["IF", "NOT", "EXISTS"]);
    let Some((database, table)) = cursor.qualified(context.database) else {
        return mentioned(before, context, effects);
    };
    let known = context.captured.table(&database, &table);
    let name = match known {
        Some(known) => known.name.clone(),
        None => TableName::new(database, table),
    };
    effects.push(Effect::Came(name, unless_there));
}

fn drop(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    if cursor.eat("TEMPORARY") {
        return;
    }
    if cursor.eat("TABLE") || cursor.eat("TABLES") {
        cursor.eat_all(&["IF", "EXISTS"]);
        loop {
            if let Some(table) = captured(cursor, context) {
                effects.push(Effect::Dropped(table.name.clone()));
            }
            if !cursor.eat_symbol(',') {
                return;
            }
        }
    }
    if cursor.eat("DATABASE") || cursor.eat("SCHEMA") {
        cursor.eat_all(&["IF", "EXISTS"]);
        let database = cursor.next().and_then(Token::name).unwrap_or_default();
        let tables = context.captured.in_database(database);
        effects.extend(tables.into_iter().cloned().map(Effect::Dropped));
    } else if cursor.eat("INDEX") {
        cursor.eat_all(&["IF", "EXISTS"]);
        let index = cursor.next().and_then(Token::name).map(str::to_owned);
        cursor.eat("ON");
        let table = captured(cursor, context);
        if let (Some(index), Some(table)) = (index, table)
            && (alter::is_key_index(&index, table, context)
                || context.captured.is_dark(&table.name))
        {
            effects.push(Effect::Dark(
                table.name.clone(),
                "drops the index that is the table's key".into(),
            ));
        }
    }
}

/// Whether a statement is about accounts: its text may hold a password and is never shown.
pub(crate) fn is_about_accounts(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    ["USER", "GRANT", "PASSWORD", "IDENTIFIED", "ROLE", "SERVER"]
        .iter()
        .any(|word| upper.contains(word))
}
