//! Clauses of ALTER TABLE, read one by one.

use super::{
    Context,
    column::{Definition, text_value, word_value},
    cursor::{Cursor, split_commas},
    lexer::Token,
};
use crate::mysql::collations::{charset_of, default_collation, full_name};

/// What one clause does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Clause {
    /// Columns, keys, names and rows are as they were.
    Harmless,
    /// New columns, and whether those that are there already are left alone.
    Add(Vec<Definition>, bool),
    /// A column is defined anew, under a new name or its own; "if exists".
    Change(String, Box<Definition>, bool),
    Drop(String, bool),
    RenameColumn(String, String, bool),
    /// Columns become invisible, or visible.
    Invisible(String, bool),
    /// A column's default: of no account to rows that are there.
    Default,
    DropPrimary,
    AddPrimary(Vec<String>),
    /// An index gets another name, or goes (`None`).
    Index(String, Option<String>),
    /// The table's name from now on.
    Rename(String, String),
    Comment(String),
    /// The table's character set and collation for columns without their own.
    Text(String, String),
    Engine(String),
    /// Rows are others than before: why, as a clause that follows "it".
    Rows(&'static str),
    /// Rows are others here and in the named table.
    Exchange(String, String),
}

/// Options of a table that leave its rows and columns alone, as `NAME [=] value`.
const OPTIONS: [&str; 34] = [
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
    "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL",
    "ENCRYPTED",
    "ENCRYPTION_KEY_ID",
    "TRANSACTIONAL",
    "STORAGE",
    "START",
    "NODEGROUP",
];

