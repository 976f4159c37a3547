//! Gives a table more buckets, then puts other rows in the place of all that it has.
//!
//! ```text
//! cargo run --example rescale_table
//! ```

mod shop;

use headwater_paimon::{Catalog, CommitRequest, Scope, WriteBuffer, WriteSettings};
use shop::{Result, commit, count, orders, rows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let schema = orders(&["id"], &[("bucket", "1")])?;
    let table = catalog.create_table("shop", "orders", schema).await?;
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(0..1000, "new")?, None, 0)?;
    commit(&table, 1, buffer.flush().await?).await?;

    // Readers go on meanwhile; writers begin anew afterwards, with the table of the new schema.
    let rescaled = table.rescale(4, None).await?;
    println!("{} rows moved to {} files", rescaled.rows, rescaled.files);
    assert_eq!(rescaled.files, 4);
    let table = table.reload().await?;

    // One snapshot takes all rows away and brings these.
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(0..10, "new")?, None, 0)?;
    let request = CommitRequest::new("example", 2, buffer.flush().await?);
    table.overwrite(&request, &Scope::Table).await?;
    assert_eq!(count(&table.read()).await?, 10);

    table.truncate("example", 3).await?;
    assert_eq!(count(&table.read()).await?, 0);
    Ok(())
}
