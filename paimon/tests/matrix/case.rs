//! Cases: one value of each dimension. Every pair of values that fit together occurs in some case.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use roaring::RoaringBitmap;

use crate::support::{
    model::{Alter, Column, Definition, Merging},
    value::{Type, Value},
};

const DIMENSIONS: [(&str, &[&str]); 10] = [
    ("table", &["keyed", "dynamic", "append", "append-fixed"]),
    ("partitions", &["none", "one", "two"]),
    (
        "engine",
        &[
            "deduplicate",
            "first-row",
            "partial-update",
            "aggregation",
            // Aggregation of collections and bitmaps.
            "tables",
        ],
    ),
    ("changelog", &["none", "input", "lookup", "full-compaction"]),
    ("vectors", &["off", "32", "64"]),
    (
        "history",
        &["none", "added", "dropped", "renamed", "widened", "mixed"],
    ),
    ("key", &["bigint", "string", "composite", "exotic"]),
    ("values", &["plain", "wide", "nested"]),
    ("creator", &["java", "ours"]),
    ("files", &["parquet", "avro", "levels"]),
];

/// A place in the matrix; each number is a position in that dimension's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case([usize; DIMENSIONS.len()]);

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, values)) in DIMENSIONS.iter().enumerate() {
            let blank = if at > 0 { " " } else { "" };
            write!(f, "{blank}{name}={}", values[self.0[at]])?;
        }
        Ok(())
    }
}

