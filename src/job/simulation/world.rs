//! The simulated server and the source that reads it.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, cast::AsArray, types::Int32Type};
use async_trait::async_trait;
use headwater_connectors::{
    BarrierGate, ChangeBatch, Check, ChunkEnd, ChunkReader, Column, DataType, Discovery, Error,
    Position, Result, RowKinds, Source, SourceState, Split, TableName, TableSchema, TailItem,
    change::{Barrier, RowsAfter, SchemaChange, TailProgress},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

/// Keys of each table.
pub const KEYS: RangeInclusive<i32> = 1..=12;
/// Each table is cut behind this key.
const CUT: i32 = 6;
const TABLES: [&str; 2] = ["a", "b"];

/// Rules of the protocol that a test takes out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// H is taken from the set of executed transactions, which lags.
    pub high_from_executed: bool,
    /// A round begins before the server has executed what the tail has emitted.
    pub low_without_wait: bool,
}

/// One change: table, key, and the new value or none.
type Change = (usize, i32, Option<i64>);

/// What one place of the log holds.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A transaction.
    Rows(Vec<Change>),
    /// A statement that changed the rows of a table, and says no more than that.
    Hidden(usize, BTreeMap<i32, i64>),
    /// A statement that removed all rows of a table.
    Truncate(usize),
}

#[derive(Debug)]
struct Inner {
    rng: StdRng,
    base: [BTreeMap<i32, i64>; 2],
    log: Vec<Entry>,
    committed: usize,
    executed: usize,
    /// The engine, or the executed set, stands still for a while.
    stalled: [bool; 2],
    steps_left: usize,
    /// How often a statement changes rows without saying which.
    hidden: f64,
}

/// A server: log, committed prefix, executed prefix.
#[derive(Debug, Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    rules: Rules,
}

impl World {
    pub fn new(seed: u64, rules: Rules) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut base = [BTreeMap::new(), BTreeMap::new()];
        for table in &mut base {
            for key in KEYS {
                if rng.random_bool(0.6) {
                    table.insert(key, 0);
                }
            }
        }
        let steps_left = rng.random_range(20..300);
        let hidden = match rng.random_bool(0.5) {
            true => rng.random_range(0.0..0.1),
            false => 0.0,
        };
        Self {
            inner: Arc::new(Mutex::new(Inner {
                rng,
                base,
                log: Vec::new(),
                committed: 0,
                executed: 0,
                stalled: [false; 2],
                steps_left,
                hidden,
            })),
            rules,
        }
    }

    /// Moves the world by a few steps; every look at it does.
    fn step(&self) {
        let mut guard = self.inner.lock().unwrap();
        let world = &mut *guard;
        for stalled in &mut world.stalled {
            if world.rng.random_bool(0.1) {
                *stalled = !*stalled;
            }
        }
        for _ in 0..world.rng.random_range(0..4) {
            match world.rng.random_range(0..3) {
                0 if world.steps_left > 0 && world.rng.random_bool(world.hidden) => {
                    world.steps_left -= 1;
                    let number = world.log.len() as i64 + 1;
                    let table = world.rng.random_range(0..2);
                    let entry = match world.rng.random_bool(0.3) {
                        true => Entry::Truncate(table),
                        false => {
                            let keys = KEYS.filter(|_| world.rng.random_bool(0.5));
                            Entry::Hidden(table, keys.map(|key| (key, number)).collect())
                        }
                    };
                    world.log.push(entry);
                }
                0 if world.steps_left > 0 => {
                    world.steps_left -= 1;
                    let number = world.log.len() as i64 + 1;
                    let changes = world.rng.random_range(1..4);
                    let changes = (0..changes)
                        .map(|_| {
                            let value = world.rng.random_bool(0.65).then_some(number);
                            (
                                world.rng.random_range(0..2),
                                world.rng.random_range(KEYS),
                                value,
                            )
                        })
                        .collect();
                    world.log.push(Entry::Rows(changes));
                }
                1 if !world.stalled[0] => {
                    world.committed = (world.committed + 2).min(world.log.len());
                }
                2 if !world.stalled[1] => {
                    world.executed = (world.executed + 2).min(world.committed);
                }
                _ => {}
            }
        }
    }

    pub fn finished(&self) -> bool {
        self.step();
        let world = self.inner.lock().unwrap();
        world.steps_left == 0 && world.executed == world.log.len()
    }

    /// Whether statements change rows without saying which.
    pub fn hides_changes(&self) -> bool {
        self.inner.lock().unwrap().hidden > 0.0
    }

    pub fn log(&self) -> Vec<Entry> {
        self.inner.lock().unwrap().log.clone()
    }

    /// A table after the first `upto` transactions.
    pub fn state(&self, table: &TableName, upto: usize) -> BTreeMap<i32, i64> {
        let world = self.inner.lock().unwrap();
        let index = index(table);
        let mut rows = world.base[index].clone();
        for entry in world.log.iter().take(upto) {
            let changes = match entry {
                Entry::Rows(changes) => changes,
                Entry::Hidden(table, others) if *table == index => {
                    rows.clone_from(others);
                    continue;
                }
                Entry::Truncate(table) if *table == index => {
                    rows.clear();
                    continue;
                }
                Entry::Hidden(..) | Entry::Truncate(_) => continue,
            };
            for (table, key, value) in changes {
                match value {
                    _ if *table != index => {}
                    Some(value) => {
                        rows.insert(*key, *value);
                    }
                    None => {
                        rows.remove(key);
                    }
                }
            }
        }
        rows
    }

    fn committed(&self) -> usize {
        self.inner.lock().unwrap().committed
    }

    fn executed(&self) -> usize {
        self.inner.lock().unwrap().executed
    }

    fn logged(&self) -> usize {
        self.inner.lock().unwrap().log.len()
    }
}

