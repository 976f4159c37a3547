//! The files of one bucket as sorted runs.
//!
//! Source: `org.apache.paimon.mergetree.Levels`, `LevelSortedRun`.

use std::{cmp::Ordering, collections::HashMap};

use crate::{binary_row::compare_keys, data_file_meta::DataFileMeta, data_type::DataType};

/// The live files of a bucket: every file of level 0 is a sorted run of its own, each higher level
/// is one.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    /// Newest first.
    level0: Vec<DataFileMeta>,
    /// Level 1 and up, each in key order.
    upper: Vec<Vec<DataFileMeta>>,
    key: Vec<DataType>,
    /// Place of each file in the manifest, about: of two rows with one key and one sequence number
    /// the later counts.
    arrivals: HashMap<String, usize>,
    arrived: usize,
}

/// A sorted run and the level it stands at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelRun<'a> {
    pub(crate) level: i32,
    pub(crate) files: &'a [DataFileMeta],
}

/// What picking needs to know of a sorted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunSize {
    pub(crate) level: i32,
    pub(crate) bytes: i64,
}

impl LevelRun<'_> {
    pub(crate) fn bytes(&self) -> i64 {
        let sizes = self.files.iter().map(|file| file.file_size);
        sizes.fold(0, i64::saturating_add)
    }
}

impl Levels {
    /// Files of a bucket in the order of the manifest, whose key has these types, with at least
    /// `levels` levels: more if a file stands higher.
    pub(crate) fn new(key: &[DataType], files: Vec<DataFileMeta>, levels: i32) -> Self {
        let highest = files.iter().map(|file| file.level).max().unwrap_or(0);
        let upper = usize::try_from(highest.max(levels - 1).max(1)).unwrap_or(1);
        let mut all = Self {
            level0: Vec::new(),
            upper: vec![Vec::new(); upper],
            key: key.to_vec(),
            arrivals: HashMap::new(),
            arrived: 0,
        };
        all.update(&[], files);
        all
    }

    /// Takes files away and adds others. A file is known by its name and level.
    pub(crate) fn update(&mut self, before: &[DataFileMeta], after: Vec<DataFileMeta>) {
        let gone = |file: &DataFileMeta| {
            before
                .iter()
                .any(|old| (old.level, &old.file_name) == (file.level, &file.file_name))
        };
        self.level0.retain(|file| !gone(file));
        for files in &mut self.upper {
            files.retain(|file| !gone(file));
        }
        for file in before {
            self.arrivals.remove(&file.file_name);
        }
        for file in after {
            self.arrivals.insert(file.file_name.clone(), self.arrived);
            self.arrived += 1;
            let level = usize::try_from(file.level).unwrap_or(0);
            match level.checked_sub(1) {
                None => self.level0.push(file),
                Some(at) => {
                    if at >= self.upper.len() {
                        self.upper.resize(at + 1, Vec::new());
                    }
                    if let Some(files) = self.upper.get_mut(at) {
                        files.push(file);
                    }
                }
            }
        }
        self.level0.sort_by(newest_first);
        let Self { key, upper, .. } = self;
        for files in upper {
            files.sort_by(|a, b| {
                compare_keys(key, &a.min_key, &b.min_key).unwrap_or(Ordering::Equal)
            });
        }
    }

    /// The highest level there may be.
    pub(crate) fn top_level(&self) -> i32 {
        i32::try_from(self.upper.len()).unwrap_or(i32::MAX)
    }

    /// The highest level with files; -1 when there are none.
    pub(crate) fn highest_with_files(&self) -> i32 {
        let upper = (1..).zip(&self.upper);
        match upper.filter(|(_, files)| !files.is_empty()).last() {
            Some((level, _)) => level,
            None if self.level0.is_empty() => -1,
            None => 0,
        }
    }

