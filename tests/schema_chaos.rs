//! Random DDL between random DML, while the process is killed: in the end every table of the lake has
//! the rows of its source.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::support::{Database, Headwater, JobFile, Lake, Server, env_number, values::difference};

/// Tables of one run.
const TABLES: usize = 3;
/// Definitions of columns; those with a default give old rows a value.
const DEFINITIONS: [&str; 12] = [
    "INT",
    "BIGINT NOT NULL",
    "INT NOT NULL DEFAULT 7",
    "VARCHAR(20)",
    "VARCHAR(60) DEFAULT 'none'",
    "DECIMAL(12,3)",
    "DATETIME(3)",
    "ENUM('x','y','z') DEFAULT 'y'",
    "SMALLINT UNSIGNED",
    "TEXT",
    "DATE",
    "DOUBLE",
];

/// A table as this test has made it.
struct Table {
    name: String,
    /// Names, each with its definition.
    columns: Columns,
    next: usize,
    /// Everything is followed; else what would leave old rows in the lake is left out.
    evolves: bool,
}

type Columns = Vec<(String, &'static str)>;

impl Table {
    fn column(&self, random: &mut StdRng) -> Option<String> {
        self.columns.choose(random).map(|(name, _)| name.clone())
    }

    fn place(&self, random: &mut StdRng) -> String {
        match (random.random_range(0..3), self.column(random)) {
            (0, _) => " FIRST".into(),
            (1, Some(column)) => format!(" AFTER {column}"),
            _ => String::new(),
        }
    }

    /// A statement that changes the table, and what it does to the list of columns when it works.
    fn statement(&mut self, random: &mut StdRng) -> (String, Columns) {
        let name = self.name.clone();
        let mut columns = self.columns.clone();
        let definition = *DEFINITIONS.choose(random).unwrap();
        let fresh = format!("c{}", self.next);
        self.next += 1;
        let column = self.columns.choose(random).cloned();
        let statement = match (random.random_range(0..14), column) {
            (0..=3, _) | (_, None) => {
                let place = self.place(random);
                columns.push((fresh.clone(), definition));
                format!("ALTER TABLE {name} ADD COLUMN {fresh} {definition}{place}")
            }
            (4 | 5, Some((column, _))) => {
                columns.retain(|own| own.0 != column);
                format!("ALTER TABLE {name} DROP COLUMN {column}")
            }
            (6, Some((column, old))) => {
                columns.retain(|own| own.0 != column);
                columns.push((fresh.clone(), old));
                format!("ALTER TABLE {name} RENAME COLUMN {column} TO {fresh}")
            }
            // The same name, another column.
            (7, Some((column, _))) => {
                columns.retain(|own| own.0 != column);
                columns.push((column.clone(), definition));
                format!("ALTER TABLE {name} DROP COLUMN {column}, ADD COLUMN {column} {definition}")
            }
            // Under `evolve` another type may be one that the job has to refuse.
            (8, Some((column, old))) => {
                let place = self.place(random);
                let to = if self.evolves { old } else { definition };
                columns.retain(|own| own.0 != column);
                columns.push((column.clone(), to));
                format!("ALTER TABLE {name} MODIFY {column} {to}{place}")
            }
            (9, _) if self.evolves => format!("TRUNCATE TABLE {name}"),
            (10, _) => format!(
                "ALTER TABLE {name} ADD INDEX i{fresh} (id), COMMENT 'changed', ENGINE=InnoDB"
            ),
            (11, _) => format!(
                "DROP TABLE IF EXISTS {name}_next, {name}_last;\nCREATE TABLE {name}_next LIKE {name};\n\
                 INSERT INTO {name}_next SELECT * FROM {name} WHERE id % 3 > 0;\n\
                 RENAME TABLE {name} TO {name}_last, {name}_next TO {name}"
            ),
            (12, _) if self.evolves => {
                columns = vec![("v".into(), "VARCHAR(30)")];
                format!(
                    "DROP TABLE {name};\nCREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(30))"
                )
            }
            (_, Some((column, _))) => {
                format!("ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT NULL")
            }
        };
        (statement, columns)
    }
}

async fn change_rows(conn: &mut mysql_async::Conn, table: &Table, random: &mut StdRng) {
    for _ in 0..random.random_range(1..6) {
        let (name, id) = (&table.name, random.random_range(1..200));
        let statement = match (random.random_range(0..4), table.column(random)) {
            (0, _) => format!("DELETE FROM {name} WHERE id = {id}"),
            (1, Some(column)) => {
                format!(
                    "UPDATE IGNORE {name} SET {column} = {} WHERE id = {id}",
                    id % 100
                )
            }
            (2, _) => format!("UPDATE IGNORE {name} SET id = id + 1000 WHERE id = {id}"),
            _ => format!("INSERT IGNORE INTO {name} (id) VALUES ({id}), ({})", id + 1),
        };
        conn.query_drop(statement).await.unwrap();
    }
}

/// One run with a seed.
async fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (server, lake) = (Server::shared(), Lake::new());
    let database = server.database("ddlchaos").await;
    let evolves = seed.is_multiple_of(2);
    let mut tables = Vec::new();
    for number in 0..TABLES {
        let name = format!("t{number}");
        database
            .run(&format!(
                "CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(30));\n\
                 INSERT INTO {name} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                 WHERE i < 150) SELECT i, CONCAT('v', i) FROM n"
            ))
            .await;
        tables.push(Table {
            name,
            columns: vec![("v".into(), "VARCHAR(30)")],
            next: 0,
            evolves,
        });
    }
    let names: Vec<String> = (0..TABLES)
        .map(|n| format!("{}.t{n}", database.name))
        .collect();
    let job = JobFile::new(server, &database, &lake)
        .source("tables", &names.join(","))
        .source("scan.incremental.snapshot.chunk.size", "20")
        .pipeline(
            "schema.change.behavior",
            if evolves { "evolve" } else { "lenient" },
        );
    let mut process = Headwater::run(&job, &lake);
    let mut conn = database.connect().await;
    conn.query_drop("SET SESSION sql_mode = ''").await.unwrap();
    for _ in 0..random.random_range(15..40) {
        let at = random.random_range(0..TABLES);
        let table = &mut tables[at];
        change_rows(&mut conn, table, &mut random).await;
        if random.random_bool(0.5) {
            let (statement, columns) = table.statement(&mut random);
            let mut worked = true;
            for one in statement.split(";\n") {
                worked &= conn.query_drop(one).await.is_ok();
            }
            if worked {
                table.columns = columns;
            }
        }
        change_rows(&mut conn, table, &mut random).await;
        if random.random_bool(0.15) {
            assert!(process.is_running(), "seed {seed}:\n{}", process.output());
            process.kill9();
            process = Headwater::run(&job, &lake);
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
    }
    for table in &tables {
        equal(seed, &lake, &database, &table.name, &mut process).await;
    }
    process.stop().await;
    for table in &names {
        lake.assert_sound(table);
    }
}

async fn equal(seed: u64, lake: &Lake, database: &Database, table: &str, process: &mut Headwater) {
    let mut last = None;
    for _ in 0..200 {
        assert!(process.is_running(), "seed {seed}:\n{}", process.output());
        last = difference(lake, database, table).await;
        if last.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    panic!("seed {seed}: {last:?}\n{}", process.output());
}

/// `DDL_RUNS` runs (default 5) from `SEED` on.
#[tokio::test(flavor = "multi_thread")]
async fn tables_equal_the_source_after_random_ddl() {
    let (runs, seed) = (env_number("DDL_RUNS", 5), env_number("SEED", 1));
    for seed in seed..seed + runs {
        eprintln!("seed {seed}");
        run(seed).await;
    }
}
