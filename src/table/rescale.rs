//! `headwater table rescale`: another number of buckets.

use headwater_paimon::Rescaled;
use serde::Serialize;

use super::{Answer, TableName, Warehouse, open};
use crate::{
    cli::table::RescaleArgs,
    error::{JobError, Result},
};

/// What a rescale did.
#[derive(Debug, Serialize)]
pub struct RescaleAnswer {
    table: String,
    buckets: i32,
    /// Partitions that had another number of buckets.
    partitions: usize,
    rows: i64,
    data_files: usize,
    data_bytes: i64,
    /// The newest snapshot that was made for it.
    snapshot: Option<i64>,
}

/// Gives the table another number of buckets and moves its rows, or those of some partitions.
pub async fn rescale(
    warehouse: &Warehouse,
    name: &TableName,
    args: &RescaleArgs,
) -> Result<RescaleAnswer> {
    let table = open(warehouse, name).await?;
    let partitions = match args.partition.as_slice() {
        [] => None,
        values => Some(table.find_partitions(values).await?),
    };
    if partitions.as_ref().is_some_and(Vec::is_empty) {
        let values = args.partition.iter();
        let values: Vec<String> = values
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        return Err(JobError::Definite(format!(
            "table {} has no partition {}: headwater table files shows what there is",
            table.name(),
            values.join("/")
        )));
    }
    let Rescaled {
        partitions,
        rows,
        files,
        bytes,
        snapshot,
    } = table.rescale(args.buckets, partitions.as_deref()).await?;
    Ok(RescaleAnswer {
        table: table.name().to_owned(),
        buckets: args.buckets,
        partitions,
        rows,
        data_files: files,
        data_bytes: bytes,
        snapshot,
    })
}

impl Answer for RescaleAnswer {
    fn to_text(&self) -> String {
        match self.snapshot {
            None => format!(
                "{}: option bucket is {}, and no partition had to be rewritten\n",
                self.table, self.buckets
            ),
            Some(snapshot) => format!(
                "{}: {} partitions rescaled to {} buckets: {} rows in {} data files ({} bytes), \
                 snapshot {snapshot}\n",
                self.table,
                self.partitions,
                self.buckets,
                self.rows,
                self.data_files,
                self.data_bytes
            ),
        }
    }
}
