//! Rows folded through schema changes, as a sink would: statements between rows, everything in one
//! stretch of log, and the ends compared.

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch, cast::AsArray, types};
use arrow_schema::DataType;
use headwater_connectors::{
    ChunkEnd, RowKinds, Source, Split, TableSchema, TailItem,
    change::{ColumnStep, RowsAfter, SchemaChange},
    mysql::{MysqlSource, TableFilter},
};
use mysql_async::{Row, prelude::Queryable};
use tokio::sync::mpsc;

use crate::{
    fold::Running,
    server::{Db, LOG},
};

type Values = BTreeMap<String, Option<String>>;

/// What a sink holds of tables whose key is `id`: rows by table and key.
#[derive(Default)]
struct Lake {
    tables: BTreeMap<String, BTreeMap<i64, Values>>,
    columns: BTreeMap<String, Vec<String>>,
    changes: Vec<SchemaChange>,
    dropped: Vec<String>,
    /// A read that did not succeed: the server was ahead.
    owed: bool,
}

fn value(column: &dyn Array, row: usize) -> Option<String> {
    column.is_valid(row).then(|| match column.data_type() {
        DataType::Int32 => column
            .as_primitive::<types::Int32Type>()
            .value(row)
            .to_string(),
        DataType::Int64 => column
            .as_primitive::<types::Int64Type>()
            .value(row)
            .to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        other => panic!("{other}"),
    })
}

fn rows(batch: &RecordBatch) -> Vec<(i64, Values)> {
    let schema = batch.schema();
    let all = (0..batch.num_rows()).map(|row| {
        let columns = schema.fields().iter().zip(batch.columns());
        let values: Values = columns
            .map(|(field, column)| (field.name().clone(), value(column, row)))
            .collect();
        (values["id"].as_ref().unwrap().parse().unwrap(), values)
    });
    all.collect()
}

impl Lake {
    async fn apply(&mut self, item: TailItem, source: &MysqlSource) {
        match item {
            TailItem::Rows(batch) => {
                let table = self
                    .tables
                    .entry(batch.table.name.table.clone())
                    .or_default();
                for (at, (id, values)) in rows(&batch.rows).into_iter().enumerate() {
                    let is_delete = matches!(&batch.kinds, RowKinds::Each(kinds) if kinds[at] == 3);
                    if is_delete {
                        table.remove(&id);
                    } else {
                        table.insert(id, values);
                    }
                }
            }
            TailItem::Schema(change) => {
                self.follow(&change, source).await;
                self.changes.push(change);
            }
            TailItem::Dropped(gone) => {
                self.tables.remove(&gone.table.table);
                self.dropped.push(gone.table.table);
            }
            TailItem::Barrier(_) => {}
        }
    }

    async fn follow(&mut self, change: &SchemaChange, source: &MysqlSource) {
        let name = &change.table.name.table;
        let table = self.tables.entry(name.clone()).or_default();
        let columns = self.columns.entry(name.clone()).or_default();
        for step in &change.steps {
            step_of_columns(step, columns);
            for values in table.values_mut() {
                match step {
                    ColumnStep::Add(column, _) => {
                        assert!(values.insert(column.name.clone(), None).is_none());
                    }
                    ColumnStep::Drop(name) => {
                        values.remove(name).unwrap();
                    }
                    ColumnStep::Rename { from, to } => {
                        let value = values.remove(from).unwrap();
                        values.insert(to.clone(), value);
                    }
                    _ => {}
                }
            }
        }
        let after: Vec<&String> = change.table.columns.iter().map(|own| &own.name).collect();
        assert_eq!(
            columns.iter().collect::<Vec<_>>(),
            after,
            "{}",
            change.statement
        );
        match &change.rows {
            RowsAfter::Kept => {}
            RowsAfter::Gone => table.clear(),
            RowsAfter::Unknown(_) => self.owed = true,
        }
        // Rows that are not read again are no more; those of the tail come over these.
        if self.owed {
            source.round_low(&change.position).await.unwrap();
            if let Some(read) = read(source, &change.table).await {
                *table = read;
                self.owed = false;
            }
        }
    }
}

fn step_of_columns(step: &ColumnStep, columns: &mut Vec<String>) {
    let find = |columns: &[String], name: &str| columns.iter().position(|own| own == name).unwrap();
    let (name, after) = match step {
        ColumnStep::Add(column, after) => (column.name.clone(), after),
        ColumnStep::Move(name, after) => {
            let at = find(columns, name);
            (columns.remove(at), after)
        }
        ColumnStep::Drop(name) => {
            columns.remove(find(columns, name));
            return;
        }
        ColumnStep::Rename { from, to } => {
            let at = find(columns, from);
            columns[at] = to.clone();
            return;
        }
        _ => return,
    };
    let at = after.as_ref().map_or(0, |after| find(columns, after) + 1);
    columns.insert(at, name);
}

