//! GTID sets: which transactions a server has, by the UUID (and tag) that numbered them.
//!
//! Format: MySQL reference manual, "GTID Format and Storage": `uuid[:tag]:a-b:c,…`, ends included.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A set of GTIDs. Intervals are kept sorted, apart and half-open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GtidSet {
    sources: BTreeMap<Sid, Vec<(u64, u64)>>,
}

/// Who numbered a transaction: a server's UUID in lower case, and a tag (often empty).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sid {
    uuid: String,
    tag: String,
}

/// Text that is not a GTID set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a GTID set")]
pub struct ParseGtidSetError(String);

impl GtidSet {
    /// Adds one transaction.
    pub fn insert(&mut self, uuid: &str, tag: &str, number: u64) {
        // The usual case extends the last interval: no allocation but for the look-up's key.
        let sid = Sid {
            uuid: uuid.to_ascii_lowercase(),
            tag: tag.to_ascii_lowercase(),
        };
        let intervals = self.sources.entry(sid).or_default();
        if let Some(last) = intervals.last_mut()
            && last.1 == number
        {
            last.1 = number.saturating_add(1);
            return;
        }
        add(intervals, number, number.saturating_add(1));
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (sid, intervals) in &other.sources {
            let mine = self.sources.entry(sid.clone()).or_default();
            for (start, end) in intervals {
                add(mine, *start, *end);
            }
        }
    }

    /// Whether one transaction is in the set.
    pub fn contains(&self, uuid: &str, tag: &str, number: u64) -> bool {
        let sid = Sid {
            uuid: uuid.to_ascii_lowercase(),
            tag: tag.to_ascii_lowercase(),
        };
        self.sources
            .get(&sid)
            .is_some_and(|mine| covers(mine, number, number.saturating_add(1)))
    }

    /// Whether every transaction of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.sources.iter().all(|(sid, intervals)| {
            intervals.is_empty()
                || other.sources.get(sid).is_some_and(|theirs| {
                    intervals
                        .iter()
                        .all(|(start, end)| covers(theirs, *start, *end))
                })
        })
    }

    /// True when no transaction is in it.
    pub fn is_empty(&self) -> bool {
        self.sources.values().all(Vec::is_empty)
    }

    /// UUID, tag, and half-open intervals of every source, for the dump command.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str, &[(u64, u64)])> {
        self.sources
            .iter()
            .map(|(sid, intervals)| (sid.uuid.as_str(), sid.tag.as_str(), intervals.as_slice()))
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
                .to_string();
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
                let sid = Sid {
                    uuid: uuid.clone(),
                    tag: tag.clone(),
                };
                add(set.sources.entry(sid).or_default(), start, end + 1);
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
        let mut uuid_before: Option<&str> = None;
        for (sid, intervals) in self.sources.iter().filter(|(_, list)| !list.is_empty()) {
            if uuid_before != Some(&sid.uuid) {
                if uuid_before.is_some() {
                    f.write_str(",")?;
                }
                f.write_str(&sid.uuid)?;
                uuid_before = Some(&sid.uuid);
            }
            if !sid.tag.is_empty() {
                write!(f, ":{}", sid.tag)?;
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

    #[test]
    fn a_gap_that_fills_joins() {
        let mut set: GtidSet = format!("{UUID}:1-102:105-150").parse().unwrap();
        set.insert(UUID, "", 104);
        assert_eq!(set.to_string(), format!("{UUID}:1-102:104-150"));
        set.insert(UUID, "", 103);
        assert_eq!(set.to_string(), format!("{UUID}:1-150"));
    }

    #[test]
    fn tags_and_case() {
        let text = format!("{}:1-3:Blue:7:9-10", UUID.to_uppercase());
        let set: GtidSet = text.parse().unwrap();
        assert_eq!(set.to_string(), format!("{UUID}:1-3:blue:7:9-10"));
        assert!(set.contains(UUID, "blue", 9) && !set.contains(UUID, "", 9));
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
                for n in numbers { set.insert(UUID, "", u64::from(*n) + 1); }
                set
            };
            let (a, b) = (fill(&numbers), fill(&others));
            let (x, y): (BTreeSet<_>, BTreeSet<_>) = (numbers.iter().collect(), others.iter().collect());
            proptest::prop_assert_eq!(a.is_subset(&b), x.is_subset(&y));
            proptest::prop_assert_eq!(a.to_string().parse::<GtidSet>().unwrap(), a);
        }
    }
}
