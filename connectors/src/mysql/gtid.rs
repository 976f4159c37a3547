//! GTID sets: which transactions a server has, by the UUID (and tag) that numbered them.
//!
//! Format: MySQL reference manual, "GTID Format and Storage": `uuid[:tag]:a-b:c,…`, ends included.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A set of GTIDs. Intervals are kept sorted, apart and half-open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GtidSet {
    /// By the server's UUID, then by tag (empty: none).
    sources: BTreeMap<[u8; 16], Tags>,
}

/// Half-open intervals by tag.
type Tags = BTreeMap<String, Vec<(u64, u64)>>;

/// Text that is not a GTID set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a GTID set")]
pub struct ParseGtidSetError(String);

impl GtidSet {
    /// Adds one transaction; `tag` in lower case, empty for none. Allocates only for a new source
    /// or a new gap.
    pub fn insert(&mut self, uuid: &[u8; 16], tag: &str, number: u64) {
        let tags = self.sources.entry(*uuid).or_default();
        let end = number.saturating_add(1);
        match tags.get_mut(tag) {
            Some(intervals) => match intervals.last_mut() {
                // The usual case extends the last interval.
                Some(last) if last.1 == number => last.1 = end,
                _ => add(intervals, number, end),
            },
            None => {
                tags.insert(tag.to_owned(), vec![(number, end)]);
            }
        }
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (uuid, tags) in &other.sources {
            for (tag, intervals) in tags {
                let mine = self
                    .sources
                    .entry(*uuid)
                    .or_default()
                    .entry(tag.clone())
                    .or_default();
                for (start, end) in intervals {
                    add(mine, *start, *end);
                }
            }
        }
    }

    /// Whether one transaction is in the set.
    pub fn contains(&self, uuid: &[u8; 16], tag: &str, number: u64) -> bool {
        self.intervals(uuid, tag)
            .is_some_and(|mine| covers(mine, number, number.saturating_add(1)))
    }

    /// Whether every transaction of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.sources().all(|(uuid, tag, intervals)| {
            intervals.is_empty()
                || other.intervals(uuid, tag).is_some_and(|theirs| {
                    intervals
                        .iter()
                        .all(|(start, end)| covers(theirs, *start, *end))
                })
        })
    }

    /// True when no transaction is in it.
    pub fn is_empty(&self) -> bool {
        self.sources().all(|(_, _, intervals)| intervals.is_empty())
    }

    /// UUID, tag, and half-open intervals of every source, for the dump command.
    pub fn sources(&self) -> impl Iterator<Item = (&[u8; 16], &str, &[(u64, u64)])> {
        self.sources.iter().flat_map(|(uuid, tags)| {
            tags.iter()
                .map(move |(tag, intervals)| (uuid, tag.as_str(), intervals.as_slice()))
        })
    }

    fn intervals(&self, uuid: &[u8; 16], tag: &str) -> Option<&Vec<(u64, u64)>> {
        self.sources.get(uuid)?.get(tag)
    }
}

fn covers(intervals: &[(u64, u64)], start: u64, end: u64) -> bool {
    intervals
        .iter()
        .any(|(from, to)| *from <= start && end <= *to)
}

/// Adds `[start, end)` and joins what touches.
fn add(intervals: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    let first = intervals.partition_point(|(_, to)| *to < start);
    let last = intervals.partition_point(|(from, _)| *from <= end);
    let joined = intervals
        .get(first..last)
        .unwrap_or_default()
        .iter()
        .fold((start, end), |(from, to), piece| {
            (from.min(piece.0), to.max(piece.1))
        });
    intervals.splice(first..last.max(first), [joined]);
}

impl FromStr for GtidSet {
    type Err = ParseGtidSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseGtidSetError(text.chars().take(200).collect());
        let mut set = Self::default();
        for source in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let mut parts = source.split(':').map(str::trim);
            let uuid = parts
                .next()
                .and_then(|uuid| uuid::Uuid::parse_str(uuid).ok())
                .ok_or_else(wrong)?
                .into_bytes();
            let mut tag = String::new();
            for part in parts {
                if part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    tag = part.to_ascii_lowercase();
                    continue;
                }
                let (start, end) = part.split_once('-').unwrap_or((part, part));
                let start: u64 = start.trim().parse().map_err(|_| wrong())?;
                let end: u64 = end.trim().parse().map_err(|_| wrong())?;
                if start == 0 || end < start || end == u64::MAX {
                    return Err(wrong());
                }
                let tags = set.sources.entry(uuid).or_default();
                add(tags.entry(tag.clone()).or_default(), start, end + 1);
            }
        }
        Ok(set)
    }
}

impl TryFrom<String> for GtidSet {
    type Error = ParseGtidSetError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<GtidSet> for String {
    fn from(set: GtidSet) -> Self {
        set.to_string()
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut uuid_before = None;
        for (uuid, tag, intervals) in self.sources().filter(|(_, _, list)| !list.is_empty()) {
            if uuid_before != Some(uuid) {
                if uuid_before.is_some() {
                    f.write_str(",")?;
                }
                write!(f, "{}", uuid::Uuid::from_bytes(*uuid).hyphenated())?;
                uuid_before = Some(uuid);
            }
            if !tag.is_empty() {
                write!(f, ":{tag}")?;
            }
            for (start, end) in intervals {
                match end - start {
                    1 => write!(f, ":{start}")?,
                    _ => write!(f, ":{start}-{}", end - 1)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn id() -> [u8; 16] {
        uuid::Uuid::parse_str(UUID).unwrap().into_bytes()
    }

    #[test]
    fn a_gap_that_fills_joins() {
        let mut set: GtidSet = format!("{UUID}:1-102:105-150").parse().unwrap();
        set.insert(&id(), "", 104);
        assert_eq!(set.to_string(), format!("{UUID}:1-102:104-150"));
        set.insert(&id(), "", 103);
        assert_eq!(set.to_string(), format!("{UUID}:1-150"));
    }

    #[test]
    fn tags_and_case() {
        let text = format!("{}:1-3:Blue:7:9-10", UUID.to_uppercase());
        let set: GtidSet = text.parse().unwrap();
        assert_eq!(set.to_string(), format!("{UUID}:1-3:blue:7:9-10"));
        assert!(set.contains(&id(), "blue", 9) && !set.contains(&id(), "", 9));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["x", "3e11:1", &format!("{UUID}:0"), &format!("{UUID}:5-4")] {
            assert!(text.parse::<GtidSet>().is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn insert_and_subset_agree_with_a_plain_set(numbers: Vec<u8>, others: Vec<u8>) {
            use std::collections::BTreeSet;
            let fill = |numbers: &[u8]| {
                let mut set = GtidSet::default();
                for n in numbers { set.insert(&id(), "", u64::from(*n) + 1); }
                set
            };
            let (a, b) = (fill(&numbers), fill(&others));
            let (x, y): (BTreeSet<_>, BTreeSet<_>) = (numbers.iter().collect(), others.iter().collect());
            proptest::prop_assert_eq!(a.is_subset(&b), x.is_subset(&y));
            proptest::prop_assert_eq!(a.to_string().parse::<GtidSet>().unwrap(), a);
        }
    }
}
