//! Compacts a table: `compact_table WAREHOUSE DATABASE.TABLE [--full] [--parallelism N]
//! [--memory-mib N]`.
//!
//! Without `--full` it does what the table's options ask for now. Readers, and writers that leave
//! compacting to others (option `write-only`), may go on meanwhile. Prints what was done and how
//! long it took.

use std::{collections::BTreeMap, error::Error, time::Instant};

use headwater_paimon::{
    Catalog, CommitRequest,
    compact::{CompactScope, CompactSettings, Compactor},
};

const USAGE: &str =
    "usage: compact_table WAREHOUSE DATABASE.TABLE [--full] [--parallelism N] [--memory-mib N]";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let warehouse = args.next().ok_or(USAGE)?;
    let name = args.next().ok_or(USAGE)?;
    let (database, table) = name.split_once('.').ok_or(USAGE)?;
    let mut scope = CompactScope::Due;
    let mut settings = CompactSettings::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => scope = CompactScope::Full,
            "--parallelism" => settings.parallelism = args.next().ok_or(USAGE)?.parse()?,
            "--memory-mib" => {
                settings.memory_bytes = args.next().ok_or(USAGE)?.parse::<u64>()? << 20;
            }
            _ => return Err(USAGE.into()),
        }
    }
    let catalog = Catalog::local(warehouse)?;
    let table = catalog
        .table(database, table)
        .await?
        .ok_or_else(|| format!("there is no table {name}"))?;

    let started = Instant::now();
    let mut compactor = Compactor::new(table.clone(), settings)?;
    let messages = compactor.run(scope, |_| true).await?;
    let seconds = started.elapsed().as_secs_f64();
    for message in &messages {
        println!(
            "bucket {}: {} files became {}",
            message.bucket,
            message.compact.before.len(),
            message.compact.after.len()
        );
    }
    println!("{seconds:.3} s");
    if messages.is_empty() {
        return Ok(());
    }
    // A user of its own: the number of a commit is never used twice.
    let request = CommitRequest {
        user: format!("compact-{}", uuid::Uuid::new_v4()),
        identifier: 1,
        messages,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    };
    println!("{:?}", table.commit(&request).await?);
    Ok(())
}
