//! Statements in the log: edges of transactions, and changes of tables.

use mysql_common::binlog::{
    consts::StatusVarKey,
    events::{QueryEvent, StatusVarVal},
};

use super::{Phase, Tail, event::LogEvent, is_ignored, tables::Tables, xa};
use crate::{
    change::{RowsAfter, SchemaChange, TailItem},
    error::{Error, Meaning, Result},
    mysql::{
        connect::{Identity, shorten},
        ddl::{self, Captured, Change, Dialect, Effect},
        gtid::GtidSet,
        options::MysqlOptions,
        state::MysqlState,
        table::MysqlTable,
    },
    position::{MysqlPosition, Position},
    schema::TableName,
};

/// Bits of `sql_mode` in the log. Source: `sql/system_variables.h`.
const MODE_REAL_AS_FLOAT: u64 = 1;
const MODE_ANSI_QUOTES: u64 = 1 << 2;
const MODE_NO_BACKSLASH_ESCAPES: u64 = 1 << 20;
const MODE_STRICT_TRANS_TABLES: u64 = 1 << 21;
const MODE_STRICT_ALL_TABLES: u64 = 1 << 22;

/// Longest part of a statement that a message shows.
const SHOWN_CHARS: usize = 300;

impl Tail<'_> {
    pub(super) async fn query(&mut self, event: &LogEvent<'_>) -> Result<()> {
        let query: QueryEvent<'_> = event.parts()?;
        let text = query_text(&query);
        let text = text.trim();
        if self.mysql()?.gtid_set.is_some() && matches!(self.phase, Phase::Edge) {
            return Err(Error::definite("damaged log: a statement without a GTID"));
        }
        match &self.phase {
            Phase::Open | Phase::Xa(..) => return self.inside(text, &query).await,
            Phase::Edge | Phase::Begun => {}
        }
        if text == "BEGIN" {
            self.phase = Phase::Open;
            return Ok(());
        }
        if let Some(xid) = xa::xid(text, "START") {
            self.phase = Phase::Xa(xid.to_owned(), Box::default());
            return Ok(());
        }
        if let Some(xid) = xa::xid(text, "COMMIT") {
            if !self.xa_end(xid, true).await? {
                self.unseen_xa(xid)?;
            }
            return self.commit().await;
        }
        if let Some(xid) = xa::xid(text, "ROLLBACK") {
            self.xa_end(xid, false).await?;
            return self.commit().await;
        }
        self.apply(text, &query).await?;
        // CREATE TABLE … SELECT: its rows follow, then its commit.
        if text.to_ascii_uppercase().ends_with("START TRANSACTION") {
            self.phase = Phase::Open;
            return Ok(());
        }
        self.commit().await
    }

    /// A statement inside a transaction.
    async fn inside(&mut self, text: &str, query: &QueryEvent<'_>) -> Result<()> {
        let upper = text.to_ascii_uppercase();
        match upper.as_str() {
            "COMMIT" => return self.commit().await,
            "ROLLBACK" => {
                self.refuse_rollback()?;
                return self.commit().await;
            }
            _ => {}
        }
        let starts = |word: &str| upper.starts_with(word);
        if starts("ROLLBACK TO") {
            return self.refuse_rollback();
        }
        if starts("SAVEPOINT") || starts("RELEASE SAVEPOINT") || starts("XA END") || starts("BEGIN")
        {
            return Ok(());
        }
        self.apply(text, query).await
    }

    /// Only a transaction that changed a table without transactions is logged with ROLLBACK.
    fn refuse_rollback(&self) -> Result<()> {
        if self.open_rows == 0 {
            return Ok(());
        }
        Err(Error::definite(
            "a transaction that changed captured tables was rolled back after it had been logged",
        )
        .advice("Do not mix InnoDB tables with tables of other engines in one transaction"))
    }

    /// XA COMMIT of a transaction that was prepared before the job's first position. It is known
    /// to have ended before the job read any row, or it is lost.
    fn unseen_xa(&self, xid: &str) -> Result<()> {
        // Without GTIDs a PREPARE of captured rows is an error already.
        let at = self.mysql()?;
        if at.gtid_set.is_none() || is_before(at, &self.state.settled_at, self.gtid.as_ref()) {
            return Ok(());
        }
        Err(Error::definite(format!(
            "XA COMMIT {} of a transaction whose XA PREPARE was not seen",
            shorten(xid, 100)
        ))
        .advice("Its rows are unknown: start the job anew into empty tables"))
    }

    /// What a statement does to captured tables.
    async fn apply(&mut self, text: &str, query: &QueryEvent<'_>) -> Result<()> {
        let database = query.schema();
        let captured = Seen {
            tables: &self.tables,
            state: &self.state,
        };
        let effects = logged_effects(
            text,
            &database,
            query,
            &captured,
            self.identity,
            self.options,
        );
        for effect in effects {
            let name = match &effect {
                Effect::Rows(verb) => return Err(logged_as_text(verb)),
                Effect::Change(change) => &change.table.name,
                Effect::Dark(name, _)
                | Effect::Dropped(name)
                | Effect::Moved(name)
                | Effect::Came(name, _) => name,
            };
            match self.tables.find(name) {
                Some(_) if self.is_old(name, text)? => self.tables.forget_ids(),
                Some(index) => self.follow(index, effect, text).await?,
                None => self.created(name)?,
            }
        }
        Ok(())
    }

    /// Follows what a statement does to a captured table.
    async fn follow(&mut self, index: usize, effect: Effect, text: &str) -> Result<()> {
        let entry = self.tables.get(index)?;
        let (is_dark, name) = (entry.dark, entry.table.name.clone());
        match effect {
            Effect::Change(change) if !is_dark => self.change(index, *change, text).await,
            Effect::Change(_) => {
                let reason = "changes a table whose schema is still to be read";
                self.darken(index, reason.into(), text).await
            }
            Effect::Dark(_, reason) => self.darken(index, reason, text).await,
            Effect::Dropped(_) => self.gone(index, "drops the table", text).await,
            Effect::Moved(_) => self.gone(index, "renames the table", text).await,
            // Of a table that is there, IF NOT EXISTS makes nothing.
            Effect::Came(_, true) if !is_dark => Ok(()),
            Effect::Came(..) => {
                let is_made = text.to_ascii_uppercase().contains("CREATE");
                let reason = match (is_made, self.is_gone(&name)) {
                    (true, _) => "creates the table anew",
                    (false, true) => "gives a table the name of the one that was captured",
                    (false, false) => "gives the table's name to another table",
                };
                self.darken(index, reason.into(), text).await
            }
            Effect::Rows(verb) => Err(logged_as_text(&verb)),
        }
    }

    /// A table that is not captured has come into being. Where the job file names it the job begins again,
    /// to take it up, or it is said once that it is not captured.
    fn created(&self, name: &TableName) -> Result<()> {
        if !self.options.tables.matches(name) {
            return Ok(());
        }
        let is_old = is_before(
            self.mysql()?,
            &self.state.schemas_read_at,
            self.gtid.as_ref(),
        );
        if is_old {
            return Ok(());
        }
        let is_shadow = ddl::shadow(&name.table).is_some_and(|shadow| {
            let original = self.tables.named(&name.database, shadow.original);
            shadow.is_sure || original.is_some()
        });
        if self.options.capture_created && !is_shadow {
            // At most once for each statement: where the table cannot be captured, or is no more, the log
            // is read over it.
            if self.registry.is_first_time(self.statement_id(name, 0)?) {
                return Err(
                    Error::transient("a table was created that the job file names")
                        .table(name)
                        .meaning(Meaning::TableCreated),
                );
            }
            return Ok(());
        }
        if !self.registry.is_first_sight(name) {
            return Ok(());
        }
        if is_shadow {
            tracing::info!(
                table = %name,
                position = %self.place(),
                "a table of a migration tool is left out"
            );
            return Ok(());
        }
        tracing::warn!(
            table = %name,
            position = %self.place(),
            "a table was created that matches source.tables: it is not captured. \
             scan.binlog.newly-added-table.enabled: true captures such tables"
        );
        Ok(())
    }

    /// Whether a change of a table stands before the job's start, where it is in the schemas and
    /// rows already. Where that is not sure the job has to start over.
    fn is_old(&self, name: &TableName, text: &str) -> Result<bool> {
        let at = self.mysql()?;
        if let Some(index) = self.tables.find(name)
            && is_ignored(self.tables.get(index)?, at)
        {
            return Ok(true);
        }
        if is_before(at, &self.state.schemas_read_at, self.gtid.as_ref()) {
            return Err(Error::transient(format!(
                "the schema of {name} changed while the job was starting, it starts over: {}",
                shown(text)
            ))
            .meaning(Meaning::StartOver));
        }
        Ok(false)
    }

    /// What names the statement under way and what it makes of a table, in this server's log and in those of
    /// its replicas where it has GTIDs.
    pub(super) fn statement_id(&self, table: &TableName, version: u32) -> Result<String> {
        let at = match &self.gtid {
            Some((uuid, tag, number)) => {
                let mut one = GtidSet::default();
                one.insert(uuid, tag, *number);
                one.to_string()
            }
            None => {
                let at = self.mysql()?;
                format!("{}:{}:{}", at.server_uuid, at.file, at.offset)
            }
        };
        Ok(format!("{at}/{table}#{version}"))
    }

    /// A change that is understood wholly.
    async fn change(&mut self, index: usize, change: Change, text: &str) -> Result<()> {
        let Change {
            mut table,
            steps,
            rows,
        } = change;
        let waiting = self.tables.take(index)?;
        self.send_rows(waiting).await?;
        if steps.is_empty() && rows == RowsAfter::Kept {
            // Of account to the decoders only.
            table.version = self.tables.get(index)?.table.version;
            return self.put(index, table);
        }
        let change = SchemaChange {
            steps,
            rows,
            statement: shown(text),
            id: self.statement_id(&table.name, table.version)?,
            position: self.position.clone(),
            table: std::sync::Arc::new(table.to_schema()),
        };
        if let RowsAfter::Unknown(reason) = &change.rows {
            tracing::info!(
                table = %table.name,
                statement = %change.statement,
                position = %self.place(),
                "a statement {reason}: the table's rows are read anew"
            );
        }
        self.put(index, table)?;
        self.send(TailItem::Schema(change)).await
    }
}

