//! Which tables of the lake a source table goes to.
//!
//! The meaning is Flink CDC's (`TableIdRouter`): a rule's `source-table` is a regular expression
//! over the whole name `database.table`, in which `,` parts alternatives, a bare `.` is the dot
//! between the parts and `\.` is any character; case matters. `sink-table` takes the groups of the
//! match as `$1`, or the source table's name in place of `replace-symbol`. A table that no rule
//! matches keeps its name.

use std::collections::BTreeMap;

use headwater_connectors::schema::TableName;
use regex::Regex;

use crate::config::{Route, RouteMode};

/// Why a table cannot be routed, or a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// `source-table` is no regular expression that is understood here.
    #[error(
        "`{pattern}` is no regular expression: {reason} (a bare `.` parts database from table; \
         write `\\.` for any character)"
    )]
    Pattern {
        /// `source-table` as the file has it.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `sink-table` cannot name a table.
    #[error("`{template}` cannot name a table: {reason}")]
    Template {
        /// `sink-table` as the file has it.
        template: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `replace-symbol` does not stand in `sink-table`, or is empty.
    #[error("the symbol `{symbol}` does not stand in `sink-table: {template}`")]
    Symbol {
        /// `replace-symbol`.
        symbol: String,
        /// `sink-table`.
        template: String,
    },
    /// A rule makes no `database.table` of a source table's name.
    #[error(
        "the route to `{template}` makes `{made}` of the source table {source_table}, \
         which is not `database.table`"
    )]
    Made {
        /// The source table.
        source_table: TableName,
        /// `sink-table` of the rule.
        template: String,
        /// What came out.
        made: String,
    },
    /// Two source tables go to one sink table.
    #[error(
        "the source tables {first} and {second} are both routed to {sink}; \
         merging tables is not supported yet"
    )]
    Merged {
        /// The sink table.
        sink: Box<TableName>,
        /// One source table.
        first: Box<TableName>,
        /// The other.
        second: Box<TableName>,
    },
}

impl RouteError {
    /// The key of a rule that is to blame.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Pattern { .. } => "source-table",
            Self::Symbol { .. } => "replace-symbol",
            Self::Template { .. } | Self::Made { .. } | Self::Merged { .. } => "sink-table",
        }
    }
}

/// A part of `sink-table`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// A group of the match, by number.
    Group(usize),
    /// The source table's name without its database.
    Table,
}

/// A route, ready to use.
#[derive(Debug, Clone)]
pub struct Rule {
    pattern: String,
    regex: Regex,
    template: String,
    pieces: Vec<Piece>,
}

impl Rule {
    /// Checks and compiles a route.
    pub fn compile(route: &Route) -> Result<Self, RouteError> {
        let pattern = route.source_table.clone();
        let failed = |reason: String| RouteError::Pattern {
            pattern: pattern.clone(),
            reason,
        };
        if pattern.trim().is_empty() {
            return Err(failed("it is empty".to_owned()));
        }
        let expression = expression(&pattern);
        // First as it stands: a stray bracket must not pair with those that are put around it.
        Regex::new(&expression).map_err(|error| failed(regex_reason(&error)))?;
        let regex = Regex::new(&format!(r"\A(?:{expression})\z"))
            .map_err(|error| failed(regex_reason(&error)))?;
        let template = route.sink_table.clone();
        let pieces = match &route.replace_symbol {
            Some(symbol) => symbol_pieces(&template, symbol)?,
            None => group_pieces(&template, &regex).map_err(|reason| RouteError::Template {
                template: template.clone(),
                reason,
            })?,
        };
        check_dots(&pieces).map_err(|reason| RouteError::Template {
            template: template.clone(),
            reason,
        })?;
        Ok(Self {
            pattern,
            regex,
            template,
            pieces,
        })
    }

    /// What looks like a slip in `source-table`: a bare `.` that is repeated matches dots only.
    pub fn suspicion(&self) -> Option<String> {
        let bare = self.pattern.replace("\\.", "\u{1}");
        [".*", ".+", ".?", ".{"]
            .iter()
            .any(|slip| bare.contains(slip))
            .then(|| {
                format!(
                    "in `{}`, a bare `.` is the dot between database and table; \
                     write `\\.` for any character",
                    self.pattern
                )
            })
    }

    /// The sink table of a source table; `None`: the rule does not match.
    pub fn apply(&self, table: &TableName) -> Result<Option<TableName>, RouteError> {
        let name = table.to_string();
        let Some(captures) = self.regex.captures(&name) else {
            return Ok(None);
        };
        let mut made = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => made.push_str(text),
                Piece::Table => made.push_str(&table.table),
                Piece::Group(group) => {
                    made.push_str(captures.get(*group).map_or("", |found| found.as_str()));
                }
            }
        }
        let mut parts = made.split('.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(database), Some(sink), None) if !database.is_empty() && !sink.is_empty() => {
                Ok(Some(TableName::new(database, sink)))
            }
            _ => Err(RouteError::Made {
                source_table: table.clone(),
                template: self.template.clone(),
                made,
            }),
        }
    }
}

