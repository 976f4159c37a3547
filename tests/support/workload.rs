//! A seeded random workload: several sessions change tables with keys of every kind, and move
//! money between two tables in one transaction.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::Duration;

use mysql_async::{Conn, Error, prelude::Queryable};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinHandle;

use super::Database;

/// Tables whose keys are an integer, integer and string, a string that compares without regard to
/// case and accents, and date and decimal; and two accounts tables, whose money moves.
const TABLES: &str = "
CREATE TABLE checking (id INT PRIMARY KEY, money DECIMAL(14,2) NOT NULL, note VARCHAR(60));
CREATE TABLE saving (id INT PRIMARY KEY, money DECIMAL(14,2) NOT NULL, note VARCHAR(60));
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(10,2), state ENUM('new','paid','sent'), \
paid TINYINT(1), at TIMESTAMP(6) NULL, doc JSON, note TEXT);
CREATE TABLE items (order_id INT, sku VARCHAR(20), quantity SMALLINT UNSIGNED, price DOUBLE, weight FLOAT, \
PRIMARY KEY (order_id, sku));
CREATE TABLE tags (name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, uses BIGINT UNSIGNED, \
flags SET('a','b','c'), raw VARBINARY(30));
CREATE TABLE readings (at DATETIME(3), sensor DECIMAL(8,3), value DOUBLE, quality TINYINT, day DATE, \
PRIMARY KEY (at, sensor));
CREATE TABLE sentinel (id INT PRIMARY KEY, n INT NOT NULL);
INSERT INTO sentinel VALUES (1, 0)";

/// The sum of both accounts tables never differs from this times the number of accounts.
pub const MONEY_EACH: u64 = 1000;

/// The tables of a workload, filled; [`Workload::start`] begins to change them.
#[derive(Debug, Clone)]
pub struct Workload {
    database: Database,
    rows: u32,
}

/// Running sessions.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    transactions: Arc<AtomicU64>,
    sessions: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Creates the tables and fills each with `rows` rows (the accounts with a tenth).
    pub async fn create(database: &Database, rows: u32) -> Self {
        database.run(TABLES).await;
        let numbers = format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        );
        let accounts = rows / 10;
        database
            .run(&format!(
                "SET SESSION cte_max_recursion_depth = 10000000;
INSERT INTO checking SELECT i, {MONEY_EACH}, CONCAT('Konto ', i) FROM ({numbers} SELECT i FROM n) x WHERE i <= {accounts};
INSERT INTO saving SELECT id, {MONEY_EACH}, NULL FROM checking;
INSERT INTO orders SELECT i * 3, i % 100, i / 7, 1 + i % 3, i % 2, FROM_UNIXTIME(1700000000 + i + i / 1000000), \
JSON_OBJECT('i', i, 'text', 'a: \"b\", c', 'list', JSON_ARRAY(i % 3 = 0, NULL, i / 2)), \
IF(i % 10 = 0, NULL, CONCAT('order ', i, ' – 注文 🚀')) FROM ({numbers} SELECT i FROM n) x;
INSERT INTO items SELECT i DIV 4, CONCAT('sku-', i % 4, '-', CHAR(65 + i % 26)), i % 60000, i / 3, i / 7 \
FROM ({numbers} SELECT i FROM n) x;
INSERT INTO tags SELECT CONCAT(ELT(1 + i % 4, 'tag ', 'TAG ', 'Täg ', 'мир '), i), i * 1000000007, 1 + i % 7, UNHEX(LEFT(SHA2(i, 256), 20)) \
FROM ({numbers} SELECT i FROM n) x;
INSERT INTO readings SELECT FROM_UNIXTIME(1700000000 + i DIV 3, '%Y-%m-%d %H:%i:%s.250'), (i % 3) + 0.125, i * 1e-3, \
i % 100, DATE_ADD('2020-01-01', INTERVAL i % 2000 DAY) FROM ({numbers} SELECT i FROM n) x"
            ))
            .await;
        Self {
            database: database.clone(),
            rows,
        }
    }

    /// Sessions that change the tables until they are stopped, each resting `pause` between
    /// transactions. The same seed chooses the same statements; how they interleave is the
    /// server's choice.
    pub async fn start(&self, sessions: u64, seed: u64, pause: Duration) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let transactions = Arc::new(AtomicU64::new(0));
        let mut running = Vec::new();
        for session in 0..sessions {
            let mut conn = self.database.connect().await;
            let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(session));
            let (stop, transactions, rows) = (stop.clone(), transactions.clone(), self.rows);
            running.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let mut session = Session {
                        conn: &mut conn,
                        random: &mut random,
                        rows,
                    };
                    match session.transaction().await {
                        Ok(()) => {
                            transactions.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) if is_contention(&error) => {
                            conn.query_drop("ROLLBACK").await.unwrap();
                        }
                        Err(error) => panic!("workload: {error}"),
                    }
                    tokio::time::sleep(pause).await;
                }
            }));
        }
        Running {
            stop,
            transactions,
            sessions: running,
        }
    }

    /// Writes the next number into the table `sentinel` and returns it: once a reader of the lake
    /// sees it, it sees everything that was committed before.
    pub async fn mark(&self) -> u32 {
        let mut conn = self.database.connect().await;
        conn.query_drop("UPDATE sentinel SET n = n + 1")
            .await
            .unwrap();
        conn.query_first("SELECT n FROM sentinel")
            .await
            .unwrap()
            .unwrap()
    }

    /// The lake's name of a table of the workload.
    pub fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.database.name)
    }

    /// What both accounts tables hold together, always, in cents.
    pub fn money_cents(&self) -> u64 {
        u64::from(self.rows / 10) * 2 * MONEY_EACH * 100
    }

    /// Rows of each accounts table, always.
    pub fn accounts(&self) -> usize {
        self.rows as usize / 10
    }
}

