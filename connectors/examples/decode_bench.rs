//! Rows a second that the row decoder reaches on one core.
//!
//! `HEADWATER_TEST_MYSQL=mysql://root@127.0.0.1:3306/ cargo run --profile ci --example decode_bench`
//! inserts a million rows shaped like sysbench's, keeps their events in memory and decodes them
//! again and again.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use headwater_connectors::{
    TableName,
    mysql::{catalog, rows::RowDecoder, types::TypeOptions},
};
use mysql_async::{
    BinlogStreamRequest, Conn, Opts, Row,
    binlog::events::{Event, EventData},
    prelude::Queryable,
};

const ROWS: u32 = 1_000_000;
const DATABASE: &str = "hw_decode_bench";
/// Rows after which a batch is taken, as the tail would.
const BATCH_ROWS: usize = 16_384;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("HEADWATER_TEST_MYSQL")
        .map_err(|_| "set HEADWATER_TEST_MYSQL to a server's URL")?;
    let opts = Opts::from_url(&url)?;
    let mut conn = Conn::new(opts.clone()).await?;
    conn.query_drop(format!("DROP DATABASE IF EXISTS {DATABASE}"))
        .await?;
    conn.query_drop(format!("CREATE DATABASE {DATABASE}"))
        .await?;
    conn.query_drop(format!(
        "CREATE TABLE {DATABASE}.sbtest (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         k int NOT NULL DEFAULT 0, c char(120) NOT NULL DEFAULT '', pad char(60) NOT NULL DEFAULT '')"
    ))
    .await?;
    let status: Row = conn
        .query_first("SHOW BINARY LOG STATUS")
        .await?
        .ok_or("the binlog is off")?;
    let file: String = status.get(0).ok_or("no file")?;
    let offset: u64 = status.get(1).ok_or("no offset")?;
    println!("filling {ROWS} rows");
    fill(&mut conn).await?;
    let name = TableName::new(DATABASE, "sbtest");
    let tables = catalog::read_tables(&mut conn, &[name], &TypeOptions::default()).await?;
    let table = Arc::new(tables.into_iter().next().ok_or("no table")?);

    let request = BinlogStreamRequest::new(70_999)
        .with_non_blocking()
        .with_filename(file.as_bytes())
        .with_pos(offset);
    let mut stream = Conn::new(opts).await?.get_binlog_stream(request).await?;
    let mut events: Vec<Event> = Vec::new();
    let mut decoder = None;
    let mut bytes = 0;
    while let Some(event) = stream.next().await {
        let event = event?;
        match event.read_data()? {
            Some(EventData::TableMapEvent(map)) if map.database_name() == DATABASE => {
                if decoder.is_none() {
                    decoder = Some(RowDecoder::new(table.clone(), &map)?);
                }
                continue;
            }
            Some(EventData::RowsEvent(rows)) => bytes += rows.rows_data().len(),
            _ => continue,
        }
        events.push(event);
    }
    let mut decoder = decoder.ok_or("no rows in the log")?;
    println!(
        "{} events, {} MB of row images",
        events.len(),
        bytes / 1_000_000
    );
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        let rows = decode(&mut decoder, &events)?;
        let took = start.elapsed();
        best = best.min(took);
        println!(
            "{rows} rows in {:.3} s: {:.2} M rows/s, {:.0} MB/s",
            took.as_secs_f64(),
            rows as f64 / took.as_secs_f64() / 1e6,
            bytes as f64 / took.as_secs_f64() / 1e6
        );
    }
    println!(
        "best: {:.2} M rows/s on one core (goal 1.5)",
        f64::from(ROWS) / best.as_secs_f64() / 1e6
    );
    conn.query_drop(format!("DROP DATABASE {DATABASE}")).await?;
    conn.disconnect().await?;
    Ok(())
}

async fn fill(conn: &mut Conn) -> Result<(), Box<dyn Error>> {
    let step = 10_000;
    conn.query_drop(format!("SET SESSION cte_max_recursion_depth = {step}"))
        .await?;
    for _ in 0..ROWS / step {
        conn.query_drop(format!(
            "INSERT INTO {DATABASE}.sbtest (k, c, pad) WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL \
             SELECT n + 1 FROM s WHERE n < {step}) SELECT RAND() * {ROWS}, \
             CONCAT(SHA2(RAND(), 256), '-', LEFT(SHA2(RAND(), 224), 54)), \
             LEFT(SHA2(RAND(), 256), 59) FROM s"
        ))
        .await?;
    }
    Ok(())
}

fn decode(decoder: &mut RowDecoder, events: &[Event]) -> Result<usize, Box<dyn Error>> {
    let mut rows = 0;
    for event in events {
        if let Some(EventData::RowsEvent(event)) = event.read_data()? {
            decoder.decode(&event)?;
        }
        if decoder.rows() >= BATCH_ROWS {
            rows += decoder.take()?.map_or(0, |batch| batch.rows.num_rows());
        }
    }
    rows += decoder.take()?.map_or(0, |batch| batch.rows.num_rows());
    Ok(rows)
}
