//! A table as a fixed number of sums: equal tables have equal sums, and unequal sums say where to
//! look.

/// Groups of keys in a table. 65,536 sums take 2 MB a side, and one differing key in a table of a
/// billion rows makes 15,000 rows be looked at again.
pub(super) const GROUPS: usize = 1 << 16;

/// The group of a key, by its hash.
pub(super) fn group_of(key: u128) -> usize {
    (key >> (128 - GROUPS.trailing_zeros())) as usize
}

/// Number of rows and sum of row hashes for each group of keys; in whatever order rows come.
#[derive(Debug, Clone)]
pub(super) struct Groups(Vec<Sum>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    hashes: u128,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self(vec![Sum::default(); GROUPS])
    }

    /// Takes a row.
    pub(super) fn add(&mut self, key: u128, row: u128) {
        if let Some(sum) = self.0.get_mut(group_of(key)) {
            sum.rows += 1;
            sum.hashes = sum.hashes.wrapping_add(row);
        }
    }

    /// Takes all rows of another.
    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            sum.rows += more.rows;
            sum.hashes = sum.hashes.wrapping_add(more.hashes);
        }
    }

    /// All rows.
    pub(super) fn rows(&self) -> u64 {
        self.0.iter().map(|sum| sum.rows).sum()
    }

    /// Groups that are not equal, each with the rows of the larger side.
    pub(super) fn differing(&self, other: &Self) -> Vec<(usize, u64)> {
        let sides = self.0.iter().zip(&other.0).enumerate();
        sides
            .filter(|(_, (mine, theirs))| mine != theirs)
            .map(|(group, (mine, theirs))| (group, mine.rows.max(theirs.rows)))
            .collect()
    }
}

/// A set of groups.
#[derive(Debug)]
pub(super) struct GroupSet(Vec<bool>);

impl GroupSet {
    pub(super) fn new(groups: &[(usize, u64)]) -> Self {
        let mut set = vec![false; GROUPS];
        for (group, _) in groups {
            if let Some(wanted) = set.get_mut(*group) {
                *wanted = true;
            }
        }
        Self(set)
    }

    /// Whether the key's group is in the set.
    pub(super) fn has(&self, key: u128) -> bool {
        self.0.get(group_of(key)).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_order_and_tell_a_doubled_row() {
        let high = 1 << 127;
        let rows = [(1, 10), (2, 20), (high, 30)];
        let (mut left, mut right) = (Groups::new(), Groups::new());
        rows.iter().for_each(|(key, row)| left.add(*key, *row));
        rows.iter()
            .rev()
            .for_each(|(key, row)| right.add(*key, *row));
        assert!(left.differing(&right).is_empty());
        right.add(high, 30);
        assert_eq!(left.differing(&right), [(GROUPS / 2, 2)]);
        let set = GroupSet::new(&left.differing(&right));
        assert!(set.has(high) && !set.has(1));
        left.merge(&right);
        assert_eq!(left.rows(), 7);
    }
}
