//! What a logged statement does to captured tables.
//!
//! A lexer and a reader of clauses, not a grammar: what a clause does to columns, keys and rows
//! is kept, the rest is skipped. Where a clause of a captured table is not known, the answer is
//! [`Effect::Refuse`]: nothing is ever guessed.

mod alter;
mod column;
mod cursor;
mod lexer;

#[cfg(test)]
mod tests;

pub(crate) use self::lexer::Dialect;
use self::{
    cursor::Cursor,
    lexer::{Token, tokens},
};
use super::{
    options::TableFilter,
    table::{MysqlColumn, MysqlTable},
    types::TypeOptions,
};
use crate::schema::TableName;

/// Where a new column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before all others.
    First,
    /// Behind the named one.
    After(String),
    /// Behind all others.
    Last,
}

/// What a statement does to one captured table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Columns are added, in this order; every row has NULL there.
    AddColumns(TableName, Vec<(MysqlColumn, Place)>),
    /// Something that cannot be followed; why, as a clause that follows "it".
    Refuse(TableName, String),
    /// A statement that changes rows and was logged as text.
    Rows(String),
    /// A table that is wanted and not captured comes into being, or gets its name.
    Created(TableName),
}

/// The tables that the job captures, as of the statement.
pub(crate) trait Captured {
    /// A captured table by name.
    fn table(&self, database: &str, table: &str) -> Option<&MysqlTable>;
    /// Any captured table of a database.
    fn in_database(&self, database: &str) -> Option<&MysqlTable>;
    /// All captured tables.
    fn names(&self) -> Box<dyn Iterator<Item = &TableName> + '_>;
    /// The index that serves as the key of a table without a primary key.
    fn key_index(&self, table: &TableName) -> Option<&str>;
}

/// What the statement's meaning depends on.
pub(crate) struct Context<'a> {
    /// Captured tables.
    pub captured: &'a dyn Captured,
    /// Tables that the job file names.
    pub wanted: &'a TableFilter,
    /// The database of names without one.
    pub database: &'a str,
    /// How the text is read.
    pub dialect: Dialect,
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
                .map(|name| Effect::Refuse(name.clone(), format!("cannot be read: {reason}")))
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
        "RENAME" => rename(cursor, context, effects),
        "TRUNCATE" => {
            cursor.eat("TABLE");
            refuse_named(cursor, context, effects, "removes all rows");
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

/// A statement that is not known is refused when it has the name of a captured table in it.
fn mentioned(tokens: &[Token], context: &Context<'_>, effects: &mut Vec<Effect>) {
    for name in context.captured.names() {
        let hit = tokens
            .iter()
            .filter_map(Token::name)
            .any(|word| word.eq_ignore_ascii_case(&name.table));
        if hit {
            effects.push(Effect::Refuse(
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
    while cursor.eat("ONLINE") || cursor.eat("OFFLINE") || cursor.eat("IGNORE") {}
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
    if let Some(table) = cursor
        .qualified(context.database)
        .and_then(|(database, table)| context.captured.table(&database, &table))
    {
        alter::effects(cursor, table, context, effects);
    }
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
    let mut named = cursor.clone();
    named.eat_all(&["IF", "NOT", "EXISTS"]);
    created(&mut named, context, effects);
    // Of a table that exists, IF NOT EXISTS makes it nothing.
    if !cursor.eat_all(&["IF", "NOT", "EXISTS"]) {
        refuse_named(cursor, context, effects, "creates the table anew");
    }
}

fn drop(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    if cursor.eat("TEMPORARY") {
        return;
    }
    if cursor.eat("TABLE") || cursor.eat("TABLES") {
        cursor.eat_all(&["IF", "EXISTS"]);
        loop {
            refuse_named(cursor, context, effects, "drops the table");
            if !cursor.eat_symbol(',') {
                return;
            }
        }
    }
    if cursor.eat("DATABASE") || cursor.eat("SCHEMA") {
        cursor.eat_all(&["IF", "EXISTS"]);
        if let Some(table) = cursor
            .next()
            .and_then(Token::name)
            .and_then(|database| context.captured.in_database(database))
        {
            effects.push(Effect::Refuse(
                table.name.clone(),
                "drops the table's database".into(),
            ));
        }
    } else if cursor.eat("INDEX") {
        let index = cursor.next().and_then(Token::name).map(str::to_owned);
        cursor.eat("ON");
        let table = cursor
            .qualified(context.database)
            .and_then(|(database, table)| context.captured.table(&database, &table));
        if let (Some(index), Some(table)) = (index, table)
            && alter::is_key_index(&index, table, context)
        {
            effects.push(Effect::Refuse(
                table.name.clone(),
                "drops the table's key".into(),
            ));
        }
    }
}

fn rename(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    if !(cursor.eat("TABLE") || cursor.eat("TABLES")) {
        return;
    }
    loop {
        refuse_named(cursor, context, effects, "renames the table");
        if !(cursor.eat("TO") || cursor.eat("AS")) {
            return;
        }
        created(&mut cursor.clone(), context, effects);
        refuse_named(
            cursor,
            context,
            effects,
            "gives the table's name to another table",
        );
        if !cursor.eat_symbol(',') {
            return;
        }
    }
}

/// Reads a name and takes note when it is wanted and not captured.
fn created(cursor: &mut Cursor<'_>, context: &Context<'_>, effects: &mut Vec<Effect>) {
    let Some((database, table)) = cursor.qualified(context.database) else {
        return;
    };
    let name = TableName::new(database, table);
    let is_captured = context.captured.table(&name.database, &name.table);
    if is_captured.is_none() && context.wanted.matches(&name) {
        effects.push(Effect::Created(name));
    }
}

/// Reads a name and refuses when it is captured.
fn refuse_named(
    cursor: &mut Cursor<'_>,
    context: &Context<'_>,
    effects: &mut Vec<Effect>,
    reason: &str,
) {
    if let Some(table) = cursor
        .qualified(context.database)
        .and_then(|(database, table)| context.captured.table(&database, &table))
    {
        effects.push(Effect::Refuse(table.name.clone(), reason.into()));
    }
}

/// Whether a statement is about accounts: its text may hold a password and is never shown.
pub(crate) fn is_about_accounts(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    ["USER", "GRANT", "PASSWORD", "IDENTIFIED", "ROLE", "SERVER"]
        .iter()
        .any(|word| upper.contains(word))
}

/// Puts the added columns where they go. An error is a reason to refuse.
pub(crate) fn add_columns(
    table: &MysqlTable,
    added: &[(MysqlColumn, Place)],
) -> Result<MysqlTable, String> {
    let mut table = table.clone();
    for (column, place) in added {
        if table.column(&column.name).is_some() {
            return Err(format!(
                "adds column {}, which is there already",
                column.name
            ));
        }
        let at = match place {
            Place::First => 0,
            Place::Last => table.columns.len(),
            Place::After(name) => {
                1 + table
                    .columns
                    .iter()
                    .position(|own| super::table::same_name(&own.name, name))
                    .ok_or_else(|| format!("adds a column behind {name}, which is not there"))?
            }
        };
        table.columns.insert(at, column.clone());
    }
    table.version += 1;
    Ok(table)
}
