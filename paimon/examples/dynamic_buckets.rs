//! A table whose buckets grow with its keys: a hash index says which bucket a key is in.
//!
//! ```text
//! cargo run --example dynamic_buckets
//! ```

mod shop;

use headwater_paimon::{
    Catalog, DataType, DynamicBucketAssigner, WriteBuffer, WriteSettings,
    binary_row::{self, Value},
    bucket,
};
use shop::{Result, commit, count, orders, rows};

/// No partition, as a serialized row.
const NO_PARTITION: [u8; 12] = [0; 12];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let options = [("bucket", "-1"), ("dynamic-bucket.target-row-num", "100")];
    let schema = orders(&["id"], &options)?;
    let table = catalog.create_table("shop", "orders", schema).await?;

    // The write buffer asks and keeps the index by itself.
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(0..450, "new")?, None, 0)?;
    commit(&table, 1, buffer.flush().await?).await?;
    buffer.write(&rows(0..450, "paid")?, None, 450)?;
    commit(&table, 2, buffer.flush().await?).await?;

    let splits = table.read().splits().await?;
    println!(
        "{} orders in {} buckets",
        count(&table.read()).await?,
        splits.len()
    );
    assert_eq!(splits.len(), 5);

    // Writers of one's own ask the assigner, with the hash of the serialized key.
    let mut assigner = DynamicBucketAssigner::new(&table)?;
    assigner.load(&[NO_PARTITION.to_vec()]).await?;
    let key = binary_row::encode::<&[u8]>(&[Value::BigInt(7)], &[DataType::BigInt])?;
    // Without the number of columns in front.
    let (_, key) = key.split_at(4);
    let bucket = assigner.assign(&NO_PARTITION, bucket::hash(key))?;
    println!("order 7 is in bucket {bucket}");
    Ok(())
}
