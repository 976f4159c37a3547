//! Which tables are captured, and why others are not.

use std::collections::{BTreeMap, HashMap};

use mysql_async::{Conn, prelude::Queryable};

use super::{
    catalog::{inspect_tables, list_tables},
    connect::{failed, query},
    ddl::shadows,
    grants::Grants,
    options::MysqlOptions,
    snapshot::qualified,
    table::MysqlTable,
};
use crate::{error::Result, schema::TableName};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Captured, by name.
    pub captured: Vec<MysqlTable>,
    /// Indexes that serve as key, by `database.table`.
    pub key_indexes: BTreeMap<String, String>,
    /// Rejected, with the reason and what to do.
    pub rejected: Vec<(TableName, String)>,
    /// Those of the rejected that the account may not read, or only some columns of.
    pub unreadable: Vec<TableName>,
    /// Tables of migration tools that were left out, each with the table that it stands beside.
    pub shadows: BTreeMap<TableName, TableName>,
}

/// Looks at every table that the filter chooses.
pub(super) async fn discover(conn: &mut Conn, options: &MysqlOptions) -> Result<Found> {
    let all = list_tables(conn).await?;
    let mut shadows = shadows(&all);
    shadows.retain(|name, _| options.tables.matches(name));
    let names: Vec<TableName> = all
        .into_iter()
        .filter(|name| options.tables.matches(name) && !shadows.contains_key(name))
        .collect();
    let found = inspect(conn, &names, options).await?;
    Ok(Found { shadows, ..found })
}

/// Looks at named tables.
pub(super) async fn inspect(
    conn: &mut Conn,
    names: &[TableName],
    options: &MysqlOptions,
) -> Result<Found> {
    let mut found = Found::default();
    let mut tables = Vec::new();
    let grants = Grants::of(conn).await?;
    for (name, table) in inspect_tables(conn, names, &options.types).await? {
        if !grants.has("SELECT", &name) && !is_readable(conn, &name).await? {
            // The information schema shows only what the account has a privilege for: here it
            // may be a part of the columns.
            let reason = format!(
                "the account may not read all of its columns. GRANT SELECT ON {name} TO {}",
                grants.account
            );
            found.rejected.push((name.clone(), reason));
            found.unreadable.push(name);
            continue;
        }
        match table {
            Ok(table) => tables.push(table),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => found.rejected.push((name, error.to_string())),
        }
    }
    let keyless: Vec<&TableName> = tables
        .iter()
        .filter(|table| table.primary_key.is_empty())
        .map(|table| &table.name)
        .collect();
    let mut keys = unique_keys(conn, &keyless).await?;
    let cascades = if options.accept_foreign_key_cascades {
        HashMap::new()
    } else {
        hidden_cascades(conn).await?
    };
    let mut by_case: HashMap<(String, String), usize> = HashMap::new();
    for table in &tables {
        *by_case.entry(case_key(&table.name)).or_default() += 1;
    }
    for mut table in tables {
        if table.primary_key.is_empty()
            && let Some((index, columns)) = keys.remove(&table.name)
        {
            found.key_indexes.insert(table.name.to_string(), index);
            table.set_key(columns);
        }
        let reason = if !table.engine.eq_ignore_ascii_case("InnoDB") {
            Some(format!(
                "its engine is {}: only InnoDB has consistent reads. ALTER TABLE … ENGINE=InnoDB",
                table.engine
            ))
        } else if table.primary_key.is_empty() {
            Some(
                "it has no primary key and no unique key whose columns are all NOT NULL. Add one, \
                 or leave the table out (tables.exclude)"
                    .to_owned(),
            )
        } else if by_case.get(&case_key(&table.name)).copied() > Some(1) {
            Some("another captured table has the same name but for upper and lower case".into())
        } else {
            cascades.get(&table.name).map(|constraint| {
                format!(
                    "its foreign key {constraint} has a CASCADE or SET action, whose changes MySQL \
                     does not log. Drop the action, leave the table out (tables.exclude), or take \
                     the loss with accept-foreign-key-cascades.enabled: true"
                )
            })
        };
        match reason {
            Some(reason) => found.rejected.push((table.name, reason)),
            None => found.captured.push(table),
        }
    }
    found.captured.sort_by(|a, b| a.name.cmp(&b.name));
    found.rejected.sort();
    Ok(found)
}

