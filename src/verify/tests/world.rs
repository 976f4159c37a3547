//! A source that changes while it is looked at, and a lake that is told what to hold.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use arrow_array::{Int32Array, Int64Array, RecordBatch, cast::AsArray, types::Int32Type};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use headwater_connectors::{
    BarrierGate, Check, ChunkEnd, ChunkReader, Column, DataType, Discovery, Error, Position,
    Result, Source, SourceState, Split, TableName, TableSchema, TailItem, change::TailProgress,
};
use object_store::{memory::InMemory, path::Path};
use tokio::sync::{mpsc, watch};

use crate::{
    checkpoint::{Lease, Record, SplitState, StateStore, TableState},
    job::limit::{ReadLimit, ReadRates},
    verify::{
        Report, Verifier, VerifyOptions,
        lake::{Lake, Rows},
    },
};

/// Rows of a chunk.
const CHUNK: usize = 100;
const CUTS: [i32; 2] = [1_000, 1_900];

pub type Table = BTreeMap<i32, i64>;

/// Changes the rows; told which lookup or chunk read it is, from 0.
pub type Mover = Box<dyn Fn(&mut Table, u32) + Send + Sync>;

/// The source's rows and its log's length.
pub struct World {
    rows: Mutex<(Table, u64)>,
    mover: Mutex<Option<Mover>>,
    looks: AtomicU32,
    /// The next so many chunk reads break off half way.
    pub broken_reads: AtomicU32,
}

impl World {
    pub fn new(rows: impl IntoIterator<Item = i32>) -> Arc<Self> {
        let rows = rows.into_iter().map(|key| (key, i64::from(key) * 10));
        Arc::new(Self {
            rows: Mutex::new((rows.collect(), 0)),
            mover: Mutex::new(None),
            looks: AtomicU32::new(0),
            broken_reads: AtomicU32::new(0),
        })
    }

    pub fn moved_by(&self, mover: impl Fn(&mut Table, u32) + Send + Sync + 'static) {
        *self.mover.lock().unwrap() = Some(Box::new(mover));
    }

    pub fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut rows = self.rows.lock().unwrap();
        change(&mut rows.0);
        rows.1 += 1;
    }

    /// Rows and position.
    pub fn now(&self) -> (Table, Position) {
        let rows = self.rows.lock().unwrap();
        (rows.0.clone(), Position::Log { offset: rows.1 })
    }

    fn look(&self) -> Table {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        if let Some(mover) = &*self.mover.lock().unwrap() {
            self.change(|rows| mover(rows, look));
        }
        self.now().0
    }
}

pub fn schema() -> Arc<TableSchema> {
    let column = |name: &str, data_type: DataType, nullable| Column {
        name: name.into(),
        source_type: format!("{data_type:?}"),
        data_type,
        nullable,
        comment: None,
    };
    Arc::new(TableSchema {
        name: TableName::new("shop", "items"),
        version: 0,
        columns: vec![
            column("k", DataType::Int, false),
            column("v", DataType::BigInt, true),
        ],
        primary_key: vec!["k".into()],
        comment: None,
    })
}

pub fn batch<'a>(rows: impl IntoIterator<Item = (&'a i32, &'a i64)>) -> RecordBatch {
    let (keys, values): (Vec<i32>, Vec<i64>) = rows.into_iter().unzip();
    let columns: [arrow_array::ArrayRef; 2] = [
        Arc::new(Int32Array::from(keys)),
        Arc::new(Int64Array::from(values)),
    ];
    RecordBatch::try_new(Arc::new(schema().arrow()), columns.into()).unwrap()
}

pub struct TestSource(pub Arc<World>);

#[async_trait]
impl Source for TestSource {
    async fn check(&self) -> Vec<Check> {
        Vec::new()
    }

    async fn discover(&self) -> Result<Discovery> {
        Ok(Discovery::default())
    }

