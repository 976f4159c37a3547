//! Rows that a filter leaves are the same whether files and row groups are left out or not.

use super::*;
use crate::{commit::LiveFile, read::plan::Planner};

/// Reads with a filter, through the planner; also how many files are left.
async fn filtered(
    table: &Table,
    files: &[DataFileMeta],
    predicate: &Predicate,
) -> (Vec<(i32, String)>, usize) {
    let filter = predicate.bind(table.name(), table.schema()).unwrap();
    let planner = Planner {
        table,
        filter: Some(&filter),
        wants_level: &|_| true,
    };
    let live = files.iter().map(|meta| LiveFile {
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        meta: meta.clone(),
    });
    let splits = planner.splits_of(live.collect()).await.unwrap();
    let read = table.read().columns(["id", "v"]).filter(predicate.clone());
    let mut rows = Vec::new();
    for split in &splits {
        let batches: Vec<RecordBatch> = read.open(split).unwrap().try_collect().await.unwrap();
        rows.extend(rows_of(&batches));
    }
    (rows, splits.iter().map(|split| split.files.len()).sum())
}

fn predicate(random: &mut StdRng, keys: i32, deep: u32) -> Predicate {
    use Predicate::*;
    let id = Value::Int(random.random_range(-5..keys + 5));
    let text = format!(
        "{}-{}",
        random.random_range(0..6),
        random.random_range(0..3000)
    );
    let bytes = Value::Bytes(text.clone().into_bytes());
    let (i, v) = ("id".to_owned(), "v".to_owned());
    let more = |random: &mut StdRng| predicate(random, keys, deep - 1);
    match random.random_range(0..if deep > 0 { 15 } else { 11 }) {
        0 => Eq(i, id),
        1 => NotEq(i, id),
        2 => Lt(i, id),
        3 => Le(v, bytes),
        4 => Gt(i, id),
        5 => Ge(v, bytes),
        6 => In(i, vec![id, Value::Int(7)]),
        7 => IsNull(v),
        8 => IsNotNull(i),
        9 => StartsWith(v, text[..random.random_range(0..4)].to_owned()),
        10 => Eq(v, bytes),
        11 => Not(Box::new(more(random))),
        12 => Or(vec![more(random), more(random)]),
        _ => And(vec![more(random), more(random)]),
    }
}

/// The same without statistics.
fn holds(predicate: &Predicate, id: i32, v: &str) -> bool {
    use std::cmp::Ordering;
    let compare = |column: &str, value: &Value| -> Ordering {
        match column {
            "id" => Value::<Vec<u8>>::Int(id).compare(value),
            _ => Value::Bytes(v.as_bytes().to_vec()).compare(value),
        }
    };
    match predicate {
        Predicate::Eq(c, x) => compare(c, x).is_eq(),
        Predicate::NotEq(c, x) => compare(c, x).is_ne(),
        Predicate::Lt(c, x) => compare(c, x).is_lt(),
        Predicate::Le(c, x) => compare(c, x).is_le(),
        Predicate::Gt(c, x) => compare(c, x).is_gt(),
        Predicate::Ge(c, x) => compare(c, x).is_ge(),
        Predicate::In(c, some) => some.iter().any(|x| compare(c, x).is_eq()),
        Predicate::IsNull(_) => false,
        Predicate::IsNotNull(_) => true,
        Predicate::StartsWith(_, prefix) => v.starts_with(prefix),
        Predicate::And(some) => some.iter().all(|one| holds(one, id, v)),
        Predicate::Or(some) => some.iter().any(|one| holds(one, id, v)),
        Predicate::Not(one) => !holds(one, id, v),
    }
}

#[tokio::test]
async fn statistics_never_lose_a_row() {
    let (mut left_out, mut found) = (0, 0);
    for seed in 0..8 {
        let mut random = StdRng::seed_from_u64(seed);
        let table = table();
        let (files, _) = tree(&mut random, &table).await;
        let all = read(&table, files.clone()).await.unwrap();
        let keys = all.last().map_or(10, |(id, _)| *id);
        for _ in 0..20 {
            let predicate = predicate(&mut random, keys, 2);
            let wanted: Vec<(i32, String)> = all
                .iter()
                .filter(|(id, v)| holds(&predicate, *id, v))
                .cloned()
                .collect();
            let (rows, read) = filtered(&table, &files, &predicate).await;
            assert_eq!(rows, wanted, "seed {seed}, {predicate:?}");
            found += rows.len();
            left_out += files.len() - read;
        }
    }
    assert!(left_out > 100 && found > 100, "{left_out}, {found}");
}

#[tokio::test]
async fn a_replaced_value_does_not_bring_a_row_back() {
    let table = table();
    let old = write(&table, 5, &[row(1, 1, 0, "old"), row(2, 2, 0, "old")]).await;
    let new = write(&table, 0, &[row(1, 3, 2, "new")]).await;
    let files = [old, new];
    let is = |value: &str| Predicate::Eq("v".into(), Value::Bytes(value.into()));
    let (rows, _) = filtered(&table, &files, &is("old")).await;
    assert_eq!(rows, [(2, "old".to_owned())]);
    let (rows, _) = filtered(&table, &files, &is("new")).await;
    assert_eq!(rows, [(1, "new".to_owned())]);
    let (rows, files_read) = filtered(&table, &files, &is("other")).await;
    assert_eq!((rows, files_read), (vec![], 0));
}

#[test]
fn filters_that_do_not_fit_are_refused() {
    let table = table();
    let refused = |predicate: Predicate| {
        let error = predicate.bind(table.name(), table.schema()).unwrap_err();
        assert!(error.to_string().contains("db.t"), "{error}");
    };
    refused(Predicate::IsNull("nowhere".into()));
    refused(Predicate::Eq("v".into(), Value::Int(1)));
    refused(Predicate::Eq("id".into(), Value::BigInt(1 << 40)));
    refused(Predicate::Eq("id".into(), Value::Null));
    refused(Predicate::StartsWith("id".into(), "1".into()));
}