/// Asks the server whether the account may read every column of a table.
async fn is_readable(conn: &mut Conn, name: &TableName) -> Result<bool> {
    let sql = format!("SELECT * FROM {} LIMIT 0", qualified(name));
    match conn.query_drop(sql).await {
        // The table, or one of its columns, is denied.
        Err(mysql_async::Error::Server(error)) if matches!(error.code, 1142 | 1143) => Ok(false),
        // It has gone meanwhile.
        Err(mysql_async::Error::Server(error)) if error.code == 1146 => Ok(true),
        Err(error) => Err(failed(&format!("cannot read {name}"), error)),
        Ok(()) => Ok(true),
    }
}

fn case_key(name: &TableName) -> (String, String) {
    (name.database.to_lowercase(), name.table.to_lowercase())
}

/// Database, table, index, column (none: an expression), "YES" when it may be NULL, and the length
/// of a prefix.
type IndexColumn = (String, String, String, Option<String>, String, Option<i64>);

/// For each table the first unique index of whole columns that are all NOT NULL, with its
/// columns. InnoDB clusters rows by the same one.
async fn unique_keys(
    conn: &mut Conn,
    names: &[&TableName],
) -> Result<HashMap<TableName, (String, Vec<String>)>> {
    let mut keys = HashMap::new();
    for names in names.chunks(200) {
        let list: Vec<String> = names
            .iter()
            .map(|name| format!("({}, {})", text(&name.database), text(&name.table)))
            .collect();
        let rows: Vec<IndexColumn> = query(
            conn,
            &format!(
                "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NULLABLE, SUB_PART \
                 FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND \
                 (TABLE_SCHEMA, TABLE_NAME) IN ({}) \
                 ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
                list.join(", ")
            ),
        )
        .await?;
        let mut indexes: BTreeMap<(TableName, String), Option<Vec<String>>> = BTreeMap::new();
        for (database, table, index, column, nullable, part) in rows {
            let columns = indexes
                .entry((TableName::new(database, table), index))
                .or_insert_with(|| Some(Vec::new()));
            match (column, nullable.as_str(), part) {
                (Some(column), "", None) => {
                    if let Some(columns) = columns {
                        columns.push(column);
                    }
                }
                _ => *columns = None,
            }
        }
        for ((name, index), columns) in indexes {
            if let Some(columns) = columns {
                keys.entry(name).or_insert((index, columns));
            }
        }
    }
    Ok(keys)
}

/// Tables with a foreign key whose actions are not logged, each with the constraint's name. From
/// MySQL 9.6 on the server logs them unless `innodb_native_foreign_keys` is on.
pub(super) async fn hidden_cascades(conn: &mut Conn) -> Result<HashMap<TableName, String>> {
    let native: Vec<(String, String)> = query(
        conn,
        "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'",
    )
    .await?;
    if native
        .first()
        .is_some_and(|(_, value)| value == "OFF" || value == "0")
    {
        return Ok(HashMap::new());
    }
    let rows: Vec<(String, String, String)> = query(
        conn,
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME \
         FROM information_schema.REFERENTIAL_CONSTRAINTS \
         WHERE DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') \
         OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')",
    )
    .await?;
    Ok(rows
        .into_iter()
        .map(|(database, table, constraint)| (TableName::new(database, table), constraint))
        .collect())
}

/// A text literal that no sql_mode reads otherwise.
pub(super) fn text(text: &str) -> String {
    if text.is_empty() {
        return "''".into();
    }
    let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
    format!("_utf8mb4 0x{hex}")
}