    async fn start(&self, _: &[Arc<TableSchema>]) -> Result<SourceState> {
        Err(Error::definite("not asked for by verify"))
    }

    fn tables(&self, _: &SourceState) -> Result<Vec<Arc<TableSchema>>> {
        Ok(vec![schema()])
    }

    async fn verify_position(&self, _: &SourceState) -> Result<()> {
        Ok(())
    }

    async fn tail(
        &self,
        _: SourceState,
        _: Arc<dyn BarrierGate>,
        _: mpsc::Sender<TailItem>,
        _: watch::Sender<TailProgress>,
    ) -> Result<()> {
        Err(Error::definite("not asked for by verify"))
    }

    async fn round_low(&self, _: &Position) -> Result<Position> {
        Ok(self.0.now().1)
    }

    async fn round_high(&self) -> Result<Position> {
        Ok(self.0.now().1)
    }

    async fn estimate(&self, _: &TableSchema) -> Result<(u64, u64)> {
        Ok((0, 0))
    }

    async fn splits(&self, table: &TableSchema, _: usize) -> Result<Vec<Split>> {
        let bounds = [None, Some(CUTS[0]), Some(CUTS[1]), None];
        let key = |key: Option<i32>| key.map(|key| vec![key.to_string()]);
        let pairs = bounds.windows(2).zip(0..);
        Ok(pairs
            .map(|(bounds, id)| Split {
                table: table.name.clone(),
                id,
                after: key(bounds[0]),
                upto: key(bounds[1]),
            })
            .collect())
    }

    async fn reader(&self) -> Result<Box<dyn ChunkReader>> {
        Ok(Box::new(TestSource(self.0.clone())))
    }

    async fn lookup(&self, _: &TableSchema, keys: &[Vec<String>]) -> Result<RecordBatch> {
        let rows = self.0.look();
        let keys = keys.iter().map(|key| key[0].parse().unwrap());
        Ok(batch(keys.filter_map(|key: i32| rows.get_key_value(&key))))
    }

    fn key_of(&self, _: &TableSchema, rows: &RecordBatch, row: usize) -> Result<Vec<String>> {
        Ok(vec![
            rows.column(0)
                .as_primitive::<Int32Type>()
                .value(row)
                .to_string(),
        ])
    }

    async fn confirm(&self, _: &Position) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl ChunkReader for TestSource {
    async fn read(
        &mut self,
        _: &TableSchema,
        split: &Split,
        out: &mpsc::Sender<RecordBatch>,
    ) -> Result<ChunkEnd> {
        let rows = self.0.look();
        let bound = |key: &Option<Vec<String>>| key.as_ref().map(|key| key[0].parse().unwrap());
        let after: i32 = bound(&split.after).unwrap_or(i32::MIN);
        let upto: i32 = bound(&split.upto).unwrap_or(i32::MAX);
        let within = rows
            .iter()
            .filter(|(key, _)| **key > after && **key <= upto);
        let chunk: Vec<(&i32, &i64)> = within.take(CHUNK).collect();
        let Some((last, _)) = chunk.last() else {
            return Ok(ChunkEnd::Done);
        };
        let (first, second) = chunk.split_at(chunk.len() / 2);
        let taken = |_| Error::transient("nobody takes the rows");
        out.send(batch(first.iter().copied()))
            .await
            .map_err(taken)?;
        let less = |left: u32| left.checked_sub(1);
        if self
            .0
            .broken_reads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
        {
            return Err(Error::transient("the network is gone"));
        }
        out.send(batch(second.iter().copied()))
            .await
            .map_err(taken)?;
        Ok(ChunkEnd::More(vec![last.to_string()]))
    }
}

/// Buckets of each snapshot of the one table.
#[derive(Default)]
pub struct TestLake(Mutex<HashMap<i64, Vec<RecordBatch>>>);

impl TestLake {
    pub fn put(&self, snapshot: i64, buckets: Vec<RecordBatch>) {
        self.0.lock().unwrap().insert(snapshot, buckets);
    }
}

#[async_trait]
impl Lake for TestLake {
    async fn buckets(&self, _: &TableState, snapshot: i64) -> crate::error::Result<Vec<Rows>> {
        let buckets = self.0.lock().unwrap()[&snapshot].clone();
        let stream = |batch| stream::iter([Ok(batch)]).boxed();
        Ok(buckets.into_iter().map(stream).collect())
    }

