//! Cuts the files of a bucket into sections and sorted runs.

use std::{cmp::Ordering, collections::VecDeque};

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

/// Where the keys of a file begin, or end.
struct Edge {
    file: usize,
    is_end: bool,
}

/// Cuts files of a bucket, in the order of the manifest, into sections in key order. `types` are
/// those of the trimmed primary key.
///
/// A run is taken up by the next file that begins behind its last one, of whatever level: as many
/// runs as there are files with one key in common, and no more. Rows of one key are compared by what
/// each file is, never by which run it is in.
///
/// # Errors
/// [`Error::Corrupt`] when a file's key range cannot be read.
pub(crate) fn sections(types: &[DataType], files: &[DataFileMeta]) -> Result<VecDeque<Section>> {
    if let [file] = files {
        let file = OrderedFile {
            order: 0,
            meta: file.clone(),
        };
        return Ok(VecDeque::from([vec![SortedRun::from([file])]]));
    }
    let edges = edges(types, files)?;
    let mut sections = VecDeque::new();
    let mut section = Section::new();
    // The run that each file is in, once it has begun.
    let mut runs: Vec<Option<usize>> = vec![None; files.len()];
    let mut free: Vec<usize> = Vec::new();
    let mut open = 0_usize;
    for Edge { file, is_end } in edges {
        let (Some(meta), Some(run)) = (files.get(file), runs.get_mut(file)) else {
            continue;
        };
        match (is_end, *run) {
            (false, _) => {
                let at = free.pop().unwrap_or(section.len());
                if at == section.len() {
                    section.push(SortedRun::new());
                }
                let taken = section.get_mut(at).into_iter();
                taken.for_each(|taken| {
                    taken.push_back(OrderedFile {
                        order: file,
                        meta: meta.clone(),
                    });
                });
                *run = Some(at);
                open += 1;
            }
            (true, Some(run)) => {
                free.push(run);
                open -= 1;
                if open == 0 {
                    sections.push_back(std::mem::take(&mut section));
                    free.clear();
                }
            }
            // It ends before it begins, if its metadata were right: then nothing is behind it.
            (true, None) => {}
        }
    }
    if !section.is_empty() {
        sections.push_back(section);
    }
    Ok(sections)
}

/// The edges of all files in key order. A file that begins with the key that another ends with
/// shares it.
fn edges(types: &[DataType], files: &[DataFileMeta]) -> Result<Vec<Edge>> {
    let begins = (0..files.len()).map(|file| Edge {
        file,
        is_end: false,
    });
    let ends = (0..files.len()).map(|file| Edge { file, is_end: true });
    let mut edges: Vec<Edge> = begins.chain(ends).collect();
    let key = |edge: &Edge| {
        let meta = files.get(edge.file)?;
        Some(match edge.is_end {
            true => meta.max_key.as_slice(),
            false => meta.min_key.as_slice(),
        })
    };
    let mut unreadable = None;
    edges.sort_by(|a, b| {
        let (Some(a_key), Some(b_key)) = (key(a), key(b)) else {
            return Ordering::Equal;
        };
        let order = compare_keys(types, a_key, b_key).unwrap_or_else(|| {
            unreadable.get_or_insert(a.file);
            Ordering::Equal
        });
        order.then(a.is_end.cmp(&b.is_end))
    });
    match unreadable.and_then(|file| files.get(file)) {
        Some(meta) => Err(Error::Corrupt {
            path: meta.file_name.clone(),
            message: "its key range in the manifest does not fit the table's key".into(),
        }),
        None => Ok(edges),
    }
}