/// All rows of a table as they are now. `None`: the table is not any more what the change made of
/// it; a change that the log has yet to bring tells what it is.
async fn read(source: &MysqlSource, table: &TableSchema) -> Option<BTreeMap<i64, Values>> {
    let mut reader = source.reader().await.unwrap();
    let mut split = Split {
        table: table.name.clone(),
        id: 0,
        after: None,
        upto: None,
    };
    let mut all = BTreeMap::new();
    loop {
        let (out, mut batches) = mpsc::channel(64);
        let end = match reader.read(table, &split, &out).await {
            Ok(end) => end,
            Err(error) => {
                let meaning = headwater_connectors::Meaning::SchemaChanged;
                assert!(error.means(meaning), "{error}");
                return None;
            }
        };
        drop(out);
        while let Some(batch) = batches.recv().await {
            all.extend(rows(&batch));
        }
        match end {
            ChunkEnd::Done => return Some(all),
            ChunkEnd::More(key) => split.after = Some(key),
        }
    }
}

async fn server(db: &mut Db, table: &str) -> BTreeMap<i64, Values> {
    let rows: Vec<Row> = db
        .conn
        .query(format!("SELECT * FROM {table}"))
        .await
        .unwrap();
    let all = rows.into_iter().map(|row| {
        let names: Vec<String> = row
            .columns_ref()
            .iter()
            .map(|column| column.name_str().into_owned())
            .collect();
        let values: Values = names
            .into_iter()
            .enumerate()
            .map(|(at, name)| (name, row.get::<Option<String>, _>(at).unwrap()))
            .collect();
        (values["id"].as_ref().unwrap().parse().unwrap(), values)
    });
    all.collect()
}

struct Run {
    db: Db,
    tail: Running,
    lake: Lake,
}

impl Run {
    async fn start(mut db: Db, table: &str) -> Self {
        let mut options = db.options();
        options.tables = TableFilter::parse(&format!("{}.{table}", db.name), None).unwrap();
        let source = MysqlSource::new(options);
        let found = source.discover().await.unwrap();
        let mut lake = Lake::default();
        for table in &found.captured {
            let columns = table.columns.iter().map(|own| own.name.clone()).collect();
            lake.columns.insert(table.name.table.clone(), columns);
            let rows = server(&mut db, &table.name.table).await;
            lake.tables.insert(table.name.table.clone(), rows);
        }
        let mut tail = Running::start(source).await;
        tail.folded.off = true;
        Self { db, tail, lake }
    }

    async fn compare(&mut self, table: &str) {
        let (_, items) = self.tail.settled().await;
        for item in items {
            self.lake.apply(item, &self.tail.source).await;
        }
        let server = server(&mut self.db, table).await;
        assert!(!self.lake.owed);
        assert_eq!(self.lake.tables[table], server);
    }
}

/// The statements of `mysql.md`'s D1 to D9, each between rows, and all in one stretch of log.
#[tokio::test]
async fn statements_between_rows_are_followed() {
    let _log = LOG.read().await;
    let mut db = Db::new("ddl_rows").await;
    db.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(20));\nINSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')").await;
    let mut run = Run::start(db, "t").await;
    for (statements, changes, reread) in [
        (
            "ALTER TABLE t ADD x INT FIRST;\nINSERT INTO t VALUES (7, 3, 3, 'c');\nALTER TABLE t ADD y INT AFTER x;\nUPDATE t SET y = 5 WHERE id = 1",
            2,
            0,
        ),
        (
            "INSERT INTO t (id) VALUES (4);\nALTER TABLE t RENAME COLUMN v TO v1, RENAME COLUMN w TO v;\nUPDATE t SET v = 'n', v1 = 9 WHERE id = 2",
            1,
            0,
        ),
        (
            "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7;\nINSERT INTO t (id, c) VALUES (5, 8)",
            1,
            1,
        ),
        (
            "ALTER TABLE t MODIFY v1 BIGINT, DROP x;\nINSERT INTO t (id, v1) VALUES (6, 5000000000)",
            1,
            0,
        ),
        (
            "ALTER TABLE t MODIFY c VARCHAR(20);\nUPDATE t SET c = 'text' WHERE id = 5",
            1,
            1,
        ),
        (
            "ALTER TABLE t DROP c, ADD c INT;\nUPDATE t SET c = 1 WHERE id = 5",
            1,
            0,
        ),
        (
            "ALTER TABLE t /*!80000 ADD z INT */, COMMENT 'x', ADD KEY k (v);\nUPDATE t SET z = 2",
            1,
            0,
        ),
        ("TRUNCATE t;\nINSERT INTO t (id) VALUES (1)", 1, 0),
        (
            "CREATE TABLE t_new LIKE t;\nALTER TABLE t_new ADD n INT DEFAULT 3;\nINSERT INTO t_new (id) SELECT id FROM t;\nRENAME TABLE t TO t_old, t_new TO t;\nINSERT INTO t (id) VALUES (2);\nUPDATE t_old SET v = 'no'",
            1,
            1,
        ),
        ("DROP TABLE t_old;\nINSERT INTO t (id) VALUES (3)", 0, 0),
        (
            "DROP TABLE t;\nCREATE TABLE t (id INT PRIMARY KEY, q INT);\nINSERT INTO t VALUES (1, 1)",
            1,
            1,
        ),
        (
            "CREATE TABLE s (id INT PRIMARY KEY, q INT);\nDROP TABLE t;\nCREATE TABLE t (PRIMARY KEY (id)) SELECT 8 AS id, 9 AS q",
            1,
            1,
        ),
    ] {
        run.lake.changes.clear();
        run.db.run(statements).await;
        run.compare("t").await;
        let unknown = run
            .lake
            .changes
            .iter()
            .filter(|change| matches!(change.rows, RowsAfter::Unknown(_)));
        let found = (run.lake.changes.len(), unknown.count());
        assert_eq!(
            found,
            (changes, reread),
            "{statements}: {:?}",
            run.lake.changes
        );
    }
    assert_eq!(run.lake.dropped, ["t", "t"]);
}

