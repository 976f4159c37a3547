//! Everything that would go wrong, each named.

use mysql_async::{Conn, Row};

use super::{
    connect::{Identity, connect_known, query_first, shorten},
    discover::{Found, discover, hidden_cascades},
    grants::Grants,
    options::{MysqlOptions, ServerIds},
    replica, round, versions,
};
use crate::{
    error::Error,
    source::{Check, CheckStatus},
};

/// Logs kept for less than this are a risk: a job that stops overnight cannot go on.
const RETENTION_MIN_S: u64 = 3600;

/// Runs all checks; never stops at the first failure.
///
/// Also gives the server id to use: where the job names none, one that is free.
pub(super) async fn run(options: &MysqlOptions, server_id: u32) -> (Vec<Check>, u32) {
    let mut list = List::default();
    let (mut conn, identity) = match connect_known(options).await {
        Ok(connected) => connected,
        Err(error) => {
            list.error("connection", &error);
            return (list.0, server_id);
        }
    };
    list.pass(
        "connection",
        format!("{}@{}", options.username, options.hosts.current()),
    );
    version(&mut list, &identity);
    let found = tables(&mut list, &mut conn, options).await;
    let account = privileges(&mut list, &mut conn, &found).await;
    log_settings(&mut list, &mut conn, &identity).await;
    retention(&mut list, &mut conn).await;
    let server_id = server_ids(&mut list, &mut conn, &identity, options, server_id).await;
    replicated(&mut list, &mut conn, &identity).await;
    filters(&mut list, &mut conn, &identity).await;
    foreign_keys(&mut list, &mut conn, options, &found).await;
    open_xa(&mut list, &mut conn, &account).await;
    (list.0, server_id)
}

#[derive(Default)]
struct List(Vec<Check>);

impl List {
    fn push(&mut self, name: &str, status: CheckStatus, found: String, advice: Option<&str>) {
        self.0.push(Check {
            name: name.into(),
            status,
            found,
            advice: advice.map(str::to_owned),
        });
    }

    fn pass(&mut self, name: &str, found: impl Into<String>) {
        self.push(name, CheckStatus::Passed, found.into(), None);
    }

    fn warn(&mut self, name: &str, found: impl Into<String>, advice: &str) {
        self.push(name, CheckStatus::Warning, found.into(), Some(advice));
    }

    fn fail(&mut self, name: &str, found: impl Into<String>, advice: &str) {
        self.push(name, CheckStatus::Failed, found.into(), Some(advice));
    }

    fn error(&mut self, name: &str, error: &Error) {
        let advice = error
            .advice_text()
            .unwrap_or("See the message; the check can be run again at any time");
        self.fail(name, error.without_advice(), advice);
    }
}

fn version(list: &mut List, identity: &Identity) {
    if identity.numbers >= (8, 0, 0) {
        list.pass("version", &identity.version);
    } else {
        list.warn(
            "version",
            &identity.version,
            "Tested with MySQL 8.0 and later; expect rough edges",
        );
    }
}

async fn tables(list: &mut List, conn: &mut Conn, options: &MysqlOptions) -> Found {
    let found = match discover(conn, options).await {
        Ok(found) => found,
        Err(error) => {
            list.error("tables", &error);
            return Found::default();
        }
    };
    let count = found.captured.len();
    if count == 0 {
        list.fail(
            "tables",
            "no table matches",
            "Check `tables` and `tables.exclude`, and that the account may see the tables \
             (GRANT SELECT)",
        );
    } else {
        list.pass("tables", format!("{count} captured"));
    }
    for (name, reason) in &found.rejected {
        list.push(
            &format!("table {name}"),
            CheckStatus::Failed,
            format!("cannot be captured: {reason}"),
            Some("Mend it, or leave the table out (tables.exclude)"),
        );
    }
    found
}

