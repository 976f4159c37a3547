//! Reads some columns of the rows that match, as they are now and as they were; then follows the
//! table's changes.
//!
//! ```text
//! cargo run --example read_table
//! ```

mod shop;

use arrow_array::{cast::AsArray, types::Int64Type};
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, Predicate, SnapshotRef, Table, WriteBuffer, WriteSettings, binary_row::Value,
};
use shop::{DELETE, INSERT, Result, UPDATE, commit, count, orders, rows};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    // With this option changes come with the rows as they were before.
    let options = [("bucket", "2"), ("changelog-producer", "input")];
    let schema = orders(&["id"], &options)?;
    let table = catalog.create_table("shop", "orders", schema).await?;
    write(&table, 1, 0, "new", INSERT).await?;
    write(&table, 2, 100, "paid", UPDATE).await?;
    write(&table, 3, 200, "paid", DELETE).await?;
    write(&table, 4, 300, "new", INSERT).await?;

    // Files and row groups that cannot match are not read; two buckets are read at a time.
    let wanted = Predicate::And(vec![
        Predicate::Lt("id".into(), Value::Int(5)),
        Predicate::StartsWith("state".into(), "ne".into()),
    ]);
    let read = table.read().columns(["amount", "id"]).filter(wanted);
    let mut batches = read.all(2).await?;
    while let Some(batch) = batches.try_next().await? {
        let ids = batch.column(1).as_primitive::<Int64Type>();
        println!("orders {:?}", ids.values().to_vec());
    }
    assert_eq!(count(&read).await?, 5);

    let before = table.snapshot_at(&SnapshotRef::Id(2)).await?;
    let before = table.read().snapshot(before);
    println!("{} orders in snapshot 2", count(&before).await?);

    let mut changes = table.stream(Some(2))?;
    while let Some(batch) = changes.next().await? {
        // 0 is an insert, 1 and 2 are a row before and after an update, 3 is a delete.
        let kinds = batch.kinds.values().to_vec();
        println!("snapshot {}: kinds {kinds:?}", batch.snapshot);
    }
    // Whoever goes on another time begins here.
    assert_eq!(changes.next_snapshot(), Some(5));
    Ok(())
}

async fn write(table: &Table, number: i64, sequence: i64, state: &str, kind: i8) -> Result<()> {
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(0..10, state)?, Some(&[kind; 10]), sequence)?;
    commit(table, number, buffer.flush().await?).await
}
