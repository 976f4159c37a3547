//! The run of one case: a random sequence of writes, compactions, schema changes and expiry by both
//! engines on one table, whose content is looked at by both after every step.

use std::{collections::BTreeMap, path::Path};

use headwater_paimon::{Result as OursResult, SnapshotRef};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    case::{Case, table_value},
    support::{
        model::{Alter, Change, Kind, Merging, Model, difference},
        oracle::try_java,
        ours::{Ours, refusal},
        value::{Type, Value},
    },
    tally::Tally,
};

/// Database of all tables.
pub const DATABASE: &str = "matrix";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Java,
    Ours,
}

#[derive(Debug, Clone)]
enum Step {
    Write(Engine, Vec<Change>),
    Compact(Engine, bool),
    Alter(Engine, Alter),
    Expire(Engine),
    Rescale(i32),
}

/// What a case left: the table's lines as everybody must read them.
#[derive(Debug)]
pub struct Outcome {
    pub name: String,
    pub case: Case,
    pub lines: Vec<String>,
}

pub struct Run<'a> {
    case: Case,
    name: String,
    warehouse: &'a str,
    ours: Ours,
    tally: &'a Tally,
    rng: StdRng,
    model: Model,
    keys: Vec<Vec<(String, Value)>>,
    identifier: i64,
    has_expired: bool,
    log: Vec<String>,
}