impl Running {
    /// Lets every session end its transaction; returns how many were committed or rolled back.
    pub async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for session in self.sessions {
            session.await.unwrap();
        }
        self.transactions.load(Ordering::Relaxed)
    }
}

/// Duplicate key, deadlock, lock wait: what concurrent random sessions do to each other.
fn is_contention(error: &Error) -> bool {
    matches!(error, Error::Server(e) if [1062, 1205, 1213].contains(&e.code))
}

struct Session<'a> {
    conn: &'a mut Conn,
    random: &'a mut StdRng,
    rows: u32,
}

impl Session<'_> {
    async fn transaction(&mut self) -> Result<(), Error> {
        match self.random.random_range(0..10) {
            0..4 => return self.transfer().await,
            4 => return self.statement().await, // autocommit
            _ => {}
        }
        self.conn.query_drop("BEGIN").await?;
        for _ in 0..self.random.random_range(1..8) {
            if self.random.random_ratio(1, 8) {
                self.conn.query_drop("SAVEPOINT here").await?;
                self.statement().await?;
                self.conn.query_drop("ROLLBACK TO SAVEPOINT here").await?;
            } else {
                self.statement().await?;
            }
        }
        let end = if self.random.random_ratio(1, 10) {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        self.conn.query_drop(end).await
    }

    /// Takes money from one table and puts it into the other, both or nothing.
    async fn transfer(&mut self) -> Result<(), Error> {
        let accounts = self.rows / 10;
        let cents = self.random.random_range(1..100_000);
        let (from, to) = if self.random.random() {
            ("checking", "saving")
        } else {
            ("saving", "checking")
        };
        let one = self.random.random_range(1..=accounts);
        let other = self.random.random_range(1..=accounts);
        self.conn.query_drop("BEGIN").await?;
        self.conn
            .query_drop(format!(
                "UPDATE {from} SET money = money - {cents} / 100 WHERE id = {one}"
            ))
            .await?;
        let taken = self.conn.affected_rows();
        self.conn
            .query_drop(format!(
                "UPDATE {to} SET money = money + {cents} / 100 WHERE id = {other}"
            ))
            .await?;
        let given = self.conn.affected_rows();
        assert_eq!((taken, given), (1, 1), "an account is missing");
        self.conn.query_drop("COMMIT").await
    }

    async fn statement(&mut self) -> Result<(), Error> {
        let sql = self.choose();
        self.conn.query_drop(sql).await
    }

    /// One random statement. Keys come from a range little larger than what the tables were
    /// filled with, so that most statements meet a row, and deleted keys come back.
    fn choose(&mut self) -> String {
        let random = &mut *self.random;
        let rows = self.rows;
        let k = random.random_range(1..=rows + rows / 4);
        let v = random.random_range(0..1_000_000_u32);
        let width = random.random_range(1..20);
        match random.random_range(0..19) {
            0 => format!(
                "REPLACE INTO orders VALUES ({k}, {v} % 90, {v} / 100, 1 + {v} % 3, {v} % 2, \
                 FROM_UNIXTIME(1600000000 + {v} + {k} / 1000000), JSON_OBJECT('v', {v}, 'k', '{k}'), 'r {v}')"
            ),
            1 => format!(
                "INSERT INTO orders (id, amount, note) VALUES ({k}, {v} / 100, '🚀{v}') \
                 ON DUPLICATE KEY UPDATE amount = amount + 1, doc = NULL"
            ),
            2 => format!("UPDATE orders SET state = 1 + {v} % 3, at = NULL WHERE id = {k}"),
            3 => {
                format!("UPDATE orders SET amount = {v} / 7 WHERE id BETWEEN {k} AND {k} + {width}")
            }
            4 => format!("DELETE FROM orders WHERE id = {k}"),
            5 => format!("UPDATE orders SET id = {v} % {rows} WHERE id = {k}"), // the key changes
            6 => format!("DELETE FROM orders WHERE id BETWEEN {k} AND {k} + {width}"),
            7 => format!(
                "REPLACE INTO items VALUES ({k} DIV 4, CONCAT('sku-', {v} % 4, '-', CHAR(65 + {v} % 26)), \
                 {v} % 65536, {v} / 9, {v} / 11)"
            ),
            8 => format!("UPDATE items SET price = price * 1.1 WHERE order_id = {k} DIV 4"),
            9 => {
                format!("UPDATE items SET order_id = {v} % {rows} DIV 4 WHERE order_id = {k} DIV 4")
            }
            10 => format!("DELETE FROM items WHERE order_id = {k} DIV 4 LIMIT 2"),
            11 => format!(
                "INSERT INTO tags VALUES (CONCAT('tag ', {k}), {v}, 1 + {v} % 7, UNHEX(LEFT(SHA2({v}, 256), 20))) \
                 ON DUPLICATE KEY UPDATE uses = uses + 1"
            ),
            // The same key to the server, another one to the lake.
            12 => format!("UPDATE tags SET name = UPPER(name) WHERE name = CONCAT('tag ', {k})"),
            13 => format!(
                "UPDATE tags SET name = LOWER(name), uses = {v} WHERE name = CONCAT('tag ', {k})"
            ),
            14 => format!("DELETE FROM tags WHERE name = CONCAT('TÄG ', {k})"),
            15 => format!(
                "REPLACE INTO readings VALUES (FROM_UNIXTIME(1700000000 + {k} DIV 3, '%Y-%m-%d %H:%i:%s.250'), \
                 ({k} % 3) + 0.125, {v} * 1e-4, {v} % 120, NULL)"
            ),
            16 => format!(
                "UPDATE readings SET sensor = sensor + 1, value = -value \
                 WHERE at = FROM_UNIXTIME(1700000000 + {k} DIV 3, '%Y-%m-%d %H:%i:%s.250') ORDER BY sensor DESC"
            ),
            17 => format!(
                "DELETE FROM readings WHERE at = FROM_UNIXTIME(1700000000 + {k} DIV 3, '%Y-%m-%d %H:%i:%s.250')"
            ),
            _ => format!(
                "UPDATE saving SET note = CONCAT('n', {v}) WHERE id = 1 + {k} % ({rows} DIV 10)"
            ),
        }
    }
}