/// Reads what follows `ALTER TABLE name`. An error says what is not understood, as a clause that
/// follows "it".
pub(super) fn read(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Result<Vec<Clause>, String> {
    // MariaDB: how long to wait for the table.
    if cursor.eat("WAIT") {
        cursor.next();
    }
    cursor.eat("NOWAIT");
    if let Some(clause) = of_partitions(cursor, context)? {
        return Ok(vec![clause]);
    }
    let mut clauses = Vec::new();
    for clause in split_commas(cursor.rest()) {
        read_clause(&mut Cursor::new(clause), context, &mut clauses)?;
    }
    Ok(clauses)
}

/// Maintenance of partitions. These stand alone in a statement, and their lists have commas.
fn of_partitions(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Result<Option<Clause>, String> {
    let keeps = [
        "REORGANIZE",
        "ANALYZE",
        "CHECK",
        "OPTIMIZE",
        "REBUILD",
        "REPAIR",
        "COALESCE",
        "ADD",
        // The file is taken away, and another one comes by IMPORT.
        "DISCARD",
    ];
    if keeps
        .iter()
        .any(|verb| cursor.at(verb) && cursor.then("PARTITION"))
        || cursor.at("PARTITION") && cursor.then("BY")
        || ["REMOVE", "UPGRADE"]
            .iter()
            .any(|verb| cursor.at(verb) && cursor.then("PARTITIONING"))
        || cursor.at("SECONDARY_LOAD")
        || cursor.at("SECONDARY_UNLOAD")
        || cursor.at("DISCARD") && cursor.then("TABLESPACE")
    {
        return Ok(Some(Clause::Harmless));
    }
    if cursor.eat_all(&["EXCHANGE", "PARTITION"]) {
        cursor.next();
        if !cursor.eat_all(&["WITH", "TABLE"]) {
            return Err("exchanges a partition in words that are not known".into());
        }
        let other = cursor.qualified(context.database);
        let (database, table) = other.ok_or("exchanges a partition with a table without a name")?;
        return Ok(Some(Clause::Exchange(database, table)));
    }
    for (verb, what) in [
        ("DROP", "drops a partition and its rows"),
        ("TRUNCATE", "removes a partition's rows"),
        ("IMPORT", "replaces a partition's file"),
    ] {
        if cursor.at(verb) && cursor.then("PARTITION") {
            return Ok(Some(Clause::Rows(what)));
        }
    }
    if cursor.at("IMPORT") && cursor.then("TABLESPACE") {
        return Ok(Some(Clause::Rows("replaces the table's file")));
    }
    Ok(None)
}

fn read_clause(
    cursor: &mut Cursor<'_>,
    context: &Context<'_>,
    clauses: &mut Vec<Clause>,
) -> Result<(), String> {
    let Some(first) = cursor.peek() else {
        return Ok(());
    };
    let Token::Word(word) = first else {
        return Err("has a clause that is not known".into());
    };
    let word = word.to_ascii_uppercase();
    if !matches!(
        word.as_str(),
        "ADD"
            | "DROP"
            | "ALTER"
            | "MODIFY"
            | "CHANGE"
            | "RENAME"
            | "CONVERT"
            | "FORCE"
            | "ENABLE"
            | "DISABLE"
            | "WITH"
            | "WITHOUT"
    ) {
        return read_options(cursor, context, clauses);
    }
    cursor.next();
    match word.as_str() {
        "ADD" => read_add(cursor, context, clauses)?,
        "DROP" => clauses.push(read_drop(cursor)?),
        "ALTER" => clauses.push(read_alter(cursor)?),
        "MODIFY" | "CHANGE" => {
            cursor.eat("COLUMN");
            let if_exists = cursor.eat_all(&["IF", "EXISTS"]);
            let mut old = None;
            if word == "CHANGE" {
                old = Some(name(cursor, "changes a column without a name")?);
            }
            let definition = Definition::read(cursor)?;
            let old = old.unwrap_or_else(|| definition.name.clone());
            clauses.push(Clause::Change(old, Box::new(definition), if_exists));
        }
        "RENAME" => clauses.push(read_rename(cursor, context)?),
        "CONVERT" => return Err("converts the table's text".into()),
        "ENABLE" | "DISABLE" if cursor.eat("KEYS") => {}
        "WITH" | "WITHOUT" if cursor.eat("VALIDATION") => {}
        "FORCE" => {}
        other => return Err(format!("has a clause that is not known ({other})")),
    }
    read_options(cursor, context, clauses)
}

fn name(cursor: &mut Cursor<'_>, what: &str) -> Result<String, String> {
    let name = cursor.next().and_then(Token::name);
    name.map(str::to_owned).ok_or_else(|| what.to_owned())
}

/// `NAME [=] value …`, up to the end or to PARTITION BY.
fn read_options(
    cursor: &mut Cursor<'_>,
    context: &Context<'_>,
    clauses: &mut Vec<Clause>,
) -> Result<(), String> {
    while let Some(token) = cursor.next() {
        let Token::Word(name) = token else {
            return Err("has a clause that is not known".into());
        };
        let name = name.to_ascii_uppercase();
        match name.as_str() {
            "PARTITION" if cursor.at("BY") => return Ok(()),
            "REMOVE" if cursor.eat("PARTITIONING") => continue,
            "FORCE" => continue,
            "DATA" | "INDEX" if cursor.eat("DIRECTORY") => {}
            "COMMENT" => {
                clauses.push(Clause::Comment(text_value(cursor)?));
                continue;
            }
            "DEFAULT" => continue,
            "CHARACTER" if cursor.eat("SET") => {
                clauses.push(charset(&word_value(cursor)?, context)?);
                continue;
            }
            "CHARSET" => {
                clauses.push(charset(&word_value(cursor)?, context)?);
                continue;
            }
            "COLLATE" => {
                let collation = full_name(&word_value(cursor)?);
                if collation == "default" {
                    return Err("takes the database's default collation".into());
                }
                clauses.push(Clause::Text(charset_of(&collation).to_owned(), collation));
                continue;
            }
            "ENGINE" | "TYPE" => {
                clauses.push(Clause::Engine(word_value(cursor)?));
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

fn charset(named: &str, context: &Context<'_>) -> Result<Clause, String> {
    let charset = full_name(named);
    match default_collation(&charset, context.utf8mb4_collation) {
        Some(collation) => Ok(Clause::Text(charset, collation.to_owned())),
        None => Err(format!("names a character set that is not known ({named})")),
    }
}

const INDEXES: [&str; 6] = ["INDEX", "KEY", "FULLTEXT", "SPATIAL", "UNIQUE", "CHECK"];

fn read_add(
    cursor: &mut Cursor<'_>,
    context: &Context<'_>,
    clauses: &mut Vec<Clause>,
) -> Result<(), String> {
    if cursor.at("PARTITION") || INDEXES.iter().any(|word| cursor.at(word)) {
        cursor.skip();
        return Ok(());
    }
    if cursor.at("CONSTRAINT") || cursor.at("PRIMARY") || cursor.at("FOREIGN") {
        clauses.push(read_constraint(cursor, context)?);
        cursor.skip();
        return Ok(());
    }
    let is_period = cursor.at("PERIOD") && cursor.then("FOR");
    if is_period || cursor.at("SYSTEM") && cursor.then("VERSIONING") {
        return Err("has a clause that is not known".into());
    }
    cursor.eat("COLUMN");
    let if_not_exists = cursor.eat_all(&["IF", "NOT", "EXISTS"]);
    let mut added = Vec::new();
    if let Some(list) = cursor.bracketed() {
        for item in split_commas(list) {
            let item = &mut Cursor::new(item);
            // Indexes and constraints may stand in the list as well.
            if INDEXES.iter().any(|word| item.at(word)) {
                continue;
            }
            if item.at("CONSTRAINT") || item.at("PRIMARY") || item.at("FOREIGN") {
                clauses.push(read_constraint(item, context)?);
                continue;
            }
            added.push(Definition::read(item)?);
        }
    } else {
        added.push(Definition::read(cursor)?);
    }
    if !context.accept_cascades && added.iter().any(|column| column.references) {
        return Err("adds a column with a foreign key".into());
    }
    clauses.push(Clause::Add(added, if_not_exists));
    Ok(())
}

/// `[CONSTRAINT [name]] PRIMARY KEY | UNIQUE | CHECK | FOREIGN KEY …`.
fn read_constraint(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Result<Clause, String> {
    if cursor.eat("CONSTRAINT")
        && !["PRIMARY", "UNIQUE", "CHECK", "FOREIGN"]
            .iter()
            .any(|word| cursor.at(word))
    {
        cursor.next();
    }
    if cursor.eat("PRIMARY") {
        cursor.eat("KEY");
        // A name or USING BTREE may stand before the columns.
        while cursor.peek().is_some_and(|token| !token.is_symbol('(')) {
            cursor.next();
        }
        let columns = cursor.bracketed().ok_or("adds a key without columns")?;
        let mut key = Vec::new();
        for part in split_commas(columns) {
            match part {
                [name] => key.push(name.name()),
                [name, order] if order.is("ASC") || order.is("DESC") => key.push(name.name()),
                _ => return Err("adds a key over parts of columns".into()),
            }
        }
        let key: Option<Vec<String>> = key.into_iter().map(|name| Some(name?.into())).collect();
        return Ok(Clause::AddPrimary(key.ok_or("adds a key without columns")?));
    }
    if cursor.at("UNIQUE") || cursor.at("CHECK") {
        return Ok(Clause::Harmless);
    }
    if !cursor.at("FOREIGN") {
        return Err("has a constraint that is not known".into());
    }
    let pairs = || cursor.rest().windows(2);
    let acts = pairs().any(|pair| {
        matches!(pair, [on, what] if on.is("ON") && (what.is("DELETE") || what.is("UPDATE")))
    }) && pairs().any(|pair| {
        matches!(pair, [one, two] if one.is("CASCADE") || two.is("CASCADE")
            || (one.is("SET") && (two.is("NULL") || two.is("DEFAULT"))))
    });
    match acts && !context.accept_cascades {
        true => Err("adds a foreign key with actions".into()),
        false => Ok(Clause::Harmless),
    }
}

fn read_drop(cursor: &mut Cursor<'_>) -> Result<Clause, String> {
    if cursor.at("PRIMARY") && cursor.then("KEY") {
        cursor.eat_all(&["PRIMARY", "KEY"]);
        return Ok(Clause::DropPrimary);
    }
    if cursor.at("PERIOD") && cursor.then("FOR") || cursor.at("SYSTEM") && cursor.then("VERSIONING")
    {
        return Err("has a clause that is not known".into());
    }
    if cursor.at("FOREIGN") && cursor.then("KEY") {
        cursor.eat_all(&["FOREIGN", "KEY"]);
        cursor.eat_all(&["IF", "EXISTS"]);
        cursor.next();
        return Ok(Clause::Harmless);
    }
    if cursor.eat("CHECK") {
        cursor.next();
        return Ok(Clause::Harmless);
    }
    if cursor.eat("INDEX") || cursor.eat("KEY") || cursor.eat("CONSTRAINT") {
        cursor.eat_all(&["IF", "EXISTS"]);
        let index = name(cursor, "drops an index without a name")?;
        return Ok(Clause::Index(index, None));
    }
    cursor.eat("COLUMN");
    let if_exists = cursor.eat_all(&["IF", "EXISTS"]);
    let column = name(cursor, "drops a column without a name")?;
    let _ = cursor.eat("RESTRICT") || cursor.eat("CASCADE");
    Ok(Clause::Drop(column, if_exists))
}

/// Defaults and visibility; the enforcement of checks and the visibility of indexes are of no
/// account.
fn read_alter(cursor: &mut Cursor<'_>) -> Result<Clause, String> {
    if ["INDEX", "CHECK", "CONSTRAINT", "KEY"]
        .iter()
        .any(|word| cursor.at(word))
        && matches!(cursor.rest().get(1), Some(Token::Word(_) | Token::Name(_)))
        && !cursor.then("SET")
        && !cursor.then("DROP")
    {
        cursor.skip();
        return Ok(Clause::Harmless);
    }
    cursor.eat("COLUMN");
    let column = name(cursor, "alters a column without a name")?;
    let clause = match cursor.rest() {
        [set, invisible, ..] if set.is("SET") && invisible.is("INVISIBLE") => {
            Clause::Invisible(column, true)
        }
        [set, visible, ..] if set.is("SET") && visible.is("VISIBLE") => {
            Clause::Invisible(column, false)
        }
        [verb, default, ..] if (verb.is("SET") || verb.is("DROP")) && default.is("DEFAULT") => {
            Clause::Default
        }
        _ => {
            return Err(format!(
                "alters column {column} in words that are not known"
            ));
        }
    };
    cursor.skip();
    Ok(clause)
}

fn read_rename(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Result<Clause, String> {
    // A table may be called `index`, but not without quotes.
    if cursor.eat("INDEX") || cursor.eat("KEY") {
        cursor.eat_all(&["IF", "EXISTS"]);
        let from = name(cursor, "renames an index without a name")?;
        cursor.eat("TO");
        let to = name(cursor, "renames an index without a name")?;
        return Ok(Clause::Index(from, Some(to)));
    }
    if cursor.eat("COLUMN") {
        let if_exists = cursor.eat_all(&["IF", "EXISTS"]);
        let from = name(cursor, "renames a column without a name")?;
        cursor.eat("TO");
        let to = name(cursor, "renames a column without a name")?;
        return Ok(Clause::RenameColumn(from, to, if_exists));
    }
    let _ = cursor.eat("TO") || cursor.eat("AS") || cursor.eat_symbol('=');
    let to = cursor.qualified(context.database);
    let (database, table) = to.ok_or("renames the table to a name that cannot be read")?;
    Ok(Clause::Rename(database, table))
}
