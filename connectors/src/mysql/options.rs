//! What a user says about a MySQL source.

use std::{fmt, ops::RangeInclusive, time::Duration};

use regex::{Regex, RegexBuilder};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    schema::TableName,
};

pub use super::{hosts::Hosts, types::TypeOptions};

/// A password that no Debug output shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The password itself, for the connection.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a new job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Startup {
    /// All rows as they are, then every change.
    #[default]
    Initial,
    /// All rows as they are, then the end.
    Snapshot,
    /// Only what changes from now on.
    LatestOffset,
}

/// Whether the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Never.
    #[default]
    Off,
    /// Always; the server's certificate is not looked at.
    Unverified,
    /// Always; the server's certificate must be valid for its name.
    Verified,
}

/// The ids under which the job registers as a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerIds {
    /// One of 5400 to 6400 that is free.
    Random,
    /// One of these; the first is taken by the tail.
    Range(RangeInclusive<u32>),
}

/// Everything that a MySQL source needs to know.
#[derive(Debug, Clone)]
pub struct MysqlOptions {
    /// The server, and those that may take its place.
    pub hosts: Hosts,
    /// Account.
    pub username: String,
    /// Its password.
    pub password: Password,
    /// Encryption of the connection.
    pub tls: Tls,
    /// Which tables are captured.
    pub tables: TableFilter,
    /// Replica ids.
    pub server_ids: ServerIds,
    /// Who the job is among the server's replicas: the same in each of its runs, see
    /// [`super::replica_uuid`].
    pub replica_uuid: Uuid,
    /// Where a new job starts.
    pub startup: Startup,
    /// Rows of the first chunk of a table; the size then follows the time that chunks take.
    pub chunk_rows: usize,
    /// Most rows of a chunk.
    pub chunk_rows_max: usize,
    /// How types are mapped.
    pub types: TypeOptions,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// How often a connection is tried again within one call.
    pub connect_max_retries: u32,
    /// Longest silence of the log: the server sends a heartbeat after it.
    pub heartbeat_interval: Duration,
    /// The first key column to cut by, for tables that have it as the first column of their key.
    pub chunk_key_column: Option<String>,
    /// Most connections for chunk reads at a time.
    pub connections_max: usize,
    /// Capture tables that come into being while the job runs: the tail ends with
    /// [`crate::Meaning::TableCreated`].
    pub capture_created: bool,
    /// Capture tables whose rows a foreign key may change without a trace in the log.
    pub accept_foreign_key_cascades: bool,
}

impl MysqlOptions {
    /// Options with the documented defaults.
    pub fn new(host: impl Into<String>, port: u16, username: impl Into<String>) -> Self {
        Self {
            hosts: Hosts::one(host, port),
            username: username.into(),
            password: Password::default(),
            tls: Tls::Off,
            tables: TableFilter::default(),
            server_ids: ServerIds::Random,
            replica_uuid: Uuid::new_v4(),
            startup: Startup::Initial,
            chunk_rows: 8096,
            chunk_rows_max: 500_000,
            types: TypeOptions::default(),
            connect_timeout: Duration::from_secs(30),
            connect_max_retries: 3,
            heartbeat_interval: Duration::from_secs(30),
            chunk_key_column: None,
            connections_max: 8,
            capture_created: false,
            accept_foreign_key_cascades: false,
        }
    }
}

impl ServerIds {
    /// Reads `5400`, `5400-5410`, or nothing (random).
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Random);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if first > 0 && first <= last => Ok(Self::Range(first..=last)),
            _ => Err(Error::definite(format!("'{text}' is not a server id"))
                .advice("Give a number such as 5400, or a range such as 5400-5410")),
        }
    }
}

/// Chooses tables by name, with the meaning of Flink CDC's `tables` and `tables.exclude`: a list
/// separated by `,`; in each entry a bare `.` parts database from table and `\.` is the regular
/// expression's "any character". Names match as a whole, and case does not matter (Flink CDC's
/// `Selectors`).
#[derive(Debug, Clone, Default)]
pub struct TableFilter {
    include: Vec<(Regex, Regex)>,
    exclude: Vec<(Regex, Regex)>,
}

impl TableFilter {
    /// Reads both lists. `Definite` error naming the entry that cannot be read.
    pub fn parse(include: &str, exclude: Option<&str>) -> Result<Self> {
        let include = entries(include)?;
        if include.is_empty() {
            return Err(Error::definite("no tables are named")
                .advice("Name tables as database.table, for example shop.orders or shop\\..*"));
        }
        let exclude = exclude.map_or(Ok(Vec::new()), entries)?;
        Ok(Self { include, exclude })
    }

