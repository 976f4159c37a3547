//! What the account may do, as SHOW GRANTS tells it.

use std::collections::BTreeSet;

use mysql_async::Conn;

use super::connect::{query, query_first};
use crate::{error::Result, schema::TableName};

/// Privileges of the account and its roles, by where they hold.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// `'name'@'host'`, for statements that a person runs.
    pub account: String,
    global: BTreeSet<String>,
    /// Upper-case privilege, database pattern (backquotes removed), table or `*`.
    local: Vec<(String, String, String)>,
}

impl Grants {
    /// Those of the connection's account, with its active roles.
    pub async fn of(conn: &mut Conn) -> Result<Self> {
        let user: Option<String> = query_first(conn, "SELECT CURRENT_USER()").await?;
        let user = user.unwrap_or_default();
        let mut lines: Vec<String> = query(conn, "SHOW GRANTS").await?;
        // Servers before 8.0 have no roles.
        let roles: Option<String> = match query_first(conn, "SELECT CURRENT_ROLE()").await {
            Err(error) if error.is_transient() => return Err(error),
            roles => roles.ok().flatten(),
        };
        if let Some(roles) = roles.filter(|roles| roles != "NONE" && !roles.is_empty()) {
            let sql = format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}");
            match query::<String>(conn, &sql).await {
                Ok(more) => lines.extend(more),
                Err(error) if error.is_transient() => return Err(error),
                Err(_) => {}
            }
        }
        let account = match user.rsplit_once('@') {
            Some((name, host)) => format!("'{name}'@'{host}'"),
            None => user,
        };
        Ok(Self {
            account,
            ..Self::read(&lines)
        })
    }

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

    /// Whether a privilege holds for everything.
    pub fn has_global(&self, privilege: &str) -> bool {
        self.global.contains(privilege) || self.global.contains("ALL PRIVILEGES")
    }

    /// Whether a privilege holds for a whole table.
    pub fn has(&self, privilege: &str, name: &TableName) -> bool {
        self.has_global(privilege)
            || self.local.iter().any(|(own, on, of)| {
                (own == privilege || own == "ALL PRIVILEGES")
                    && (of == "*" || *of == name.table)
                    && like(on, &name.database)
            })
    }
}

/// Database patterns of grants: `%` is any text, `_` any character, `\` takes that away.
fn like(pattern: &str, text: &str) -> bool {
    if pattern == text || !pattern.contains(['%', '_', '\\']) {
        return pattern == text;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read() {
        let lines = [
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%`",
            "GRANT SELECT, INSERT ON `shop\\_1`.* TO `a`@`%`",
            "GRANT SELECT ON `other`.`t` TO `a`@`%`",
            "GRANT SELECT (`id`), INSERT ON `other`.`part` TO `a`@`%`",
            "GRANT `role`@`%` TO `a`@`%`",
        ]
        .map(str::to_owned);
        let grants = Grants::read(&lines);
        let reads = |database: &str, table: &str| {
            let name = TableName::new(database, table);
            grants.has("SELECT", &name)
        };
        assert!(grants.has_global("REPLICATION SLAVE") && !grants.has_global("SELECT"));
        assert!(reads("shop_1", "x") && !reads("shopx1", "x"));
        assert!(reads("other", "t") && !reads("other", "u") && !reads("other", "part"));
        let all = Grants::read(&["GRANT ALL PRIVILEGES ON *.* TO `r`@`%`".to_owned()]);
        assert!(all.has("SELECT", &TableName::new("x", "y")));
        assert!(all.has_global("REPLICATION SLAVE"));
    }
}
