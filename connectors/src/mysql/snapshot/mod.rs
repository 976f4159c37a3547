//! The snapshot: cutting tables into splits, walking them in chunks, and looking up rows by key.

pub(super) mod key;
pub(super) mod lake_key;
pub(super) mod reader;

use mysql_async::Conn;

use self::key::{Key, quoted};
use super::{
    connect::{execute, query_first},
    table::MysqlTable,
};
use crate::{error::Result, schema::TableName, source::Split};

/// Tables below this estimate are one split: opening more connections would cost more than it
/// brings.
const SPLIT_ROWS_MIN: u64 = 50_000;

/// Rows and bytes as the server estimates them.
pub(super) async fn estimate(conn: &mut Conn, name: &TableName) -> Result<(u64, u64)> {
    // The information schema keeps its own copy for a day; servers before 8.0 have none.
    if let Err(error) = execute(conn, "SET SESSION information_schema_stats_expiry = 0").await
        && error.is_transient()
    {
        return Err(error);
    }
    let row: Option<(Option<u64>, Option<u64>)> = query_first(
        conn,
        &format!(
            "SELECT TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            super::discover::text(&name.database),
            super::discover::text(&name.table)
        ),
    )
    .await?;
    let (rows, bytes) = row.unwrap_or_default();
    Ok((rows.unwrap_or(0), bytes.unwrap_or(0)))
}

/// Cuts a table at even steps of its first key column, where that holds whole numbers. The first
/// split has no lower bound and the last no upper one, so that every key is in exactly one,
/// whenever its row is written.
pub(super) async fn splits(
    conn: &mut Conn,
    table: &MysqlTable,
    want: usize,
    chunk_column: Option<&str>,
) -> Result<Vec<Split>> {
    let key = Key::new(table)?;
    let mut cuts = Vec::new();
    let cut_here = chunk_column.is_none_or(|column| {
        table
            .primary_key
            .first()
            .is_some_and(|first| super::table::same_name(first, column))
    });
    if want > 1 && cut_here && key.starts_with_integer() && is_large(conn, table, &key).await? {
        let column = key.first_sql();
        let sql = format!(
            "SELECT CAST(MIN({column}) AS CHAR), CAST(MAX({column}) AS CHAR) FROM {} AS t",
            qualified(&table.name)
        );
        let range: Option<(Option<String>, Option<String>)> = query_first(conn, &sql).await?;
        if let Some((Some(low), Some(high))) = range
            && let (Ok(low), Ok(high)) = (low.parse::<i128>(), high.parse::<i128>())
        {
            cuts = even_cuts(low, high, want.min(1024));
        }
    }
    let bound = |cut: Option<&i128>| cut.map(|cut| vec![cut.to_string()]);
    Ok((0..=cuts.len())
        .map(|i| Split {
            table: table.name.clone(),
            id: i as u32,
            after: bound(i.checked_sub(1).and_then(|before| cuts.get(before))),
            upto: bound(cuts.get(i)),
        })
        .collect())
}

/// Whether a table is worth more than one split. The estimate of a table that was just filled may
/// still say 0: then rows are counted, up to the limit.
async fn is_large(conn: &mut Conn, table: &MysqlTable, key: &Key) -> Result<bool> {
    if estimate(conn, &table.name).await?.0 >= SPLIT_ROWS_MIN {
        return Ok(true);
    }
    let sql = format!(
        "SELECT 1 FROM {} AS t ORDER BY {} LIMIT 1 OFFSET {SPLIT_ROWS_MIN}",
        qualified(&table.name),
        key.order_sql()
    );
    Ok(query_first::<i64>(conn, &sql).await?.is_some())
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
