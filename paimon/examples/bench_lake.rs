//! The parts of the lake's benchmark (`tests/bench/lake.py`) that this crate does:
//!
//! ```text
//! bench_lake create  WAREHOUSE DATABASE.TABLE [OPTION=VALUE…]    a table without rows
//! bench_lake write   WAREHOUSE DATABASE.TABLE ROWS EVERY [random|ascending]
//! bench_lake wide    WAREHOUSE DATABASE.TABLE MEGABYTES RUNS     rows of 1 kB that do not compress
//! bench_lake compact WAREHOUSE DATABASE.TABLE                    fully
//! bench_lake scan    WAREHOUSE DATABASE.TABLE                    merge on read
//! bench_lake commits WAREHOUSE DATABASE.TABLE COMMITS ROWS       with compaction and expiry
//! ```
//!
//! `write` flushes and commits every so many rows. The rows are those of `Bench.java`, made of a hash
//! of their number: with random keys about 63 of 100 are distinct, as in a table that is updated.
//! Prints one line of JSON.

use std::{collections::BTreeMap, error::Error, ops::Range, sync::Arc, time::Instant};

use arrow_array::{
    ArrayRef, Decimal128Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
    builder::StringBuilder, cast::AsArray, types::Int64Type,
};
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, CommitMessage, CommitRequest, DataField, DataType, Retention, Schema, Table,
    TableCommitter, WriteBuffer, WriteSettings,
    compact::{CompactScope, CompactSettings, Compactor},
};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const BATCH_ROWS: u64 = 8192;
const USAGE: &str =
    "usage: bench_lake create|write|wide|compact|scan|commits WAREHOUSE DATABASE.TABLE …";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [verb, warehouse, name, rest @ ..] = args.as_slice() else {
        return Err(USAGE.into());
    };
    let catalog = Catalog::local(*warehouse)?;
    let (database, name) = name.split_once('.').ok_or(USAGE)?;
    if *verb == "create" {
        let options = rest.iter().filter_map(|option| option.split_once('='));
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let schema = schema(options.collect())?;
        catalog.create_table(database, name, schema).await?;
        return Ok(());
    }
    let table = catalog.table(database, name).await?;
    let table = table.ok_or("there is no such table")?;
    let started = Instant::now();
    let told = match (*verb, rest) {
        ("write", [rows, every, order]) => {
            let (rows, every) = (rows.parse()?, every.parse()?);
            write(&table, rows, every, keys(order, rows)).await?
        }
        ("wide", [megabytes, runs]) => wide(&table, megabytes.parse()?, runs.parse()?).await?,
        ("compact", []) => compact(&table).await?,
        ("scan", []) => scan(&table).await?,
        ("commits", [count, rows]) => commits(&table, count.parse()?, rows.parse()?).await?,
        _ => return Err(USAGE.into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    println!("{{{told}, \"seconds\": {seconds:.3}}}");
    Ok(())
}

/// SplitMix64: what the columns of a row are made of.
fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of a row, by its number.
fn keys(order: &str, rows: u64) -> impl Fn(u64) -> i64 + use<> {
    let ascending = order == "ascending";
    move |number| match ascending {
        true => number as i64,
        false => (hash(number) % rows) as i64,
    }
}

/// Rows by their numbers. Bench.java makes the same.
fn rows(numbers: Range<u64>, key: &impl Fn(u64) -> i64) -> Result<RecordBatch> {
    use std::fmt::Write;

    let hashes: Vec<u64> = numbers.clone().map(|number| hash(!number)).collect();
    let each = || hashes.iter().copied();
    let amounts = Decimal128Array::from_iter_values(each().map(|it| i128::from(it % 10_000_000)))
        .with_precision_and_scale(15, 2)?;
    let mut names = StringBuilder::with_capacity(hashes.len(), hashes.len() * 24);
    for it in each() {
        write!(names, "customer number {}", it % 1_000_000)?;
        names.append_value("");
    }
    let times = each().map(|it| 1_700_000_000_000_000 + (it % 100_000_000_000) as i64);
    let columns: [(&str, ArrayRef); 5] = [
        (
            "k",
            Arc::new(Int64Array::from_iter_values(numbers.map(key))),
        ),
        (
            "v",
            Arc::new(Int64Array::from_iter_values(
                each().map(|it| (it >> 16) as i64),
            )),
        ),
        ("amount", Arc::new(amounts)),
        ("name", Arc::new(names.finish())),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(times)),
        ),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn schema(options: BTreeMap<String, String>) -> Result<Schema> {
    let field = |name: &str, data_type, nullable| DataField {
        id: 0,
        name: name.to_owned(),
        data_type,
        nullable,
        description: None,
        default_value: None,
    };
    let fields = vec![
        field("k", DataType::BigInt, false),
        field("v", DataType::BigInt, true),
        field("amount", DataType::Decimal(15, 2), true),
        field("name", DataType::VarChar(2000), true),
        field("at", DataType::Timestamp(6), true),
    ];
    Ok(Schema::create(
        fields,
        vec!["k".to_owned()],
        vec![],
        options,
        None,
    )?)
}

fn request(user: &str, identifier: u64, messages: Vec<CommitMessage>) -> CommitRequest {
    CommitRequest {
        user: user.to_owned(),
        identifier: identifier as i64,
        messages,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    }
}

async fn write(table: &Table, count: u64, every: u64, key: impl Fn(u64) -> i64) -> Result<String> {
    let mut committer = TableCommitter::new(table.clone());
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    for (commit, first) in (0..count).step_by(every as usize).enumerate() {
        let end = (first + every).min(count);
        for start in (first..end).step_by(BATCH_ROWS as usize) {
            let batch = rows(start..(start + BATCH_ROWS).min(end), &key)?;
            buffer.write(&batch, None, start as i64)?;
        }
        let request = request("bench", commit as u64 + 1, buffer.flush().await?);
        committer.commit(&request).await?;
    }
    Ok(format!("\"rows\": {count}"))
}

/// Rows whose text cannot be compressed to less than three quarters.
async fn wide(table: &Table, megabytes: u64, runs: u64) -> Result<String> {
    let mut committer = TableCommitter::new(table.clone());
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    let count = megabytes * 1000;
    let key = keys("random", count);
    let every = count.div_ceil(runs.max(1));
    let mut commit = 0;
    for start in (0..count).step_by(1024) {
        let numbers = start..(start + 1024).min(count);
        let narrow = rows(numbers.clone(), &key)?;
        let text = |number: u64| -> String {
            let letter = |at| char::from(b'0' + (hash(number * 2048 + at) % 64) as u8);
            (0..1330).map(letter).collect()
        };
        let names = arrow_array::StringArray::from_iter_values(numbers.map(text));
        let mut columns = narrow.columns().to_vec();
        if let Some(column) = columns.get_mut(3) {
            *column = Arc::new(names);
        }
        let batch = RecordBatch::try_new(narrow.schema(), columns)?;
        buffer.write(&batch, None, start as i64)?;
        if (start + 1024) / every > commit || start + 1024 >= count {
            commit += 1;
            let request = request("bench", commit, buffer.flush().await?);
            committer.commit(&request).await?;
        }
    }
    let snapshot = table
        .latest_snapshot()
        .await?
        .ok_or("nothing was written")?;
    let files = table.live_files(&snapshot).await?;
    let bytes: i64 = files.iter().map(|live| live.meta.file_size).sum();
    Ok(format!("\"rows\": {count}, \"bytes\": {bytes}"))
}

async fn compact(table: &Table) -> Result<String> {
    let mut compactor = Compactor::new(table.clone(), CompactSettings::default())?;
    let messages = compactor.run(CompactScope::Full, |_| true).await?;
    let after = messages.iter().flat_map(|message| &message.compact.after);
    let rows: i64 = after.map(|file| file.row_count).sum();
    let mut committer = TableCommitter::new(table.clone());
    committer.commit(&request("compactor", 1, messages)).await?;
    Ok(format!("\"rows\": {rows}"))
}

async fn scan(table: &Table) -> Result<String> {
    let mut batches = table.read().all(2).await?;
    let (mut rows, mut sum) = (0, 0_i64);
    while let Some(batch) = batches.try_next().await? {
        rows += batch.num_rows();
        let values = batch.column(1).as_primitive::<Int64Type>();
        sum = values
            .values()
            .iter()
            .fold(sum, |sum, value| sum.wrapping_add(*value));
    }
    Ok(format!("\"rows\": {rows}, \"sum\": {sum}"))
}

/// As a job does it: every checkpoint is a commit, then what is due is compacted and expired.
async fn commits(table: &Table, count: u64, each: u64) -> Result<String> {
    let mut committer = TableCommitter::new(table.clone());
    let mut compactor = Compactor::new(table.clone(), CompactSettings::default())?;
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    let retention = Retention::of(table.schema())?;
    let key = keys("random", count * each);
    let (mut hundreds, mut cpu_hundreds) = (Vec::new(), Vec::new());
    let (mut began, mut cpu) = (Instant::now(), cpu_seconds());
    for commit in 1..=count {
        let first = (commit - 1) * each;
        buffer.write(&rows(first..first + each, &key)?, None, first as i64)?;
        let written = request("bench", commit, buffer.flush().await?);
        committer.commit(&written).await?;
        let messages = compactor.run(CompactScope::Due, |_| true).await?;
        if !messages.is_empty() {
            committer
                .commit(&request("compactor", commit, messages))
                .await?;
        }
        table.expire_snapshots(&retention).await?;
        if commit % 100 == 0 {
            hundreds.push(format!("{:.3}", began.elapsed().as_secs_f64()));
            cpu_hundreds.push(format!("{:.2}", cpu_seconds() - cpu));
            (began, cpu) = (Instant::now(), cpu_seconds());
        }
    }
    Ok(format!(
        "\"hundreds\": [{}], \"cpu_hundreds\": [{}]",
        hundreds.join(", "),
        cpu_hundreds.join(", ")
    ))
}

/// Of this process, all threads, user and system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    // The kernel counts in hundredths on Linux.
    ticks / 100.0
}
