//! One table and what it must hold, operation by operation.

use std::collections::BTreeMap;

use headwater_paimon::{CommitMessage, CommitOutcome, Error, SnapshotRef};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::support::{
    model::{Alter, Change, Column, Definition, Kind, Merging, Model, difference},
    ours::{Ours, refusal},
    value::{Type, Value},
};

const TABLE: &str = "t";
const WRITERS: usize = 3;
/// Keys from here on are those of the prepared commit: other commits may overtake it.
const RESERVED_KEYS: i64 = 1000;

/// What can happen to a table.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// A writer commits changes.
    Write,
    /// Two writers commit changes of different keys at the same time.
    WriteTogether,
    /// A writer dies with its files written and not committed.
    Crash,
    /// A writer makes its last commit again, as after a crash.
    Replay,
    /// Files are written; the commit comes later.
    Prepare,
    CommitPrepared,
    Evolve,
    Compact,
    CompactFully,
    Expire,
    Tag,
    DeleteTag,
    Rollback,
    Orphans,
    /// An older snapshot is read.
    Travel,
    Read,
}

/// Operations with how often they come.
const OPERATIONS: [(Operation, u32); 16] = [
    (Operation::Write, 40),
    (Operation::WriteTogether, 6),
    (Operation::Crash, 3),
    (Operation::Replay, 6),
    (Operation::Prepare, 5),
    (Operation::CommitPrepared, 4),
    (Operation::Evolve, 4),
    (Operation::Compact, 8),
    (Operation::CompactFully, 3),
    (Operation::Expire, 4),
    (Operation::Tag, 3),
    (Operation::DeleteTag, 1),
    (Operation::Rollback, 2),
    (Operation::Orphans, 2),
    (Operation::Travel, 4),
    (Operation::Read, 5),
];

#[derive(Debug, Default, Clone)]
struct Writer {
    identifier: i64,
    last: Option<(i64, Vec<CommitMessage>)>,
}

struct Prepared {
    writer: usize,
    messages: Vec<CommitMessage>,
    changes: Vec<Change>,
}

pub struct World {
    _folder: tempfile::TempDir,
    ours: Ours,
    rng: StdRng,
    model: Model,
    writers: [Writer; WRITERS],
    prepared: Option<Prepared>,
    /// Every snapshot that must be readable, with what it holds in the columns of today.
    past: BTreeMap<i64, Model>,
    tags: BTreeMap<String, i64>,
    columns: usize,
    compactions: i64,
    counts: BTreeMap<String, u64>,
    log: Vec<String>,
}

type Outcome<T = ()> = Result<T, String>;

fn text(error: Error) -> String {
    error.to_string()
}

