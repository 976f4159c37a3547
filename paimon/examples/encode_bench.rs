//! How fast sysbench rows are encoded: `encode_bench [bulk|buffer] [ROWS] [BUCKETS] [shuffled]`.
//!
//! Prints rows and CPU seconds, and the peak of resident memory. Rows are made beforehand, in
//! batches that are used over and over with other keys, so that only the writer is measured.

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Instant};

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use headwater_paimon::{
    DataField, DataType, Schema, Table,
    bulk::BulkWriter,
    write_buffer::{WriteBuffer, WriteSettings},
};
use object_store::{local::LocalFileSystem, path::Path};
use rand::Rng;

const BATCH_ROWS: usize = 8192;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let lane = arguments.next().unwrap_or_else(|| "bulk".to_owned());
    let rows: usize = arguments
        .next()
        .map_or(Ok(2_000_000), |rows| rows.parse())?;
    let buckets = arguments.next().unwrap_or_else(|| "1".to_owned());
    // An odd factor makes other keys of all numbers, in no order.
    let factor = match arguments.next() {
        Some(_) => 0x9e37_79b1_u32 as i32,
        None => 1,
    };
    let folder = tempfile::tempdir()?;
    let store = LocalFileSystem::new_with_prefix(folder.path())?.with_fsync(true);
    let table = Table::new(
        "bench.sbtest",
        Arc::new(store),
        Path::from("bench.db/sbtest"),
        Arc::new(schema(buckets)),
    );
    let columns = random_columns();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let files = runtime.block_on(write(&lane, table, rows, factor, &columns))?;
    let cpu = cpu_seconds() - cpu;
    println!(
        "{lane}: {rows} rows, {} files, {:.1} MB; {:.2} s, {cpu:.2} CPU-s, {:.0} rows a CPU-s, peak {} MB",
        files.0,
        files.1 as f64 / 1e6,
        wall.elapsed().as_secs_f64(),
        rows as f64 / cpu,
        peak_kb() / 1024
    );
    Ok(())
}

async fn write(
    lane: &str,
    table: Table,
    rows: usize,
    factor: i32,
    columns: &[ArrayRef],
) -> Result<(usize, i64), Box<dyn Error>> {
    let settings = WriteSettings::default();
    let batch = |start: usize| -> Result<RecordBatch, Box<dyn Error>> {
        let length = BATCH_ROWS.min(rows - start);
        let ids = Int32Array::from_iter_values(
            (start..start + length).map(|id| (id as i32).wrapping_mul(factor)),
        );
        let mut named: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(ids))];
        let others = columns.iter().map(|column| column.slice(0, length));
        named.extend(["k", "c", "pad"].into_iter().zip(others));
        Ok(RecordBatch::try_from_iter(named)?)
    };
    let mut messages = Vec::new();
    if lane == "bulk" {
        let mut writer = BulkWriter::new(table, settings, 1)?;
        for start in (0..rows).step_by(BATCH_ROWS) {
            writer.write(&batch(start)?).await?;
        }
        messages.extend(writer.finish().await?);
    } else {
        let mut writer = WriteBuffer::new(table, settings)?;
        for start in (0..rows).step_by(BATCH_ROWS) {
            writer.write(&batch(start)?, None, start as i64)?;
            if writer.buffered_bytes() > settings.max_buffered_bytes {
                messages.extend(writer.flush().await?);
            }
        }
        messages.extend(writer.flush().await?);
    }
    let files = messages.iter().flat_map(|message| &message.new_files);
    Ok(files.fold((0, 0), |(count, bytes), file| {
        (count + 1, bytes + file.file_size)
    }))
}

/// As sysbench fills them: numbers, and groups of 11 digits with dashes between.
fn random_columns() -> Vec<ArrayRef> {
    let mut random = rand::rng();
    let ks =
        Int32Array::from_iter_values((0..BATCH_ROWS).map(|_| random.random_range(1..2_000_000)));
    let mut text = |groups: usize| {
        let texts = (0..BATCH_ROWS).map(|_| {
            let groups: Vec<String> = (0..groups)
                .map(|_| format!("{:011}", random.random_range(0..100_000_000_000_u64)))
                .collect();
            groups.join("-")
        });
        StringArray::from_iter_values(texts)
    };
    vec![Arc::new(ks), Arc::new(text(10)), Arc::new(text(5))]
}

fn schema(buckets: String) -> Schema {
    let columns = [
        ("id", DataType::Int),
        ("k", DataType::Int),
        ("c", DataType::Char(120)),
        ("pad", DataType::Char(60)),
    ];
    let fields = columns
        .into_iter()
        .enumerate()
        .map(|(id, (name, data_type))| DataField {
            id: id as i32,
            name: name.to_owned(),
            data_type,
            nullable: false,
            description: None,
            default_value: None,
        });
    Schema {
        version: 3,
        id: 0,
        fields: fields.collect(),
        highest_field_id: 3,
        partition_keys: Vec::new(),
        primary_keys: vec!["id".to_owned()],
        options: BTreeMap::from([("bucket".to_owned(), buckets)]),
        comment: None,
        time_millis: 0,
    }
}

/// Of this process, all threads, user and system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    // The kernel counts in hundredths on Linux.
    fields.iter().sum::<f64>() / 100.0
}

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
