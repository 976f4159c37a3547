//! The schema that the tail tracks through the log, compared with the server's own after each
//! statement: a corpus of statements as tools and people write them, and random ones.

use std::collections::BTreeMap;

use headwater_connectors::{
    Source, Split, TableName, TailItem,
    change::RowsAfter,
    mysql::{
        MysqlSource, TableFilter, catalog::read_tables, table::MysqlTable, types::TypeOptions,
    },
};
use mysql_async::prelude::Queryable;

use crate::{
    fold::Running,
    server::{Db, LOG},
};

/// What became of the statements.
#[derive(Default, Debug)]
struct Count {
    run: usize,
    refused: Vec<String>,
    kept: usize,
    gone: usize,
    dropped: usize,
    /// Reads of whole tables, by their reasons.
    unknown: BTreeMap<String, usize>,
}

/// A tail, and the tables that it tracks.
struct Tracked {
    db: Db,
    tail: Running,
    types: TypeOptions,
    count: Count,
    /// What was run since the last comparison.
    recent: Vec<String>,
}

impl Tracked {
    async fn start(db: Db) -> Self {
        let mut options = db.options();
        options.types.include_comments = true;
        options.tables = TableFilter::parse(&format!(r"{}.\.*", db.name), None).unwrap();
        let types = options.types.clone();
        let tail = Running::start(MysqlSource::new(options)).await;
        Self {
            db,
            tail,
            types,
            count: Count::default(),
            recent: Vec::new(),
        }
    }

    /// Runs a statement; `false` when the server refuses it.
    async fn run(&mut self, sql: &str) -> bool {
        match self.db.conn.query_drop(sql).await {
            Ok(()) => {
                self.count.run += 1;
                self.recent.push(sql.to_owned());
                true
            }
            Err(error) => {
                self.count.refused.push(format!("{sql}: {error}"));
                false
            }
        }
    }

    /// Lets the tail come to the end of the log and compares every table that is there.
    async fn compare(&mut self) -> Vec<MysqlTable> {
        let (state, items) = self.tail.settled().await;
        for item in items {
            match item {
                TailItem::Schema(change) => match change.rows {
                    RowsAfter::Kept => self.count.kept += 1,
                    RowsAfter::Gone => self.count.gone += 1,
                    RowsAfter::Unknown(reason) => {
                        *self.count.unknown.entry(reason).or_default() += 1;
                    }
                },
                TailItem::Dropped(_) => self.count.dropped += 1,
                _ => {}
            }
        }
        let tracked: Vec<MysqlTable> =
            serde_json::from_value(state.connector["tables"].clone()).unwrap();
        let dark = &state.connector["dark"];
        let names: Vec<TableName> = tracked.iter().map(|table| table.name.clone()).collect();
        let server = read_tables(&mut self.db.conn, &names, &self.types)
            .await
            .unwrap();
        let mut present = Vec::new();
        for table in tracked {
            let there = server.iter().find(|own| own.name == table.name);
            let is_dark = dark.get(table.name.to_string()).is_some();
            assert_eq!(
                is_dark,
                there.is_none(),
                "{}: {:?}",
                table.name,
                self.recent
            );
            let Some(there) = there else { continue };
            let mut there = there.clone();
            there.version = table.version;
            let by_index = state.connector["key_indexes"].get(table.name.to_string());
            if by_index.is_some() {
                // The catalog knows primary keys only.
                there.primary_key.clone_from(&table.primary_key);
            }
            assert_eq!(table.primary_key, there.primary_key, "{:#?}", self.recent);
            for (ours, theirs) in table.columns.iter().zip(&there.columns) {
                assert_eq!(ours, theirs, "{}: {:#?}", table.name, self.recent);
            }
            assert_eq!(table, there, "{:#?}", self.recent);
            present.push(table);
        }
        self.recent.clear();
        present
    }

