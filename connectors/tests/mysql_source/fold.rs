//! Runs a tail and folds what it gives into rows by key.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arrow_array::{Array, RecordBatch, cast::AsArray, types::Int32Type};
use headwater_connectors::{
    BarrierGate, Error, Position, RowKinds, Source, SourceState, TailItem, change::ColumnStep,
    mysql::MysqlSource,
};
use tokio::{sync::mpsc, task::JoinHandle};

/// Wants as many barriers as it is told.
#[derive(Default)]
pub struct Gate {
    wanted: AtomicUsize,
    pub seen: Mutex<Vec<String>>,
}

impl BarrierGate for Gate {
    fn wants(&self, position: &Position) -> bool {
        self.seen.lock().unwrap().push(position.to_string());
        self.wanted
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            .is_ok()
    }
}

/// An added column and the one before it.
pub type Added = (String, Option<String>);

/// Rows of tables with an INT key `id` and an INT column `v`: number of rows seen by kind, and
/// the value by key.
#[derive(Default, Clone, Debug, PartialEq)]
pub struct Folded {
    pub rows: BTreeMap<(String, i32), Option<i32>>,
    pub inserts: usize,
    pub deletes: usize,
    pub updates: usize,
    pub schemas: Vec<(String, Vec<Added>)>,
    /// Tables have other columns: nothing is folded.
    pub off: bool,
}

pub fn ints(batch: &RecordBatch, name: &str) -> Vec<Option<i32>> {
    let column = batch.column_by_name(name).unwrap();
    let column = column.as_primitive::<Int32Type>();
    (0..column.len())
        .map(|i| column.is_valid(i).then(|| column.value(i)))
        .collect()
}

impl Folded {
    pub fn apply(&mut self, item: &TailItem) {
        match item {
            TailItem::Rows(batch) => {
                let (ids, values) = (ints(&batch.rows, "id"), ints(&batch.rows, "v"));
                for (row, (id, value)) in ids.into_iter().zip(values).enumerate() {
                    let key = (batch.table.name.table.clone(), id.unwrap());
                    let kind = match &batch.kinds {
                        RowKinds::Inserts => 0,
                        RowKinds::Each(kinds) => kinds[row],
                    };
                    match kind {
                        0 => self.inserts += 1,
                        2 => self.updates += 1,
                        _ => self.deletes += 1,
                    }
                    if kind == 3 {
                        self.rows.remove(&key);
                    } else {
                        self.rows.insert(key, value);
                    }
                }
            }
            TailItem::Schema(change) => self.schemas.push((
                change.table.name.table.clone(),
                change
                    .steps
                    .iter()
                    .filter_map(|step| match step {
                        ColumnStep::Add(column, before) => {
                            Some((column.name.clone(), before.clone()))
                        }
                        _ => None,
                    })
                    .collect(),
            )),
            TailItem::Dropped(_) | TailItem::Barrier(_) => {}
        }
    }
}

/// A tail that runs.
pub struct Running {
    pub source: Arc<MysqlSource>,
    pub gate: Arc<Gate>,
    pub items: mpsc::Receiver<TailItem>,
    pub task: JoinHandle<headwater_connectors::Result<()>>,
    pub folded: Folded,
}

impl Running {
    pub fn from(source: Arc<MysqlSource>, state: SourceState) -> Self {
        let gate = Arc::new(Gate::default());
        let (out, items) = mpsc::channel(4);
        let (progress, _) = tokio::sync::watch::channel(Default::default());
        let task = tokio::spawn({
            let (source, gate) = (source.clone(), gate.clone());
            async move { source.tail(state, gate, out, progress).await }
        });
        Self {
            source,
            gate,
            items,
            task,
            folded: Folded::default(),
        }
    }

    /// From the start of a new job.
    pub async fn start(source: MysqlSource) -> Self {
        let found = source.discover().await.unwrap();
        assert!(found.rejected.is_empty(), "{:?}", found.rejected);
        let state = source.start(&found.captured).await.unwrap();
        Self::from(Arc::new(source), state)
    }

    async fn next(&mut self) -> Option<TailItem> {
        let item = tokio::time::timeout(Duration::from_secs(20), self.items.recv()).await;
        let item = item.expect("the tail is silent")?;
        if !self.folded.off {
            self.folded.apply(&item);
        }
        Some(item)
    }

    /// Asks for a barrier and reads up to it; it stands behind everything committed before.
    pub async fn barrier(&mut self) -> SourceState {
        self.barrier_items().await.0
    }

    /// The same, when every table is known again; with what came before it.
    pub async fn settled(&mut self) -> (SourceState, Vec<TailItem>) {
        let mut all = Vec::new();
        loop {
            let (state, items) = self.barrier_items().await;
            all.extend(items);
            let dark = state
                .connector
                .get("dark")
                .and_then(|dark| dark.as_object());
            let is_waiting = |dark: &serde_json::Value| dark["gone"] == false;
            if !dark.is_some_and(|dark| dark.values().any(is_waiting)) {
                return (state, all);
            }
        }
    }

    /// The same, and what came before it.
    pub async fn barrier_items(&mut self) -> (SourceState, Vec<TailItem>) {
        let mut items = Vec::new();
        let high = self.source.round_high().await.unwrap();
        let started = std::time::Instant::now();
        loop {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "no edge at or after {high}; edges: {:?}",
                self.gate
                    .seen
                    .lock()
                    .unwrap()
                    .iter()
                    .rev()
                    .take(5)
                    .collect::<Vec<_>>()
            );
            self.gate.wanted.store(1, Ordering::SeqCst);
            loop {
                match self.next().await {
                    Some(TailItem::Barrier(barrier)) => {
                        if barrier.state.position.is_at_or_after(&high) {
                            return (barrier.state, items);
                        }
                        break;
                    }
                    Some(item) => items.push(item),
                    None => panic!("the tail ended: {:?}", (&mut self.task).await),
                }
            }
        }
    }

    /// Reads until the tail ends in an error.
    pub async fn error(mut self) -> Error {
        while self.next().await.is_some() {}
        self.task.await.unwrap().unwrap_err()
    }

    /// Stops the tail as a crash would.
    pub fn kill(self) -> Folded {
        self.task.abort();
        self.folded
    }
}
