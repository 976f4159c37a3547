//! Changes the schema of a table that has rows: they are read with the columns of today.
//!
//! ```text
//! cargo run --example alter_table
//! ```

mod shop;

use futures::TryStreamExt;
use headwater_paimon::{Catalog, ColumnPlace, DataType, SchemaChange, WriteBuffer, WriteSettings};
use shop::{Result, commit, orders, rows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let schema = orders(&["id"], &[("bucket", "1")])?;
    let table = catalog.create_table("shop", "orders", schema).await?;
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(0..3, "new")?, None, 0)?;
    commit(&table, 1, buffer.flush().await?).await?;

    // All of it or nothing, as one new version of the schema.
    let table = table
        .alter(&[
            SchemaChange::AddColumn {
                path: &["customer"],
                data_type: DataType::BigInt,
                description: Some("who ordered"),
                place: Some(ColumnPlace::After("id")),
            },
            SchemaChange::RenameColumn {
                path: &["state"],
                name: "status",
            },
            SchemaChange::UpdateColumnType {
                path: &["amount"],
                data_type: DataType::Decimal(20, 2),
            },
            SchemaChange::SetOption {
                name: "snapshot.num-retained.max",
                value: "20",
            },
        ])
        .await?;

    let mut batches = table.read().all(1).await?;
    while let Some(batch) = batches.try_next().await? {
        for field in batch.schema().fields() {
            println!("{field}");
        }
        assert_eq!(batch.column(1).null_count(), 3, "nobody knew the customer");
    }
    Ok(())
}