impl World {
    pub async fn new(seed: u64, number: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number));
        // Every file is synced: in memory, if there is such a folder, that costs nothing.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let ours = Ours::new(folder.path(), "model");
        let definition = definition(&mut rng);
        ours.create(TABLE, &definition).await.unwrap();
        let log = vec![definition.json()];
        Self {
            _folder: folder,
            ours,
            rng,
            model: Model::new(definition, Merging::Deduplicate),
            writers: Default::default(),
            prepared: None,
            past: BTreeMap::new(),
            tags: BTreeMap::new(),
            columns: 0,
            compactions: 0,
            counts: BTreeMap::new(),
            log,
        }
    }

    pub fn log(&self) -> &[String] {
        &self.log
    }

    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub async fn run(&mut self, operations: u64) -> Outcome {
        for step in 0..operations {
            let all = OPERATIONS.choose_weighted(&mut self.rng, |(_, weight)| *weight);
            let (operation, _) = *all.unwrap();
            self.log.push(format!("{step} {operation:?}"));
            let done = self.operate(operation).await?;
            let what = if done { "" } else { "left out: " };
            *self
                .counts
                .entry(format!("{what}{operation:?}"))
                .or_default() += 1;
            // What reads all files is done less often after what happens most often.
            let is_often = matches!(
                operation,
                Operation::Write | Operation::Replay | Operation::Crash | Operation::Prepare
            );
            if done && (!is_often || step % 10 == 0) {
                self.look().await?;
            }
        }
        self.look().await
    }

    /// False when there was nothing to do, or the crate does not do it.
    async fn operate(&mut self, operation: Operation) -> Outcome<bool> {
        match operation {
            Operation::Write => self.write().await,
            Operation::WriteTogether => self.write_together().await,
            Operation::Crash => self.crash().await,
            Operation::Replay => self.replay().await,
            Operation::Prepare => self.prepare().await,
            Operation::CommitPrepared => self.commit_prepared().await,
            Operation::Evolve => self.evolve().await,
            Operation::Compact => self.compact(false).await,
            Operation::CompactFully => self.compact(true).await,
            Operation::Expire => self.expire().await,
            Operation::Tag => self.tag().await,
            Operation::DeleteTag => self.delete_tag().await,
            Operation::Rollback => self.rollback().await,
            Operation::Orphans => self.orphans().await,
            Operation::Travel => self.travel().await,
            Operation::Read => Ok(true),
        }
    }

    /// The newest snapshot, held against the model.
    async fn look(&mut self) -> Outcome {
        self.check(&SnapshotRef::Latest, &self.model.clone()).await
    }

    async fn check(&mut self, moment: &SnapshotRef, model: &Model) -> Outcome {
        let read = self.ours.read(TABLE, &model.definition, moment).await;
        let read = read.map_err(|error| format!("cannot read {moment:?}: {error}"))?;
        match difference(&model.lines(), &read) {
            None => Ok(()),
            Some(found) => Err(format!("{moment:?}: {found}")),
        }
    }

    fn changes(&mut self, keys: std::ops::Range<i64>, step: usize) -> Vec<Change> {
        let columns = self.model.definition.columns.clone();
        let count = self.rng.random_range(1..12);
        let mut changes = Vec::new();
        for _ in 0..count {
            let key = keys
                .clone()
                .step_by(step)
                .nth(self.rng.random_range(0..20))
                .unwrap();
            let row: Vec<Value> = columns
                .iter()
                .map(|column| match column.name.as_str() {
                    "k" => Value::Int(key),
                    "l" => Value::Text(format!("l{}", key % 7)),
                    "p" => Value::Text(["x", "y/=%é", ""][key as usize % 3].to_owned()),
                    _ => Value::maybe(&column.kind, &mut self.rng),
                })
                .collect();
            let kind = match self.rng.random_range(0..6) {
                0 => Kind::Delete,
                1 => Kind::UpdateAfter,
                2 => {
                    changes.push((Kind::UpdateBefore, row.clone()));
                    Kind::UpdateAfter
                }
                _ => Kind::Insert,
            };
            changes.push((kind, row));
        }
        changes
    }

    async fn files(&self, changes: &[Change]) -> Outcome<Vec<CommitMessage>> {
        let definition = &self.model.definition;
        self.ours
            .prepare(TABLE, definition, changes)
            .await
            .map_err(text)
    }

    fn next_commit(&mut self, writer: usize, messages: &[CommitMessage]) -> (String, i64) {
        let of = &mut self.writers[writer];
        of.identifier += 1;
        of.last = Some((of.identifier, messages.to_vec()));
        (format!("writer-{writer}"), of.identifier)
    }

    fn committed(&mut self, outcome: CommitOutcome, changes: &[Change]) -> Outcome {
        let CommitOutcome::Committed { snapshot, .. } = outcome else {
            return Err(format!("a new commit was answered {outcome:?}"));
        };
        self.model.write(changes);
        let newest = self.past.last_key_value().map_or(0, |(id, _)| *id);
        if snapshot <= newest {
            return Err(format!("snapshot {snapshot} after {newest}"));
        }
        self.past.insert(snapshot, self.model.clone());
        Ok(())
    }

    async fn write(&mut self) -> Outcome<bool> {
        let writer = self.rng.random_range(0..WRITERS);
        let changes = self.changes(0..20, 1);
        let messages = self.files(&changes).await?;
        let (user, identifier) = self.next_commit(writer, &messages);
        let done = self.ours.commit(TABLE, &user, identifier, messages).await;
        self.committed(done.map_err(text)?, &changes)?;
        Ok(true)
    }

    async fn write_together(&mut self) -> Outcome<bool> {
        let (one, two) = (self.changes(0..40, 2), self.changes(1..41, 2));
        let (of_one, of_two) = (self.files(&one).await?, self.files(&two).await?);
        let (first, id) = self.next_commit(0, &of_one);
        let (second, other_id) = self.next_commit(1, &of_two);
        let (done, other) = tokio::join!(
            self.ours.commit(TABLE, &first, id, of_one),
            self.ours.commit(TABLE, &second, other_id, of_two)
        );
        let mut both = vec![(done.map_err(text)?, one), (other.map_err(text)?, two)];
        both.sort_by_key(|(outcome, _)| match outcome {
            CommitOutcome::Committed { snapshot, .. } => *snapshot,
            _ => -1,
        });
        for (outcome, changes) in both {
            self.committed(outcome, &changes)?;
        }
        Ok(true)
    }

    async fn crash(&mut self) -> Outcome<bool> {
        let changes = self.changes(0..20, 1);
        self.files(&changes).await?;
        Ok(true)
    }

    async fn replay(&mut self) -> Outcome<bool> {
        let writer = self.rng.random_range(0..WRITERS);
        let Some((identifier, messages)) = self.writers[writer].last.clone() else {
            return Ok(false);
        };
        let user = format!("writer-{writer}");
        let done = self.ours.commit(TABLE, &user, identifier, messages).await;
        match done.map_err(text)? {
            CommitOutcome::AlreadyCommitted { .. } => Ok(true),
            outcome => Err(format!("{user} {identifier} again: {outcome:?}")),
        }
    }

    async fn prepare(&mut self) -> Outcome<bool> {
        if self.prepared.is_some() {
            return Ok(false);
        }
        let writer = self.rng.random_range(0..WRITERS);
        let changes = self.changes(RESERVED_KEYS..RESERVED_KEYS + 20, 1);
        let messages = self.files(&changes).await?;
        self.prepared = Some(Prepared {
            writer,
            messages,
            changes,
        });
        Ok(true)
    }

    async fn commit_prepared(&mut self) -> Outcome<bool> {
        let Some(prepared) = self.prepared.take() else {
            return Ok(false);
        };
        let (user, identifier) = self.next_commit(prepared.writer, &prepared.messages);
        let done = self
            .ours
            .commit(TABLE, &user, identifier, prepared.messages)
            .await;
        self.committed(done.map_err(text)?, &prepared.changes)?;
        Ok(true)
    }

    async fn evolve(&mut self) -> Outcome<bool> {
        let free = ["k", "l", "p"];
        let columns: Vec<Column> = self.model.definition.columns.clone();
        let column = columns.choose(&mut self.rng).unwrap();
        let is_free = !free.contains(&column.name.as_str());
        self.columns += 1;
        let alter = match self.rng.random_range(0..4) {
            0 if is_free && columns.len() > 4 => Alter::Drop(column.name.clone()),
            1 if is_free => Alter::Rename(column.name.clone(), format!("r{}", self.columns)),
            2 if is_free && column.kind == Type::Int => {
                Alter::Widen(column.name.clone(), Type::BigInt)
            }
            2 if is_free && column.kind == Type::VarChar(10) => {
                Alter::Widen(column.name.clone(), Type::Text)
            }
            _ if columns.len() < 9 => {
                let kinds = [
                    Type::Int,
                    Type::VarChar(10),
                    Type::Timestamp(6),
                    Type::Double,
                ];
                let kind = kinds.choose(&mut self.rng).unwrap();
                Alter::Add(format!("c{}", self.columns), kind.clone())
            }
            _ => return Ok(false),
        };
        self.log.push(format!("  {alter:?}"));
        self.ours.alter(TABLE, &alter).await.map_err(text)?;
        if let Some(prepared) = &mut self.prepared {
            for (_, row) in &mut prepared.changes {
                alter.apply(&self.model.definition, row);
            }
        }
        self.model.alter(&alter);
        self.past.values_mut().for_each(|model| model.alter(&alter));
        Ok(true)
    }

    async fn compact(&mut self, full: bool) -> Outcome<bool> {
        self.compactions += 1;
        match self.ours.compact(TABLE, full, self.compactions).await {
            Ok(false) => Ok(false),
            Ok(true) => {
                let newest = self.ours.newest_snapshot(TABLE).await.map_err(text)?;
                if let Some(newest) = newest {
                    self.past.insert(newest, self.model.clone());
                }
                Ok(true)
            }
            Err(error) if refusal(&error).is_some() => Ok(false),
            Err(error) => Err(text(error)),
        }
    }

    async fn expire(&mut self) -> Outcome<bool> {
        let retain = self.rng.random_range(1..12);
        self.ours.expire(TABLE, retain).await.map_err(text)?;
        let tags = &self.tags;
        let first = self
            .past
            .keys()
            .rev()
            .nth(retain as usize - 1)
            .copied()
            .unwrap_or(0);
        self.past
            .retain(|id, _| *id >= first || tags.values().any(|tagged| tagged == id));
        Ok(true)
    }

    async fn tag(&mut self) -> Outcome<bool> {
        let Some((newest, _)) = self.past.last_key_value() else {
            return Ok(false);
        };
        let name = format!("tag-{}", self.log.len());
        self.ours.tag(TABLE, &name).await.map_err(text)?;
        self.tags.insert(name, *newest);
        Ok(true)
    }

    fn any_tag(&mut self) -> Option<(String, i64)> {
        let tags: Vec<_> = self.tags.clone().into_iter().collect();
        tags.choose(&mut self.rng).cloned()
    }

    /// The snapshot may have been there only for the tag.
    async fn delete_tag(&mut self) -> Outcome<bool> {
        let Some((name, id)) = self.any_tag() else {
            return Ok(false);
        };
        self.ours.delete_tag(TABLE, &name).await.map_err(text)?;
        self.tags.remove(&name);
        let table = self.ours.table(TABLE).await.map_err(text)?;
        let is_there = table.snapshot(id).await.map_err(text)?.is_some();
        if !is_there && !self.tags.values().any(|tagged| *tagged == id) {
            self.past.remove(&id);
        }
        Ok(true)
    }

    async fn rollback(&mut self) -> Outcome<bool> {
        let Some((name, id)) = self.any_tag() else {
            return Ok(false);
        };
        self.log.push(format!("  to {name}, snapshot {id}"));
        self.ours
            .rollback_to_tag(TABLE, &name)
            .await
            .map_err(text)?;
        self.model = self.past[&id].clone();
        self.past.retain(|other, _| *other <= id);
        self.tags.retain(|_, tagged| *tagged <= id);
        // What they committed last may be gone.
        self.writers
            .iter_mut()
            .for_each(|writer| writer.last = None);
        Ok(true)
    }

    /// Nobody writes, so that the files of those who died go too; and those that are prepared.
    async fn orphans(&mut self) -> Outcome<bool> {
        self.prepared = None;
        // Only what is older than now goes, and times are in milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        self.ours.orphans(TABLE, true).await.map_err(text)?;
        match self.ours.orphans(TABLE, false).await.map_err(text)? {
            left if left.is_empty() => Ok(true),
            left => Err(format!("orphans that were not deleted: {left:?}")),
        }
    }

    async fn travel(&mut self) -> Outcome<bool> {
        let past: Vec<i64> = self.past.keys().copied().collect();
        let Some(id) = past.choose(&mut self.rng) else {
            return Ok(false);
        };
        let model = self.past[id].clone();
        self.check(&SnapshotRef::Id(*id), &model).await?;
        if let Some((name, id)) = self.any_tag() {
            let model = self.past[&id].clone();
            self.check(&SnapshotRef::Tag(name), &model).await?;
        }
        Ok(true)
    }
}

fn definition(rng: &mut StdRng) -> Definition {
    let column = |name: &str, kind, nullable| Column {
        name: name.to_owned(),
        kind,
        nullable,
    };
    let mut columns = vec![column("a", Type::Int, true)];
    let (is_partitioned, is_composite) = (rng.random_bool(0.5), rng.random_bool(0.5));
    if is_partitioned {
        columns.push(column("p", Type::Text, false));
    }
    columns.push(column("k", Type::BigInt, false));
    if is_composite {
        columns.push(column("l", Type::VarChar(10), false));
    }
    columns.push(column("s", Type::VarChar(10), true));
    columns.push(column("d", Type::Decimal(20, 3), true));
    let keys = ["p", "k", "l"].map(str::to_owned);
    let has = |name: &String| columns.iter().any(|column| column.name == *name);
    Definition {
        primary_keys: keys.into_iter().filter(has).collect(),
        partition_keys: is_partitioned.then(|| "p".to_owned()).into_iter().collect(),
        options: [("bucket".to_owned(), rng.random_range(1..3).to_string())].into(),
        columns,
    }
}
