//! Tables compared by the source's columns alone, value by value: for sink tables that have more
//! columns, another order of them, or wider types than their source.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{Database, Headwater, Lake, dump};

/// A row by the values of some columns, whatever their types.
type Row = BTreeMap<String, String>;

/// Why a table of the lake does not have the rows of its source; `None` when it has.
pub async fn difference(lake: &Lake, database: &Database, table: &str) -> Option<String> {
    let columns = columns(database, table).await;
    let want = dump::lines(database, table).await;
    let have = lake.read(&format!("{}.{table}", database.name), None);
    let (want, have) = (rows(&want, &columns), rows(&have, &columns));
    if want == have {
        return None;
    }
    let missing: Vec<&Row> = want
        .iter()
        .filter(|row| !have.contains(row))
        .take(3)
        .collect();
    let extra: Vec<&Row> = have
        .iter()
        .filter(|row| !want.contains(row))
        .take(3)
        .collect();
    Some(format!(
        "{table}: {} rows at the source, {} in the lake; missing {missing:?}; extra {extra:?}",
        want.len(),
        have.len()
    ))
}

/// Waits until tables of the lake have the values of their sources.
pub async fn settles(lake: &Lake, database: &Database, tables: &[&str], process: &mut Headwater) {
    for table in tables {
        let name = format!("{}.{table}", database.name);
        let mut last = None;
        let waited = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                process.assert_runs();
                last = match lake.snapshots(&name).is_empty() {
                    true => Some("no snapshot yet".to_owned()),
                    false => difference(lake, database, table).await,
                };
                if last.is_none() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        if waited.await.is_err() {
            panic!("{name}: {last:?}\n{}", process.output());
        }
    }
}

async fn columns(database: &Database, table: &str) -> Vec<String> {
    use mysql_async::prelude::Queryable;
    let mut conn = database.connect().await;
    conn.exec(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = ? AND table_name = ?",
        (&database.name, table),
    )
    .await
    .unwrap()
}

fn rows(lines: &[String], columns: &[String]) -> Vec<Row> {
    let mut rows: Vec<Row> = lines
        .iter()
        .map(|line| {
            let all: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            let value = |name: &String| {
                let mut found = all.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
                let value = found
                    .next()
                    .map_or("(no such column)".into(), |(_, it)| plain(it));
                (name.clone(), value)
            };
            columns.iter().map(value).collect()
        })
        .collect();
    rows.sort();
    rows
}

/// The same text for the same value, be it a number, a decimal, a text, or a time of more digits.
fn plain(value: &Value) -> String {
    let text = match value {
        // A date that is none is NULL in the lake.
        Value::String(text) if text.starts_with("0000-00-00") => "null".into(),
        Value::String(text) => text.clone(),
        Value::Bool(value) => u8::from(*value).to_string(),
        other => other.to_string(),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) if is_number(fraction.trim_end_matches('Z')) => {
            let zone = if fraction.ends_with('Z') { "Z" } else { "" };
            let fraction = fraction.trim_end_matches('Z').trim_end_matches('0');
            match fraction {
                "" => format!("{whole}{zone}"),
                fraction => format!("{whole}.{fraction}{zone}"),
            }
        }
        _ => text,
    }
}