impl<'a> Run<'a> {
    pub fn new(
        case: Case,
        number: usize,
        seed: u64,
        warehouse: &'a Path,
        tally: &'a Tally,
    ) -> Self {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003) + number as u64);
        let merging = case.merging().unwrap_or(Merging::Deduplicate);
        let model = Model::new(case.definition(), merging);
        let keys = (0..10).map(|_| key(&case, &model, &mut rng)).collect();
        Self {
            case,
            name: format!("t{number}"),
            warehouse: warehouse.to_str().unwrap(),
            ours: Ours::new(warehouse, DATABASE),
            tally,
            rng,
            model,
            keys,
            identifier: 0,
            has_expired: false,
            log: Vec::new(),
        }
    }

    /// # Errors
    /// What went wrong, with the steps that led there.
    pub async fn run(mut self) -> Result<Option<Outcome>, String> {
        match self.all().await {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(format!(
                "{} ({}):\n  {}\n  {error}",
                self.name,
                self.case,
                self.log.join("\n  ")
            )),
        }
    }

    async fn all(&mut self) -> Result<Option<Outcome>, String> {
        if !self.create().await? {
            return Ok(None);
        }
        for step in self.steps() {
            self.step(&step).await?;
            let is_full = matches!(step, Step::Compact(_, true));
            let is_ours = matches!(step, Step::Write(Engine::Ours, _));
            if is_ours || self.rng.random_bool(0.5) {
                self.look(is_full).await?;
            }
        }
        self.step(&Step::Compact(Engine::Java, true)).await?;
        let lines = self.look(true).await?;
        let found = self.java("fsck", &["--all"], "")?;
        if found.contains(": ") {
            return Err(format!("fsck: {found}"));
        }
        self.look_at_stream(&lines)?;
        Ok(Some(Outcome {
            name: self.name.clone(),
            case: self.case,
            lines,
        }))
    }

    fn java(&self, verb: &str, args: &[&str], input: &str) -> Result<String, String> {
        let table = format!("{DATABASE}.{}", self.name);
        let words: Vec<&str> = [self.warehouse, table.as_str()]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let answer = try_java(verb, &words, input)?;
        Ok(answer.text)
    }

    /// What this crate said; `None` when it refuses.
    fn take<T>(&self, what: &str, result: OursResult<T>) -> Result<Option<T>, String> {
        match result {
            Ok(value) => {
                self.tally.did(what);
                Ok(Some(value))
            }
            Err(error) => match refusal(&error) {
                Some(reason) => {
                    let table = format!("{DATABASE}.{}", self.name);
                    let reason = reason.replace(&table, "T");
                    let reason = reason.split(" at line ").next().unwrap_or_default();
                    self.tally.refused(what, reason);
                    Ok(None)
                }
                None => Err(format!("ours, {what}: {error}")),
            },
        }
    }

    /// False when Java does not take such a table.
    async fn create(&mut self) -> Result<bool, String> {
        let definition = self.model.definition.clone();
        if self.case.of("creator") == "ours" {
            let created = self.ours.create(&self.name, &definition).await;
            if self.take("create", created)?.is_some() {
                self.log.push(format!("ours creates {}", definition.json()));
                return Ok(true);
            }
        }
        self.log.push(format!("Java creates {}", definition.json()));
        if let Err(error) = self.java("create", &[], &definition.json()) {
            self.tally
                .java_refused(error.lines().next().unwrap_or_default());
            return Ok(false);
        }
        Ok(true)
    }

    fn engine(&mut self) -> Engine {
        match self.rng.random_bool(0.5) {
            true => Engine::Java,
            false => Engine::Ours,
        }
    }

    /// Writes and compactions with the changes of the schema between, each of them with rows before
    /// and behind it.
    fn steps(&mut self) -> Vec<Step> {
        let mut shadow = self.model.clone();
        let mut steps = Vec::new();
        let alters: Vec<Option<Alter>> = self.case.history().into_iter().map(Some).collect();
        for alter in [vec![None], alters].concat() {
            if let Some(alter) = alter {
                steps.push(Step::Alter(self.engine(), alter.clone()));
                shadow.alter(&alter);
            }
            if self.case.has_fixed_buckets() && self.rng.random_bool(0.4) {
                steps.push(Step::Rescale(self.rng.random_range(1..6)));
            }
            for _ in 0..self.rng.random_range(1..4) {
                let changes = self.changes(&shadow);
                shadow.write(&changes);
                steps.push(Step::Write(self.engine(), changes));
                match self.rng.random_range(0..6) {
                    0 => steps.push(Step::Compact(self.engine(), false)),
                    1 => steps.push(Step::Compact(self.engine(), true)),
                    2 if self.rng.random_bool(0.4) => steps.push(Step::Expire(self.engine())),
                    _ => {}
                }
            }
        }
        steps
    }

    fn changes(&mut self, shadow: &Model) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..self.rng.random_range(1..8) {
            let key = self.keys[self.rng.random_range(0..self.keys.len())].clone();
            let columns = &shadow.definition.columns;
            let row: Vec<Value> = columns
                .iter()
                .map(
                    |column| match key.iter().find(|(name, _)| *name == column.name) {
                        Some((_, value)) => value.clone(),
                        None if self.rng.random_bool(0.2) => Value::Null,
                        None => table_value(&column.name, &mut self.rng).unwrap_or_else(|| {
                            Value::random(narrow(&column.name, &column.kind), &mut self.rng)
                        }),
                    },
                )
                .collect();
            let kind = match self.rng.random_range(0..8) {
                0 | 1 if self.case.takes_deletes() => Kind::Delete,
                2 if self.case.takes_deletes() => {
                    changes.push((Kind::UpdateBefore, row.clone()));
                    Kind::UpdateAfter
                }
                _ => Kind::Insert,
            };
            changes.push((kind, row));
        }
        changes
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        self.log.push(match step {
            Step::Write(engine, changes) => {
                let lines = changes
                    .iter()
                    .map(|change| self.model.definition.change(change));
                format!(
                    "{engine:?} writes\n    {}",
                    lines.collect::<Vec<_>>().join("\n    ")
                )
            }
            other => format!("{other:?}"),
        });
        match step {
            Step::Write(engine, changes) => self.write(*engine, changes).await,
            Step::Compact(engine, full) => {
                if *engine == Engine::Ours {
                    self.identifier += 1;
                    let done = self.ours.compact(&self.name, *full, self.identifier).await;
                    if self.take("compact", done)?.is_some() {
                        return Ok(());
                    }
                }
                self.java("compact", if *full { &["--full"] } else { &[] }, "")?;
                Ok(())
            }
            Step::Rescale(buckets) => {
                let done = self.ours.rescale(&self.name, *buckets).await;
                self.take("rescale", done)?;
                Ok(())
            }
            Step::Alter(engine, alter) => self.alter(*engine, alter).await,
            Step::Expire(engine) => {
                self.has_expired = true;
                if *engine == Engine::Ours {
                    let done = self.ours.expire(&self.name, 1).await;
                    if self.take("expire", done)?.is_some() {
                        return Ok(());
                    }
                }
                self.java("expire", &["--retain", "1"], "")?;
                Ok(())
            }
        }
    }

    async fn write(&mut self, engine: Engine, changes: &[Change]) -> Result<(), String> {
        let definition = self.model.definition.clone();
        self.model.write(changes);
        if engine == Engine::Ours {
            self.identifier += 1;
            let written = self
                .ours
                .write(&self.name, &definition, changes, self.identifier)
                .await;
            if self.take("write", written)?.is_some() {
                return Ok(());
            }
        }
        let lines: Vec<String> = changes
            .iter()
            .map(|change| definition.change(change))
            .collect();
        let args: &[&str] = match self.rng.random_bool(0.5) {
            true => &["--write-only"],
            false => &[],
        };
        self.java("write", args, &lines.join("\n"))?;
        Ok(())
    }

    async fn alter(&mut self, engine: Engine, alter: &Alter) -> Result<(), String> {
        self.model.alter(alter);
        if engine == Engine::Ours {
            let done = self.ours.alter(&self.name, alter).await;
            if self.take("alter", done)?.is_some() {
                return Ok(());
            }
        }
        let words = alter.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.java("alter", &words, "")?;
        Ok(())
    }

    /// Reads with both engines; the lines.
    async fn look(&mut self, everything_is_visible: bool) -> Result<Vec<String>, String> {
        let lines: Vec<String> = self
            .java("read", &[], "")?
            .lines()
            .map(str::to_owned)
            .collect();
        let is_sure = everything_is_visible || !self.case.is_lazy();
        if self.case.merging().is_some()
            && is_sure
            && let Some(found) = difference(&self.model.lines(), &lines)
        {
            return Err(format!("Java reads what was not written: {found}"));
        }
        let definition = &self.model.definition;
        let ours = self
            .ours
            .read(&self.name, definition, &SnapshotRef::Latest)
            .await;
        if let Some(ours) = self.take("read", ours)?
            && let Some(found) = difference(&self.sorted(&lines), &self.sorted(&ours))
        {
            return Err(format!("ours reads other rows than Java: {found}"));
        }
        Ok(lines)
    }

    /// Lines whose unordered columns stand in one order, sorted.
    fn sorted(&self, lines: &[String]) -> Vec<String> {
        let unordered = self.case.unordered();
        if unordered.is_empty() {
            return lines.to_vec();
        }
        let mut sorted: Vec<String> = lines
            .iter()
            .map(|line| {
                let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
                for name in unordered {
                    if let Some(items) = row[*name].as_array_mut() {
                        items.sort_by_key(ToString::to_string);
                    }
                }
                row.to_string()
            })
            .collect();
        sorted.sort();
        sorted
    }

    /// Who follows the table's changes from its first snapshot on must have its rows in the end.
    fn look_at_stream(&self, lines: &[String]) -> Result<(), String> {
        let is_whole = match self.case.of("changelog") {
            "none" => false,
            "input" => self.case.of("engine") == "deduplicate",
            _ => true,
        };
        if !is_whole || self.has_expired || self.case.of("history") != "none" {
            return Ok(());
        }
        let keys = &self.model.definition.primary_keys;
        let mut rows: BTreeMap<Vec<String>, &str> = BTreeMap::new();
        let changes = self.java("stream", &[], "")?;
        for line in changes.lines() {
            let (head, row) = line.split_once("\"row\":").ok_or(line)?;
            let row = &row[..row.len() - 1];
            let json: serde_json::Value = serde_json::from_str(row).map_err(|e| e.to_string())?;
            let key = keys.iter().map(|key| json[key].to_string()).collect();
            match head.contains("\"-") {
                true => rows.remove(&key),
                false => rows.insert(key, row),
            };
        }
        let mut folded: Vec<String> = rows.into_values().map(str::to_owned).collect();
        folded.sort();
        self.tally.did("stream");
        match difference(&self.sorted(lines), &self.sorted(&folded)) {
            None => Ok(()),
            Some(found) => Err(format!("the changes fold to other rows: {found}")),
        }
    }
}

/// A key and its partition; of columns that keys are made of, for append tables too.
fn key(case: &Case, model: &Model, rng: &mut StdRng) -> Vec<(String, Value)> {
    let definition = &model.definition;
    let mut key = Vec::new();
    for column in &definition.columns {
        let name = column.name.as_str();
        let value = match name {
            "p" if !case.has_key() && rng.random_bool(0.2) => Value::Null,
            "p" => {
                let text = ["x", "y/=%é", "a b", ""][rng.random_range(0..4)];
                // Java names local files of its lookups by the partition, as it is.
                Value::Text(match case.looks_up() {
                    true => text.replace('/', "_"),
                    false => text.to_owned(),
                })
            }
            "q" => Value::Int(rng.random_range(-1..2)),
            "k" | "l" | "m" => Value::random(&column.kind, rng),
            _ => continue,
        };
        key.push((name.to_owned(), value));
    }
    key
}

/// Values that a type had before it was widened are as good, and sums of them fit.
fn narrow<'t>(name: &str, kind: &'t Type) -> &'t Type {
    match (name, kind) {
        ("a", Type::BigInt) => &Type::Int,
        _ => kind,
    }
}
