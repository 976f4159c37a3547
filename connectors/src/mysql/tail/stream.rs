//! The log as a stream of events, each checked before anyone looks inside.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::{FutureExt, StreamExt};
use mysql_async::{BinlogStream, BinlogStreamRequest, Conn, Sid};
use mysql_common::{
    binlog::{
        consts::BinlogChecksumAlg,
        events::{Event, TableMapEvent},
    },
    packets::{GnoInterval, Tag},
};

use crate::{
    error::{Error, Meaning, Result},
    mysql::{
        connect::{codec_error, execute, failed},
        gtid::GtidSet,
        options::MysqlOptions,
    },
    position::MysqlPosition,
};

/// What waiting for the log brought.
pub(super) enum Next {
    /// An event whose checksum is right.
    Event(Box<Event>),
    /// Nothing for as long as was asked.
    Idle,
}

/// An open log.
pub(super) struct LogStream {
    stream: BinlogStream,
    silence: Duration,
    silence_max: Duration,
}

/// Longest time between two heartbeats that we ask for: the server sends nothing else when it has
/// nothing, and a dead connection shows only by silence.
const HEARTBEAT_MAX: Duration = Duration::from_secs(30);

impl LogStream {
    /// Asks for the log from a position on.
    pub async fn open(
        mut conn: Conn,
        from: &MysqlPosition,
        server_id: u32,
        options: &MysqlOptions,
    ) -> Result<Self> {
        let heartbeat = options
            .heartbeat_interval
            .clamp(Duration::from_millis(500), HEARTBEAT_MAX);
        let (nanos, uuid) = (heartbeat.as_nanos(), options.replica_uuid);
        // Under their names before and since 8.0.26.
        execute(
            &mut conn,
            &format!(
                "SET @master_heartbeat_period = {nanos}, @source_heartbeat_period = {nanos}, \
                 @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'"
            ),
        )
        .await?;
        let request = BinlogStreamRequest::new(server_id);
        let request = match &from.gtid_set {
            Some(set) => request.with_gtid().with_gtid_set(sids(set)?),
            None => request
                .with_filename(from.file.as_bytes())
                .with_pos(from.offset),
        };
        let stream = conn
            .get_binlog_stream(request)
            .await
            .map_err(|e| log_failed(e, "cannot ask MySQL for its log"))?;
        Ok(Self {
            stream,
            silence: Duration::ZERO,
            silence_max: heartbeat * 3 + Duration::from_secs(10),
        })
    }

    /// How long nothing has come.
    pub fn silence(&self) -> Duration {
        self.silence
    }

    /// The latest table map of a table id.
    pub fn table_map(&self, id: u64) -> Option<&TableMapEvent<'static>> {
        self.stream.get_tme(id)
    }

    /// The next event, or [`Next::Idle`] when none comes within `wait`.
    pub async fn next(&mut self, wait: Duration) -> Result<Next> {
        // A damaged length makes the library panic; nothing of ours is left half done by it.
        let mut next = AssertUnwindSafe(self.stream.next()).catch_unwind();
        let item = match (&mut next).now_or_never() {
            Some(item) => item,
            None => match tokio::time::timeout(wait, next).await {
                Ok(item) => item,
                Err(_) => {
                    self.silence += wait;
                    if self.silence > self.silence_max {
                        return Err(Error::transient(format!(
                            "the log is silent, without a heartbeat for {:?}",
                            self.silence
                        )));
                    }
                    return Ok(Next::Idle);
                }
            },
        };
        self.silence = Duration::ZERO;
        match item {
            Err(_) => Err(Error::definite("damaged event: its length is impossible")),
            Ok(None) => Err(Error::transient("MySQL ended the log stream")),
            Ok(Some(Err(e))) => Err(log_failed(e, "cannot read MySQL's log")),
            Ok(Some(Ok(event))) => {
                check(&event)?;
                Ok(Next::Event(Box::new(event)))
            }
        }
    }
}