    /// Reads tables whose schema is the server's: a reader must not take them for others.
    async fn read(&self, tables: &[MysqlTable]) {
        let mut reader = self.tail.source.reader().await.unwrap();
        for table in tables {
            let split = Split {
                table: table.name.clone(),
                id: 0,
                after: None,
                upto: None,
            };
            let (out, _batches) = tokio::sync::mpsc::channel(8);
            let read = reader.read(&table.to_schema(), &split, &out).await;
            read.unwrap_or_else(|error| panic!("{}: {error}", table.name));
        }
    }

    fn report(&self) {
        println!("{} statements: {:#?}", self.count.run, self.count);
    }
}

/// Statements as frameworks, tools and people write them, see the file's head.
#[tokio::test]
async fn the_corpus_is_tracked() {
    let _log = LOG.read().await;
    let corpus = include_str!("ddl_corpus.sql");
    let (before, after) = corpus.split_once("-- The job starts here.\n").unwrap();
    let statements = |text: &'static str| {
        let lines = text.lines().filter(|line| !line.starts_with("-- "));
        lines.map(str::trim).filter(|line| !line.is_empty())
    };
    let mut db = Db::new("ddl_corpus").await;
    for statement in statements(before) {
        db.run(statement).await;
    }
    let mut tracked = Tracked::start(db).await;
    let mut tables = Vec::new();
    for statement in statements(after) {
        let statement = statement.trim_end_matches(';');
        tracked.run(statement).await;
        tables = tracked.compare().await;
    }
    // Without its file it cannot be read.
    tables.retain(|table| table.name.table != "hist");
    tracked.read(&tables).await;
    tracked.report();
    let refused = tracked.count.refused.len();
    assert!(refused * 20 <= tracked.count.run, "{refused} are refused");
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }
}

const TYPES: [&str; 62] = [
    "TINYINT",
    "TINYINT(1)",
    "BOOL",
    "TINYINT UNSIGNED",
    "SMALLINT",
    "SMALLINT(5) ZEROFILL",
    "MEDIUMINT",
    "MEDIUMINT UNSIGNED",
    "INT",
    "INT(11)",
    "INTEGER UNSIGNED",
    "INT ZEROFILL",
    "BIGINT",
    "BIGINT UNSIGNED",
    "INT8",
    "FLOAT",
    "FLOAT(20)",
    "FLOAT(30)",
    "FLOAT(7,2)",
    "DOUBLE",
    "DOUBLE PRECISION",
    "REAL",
    "DOUBLE(10,3) UNSIGNED",
    "DECIMAL",
    "DECIMAL(20)",
    "NUMERIC(10,2)",
    "DEC(40,10)",
    "FIXED(5,5) UNSIGNED",
    "BIT",
    "BIT(10)",
    "CHAR",
    "CHAR(20)",
    "CHARACTER(3)",
    "VARCHAR(10)",
    "VARCHAR(300)",
    "CHARACTER VARYING(5)",
    "NVARCHAR(7)",
    "NATIONAL CHAR(4)",
    "TINYTEXT",
    "TEXT",
    "TEXT(100)",
    "TEXT(60000)",
    "MEDIUMTEXT",
    "LONGTEXT",
    "LONG VARCHAR",
    "BINARY(8)",
    "VARBINARY(99)",
    "CHAR(5) BYTE",
    "TINYBLOB",
    "BLOB",
    "BLOB(300)",
    "LONGBLOB",
    "DATE",
    "TIME",
    "TIME(2)",
    "DATETIME",
    "DATETIME(6)",
    "TIMESTAMP NULL",
    "TIMESTAMP(3) NULL",
    "YEAR(4)",
    "JSON",
    "GEOMETRY",
];
const LABELS: [&str; 5] = [
    "'a','b'",
    "'a','b','c'",
    "'x y','it''s',''",
    "'b','a'",
    "'é ','ß','c,d'",
];
const TEXTS: [&str; 9] = [
    "",
    " CHARACTER SET latin1",
    " CHARSET utf8mb4",
    " COLLATE utf8mb4_bin",
    " BINARY",
    " CHARACTER SET gbk COLLATE gbk_bin",
    " ASCII",
    " CHARACTER SET binary",
    " CHARACTER SET utf8mb3",
];