/// A statement that the log does not have: the rows behind it do not fit, and the table is asked for.
#[tokio::test]
async fn statements_that_are_not_logged_are_noticed() {
    let _log = LOG.read().await;
    let mut db = Db::new("ddl_silent").await;
    db.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)").await;
    let mut run = Run::start(db, "t").await;
    run.db.run("INSERT INTO t VALUES (1, 1);\nSET SESSION sql_log_bin = 0;\nALTER TABLE t ADD w INT DEFAULT 3;\nSET SESSION sql_log_bin = 1;\nINSERT INTO t VALUES (2, 2, 2)").await;
    run.compare("t").await;
    run.db.run("INSERT INTO t VALUES (3, 3, 3)").await;
    run.compare("t").await;
    assert_eq!(run.lake.changes.len(), 1, "{:?}", run.lake.changes);
}

#[tokio::test]
async fn random_statements_between_random_rows_are_followed() {
    let _log = LOG.read().await;
    let seed = std::env::var("HEADWATER_DDL_SEED").ok();
    let seed: u64 = seed.map_or_else(rand::random, |seed| seed.parse().unwrap());
    println!("HEADWATER_DDL_SEED={seed}");
    let mut random = seed | 1;
    let mut below = move |sides: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % sides
    };
    let mut db = Db::new("ddl_fold").await;
    db.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20));\nSET SESSION sql_mode = ''")
        .await;
    let mut run = Run::start(db, "t").await;
    let rounds = std::env::var("HEADWATER_DDL_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        for _ in 0..25 {
            let names: Vec<String> = run.db.conn.query("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 't' ORDER BY ORDINAL_POSITION").await.unwrap();
            let own = &names[below(names.len() as u64) as usize];
            let new = ["a", "b", "c", "d", "e"][below(5) as usize];
            let place = ["", " FIRST", " AFTER id"][below(3) as usize];
            let kind = [
                "INT",
                "BIGINT",
                "VARCHAR(30)",
                "TEXT",
                "INT NOT NULL DEFAULT 4",
            ][below(5) as usize];
            let id = below(12);
            let sql = match below(24) {
                0..=4 => format!("REPLACE INTO t (id) VALUES ({id})"),
                5..=9 if own != "id" => format!("UPDATE t SET `{own}` = {} WHERE id = {id}", below(100)),
                10..=12 => format!("DELETE FROM t WHERE id = {id}"),
                13..=15 => format!("ALTER TABLE t ADD {new} {kind}{place}"),
                16 if own != "id" => format!("ALTER TABLE t DROP `{own}`"),
                17 if own != "id" => format!("ALTER TABLE t RENAME COLUMN `{own}` TO {new}"),
                18 if own != "id" => format!("ALTER TABLE t CHANGE `{own}` {new} {kind}{place}"),
                19 if own != "id" => format!("ALTER TABLE t MODIFY `{own}` {kind}{place}"),
                20 => "TRUNCATE t".into(),
                21 => "DROP TABLE IF EXISTS n;\nCREATE TABLE n LIKE t;\nINSERT INTO n SELECT * FROM t WHERE id < 6;\nRENAME TABLE t TO o, n TO t;\nDROP TABLE o".into(),
                _ => format!("UPDATE t SET id = id + 20 WHERE id = {id}"),
            };
            for part in sql.split(";\n") {
                // Some are refused: a name that is taken, a text that is no number.
                let _ = run.db.conn.query_drop(part).await;
            }
        }
        run.compare("t").await;
    }
    println!("{} changes", run.lake.changes.len());
}
