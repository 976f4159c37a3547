//! Values that are small languages: table patterns, the partition key, server ids, paths, kinds of
//! schema change.

use std::collections::{BTreeMap, BTreeSet};

use headwater_connectors::schema::TableName;
use headwater_paimon::{Error, Location};

use super::{job_file::SchemaChangeKind, key};
use crate::route::regex_reason;

/// Checks the syntax of `tables`: `database.table` patterns separated by `,`.
///
/// Flink CDC's `Selectors` split at every `.` without a backslash in front and compile each part
/// by itself, so the usual slip `db.t_.*` gives three parts, of which the last is no pattern.
pub(crate) fn check_tables(patterns: &str) -> Result<(), String> {
    let mut any = false;
    for pattern in split_unescaped(patterns, ',') {
        let pattern = pattern.trim();
        if pattern.is_empty() {
            continue;
        }
        any = true;
        let parts: Vec<&str> = split_unescaped(pattern, '.');
        let dangling = parts
            .iter()
            .any(|part| part.trim().is_empty() || part.trim().starts_with(['*', '+', '?']));
        if dangling {
            return Err(format!(
                "in `{pattern}`, a bare `.` parts database from table; \
                 write `\\.` for the regular expression's any character, as in `db.\\.*`"
            ));
        }
        let [database, table] = parts.as_slice() else {
            return Err(format!(
                "`{pattern}` is not `database.table`; write `\\.` for the regular expression's \
                 any character"
            ));
        };
        for part in [database, table] {
            regex::Regex::new(&part.trim().replace("\\.", ".").replace("\\,", ",")).map_err(
                |error| {
                    let reason = regex_reason(&error);
                    format!("`{pattern}` is no regular expression: {reason}")
                },
            )?;
        }
    }
    if any {
        Ok(())
    } else {
        Err("it names no table".to_owned())
    }
}

/// Splits at a character that no backslash stands in front of.
fn split_unescaped(text: &str, separator: char) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let here = c == separator && !escaped;
        escaped = c == '\\' && !escaped;
        here
    })
    .collect()
}

/// `5400` or `5400-5404`.
pub(crate) fn server_id(text: &str) -> Result<(u32, u32), String> {
    let wrong = || "write a number of at least 1, or a range such as `5400-5404`".to_owned();
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(wrong()),
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err("the range ends before it begins".to_owned());
    }
    Ok((first, last))
}

/// A local folder (a path, or a URL `file:/…`, `file:///…`, `file://localhost/…`), or a prefix of
/// a bucket (`s3://bucket/prefix`).
pub(crate) fn location(text: &str) -> Result<Location, String> {
    text.parse().map_err(|error| match error {
        Error::Location { message, .. } => message,
        other => other.to_string(),
    })
}

/// `db.t1:a,b;db.t2:c`.
pub(crate) fn partition_keys(text: &str) -> Result<BTreeMap<TableName, Vec<String>>, String> {
    let mut keys = BTreeMap::new();
    for item in text.split(';').map(str::trim).filter(|i| !i.is_empty()) {
        let wrong = || format!("`{item}` is not `database.table:column,column`");
        let (table, columns) = item.split_once(':').ok_or_else(wrong)?;
        let (database, table) = table.trim().split_once('.').ok_or_else(wrong)?;
        let columns: Vec<String> = columns
            .split(',')
            .map(|column| column.trim().to_owned())
            .collect();
        let unique: BTreeSet<&String> = columns.iter().collect();
        if database.is_empty()
            || table.is_empty()
            || table.contains('.')
            || columns.iter().any(String::is_empty)
        {
            return Err(wrong());
        }
        if unique.len() != columns.len() {
            return Err(format!("`{item}` names a column twice"));
        }
        let name = TableName::new(database, table);
        if keys.contains_key(&name) {
            return Err(format!("`{name}` is named twice"));
        }
        keys.insert(name, columns);
    }
    Ok(keys)
}

/// Every kind of schema change with its name.
pub(crate) const SCHEMA_CHANGES: [(&str, SchemaChangeKind); 8] = [
    ("add.column", SchemaChangeKind::AddColumn),
    ("alter.column.type", SchemaChangeKind::AlterColumnType),
    ("alter.table.comment", SchemaChangeKind::AlterTableComment),
    ("create.table", SchemaChangeKind::CreateTable),
    ("drop.column", SchemaChangeKind::DropColumn),
    ("drop.table", SchemaChangeKind::DropTable),
    ("rename.column", SchemaChangeKind::RenameColumn),
    ("truncate.table", SchemaChangeKind::TruncateTable),
];

/// The kinds that a name stands for: one, or a family such as `drop`, `column` or `all`.
///
/// Families as in Flink CDC's `SchemaChangeEventTypeFamily`: `alter` is only
/// `alter.column.type`, and `table` is all that end so and `alter.table.comment`.
pub(crate) fn schema_change(tag: &str) -> Result<Vec<SchemaChangeKind>, String> {
    let tag = tag.trim();
    let kinds: Vec<SchemaChangeKind> = SCHEMA_CHANGES
        .iter()
        .filter(|(name, kind)| match tag {
            "all" => true,
            "alter" => *kind == SchemaChangeKind::AlterColumnType,
            "add" | "create" | "drop" | "rename" => name.split('.').next() == Some(tag),
            "table" | "column" => name.split('.').nth(1) == Some(tag),
            _ => *name == tag,
        })
        .map(|(_, kind)| *kind)
        .collect();
    if kinds.is_empty() {
        let families = ["all", "add", "alter", "create", "drop", "rename", "table"];
        let names = SCHEMA_CHANGES.iter().map(|(name, _)| *name).chain(families);
        let hint = key::nearest(tag, names)
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        return Err(format!("`{tag}` is no kind of schema change{hint}"));
    }
    Ok(kinds)
}
