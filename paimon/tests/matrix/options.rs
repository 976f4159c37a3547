//! Options of writers and compactions, one by one: both engines leave the same rows and say the same
//! of their files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use headwater_paimon::{DataField, DataType, Schema, SnapshotRef};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::support::{
    model::{Change, Column, Definition, Kind, difference},
    oracle::java,
    ours::Ours,
    value::{Type, Value},
};

const DATABASE: &str = "options";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Java,
    Ours,
}

const BOTH: [Engine; 2] = [Engine::Java, Engine::Ours];

/// Tables of one definition.
struct Lake {
    folder: tempfile::TempDir,
    ours: Ours,
    identifier: i64,
}

impl Lake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            ours: Ours::new(folder.path(), DATABASE),
            folder,
            identifier: 0,
        }
    }

    fn java(&self, verb: &str, name: &str, args: &[&str], input: &str) -> String {
        let table = format!("{DATABASE}.{name}");
        let warehouse = self.folder.path().to_str().unwrap();
        let words: Vec<&str> = [warehouse, &table].iter().chain(args).copied().collect();
        java(verb, &words, input).text
    }

    async fn write(&mut self, by: Engine, name: &str, of: &Definition, changes: &[Change]) {
        self.identifier += 1;
        match by {
            Engine::Ours => {
                let written = self.ours.write(name, of, changes, self.identifier);
                written.await.unwrap();
            }
            Engine::Java => {
                let lines: Vec<String> = changes.iter().map(|change| of.change(change)).collect();
                self.java("write", name, &["--write-only"], &lines.join("\n"));
            }
        }
    }

    async fn compact(&mut self, by: Engine, name: &str) {
        self.identifier += 1;
        match by {
            Engine::Ours => {
                let compacted = self.ours.compact(name, true, self.identifier);
                compacted.await.unwrap();
            }
            Engine::Java => drop(self.java("compact", name, &["--full"], "")),
        }
    }

    /// The lines that both read.
    async fn read(&self, name: &str, of: &Definition) -> Vec<String> {
        let text = self.java("read", name, &[], "");
        let theirs: Vec<String> = text.lines().map(str::to_owned).collect();
        let ours = self
            .ours
            .read(name, of, &SnapshotRef::Latest)
            .await
            .unwrap();
        if let Some(found) = difference(&theirs, &ours) {
            panic!("{name}: ours reads other rows than Java: {found}");
        }
        theirs
    }

    fn bucket(&self, name: &str) -> PathBuf {
        let database = self.folder.path().join(format!("{DATABASE}.db"));
        database.join(name).join("bucket-0")
    }
}

