//! One table, read in both phases.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use arrow_array::RecordBatch;
use futures::StreamExt;
use headwater_connectors::{
    ChangeBatch, Error, TableName,
    mysql::{catalog, rows::RowDecoder, select::SelectPlan, table::MysqlTable, types::TypeOptions},
};
use mysql_async::{
    BinlogStreamRequest, Conn, Opts, Row, binlog::events::EventData, prelude::Queryable,
};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A seed that the environment may fix; printed, so that a failure can be run again.
pub fn seed() -> u64 {
    let seed = match std::env::var("HEADWATER_TEST_SEED") {
        Ok(seed) => seed.parse().expect("HEADWATER_TEST_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("HEADWATER_TEST_SEED={seed}");
    seed
}

/// A database of its own on the test server; dropped by [`Bench::close`].
pub struct Bench {
    pub conn: Conn,
    pub database: String,
    pub options: TypeOptions,
    opts: Opts,
}

impl Bench {
    pub async fn open() -> Self {
        let url = std::env::var("HEADWATER_TEST_MYSQL_SOURCE")
            .or_else(|_| std::env::var("HEADWATER_TEST_MYSQL"))
            .expect("set HEADWATER_TEST_MYSQL to a server's URL, mysql://root@127.0.0.1:3306/");
        let opts = Opts::from_url(&url).expect("HEADWATER_TEST_MYSQL is a URL");
        let mut conn = connect(&opts).await;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let database = format!("hw_rows_{}_{number}", std::process::id());
        for statement in [
            format!("DROP DATABASE IF EXISTS {database}"),
            format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"),
            format!("USE {database}"),
        ] {
            conn.query_drop(statement).await.unwrap();
        }
        Self {
            conn,
            database,
            options: TypeOptions::default(),
            opts,
        }
    }

    pub async fn run(&mut self, statement: impl AsRef<str>) {
        let statement = statement.as_ref();
        if let Err(error) = self.conn.query_drop(statement).await {
            panic!("{error}: {statement}");
        }
    }

    pub async fn table(&mut self, table: &str) -> MysqlTable {
        let name = TableName::new(&self.database, table);
        let mut tables = catalog::read_tables(&mut self.conn, &[name], &self.options)
            .await
            .unwrap();
        tables.pop().expect("the table exists")
    }

    /// Whether the server logs names and labels of columns.
    pub async fn full_metadata(&mut self) -> bool {
        let setting: Option<String> = self
            .conn
            .query_first("SELECT @@GLOBAL.binlog_row_metadata")
            .await
            .unwrap();
        setting.as_deref() == Some("FULL")
    }

    /// The end of the log.
    pub async fn position(&mut self) -> (String, u64) {
        let row: Row = self
            .conn
            .query_first("SHOW BINARY LOG STATUS")
            .await
            .unwrap()
            .unwrap();
        (row.get(0).unwrap(), row.get(1).unwrap())
    }

    /// All rows in the key's order.
    pub async fn select(&mut self, table: &MysqlTable) -> Result<RecordBatch, Error> {
        let plan = SelectPlan::new(table)?;
        let mut builder = plan.builder();
        let statement = format!(
            "SELECT {} FROM {} ORDER BY id",
            plan.columns_sql(),
            table.name
        );
        let rows: Vec<Row> = self.conn.exec(statement, ()).await.unwrap();
        for row in rows {
            builder.push(row)?;
        }
        builder.take()
    }

    /// The changes of one table from a position to the end of the log.
    pub async fn tail(
        &mut self,
        table: &Arc<MysqlTable>,
        from: (String, u64),
    ) -> Result<Vec<ChangeBatch>, Error> {
        let conn = connect(&self.opts).await;
        let request = BinlogStreamRequest::new(70_000 + NEXT.fetch_add(1, Ordering::Relaxed))
            .with_non_blocking()
            .with_filename(from.0.as_bytes())
            .with_pos(from.1);
        let mut stream = conn.get_binlog_stream(request).await.unwrap();
        let mut decoders: HashMap<u64, RowDecoder> = HashMap::new();
        let mut batches = Vec::new();
        while let Some(event) = stream.next().await {
            let event = event.unwrap();
            match event.read_data().unwrap() {
                Some(EventData::TableMapEvent(map))
                    if map.database_name() == table.name.database
                        && map.table_name() == table.name.table =>
                {
                    let known = decoders.get(&map.table_id());
                    if !known.is_some_and(|decoder| decoder.fits(&map)) {
                        let decoder = RowDecoder::new(table.clone(), &map)?;
                        decoders.insert(map.table_id(), decoder);
                    }
                }
                Some(EventData::RowsEvent(rows)) => {
                    if let Some(decoder) = decoders.get_mut(&rows.table_id()) {
                        let appended = decoder.decode(&rows)?;
                        assert_eq!(decoder.rows(), appended);
                        assert!(decoder.bytes() > 0);
                        batches.extend(decoder.take()?);
                        assert_eq!(decoder.rows(), 0);
                    }
                }
                _ => {}
            }
        }
        Ok(batches)
    }

    /// Runs the inserts, reads the table in both phases and asserts that they agree.
    pub async fn both(&mut self, table: &str, inserts: &[String]) -> RecordBatch {
        let from = self.position().await;
        for insert in inserts {
            self.run(insert).await;
        }
        let table = Arc::new(self.table(table).await);
        let selected = self.select(&table).await.unwrap();
        let tailed = self.tail(&table, from).await.unwrap();
        let schema = Arc::new(table.to_schema().arrow());
        let tailed =
            arrow_select::concat::concat_batches(&schema, tailed.iter().map(|batch| &batch.rows))
                .unwrap();
        assert_same(&selected, &tailed);
        selected
    }

    pub async fn close(mut self) {
        let drop = format!("DROP DATABASE {}", self.database);
        self.run(drop).await;
        self.conn.disconnect().await.unwrap();
    }
}

async fn connect(opts: &Opts) -> Conn {
    let mut conn = Conn::new(opts.clone()).await.expect("the server answers");
    for statement in [
        "SET SESSION time_zone='+00:00', sql_mode=''",
        "SET NAMES utf8mb4",
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    conn
}

fn assert_same(selected: &RecordBatch, tailed: &RecordBatch) {
    assert_eq!(
        selected.num_rows(),
        tailed.num_rows(),
        "rows of the two phases"
    );
    assert!(selected.num_rows() > 0, "no rows");
    for (at, field) in selected.schema().fields().iter().enumerate() {
        let (one, other) = (selected.column(at), tailed.column(at));
        for row in 0..selected.num_rows() {
            let (one, other) = (one.slice(row, 1), other.slice(row, 1));
            assert!(
                one.to_data() == other.to_data(),
                "column {} row {row}: {}",
                field.name(),
                difference(&format!("{one:?}"), &format!("{other:?}"))
            );
        }
    }
}

/// The surroundings of the first difference.
pub fn difference(one: &str, other: &str) -> String {
    let at = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let part = |text: &str| {
        text.chars()
            .skip(at.saturating_sub(60))
            .take(120)
            .collect::<String>()
    };
    format!("selected …{}…, tailed …{}…", part(one), part(other))
}
