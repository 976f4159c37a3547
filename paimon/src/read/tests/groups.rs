//! Merges that look at more than the newest row of a key.

use super::*;
use crate::merge;

/// Rows of a batch with columns `v`, `id`.
pub(super) fn decoded(rows: &crate::data_file::KeyValueBatch) -> Vec<Row> {
    let values = rows.columns[0].as_string::<i32>();
    let ids = rows.columns[1].as_primitive::<Int32Type>();
    (0..rows.rows())
        .map(|at| Row {
            id: ids.value(at),
            sequence: rows.sequences.value(at),
            kind: rows.kinds.value(at),
            value: values.value(at).to_owned(),
        })
        .collect()
}

pub(super) fn all_sections(
    table: &Table,
    files: &[DataFileMeta],
) -> (FileOpener, Vec<Section>, Vec<DataField>) {
    let opener = FileOpener::new(table.clone(), vec![0; 12], 0);
    let keys = vec![table.schema().field("id").unwrap().1.clone()];
    let sections = sections(&[DataType::Int], files).unwrap();
    (opener, sections.into(), keys)
}

#[tokio::test]
async fn groups_hold_all_rows_of_a_key_the_oldest_first() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let table = table();
        let (files, all) = tree(&mut random, &table).await;
        let mut model: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
        for row in all {
            model.entry(row.id).or_default().push(row);
        }
        let (opener, sections, keys) = all_sections(&table, &files);
        let mut found = Vec::new();
        let mut firsts: BTreeMap<usize, i64> = BTreeMap::new();
        for section in sections {
            let columns = &table.schema().fields;
            let merge = SortedMerge::open_groups(opener.clone(), section, columns, &keys, true);
            let mut merge = merge.await.unwrap();
            while let Some(groups) = merge.next_groups().await.unwrap() {
                let rows = decoded(&groups.rows);
                assert_eq!(groups.sources.len(), rows.len());
                for (row, source) in rows.iter().zip(&groups.sources) {
                    let level = files[source.file].level;
                    assert_eq!(level, source.level);
                    // Numbers of a file ascend with the key, one by one.
                    assert!(source.position < files[source.file].row_count);
                    let first = row.sequence - source.position;
                    assert_eq!(*firsts.entry(source.file).or_insert(first), first);
                    assert!(row.value.starts_with(&format!("{level}-")));
                }
                let mut start = 0;
                for end in groups.ends {
                    found.push(rows[start..end].to_vec());
                    start = end;
                }
                assert_eq!(start, rows.len());
            }
        }
        assert_eq!(
            found,
            model.into_values().collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
}

/// What a compaction takes: the newest row of a key, deletes too, with its number and its kind.
#[tokio::test]
async fn merged_rows_keep_their_sequence_number_and_kind() {
    let mut random = StdRng::seed_from_u64(1);
    let table = table();
    let (files, all) = tree(&mut random, &table).await;
    let model: BTreeMap<i32, Row> = all.into_iter().map(|row| (row.id, row)).collect();
    let (opener, sections, keys) = all_sections(&table, &files);
    let mut found = Vec::new();
    for section in sections {
        let function = merge::function(table.schema()).unwrap();
        let columns = &table.schema().fields;
        let merge = SortedMerge::open(opener.clone(), section, columns, &keys, function);
        let mut merge = merge.await.unwrap().with_sources();
        while let Some(merged) = merge.next().await.unwrap() {
            assert_eq!(merged.sources.len(), merged.rows.rows());
            found.extend(decoded(&merged.rows));
        }
    }
    assert!(found.iter().any(|row| row.kind == 3));
    assert_eq!(found, model.into_values().collect::<Vec<_>>());
}

#[tokio::test]
async fn deletes_that_are_ignored_leave_the_row_before() {
    for seed in 0..10 {
        let mut random = StdRng::seed_from_u64(seed);
        let table = table_with(&[("ignore-delete", "true")]);
        let (files, all) = tree(&mut random, &table).await;
        let mut model: BTreeMap<i32, String> = BTreeMap::new();
        for row in all {
            if row.kind != 3 {
                model.insert(row.id, row.value);
            }
        }
        let rows = read(&table, files).await.unwrap();
        assert_eq!(rows, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
}

#[tokio::test]
async fn a_sequence_field_decides_before_the_sequence_number() {
    for (order, descending) in [("ascending", false), ("descending", true)] {
        let options = [
            ("sequence.field", "v"),
            ("sequence.field.sort-order", order),
        ];
        let table = table_with(&options);
        let first = write(&table, 0, &[row(1, 1, 0, "b"), row(2, 2, 0, "a")]).await;
        let second = write(&table, 0, &[row(1, 3, 0, "a"), row(2, 4, 0, "b")]).await;
        let third = write(&table, 0, &[row(1, 5, 3, "0"), row(2, 6, 3, "a")]).await;
        let mut rows = read(&table, vec![first, second, third]).await.unwrap();
        rows.sort();
        match descending {
            // The delete of 1 is older than both rows, that of 2 than the second.
            false => assert_eq!(rows, [(1, "b".to_owned()), (2, "b".to_owned())]),
            // Now it is the newest; of equal values the later one counts.
            true => assert_eq!(rows, []),
        }
    }
}
