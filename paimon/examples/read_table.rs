//! Makes a table, changes it, reads it back with a filter, and streams its changes:
//! `cargo run -p headwater-paimon --example read_table`.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema};
use futures::TryStreamExt;
use headwater_paimon::{
    Catalog, CommitRequest, DataField, DataType, Predicate, Schema, Table, WriteBuffer,
    WriteSettings,
};

type Error = Box<dyn std::error::Error>;

const INSERT: i8 = 0;
const DELETE: i8 = 3;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let catalog = Catalog::local(folder.path())?;
    let table = catalog.create_table("shop", "articles", schema()?).await?;
    write(&table, 1, &[(1, "pear", INSERT), (2, "plum", INSERT)]).await?;
    write(&table, 2, &[(2, "plum", DELETE), (3, "peach", INSERT)]).await?;

    let read = table
        .read()
        .columns(["name", "id"])
        .filter(Predicate::StartsWith("name".into(), "pe".into()));
    let mut batches = read.all(2).await?;
    println!("articles whose names begin with pe:");
    while let Some(batch) = batches.try_next().await? {
        println!("{batch:?}");
    }

    println!("changes since snapshot 1:");
    let mut changes = table.stream(Some(1))?;
    while let Some(batch) = changes.next().await? {
        println!(
            "snapshot {}, kinds {:?}: {:?}",
            batch.snapshot, batch.kinds, batch.rows
        );
    }
    println!("next is snapshot {:?}", changes.next_snapshot());
    Ok(())
}

fn schema() -> Result<Schema, Error> {
    let field = |name: &str, data_type, nullable| DataField {
        id: 0,
        name: name.into(),
        data_type,
        nullable,
        description: None,
        default_value: None,
    };
    Ok(Schema::create(
        vec![
            field("id", DataType::Int, false),
            field("name", DataType::String, true),
        ],
        vec!["id".into()],
        vec![],
        BTreeMap::from([("bucket".to_owned(), "2".to_owned())]),
        None,
    )?)
}

/// Writes and commits rows with their kinds.
async fn write(table: &Table, commit: i64, rows: &[(i32, &str, i8)]) -> Result<(), Error> {
    let batch = RecordBatch::try_new(
        Arc::new(ArrowSchema::new(vec![
            Field::new("id", ArrowType::Int32, false),
            Field::new("name", ArrowType::Utf8, true),
        ])),
        vec![
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1))),
        ],
    )?;
    let kinds: Vec<i8> = rows.iter().map(|row| row.2).collect();
    let mut buffer = WriteBuffer::new(table.clone(), WriteSettings::default())?;
    buffer.write(&batch, Some(&kinds), commit * 100)?;
    let request = CommitRequest {
        user: "read_table".to_owned(),
        identifier: commit,
        messages: buffer.flush().await?,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    };
    table.commit(&request).await?;
    Ok(())
}
