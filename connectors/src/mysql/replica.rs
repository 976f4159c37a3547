//! The job among the server's replicas: its id, its uuid, and who else is connected.
//!
//! The server tells replicas apart by the uuid in `@replica_uuid` (`@slave_uuid` before 8.0.26)
//! and ends an older dump of the same uuid when a new one starts. A job that was killed is still
//! registered until the server sends into the dead connection; by its uuid the next run takes
//! the place over at once. Source: `kill_zombie_dump_threads` in MySQL's `sql/rpl_source.cc`.

use mysql_async::{Conn, Row};
use uuid::Uuid;

use super::{
    connect::{Identity, query},
    options::{MysqlOptions, ServerIds},
    versions,
};
use crate::error::Result;

/// The id drawn for jobs that name none, as Flink CDC draws it.
const RANDOM_FROM: u32 = 5400;
const RANDOM_COUNT: u32 = 1001;

/// A replica that the server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    /// Its server id.
    pub id: u32,
    /// Its uuid; empty when it has said none.
    pub uuid: String,
}

/// The uuid of a job: the same in each of its runs, different from those of other jobs. `job` is
/// whatever tells jobs apart.
pub fn replica_uuid(job: &str) -> Uuid {
    // FNV-1a with 128 bits (RFC 9923).
    let hash = job.bytes().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b),
    );
    uuid::Builder::from_random_bytes(hash.to_be_bytes()).into_uuid()
}

/// Replicas that are connected, or that the server still takes for connected.
pub(super) async fn connected(conn: &mut Conn, identity: &Identity) -> Result<Vec<Replica>> {
    let rows: Vec<Row> = query(conn, versions::show_replicas(identity.numbers)).await?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            Some(Replica {
                id: row.get_opt(0)?.ok()?,
                // Columns: id, host, (user, password,) port, source's id, uuid.
                uuid: row.get_opt(row.len().checked_sub(1)?)?.unwrap_or_default(),
            })
        })
        .collect())
}

/// Whether an id is another replica's. A registration under the job's own uuid is what a former
/// run has left behind.
pub(super) fn is_taken(id: u32, own: &Uuid, identity: &Identity, others: &[Replica]) -> bool {
    let own = own.to_string();
    id == identity.server_id
        || others
            .iter()
            .any(|other| other.id == id && !other.uuid.eq_ignore_ascii_case(&own))
}

/// The id to start with.
pub(super) fn first_id(options: &MysqlOptions) -> u32 {
    match &options.server_ids {
        ServerIds::Random => drawn(&options.replica_uuid, 0),
        ServerIds::Range(range) => *range.start(),
    }
}

/// An id that nobody else has: `current` when it is free, else, where the job names none, the next
/// that is. `None` when all are taken.
pub(super) fn free_id(
    current: u32,
    options: &MysqlOptions,
    identity: &Identity,
    others: &[Replica],
) -> Option<u32> {
    let free = |id: &u32| !is_taken(*id, &options.replica_uuid, identity, others);
    match options.server_ids {
        ServerIds::Range(_) => Some(current).filter(free),
        ServerIds::Random => std::iter::once(current)
            .chain((0..RANDOM_COUNT).map(|step| drawn(&options.replica_uuid, step)))
            .find(free),
    }
}

/// The ids of a job in the order in which they are tried.
fn drawn(uuid: &Uuid, step: u32) -> u32 {
    let start = (uuid.as_u128() % u128::from(RANDOM_COUNT)) as u32;
    RANDOM_FROM + (start + step) % RANDOM_COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Identity {
        Identity {
            uuid: String::new(),
            server_id: 1,
            version: String::new(),
            numbers: (9, 0, 0),
            gtid: true,
            fold_names: false,
        }
    }

    fn replica(id: u32, uuid: &Uuid) -> Replica {
        Replica {
            id,
            uuid: uuid.to_string().to_uppercase(),
        }
    }

    #[test]
    fn a_job_has_one_uuid() {
        assert_eq!(replica_uuid("a\n/state"), replica_uuid("a\n/state"));
        assert_ne!(replica_uuid("a\n/state"), replica_uuid("b\n/state"));
        assert_eq!(replica_uuid("").get_version_num(), 4);
    }

    #[test]
    fn only_others_take_an_id() {
        let mut options = MysqlOptions::new("h", 1, "u");
        options.server_ids = ServerIds::Range(7..=9);
        let other = replica_uuid("other");
        let own = [replica(7, &options.replica_uuid), replica(8, &other)];
        assert_eq!(free_id(7, &options, &server(), &own), Some(7));
        assert_eq!(free_id(8, &options, &server(), &own), None);
        assert_eq!(free_id(1, &options, &server(), &[]), None);
    }

    #[test]
    fn a_drawn_id_is_free() {
        let options = MysqlOptions::new("h", 1, "u");
        let other = replica_uuid("other");
        let first = first_id(&options);
        assert!((5400..=6400).contains(&first));
        let mut others = Vec::new();
        for _ in 0..RANDOM_COUNT {
            let id = free_id(first, &options, &server(), &others).unwrap();
            others.push(replica(id, &other));
        }
        assert_eq!(free_id(first, &options, &server(), &others), None);
    }
}
