//! The snapshot: cutting tables into splits, walking them in chunks, and looking up rows by key.

mod ahead;
pub(super) mod key;
pub(super) mod lake_key;
pub(super) mod reader;

use std::collections::HashMap;

use mysql_async::Conn;

use self::key::{Key, quoted};
use super::{
    connect::{Identity, execute, query, query_first},
    discover::text,
    table::MysqlTable,
    versions,
};
use crate::{error::Result, schema::TableName, source::Split};

/// Tables below this estimate are one split: opening more connections would cost more than it
/// brings.
const SPLIT_ROWS_MIN: u64 = 50_000;

/// How large a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Size {
    /// Rows, as the server estimates them.
    pub rows: u64,
    /// Bytes of them, as the server estimates them.
    pub bytes: u64,
    /// Whether it is worth more than one split.
    pub is_large: bool,
}

/// Tables asked about in one statement.
const BATCH: usize = 200;
/// Tables looked into in one statement: the server opens each of them.
const PROBE_BATCH: usize = 50;

/// Sizes of tables, in few statements for many. Estimates of a table that was just filled may
/// still say 0: of small ones, rows are counted up to the limit.
pub(super) async fn sizes(
    conn: &mut Conn,
    identity: &Identity,
    tables: &[&MysqlTable],
) -> Result<HashMap<TableName, Size>> {
    let mut sizes = estimates(conn, identity, tables).await?;
    let unsure: Vec<&MysqlTable> = tables
        .iter()
        .copied()
        .filter(|table| sizes.get(&table.name).is_none_or(|size| !size.is_large))
        .collect();
    for tables in unsure.chunks(PROBE_BATCH) {
        let mut probes = Vec::with_capacity(tables.len());
        for (number, table) in tables.iter().enumerate() {
            probes.push(format!(
                "(SELECT {number} FROM {} AS t ORDER BY {} LIMIT 1 OFFSET {SPLIT_ROWS_MIN})",
                qualified(&table.name),
                Key::new(table)?.order_sql()
            ));
        }
        let large: Vec<usize> = query(conn, &probes.join(" UNION ALL ")).await?;
        for table in large.into_iter().filter_map(|number| tables.get(number)) {
            sizes.entry(table.name.clone()).or_default().is_large = true;
        }
    }
    Ok(sizes)
}

async fn estimates(
    conn: &mut Conn,
    identity: &Identity,
    tables: &[&MysqlTable],
) -> Result<HashMap<TableName, Size>> {
    if let Some(sql) = versions::fresh_statistics(identity.numbers) {
        execute(conn, sql).await?;
    }
    let mut sizes = HashMap::with_capacity(tables.len());
    for tables in tables.chunks(BATCH) {
        let names: Vec<String> = tables
            .iter()
            .map(|table| {
                format!(
                    "({}, {})",
                    text(&table.name.database),
                    text(&table.name.table)
                )
            })
            .collect();
        let rows: Vec<(String, String, Option<u64>, Option<u64>)> = query(
            conn,
            &format!(
                "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH \
                 FROM information_schema.TABLES WHERE (TABLE_SCHEMA, TABLE_NAME) IN ({})",
                names.join(", ")
            ),
        )
        .await?;
        sizes.extend(rows.into_iter().map(|(database, table, rows, bytes)| {
            let rows = rows.unwrap_or(0);
            let size = Size {
                rows,
                bytes: bytes.unwrap_or(0),
                is_large: rows >= SPLIT_ROWS_MIN,
            };
            (TableName::new(database, table), size)
        }));
    }
    Ok(sizes)
}

/// Whether a table can be cut, which takes whole numbers in the first key column.
pub(super) fn can_be_cut(table: &MysqlTable, chunk_column: Option<&str>) -> Result<bool> {
    let first = table.primary_key.first();
    let cut_here = chunk_column
        .is_none_or(|column| first.is_some_and(|first| super::table::same_name(first, column)));
    Ok(cut_here && Key::new(table)?.starts_with_integer())
}

/// All of a table in one split.
pub(super) fn whole(table: &MysqlTable) -> Vec<Split> {
    cut(table, &[])
}

/// Cuts a table at even steps of its first key column.
pub(super) async fn splits(conn: &mut Conn, table: &MysqlTable, want: usize) -> Result<Vec<Split>> {
    let column = Key::new(table)?.first_sql();
    let sql = format!(
        "SELECT CAST(MIN({column}) AS CHAR), CAST(MAX({column}) AS CHAR) FROM {} AS t",
        qualified(&table.name)
    );
    let range: Option<(Option<String>, Option<String>)> = query_first(conn, &sql).await?;
    if let Some((Some(low), Some(high))) = range
        && let (Ok(low), Ok(high)) = (low.parse::<i128>(), high.parse::<i128>())
    {
        return Ok(cut(table, &even_cuts(low, high, want.min(1024))));
    }
    Ok(whole(table))
}

/// The first split has no lower bound and the last no upper one, so that every key is in exactly
/// one, whenever its row is written.
fn cut(table: &MysqlTable, cuts: &[i128]) -> Vec<Split> {
    let bound = |cut: Option<&i128>| cut.map(|cut| vec![cut.to_string()]);
    (0..=cuts.len())
        .map(|i| Split {
            table: table.name.clone(),
            id: i as u32,
            after: bound(i.checked_sub(1).and_then(|before| cuts.get(before))),
            upto: bound(cuts.get(i)),
        })
        .collect()
}

/// Up to `want - 1` different numbers that cut `low..=high` into stretches of about equal width.
fn even_cuts(low: i128, high: i128, want: usize) -> Vec<i128> {
    let width = high - low;
    let mut cuts: Vec<i128> = (1..want as i128)
        .map(|i| low + width * i / want as i128)
        .filter(|cut| *cut < high)
        .collect();
    cuts.dedup();
    cuts
}

/// `database`.`table`.
pub(super) fn qualified(name: &TableName) -> String {
    format!("{}.{}", quoted(&name.database), quoted(&name.table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_different_and_inside() {
        assert_eq!(even_cuts(0, 100, 4), [25, 50, 75]);
        assert_eq!(even_cuts(5, 5, 4), [] as [i128; 0]);
        assert_eq!(even_cuts(1, 3, 8), [1, 2]);
        let wide = even_cuts(i128::from(i64::MIN), i128::from(u64::MAX), 3);
        assert_eq!(wide.len(), 2);
    }
}
