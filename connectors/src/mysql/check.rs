//! Everything that would go wrong, each named.

use std::collections::BTreeSet;

use mysql_async::{Conn, Row};

use super::{
    connect::{Identity, connect_known, query, query_first, shorten},
    discover::{Found, discover, hidden_cascades},
    options::MysqlOptions,
    round,
};
use crate::{
    error::Error,
    source::{Check, CheckStatus},
};

/// Logs kept for less than this are a risk: a job that stops overnight cannot go on.
const RETENTION_MIN_S: u64 = 3600;

/// Runs all checks; never stops at the first failure.
pub(super) async fn run(options: &MysqlOptions, server_id: u32) -> Vec<Check> {
    let mut list = List::default();
    let (mut conn, identity) = match connect_known(options).await {
        Ok(connected) => connected,
        Err(error) => {
            list.error("connection", &error);
            return list.0;
        }
    };
    list.pass(
        "connection",
        format!("{}@{}:{}", options.username, options.host, options.port),
    );
    version(&mut list, &identity);
    let found = tables(&mut list, &mut conn, options).await;
    privileges(&mut list, &mut conn, &found).await;
    log_settings(&mut list, &mut conn, &identity).await;
    retention(&mut list, &mut conn).await;
    server_ids(&mut list, &mut conn, &identity, server_id).await;
    replica(&mut list, &mut conn).await;
    filters(&mut list, &mut conn, &identity).await;
    foreign_keys(&mut list, &mut conn, options, &found).await;
    open_xa(&mut list, &mut conn).await;
    list.0
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
        self.fail(name, error.to_string(), advice);
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

/// Privileges of the account and its roles, by where they hold.
#[derive(Debug, Default)]
struct Grants {
    global: BTreeSet<String>,
    /// Upper-case privilege, database pattern (backquotes removed), table or `*`.
    local: Vec<(String, String, String)>,
}

impl Grants {
    /// Reads lines of SHOW GRANTS.
    fn read(lines: &[String]) -> Self {
        let mut grants = Self::default();
        for line in lines {
            let Some((privileges, rest)) = line
                .strip_prefix("GRANT ")
                .and_then(|line| line.split_once(" ON "))
            else {
                continue;
            };
            let Some((object, _)) = rest.split_once(" TO ") else {
                continue;
            };
            let object = object.replace('`', "");
            let (database, table) = object.split_once('.').unwrap_or((&object, "*"));
            for privilege in privileges.split(", ") {
                let privilege = privilege.trim().to_uppercase();
                if (database, table) == ("*", "*") {
                    grants.global.insert(privilege);
                } else {
                    grants
                        .local
                        .push((privilege, database.into(), table.into()));
                }
            }
        }
        grants
    }

    fn has_global(&self, privilege: &str) -> bool {
        self.global.contains(privilege) || self.global.contains("ALL PRIVILEGES")
    }

    fn has(&self, privilege: &str, database: &str, table: &str) -> bool {
        self.has_global(privilege)
            || self.local.iter().any(|(own, on, of)| {
                (own == privilege || own == "ALL PRIVILEGES")
                    && (like(on, database))
                    && (of == "*" || of == table)
            })
    }
}

/// Database patterns of grants: `%` is any text, `_` any character, `\` takes that away.
fn like(pattern: &str, text: &str) -> bool {
    let mut expression = String::from("^");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            '\\' => expression.push_str(&regex::escape(&chars.next().unwrap_or('\\').to_string())),
            c => expression.push_str(&regex::escape(&c.to_string())),
        }
    }
    expression.push('$');
    regex::Regex::new(&expression).is_ok_and(|regex| regex.is_match(text))
}