/// The routes of a job.
#[derive(Debug, Clone)]
pub struct Router {
    rules: Vec<Rule>,
    mode: RouteMode,
}

impl Router {
    /// Compiles the routes.
    pub fn new(routes: &[Route], mode: RouteMode) -> Result<Self, RouteError> {
        Ok(Self {
            rules: routes.iter().map(Rule::compile).collect::<Result<_, _>>()?,
            mode,
        })
    }

    /// The sink tables of a source table, at least one, none twice.
    pub fn route(&self, table: &TableName) -> Result<Vec<TableName>, RouteError> {
        let mut sinks: Vec<TableName> = Vec::new();
        for rule in &self.rules {
            let Some(sink) = rule.apply(table)? else {
                continue;
            };
            if !sinks.contains(&sink) {
                sinks.push(sink);
            }
            if self.mode == RouteMode::FirstMatch {
                break;
            }
        }
        if sinks.is_empty() {
            sinks.push(table.clone());
        }
        Ok(sinks)
    }

    /// The sink tables of all source tables. Errors: two of them go to one sink table, which is
    /// not supported yet.
    pub fn plan<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a TableName>,
    ) -> Result<BTreeMap<TableName, Vec<TableName>>, RouteError> {
        let mut plan = BTreeMap::new();
        let mut taken: BTreeMap<TableName, &TableName> = BTreeMap::new();
        for table in tables {
            let sinks = self.route(table)?;
            for sink in &sinks {
                if let Some(first) = taken.insert(sink.clone(), table)
                    && first != table
                {
                    return Err(RouteError::Merged {
                        sink: Box::new(sink.clone()),
                        first: Box::new(first.clone()),
                        second: Box::new(table.clone()),
                    });
                }
            }
            plan.insert(table.clone(), sinks);
        }
        Ok(plan)
    }
}

/// Flink CDC's pattern as a regular expression over `database.table`: `,` becomes `|`, a bare dot
/// is the dot itself and `\.` any character.
fn expression(pattern: &str) -> String {
    let alternatives: Vec<&str> = pattern.split(',').map(str::trim).collect();
    let joined = alternatives.join("|");
    let mut expression = String::with_capacity(joined.len());
    let mut rest = joined.as_str();
    while let Some((before, after)) = rest.split_once('.') {
        match before.strip_suffix('\\') {
            Some(before) => {
                expression.push_str(before);
                expression.push('.');
            }
            None => {
                expression.push_str(before);
                expression.push_str("\\.");
            }
        }
        rest = after;
    }
    expression.push_str(rest);
    expression
}

/// The last line of a regular expression's error: the others draw the pattern.
pub(crate) fn regex_reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn symbol_pieces(template: &str, symbol: &str) -> Result<Vec<Piece>, RouteError> {
    if symbol.is_empty() || !template.contains(symbol) {
        return Err(RouteError::Symbol {
            symbol: symbol.to_owned(),
            template: template.to_owned(),
        });
    }
    let mut pieces = Vec::new();
    for (number, text) in template.split(symbol).enumerate() {
        if number > 0 {
            pieces.push(Piece::Table);
        }
        pieces.push(Piece::Text(text.to_owned()));
    }
    Ok(pieces)
}

/// Reads a replacement as Java's `Matcher.replaceAll` does: `$1`, `${name}`, `\` before a
/// character that is meant literally. A number takes further digits as long as there is such a
/// group.
fn group_pieces(template: &str, regex: &Regex) -> Result<Vec<Piece>, String> {
    let groups = regex.captures_len();
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' {
            text.push(chars.next().ok_or("a `\\` ends it")?);
            continue;
        }
        if c != '$' {
            text.push(c);
            continue;
        }
        let group = if chars.next_if_eq(&'{').is_some() {
            let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
            regex
                .capture_names()
                .position(|known| known == Some(name.as_str()))
                .ok_or_else(|| format!("`source-table` has no group `{name}`"))?
        } else {
            let digit = |c: &char| c.to_digit(10).and_then(|d| usize::try_from(d).ok());
            let mut number =
                chars.next().as_ref().and_then(digit).ok_or(
                    "`$` needs the number of a group behind it; write `\\$` for a plain `$`",
                )?;
            if number >= groups {
                return Err(format!("`source-table` has no group {number}"));
            }
            while let Some(next) = chars.peek().and_then(digit) {
                let longer = number * 10 + next;
                if longer >= groups {
                    break;
                }
                number = longer;
                chars.next();
            }
            number
        };
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        pieces.push(Piece::Group(group));
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}

/// A template must be able to make `database.table`.
fn check_dots(pieces: &[Piece]) -> Result<(), String> {
    let dots: usize = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.matches('.').count(),
            _ => 0,
        })
        .sum();
    let grouped = pieces.iter().any(|piece| matches!(piece, Piece::Group(_)));
    match dots {
        0 if !grouped => Err("write `database.table`".to_owned()),
        0 | 1 => Ok(()),
        _ => Err("it has more than two parts; write `database.table`".to_owned()),
    }
}

#[cfg(test)]
mod tests;
