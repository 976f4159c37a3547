//! Makes a table, fills it through the bulk lane and changes it: `write_table WAREHOUSE`.
//!
//! Any engine that reads Paimon sees 990 rows in `demo.accounts` then, and two snapshots.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use headwater_paimon::{
    BulkWriter, Catalog, CommitMessage, CommitRequest, DataField, DataType, Schema, Table,
    WriteBuffer, WriteSettings,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let warehouse = std::env::args()
        .nth(1)
        .ok_or("usage: write_table WAREHOUSE")?;
    let catalog = Catalog::local(warehouse)?;
    let table = catalog.create_table("demo", "accounts", schema()).await?;

    // Rows of a snapshot, in key order: straight to the top level.
    let mut bulk = BulkWriter::new(table.clone(), WriteSettings::default(), 0)?;
    bulk.write(&rows(0..1000, "opened")?).await?;
    commit(&table, 1, bulk.finish().await?).await?;

    // Changes: ten rows updated, ten deleted.
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&rows(500..510, "changed")?, Some(&[2; 10]), 1)?;
    buffer.write(&rows(990..1000, "opened")?, Some(&[3; 10]), 11)?;
    commit(&table, 2, buffer.flush().await?).await
}

async fn commit(
    table: &Table,
    identifier: i64,
    messages: Vec<CommitMessage>,
) -> Result<(), Box<dyn Error>> {
    let outcome = table
        .commit(&CommitRequest {
            user: "write_table".to_owned(),
            identifier,
            messages,
            watermark_ms: None,
            properties: BTreeMap::new(),
            expect: None,
        })
        .await?;
    println!("commit {identifier}: {outcome:?}");
    Ok(())
}

fn rows(ids: std::ops::Range<i64>, state: &str) -> Result<RecordBatch, Box<dyn Error>> {
    let states: ArrayRef = Arc::new(StringArray::from_iter_values(ids.clone().map(|_| state)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    Ok(RecordBatch::try_from_iter([
        ("id", ids),
        ("state", states),
    ])?)
}

fn schema() -> Schema {
    let field = |id, name: &str, data_type, nullable| DataField {
        id,
        name: name.to_owned(),
        data_type,
        nullable,
        description: None,
        default_value: None,
    };
    Schema {
        version: 3,
        id: 0,
        fields: vec![
            field(0, "id", DataType::BigInt, false),
            field(1, "state", DataType::VarChar(20), true),
        ],
        highest_field_id: 1,
        partition_keys: Vec::new(),
        primary_keys: vec!["id".to_owned()],
        options: BTreeMap::from([("bucket".to_owned(), "2".to_owned())]),
        comment: None,
        time_millis: 0,
    }
}
