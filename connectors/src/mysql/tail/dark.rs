//! Tables whose rows in the log are left out for a while: what they are is asked of the server, and
//! when the log has come to where it was asked, their rows count again. The job reads what they held
//! anew.
//!
//! ```text
//! log:  … rows │ statement │ rows that are left out │ log's end when the schema had been read │ rows …
//!                                                     └ SchemaChange, rows: Unknown
//! ```
//!
//! A statement shows in the log before it shows in the schema, so the server is asked when the
//! statement's transaction can be read, and the log's end is taken after the answer. Another
//! statement of the table before that end may or may not be in the answer: then it is asked again.

use mysql_async::{Conn, prelude::Queryable};

use super::{Tail, statement::shown};
use crate::{
    change::{RowsAfter, SchemaChange, TableDropped, TailItem},
    error::{Error, Result},
    mysql::{
        connect::connect_known,
        ddl,
        discover::{Found, inspect},
        round,
        snapshot::qualified,
        state::Dark,
        table::{MysqlTable, same_name},
    },
    position::{MysqlPosition, Position},
    schema::TableName,
};

/// A table whose schema is wanted.
pub(super) struct Waiting {
    /// Its place among the captured tables.
    pub index: usize,
    /// The end of the log when its schema was last read.
    until: Option<MysqlPosition>,
    /// What was read, unless a statement has made it stale.
    read: Option<Answer>,
}

impl Waiting {
    pub fn new(index: usize) -> Self {
        Self {
            index,
            until: None,
            read: None,
        }
    }
}

/// What the server says of a table.
enum Answer {
    /// It can be captured; with the index that serves as key.
    Table(Box<MysqlTable>, Option<String>),
    /// It cannot: why.
    Rejected(String),
    /// There is none.
    Nothing,
}

impl Answer {
    fn of(name: &TableName, found: &mut Found) -> Self {
        if let Some((_, reason)) = found.rejected.iter().find(|(own, _)| own == name) {
            return Self::Rejected(reason.clone());
        }
        let key_index = found.key_indexes.get(&name.to_string()).cloned();
        let at = found.captured.iter().position(|table| table.name == *name);
        match at {
            Some(at) => Self::Table(Box::new(found.captured.swap_remove(at)), key_index),
            None => Self::Nothing,
        }
    }
}