    /// Whether a table is chosen.
    pub fn matches(&self, name: &TableName) -> bool {
        let hit = |list: &[(Regex, Regex)]| {
            list.iter().any(|(database, table)| {
                database.is_match(&name.database) && table.is_match(&name.table)
            })
        };
        hit(&self.include) && !hit(&self.exclude)
    }
}

/// Splits at `,` outside brackets, then each entry at its only bare dot.
fn entries(list: &str) -> Result<Vec<(Regex, Regex)>> {
    split_list(list)
        .into_iter()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .map(|entry| {
            let (database, table) = split_entry(&entry).ok_or_else(|| {
                Error::definite(format!("'{entry}' does not name a table")).advice(
                    "Write database.table with one dot between them; \\. stands for any character",
                )
            })?;
            Ok((whole(&database, &entry)?, whole(&table, &entry)?))
        })
        .collect()
}

fn whole(pattern: &str, entry: &str) -> Result<Regex> {
    RegexBuilder::new(&format!("^(?:{pattern})$"))
        .case_insensitive(true)
        .build()
        .map_err(|e| Error::definite(format!("cannot read '{entry}' as a table name")).cause(e))
}

/// Commas inside `{}`, `[]` or `()` belong to the regular expression.
fn split_list(list: &str) -> Vec<String> {
    let (mut parts, mut depth, mut escaped) = (vec![String::new()], 0_i32, false);
    for c in list.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// The two regular expressions of an entry; `None` unless there is exactly one bare dot.
fn split_entry(entry: &str) -> Option<(String, String)> {
    let (mut parts, mut chars) = (vec![String::new()], entry.chars());
    while let Some(c) = chars.next() {
        let last = parts.last_mut()?;
        match c {
            '\\' => match chars.next() {
                Some('.') => last.push('.'),
                Some(other) => last.extend(['\\', other]),
                None => return None,
            },
            '.' => parts.push(String::new()),
            other => last.push(other),
        }
    }
    match <[String; 2]>::try_from(parts) {
        Ok([database, table]) if !database.is_empty() && !table.is_empty() => {
            Some((database, table))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(include: &str, exclude: Option<&str>, name: (&str, &str)) -> bool {
        TableFilter::parse(include, exclude)
            .unwrap()
            .matches(&TableName::new(name.0, name.1))
    }

    #[test]
    fn names_match_as_a_whole() {
        assert!(hits(r"db1.\.*", None, ("db1", "t")));
        assert!(!hits(r"db1.\.*", None, ("db10", "t")));
        assert!(!hits("db.t", None, ("xdb", "t")));
        assert!(!hits("db.t", None, ("db", "tt")));
        assert!(!hits("db.a|b", None, ("db", "bb")));
    }

    #[test]
    fn case_does_not_matter() {
        assert!(hits("Shop.orders", None, ("shop", "Orders")));
        assert!(hits("shop.[a-c]x", None, ("SHOP", "BX")));
        assert!(!hits(r"shop.\.*", Some("shop.SECRET"), ("shop", "secret")));
        assert!(!hits(r"Db1.\.*", None, ("db10", "t")));
    }

    #[test]
    fn lists_ranges_and_exclusion() {
        assert!(hits("a.t, b.u", None, ("b", "u")));
        assert!(hits("a.t[0-9]{1,2}", None, ("a", "t12")));
        assert!(hits(r"db\.*.orders_\d+", None, ("db_7", "orders_1")));
        assert!(!hits(r"a.\.*", Some("a.secret"), ("a", "secret")));
        assert!(hits(r"a.\.*", Some("a.secret"), ("a", "secrets")));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "t", "a.b.c", "a.", "a.(", "a.t\\"] {
            assert!(TableFilter::parse(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let mut options = MysqlOptions::new("h", 1, "u");
        options.password = Password::new("hunter2");
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn server_ids() {
        assert_eq!(
            ServerIds::parse(" 5401-5404 ").unwrap(),
            ServerIds::Range(5401..=5404)
        );
        assert_eq!(ServerIds::parse("7").unwrap(), ServerIds::Range(7..=7));
        assert!(ServerIds::parse("0").is_err() && ServerIds::parse("9-8").is_err());
    }
}