impl Case {
    pub fn of(&self, dimension: &str) -> &'static str {
        let find = |(name, _): &(&str, &[&str])| *name == dimension;
        let at = DIMENSIONS.iter().position(find).unwrap();
        DIMENSIONS[at].1[self.0[at]]
    }

    fn random(rng: &mut StdRng) -> Self {
        loop {
            let case = Self(std::array::from_fn(|at| {
                rng.random_range(0..DIMENSIONS[at].1.len())
            }));
            if case.is_valid() {
                return case;
            }
        }
    }

    pub fn has_key(&self) -> bool {
        !self.of("table").starts_with("append")
    }

    pub fn has_fixed_buckets(&self) -> bool {
        matches!(self.of("table"), "keyed" | "append-fixed")
    }

    /// What Java accepts.
    fn is_valid(&self) -> bool {
        let [engine, changelog, vectors] =
            ["engine", "changelog", "vectors"].map(|name| self.of(name));
        if !self.has_key() {
            return engine == "deduplicate" && changelog == "none" && vectors == "off";
        }
        let first_row =
            engine != "first-row" || vectors == "off" && ["none", "lookup"].contains(&changelog);
        first_row && (vectors == "off" || changelog != "full-compaction")
    }

    /// New rows may be invisible until someone compacts.
    pub fn is_lazy(&self) -> bool {
        self.of("vectors") != "off" || self.of("engine") == "first-row"
    }

    /// Writers look up what was there before.
    pub fn looks_up(&self) -> bool {
        self.is_lazy() || self.of("changelog") == "lookup"
    }

    pub fn takes_deletes(&self) -> bool {
        self.has_key() && ["deduplicate", "tables"].contains(&self.of("engine"))
    }

    /// Columns whose elements come in any order.
    pub fn unordered(&self) -> &'static [&'static str] {
        match self.of("engine") {
            "tables" => &["y0", "y2"],
            _ => &[],
        }
    }

    /// How rows of one key merge, where a map says it.
    pub fn merging(&self) -> Option<Merging> {
        match self.of("engine") {
            _ if !self.has_key() => Some(Merging::Append),
            "deduplicate" => Some(Merging::Deduplicate),
            "first-row" => Some(Merging::FirstRow),
            _ => None,
        }
    }

    pub fn definition(&self) -> Definition {
        let column = |name: &str, kind, nullable| Column {
            name: name.to_owned(),
            kind,
            nullable,
        };
        let partitions: &[(&str, Type)] = match self.of("partitions") {
            "one" => &[("p", Type::Text)],
            "two" => &[("p", Type::Text), ("q", Type::Int)],
            _ => &[],
        };
        let keys: &[(&str, Type)] = match self.of("key") {
            "bigint" => &[("k", Type::BigInt)],
            "string" => &[("k", Type::Text)],
            "composite" => &[("k", Type::Int), ("l", Type::VarChar(20))],
            _ => &[
                ("k", Type::Date),
                ("l", Type::Decimal(20, 2)),
                ("m", Type::Timestamp(6)),
            ],
        };
        let has_key = self.has_key();
        let mut columns = vec![column("a", Type::Int, true)];
        let fixed = partitions.iter().chain(keys);
        columns.extend(
            fixed
                .clone()
                .map(|(name, kind)| column(name, kind.clone(), !has_key)),
        );
        columns.push(column("s", Type::VarChar(10), true));
        columns.push(column("d", Type::Decimal(10, 2), true));
        columns.push(column("f", Type::Float, true));
        let more = match self.of("values") {
            "wide" if self.of("files") != "parquet" => {
                // Java's Avro has no more digits.
                let mut wide = wide();
                wide.retain(|kind| *kind != Type::Timestamp(9));
                wide
            }
            "wide" => wide(),
            "nested" => nested(),
            _ => Vec::new(),
        };
        columns.extend(
            (0..)
                .zip(more)
                .map(|(at, kind)| column(&format!("x{at}"), kind, true)),
        );
        if self.of("engine") == "tables" {
            let tables = (0..).zip(tables());
            columns.extend(tables.map(|(at, (kind, _))| column(&format!("y{at}"), kind, true)));
        }
        let names = |fields: &[(&str, Type)]| -> Vec<String> {
            fields.iter().map(|(name, _)| (*name).to_owned()).collect()
        };
        let primary_keys = match has_key {
            true => [names(partitions), names(keys)].concat(),
            false => Vec::new(),
        };
        Definition {
            columns,
            primary_keys,
            partition_keys: names(partitions),
            options: self.options(),
        }
    }

    fn options(&self) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut set = |name: &str, value: &str| {
            options.insert(name.to_owned(), value.to_owned());
        };
        match self.of("table") {
            "keyed" => set("bucket", "2"),
            "dynamic" => {
                set("bucket", "-1");
                set("dynamic-bucket.target-row-num", "5");
            }
            "append-fixed" => {
                set("bucket", "2");
                set("bucket-key", "k");
            }
            _ => set("bucket", "-1"),
        }
        if self.has_key() {
            set(
                "merge-engine",
                match self.of("engine") {
                    "tables" => "aggregation",
                    engine => engine,
                },
            );
            set("changelog-producer", self.of("changelog"));
            // Compactions that are not full happen in a few commits too.
            set("num-sorted-run.compaction-trigger", "3");
        }
        if self.of("vectors") != "off" {
            set("deletion-vectors.enabled", "true");
            set(
                "deletion-vectors.bitmap64",
                if self.of("vectors") == "64" {
                    "true"
                } else {
                    "false"
                },
            );
        }
        // This crate reads such files; what it writes is Parquet.
        match self.of("files") {
            "avro" => set("file.format", "avro"),
            "levels" => set("file.format.per.level", "0:avro,5:parquet"),
            _ => {}
        }
        if self.of("engine") == "aggregation" {
            set("fields.a.aggregate-function", "sum");
            set("fields.d.aggregate-function", "max");
        }
        if self.of("engine") == "tables" {
            set("fields.a.aggregate-function", "sum");
            for (at, (_, function)) in tables().into_iter().enumerate() {
                set(&format!("fields.y{at}.aggregate-function"), function);
                let takes_back = ["nested_update", "collect", "merge_map"].contains(&function);
                if !takes_back {
                    set(&format!("fields.y{at}.ignore-retract"), "true");
                }
            }
            set("fields.y0.nested-key", "k");
            set("fields.y2.nested-key", "k");
        }
        options
    }

    /// The changes of the schema, one after the other.
    pub fn history(&self) -> Vec<Alter> {
        let added = Alter::Add("n".into(), Type::Text);
        let dropped = Alter::Drop("f".into());
        let renamed = Alter::Rename("s".into(), "t".into());
        let widened = Alter::Widen("a".into(), Type::BigInt);
        match self.of("history") {
            "added" => vec![added, Alter::Add("n2".into(), Type::Timestamp(3))],
            // A column of the same name is another column.
            "dropped" => vec![dropped, Alter::Add("f".into(), Type::Float)],
            "renamed" => vec![renamed],
            "widened" => vec![
                widened,
                Alter::Widen("s".into(), Type::Text),
                Alter::Widen("d".into(), Type::Decimal(18, 2)),
                Alter::Widen("f".into(), Type::Double),
            ],
            "mixed" => vec![
                added,
                widened,
                renamed,
                dropped,
                Alter::Rename("d".into(), "f".into()),
            ],
            _ => Vec::new(),
        }
    }
}

fn wide() -> Vec<Type> {
    vec![
        Type::Boolean,
        Type::TinyInt,
        Type::SmallInt,
        Type::BigInt,
        Type::Double,
        Type::Decimal(38, 6),
        Type::Text,
        Type::Bytes,
        Type::Date,
        Type::Time(3),
        Type::Timestamp(0),
        Type::Timestamp(6),
        Type::Timestamp(9),
        Type::TimestampLtz(3),
        Type::TimestampLtz(6),
        Type::Array(Box::new(Type::Int)),
    ]
}

