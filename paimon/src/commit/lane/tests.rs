use super::*;
use crate::commit::tests::{file, message, schema};
use crate::data_file_meta::DataFileMeta;

fn view(files: &[DataFileMeta]) -> View {
    let mut view = View::default();
    let entries: Vec<_> = files
        .iter()
        .map(|file| ManifestEntry {
            kind: FileKind::Add,
            partition: vec![0; 12],
            bucket: 0,
            total_buckets: 1,
            file: file.clone(),
        })
        .collect();
    view.apply(&entries);
    view
}

fn levels(options: &[(&str, &str)], live: &[DataFileMeta], new: Vec<DataFileMeta>) -> Vec<i32> {
    place(&schema(options), &view(live), &[message(new)])
        .iter()
        .map(|entry| entry.file.level)
        .collect()
}

#[test]
fn a_lane_file_keeps_its_level_where_nothing_overlaps() {
    let live = [file("top", 5, 10..=20), file("tail", 0, 0..=100)];
    let new = vec![
        file("before", 5, -5..=9),
        file("touches", 5, 20..=30),
        file("within", 5, 12..=13),
        file("around", 5, 0..=100),
        file("after", 5, 21..=30),
        file("overlaps its brother", 5, 30..=40),
        file("apart", 5, 41..=50),
        file("other level", 4, 12..=13),
        file("plain", 0, 12..=13),
    ];
    assert_eq!(levels(&[], &live, new), [5, 0, 0, 0, 5, 0, 5, 4, 0]);
}

#[test]
fn a_lane_file_with_a_key_that_cannot_be_read_goes_to_level_0() {
    let mut damaged = file("damaged", 5, 1..=2);
    damaged.max_key.truncate(9);
    let live = [file("top", 5, 10..=20)];
    assert_eq!(levels(&[], &live, vec![damaged]), [0]);
}

#[test]
fn tables_read_without_merging_take_lane_files_only_into_empty_buckets() {
    for options in [
        &[("deletion-vectors.enabled", "true")][..],
        &[("merge-engine", "first-row")],
    ] {
        let new = || vec![file("new", 5, 1..=2), file("next", 5, 3..=4)];
        assert_eq!(levels(options, &[], new()), [5, 5]);
        assert_eq!(levels(options, &[file("tail", 0, 7..=8)], new()), [0, 0]);
    }
    for producer in ["lookup", "Full-Compaction"] {
        let options = [("changelog-producer", producer)];
        assert_eq!(levels(&options, &[], vec![file("new", 5, 1..=2)]), [0]);
    }
    let new = vec![file("new", 5, 1..=2)];
    let input = [("changelog-producer", "input")];
    assert_eq!(levels(&input, &[file("tail", 0, 7..=8)], new), [5]);
}

#[test]
fn a_deleted_file_frees_its_range() {
    let mut view = view(&[file("top", 5, 10..=20)]);
    let gone = |kind, level| ManifestEntry {
        kind,
        partition: vec![0; 12],
        bucket: 0,
        total_buckets: 1,
        file: file("top", level, 10..=20),
    };
    view.apply(&[gone(FileKind::Delete, 5)]);
    let place = |view: &View| {
        place(
            &schema(&[]),
            view,
            &[message(vec![file("new", 5, 15..=15)])],
        )[0]
        .file
        .level
    };
    assert_eq!(place(&view), 5);
    assert!(!view.holds_somewhere(&[0; 12], 0, &file("top", 0, 1..=1)));
    // An upgrade: delete and add of one name, in either order.
    view.apply(&[gone(FileKind::Add, 0)]);
    view.apply(&[gone(FileKind::Add, 5), gone(FileKind::Delete, 0)]);
    assert_eq!(place(&view), 0);
    assert!(view.holds_somewhere(&[0; 12], 0, &file("top", 0, 1..=1)));
}