async fn privileges(list: &mut List, conn: &mut Conn, found: &Found) {
    let user: Option<String> = query_first(conn, "SELECT CURRENT_USER()")
        .await
        .ok()
        .flatten();
    let user = user.unwrap_or_default();
    let account = match user.rsplit_once('@') {
        Some((name, host)) => format!("'{name}'@'{host}'"),
        None => user.clone(),
    };
    let roles: Option<String> = query_first(conn, "SELECT CURRENT_ROLE()")
        .await
        .ok()
        .flatten();
    let mut lines: Vec<String> = match query(conn, "SHOW GRANTS").await {
        Ok(lines) => lines,
        Err(error) => return list.error("privileges", &error),
    };
    if let Some(roles) = roles.filter(|roles| roles != "NONE" && !roles.is_empty()) {
        let sql = format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}");
        if let Ok(more) = query::<String>(conn, &sql).await {
            lines.extend(more);
        }
    }
    let grants = Grants::read(&lines);
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
    let missing: Vec<String> = found
        .captured
        .iter()
        .map(|table| &table.name)
        .filter(|name| !grants.has("SELECT", &name.database, &name.table))
        .map(ToString::to_string)
        .collect();
    if missing.is_empty() {
        list.pass("privilege SELECT", "granted on every captured table");
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
            format!("{seconds} s"),
            "SET PERSIST binlog_expire_logs_seconds to a day or more: a job that stops for longer \
             cannot go on",
        ),
        Some(seconds) => list.pass("log retention", format!("{seconds} s")),
        None => list.warn(
            "log retention",
            "unknown",
            "Make sure that logs are kept for longer than the job may stand still",
        ),
    }
}

async fn server_ids(list: &mut List, conn: &mut Conn, identity: &Identity, server_id: u32) {
    if identity.server_id == server_id {
        return list.fail(
            "server id",
            format!("{server_id} is the server's own"),
            "Give the job another `server-id`",
        );
    }
    let sql = if identity.numbers >= (8, 0, 22) {
        "SHOW REPLICAS"
    } else {
        "SHOW SLAVE HOSTS"
    };
    match query::<Row>(conn, sql).await {
        Ok(rows) => {
            let taken = rows
                .iter()
                .filter_map(|row| row.get_opt::<u32, _>(0)?.ok())
                .any(|id| id == server_id);
            if taken {
                list.fail(
                    "server id",
                    format!("{server_id} is in use by a connected replica"),
                    "Give the job another `server-id`, or stop the other job",
                );
            } else {
                list.pass("server id", format!("{server_id} is free"));
            }
        }
        Err(error) => list.error("server id", &error),
    }
}

async fn replica(list: &mut List, conn: &mut Conn) {
    let updates = match variable(conn, "log_replica_updates").await {
        Some(value) => Some(value),
        None => variable(conn, "log_slave_updates").await,
    };
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
    let row: Option<Row> = query_first(conn, identity.log_status_sql())
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
                        "no unlogged actions on {} captured tables",
                        found.captured.len()
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
                    Some("Drop the CASCADE and SET actions, or leave the tables out"),
                );
            }
        }
    }
}

async fn open_xa(list: &mut List, conn: &mut Conn) {
    match round::prepared(conn).await {
        Ok(open) if open.is_empty() => list.pass("open XA transactions", "none"),
        Ok(open) => list.warn(
            "open XA transactions",
            shorten(&open.join(", "), 300),
            "A new job waits until they are committed or rolled back",
        ),
        Err(_) => list.warn(
            "open XA transactions",
            "cannot be listed",
            "GRANT XA_RECOVER_ADMIN, if XA transactions are in use",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read() {
        let lines = [
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%`",
            "GRANT SELECT, INSERT ON `shop\\_1`.* TO `a`@`%`",
            "GRANT SELECT ON `other`.`t` TO `a`@`%`",
            "GRANT `role`@`%` TO `a`@`%`",
        ]
        .map(str::to_owned);
        let grants = Grants::read(&lines);
        assert!(grants.has_global("REPLICATION SLAVE") && !grants.has_global("SELECT"));
        assert!(grants.has("SELECT", "shop_1", "x") && !grants.has("SELECT", "shopx1", "x"));
        assert!(grants.has("SELECT", "other", "t") && !grants.has("SELECT", "other", "u"));
        let all = Grants::read(&["GRANT ALL PRIVILEGES ON *.* TO `r`@`%`".to_owned()]);
        assert!(all.has("SELECT", "x", "y") && all.has_global("REPLICATION SLAVE"));
    }
}
