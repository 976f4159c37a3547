//! Positions of the server: the two bounds of a round, the start of a job, and whether a saved
//! position still means what it meant.

use std::time::{Duration, Instant};

use mysql_async::{Conn, Row, prelude::Queryable};

use super::{
    connect::{Identity, failed, query, query_first, shorten},
    gtid::GtidSet,
    tail::{LOST_ADVICE, PURGED_ADVICE},
    versions,
};
use crate::{
    error::{Error, Result},
    position::MysqlPosition,
};

/// Longest wait of a server that has restarted or that applies a source's log, until it has what
/// the job has seen.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);
/// What a server says of XA RECOVER to an account that may not use it: ER_XAER_RMERR, whose text
/// is about something else (`check_xa_recover_privilege` in MySQL's `sql/xa.cc`).
const NO_XA_RECOVER: &str = "XAER_RMERR";
/// Time between two looks at open XA transactions.
const XA_POLL: Duration = Duration::from_millis(200);
/// Time between two warnings about them.
const XA_WARNING: Duration = Duration::from_secs(10);

/// `gtid_executed`: every transaction in it can be read.
pub(super) async fn executed(conn: &mut Conn) -> Result<GtidSet> {
    let text: Option<String> = query_first(conn, "SELECT @@global.gtid_executed").await?;
    parse_set(&text.unwrap_or_default())
}

fn parse_set(text: &str) -> Result<GtidSet> {
    text.parse()
        .map_err(|e| Error::definite("MySQL gives a GTID set that cannot be read").cause(e))
}

/// The end of the log: everything that can be read is before it.
pub(super) async fn log_end(conn: &mut Conn, identity: &Identity) -> Result<MysqlPosition> {
    let sql = versions::show_log_status(identity.numbers);
    let row: Option<Row> = conn
        .query_first(sql)
        .await
        .map_err(|e| failed(&format!("MySQL refused '{sql}'"), e))?;
    let row = row.ok_or_else(|| {
        Error::definite("MySQL writes no binary log").advice("Start the server with log_bin")
    })?;
    let (Some(Ok(file)), Some(Ok(offset))) =
        (row.get_opt::<String, _>(0), row.get_opt::<u64, _>(1))
    else {
        return Err(Error::definite("MySQL does not say where its log ends"));
    };
    let set = row.get_opt::<String, _>(4).and_then(|set| set.ok());
    Ok(MysqlPosition {
        gtid_set: match identity.gtid {
            true => Some(parse_set(&set.unwrap_or_default())?),
            false => None,
        },
        file,
        offset,
        server_uuid: identity.uuid.clone(),
    })
}

/// Rule 3 and L: waits until everything that the tail has emitted can be read, then takes what
/// can be read. Without GTIDs there is no such thing, and L is what was emitted.
pub(super) async fn low(
    conn: &mut Conn,
    identity: &Identity,
    emitted: &MysqlPosition,
) -> Result<MysqlPosition> {
    let Some(set) = &emitted.gtid_set else {
        return Ok(emitted.clone());
    };
    let started = Instant::now();
    let mut warned = started;
    while !wait_for(conn, set, 1).await? {
        if warned.elapsed() > XA_WARNING {
            warned = Instant::now();
            tracing::warn!(
                waited_s = started.elapsed().as_secs(),
                "waiting until MySQL has committed what its log says; a transaction waits for a \
                 replica's acknowledgement, or this server lags behind the tail's"
            );
        }
    }
    Ok(MysqlPosition {
        gtid_set: Some(executed(conn).await?),
        file: emitted.file.clone(),
        offset: emitted.offset,
        server_uuid: identity.uuid.clone(),
    })
}

/// Whether a set is executed within `seconds`.
async fn wait_for(conn: &mut Conn, set: &GtidSet, seconds: u32) -> Result<bool> {
    let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {seconds})");
    Ok(query_first::<i64>(conn, &sql).await? == Some(0))
}

/// Waits until no transaction is prepared and takes `gtid_executed` from before that look: no row
/// of it is still invisible.
pub(super) async fn settled(conn: &mut Conn, identity: &Identity) -> Result<Option<GtidSet>> {
    let mut warned: Option<Instant> = None;
    loop {
        let set = match identity.gtid {
            true => Some(executed(conn).await?),
            false => None,
        };
        let open = match prepared(conn).await {
            Ok(open) => open,
            Err(error) if !error.is_transient() => {
                tracing::warn!(
                    %error,
                    "cannot look for open XA transactions: rows of one that is prepared now could \
                     be missed"
                );
                return Ok(set);
            }
            Err(error) => return Err(error),
        };
        if open.is_empty() {
            return Ok(set);
        }
        if warned.is_none_or(|at| at.elapsed() > XA_WARNING) {
            warned = Some(Instant::now());
            tracing::warn!(
                xids = %shorten(&open.join(", "), 500),
                "waiting for prepared XA transactions: commit them or roll them back"
            );
        }
        tokio::time::sleep(XA_POLL).await;
    }
}