fn definition(columns: &[(&str, Type)], options: &[(&str, &str)]) -> Definition {
    let column = |(name, kind): &(&str, Type)| Column {
        name: (*name).to_owned(),
        kind: kind.clone(),
        nullable: *name != "id",
    };
    let mut all = BTreeMap::from([("bucket".to_owned(), "1".to_owned())]);
    let options = options.iter();
    all.extend(options.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Definition {
        columns: columns.iter().map(column).collect(),
        primary_keys: vec!["id".to_owned()],
        partition_keys: Vec::new(),
        options: all,
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[tokio::test]
async fn defaults_stand_in_the_place_of_null() {
    let defaults = [
        ("a", Type::Int, "5"),
        ("s", Type::Text, "'x y'"),
        ("c", Type::VarChar(3), "abcdef"),
        ("d", Type::Decimal(10, 2), "-1.255"),
        ("t", Type::Timestamp(6), "2024-02-29 12:34:56.789"),
        ("e", Type::Date, "1969-12-31"),
        ("b", Type::Boolean, "true"),
        ("f", Type::Double, "1.5"),
    ];
    let mut columns = vec![("id", Type::BigInt)];
    columns.extend(defaults.iter().map(|(name, kind, _)| (*name, kind.clone())));
    let of = definition(&columns, &[]);
    let mut lake = Lake::new();
    let fields = (0..).zip(&of.columns).map(|(id, column)| DataField {
        id,
        name: column.name.clone(),
        data_type: DataType::from_json(&column.kind.json()).unwrap().0,
        nullable: column.nullable,
        description: None,
        default_value: defaults
            .iter()
            .find(|(name, _, _)| *name == column.name)
            .map(|(_, _, text)| (*text).to_owned()),
    });
    let schema = Schema::create(
        fields.collect(),
        of.primary_keys.clone(),
        Vec::new(),
        of.options.clone(),
        None,
    );
    let catalog = headwater_paimon::Catalog::local(lake.folder.path()).unwrap();
    let created = catalog.create_table(DATABASE, "t", schema.unwrap());
    created.await.unwrap();
    let row = |id: i64, a: Value| {
        let nulls = std::iter::repeat_n(Value::Null, defaults.len() - 1);
        let row = [Value::Int(id), a].into_iter().chain(nulls);
        (Kind::Insert, row.collect::<Vec<_>>())
    };
    for (by, first) in [(Engine::Java, 0), (Engine::Ours, 2)] {
        let rows = [row(first, Value::Null), row(first + 1, Value::Int(7))];
        lake.write(by, "t", &of, &rows).await;
    }
    let lines = lake.read("t", &of).await;
    assert_eq!(lines.len(), 4);
    let without_id = |line: &String| line.split_once(',').unwrap().1.to_owned();
    let lines: Vec<String> = lines.iter().map(without_id).collect();
    assert_eq!(lines[..2], lines[2..]);
    assert!(
        lines[0].starts_with(r#""a":5,"s":"x y","c":"abc","d":"-1.26""#),
        "{}",
        lines[0]
    );
}

#[tokio::test]
async fn rows_that_are_too_old_go_with_a_compaction() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let columns = [("id", Type::BigInt), ("t", Type::BigInt), ("v", Type::Int)];
    let options: [&[(&str, &str)]; 5] = [
        &[],
        &[("changelog-producer", "lookup")],
        &[("changelog-producer", "full-compaction")],
        &[("deletion-vectors.enabled", "true")],
        &[
            ("merge-engine", "aggregation"),
            ("fields.v.aggregate-function", "sum"),
        ],
    ];
    for options in options {
        let expiry = [
            ("record-level.expire-time", "1 h"),
            ("record-level.time-field", "t"),
        ];
        let of = definition(&columns, &[options, &expiry].concat());
        let mut lake = Lake::new();
        let row = |id: i64, age: Option<i64>, v: i64| {
            let time = age.map_or(Value::Null, |age| Value::Int(now - age));
            (Kind::Insert, vec![Value::Int(id), time, Value::Int(v)])
        };
        let first = [row(1, Some(0), 1), row(2, Some(9000), 2), row(3, None, 3)];
        // One that is old above one that is not, and the other way round.
        let second = [
            row(1, Some(9000), 4),
            row(2, Some(0), 5),
            row(4, Some(9000), 6),
        ];
        let mut found = Vec::new();
        for by in BOTH {
            let name = format!("{by:?}");
            lake.ours.create(&name, &of).await.unwrap();
            lake.write(Engine::Ours, &name, &of, &first).await;
            lake.compact(by, &name).await;
            lake.write(Engine::Java, &name, &of, &second).await;
            lake.compact(by, &name).await;
            found.push(lake.read(&name, &of).await);
        }
        assert_eq!(found[0], found[1], "{options:?}");
        let ids = found[1].iter().map(|line| &line[..7]).collect::<Vec<_>>();
        assert_eq!(
            ids,
            [r#"{"id":1"#, r#"{"id":2"#, r#"{"id":3"#],
            "{options:?}"
        );
    }
    // A table that gets the option later, of which nothing but the top level is there.
    let of = definition(&columns, &[]);
    let mut lake = Lake::new();
    for by in BOTH {
        let name = format!("{by:?}");
        lake.ours.create(&name, &of).await.unwrap();
        let rows = [(1, now), (2, 5)].map(|(id, time)| {
            (
                Kind::Insert,
                vec![Value::Int(id), Value::Int(time), Value::Null],
            )
        });
        lake.write(Engine::Ours, &name, &of, &rows).await;
        lake.compact(by, &name).await;
        lake.java("alter", &name, &["set", "record-level.time-field", "t"], "");
        lake.java(
            "alter",
            &name,
            &["set", "record-level.expire-time", "1 h"],
            "",
        );
        assert_eq!(lake.read(&name, &of).await.len(), 2);
        lake.compact(by, &name).await;
        assert_eq!(lake.read(&name, &of).await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn kinds_in_a_column_and_kinds_left_out() {
    let columns = [("id", Type::BigInt), ("k", Type::Text), ("v", Type::Int)];
    let kinds = ["+I", "-U", "+U", "+I", "-D", "+I"];
    let ids = [1, 1, 1, 2, 2, 3];
    let changes: Vec<Change> = (0..)
        .zip(kinds.iter().zip(ids))
        .map(|(v, (kind, id))| {
            // The column goes before the kind.
            (
                Kind::Insert,
                vec![Value::Int(id), text(kind), Value::Int(v)],
            )
        })
        .collect();
    let options: [&[(&str, &str)]; 4] = [
        &[],
        &[("ignore-update-before", "true")],
        &[("ignore-delete", "true")],
        &[
            ("sequence.field", "v"),
            ("sequence.field.sort-order", "descending"),
        ],
    ];
    for options in options {
        let usual = [("rowkind.field", "k"), ("changelog-producer", "input")];
        let of = definition(&columns, &[options, &usual].concat());
        let mut lake = Lake::new();
        let mut found = Vec::new();
        for by in BOTH {
            let name = format!("{by:?}");
            lake.ours.create(&name, &of).await.unwrap();
            // Versions of Java before 2 sort what one write holds in ascending order nevertheless.
            let at_a_time = match of.options.contains_key("sequence.field.sort-order") {
                true => 1,
                false => changes.len(),
            };
            for some in changes.chunks(at_a_time) {
                lake.write(by, &name, &of, some).await;
            }
            let rows = lake.read(&name, &of).await;
            found.push((rows, lake.java("stream", &name, &[], "")));
        }
        assert_eq!(found[0], found[1], "{options:?}");
    }
}

/// A file's name without what is random or counted.
fn shape(name: &str) -> String {
    let at = (0..name.len().saturating_sub(36)).find(|at| {
        let part = name.get(*at..at + 36);
        part.is_some_and(|part| {
            let dashes = part.bytes().filter(|byte| *byte == b'-').count();
            dashes == 4
                && part
                    .bytes()
                    .all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
        })
    });
    let at = at.unwrap_or_else(|| panic!("no number of a writer in {name}"));
    let rest = name[at + 37..].trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{}*{rest}", &name[..at])
}

/// The shapes of the names of a folder's files, with how their columns are compressed.
fn files(folder: &Path) -> BTreeSet<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(entry.path()).unwrap());
        let reader = reader.unwrap();
        let codec = reader.metadata().row_group(0).column(0).compression();
        let codec = format!("{codec:?}");
        let codec = codec.split('(').next().unwrap().to_owned();
        (shape(&name), codec)
    };
    let visible = entries.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        !name.to_string_lossy().starts_with('.')
    });
    visible.map(file).collect()
}

#[tokio::test]
async fn files_are_named_compressed_and_described_alike() {
    let columns = [
        ("id", Type::BigInt),
        ("a", Type::Int),
        ("b", Type::Text),
        ("c", Type::Text),
    ];
    let long = "a text of more than sixteen characters";
    let changes: Vec<Change> = (0..20)
        .map(|id| {
            let b = Value::Text(format!("{long} {id}"));
            (
                Kind::Insert,
                vec![Value::Int(id), Value::Int(id % 3), b, text(long)],
            )
        })
        .collect();
    let options: [&[(&str, &str)]; 4] = [
        &[
            ("file.compression.per.level", "0:snappy,5:none"),
            ("metadata.stats-mode.per.level", "0:none,5:full"),
            ("data-file.prefix", "mine-"),
        ],
        &[
            ("changelog-producer", "input"),
            ("changelog-file.compression", "snappy"),
            ("changelog-file.prefix", "changes-"),
            ("changelog-file.stats-mode", "counts"),
            ("file.suffix.include.compression", "true"),
        ],
        &[
            ("metadata.stats-keep-first-n-columns", "2"),
            ("fields.c.stats-mode", "truncate(4)"),
            ("metadata.stats-mode", "full"),
        ],
        &[
            ("metadata.stats-mode", "counts"),
            ("metadata.stats-dense-store", "false"),
            ("fields.b.stats-mode", "none"),
        ],
    ];
    for options in options {
        let of = definition(&columns, options);
        let mut lake = Lake::new();
        let mut found = Vec::new();
        for by in BOTH {
            let name = format!("{by:?}");
            lake.ours.create(&name, &of).await.unwrap();
            let mut said = Vec::new();
            for step in 0..2 {
                match step {
                    0 => lake.write(by, &name, &of, &changes).await,
                    _ => lake.compact(by, &name).await,
                }
                for line in lake.java("files", &name, &["--meta"], "").lines() {
                    let file: serde_json::Value = serde_json::from_str(line).unwrap();
                    let facts =
                        ["level", "rows", "keyStats", "valueStats"].map(|it| file[it].clone());
                    said.push((shape(file["file"].as_str().unwrap()), facts));
                }
            }
            lake.java("fsck", &name, &["--all"], "");
            lake.read(&name, &of).await;
            found.push((said, files(&lake.bucket(&name))));
        }
        assert_eq!(found[0], found[1], "{options:?}");
    }
}
