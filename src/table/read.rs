//! `headwater table read`.

use std::io::{BufWriter, IsTerminal, Write};

use futures::TryStreamExt;

use super::{TableName, Warehouse, condition, open, rows::RowWriter, snapshot};
use crate::{
    cli::table::{ReadArgs, RowFormat},
    error::{JobError, Result},
};

/// Buckets read at the same time.
const PARALLELISM: usize = 2;

/// Prints the rows of a state of the table.
pub async fn read(warehouse: &Warehouse, name: &TableName, args: &ReadArgs) -> Result<()> {
    let table = open(warehouse, name).await?;
    let (out, watched): (Box<dyn Write>, bool) = match &args.output {
        Some(path) => {
            let file = std::fs::File::create(path).map_err(|error| {
                JobError::Definite(format!("cannot write {}: {error}", path.display()))
            })?;
            (Box::new(file), false)
        }
        None => {
            let out = std::io::stdout();
            let watched = out.is_terminal();
            (Box::new(out), watched)
        }
    };
    let format = args
        .format
        .unwrap_or(match watched && !args.table.warehouse.json {
            true => RowFormat::Pretty,
            false => RowFormat::Json,
        });
    let mut writer = RowWriter::new(format, BufWriter::new(out));
    if let Some(snapshot) = snapshot(&table, &args.at).await? {
        let mut request = table.read();
        if let Some(columns) = &args.columns {
            request = request.columns(columns.iter().map(|column| column.trim()));
        }
        if let Some(text) = &args.filter {
            request = request.filter(condition::parse(text, table.schema())?);
        }
        if let Some(rows) = args.limit {
            request = request.limit(rows);
        }
        let mut batches = request.snapshot(snapshot).all(PARALLELISM).await?;
        while let Some(batch) = batches.try_next().await? {
            if !writer.write(batch)? {
                break;
            }
        }
    }
    writer.finish()
}
