//! The hot parts of the program alone, on one thread and from memory to memory, for `tests/bench`:
//! `run.py kernels` (rows a second), `instructions.py` (instructions a row), `run.py growth`.
//!
//! ```text
//! bench_kernels decode  ROUNDS LOG TABLE     rows events of a log file to columns
//! bench_kernels encode  ROUNDS LOG TABLE     the same, then sorted and written as Parquet
//! bench_kernels flush   ROUNDS ROWS ascending|random
//! bench_kernels bulk    ROUNDS ROWS          the lane of the snapshot
//! bench_kernels scan    ROUNDS ROWS          five sorted runs, merged on read
//! bench_kernels compact ROUNDS ROWS          five sorted runs, fully
//! bench_kernels commit  ROUNDS COMMITS       of forty rows each
//! bench_kernels history WAREHOUSE|memory SNAPSHOTS
//! bench_kernels hour    WAREHOUSE ROWS COMMITS UPDATES [OPTION=VALUE…]
//! bench_kernels settle  WAREHOUSE            the table of `hour`, compacted fully
//! bench_kernels read    ROUNDS WAREHOUSE     the table of `hour`, merged on read
//! ```
//!
//! LOG is a file of a server's log, TABLE one of JSON:
//! `{"name": ["d", "t"], "columns": [["id", "INT NOT NULL"], …], "key": ["id"]}`. Prints one line of JSON.

mod history;
mod kernels;
mod rows;

use std::{error::Error, fs, path::Path, sync::Arc, time::Instant};

use headwater::sink::{SinkOptions, types::SnapshotRows};
use headwater_connectors::{
    TableName,
    mysql::{
        recorded::{self, Recording},
        table::MysqlTable,
    },
};
use headwater_paimon::{Catalog, Table};
use kernels::Lane;
use mimalloc::MiMalloc;
use object_store::memory::InMemory;
use serde::Deserialize;

// The program's own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const USAGE: &str = "usage: bench_kernels KERNEL …; the head of its source says more";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [kernel, rest @ ..] = words.as_slice() else {
        return Err(USAGE.into());
    };
    let told = match (*kernel, rest) {
        ("decode" | "encode", [rounds, log, table]) => {
            let (recording, table) = recorded(log.as_ref(), table.as_ref())?;
            match *kernel == "encode" {
                true => kernels::encode(&recording, &table, rounds.parse()?).await?,
                false => kernels::decode(&recording, &table, rounds.parse()?)?,
            }
        }
        ("flush", [rounds, count, order]) => {
            let lane = Lane::Buffer {
                ascending: *order == "ascending",
            };
            kernels::write(lane, rounds.parse()?, count.parse()?).await?
        }
        ("bulk", [rounds, count]) => {
            kernels::write(Lane::Bulk, rounds.parse()?, count.parse()?).await?
        }
        ("scan", [rounds, count]) => kernels::scan(rounds.parse()?, count.parse()?).await?,
        ("compact", [rounds, count]) => kernels::compact(rounds.parse()?, count.parse()?).await?,
        ("commit", [rounds, count]) => kernels::commit(rounds.parse()?, count.parse()?).await?,
        ("history", [warehouse, count]) => history::history(warehouse, count.parse()?).await?,
        ("hour", [warehouse, count, commits, updates, options @ ..]) => {
            let counts = (count.parse()?, commits.parse()?, updates.parse()?);
            history::hour(warehouse, counts, options).await?
        }
        ("settle", [warehouse]) => history::settle(warehouse).await?,
        ("read", [rounds, warehouse]) => history::read(rounds.parse()?, warehouse).await?,
        _ => return Err(USAGE.into()),
    };
    println!("{{{told}}}");
    Ok(())
}

#[derive(Deserialize)]
struct Definition {
    name: (String, String),
    columns: Vec<(String, String)>,
    key: Vec<String>,
}

fn recorded(log: &Path, table: &Path) -> Result<(Recording, Arc<MysqlTable>)> {
    let definition: Definition = serde_json::from_slice(&fs::read(table)?)?;
    let name = TableName::new(definition.name.0, definition.name.1);
    let recording = Recording::read(log, &name)?;
    let table = recorded::table(name, &definition.columns, definition.key)?;
    Ok((recording, Arc::new(table)))
}

/// A table in memory with the schema that the job would give it.
async fn lake_table(source: &MysqlTable) -> Result<Table> {
    let catalog = Catalog::new(Arc::new(InMemory::new()), "lake".into());
    create(&catalog, source, &[]).await
}

/// The table `bench.TABLE` with the schema that the job would give it, and with these options.
async fn create(
    catalog: &Catalog,
    source: &MysqlTable,
    options: &[(&str, String)],
) -> Result<Table> {
    let options = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    let options = SinkOptions {
        table_options: options.collect(),
        ..SinkOptions::default()
    };
    let name = TableName::new("bench", source.name.table.clone());
    let schema = options.new_schema(&source.to_schema(), &name, 0, SnapshotRows::Newer)?;
    catalog.create_database(&name.database).await?;
    let table = catalog.create_table(&name.database, &name.table, schema);
    Ok(table.await?)
}

/// Time and CPU seconds of each round.
struct Clock {
    began: Instant,
    cpu: f64,
    rounds: Vec<(f64, f64)>,
}

impl Clock {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            cpu: cpu_seconds(),
            rounds: Vec::new(),
        }
    }

    /// A round begins.
    fn start(&mut self) {
        (self.began, self.cpu) = (Instant::now(), cpu_seconds());
    }

    /// It is over.
    fn stop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.rounds.push((seconds, cpu_seconds() - self.cpu));
    }

    /// What is printed about them.
    fn told(&self, rows: usize) -> String {
        let seconds: Vec<_> = self.rounds.iter().map(|round| round.0).collect();
        let cpu_seconds: Vec<_> = self.rounds.iter().map(|round| round.1).collect();
        format!("\"rows\": {rows}, \"seconds\": {seconds:.4?}, \"cpu_seconds\": {cpu_seconds:.4?}")
    }
}

/// Of this process, all threads, user and system.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    // The kernel counts in hundredths on Linux.
    ticks / 100.0
}