/// Captured tables, as of the statement.
struct Seen<'a> {
    tables: &'a Tables,
    state: &'a MysqlState,
}

impl Captured for Seen<'_> {
    fn table(&self, database: &str, table: &str) -> Option<&MysqlTable> {
        Some(&self.tables.named(database, table)?.table)
    }

    fn in_database(&self, database: &str) -> Vec<&TableName> {
        let fold = self.tables.folds();
        let same =
            |own: &str| own == database || fold && own.to_lowercase() == database.to_lowercase();
        self.names().filter(|name| same(&name.database)).collect()
    }

    fn names(&self) -> Box<dyn Iterator<Item = &TableName> + '_> {
        Box::new(self.tables.iter().map(|entry| &entry.table.name))
    }

    fn key_index(&self, table: &TableName) -> Option<&str> {
        if self.state.key_indexes.is_empty() {
            return None;
        }
        let index = self.state.key_indexes.get(&table.to_string());
        index.map(String::as_str)
    }

    fn is_dark(&self, table: &TableName) -> bool {
        let entry = self.tables.named(&table.database, &table.table);
        entry.is_some_and(|entry| entry.dark)
    }

    fn folds(&self) -> bool {
        self.tables.folds()
    }
}

/// What a logged statement does to captured tables, read as its session read it.
pub(super) fn logged_effects(
    text: &str,
    database: &str,
    query: &QueryEvent<'_>,
    captured: &dyn Captured,
    identity: &Identity,
    options: &MysqlOptions,
) -> Vec<Effect> {
    let mode = sql_mode(query);
    let (major, minor, patch) = identity.numbers;
    let context = ddl::Context {
        captured,
        database,
        dialect: Dialect {
            ansi_quotes: mode & MODE_ANSI_QUOTES != 0,
            no_backslash_escapes: mode & MODE_NO_BACKSLASH_ESCAPES != 0,
            version: u32::from(major) * 10_000 + u32::from(minor) * 100 + u32::from(patch),
        },
        mode: ddl::Mode {
            strict: mode & (MODE_STRICT_TRANS_TABLES | MODE_STRICT_ALL_TABLES) != 0,
            real_as_float: mode & MODE_REAL_AS_FLOAT != 0,
        },
        utf8mb4_collation: utf8mb4_collation(query, identity),
        types: &options.types,
        timestamps_nullable: timestamps_nullable(query),
        accept_cascades: options.accept_foreign_key_cascades,
    };
    ddl::effects(text, &context)
}

