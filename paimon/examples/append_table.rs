//! Appends rows to a table without a primary key, and makes many small files one.
//!
//! ```text
//! cargo run --example append_table
//! ```

mod shop;

use headwater_paimon::{
    AppendWriter, Catalog, WriteSettings,
    compact::{CompactScope, CompactSettings, Compactor},
};
use shop::{Result, commit, count, orders, rows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let schema = orders(&[], &[])?;
    let table = catalog.create_table("shop", "log", schema).await?;

    // One writer may make many commits.
    let mut writer = AppendWriter::new(table.clone(), WriteSettings::default()).await?;
    for number in 0..5 {
        writer.write(&rows(0..100, "seen")?).await?;
        commit(&table, number, writer.prepare().await?).await?;
    }

    let mut compactor = Compactor::new(table.clone(), CompactSettings::default())?;
    let messages = compactor.run(CompactScope::Full, |_| true).await?;
    commit(&table, 5, messages).await?;

    let snapshot = table.latest_snapshot().await?.ok_or("no snapshot")?;
    let files = table.live_files(&snapshot).await?.len();
    let rows = count(&table.read()).await?;
    println!("{rows} rows in {files} file");
    assert_eq!((rows, files), (500, 1));
    Ok(())
}
