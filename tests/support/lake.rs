//! The warehouse of a test, looked at through the files and through the independent readers.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

use super::{
    Database, dump,
    oracle::{self, PythonReader},
};

/// A warehouse in a temporary folder.
#[derive(Debug)]
pub struct Lake {
    folder: tempfile::TempDir,
}

/// A snapshot of a table as its file says.
#[derive(Debug)]
pub struct TableSnapshot {
    pub id: u64,
    pub json: Value,
}

impl TableSnapshot {
    /// A property of the snapshot.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.json["properties"][name].as_str()
    }

    /// The checkpoint that committed it.
    pub fn checkpoint_id(&self) -> Option<u64> {
        self.property("headwater.checkpoint-id")
            .map(|id| id.parse().unwrap())
    }
}

impl Lake {
    pub fn new() -> Self {
        Self {
            folder: tempfile::Builder::new()
                .prefix("headwater-lake-")
                .tempdir()
                .unwrap(),
        }
    }

    /// The test's own folder: the warehouse, job files and logs.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn warehouse(&self) -> String {
        self.folder
            .path()
            .join("warehouse")
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn table_folder(&self, table: &str) -> PathBuf {
        let (database, name) = table.split_once('.').unwrap();
        PathBuf::from(self.warehouse())
            .join(format!("{database}.db"))
            .join(name)
    }

    /// The retained snapshots of `database.table`, oldest first.
    pub fn snapshots(&self, table: &str) -> Vec<TableSnapshot> {
        let Ok(files) = std::fs::read_dir(self.table_folder(table).join("snapshot")) else {
            return Vec::new();
        };
        let mut all: Vec<TableSnapshot> = files
            .filter_map(|file| {
                let path = file.unwrap().path();
                let id = path
                    .file_name()?
                    .to_str()?
                    .strip_prefix("snapshot-")?
                    .parse()
                    .ok()?;
                let json = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
                Some(TableSnapshot { id, json })
            })
            .collect();
        all.sort_by_key(|snapshot| snapshot.id);
        all
    }

    /// The newest schema of `database.table`.
    pub fn schema(&self, table: &str) -> Value {
        let files = std::fs::read_dir(self.table_folder(table).join("schema")).unwrap();
        let number = |file: std::io::Result<std::fs::DirEntry>| {
            let path = file.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_prefix("schema-")?;
            Some((name.parse::<u64>().ok()?, path))
        };
        let newest = files.filter_map(number).max().unwrap();
        serde_json::from_slice(&std::fs::read(newest.1).unwrap()).unwrap()
    }

    /// Names of the tables of a database, sorted.
    pub fn tables(&self, database: &str) -> Vec<String> {
        let folder = PathBuf::from(self.warehouse()).join(format!("{database}.db"));
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The newest snapshot of each checkpoint, by checkpoint id.
    pub fn checkpoints(&self, table: &str) -> BTreeMap<u64, TableSnapshot> {
        self.snapshots(table)
            .into_iter()
            .filter_map(|snapshot| Some((snapshot.checkpoint_id()?, snapshot)))
            .collect()
    }

    /// Canonical lines by Java Paimon; empty while the table does not exist.
    pub fn read(&self, table: &str, snapshot: Option<u64>) -> Vec<String> {
        if self.snapshots(table).is_empty() {
            return Vec::new();
        }
        let warehouse = self.warehouse();
        let number = snapshot.map(|id| id.to_string());
        let mut args = vec![warehouse.as_str(), table];
        if let Some(number) = &number {
            args.extend(["--snapshot", number]);
        }
        let answer = oracle::java("read", &args, "");
        answer.text.lines().map(str::to_owned).collect()
    }

    /// Java Paimon walks the table down to every row.
    pub fn assert_sound(&self, table: &str) {
        let answer = oracle::java("fsck", &[&self.warehouse(), table], "");
        assert!(answer.good, "{table}: {}", answer.text);
    }

    /// All tables of the source against the lake: by Java Paimon, pypaimon and pypaimon-rust, and
    /// the files' soundness. Nothing may be writing.
    pub async fn assert_equal(&self, database: &Database) {
        let mut expected = Vec::new();
        for table in database.tables().await {
            let lines = dump::lines(database, &table).await;
            expected.push((format!("{}.{table}", database.name), lines));
        }
        self.assert_holds(&expected);
    }

    /// As [`Lake::assert_equal`], against given lines of each table.
    pub fn assert_holds(&self, expected: &[(String, Vec<String>)]) {
        for (table, lines) in expected {
            let answer = oracle::java("diff", &[&self.warehouse(), table], &lines.join("\n"));
            assert!(answer.good, "{table}, read by Java Paimon: {}", answer.text);
            self.assert_sound(table);
        }
        let names: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
        for reader in [PythonReader::Pure, PythonReader::Rust] {
            let read = oracle::python(reader, &self.warehouse(), &names);
            for ((table, want), have) in expected.iter().zip(read) {
                let different = want
                    .iter()
                    .zip(&have)
                    .find(|(want, have)| want != have)
                    .map_or_else(String::new, |(want, have)| {
                        format!("; first: want {want}, have {have}")
                    });
                assert!(
                    *want == have,
                    "{table}, read by {reader:?}: {} rows, not {}{different}",
                    have.len(),
                    want.len()
                );
            }
        }
    }
}
