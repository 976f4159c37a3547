//! Tables and columns from the information schema, in few statements for many tables.

use std::collections::HashMap;

use mysql_async::{Conn, Params, Row, Value, prelude::Queryable};

use super::{
    collations::charset_of,
    connect::failed,
    select::SelectPlan,
    table::{Generated, MysqlColumn, MysqlTable},
    types::TypeOptions,
};
use crate::{
    error::{Error, Result},
    schema::TableName,
};

/// Schemas of the server itself.
const SYSTEM: &str = "'mysql','sys','information_schema','performance_schema'";

/// Tables asked about in one statement.
const BATCH: usize = 200;

/// All base tables outside the system schemas, by name.
///
/// # Errors
/// Transient when the server does not answer.
pub async fn list_tables(conn: &mut Conn) -> Result<Vec<TableName>> {
    let rows: Vec<(String, String)> = conn
        .query(format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
             WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ({SYSTEM}) \
             ORDER BY TABLE_SCHEMA, TABLE_NAME"
        ))
        .await
        .map_err(unreadable)?;
    Ok(rows
        .into_iter()
        .map(|(database, table)| TableName { database, table })
        .collect())
}

/// The named tables that exist, in the order of `names`.
///
/// # Errors
/// Transient when the server does not answer; Definite for the first table that cannot be
/// captured, see [`inspect_tables`].
pub async fn read_tables(
    conn: &mut Conn,
    names: &[TableName],
    options: &TypeOptions,
) -> Result<Vec<MysqlTable>> {
    let inspected = inspect_tables(conn, names, options).await?;
    inspected.into_iter().map(|(_, table)| table).collect()
}

/// The named tables that exist, in the order of `names`, each as a table or as the reason why its
/// rows cannot be read (a type or a character set that is not supported).
///
/// # Errors
/// Transient when the server does not answer.
pub async fn inspect_tables(
    conn: &mut Conn,
    names: &[TableName],
    options: &TypeOptions,
) -> Result<Vec<(TableName, Result<MysqlTable>)>> {
    let mut all = Vec::with_capacity(names.len());
    for names in names.chunks(BATCH) {
        let mut found = read_batch(conn, names, options).await?;
        all.extend(names.iter().filter_map(|name| found.remove_entry(name)));
    }
    Ok(all)
}

async fn read_batch(
    conn: &mut Conn,
    names: &[TableName],
    options: &TypeOptions,
) -> Result<HashMap<TableName, Result<MysqlTable>>> {
    let mut found = HashMap::with_capacity(names.len());
    for mut row in ask(
        conn,
        "ENGINE, TABLE_COLLATION, TABLE_COMMENT",
        "TABLES",
        "TABLE_TYPE = 'BASE TABLE'",
        "TABLE_NAME",
        names,
    )
    .await?
    {
        let name = name_of(&mut row);
        let collation = text(&mut row, 3).unwrap_or_default();
        let comment = text(&mut row, 4).filter(|comment| !comment.is_empty());
        found.insert(
            name.clone(),
            Ok(MysqlTable {
                name,
                version: 0,
                columns: Vec::new(),
                primary_key: Vec::new(),
                comment: comment.filter(|_| options.include_comments),
                engine: text(&mut row, 2).unwrap_or_default(),
                charset: charset_of(&collation).to_owned(),
                collation,
            }),
        );
    }
    read_columns(conn, names, options, &mut found).await?;
    let mut keys: HashMap<TableName, Vec<String>> = HashMap::new();
    for mut row in ask(
        conn,
        "COLUMN_NAME",
        "STATISTICS",
        "INDEX_NAME = 'PRIMARY'",
        "SEQ_IN_INDEX",
        names,
    )
    .await?
    {
        let name = name_of(&mut row);
        if let Some(column) = text(&mut row, 2) {
            keys.entry(name).or_default().push(column);
        }
    }
    for (name, table) in &mut found {
        if let Ok(whole) = table {
            whole.set_key(keys.remove(name).unwrap_or_default());
            if let Err(error) = SelectPlan::new(whole) {
                *table = Err(error.table(name));
            }
        }
    }
    Ok(found)
}

async fn read_columns(
    conn: &mut Conn,
    names: &[TableName],
    options: &TypeOptions,
    found: &mut HashMap<TableName, Result<MysqlTable>>,
) -> Result<()> {
    let rows = ask(
        conn,
        "COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, \
         COLUMN_COMMENT, EXTRA",
        "COLUMNS",
        "TRUE",
        "ORDINAL_POSITION",
        names,
    )
    .await?;
    for mut row in rows {
        let name = name_of(&mut row);
        let Some(entry) = found.get_mut(&name) else {
            continue;
        };
        let column = MysqlColumn::from_definition(
            &text(&mut row, 2).unwrap_or_default(),
            &text(&mut row, 3).unwrap_or_default(),
            text(&mut row, 4).as_deref(),
            text(&mut row, 5).as_deref(),
            text(&mut row, 6).as_deref() == Some("YES"),
            text(&mut row, 7).as_deref(),
            options,
        );
        let extra = text(&mut row, 8).unwrap_or_default();
        match (entry.as_mut(), column) {
            (Ok(table), Ok(mut column)) => {
                column.invisible = extra.contains("INVISIBLE");
                column.auto_increment = extra.contains("auto_increment");
                column.generated = if extra.contains("VIRTUAL GENERATED") {
                    Some(Generated::Virtual)
                } else if extra.contains("STORED GENERATED") {
                    Some(Generated::Stored)
                } else {
                    None
                };
                table.columns.push(column);
            }
            (Ok(_), Err(error)) => *entry = Err(error.table(&name)),
            (Err(_), _) => {}
        }
    }
    Ok(())
}

/// Rows of a view of the information schema for some tables: database, table, then `columns`.
async fn ask(
    conn: &mut Conn,
    columns: &str,
    view: &str,
    filter: &str,
    order: &str,
    names: &[TableName],
) -> Result<Vec<Row>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let marks = vec!["(?,?)"; names.len()].join(",");
    let values: Vec<Value> = names
        .iter()
        .flat_map(|name| [name.database.as_str().into(), name.table.as_str().into()])
        .collect();
    // Prepared once and closed, so that thousands of batches leave nothing in the session's cache.
    let statement = conn
        .prep(format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME, {columns} FROM information_schema.{view} \
             WHERE {filter} AND (TABLE_SCHEMA, TABLE_NAME) IN ({marks}) \
             ORDER BY TABLE_SCHEMA, TABLE_NAME, {order}"
        ))
        .await
        .map_err(unreadable)?;
    conn.exec(&statement, Params::Positional(values))
        .await
        .map_err(unreadable)
}

fn unreadable(cause: mysql_async::Error) -> Error {
    failed("the information schema cannot be read", cause)
}

fn text(row: &mut Row, at: usize) -> Option<String> {
    row.take_opt::<Option<String>, _>(at)?.ok()?
}

fn name_of(row: &mut Row) -> TableName {
    TableName {
        database: text(row, 0).unwrap_or_default(),
        table: text(row, 1).unwrap_or_default(),
    }
}
