//! Clauses of ALTER TABLE on a captured table.

use super::{
    Context, Effect, Place,
    column::read_column,
    cursor::{Cursor, split_commas},
    lexer::Token,
};
use crate::mysql::table::{MysqlColumn, MysqlTable, same_name};

/// What one clause does.
enum Clause {
    Harmless,
    Add(Vec<(MysqlColumn, Place)>),
}

/// Options of a table that leave its rows and columns alone, as `NAME [=] value`.
const OPTIONS: [&str; 32] = [
    "COMMENT",
    "ROW_FORMAT",
    "AUTO_INCREMENT",
    "KEY_BLOCK_SIZE",
    "STATS_PERSISTENT",
    "STATS_AUTO_RECALC",
    "STATS_SAMPLE_PAGES",
    "COMPRESSION",
    "ENCRYPTION",
    "TABLESPACE",
    "CHECKSUM",
    "AVG_ROW_LENGTH",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "DELAY_KEY_WRITE",
    "PASSWORD",
    "CONNECTION",
    "AUTOEXTEND_SIZE",
    "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE",
    "ALGORITHM",
    "LOCK",
    "INSERT_METHOD",
    "TABLE_CHECKSUM",
    "PAGE_CHECKSUM",
    "TRANSACTIONAL",
    "STORAGE",
    "STATS_SAMPLE",
    "START",
    "NODEGROUP",
];

/// Effects of what follows `ALTER TABLE name`.
pub(super) fn effects(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
    effects: &mut Vec<Effect>,
) {
    let mut added = Vec::new();
    if !keeps_rows_of_partitions(cursor) {
        for clause in split_commas(cursor.rest()) {
            match read_clause(&mut Cursor::new(clause), table, context) {
                Ok(Clause::Harmless) => {}
                Ok(Clause::Add(columns)) => added.extend(columns),
                Err(reason) => {
                    effects.push(Effect::Refuse(table.name.clone(), reason));
                    return;
                }
            }
        }
    }
    if !added.is_empty() {
        effects.push(Effect::AddColumns(table.name.clone(), added));
    }
}

/// Partition maintenance that keeps every row. These stand alone in a statement, and their lists
/// have commas.
fn keeps_rows_of_partitions(cursor: &Cursor<'_>) -> bool {
    [
        "REORGANIZE",
        "ANALYZE",
        "CHECK",
        "OPTIMIZE",
        "REBUILD",
        "REPAIR",
        "COALESCE",
    ]
    .iter()
    .any(|verb| cursor.at(verb) && cursor.then("PARTITION"))
        || (cursor.at("ADD") && cursor.then("PARTITION"))
        || (cursor.at("PARTITION") && cursor.then("BY"))
        || (cursor.at("REMOVE") && cursor.then("PARTITIONING"))
        || (cursor.at("UPGRADE") && cursor.then("PARTITIONING"))
        || (["SECONDARY_LOAD", "SECONDARY_UNLOAD"]
            .iter()
            .any(|word| cursor.at(word)))
}

fn read_clause(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
) -> Result<Clause, String> {
    let Some(first) = cursor.peek() else {
        return Ok(Clause::Harmless);
    };
    let Token::Word(word) = first else {
        return Err("has a clause that is not known".into());
    };
    match word.to_ascii_uppercase().as_str() {
        "ADD" => {
            cursor.next();
            return read_add(cursor, table, context);
        }
        "DROP" => {
            cursor.next();
            read_drop(cursor, table, context)?;
        }
        "ALTER" => {
            // Defaults, visibility, and the enforcement of checks: rows are logged whole.
        }
        "MODIFY" | "CHANGE" => return Err("changes a column".into()),
        "RENAME" => {
            cursor.next();
            if !(cursor.eat("INDEX") || cursor.eat("KEY")) {
                return Err(if cursor.at("COLUMN") {
                    "renames a column".into()
                } else {
                    "renames the table".into()
                });
            }
            refuse_key_index(cursor, table, context, "renames the table's key")?;
        }
        "CONVERT" => return Err("converts the table's text".into()),
        "DISCARD" | "IMPORT" => return Err("replaces the table's file".into()),
        "EXCHANGE" => return Err("exchanges a partition's rows".into()),
        "TRUNCATE" => return Err("removes a partition's rows".into()),
        "FORCE" | "ENABLE" | "DISABLE" | "WITH" | "WITHOUT" => {}
        _ => read_options(cursor)?,
    }
    Ok(Clause::Harmless)
}

