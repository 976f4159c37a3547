use super::*;
use crate::commit::tests::file;
use crate::data_file_meta::SimpleStats;

fn meta(size: i64, deletes: i64) -> ManifestFileMeta {
    ManifestFileMeta {
        file_name: String::new(),
        file_size: size,
        num_added_files: 1,
        num_deleted_files: deletes,
        partition_stats: SimpleStats::default(),
        schema_id: 0,
        min_bucket: None,
        max_bucket: None,
        min_level: None,
        max_level: None,
        min_row_id: None,
        max_row_id: None,
    }
}

const SMALL: Thresholds = Thresholds {
    target_size: 100,
    merge_min_count: 3,
    full_size: 200,
};

#[test]
fn few_small_manifests_are_left_alone() {
    assert_eq!(
        plan(&[meta(10, 0), meta(10, 0)], SMALL),
        [Step::Keep(0), Step::Keep(1)]
    );
    assert_eq!(plan(&[], SMALL), []);
}

#[test]
fn many_small_manifests_become_one_and_large_ones_stay() {
    let manifests = [meta(150, 0), meta(10, 0), meta(10, 0), meta(10, 0)];
    assert_eq!(plan(&manifests, SMALL), [Step::Keep(0), Step::Merge(1..4)]);
    let manifests = [meta(60, 0), meta(60, 0), meta(10, 0)];
    assert_eq!(plan(&manifests, SMALL), [Step::Merge(0..2), Step::Keep(2)]);
}

#[test]
fn deletes_lead_to_a_full_rewrite() {
    let manifests = [meta(150, 0), meta(150, 2), meta(60, 0)];
    assert_eq!(plan(&manifests, SMALL), [Step::Merge(0..3)]);
}

#[test]
fn an_add_and_its_delete_cancel_and_others_stay_in_order() {
    let entry = |kind, name: &str, level| ManifestEntry {
        kind,
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        file: file(name, level, 1..=2),
    };
    use FileKind::*;
    let entries = [
        entry(Delete, "elsewhere", 0),
        entry(Add, "a", 0),
        entry(Add, "b", 0),
        entry(Delete, "a", 0),
        // An upgrade.
        entry(Delete, "b", 0),
        entry(Add, "b", 5),
        entry(Add, "c", 0),
    ];
    let names = |whole: bool| -> Vec<(FileKind, String, i32)> {
        let mut merged = Merged::default();
        entries.iter().cloned().for_each(|entry| merged.push(entry));
        merged
            .finish(whole)
            .into_iter()
            .map(|entry| (entry.kind, entry.file.file_name, entry.file.level))
            .collect()
    };
    let adds = [(Add, "b".to_owned(), 5), (Add, "c".to_owned(), 0)];
    assert_eq!(names(true), adds);
    let [b, c] = adds;
    assert_eq!(names(false), [(Delete, "elsewhere".to_owned(), 0), b, c]);
}
