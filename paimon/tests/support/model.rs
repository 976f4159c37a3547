//! A table in memory: what the simple merge engines must leave, whoever wrote.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::value::{Type, Value, object};

/// Kind of a change, as the format numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Insert,
    UpdateBefore,
    UpdateAfter,
    Delete,
}

impl Kind {
    /// As Java prints it.
    pub fn sign(self) -> &'static str {
        ["+I", "-U", "+U", "-D"][self as usize]
    }
}

/// A change: kind and values in the order of the columns.
pub type Change = (Kind, Vec<Value>);

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub kind: Type,
    pub nullable: bool,
}

/// What a table is.
#[derive(Debug, Clone)]
pub struct Definition {
    pub columns: Vec<Column>,
    /// Names; partition columns included.
    pub primary_keys: Vec<String>,
    pub partition_keys: Vec<String>,
    pub options: BTreeMap<String, String>,
}

impl Definition {
    /// As the Java oracle takes it.
    pub fn json(&self) -> String {
        let columns: Vec<Json> = self
            .columns
            .iter()
            .map(|column| {
                let not_null = if column.nullable { "" } else { " NOT NULL" };
                json!([column.name, format!("{}{not_null}", column.kind)])
            })
            .collect();
        json!({
            "columns": columns,
            "primaryKeys": self.primary_keys,
            "partitionKeys": self.partition_keys,
            "options": self.options,
        })
        .to_string()
    }

    pub fn position(&self, name: &str) -> usize {
        self.columns
            .iter()
            .position(|column| column.name == name)
            .unwrap_or_else(|| panic!("no column {name}"))
    }

    /// A row as canonical text.
    pub fn line(&self, row: &[Value]) -> String {
        let columns = self.columns.iter().zip(row);
        object(columns.map(|(column, value)| (column.name.as_str(), &column.kind, value)))
    }

    /// A change as the Java oracle takes it.
    pub fn change(&self, (kind, row): &Change) -> String {
        format!(
            "{{\"kind\":\"{}\",\"row\":{}}}",
            kind.sign(),
            self.line(row)
        )
    }

    fn key(&self, row: &[Value]) -> Vec<String> {
        let keys = self.primary_keys.iter().map(|key| self.position(key));
        keys.map(|at| row[at].text(&self.columns[at].kind))
            .collect()
    }
}

/// A change of the schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Alter {
    Add(String, Type),
    Drop(String),
    Rename(String, String),
    Widen(String, Type),
}

impl Alter {
    /// Words of the Java oracle's verb.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Add(name, kind) => vec!["add".into(), name.clone(), kind.to_string()],
            Self::Drop(name) => vec!["drop".into(), name.clone()],
            Self::Rename(name, new) => vec!["rename".into(), name.clone(), new.clone()],
            Self::Widen(name, kind) => vec!["type".into(), name.clone(), kind.to_string()],
        }
    }
}

/// What rows of one key leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merging {
    /// Every row stays: no key.
    Append,
    /// The last row of a key.
    Deduplicate,
    /// The first row of a key.
    FirstRow,
}

/// The rows of a table.
#[derive(Debug, Clone)]
pub struct Model {
    pub definition: Definition,
    merging: Merging,
    rows: BTreeMap<Vec<String>, Vec<Value>>,
    appended: u64,
}

impl Model {
    pub fn new(definition: Definition, merging: Merging) -> Self {
        Self {
            definition,
            merging,
            rows: BTreeMap::new(),
            appended: 0,
        }
    }

    pub fn write(&mut self, changes: &[Change]) {
        for (kind, row) in changes {
            let key = match self.merging {
                Merging::Append => vec![self.appended.to_string()],
                _ => self.definition.key(row),
            };
            self.appended += 1;
            match kind {
                Kind::UpdateBefore => {}
                Kind::Delete => {
                    self.rows.remove(&key);
                }
                _ if self.merging == Merging::FirstRow => {
                    self.rows.entry(key).or_insert_with(|| row.clone());
                }
                _ => {
                    self.rows.insert(key, row.clone());
                }
            }
        }
    }

    pub fn alter(&mut self, change: &Alter) {
        let definition = &mut self.definition;
        match change {
            Alter::Add(name, kind) => {
                definition.columns.push(Column {
                    name: name.clone(),
                    kind: kind.clone(),
                    nullable: true,
                });
                self.rows.values_mut().for_each(|row| row.push(Value::Null));
            }
            Alter::Drop(name) => {
                let at = definition.position(name);
                definition.columns.remove(at);
                self.rows.values_mut().for_each(|row| {
                    row.remove(at);
                });
            }
            Alter::Rename(name, new) => {
                let at = definition.position(name);
                definition.columns[at].name.clone_from(new);
            }
            Alter::Widen(name, kind) => {
                let at = definition.position(name);
                definition.columns[at].kind = kind.clone();
            }
        }
    }

    /// Canonical lines, sorted.
    pub fn lines(&self) -> Vec<String> {
        let rows = self.rows.values();
        let mut lines: Vec<String> = rows.map(|row| self.definition.line(row)).collect();
        lines.sort();
        lines
    }

    /// A row that is there.
    pub fn row(&self, at: usize) -> Option<&Vec<Value>> {
        self.rows.values().nth(at.checked_rem(self.rows.len())?)
    }
}

/// The first differences of two sorted lists of lines; `None` when they are equal.
pub fn difference(want: &[String], have: &[String]) -> Option<String> {
    if want == have {
        return None;
    }
    let count = |lines: &[String]| {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        lines
            .iter()
            .for_each(|line| *counts.entry(line.clone()).or_default() += 1);
        counts
    };
    let mut surplus = count(have);
    for (line, n) in count(want) {
        *surplus.entry(line).or_default() -= n;
    }
    surplus.retain(|_, n| *n != 0);
    let shown: Vec<String> = surplus
        .iter()
        .take(6)
        .map(|(line, n)| {
            let what = if *n < 0 { "missing" } else { "surplus" };
            format!("{what} {} × {line}", n.abs())
        })
        .collect();
    Some(format!(
        "{} rows, not {}; {} lines differ:\n    {}",
        have.len(),
        want.len(),
        surplus.len(),
        shown.join("\n    ")
    ))
}