/// Compares the checksum that came with an event; the library does not.
fn check(event: &Event) -> Result<()> {
    let footer = event.footer();
    let alg = footer
        .get_checksum_alg()
        .map_err(|e| Error::definite("damaged event: unknown checksum").cause(e))?;
    if alg != Some(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32) || !footer.get_checksum_enabled() {
        return Ok(());
    }
    let Some(sent) = event.checksum() else {
        return Ok(());
    };
    if event.calc_checksum(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32) != u32::from_le_bytes(sent)
    {
        return Err(
            Error::definite("damaged event: its checksum is wrong").advice(
                "Look for a faulty disk or network; `mysqlbinlog --verify-binlog-checksum` shows \
             whether the file itself is damaged",
            ),
        );
    }
    Ok(())
}

fn sids(set: &GtidSet) -> Result<Vec<Sid<'static>>> {
    set.sources()
        .map(|(uuid, tag, intervals)| {
            let sid = Sid::new(*uuid);
            let sid = if tag.is_empty() {
                sid
            } else {
                let tag = Tag::new(tag.to_owned())
                    .map_err(|e| Error::definite(format!("GTID tag '{tag}'")).cause(e))?;
                sid.with_tag(tag)
            };
            Ok(intervals.iter().fold(sid, |sid, (start, end)| {
                sid.with_interval(GnoInterval::new(*start, *end))
            }))
        })
        .collect()
}

/// `ER_MASTER_FATAL_ERROR_READING_BINLOG`, and its form for purged GTIDs.
const FATAL: [u16; 2] = [1236, 1789];

/// What an error of the dump command means. Source of the texts: MySQL error reference and
/// `rpl_binlog_sender.cc`.
fn log_failed(error: mysql_async::Error, what: &str) -> Error {
    match &error {
        mysql_async::Error::Server(server) if FATAL.contains(&server.code) => {
            fatal(&server.message)
        }
        // The library reports an event that it cannot read as an I/O error, and a connection that
        // is cut within a packet as one of the same kind.
        mysql_async::Error::Io(mysql_async::IoError::Io(io)) if codec_error(io).is_some() => {
            failed(what, error)
        }
        mysql_async::Error::Io(mysql_async::IoError::Io(io))
            if io.to_string().contains("bytes remaining on stream") =>
        {
            Error::transient("the connection was cut within an event").cause(error)
        }
        mysql_async::Error::Io(mysql_async::IoError::Io(io))
            if io.kind() == std::io::ErrorKind::InvalidData
                || io.kind() == std::io::ErrorKind::Other
                || io.to_string().contains("can't parse") =>
        {
            Error::definite("damaged event").cause(error)
        }
        _ => failed(what, error),
    }
}

fn fatal(message: &str) -> Error {
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if has(&[
        "same server_uuid/server_id",
        "same server_id",
        "same server-id",
    ]) {
        // The server goes by the uuid, and that is this job's own.
        return Error::definite(
            "another instance of this job has connected to MySQL and reads its log now",
        )
        .meaning(Meaning::AnotherInstance)
        .advice("Let only one of them run; another job needs another name and state.path");
    }
    if has(&["purged", "Could not find first log file name"]) {
        return Error::definite(format!(
            "MySQL has purged the log that the job goes on from: {message}"
        ))
        .advice(PURGED_ADVICE);
    }
    if has(&[
        "position > file size",
        "more GTIDs than",
        "impossible position",
    ]) {
        return Error::definite(format!(
            "MySQL has lost transactions that the job has already applied: {message}"
        ))
        .advice(LOST_ADVICE);
    }
    Error::definite(format!("MySQL cannot read its log: {message}"))
}

/// What to do when the log is gone.
pub(in crate::mysql) const PURGED_ADVICE: &str = "The changes in between are gone: start the job \
     anew into empty tables, and keep logs longer (binlog_expire_logs_seconds)";

/// What to do when the server's history was lost.
pub(in crate::mysql) const LOST_ADVICE: &str = "The server's history is not the one that the job \
     has read (crash, failover, RESET): compare the tables with `headwater verify`, or start the \
     job anew into empty tables";
