//! Progress in a source's log: always a transaction edge, comparable with the bounds of a round.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::mysql::gtid::GtidSet;

/// A transaction edge in a source's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "source")]
pub enum Position {
    /// MySQL: GTID set, and file and offset with the server's identity.
    Mysql(MysqlPosition),
    /// A log that one number orders (simulated sources).
    Log {
        /// Transactions before the edge.
        offset: u64,
    },
}

impl Position {
    /// Whether everything before this edge is in `low`, the lower bound of a round: then a
    /// barrier at this edge stands before the round.
    pub fn is_contained_in(&self, low: &Self) -> bool {
        match (self, low) {
            (Self::Mysql(edge), Self::Mysql(low)) => edge.is_contained_in(low),
            (Self::Log { offset }, Self::Log { offset: low }) => offset <= low,
            _ => false,
        }
    }

    /// Whether this edge stands at or after `high`, the upper bound of a round: then the round's
    /// files may be included at it.
    pub fn is_at_or_after(&self, high: &Self) -> bool {
        match (self, high) {
            (Self::Mysql(edge), Self::Mysql(high)) => edge.is_at_or_after(high),
            (Self::Log { offset }, Self::Log { offset: high }) => offset >= high,
            _ => false,
        }
    }
}

impl Position {
    /// Whether the lower bound of a round covers all that the tail has emitted before it: then a row
    /// that the round reads is never older than what a checkpoint holds already. MySQL says so with
    /// GTIDs only.
    pub fn bounds_reads(&self) -> bool {
        match self {
            Self::Mysql(position) => position.gtid_set.is_some(),
            Self::Log { .. } => true,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mysql(position) => position.fmt(f),
            Self::Log { offset } => offset.fmt(f),
        }
    }
}

/// A transaction edge in a MySQL server's binlog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MysqlPosition {
    /// GTIDs of all transactions before the edge; `None` where the server has no GTIDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtid_set: Option<GtidSet>,
    /// Binlog file.
    pub file: String,
    /// Byte offset in the file, counted in 64 bits (the header of an event has only 32).
    pub offset: u64,
    /// `server_uuid` of the server that file and offset belong to.
    pub server_uuid: String,
}

impl MysqlPosition {
    fn is_contained_in(&self, low: &Self) -> bool {
        match (&self.gtid_set, &low.gtid_set) {
            (Some(edge), Some(low)) => edge.is_subset(low),
            _ => self.file_order(low) != Some(Ordering::Greater) && self.same_server(low),
        }
    }

    fn is_at_or_after(&self, high: &Self) -> bool {
        matches!(
            self.file_order(high),
            Some(Ordering::Equal | Ordering::Greater)
        )
    }

    fn same_server(&self, other: &Self) -> bool {
        self.server_uuid == other.server_uuid
    }

    /// Order by file number, then offset; `None` for different servers, whose files do not
    /// compare.
    fn file_order(&self, other: &Self) -> Option<Ordering> {
        self.same_server(other).then(|| {
            file_number(&self.file)
                .cmp(&file_number(&other.file))
                .then(self.offset.cmp(&other.offset))
        })
    }
}

/// The number at the end of a binlog file's name: it grows past six digits, so that names do not
/// compare as text (`bin.999999` stands before `bin.1000000`).
fn file_number(file: &str) -> u64 {
    file.rsplit_once('.')
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

impl fmt::Display for MysqlPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)?;
        if let Some(set) = &self.gtid_set {
            write!(f, " (GTID {set})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, offset: u64, gtids: Option<&str>) -> Position {
        Position::Mysql(MysqlPosition {
            gtid_set: gtids.map(|set| set.parse().unwrap()),
            file: file.into(),
            offset,
            server_uuid: "a".into(),
        })
    }

    #[test]
    fn file_numbers_are_compared_as_numbers() {
        assert!(at("bin.1000000", 4, None).is_at_or_after(&at("bin.999999", 900, None)));
        assert!(!at("bin.999999", 900, None).is_at_or_after(&at("bin.1000000", 4, None)));
    }

    #[test]
    fn containment_is_by_gtid_where_there_are_any() {
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |range: &str| format!("{uuid}:{range}");
        let edge = at("b.000009", 4, Some(&set("1-5")));
        assert!(edge.is_contained_in(&at("b.000001", 4, Some(&set("1-5")))));
        assert!(!edge.is_contained_in(&at("b.000010", 4, Some(&set("1-4:6-9")))));
    }
}