/// Whether the transaction at `at` stands at or before `end`, a former end of the log.
fn is_before(at: &MysqlPosition, end: &MysqlPosition, gtid: Option<&super::Gtid>) -> bool {
    if let (Some((uuid, tag, number)), Some(set)) = (gtid, &end.gtid_set)
        && set.contains(uuid, tag, *number)
    {
        return true;
    }
    Position::Mysql(end.clone()).is_at_or_after(&Position::Mysql(at.clone()))
}

/// The error for rows that were logged as a statement.
pub(super) fn logged_as_text(verb: &str) -> Error {
    Error::definite(format!("a session logs statements, not rows ({verb})")).advice(
        "Set binlog_format=ROW for all sessions; rows changed by this statement are unknown: \
         start the job anew into empty tables",
    )
}

/// A statement for a message: one line, cut; statements about accounts are not shown.
pub(super) fn shown(text: &str) -> String {
    if ddl::is_about_accounts(text) && !text.to_ascii_uppercase().contains("TABLE") {
        return "(a statement about accounts)".into();
    }
    shorten(text, SHOWN_CHARS)
}

fn sql_mode(query: &QueryEvent<'_>) -> u64 {
    let Some(var) = query.status_vars().get_status_var(StatusVarKey::SqlMode) else {
        return 0;
    };
    match var.get_value() {
        Ok(StatusVarVal::SqlMode(mode)) => mode.0,
        _ => 0,
    }
}