impl Tail<'_> {
    /// Leaves a table's rows out from here on, until the server has said what it is.
    pub(super) async fn darken(&mut self, index: usize, reason: String, text: &str) -> Result<()> {
        let name = self.take_out(index).await?;
        tracing::info!(
            table = %name,
            statement = %shown(text),
            position = %self.place(),
            "a statement {reason}: the table's schema is read from the server, then its rows anew"
        );
        let dark = self.dark(index, false, reason, text)?;
        self.state.dark.insert(name.to_string(), dark);
        self.state_value = self.state.to_value()?;
        match self.waiting.iter_mut().find(|own| own.index == index) {
            Some(waiting) => waiting.read = None,
            None => self.waiting.push(Waiting::new(index)),
        }
        Ok(())
    }

    /// A table is no more.
    pub(super) async fn gone(&mut self, index: usize, reason: &str, text: &str) -> Result<()> {
        let name = self.take_out(index).await?;
        self.waiting.retain(|own| own.index != index);
        if self.is_gone(&name) {
            return Ok(());
        }
        tracing::warn!(
            table = %name,
            statement = %shown(text),
            position = %self.place(),
            "a statement {reason}"
        );
        let dark = self.dark(index, true, reason.to_owned(), text)?;
        let statement = dark.statement.clone();
        self.state.dark.insert(name.to_string(), dark);
        self.state_value = self.state.to_value()?;
        let position = self.position.clone();
        self.send(TailItem::Dropped(TableDropped {
            table: name,
            statement,
            position,
        }))
        .await
    }

    /// Whether a table was dropped, and none has come in its place.
    pub(super) fn is_gone(&self, name: &TableName) -> bool {
        let dark = self.state.dark.get(&name.to_string());
        dark.is_some_and(|dark| dark.gone)
    }

    /// Sends what a table has waiting, and looks at its rows no more.
    async fn take_out(&mut self, index: usize) -> Result<TableName> {
        let rows = self.tables.take(index)?;
        self.send_rows(rows).await?;
        self.tables.darken(index)
    }

    fn dark(&self, index: usize, gone: bool, reason: String, text: &str) -> Result<Dark> {
        let table = &self.tables.get(index)?.table;
        Ok(Dark {
            gone,
            reason,
            statement: shown(text),
            id: self.statement_id(&table.name, table.version + 1)?,
            position: self.mysql()?.clone(),
        })
    }

    /// At an edge: asks the server about tables, and takes those up again whose answer holds.
    pub(super) async fn look(&mut self) -> Result<()> {
        loop {
            let passed = |waiting: &Waiting| {
                let until = waiting.until.clone().map(Position::Mysql);
                until.is_none_or(|until| self.position.is_at_or_after(&until))
            };
            let due: Vec<usize> = self
                .waiting
                .iter()
                .enumerate()
                .filter(|(_, waiting)| passed(waiting))
                .map(|(at, _)| at)
                .collect();
            let mut stale = Vec::new();
            // From the last on, since they are taken out.
            for at in due.into_iter().rev() {
                let read = self.waiting.get_mut(at).and_then(|own| own.read.take());
                match read {
                    Some(answer) => {
                        let waiting = self.waiting.swap_remove(at);
                        self.light(waiting.index, answer).await?;
                    }
                    None => stale.extend(self.waiting.get(at).map(|own| own.index)),
                }
            }
            if stale.is_empty() {
                return Ok(());
            }
            self.ask(&stale).await?;
        }
    }

    /// Asks the server what tables are now.
    async fn ask(&mut self, indexes: &[usize]) -> Result<()> {
        let (mut conn, identity) = connect_known(self.options).await?;
        if identity.uuid != self.identity.uuid {
            return Err(Error::transient(format!(
                "this connection leads to server {}, the log is read from {}",
                identity.uuid, self.identity.uuid
            )));
        }
        let names: Vec<TableName> = indexes
            .iter()
            .map(|index| Ok(self.tables.get(*index)?.table.name.clone()))
            .collect::<Result<_>>()?;
        round::low(&mut conn, &identity, self.mysql()?).await?;
        for name in &names {
            wait_for_statements(&mut conn, name).await?;
        }
        let mut found = inspect(&mut conn, &names, self.options).await?;
        let end = round::log_end(&mut conn, &identity).await?;
        for (index, name) in indexes.iter().zip(&names) {
            let waiting = self.waiting.iter_mut().find(|own| own.index == *index);
            if let Some(waiting) = waiting {
                waiting.until = Some(end.clone());
                waiting.read = Some(Answer::of(name, &mut found));
            }
        }
        Ok(())
    }

    /// Takes a table up again.
    async fn light(&mut self, index: usize, answer: Answer) -> Result<()> {
        let before = self.tables.get(index)?.table.clone();
        let name = before.name.clone();
        let Some(dark) = self.state.dark.get(&name.to_string()).cloned() else {
            return Ok(());
        };
        let (mut after, key_index) = match answer {
            Answer::Table(table, key_index) => (*table, key_index),
            Answer::Nothing => {
                let reason = format!("{}, and the table is not there any more", dark.reason);
                return self.gone(index, &reason, &dark.statement).await;
            }
            Answer::Rejected(reason) => return Err(dark.refused(&name, &reason)),
        };
        let same_key = before.primary_key.len() == after.primary_key.len()
            && before
                .primary_key
                .iter()
                .zip(&after.primary_key)
                .all(|(one, other)| same_name(one, other));
        if !same_key {
            let reason = format!(
                "its key was ({}) and is ({}) now",
                before.primary_key.join(", "),
                after.primary_key.join(", ")
            );
            return Err(dark.refused(&name, &reason));
        }
        after.version = before.version + 1;
        match key_index {
            Some(index) => self.state.key_indexes.insert(name.to_string(), index),
            None => self.state.key_indexes.remove(&name.to_string()),
        };
        self.state.dark.remove(&name.to_string());
        let change = SchemaChange {
            table: std::sync::Arc::new(after.to_schema()),
            steps: ddl::difference(&before, &after),
            rows: RowsAfter::Unknown(dark.reason),
            statement: dark.statement,
            id: dark.id,
            position: self.position.clone(),
        };
        tracing::info!(
            table = %name,
            position = %self.place(),
            "the table's schema was read from the server: its rows in the log count from here on"
        );
        self.put(index, after)?;
        self.send(TailItem::Schema(change)).await
    }

    /// Puts a table's next form in place, here and in what a checkpoint keeps.
    pub(super) fn put(&mut self, index: usize, table: MysqlTable) -> Result<()> {
        if let Some(saved) = self.state.tables.get_mut(index) {
            saved.clone_from(&table);
        }
        self.state_value = self.state.to_value()?;
        self.registry.add([&table], &self.state.key_indexes);
        self.tables.replace(index, table)?;
        Ok(())
    }
}

impl Dark {
    fn refused(&self, table: &TableName, reason: &str) -> Error {
        Error::definite(format!(
            "a statement {}: {}. The table cannot be captured any more: {reason}",
            self.reason, self.statement
        ))
        .table(table)
        .position(format!("{}:{}", self.position.file, self.position.offset))
        .advice(
            "Nothing past this statement was committed. Change the table so that it can be \
             captured and start the job again, leave it out (tables.exclude), or start the job \
             anew into empty tables",
        )
    }
}

/// Waits until no statement holds a table for itself: the log has a statement before the schema
/// has it, and without GTIDs nothing else tells when it is there.
async fn wait_for_statements(conn: &mut Conn, name: &TableName) -> Result<()> {
    let sql = format!("SELECT 1 FROM {} LIMIT 0", qualified(name));
    match conn.query_drop(sql).await {
        // There is no such table, or it cannot be read: that is looked at next.
        Ok(()) | Err(mysql_async::Error::Server(_)) => Ok(()),
        Err(cause) => Err(crate::mysql::connect::failed("cannot read a table", cause)),
    }
}