    async fn newer_by_others(
        &self,
        _: &TableState,
        _: i64,
        _: &str,
    ) -> crate::error::Result<Option<(i64, String)>> {
        Ok(None)
    }
}

/// A source, a lake and the state of the job between them.
pub struct Bench {
    pub world: Arc<World>,
    pub lake: TestLake,
    pub state: StateStore,
    pub options: VerifyOptions,
}

impl Bench {
    pub fn new(world: Arc<World>) -> Self {
        Self {
            world,
            lake: TestLake::default(),
            state: StateStore::new(Arc::new(InMemory::new()), Path::from("s")),
            options: VerifyOptions::default(),
        }
    }

    /// A committed checkpoint; the lake has what `twist` makes of the source's rows.
    pub async fn checkpoint(&self, number: i64, twist: impl Fn(&mut Table)) {
        let (mut rows, position) = self.world.now();
        twist(&mut rows);
        let (even, odd): (Table, Table) = rows.into_iter().partition(|(key, _)| key % 2 == 0);
        self.lake.put(number, vec![batch(&even), batch(&odd)]);
        self.record(number, position, true).await;
    }

    pub async fn record(&self, number: i64, position: Position, done: bool) {
        let split = Split {
            table: schema().name.clone(),
            id: 0,
            after: None,
            upto: None,
        };
        let record = Record {
            format: crate::checkpoint::record::FORMAT,
            number,
            epoch: 1,
            job: "j".into(),
            commit_user: "u".into(),
            created_ms: crate::clock::now_ms() - 240_000,
            source: SourceState {
                position,
                connector: serde_json::Value::Null,
            },
            next_sequence: 1,
            event_time_ms: None,
            committed_before: true,
            instance: "test".into(),
            tables: vec![TableState {
                source: schema().name.clone(),
                sink: TableName::new("lake", "items"),
                snapshot_sequence: 0,
                last_commit: Some(number),
                splits: vec![SplitState {
                    split,
                    rows: 0,
                    done,
                }],
                sweep_below: None,
                schema: None,
                dropped: false,
                waiting: false,
                released: false,
            }],
            commits: Vec::new(),
            tag: None,
            tagged_ms: None,
        };
        self.state.create(&record).await.unwrap();
        let marker = record.marker([("lake.items".to_owned(), number)].into());
        self.state.mark_committed(&marker).await.unwrap();
        self.state.prune(3).await.unwrap();
    }

    /// A job that takes a checkpoint now and then, until dropped; this process holds its lease.
    pub async fn job(&self, twist: impl Fn(&mut Table)) {
        Lease::mine(1).renew(&self.state).await.unwrap();
        for number in 2.. {
            tokio::time::sleep(std::time::Duration::from_millis(900)).await;
            self.checkpoint(number, &twist).await;
        }
    }

    pub async fn verify(&self) -> crate::error::Result<Report> {
        let verifier = Verifier {
            source: Arc::new(TestSource(self.world.clone())),
            state: &self.state,
            lake: &self.lake,
            concurrent_chunks: 4,
            limit: Arc::new(ReadLimit::new(ReadRates::default())),
            options: &self.options,
        };
        verifier.run().await
    }

    /// Verifies while the job runs.
    pub async fn verify_beside(&self, twist: impl Fn(&mut Table)) -> Report {
        Lease::mine(1).renew(&self.state).await.unwrap();
        tokio::select! {
            report = self.verify() => report.unwrap(),
            () = self.job(twist) => unreachable!(),
        }
    }
}
