//! What the examples share: a shop's orders, `id BIGINT, state STRING, amount DECIMAL(10, 2)`.
#![allow(dead_code, reason = "each example uses some of it")]

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use arrow_array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use headwater_paimon::{
    CommitMessage, CommitRequest, DataField, DataType, Schema, Table, TableRead,
};

pub type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Kinds of rows, as the format numbers them.
pub const INSERT: i8 = 0;
pub const UPDATE: i8 = 2;
pub const DELETE: i8 = 3;

/// The table's columns and options; with a primary key or without.
pub fn orders(primary_key: &[&str], options: &[(&str, &str)]) -> Result<Schema> {
    let options = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Ok(Schema::create(
        vec![
            DataField::new("id", DataType::BigInt),
            DataField::new("state", DataType::String),
            DataField::new("amount", DataType::Decimal(10, 2)),
        ],
        primary_key.iter().map(|name| (*name).to_owned()).collect(),
        Vec::new(),
        options.collect::<BTreeMap<_, _>>(),
        None,
    )?)
}

/// Orders with these ids; each costs its id in cents.
pub fn rows(ids: Range<i64>, state: &str) -> Result<RecordBatch> {
    let states = StringArray::from_iter_values(ids.clone().map(|_| state));
    let amounts = Decimal128Array::from_iter_values(ids.clone().map(i128::from));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids))),
        ("state", Arc::new(states)),
        ("amount", Arc::new(amounts.with_precision_and_scale(10, 2)?)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Makes files visible. A commit is its user and its number: made twice, it takes place once.
pub async fn commit(table: &Table, number: i64, messages: Vec<CommitMessage>) -> Result<()> {
    let request = CommitRequest::new("example", number, messages);
    let outcome = table.commit(&request).await?;
    println!("commit {number}: {outcome:?}");
    Ok(())
}

/// How many rows a reader sees.
pub async fn count(read: &TableRead) -> Result<usize> {
    let batches: Vec<RecordBatch> = read.all(2).await?.try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}