/// `explicit_defaults_for_timestamp` is on, the default since MySQL 8.0.2.
fn timestamps_nullable(query: &QueryEvent<'_>) -> bool {
    let var = query
        .status_vars()
        .get_status_var(StatusVarKey::ExplicitDefaultsForTimestamp);
    !matches!(
        var.as_ref().map(|var| var.get_value()),
        Some(Ok(StatusVarVal::ExplicitDefaultsForTimestamp(false)))
    )
}

/// The collation of `utf8mb4` where none is named: `default_collation_for_utf8mb4` of the session.
/// Its id in `information_schema.collations` is in the log from 8.0 on.
fn utf8mb4_collation(query: &QueryEvent<'_>, identity: &Identity) -> &'static str {
    let var = query
        .status_vars()
        .get_status_var(StatusVarKey::DefaultCollationForUtf8mb4);
    match var.as_ref().map(|var| var.get_value()) {
        Some(Ok(StatusVarVal::DefaultCollationForUtf8mb4(45))) => "utf8mb4_general_ci",
        None if identity.numbers < (8, 0, 0) => "utf8mb4_general_ci",
        _ => "utf8mb4_0900_ai_ci",
    }
}

/// The statement's text. It is in the character set of the client that sent it.
pub(super) fn query_text(query: &QueryEvent<'_>) -> String {
    let raw = query.query_raw();
    if let Ok(text) = std::str::from_utf8(raw) {
        return text.to_owned();
    }
    let var = query.status_vars().get_status_var(StatusVarKey::Charset);
    let client = match var.as_ref().map(|var| var.get_value()) {
        Some(Ok(StatusVarVal::Charset { charset_client, .. })) => charset_client,
        _ => 0,
    };
    // Collation ids of `information_schema.collations`.
    let encoding = match client {
        1 | 84 => encoding_rs::BIG5,
        13 | 88 | 95 | 96 => encoding_rs::SHIFT_JIS,
        12 | 91 | 97 | 98 => encoding_rs::EUC_JP,
        19 | 85 => encoding_rs::EUC_KR,
        24 | 28 | 86 | 87 | 248..=250 => encoding_rs::GB18030,
        5 | 8 | 15 | 31 | 47 | 48 | 49 | 94 => encoding_rs::WINDOWS_1252,
        _ => encoding_rs::UTF_8,
    };
    encoding.decode_without_bom_handling(raw).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_accounts_are_not_shown() {
        assert!(!shown("ALTER USER a IDENTIFIED BY 'secret'").contains("secret"));
        assert!(shown("ALTER TABLE users DROP a").contains("DROP a"));
        assert_eq!(shown(&"x".repeat(400)).chars().count(), SHOWN_CHARS + 1);
    }
}