/// Gives the account, for statements that a person runs.
async fn privileges(list: &mut List, conn: &mut Conn, found: &Found) -> String {
    let grants = match Grants::of(conn).await {
        Ok(grants) => grants,
        Err(error) => {
            list.error("privileges", &error);
            return "the job's account".to_owned();
        }
    };
    let account = &grants.account;
    for privilege in ["REPLICATION SLAVE", "REPLICATION CLIENT"] {
        let name = format!("privilege {privilege}");
        if grants.has_global(privilege)
            || privilege == "REPLICATION CLIENT" && grants.has_global("SUPER")
        {
            list.pass(&name, "granted");
        } else {
            list.fail(
                &name,
                "missing",
                &format!("GRANT {privilege} ON *.* TO {account}"),
            );
        }
    }
    let missing: Vec<String> = found.unreadable.iter().map(ToString::to_string).collect();
    if missing.is_empty() {
        let tables = found.captured.len();
        let found = match tables {
            0 => "no table is captured".to_owned(),
            _ => format!("granted on {}", counted(tables, "captured table")),
        };
        list.pass("privilege SELECT", found);
    } else {
        list.fail(
            "privilege SELECT",
            format!("missing on {}", shorten(&missing.join(", "), 300)),
            &format!(
                "GRANT SELECT ON {} TO {account}",
                missing.first().map_or("", |name| name)
            ),
        );
    }
    grants.account
}

/// A number of things: `1 table`, `2 tables`.
fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// A time as people say it, as exact as it is.
fn span(seconds: u64) -> String {
    let (unit, name) = [(86_400, "day"), (3_600, "hour"), (60, "minute")]
        .into_iter()
        .find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    counted(usize::try_from(seconds / unit).unwrap_or(usize::MAX), name)
}

async fn variable(conn: &mut Conn, name: &str) -> Option<String> {
    let sql = format!("SHOW GLOBAL VARIABLES LIKE '{name}'");
    let row: Option<(String, String)> = query_first(conn, &sql).await.ok()?;
    row.map(|(_, value)| value)
}

async fn log_settings(list: &mut List, conn: &mut Conn, identity: &Identity) {
    match variable(conn, "log_bin").await.as_deref() {
        Some("ON" | "1") => list.pass("log_bin", "ON"),
        other => list.fail(
            "log_bin",
            other.unwrap_or("unknown"),
            "Start the server with log_bin",
        ),
    }
    match variable(conn, "binlog_format").await.as_deref() {
        Some("ROW") | None => list.pass("binlog_format", "ROW"),
        Some(other) => list.fail("binlog_format", other, "SET PERSIST binlog_format = ROW"),
    }
    match variable(conn, "binlog_row_image").await.as_deref() {
        Some("FULL") => list.pass("binlog_row_image", "FULL"),
        other => list.fail(
            "binlog_row_image",
            other.unwrap_or("unknown"),
            "SET PERSIST binlog_row_image = FULL, then reconnect every writer",
        ),
    }
    match variable(conn, "binlog_row_value_options").await.as_deref() {
        Some("") | None => list.pass("binlog_row_value_options", "empty"),
        Some(other) => list.fail(
            "binlog_row_value_options",
            other,
            "SET PERSIST binlog_row_value_options = '', then reconnect every writer",
        ),
    }
    if identity.gtid {
        list.pass("gtid_mode", "ON");
    } else {
        list.warn(
            "gtid_mode",
            "not ON: the job follows file and position",
            "With gtid_mode=ON the job survives a failover, and other engines may compact the \
             tables during the snapshot",
        );
    }
}

async fn retention(list: &mut List, conn: &mut Conn) {
    let seconds = variable(conn, "binlog_expire_logs_seconds").await;
    match seconds.and_then(|text| text.parse::<u64>().ok()) {
        Some(0) => list.pass("log retention", "for ever (binlog_expire_logs_seconds = 0)"),
        Some(seconds) if seconds < RETENTION_MIN_S => list.warn(
            "log retention",
            span(seconds),
            "SET PERSIST binlog_expire_logs_seconds to a day or more: a job that stops for longer \
             cannot go on",
        ),
        Some(seconds) => list.pass("log retention", span(seconds)),
        None => list.warn(
            "log retention",
            "unknown",
            "Make sure that logs are kept for longer than the job may stand still",
        ),
    }
}