/// `NAME [=] value …`, up to the end or to PARTITION BY.
fn read_options(cursor: &mut Cursor<'_>) -> Result<(), String> {
    while let Some(token) = cursor.next() {
        let Token::Word(name) = token else {
            return Err("has a clause that is not known".into());
        };
        let name = name.to_ascii_uppercase();
        match name.as_str() {
            "PARTITION" if cursor.at("BY") => return Ok(()),
            "REMOVE" if cursor.at("PARTITIONING") => return Ok(()),
            "FORCE" => continue,
            "DATA" | "INDEX" if cursor.eat("DIRECTORY") => {}
            "DEFAULT" | "CHARACTER" | "CHARSET" | "COLLATE" => {
                return Err("changes the table's default character set".into());
            }
            "ENGINE" | "TYPE" => {
                cursor.eat_symbol('=');
                if !cursor
                    .next()
                    .and_then(Token::name)
                    .is_some_and(|engine| engine.eq_ignore_ascii_case("innodb"))
                {
                    return Err("changes the table's engine".into());
                }
                continue;
            }
            known if OPTIONS.contains(&known) => {}
            other => return Err(format!("has a clause that is not known ({other})")),
        }
        cursor.eat_symbol('=');
        if cursor.bracketed().is_none() {
            cursor.next();
        }
    }
    Ok(())
}

fn read_add(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
) -> Result<Clause, String> {
    for index in [
        "INDEX",
        "KEY",
        "FULLTEXT",
        "SPATIAL",
        "UNIQUE",
        "PARTITION",
        "CHECK",
    ] {
        if cursor.at(index) {
            return Ok(Clause::Harmless);
        }
    }
    if cursor.at("CONSTRAINT") || cursor.at("PRIMARY") || cursor.at("FOREIGN") {
        return read_constraint(cursor, context).map(|()| Clause::Harmless);
    }
    if cursor.at("PERIOD") || cursor.at("SYSTEM") {
        return Err("has a clause that is not known".into());
    }
    cursor.eat("COLUMN");
    let if_not_exists = cursor.eat_all(&["IF", "NOT", "EXISTS"]);
    let mut added = Vec::new();
    if let Some(list) = cursor.bracketed() {
        for item in split_commas(list) {
            let item = &mut Cursor::new(item);
            // Indexes and constraints may stand in the list as well.
            if ["INDEX", "KEY", "FULLTEXT", "SPATIAL", "UNIQUE", "CHECK"]
                .iter()
                .any(|word| item.at(word))
            {
                continue;
            }
            if item.at("CONSTRAINT") || item.at("PRIMARY") || item.at("FOREIGN") {
                read_constraint(item, context)?;
                continue;
            }
            added.push(read_column(item, table, context)?);
        }
        read_options(cursor)?;
    } else {
        added.push(read_column(cursor, table, context)?);
    }
    if if_not_exists {
        added.retain(|(column, _)| table.column(&column.name).is_none());
    }
    Ok(Clause::Add(added))
}

/// `[CONSTRAINT [name]] PRIMARY KEY | UNIQUE | CHECK | FOREIGN KEY …`.
fn read_constraint(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Result<(), String> {
    if cursor.eat("CONSTRAINT")
        && !["PRIMARY", "UNIQUE", "CHECK", "FOREIGN"]
            .iter()
            .any(|word| cursor.at(word))
    {
        cursor.next();
    }
    if cursor.at("PRIMARY") {
        return Err("changes the table's key".into());
    }
    if cursor.at("UNIQUE") || cursor.at("CHECK") {
        return Ok(());
    }
    if !cursor.at("FOREIGN") {
        return Err("has a constraint that is not known".into());
    }
    let acts = cursor
        .rest()
        .windows(2)
        .any(|pair| matches!(pair, [on, what] if on.is("ON") && (what.is("DELETE") || what.is("UPDATE"))))
        && cursor.rest().windows(2).any(|pair| {
            matches!(pair, [one, two] if one.is("CASCADE") || two.is("CASCADE")
                || (one.is("SET") && (two.is("NULL") || two.is("DEFAULT"))))
        });
    if acts && !context.accept_cascades {
        return Err("adds a foreign key that changes rows without a trace in the log".into());
    }
    Ok(())
}

fn read_drop(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
) -> Result<(), String> {
    if cursor.at("PRIMARY") {
        return Err("drops the table's key".into());
    }
    if cursor.at("PARTITION") {
        return Err("drops a partition and its rows".into());
    }
    if cursor.eat("FOREIGN") || cursor.at("CHECK") {
        return Ok(());
    }
    if cursor.eat("INDEX") || cursor.eat("KEY") || cursor.eat("CONSTRAINT") {
        return refuse_key_index(cursor, table, context, "drops the table's key");
    }
    Err("drops a column".into())
}

fn refuse_key_index(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
    reason: &str,
) -> Result<(), String> {
    cursor.eat_all(&["IF", "EXISTS"]);
    match cursor.next().and_then(Token::name) {
        Some(index) if is_key_index(index, table, context) => Err(reason.into()),
        _ => Ok(()),
    }
}

/// Whether an index is the one that keeps the table's key unique.
pub(super) fn is_key_index(index: &str, table: &MysqlTable, context: &Context<'_>) -> bool {
    let key = context.captured.key_index(&table.name).unwrap_or("PRIMARY");
    same_name(index, key)
}
