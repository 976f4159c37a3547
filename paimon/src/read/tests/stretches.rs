//! Merges of one long run with others that are sparse, or that have many keys in one place.

use super::{
    groups::{all_sections, decoded},
    *,
};
use crate::merge;

/// Ids of a run that is newer than a long one: some anywhere, all of a range, or all from one on.
fn ids(random: &mut StdRng, all: i32) -> Vec<i32> {
    let from = random.random_range(0..all);
    let mut ids: Vec<i32> = match random.random_range(0..3) {
        0 => {
            let count = random.random_range(1..200);
            let ids = sample(random, all as usize, count.min(all as usize));
            ids.into_iter().map(|id| id as i32).collect()
        }
        1 => (from..all.min(from + random.random_range(1..2000))).collect(),
        _ => (from..from + random.random_range(1..5000)).collect(),
    };
    ids.sort_unstable();
    ids
}

/// A long run and newer ones; their files in the order of the manifest, and all rows of each key.
async fn long_and_sparse(
    random: &mut StdRng,
    table: &Table,
) -> (Vec<DataFileMeta>, BTreeMap<i32, Vec<Row>>) {
    let all = random.random_range(1..12_000);
    let deletes = [0.0, 0.01, 0.6][random.random_range(0..3)];
    let mut model: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
    let mut files = Vec::new();
    let mut sequence = 0;
    for level in [5, 4, 3, 0, 0, 0] {
        let ids = match level {
            5 => (0..all).collect(),
            _ if random.random_bool(0.3) => continue,
            _ => ids(random, all),
        };
        let mut rows = Vec::new();
        for id in ids {
            sequence += 1;
            let kind = match random.random_bool(deletes) {
                true => 3,
                false => 0,
            };
            rows.push(Row {
                id,
                sequence,
                kind,
                value: format!("{level}-{sequence}"),
            });
        }
        for row in &rows {
            model.entry(row.id).or_default().push(row.clone());
        }
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(3000));
        files.push(write_with(table, level, &rows, properties.build()).await);
    }
    (files, model)
}

/// With keys as numbers and with keys as bytes.
#[tokio::test]
async fn long_stretches_come_out_whole_and_in_order() {
    let mut longest = 0;
    for seed in 0..30 {
        let mut random = StdRng::seed_from_u64(seed);
        let table = table();
        let (files, model) = long_and_sparse(&mut random, &table).await;
        let (opener, sections, mut keys) = all_sections(&table, &files);
        let columns = &table.schema().fields;
        for as_bytes in [false, true] {
            keys[0].nullable = as_bytes;
            let (mut merged, mut live, mut groups) = (Vec::new(), Vec::new(), Vec::new());
            for section in &sections {
                let open = async || {
                    let function = merge::function(table.schema()).unwrap();
                    let section = section.clone();
                    let opener = opener.clone();
                    let merge = SortedMerge::open(opener, section, columns, &keys, function);
                    merge.await.unwrap()
                };
                let mut merge = open().await;
                while let Some(some) = merge.next().await.unwrap() {
                    merged.extend(decoded(&some.rows));
                }
                let mut merge = open().await.dropping_deletes();
                while let Some(some) = merge.next().await.unwrap() {
                    longest = longest.max(some.rows.rows());
                    // Readers get no sequence numbers and kinds.
                    let rows = decoded(&some.rows).into_iter();
                    live.extend(rows.map(|row| (row.id, row.value)));
                }
                let (opener, section) = (opener.clone(), section.clone());
                let merge = SortedMerge::open_groups(opener, section, columns, &keys, false);
                let mut merge = merge.await.unwrap();
                while let Some(some) = merge.next_groups().await.unwrap() {
                    let rows = decoded(&some.rows);
                    assert_eq!(some.ends.last(), Some(&rows.len()));
                    let mut start = 0;
                    for end in some.ends {
                        groups.push(rows[start..end].to_vec());
                        start = end;
                    }
                }
            }
            let newest: Vec<Row> = model
                .values()
                .map(|rows| rows.last().unwrap().clone())
                .collect();
            let left = newest.iter().filter(|row| row.kind == 0);
            let left: Vec<_> = left.map(|row| (row.id, row.value.clone())).collect();
            assert!(merged == newest, "seed {seed}, as bytes: {as_bytes}");
            assert!(live == left, "seed {seed}, as bytes: {as_bytes}");
            let all: Vec<Vec<Row>> = model.values().cloned().collect();
            assert!(groups == all, "seed {seed}, as bytes: {as_bytes}");
        }
    }
    assert!(longest >= 1000, "{longest}");
}

/// Two runs whose keys come in turn, and runs that end before others begin.
#[tokio::test]
async fn keys_in_turn_come_out_in_order() {
    let table = table();
    let some = |ids: Vec<i32>, first: i64| -> Vec<Row> {
        let numbers = ids.into_iter().zip(first..);
        numbers
            .map(|(id, number)| row(id, number, 0, &format!("{number}")))
            .collect()
    };
    let even = write(&table, 0, &some((0..3000).map(|id| 2 * id).collect(), 1)).await;
    let odd = write(
        &table,
        0,
        &some((0..3000).map(|id| 2 * id + 1).collect(), 3001),
    )
    .await;
    let tail = write(&table, 0, &some((5000..9000).collect(), 6001)).await;
    let rows = read(&table, vec![even, odd, tail]).await.unwrap();
    let ids: Vec<i32> = rows.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, Vec::from_iter(0..9000));
    let of = |id: usize| rows[id].1.parse::<i32>().unwrap();
    assert_eq!(
        [of(0), of(1), of(4999), of(5000), of(8999)],
        [1, 3001, 5500, 6001, 10_000]
    );
}
