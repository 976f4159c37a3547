//! Looks after a table: expires snapshots, keeps one as a tag, goes back, finds files that nobody
//! needs, and checks everything.
//!
//! ```text
//! cargo run --example maintain
//! ```

mod shop;

use headwater_paimon::{
    Catalog, CheckRequest, OrphanRequest, Retention, TagRequest, WriteBuffer, WriteSettings,
};
use shop::{Result, commit, count, orders, rows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let schema = orders(&["id"], &[("bucket", "1")])?;
    let table = catalog.create_table("shop", "orders", schema).await?;
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    for number in 0..5 {
        let ids = number * 10..number * 10 + 10;
        buffer.write(&rows(ids, "new")?, None, number * 10)?;
        commit(&table, number, buffer.flush().await?).await?;
    }

    // A tag keeps its snapshot and all its files, however old they become.
    let request = TagRequest {
        snapshot: Some(2),
        ..TagRequest::default()
    };
    let tag = table.create_tag("before-the-sale", &request).await?;
    println!("tag {} is snapshot {}", tag.name, tag.snapshot.id);

    // What the table's options say, and here no more than two snapshots.
    let retention = Retention::of(table.schema())?.keep(2);
    let expired = table.expire_snapshots(&retention).await?;
    println!("{} snapshots expired", expired.snapshots);
    assert_eq!(expired.snapshots, 3);

    // Back to the tag: what came behind it is gone.
    table.rollback_to_tag("before-the-sale").await?;
    assert_eq!(count(&table.read()).await?, 20);

    // Lists what is older than a day, and deletes nothing unless asked to.
    let orphans = table.clean_orphans(&OrphanRequest::default()).await?;
    println!("{} orphans", orphans.files.len());

    let report = table.check(&CheckRequest::default()).await?;
    for problem in &report.problems {
        println!("{problem}");
    }
    println!("{} files, {} rows checked", report.files, report.rows);
    assert!(report.problems.is_empty());
    Ok(())
}
