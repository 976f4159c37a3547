//! Makes a table, fills it through the bulk lane, then changes some of its rows.
//!
//! ```text
//! cargo run --example write_table
//! ```

mod shop;

use headwater_paimon::{BulkWriter, Catalog, WriteBuffer, WriteSettings};
use shop::{DELETE, Result, UPDATE, commit, count, orders, rows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let schema = orders(&["id"], &[("bucket", "2")])?;
    let table = catalog.create_table("shop", "orders", schema).await?;

    // Rows in the order of the key go straight to the top level: nothing is to be merged or
    // compacted afterwards. All of them have sequence number 0.
    let mut bulk = BulkWriter::new(table.clone(), WriteSettings::default(), 0)?;
    bulk.write(&rows(0..1000, "new")?).await?;
    commit(&table, 1, bulk.finish().await?).await?;

    // Changes, in any order. The row with the greater sequence number wins.
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(500..510, "paid")?, Some(&[UPDATE; 10]), 1)?;
    buffer.write(&rows(990..1000, "new")?, Some(&[DELETE; 10]), 11)?;
    commit(&table, 2, buffer.flush().await?).await?;

    let rows = count(&table.read()).await?;
    println!("{rows} orders");
    assert_eq!(rows, 990);
    Ok(())
}
