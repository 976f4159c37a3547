//! Statements whose words changed from version to version: major, minor, patch.

/// Major, minor, patch of a server.
pub(super) type Version = (u16, u16, u16);

/// Shows the end of the log. The new words came with 8.2.0, the old went with 8.4.0.
pub(super) fn show_log_status(version: Version) -> &'static str {
    if version >= (8, 2, 0) {
        "SHOW BINARY LOG STATUS"
    } else {
        "SHOW MASTER STATUS"
    }
}

/// Shows connected replicas. The new words came with 8.0.22, the old went with 8.4.0.
pub(super) fn show_replicas(version: Version) -> &'static str {
    if version >= (8, 0, 22) {
        "SHOW REPLICAS"
    } else {
        "SHOW SLAVE HOSTS"
    }
}

/// The variable that says whether a replica logs what it applies. Renamed in 8.0.26.
pub(super) fn log_replica_updates(version: Version) -> &'static str {
    if version >= (8, 0, 26) {
        "log_replica_updates"
    } else {
        "log_slave_updates"
    }
}

/// Makes the information schema's numbers of a table the present ones. Before 8.0.3 they always
/// are.
pub(super) fn fresh_statistics(version: Version) -> Option<&'static str> {
    (version >= (8, 0, 3)).then_some("SET SESSION information_schema_stats_expiry = 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_version() {
        for (version, status, replicas, updates, fresh) in [
            (
                (5, 7, 44),
                "SHOW MASTER STATUS",
                "SHOW SLAVE HOSTS",
                "log_slave_updates",
                false,
            ),
            (
                (8, 0, 21),
                "SHOW MASTER STATUS",
                "SHOW SLAVE HOSTS",
                "log_slave_updates",
                true,
            ),
            (
                (8, 0, 40),
                "SHOW MASTER STATUS",
                "SHOW REPLICAS",
                "log_replica_updates",
                true,
            ),
            (
                (8, 1, 0),
                "SHOW MASTER STATUS",
                "SHOW REPLICAS",
                "log_replica_updates",
                true,
            ),
            (
                (8, 2, 0),
                "SHOW BINARY LOG STATUS",
                "SHOW REPLICAS",
                "log_replica_updates",
                true,
            ),
            (
                (8, 4, 3),
                "SHOW BINARY LOG STATUS",
                "SHOW REPLICAS",
                "log_replica_updates",
                true,
            ),
        ] {
            assert_eq!(show_log_status(version), status, "{version:?}");
            assert_eq!(show_replicas(version), replicas, "{version:?}");
            assert_eq!(log_replica_updates(version), updates, "{version:?}");
            assert_eq!(fresh_statistics(version).is_some(), fresh, "{version:?}");
        }
    }
}
