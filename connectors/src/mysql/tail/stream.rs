//! The log as a stream of events, each checked before anyone looks inside.

use std::time::Duration;

use mysql_async::Sid;
use mysql_common::{
    binlog::{
        consts::{BinlogVersion, EventType},
        events::{FormatDescriptionEvent, TransactionPayloadEvent},
    },
    packets::{GnoInterval, Tag, binlog_request::BinlogRequest},
};

use super::{
    event::{self, LogEvent},
    payload::Payload,
};
use crate::{
    error::{Error, Meaning, Result},
    mysql::{
        connect::{Identity, failed},
        gtid::GtidSet,
        options::MysqlOptions,
        wire::{self, Found, WireConn},
    },
    position::MysqlPosition,
};

/// What waiting for the log brought.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// An event whose checksum is right.
    Event(LogEvent<'a>),
    /// Nothing for as long as was asked.
    Idle,
}

/// An open log.
#[derive(Debug)]
pub(super) struct LogStream {
    conn: WireConn,
    /// What the log said of its events.
    format: FormatDescriptionEvent<'static>,
    /// The compressed transaction whose events come next.
    payload: Option<Payload>,
    silence: Duration,
    silence_max: Duration,
}

/// Longest time between two heartbeats that we ask for: the server sends nothing else when it has
/// nothing, and a dead connection shows only by silence.
const HEARTBEAT_MAX: Duration = Duration::from_secs(30);

impl LogStream {
    /// Asks for the log from a position on, on a connection of its own, which must lead to the
    /// server that `identity` names.
    pub async fn open(
        from: &MysqlPosition,
        identity: &Identity,
        server_id: u32,
        options: &MysqlOptions,
    ) -> Result<Self> {
        let (mut conn, found) = wire::connect_known(options).await?;
        if found.uuid != identity.uuid {
            return Err(Error::transient(format!(
                "another server answers now: {} instead of {}",
                found.uuid, identity.uuid
            )));
        }
        let heartbeat = options
            .heartbeat_interval
            .clamp(Duration::from_millis(500), HEARTBEAT_MAX);
        let (nanos, uuid) = (heartbeat.as_nanos(), options.replica_uuid);
        // Under their names before and since 8.0.26.
        conn.first(&format!(
            "SET @master_heartbeat_period = {nanos}, @source_heartbeat_period = {nanos}, \
             @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'"
        ))
        .await?;
        let request = BinlogRequest::new(server_id);
        let request = match &from.gtid_set {
            Some(set) => request.with_use_gtid(true).with_sids(sids(set)?),
            None => request
                .with_filename(from.file.as_bytes())
                .with_pos(from.offset),
        };
        conn.dump(&request)
            .await
            .map_err(|e| log_failed(e, "cannot ask MySQL for its log"))?;
        Ok(Self {
            conn,
            format: FormatDescriptionEvent::new(BinlogVersion::Version4),
            payload: None,
            silence: Duration::ZERO,
            silence_max: heartbeat * 3 + Duration::from_secs(10),
        })
    }

    /// How long nothing has come.
    pub fn silence(&self) -> Duration {
        self.silence
    }

    /// The next event, or [`Next::Idle`] when none comes within `wait`.
    pub async fn next(&mut self, wait: Duration) -> Result<Next<'_>> {
        if let Some(payload) = &mut self.payload
            && !payload.advance()?
        {
            self.payload = None;
        }
        if self.payload.is_none() {
            if !self.arrive(wait).await? {
                return Ok(Next::Idle);
            }
            self.take_note()?;
        }
        let Self {
            conn,
            format,
            payload,
            ..
        } = self;
        let event = match payload {
            // The event that holds the others comes before them.
            Some(payload) if !payload.event().is_empty() => {
                LogEvent::read(payload.event(), format, true)?
            }
            _ => LogEvent::read(behind_first(conn.last_row()), format, false)?,
        };
        Ok(Next::Event(event))
    }

    /// Waits for the next packet; `false` when none comes within `wait`.
    async fn arrive(&mut self, wait: Duration) -> Result<bool> {
        let lost = |e| log_failed(e, "cannot read MySQL's log");
        loop {
            match self.conn.row().map_err(lost)? {
                Found::Row(_) => {
                    self.silence = Duration::ZERO;
                    return Ok(true);
                }
                Found::End => return Err(Error::transient("MySQL ended the log stream")),
                Found::Nothing => {}
            }
            match tokio::time::timeout(wait, self.conn.fill()).await {
                Ok(filled) => {
                    filled.map_err(lost)?;
                    self.silence = Duration::ZERO;
                }
                Err(_) => {
                    self.silence += wait;
                    if self.silence > self.silence_max {
                        return Err(Error::transient(format!(
                            "the log is silent, without a heartbeat for {:?}",
                            self.silence
                        )));
                    }
                    return Ok(false);
                }
            }
        }
    }

    /// Looks for what an event says about those that follow.
    fn take_note(&mut self) -> Result<()> {
        const FORMAT: u8 = EventType::FORMAT_DESCRIPTION_EVENT as u8;
        const PAYLOAD: u8 = EventType::TRANSACTION_PAYLOAD_EVENT as u8;
        let bytes = behind_first(self.conn.last_row());
        let kind = bytes.get(event::KIND).copied();
        if !matches!(kind, Some(FORMAT | PAYLOAD)) {
            return Ok(());
        }
        let event = LogEvent::read(bytes, &self.format, false)?;
        if kind == Some(FORMAT) {
            self.format = event.format()?;
        } else {
            let packed: TransactionPayloadEvent<'_> = event.parts()?;
            self.payload = Some(Payload::new(&packed)?);
        }
        Ok(())
    }
}

/// A packet of the log without its first byte.
fn behind_first(packet: &[u8]) -> &[u8] {
    packet.get(1..).unwrap_or_default()
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