fn index(table: &TableName) -> usize {
    TABLES.iter().position(|name| *name == table.table).unwrap()
}

pub fn number(key: &[String]) -> i32 {
    key[0].parse().unwrap()
}

/// The key behind which a split begins.
pub fn lower(split: u32) -> i32 {
    if split == 0 { 0 } else { CUT }
}

fn at(offset: usize) -> Position {
    Position::Log {
        offset: offset as u64,
    }
}

fn offset(position: &Position) -> usize {
    match position {
        Position::Log { offset } => *offset as usize,
        Position::Mysql(_) => panic!("not of this world"),
    }
}

fn schema(table: &str) -> Arc<TableSchema> {
    let column = |name: &str, data_type: DataType, nullable| Column {
        name: name.into(),
        source_type: format!("{data_type:?}"),
        data_type,
        nullable,
        comment: None,
    };
    Arc::new(TableSchema {
        name: TableName::new("sim", table),
        version: 0,
        columns: vec![
            column("k", DataType::Int, false),
            column("v", DataType::BigInt, true),
        ],
        primary_key: vec!["k".into()],
        comment: None,
    })
}

fn batch(rows: &[(i32, i64)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    RecordBatch::try_new(Arc::new(schema("a").arrow()), vec![keys, values]).unwrap()
}

/// The source over a [`World`].
#[derive(Debug)]
pub struct SimSource {
    world: World,
    rng: Mutex<StdRng>,
}

impl SimSource {
    pub fn new(world: World, seed: u64) -> Self {
        Self {
            world,
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }

    async fn pause(&self) {
        let ms = self.rng.lock().unwrap().random_range(0..12);
        sleep(Duration::from_millis(ms)).await;
        self.world.step();
    }

    fn chance(&self, probability: f64) -> bool {
        self.rng.lock().unwrap().random_bool(probability)
    }
}

#[async_trait]
impl Source for SimSource {
    async fn check(&self) -> Vec<Check> {
        Vec::new()
    }

    async fn discover(&self) -> Result<Discovery> {
        Ok(Discovery {
            captured: TABLES.iter().map(|table| schema(table)).collect(),
            rejected: Vec::new(),
        })
    }

    async fn start(&self, _: &[Arc<TableSchema>]) -> Result<SourceState> {
        self.pause().await;
        // Any T0 will do: rounds wait for what the tail has emitted.
        let offset = match self.chance(0.5) {
            true => self.world.executed(),
            false => self.world.logged(),
        };
        Ok(SourceState {
            position: at(offset),
            connector: serde_json::Value::Null,
        })
    }

    fn tables(&self, _: &SourceState) -> Result<Vec<Arc<TableSchema>>> {
        Ok(TABLES.iter().map(|table| schema(table)).collect())
    }

    async fn verify_position(&self, _: &SourceState) -> Result<()> {
        Ok(())
    }

    async fn tail(
        &self,
        from: SourceState,
        gate: Arc<dyn BarrierGate>,
        out: mpsc::Sender<TailItem>,
        _: watch::Sender<TailProgress>,
    ) -> Result<()> {
        let mut cursor = offset(&from.position);
        let lost = || Error::transient("the job is gone");
        loop {
            let position = at(cursor);
            if gate.wants(&position) {
                let barrier = Barrier {
                    state: SourceState {
                        position,
                        ..from.clone()
                    },
                    event_time_ms: None,
                };
                out.send(TailItem::Barrier(barrier))
                    .await
                    .map_err(|_| lost())?;
            }
            self.pause().await;
            if self.chance(0.005) {
                return Err(Error::transient("the network is gone"));
            }
            let Some(entry) = self.world.log().get(cursor).cloned() else {
                continue;
            };
            let change = |table: usize, rows| {
                TailItem::Schema(SchemaChange {
                    table: schema(TABLES[table]),
                    steps: Vec::new(),
                    rows,
                    statement: "a statement".into(),
                    id: cursor.to_string(),
                    position: at(cursor),
                })
            };
            let items: Vec<TailItem> = match entry {
                Entry::Rows(changes) => changes
                    .into_iter()
                    .map(|(table, key, value)| {
                        TailItem::Rows(ChangeBatch {
                            table: schema(TABLES[table]),
                            rows: batch(&[(key, value.unwrap_or(-1))]),
                            kinds: RowKinds::Each(vec![if value.is_some() { 2 } else { 3 }]),
                        })
                    })
                    .collect(),
                Entry::Hidden(table, _) => {
                    vec![change(table, RowsAfter::Unknown("is simulated".into()))]
                }
                Entry::Truncate(table) => vec![change(table, RowsAfter::Gone)],
            };
            for item in items {
                out.send(item).await.map_err(|_| lost())?;
            }
            cursor += 1;
        }
    }

    async fn round_low(&self, emitted: &Position) -> Result<Position> {
        loop {
            self.pause().await;
            let executed = self.world.executed();
            if executed >= offset(emitted) || self.world.rules.low_without_wait {
                return Ok(at(executed));
            }
        }
    }

    async fn round_high(&self) -> Result<Position> {
        self.pause().await;
        Ok(match self.world.rules.high_from_executed {
            true => at(self.world.executed()),
            false => at(self.world.logged()),
        })
    }

    async fn estimate(&self, _: &TableSchema) -> Result<(u64, u64)> {
        Ok((12, 100))
    }

    async fn splits(&self, table: &TableSchema, _: usize) -> Result<Vec<Split>> {
        let split = |id, after: Option<i32>, upto: Option<i32>| Split {
            table: table.name.clone(),
            id,
            after: after.map(|key| vec![key.to_string()]),
            upto: upto.map(|key| vec![key.to_string()]),
        };
        Ok(vec![split(0, None, Some(CUT)), split(1, Some(CUT), None)])
    }

    async fn reader(&self) -> Result<Box<dyn ChunkReader>> {
        let seed = self.rng.lock().unwrap().random();
        Ok(Box::new(SimReader(Self::new(self.world.clone(), seed))))
    }

    async fn lookup(&self, table: &TableSchema, keys: &[Vec<String>]) -> Result<RecordBatch> {
        self.pause().await;
        let rows = self.world.state(&table.name, self.world.committed());
        let found = keys.iter().map(|key| number(key));
        let found = found.filter_map(|key| Some((key, *rows.get(&key)?)));
        Ok(batch(&found.collect::<Vec<_>>()))
    }

    fn key_of(&self, _: &TableSchema, rows: &RecordBatch, row: usize) -> Result<Vec<String>> {
        let keys = rows.column(0).as_primitive::<Int32Type>();
        Ok(vec![keys.value(row).to_string()])
    }

    async fn confirm(&self, _: &Position) -> Result<()> {
        Ok(())
    }
}

struct SimReader(SimSource);

#[async_trait]
impl ChunkReader for SimReader {
    async fn read(
        &mut self,
        schema: &TableSchema,
        split: &Split,
        out: &mpsc::Sender<RecordBatch>,
    ) -> Result<ChunkEnd> {
        self.0.pause().await;
        if self.0.chance(0.01) {
            return Err(Error::transient("the read was cut off"));
        }
        let rows = self.0.world.state(&schema.name, self.0.world.committed());
        let after = split.after.as_ref().map_or(i32::MIN, |key| number(key));
        let upto = split.upto.as_ref().map_or(i32::MAX, |key| number(key));
        let chunk: Vec<(i32, i64)> = rows
            .into_iter()
            .filter(|(key, _)| *key > after && *key <= upto)
            .take(2)
            .collect();
        let Some(last) = chunk.last().map(|row| row.0) else {
            return Ok(ChunkEnd::Done);
        };
        out.send(batch(&chunk))
            .await
            .map_err(|_| Error::transient("nobody takes the rows"))?;
        self.0.pause().await;
        Ok(ChunkEnd::More(vec![last.to_string()]))
    }
}