fn definition(dice: &mut Dice) -> String {
    let mut text = match dice.below(12) {
        0 => format!("ENUM({})", dice.pick(&LABELS)),
        1 => format!("SET({})", dice.pick(&LABELS)),
        _ => dice.pick(&TYPES).to_owned(),
    };
    let is_text = ["CHAR", "TEXT", "ENUM", "SET", "VARY"]
        .iter()
        .any(|word| text.contains(word));
    if is_text && !text.contains("BYTE") && !text.starts_with('N') && dice.one_in(2) {
        text.push_str(dice.pick(&TEXTS));
    }
    if dice.one_in(4) && !text.contains("NULL") {
        text.push_str(dice.pick(&[" NOT NULL", " NULL", " DEFAULT NULL", " NOT NULL"]));
    }
    if dice.one_in(5) {
        text.push_str(dice.pick(&[" COMMENT 'a'", " COMMENT 'it''s, so;'", r#" COMMENT "q\\""#]));
    }
    if dice.one_in(12) {
        text.push_str(" INVISIBLE");
    }
    text
}

fn place(dice: &mut Dice, names: &[String]) -> String {
    match dice.below(4) {
        0 => " FIRST".into(),
        1 => format!(" AFTER `{}`", names[dice.below(names.len())]),
        _ => String::new(),
    }
}

/// Names for new columns.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e f", "select", "Grün", "h`h", "j"];

fn clause(dice: &mut Dice, names: &[String]) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    // The first is the key.
    let own = names[1 + dice.below(names.len() - 1)].clone();
    let own = quoted(&own);
    let new = quoted(NAMES[dice.below(NAMES.len())]);
    let place = place(dice, names);
    match dice.below(24) {
        0..=3 => format!("ADD {new} {}{place}", definition(dice)),
        4 => format!("ADD COLUMN {new} INT AS (id + 1) STORED{place}"),
        5 => format!("ADD COLUMN {new} INT GENERATED ALWAYS AS (id * 2){place}"),
        6 => format!("ADD ({new} {}, KEY (id))", definition(dice)),
        7..=8 => format!("DROP {own}"),
        9 => format!("DROP COLUMN {own}"),
        10..=12 => format!("MODIFY {own} {}{place}", definition(dice)),
        13..=14 => format!("CHANGE {own} {new} {}{place}", definition(dice)),
        15..=16 => format!("RENAME COLUMN {own} TO {new}"),
        17 => format!(
            "ALTER COLUMN {own} SET {}",
            dice.pick(&["VISIBLE", "INVISIBLE"])
        ),
        18 => format!("ALTER {own} DROP DEFAULT"),
        19 => format!("COMMENT = '{}'", dice.pick(&["", "x", "it''s"])),
        20 => dice
            .pick(&[
                "DEFAULT CHARSET latin1",
                "CHARACTER SET = utf8mb4",
                "COLLATE utf8mb4_bin",
                "DEFAULT COLLATE = gbk_chinese_ci",
            ])
            .into(),
        21 => dice
            .pick(&[
                "ENGINE=InnoDB",
                "FORCE",
                "ROW_FORMAT = DYNAMIC",
                "ALGORITHM=COPY",
            ])
            .into(),
        22 => format!(
            "MODIFY id {}{place}",
            dice.pick(&["INT", "BIGINT", "BIGINT AUTO_INCREMENT", "INT UNSIGNED"])
        ),
        _ => dice
            .pick(&[
                "ADD INDEX (id)",
                "CONVERT TO CHARACTER SET utf8mb4",
                "DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
            ])
            .into(),
    }
}

/// One statement, or several that belong together.
fn statements(dice: &mut Dice, table: &MysqlTable) -> Vec<String> {
    let name = &table.name.table;
    let names: Vec<String> = {
        let mut key_first = table.columns.iter().collect::<Vec<_>>();
        key_first.sort_by_key(|column| column.name != "id");
        key_first.iter().map(|column| column.name.clone()).collect()
    };
    if names.len() < 2 {
        return vec![format!("ALTER TABLE {name} ADD z INT")];
    }
    let gone = format!("gone_{}", dice.below(1_000_000));
    match dice.below(30) {
        0 => vec![format!("TRUNCATE TABLE {name}")],
        1 => vec![
            format!("CREATE TABLE _{name}_gho LIKE {name}"),
            format!("ALTER TABLE _{name}_gho ADD {} INT", NAMES[dice.below(4)]),
            format!("RENAME TABLE {name} TO {gone}, _{name}_gho TO {name}"),
            format!("DROP TABLE {gone}"),
        ],
        2 => vec![
            format!("ALTER TABLE {name} RENAME TO {gone}"),
            format!("ALTER TABLE {gone} ADD s INT"),
            format!("RENAME TABLE {gone} TO {name}"),
        ],
        3 => vec![
            format!("DROP TABLE {name}"),
            format!(
                "CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b {})",
                definition(dice)
            ),
        ],
        4 => vec![format!("CREATE INDEX i{} ON {name} (id)", dice.below(1000))],
        5 => vec!["RENAME TABLE r0 TO aside, r1 TO r0, aside TO r1".into()],
        _ => {
            let clauses = 1 + dice.below(4);
            let clauses: Vec<String> = (0..clauses).map(|_| clause(dice, &names)).collect();
            let text = clauses.join(", ");
            vec![match dice.below(8) {
                0 => format!("ALTER TABLE `{name}` /*!50000 {text} */"),
                1 => format!("/* x */ alter table {name}\n {text} -- y"),
                _ => format!("ALTER TABLE {name} {text}"),
            }]
        }
    }
}

/// `HEADWATER_DDL_STATEMENTS` and `HEADWATER_DDL_SEED` say how many and which.
#[tokio::test]
async fn random_statements_are_tracked() {
    let _log = LOG.read().await;
    let number = |name: &str, default: u64| {
        let value = std::env::var(name).ok();
        value.map_or(default, |value| value.parse().unwrap())
    };
    let wanted = number("HEADWATER_DDL_STATEMENTS", 60) as usize;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("HEADWATER_DDL_SEED", now.unwrap().as_micros() as u64);
    println!("HEADWATER_DDL_SEED={seed}");
    let mut dice = Dice(seed | 1);
    let mut db = Db::new("ddl_random").await;
    for table in 0..4 {
        let first = definition(&mut dice);
        let sql = format!("CREATE TABLE r{table} (id INT PRIMARY KEY, a {first}, b INT)");
        db.run(&sql).await;
    }
    let mut tracked = Tracked::start(db).await;
    let mut tables = tracked.compare().await;
    while tracked.count.run < wanted {
        let mode = dice.pick(&[
            "STRICT_TRANS_TABLES",
            "STRICT_TRANS_TABLES",
            "",
            "REAL_AS_FLOAT",
            "NO_BACKSLASH_ESCAPES",
        ]);
        let set = format!("SET SESSION sql_mode = '{mode}'");
        tracked.db.conn.query_drop(set).await.unwrap();
        let table = tables[dice.below(tables.len())].clone();
        for sql in statements(&mut dice, &table) {
            if !tracked.run(&sql).await {
                break;
            }
        }
        tables = tracked.compare().await;
        if dice.one_in(10) {
            tracked.read(&tables).await;
        }
        if tables.len() < 4 {
            // A statement of several was refused: the table comes back.
            for table in 0..4 {
                let sql =
                    format!("CREATE TABLE IF NOT EXISTS r{table} (id INT PRIMARY KEY, z INT)");
                tracked.run(&sql).await;
            }
            tables = tracked.compare().await;
        }
    }
    let refused = tracked.count.refused.len();
    tracked.count.refused.truncate(5);
    tracked.report();
    println!("{refused} refused");
}
