//! Compacts a table beside its writer, which leaves that to others (option `write-only`).
//!
//! ```text
//! cargo run --example compact_table
//! ```

mod shop;

use headwater_paimon::{
    Catalog, CommitRequest, WriteBuffer, WriteSettings,
    compact::{CompactScope, CompactSettings, Compactor},
};
use shop::{INSERT, Result, commit, count, orders, rows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let schema = orders(&["id"], &[("bucket", "2"), ("write-only", "true")])?;
    let table = catalog.create_table("shop", "orders", schema).await?;
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    for number in 0..6 {
        let ids = number * 50..number * 50 + 100;
        buffer.write(&rows(ids, "new")?, Some(&[INSERT; 100]), number * 100)?;
        commit(&table, number, buffer.flush().await?).await?;
    }

    // `Due` does what the table's options ask for, `Full` merges all into one sorted run a bucket.
    // The closure chooses partitions. No more memory than this is taken.
    let settings = CompactSettings {
        memory_bytes: 64 << 20,
        ..CompactSettings::default()
    };
    let mut compactor = Compactor::new(table.clone(), settings)?;
    let messages = compactor.run(CompactScope::Full, |_| true).await?;
    for message in &messages {
        let (before, after) = (&message.compact.before, &message.compact.after);
        println!(
            "bucket {}: {} files became {}",
            message.bucket,
            before.len(),
            after.len()
        );
        assert_eq!((before.len(), after.len()), (6, 1));
    }
    // A commit user of its own: the writer's numbers are the writer's.
    let request = CommitRequest::new("compactor", 1, messages);
    println!("{:?}", table.commit(&request).await?);

    assert_eq!(count(&table.read()).await?, 350);
    Ok(())
}