/// Gives the id to use.
async fn server_ids(
    list: &mut List,
    conn: &mut Conn,
    identity: &Identity,
    options: &MysqlOptions,
    server_id: u32,
) -> u32 {
    let name = "server id";
    if options.server_ids != ServerIds::Random && identity.server_id == server_id {
        list.fail(
            name,
            format!("{server_id} is the server's own"),
            "Give the job another `server-id`",
        );
        return server_id;
    }
    let others = match replica::connected(conn, identity).await {
        Ok(others) => others,
        Err(error) => {
            list.error(name, &error);
            return server_id;
        }
    };
    match replica::free_id(server_id, options, identity, &others) {
        Some(free) => {
            list.pass(name, format!("{free} is free"));
            free
        }
        None => {
            list.fail(
                name,
                format!("{server_id} is in use by a connected replica"),
                "Give the job another `server-id`, or stop the other job",
            );
            server_id
        }
    }
}

async fn replicated(list: &mut List, conn: &mut Conn, identity: &Identity) {
    let updates = variable(conn, versions::log_replica_updates(identity.numbers)).await;
    if updates.as_deref() != Some("OFF") {
        return list.pass("replicated changes", "logged");
    }
    list.warn(
        "replicated changes",
        "log_replica_updates is OFF: what this server gets as a replica is not in its log",
        "Set log_replica_updates=ON, or connect to the source",
    );
}

async fn filters(list: &mut List, conn: &mut Conn, identity: &Identity) {
    let row: Option<Row> = query_first(conn, versions::show_log_status(identity.numbers))
        .await
        .ok()
        .flatten();
    let text = |at| {
        row.as_ref()
            .and_then(|row| row.get_opt::<String, _>(at))
            .and_then(|text| text.ok())
            .unwrap_or_default()
    };
    let (only, never) = (text(2), text(3));
    if only.is_empty() && never.is_empty() {
        list.pass("log filters", "none");
    } else {
        list.fail(
            "log filters",
            format!("binlog_do_db={only}, binlog_ignore_db={never}"),
            "Start the server without binlog_do_db and binlog_ignore_db: filtered changes are lost",
        );
    }
}

async fn foreign_keys(list: &mut List, conn: &mut Conn, options: &MysqlOptions, found: &Found) {
    match hidden_cascades(conn).await {
        Err(error) => list.error("foreign keys", &error),
        Ok(cascades) => {
            let hidden: Vec<String> = cascades
                .iter()
                .filter(|(name, _)| options.tables.matches(name))
                .map(|(name, constraint)| format!("{name} ({constraint})"))
                .collect();
            let accepted = options.accept_foreign_key_cascades;
            if hidden.is_empty() {
                list.pass(
                    "foreign keys",
                    format!(
                        "no unlogged actions on {}",
                        counted(found.captured.len(), "captured table")
                    ),
                );
            } else {
                let status = if accepted {
                    CheckStatus::Warning
                } else {
                    CheckStatus::Failed
                };
                list.push(
                    "foreign keys",
                    status,
                    format!(
                        "actions that MySQL does not log: {}",
                        shorten(&hidden.join(", "), 300)
                    ),
                    Some(
                        "Drop the CASCADE and SET actions, leave the tables out (tables.exclude), \
                         or take the loss with accept-foreign-key-cascades.enabled: true",
                    ),
                );
            }
        }
    }
}

async fn open_xa(list: &mut List, conn: &mut Conn, account: &str) {
    match round::prepared(conn).await {
        Ok(open) if open.is_empty() => list.pass("open XA transactions", "none"),
        Ok(open) => list.warn(
            "open XA transactions",
            shorten(&open.join(", "), 300),
            "A new job waits until they are committed or rolled back",
        ),
        Err(error) => list.warn(
            "open XA transactions",
            error.without_advice(),
            &format!("GRANT XA_RECOVER_ADMIN ON *.* TO {account}, if XA transactions are in use"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(counted(1, "table"), "1 table");
        assert_eq!(counted(0, "table"), "0 tables");
        for (seconds, text) in [
            (2_592_000, "30 days"),
            (86_400, "1 day"),
            (90_000, "25 hours"),
            (61, "61 seconds"),
            (0, "0 seconds"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
