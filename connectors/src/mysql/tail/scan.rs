//! A look at a piece of log before a job starts from its head: which captured tables were changed
//! in it by a statement, and where for the last time.
//!
//! A statement that changes a table waits until every transaction on it has ended, so that all
//! rows of the table before the statement are committed and readable when it is logged.

use std::{collections::BTreeMap, time::Duration};

use mysql_common::binlog::{consts::EventType, events::QueryEvent};

use super::{
    statement::{logged_effects, query_text},
    stream::{LogStream, Next},
    widened,
};
use crate::{
    error::{Error, Result},
    mysql::{
        connect::Identity,
        ddl::{Captured, Effect},
        options::MysqlOptions,
        state::{ByName, MysqlState},
    },
    position::MysqlPosition,
};

/// For each captured table changed between `from` and `end` (one file), file and offset of the
/// end of the last statement that did.
pub(in crate::mysql) async fn changed_tables(
    options: &MysqlOptions,
    identity: &Identity,
    server_id: u32,
    state: &MysqlState,
    (from, end): (&MysqlPosition, &MysqlPosition),
) -> Result<BTreeMap<String, (String, u64)>> {
    let mut changed = BTreeMap::new();
    let captured = ByName {
        tables: state.tables.iter().collect(),
        key_indexes: &state.key_indexes,
        fold: state.fold_names,
    };
    let mut offset = from.offset;
    let mut stream = LogStream::open(from, identity, server_id, options).await?;
    while offset < end.offset {
        let event = match stream.next(Duration::from_secs(1)).await? {
            Next::Event(event) => event,
            Next::Idle => continue,
        };
        let header = event.header();
        offset = match header.event_type() {
            Ok(EventType::ROTATE_EVENT) => offset,
            _ if header.log_pos() == 0 => offset,
            _ => widened(offset, header.log_pos()),
        };
        if header.event_type() != Ok(EventType::QUERY_EVENT) {
            continue;
        }
        let query: QueryEvent<'_> = event.parts()?;
        let text = query_text(&query);
        let database = query.schema().into_owned();
        for effect in logged_effects(&text, &database, &query, &captured, identity, options) {
            let name = match effect {
                Effect::Change(change) => change.table.name,
                Effect::Dark(name, _)
                | Effect::Dropped(name)
                | Effect::Moved(name)
                | Effect::Came(name, _) => name,
                Effect::Rows(_) => continue,
            };
            if captured.table(&name.database, &name.table).is_some() {
                changed.insert(name.to_string(), (from.file.clone(), offset));
            }
        }
    }
    if offset > u64::from(u32::MAX) {
        return Err(Error::transient(
            "MySQL's log file is about to end, the job starts in the next",
        ));
    }
    Ok(changed)
}