fn nested() -> Vec<Type> {
    let row = Type::Row(vec![("x", Type::Int), ("y", Type::Decimal(10, 2))]);
    vec![
        Type::Array(Box::new(Type::Text)),
        Type::Map(Box::new(Type::Text), Box::new(Type::Int)),
        Type::Map(Box::new(Type::Int), Box::new(Type::Text)),
        row.clone(),
        Type::Array(Box::new(row)),
    ]
}

/// Columns of collections and bitmaps, with their functions.
fn tables() -> [(Type, &'static str); 8] {
    let rows = || {
        let row = Type::Row(vec![("k", Type::Int), ("v", Type::Text)]);
        Type::Array(Box::new(row))
    };
    let timed = Type::Row(vec![("v", Type::Int), ("t", Type::Text)]);
    [
        (rows(), "nested_update"),
        (rows(), "nested_update"),
        (rows(), "nested_partial_update"),
        (
            Type::Map(Box::new(Type::Text), Box::new(timed)),
            "merge_map_with_keytime",
        ),
        (Type::Bytes, "rbm32"),
        (Type::Bytes, "rbm64"),
        (Type::Array(Box::new(Type::Int)), "collect"),
        (
            Type::Map(Box::new(Type::Text), Box::new(Type::Int)),
            "merge_map",
        ),
    ]
}

/// A value of one of the columns of [`tables`] that needs one of a certain form.
pub fn table_value(name: &str, rng: &mut StdRng) -> Option<Value> {
    let row = |key: i64, rng: &mut StdRng| {
        let text = Value::maybe(&Type::Text, rng);
        Value::Row(vec![Value::Int(key), text])
    };
    Some(match name {
        "y0" | "y1" | "y2" => {
            // No key twice: versions of Java differ in that.
            let keys = (0..5).filter(|_| rng.random_bool(0.4)).collect::<Vec<_>>();
            Value::List(keys.into_iter().map(|key| row(key, rng)).collect())
        }
        "y3" => {
            let keys = (0..4).filter(|_| rng.random_bool(0.5)).collect::<Vec<_>>();
            let entry = |at| {
                let times = ["2024-01-01", "2024-01-02", "2025", "é"];
                let time = match rng.random_range(0..5) {
                    4 => Value::Null,
                    time => Value::Text(times[time].into()),
                };
                let value = match rng.random_bool(0.2) {
                    true => Value::Null,
                    false => Value::Row(vec![Value::maybe(&Type::Int, rng), time]),
                };
                (Value::Text(format!("k{at}")), value)
            };
            Value::Map(keys.into_iter().map(entry).collect())
        }
        "y4" => {
            let count = rng.random_range(0..6);
            let mut numbers: RoaringBitmap = (0..count).map(|_| rng.random::<u32>() >> 8).collect();
            numbers.insert_range(0..rng.random_range(0..20));
            let mut bytes = Vec::new();
            numbers.serialize_into(&mut bytes).unwrap();
            Value::Bytes(bytes)
        }
        "y5" => {
            let sets: Vec<serde_json::Value> = include_str!("../data/bitmaps64.jsonl")
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let small = ["empty", "small", "four", "sixteen"];
            let small: Vec<&serde_json::Value> = sets
                .iter()
                .filter(|set| small.contains(&set["name"].as_str().unwrap()))
                .collect();
            let set = small[rng.random_range(0..small.len())];
            let hex = set[["a_hex", "b_hex"][rng.random_range(0..2)]]
                .as_str()
                .unwrap();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            Value::Bytes((0..hex.len()).step_by(2).map(byte).collect())
        }
        _ => return None,
    })
}

/// Cases that hold every pair, then `more` random ones.
pub fn cases(seed: u64, more: usize) -> Vec<Case> {
    let rng = &mut StdRng::seed_from_u64(seed);
    let pairs = |case: &Case| -> Vec<[usize; 4]> {
        let mut pairs = Vec::new();
        for one in 0..DIMENSIONS.len() {
            for two in one + 1..DIMENSIONS.len() {
                pairs.push([one, case.0[one], two, case.0[two]]);
            }
        }
        pairs
    };
    let mut seen = HashSet::new();
    let mut cases: Vec<Case> = Vec::new();
    loop {
        let fresh = |case: &Case| {
            pairs(case)
                .iter()
                .filter(|pair| !seen.contains(*pair))
                .count()
        };
        let best = (0..300)
            .map(|_| Case::random(rng))
            .max_by_key(fresh)
            .unwrap();
        if fresh(&best) == 0 {
            break;
        }
        seen.extend(pairs(&best));
        cases.push(best);
    }
    cases.extend((0..more).map(|_| Case::random(rng)));
    cases
}