    /// Sorted runs, from the newest rows to the oldest.
    pub(crate) fn runs(&self) -> Vec<LevelRun<'_>> {
        let level0 = self.level0.iter().map(|file| LevelRun {
            level: 0,
            files: std::slice::from_ref(file),
        });
        let upper = (1..)
            .zip(&self.upper)
            .filter(|(_, files)| !files.is_empty())
            .map(|(level, files)| LevelRun { level, files });
        level0.chain(upper).collect()
    }

    /// Sorted runs as picking sees them.
    pub(crate) fn sizes(&self) -> Vec<RunSize> {
        self.runs()
            .iter()
            .map(|run| RunSize {
                level: run.level,
                bytes: run.bytes(),
            })
            .collect()
    }

    /// Some of the files, in the order in which they came.
    pub(crate) fn in_order_of_arrival(&self, mut files: Vec<DataFileMeta>) -> Vec<DataFileMeta> {
        files.sort_by_key(|file| self.arrivals.get(&file.file_name).copied());
        files
    }

    /// Files of a level above 0, in key order.
    pub(crate) fn level(&self, level: i32) -> &[DataFileMeta] {
        usize::try_from(level)
            .ok()
            .and_then(|level| self.upper.get(level.checked_sub(1)?))
            .map_or(&[], Vec::as_slice)
    }

    /// Files of level 0, newest first.
    #[cfg(test)]
    pub(crate) fn level0(&self) -> &[DataFileMeta] {
        &self.level0
    }

    /// All files, in the order of the runs.
    pub(crate) fn files(&self) -> impl Iterator<Item = &DataFileMeta> {
        self.level0.iter().chain(self.upper.iter().flatten())
    }
}

/// Order of level 0: the greatest sequence number first; writers side by side may have the same.
fn newest_first(a: &DataFileMeta, b: &DataFileMeta) -> Ordering {
    b.max_sequence_number
        .cmp(&a.max_sequence_number)
        .then_with(|| a.min_sequence_number.cmp(&b.min_sequence_number))
        .then_with(|| a.creation_time_ms.cmp(&b.creation_time_ms))
        .then_with(|| a.file_name.cmp(&b.file_name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::tests::file;

    fn at(
        name: &str,
        level: i32,
        keys: std::ops::RangeInclusive<i64>,
        newest: i64,
    ) -> DataFileMeta {
        DataFileMeta {
            max_sequence_number: newest,
            ..file(name, level, keys)
        }
    }

    fn names(levels: &Levels) -> Vec<(i32, Vec<String>)> {
        let runs = levels.runs().into_iter();
        let names =
            |files: &[DataFileMeta]| files.iter().map(|file| file.file_name.clone()).collect();
        runs.map(|run| (run.level, names(run.files))).collect()
    }

    #[test]
    fn runs_go_from_the_newest_to_the_oldest() {
        let files = vec![
            at("c", 0, 1..=9, 5),
            at("d", 0, 1..=9, 7),
            at("b", 5, 5..=9, 2),
            at("a", 5, 1..=4, 3),
            at("x", 2, 1..=4, 4),
        ];
        let key = [DataType::BigInt];
        let mut levels = Levels::new(&key, files.clone(), 3);
        assert_eq!(levels.top_level(), 5);
        assert_eq!(levels.highest_with_files(), 5);
        assert_eq!(levels.runs().len(), 4);
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected: Vec<(i32, Vec<String>)> = vec![
            (0, text(&["d"])),
            (0, text(&["c"])),
            (2, text(&["x"])),
            (5, text(&["a", "b"])),
        ];
        assert_eq!(names(&levels), expected);
        assert_eq!(levels.sizes().len(), 4);
        // A file that moves up is known by name and level.
        let moved = DataFileMeta {
            level: 5,
            ..at("y", 0, 10..=12, 9)
        };
        levels.update(&files[..2], vec![moved]);
        let expected: Vec<(i32, Vec<String>)> =
            vec![(2, text(&["x"])), (5, text(&["a", "b", "y"]))];
        assert_eq!(names(&levels), expected);
        levels.update(&levels.files().cloned().collect::<Vec<_>>(), Vec::new());
        assert_eq!(levels.highest_with_files(), -1);
        assert_eq!(
            Levels::new(&key, vec![at("c", 0, 1..=9, 5)], 3).highest_with_files(),
            0
        );
    }

    #[test]
    fn files_of_writers_side_by_side_keep_one_order() {
        let mut a = at("a", 0, 1..=9, 5);
        let mut b = at("b", 0, 1..=9, 5);
        a.min_sequence_number = 1;
        b.min_sequence_number = 1;
        a.creation_time_ms = Some(2);
        b.creation_time_ms = Some(1);
        let mut files = vec![a, b];
        for _ in 0..2 {
            let levels = Levels::new(&[DataType::BigInt], files.clone(), 2);
            assert_eq!(levels.level0()[0].file_name, "b");
            files.reverse();
        }
    }
}