/// Xids of prepared transactions.
pub(super) async fn prepared(conn: &mut Conn) -> Result<Vec<String>> {
    let rows: Result<Vec<(i64, usize, usize, String)>> =
        query(conn, "XA RECOVER CONVERT XID").await;
    let rows = rows.map_err(|error| match error.to_string().contains(NO_XA_RECOVER) {
        true => Error::definite(
            "the account lacks XA_RECOVER_ADMIN, which open XA transactions are listed with",
        )
        .advice("GRANT XA_RECOVER_ADMIN ON *.* TO the job's account"),
        false => error,
    })?;
    let xids = rows.iter();
    Ok(xids
        .map(|(format, global, branch, data)| xid(*format, *global, *branch, data))
        .collect())
}

/// An xid as `XA COMMIT` takes it. The server gives the bytes of both its parts in hexadecimal.
fn xid(format: i64, global: usize, branch: usize, data: &str) -> String {
    let hex = data.strip_prefix("0x").unwrap_or(data);
    let part = |from: usize, bytes: usize| {
        let hex = hex.get(2 * from..2 * (from + bytes))?;
        let text: Option<String> = (0..bytes)
            .map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok())
            .map(|byte| Some(char::from(byte?)).filter(|c| matches!(c, ' '..='~') && *c != '\''))
            .collect();
        Some(match text {
            Some(text) => format!("'{text}'"),
            None => format!("X'{hex}'"),
        })
    };
    match (part(0, global), part(global, branch), format) {
        (Some(global), Some(_), 1) if branch == 0 => global,
        (Some(global), Some(branch), 1) => format!("{global},{branch}"),
        (Some(global), Some(branch), _) => format!("{global},{branch},{format}"),
        _ => data.to_owned(),
    }
}

/// Whether the server can go on from a saved position.
pub(super) async fn verify(
    conn: &mut Conn,
    identity: &Identity,
    position: &MysqlPosition,
) -> Result<()> {
    match &position.gtid_set {
        Some(set) if identity.gtid => verify_set(conn, set).await,
        Some(_) => Err(
            Error::definite("the job follows GTIDs, and MySQL has none now")
                .advice("Set gtid_mode=ON again, or start the job anew into empty tables"),
        ),
        None => verify_file(conn, identity, position).await,
    }
}

async fn verify_set(conn: &mut Conn, set: &GtidSet) -> Result<()> {
    let started = Instant::now();
    while !wait_for(conn, set, 1).await? {
        if started.elapsed() > CATCH_UP_MAX {
            let sql = format!("SELECT GTID_SUBTRACT('{set}', @@global.gtid_executed)");
            let missing: Option<String> = query_first(conn, &sql).await?;
            return Err(Error::definite(format!(
                "MySQL does not have transactions that the job has already applied: {}",
                shorten(&missing.unwrap_or_default(), 300)
            ))
            .position(set)
            .advice(LOST_ADVICE));
        }
    }
    let row: Option<(String, String)> = query_first(
        conn,
        &format!("SELECT GTID_SUBTRACT(@@global.gtid_purged, '{set}'), @@global.gtid_purged"),
    )
    .await?;
    match row {
        Some((gone, purged)) if !gone.trim().is_empty() => Err(Error::definite(format!(
            "MySQL has purged the log that the job goes on from: wanted is what follows {set}, \
             the oldest available is what follows {}; {} are gone",
            shorten(&purged, 300),
            shorten(&gone, 300)
        ))
        .position(set)
        .advice(PURGED_ADVICE)),
        _ => Ok(()),
    }
}

async fn verify_file(conn: &mut Conn, identity: &Identity, position: &MysqlPosition) -> Result<()> {
    if identity.uuid != position.server_uuid {
        return Err(Error::definite(format!(
            "another server answers ({}) than the one whose log the job has read ({}), and \
             without GTIDs their logs do not compare",
            identity.uuid, position.server_uuid
        ))
        .position(position)
        .advice("Connect to the server that the job has read, or start the job anew"));
    }
    let rows: Vec<Row> = query(conn, "SHOW BINARY LOGS").await?;
    let files: Vec<(String, u64)> = rows
        .iter()
        .filter_map(|row| Some((row.get_opt(0)?.ok()?, row.get_opt(1)?.ok()?)))
        .collect();
    match files.iter().find(|(file, _)| *file == position.file) {
        Some((_, size)) if *size >= position.offset => Ok(()),
        Some((_, size)) => Err(Error::definite(format!(
            "MySQL's log {} ends at {size}, before the position that the job has applied",
            position.file
        ))
        .position(position)
        .advice(LOST_ADVICE)),
        None => Err(Error::definite(format!(
            "MySQL has purged the log that the job goes on from: wanted is {}:{}, the oldest \
             available is {}",
            position.file,
            position.offset,
            files.first().map_or("none", |(file, _)| file)
        ))
        .position(position)
        .advice(PURGED_ADVICE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_are_text_where_they_can_be() {
        assert_eq!(xid(1, 1, 0, "0x61"), "'a'");
        assert_eq!(xid(1, 2, 1, "0x616263"), "'ab','c'");
        assert_eq!(xid(7, 1, 0, "0x61"), "'a','',7");
        assert_eq!(xid(1, 2, 1, "0x610027"), "X'6100',X'27'");
        assert_eq!(xid(1, 9, 0, "0x61"), "0x61");
    }
}
