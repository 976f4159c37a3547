//! Cuts the files of a bucket into sections and sorted runs.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
};

use crate::{
    binary_row::compare_keys,
    data_file_meta::DataFileMeta,
    data_type::DataType,
    error::{Error, Result},
};

/// A file and its place in the manifest: of two rows with one key and one sequence number the
/// later wins.
#[derive(Debug, Clone)]
pub(crate) struct OrderedFile {
    /// Position in the list that [`sections`] was given.
    pub(crate) order: usize,
    /// The file.
    pub(crate) meta: DataFileMeta,
}

/// Files that follow each other in key order and share no keys.
pub(crate) type SortedRun = VecDeque<OrderedFile>;

/// Files that share keys, as sorted runs; no key of it is in another section.
pub(crate) type Section = Vec<SortedRun>;

/// Cuts files of a bucket, in the order of the manifest, into sections in key order. `types` are
/// those of the trimmed primary key.
///
/// # Errors
/// [`Error::Corrupt`] when a file's key range cannot be read.
pub(crate) fn sections(types: &[DataType], files: &[DataFileMeta]) -> Result<VecDeque<Section>> {
    let mut unreadable = None;
    let mut compare = |a: &[u8], b: &[u8], of: &DataFileMeta| {
        compare_keys(types, a, b).unwrap_or_else(|| {
            unreadable.get_or_insert_with(|| of.file_name.clone());
            Ordering::Equal
        })
    };
    let mut sorted: Vec<OrderedFile> = files
        .iter()
        .cloned()
        .enumerate()
        .map(|(order, meta)| OrderedFile { order, meta })
        .collect();
    sorted.sort_by(|a, b| compare(&a.meta.min_key, &b.meta.min_key, &a.meta));
    let mut groups: Vec<Vec<OrderedFile>> = Vec::new();
    let mut max_key: Vec<u8> = Vec::new();
    for file in sorted {
        match groups.last_mut() {
            Some(group) if compare(&file.meta.min_key, &max_key, &file.meta).is_le() => {
                if compare(&file.meta.max_key, &max_key, &file.meta).is_gt() {
                    max_key.clone_from(&file.meta.max_key);
                }
                group.push(file);
            }
            _ => {
                max_key.clone_from(&file.meta.max_key);
                groups.push(vec![file]);
            }
        }
    }
    let sections = groups
        .into_iter()
        .map(|group| runs(group, &mut compare))
        .collect();
    match unreadable {
        Some(file) => Err(Error::Corrupt {
            path: file,
            message: "its key range in the manifest does not fit the table's key".into(),
        }),
        None => Ok(sections),
    }
}

/// Every file of level 0 is a run; those of a higher level are one, unless a writer broke the rule
/// that they share no keys: then as many as needed.
fn runs(
    group: Vec<OrderedFile>,
    compare: &mut impl FnMut(&[u8], &[u8], &DataFileMeta) -> Ordering,
) -> Section {
    let mut section = Section::new();
    let mut levels: BTreeMap<i32, Vec<SortedRun>> = BTreeMap::new();
    for file in group {
        if file.meta.level == 0 {
            section.push(SortedRun::from([file]));
            continue;
        }
        let runs = levels.entry(file.meta.level).or_default();
        let fitting = runs.iter_mut().find(|run| {
            run.back().is_some_and(|last| {
                compare(&last.meta.max_key, &file.meta.min_key, &file.meta).is_lt()
            })
        });
        match fitting {
            Some(run) => run.push_back(file),
            None => runs.push(SortedRun::from([file])),
        }
    }
    section.extend(levels.into_values().flatten());
    section
}
