//! The tail: the log from a position on, as batches, schema changes and barriers.
//!
//! ```text
//! events ─► LogStream (checksum) ─► Tail (transactions, position) ─► Tables (decoders) ─► out
//!                                      └─ statements ─► ddl           └─ XaRows until XA COMMIT
//! ```

mod dark;
mod event;
mod payload;
pub(super) mod scan;
mod statement;
mod stream;
mod tables;
mod transaction;
mod xa;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mysql_common::binlog::{
    consts::{EventFlags, EventType},
    events::{GtidEvent, RotateEvent},
};
use tokio::sync::{mpsc, watch};

use self::{
    dark::Waiting,
    event::LogEvent,
    stream::{LogStream, Next},
    tables::{Entry, Tables},
    xa::{OpenXa, XaRows},
};
pub(super) use self::{
    stream::{LOST_ADVICE, PURGED_ADVICE},
    tables::{BYTES_MAX, ROWS_MAX},
};
use super::{connect::Identity, options::MysqlOptions, registry::Registry, state::MysqlState};
use crate::{
    change::{Barrier, ChangeBatch, TailItem, TailProgress},
    error::{Error, Result},
    position::{MysqlPosition, Position},
    source::{BarrierGate, SourceState},
};

/// How long to wait for an event before looking at the gate again.
const POLL: Duration = Duration::from_millis(20);
/// Silence after which waiting rows are sent.
const IDLE_FLUSH: Duration = Duration::from_millis(200);
/// Time between two updates of the progress.
const PROGRESS: Duration = Duration::from_millis(100);
/// Events between two looks at the clock.
const CLOCK_EVERY: usize = 64;
/// Table id of a rows event that only ends a statement.
const DUMMY_TABLE_ID: u64 = 0x00ff_ffff;

/// UUID, tag and number of a transaction.
pub(super) type Gtid = ([u8; 16], String, u64);

/// Where the tail stands between two events.
enum Phase {
    /// Between transactions.
    Edge,
    /// Behind a GTID event.
    Begun,
    /// Inside a transaction whose rows count at once.
    Open,
    /// Inside an XA transaction, whose rows wait for XA COMMIT.
    Xa(String, Box<XaRows>),
}

/// One run of the tail.
pub(super) struct Tail<'a> {
    options: &'a MysqlOptions,
    identity: &'a Identity,
    registry: &'a Registry,
    state: MysqlState,
    /// `state` as the checkpoint keeps it; made anew when it changes.
    state_value: serde_json::Value,
    tables: Tables,
    /// Tables whose schema the server is to be asked for.
    waiting: Vec<Waiting>,
    position: Position,
    phase: Phase,
    gtid: Option<Gtid>,
    /// Commit time of the transaction that is open, in milliseconds.
    commit_ms: i64,
    /// Rows of captured tables in the open transaction.
    open_rows: u64,
    /// The open transaction came compressed, and its end has not come yet.
    in_payload: bool,
    xa: OpenXa,
    format_seen: bool,
    event_time_ms: Option<i64>,
    rows: u64,
    bytes: u64,
    gate: Arc<dyn BarrierGate>,
    out: mpsc::Sender<TailItem>,
    progress: watch::Sender<TailProgress>,
    progress_at: Instant,
}

impl<'a> Tail<'a> {
    /// Prepares a run from a saved state.
    pub fn new(
        options: &'a MysqlOptions,
        identity: &'a Identity,
        registry: &'a Registry,
        from: &SourceState,
        gate: Arc<dyn BarrierGate>,
        out: mpsc::Sender<TailItem>,
        progress: watch::Sender<TailProgress>,
    ) -> Result<Self> {
        let (state, mut position) = MysqlState::read(from)?;
        if position.gtid_set.is_some() && position.server_uuid != identity.uuid {
            // Another server: its files are others, only GTIDs count.
            position.file.clear();
            position.offset = 0;
            position.server_uuid.clone_from(&identity.uuid);
        }
        Ok(Self {
            options,
            identity,
            registry,
            state_value: state.to_value()?,
            waiting: state
                .tables
                .iter()
                .enumerate()
                .filter(|(_, table)| {
                    let dark = state.dark.get(&table.name.to_string());
                    dark.is_some_and(|dark| !dark.gone)
                })
                .map(|(index, _)| Waiting::new(index))
                .collect(),
            tables: Tables::new(&state, registry.zero_dates.clone()),
            state,
            position: Position::Mysql(position),
            phase: Phase::Edge,
            gtid: None,
            commit_ms: 0,
            open_rows: 0,
            in_payload: false,
            xa: OpenXa::default(),
            format_seen: false,
            event_time_ms: None,
            rows: 0,
            bytes: 0,
            gate,
            out,
            progress,
            progress_at: Instant::now(),
        })
    }

    /// Runs until an error, or until nobody listens any more.
    pub async fn run(mut self, server_id: u32) -> Result<()> {
        let from = self.mysql()?.clone();
        let mut stream = LogStream::open(&from, self.identity, server_id, self.options).await?;
        tracing::info!(position = %self.position, server_id, "reading MySQL's log");
        let mut events = 0_usize;
        loop {
            let next = stream.next(POLL).await.map_err(|e| self.located(e))?;
            let is_idle = matches!(next, Next::Idle);
            let done = match next {
                Next::Event(event) => {
                    let result = self.event(&event).await;
                    result.map_err(|e| self.located(e))
                }
                Next::Idle => self.idle(stream.silence()).await,
            };
            match done {
                Err(_) if self.out.is_closed() => return Ok(()),
                result => result?,
            }
            events = events.wrapping_add(1);
            let look = is_idle || events.is_multiple_of(CLOCK_EVERY);
            if look && self.progress_at.elapsed() >= PROGRESS {
                self.report();
            }
        }
    }

    fn mysql(&self) -> Result<&MysqlPosition> {
        match &self.position {
            Position::Mysql(position) => Ok(position),
            Position::Log { .. } => Err(Error::definite("not a MySQL position")),
        }
    }

    fn mysql_mut(&mut self) -> Result<&mut MysqlPosition> {
        match &mut self.position {
            Position::Mysql(position) => Ok(position),
            Position::Log { .. } => Err(Error::definite("not a MySQL position")),
        }
    }

    /// File and offset, for messages.
    fn place(&self) -> String {
        match &self.position {
            Position::Mysql(position) => format!("{}:{}", position.file, position.offset),
            Position::Log { offset } => offset.to_string(),
        }
    }

    fn located(&self, error: Error) -> Error {
        if error.is_transient() || error.has_position() {
            error
        } else {
            error.position(self.place())
        }
    }

    async fn send(&self, item: TailItem) -> Result<()> {
        self.out
            .send(item)
            .await
            .map_err(|_| Error::transient("nobody listens to the tail"))
    }

    async fn send_rows(&self, batch: Option<ChangeBatch>) -> Result<()> {
        match batch {
            Some(batch) => self.send(TailItem::Rows(batch)).await,
            None => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<()> {
        for index in self.tables.waiting() {
            let batch = self.tables.take(index)?;
            self.send_rows(batch).await?;
        }
        Ok(())
    }

    async fn idle(&mut self, silence: Duration) -> Result<()> {
        if silence >= IDLE_FLUSH {
            self.flush().await?;
        }
        if matches!(self.phase, Phase::Edge) {
            self.edge().await?;
        }
        Ok(())
    }

    /// A transaction edge: asks the gate.
    async fn edge(&mut self) -> Result<()> {
        if self.out.is_closed() {
            return Err(Error::transient("nobody listens to the tail"));
        }
        if !self.waiting.is_empty() {
            self.look().await?;
        }
        let position = self.mysql()?;
        // Without GTIDs the dump command takes 32 bits. So far behind in a file there is only its
        // end, and the head of the next file follows at once.
        if position.gtid_set.is_none() && position.offset > u64::from(u32::MAX) {
            return Ok(());
        }
        if position.file.is_empty() || !self.gate.wants(&self.position) {
            return Ok(());
        }
        self.flush().await?;
        self.tables.shrink();
        self.send(TailItem::Barrier(Barrier {
            state: SourceState {
                position: self.position.clone(),
                connector: self.state_value.clone(),
            },
            event_time_ms: self.event_time_ms,
        }))
        .await?;
        self.report();
        Ok(())
    }

    fn report(&mut self) {
        self.progress_at = Instant::now();
        self.progress.send_replace(TailProgress {
            position: self.position.to_string(),
            event_time_ms: self.event_time_ms,
            rows: self.rows,
            bytes: self.bytes,
            zero_dates: self.registry.zero_dates.count(),
            table_rows: self
                .tables
                .iter()
                .filter(|entry| entry.rows > 0)
                .map(|entry| (entry.table.name.clone(), entry.rows))
                .collect(),
        });
    }

    /// Moves the offset to the end of an event. Its header counts in 32 bits.
    fn advance(&mut self, log_pos: u32) -> Result<()> {
        let position = self.mysql_mut()?;
        if log_pos != 0 {
            position.offset = widened(position.offset, log_pos);
        }
        Ok(())
    }

    async fn event(&mut self, event: &LogEvent<'_>) -> Result<()> {
        let header = event.header();
        let artificial = header.flags().contains(EventFlags::LOG_EVENT_ARTIFICIAL_F);
        if !self.in_payload {
            self.bytes += u64::from(header.event_size());
            let is_rotate = header.event_type_raw() == EventType::ROTATE_EVENT as u8;
            if !artificial && !is_rotate {
                self.advance(header.log_pos())?;
            }
        }
        let Ok(kind) = header.event_type() else {
            return self.unknown(event);
        };
        if self.in_payload && !may_be_compressed(kind) {
            return Err(Error::definite(
                "damaged event: a compressed transaction ends without its commit",
            ));
        }
        match kind {
            EventType::ROTATE_EVENT => self.rotate(event).await,
            EventType::FORMAT_DESCRIPTION_EVENT => self.format(),
            EventType::HEARTBEAT_EVENT | EventType::PREVIOUS_GTIDS_EVENT => match self.phase {
                Phase::Edge => self.edge().await,
                _ => Ok(()),
            },
            EventType::GTID_EVENT
            | EventType::GTID_TAGGED_LOG_EVENT
            | EventType::ANONYMOUS_GTID_EVENT => self.begin(event, kind),
            EventType::TRANSACTION_PAYLOAD_EVENT => {
                // Its events follow, and the last of them must be its commit.
                self.in_payload = true;
                Ok(())
            }
            EventType::QUERY_EVENT => self.query(event).await,
            EventType::TABLE_MAP_EVENT => self.table_map(event).await,
            EventType::XID_EVENT => self.commit().await,
            EventType::XA_PREPARE_LOG_EVENT => self.xa_prepare(event).await,
            EventType::WRITE_ROWS_EVENT
            | EventType::UPDATE_ROWS_EVENT
            | EventType::DELETE_ROWS_EVENT
            | EventType::WRITE_ROWS_EVENT_V1
            | EventType::UPDATE_ROWS_EVENT_V1
            | EventType::DELETE_ROWS_EVENT_V1
            | EventType::PARTIAL_UPDATE_ROWS_EVENT => self.rows(event, kind).await,
            EventType::INCIDENT_EVENT => Err(Error::definite(
                "MySQL has logged an incident: changes may be missing from its log",
            )
            .advice("Compare the tables with `headwater verify`, or start the job anew")),
            EventType::BEGIN_LOAD_QUERY_EVENT
            | EventType::EXECUTE_LOAD_QUERY_EVENT
            | EventType::APPEND_BLOCK_EVENT => Err(statement::logged_as_text("LOAD DATA")),
            EventType::PRE_GA_WRITE_ROWS_EVENT
            | EventType::PRE_GA_UPDATE_ROWS_EVENT
            | EventType::PRE_GA_DELETE_ROWS_EVENT => {
                Err(Error::definite("rows in a format older than MySQL 5.1"))
            }
            _ => Ok(()),
        }
    }

    /// Events that this program does not know may be skipped only where the server says so.
    fn unknown(&self, event: &LogEvent<'_>) -> Result<()> {
        // HEARTBEAT_LOG_EVENT_V2
        let is_heartbeat = event.header().event_type_raw() == 0x29;
        if is_heartbeat
            || event
                .header()
                .flags()
                .contains(EventFlags::LOG_EVENT_IGNORABLE_F)
        {
            return Ok(());
        }
        Err(Error::definite(format!(
            "an event of type {} is not known",
            event.header().event_type_raw()
        )))
    }

    /// The log goes on in another file, or the server says in which file it starts.
    async fn rotate(&mut self, event: &LogEvent<'_>) -> Result<()> {
        let rotate: RotateEvent<'_> = event.parts()?;
        let mut name = rotate.name_raw();
        // The library cannot know yet whether the first event ends in a checksum.
        if !self.format_seen
            && !is_log_name(name)
            && let Some((shorter, _)) = name.split_last_chunk::<4>()
        {
            name = shorter;
        }
        if !is_log_name(name) {
            return Err(Error::definite("damaged event: the name of a log file"));
        }
        let file = String::from_utf8_lossy(name).into_owned();
        let offset = rotate.position().max(4);
        let first = !self.format_seen;
        let position = self.mysql_mut()?;
        if first || position.file != file {
            position.file = file;
            position.offset = offset;
        }
        self.tables.forget_ids();
        match self.phase {
            Phase::Edge if self.format_seen => self.edge().await,
            _ => Ok(()),
        }
    }

    fn format(&mut self) -> Result<()> {
        self.format_seen = true;
        self.tables.forget_ids();
        self.unfinished()
    }

    /// A transaction that another one interrupts was cut off by a crash of the server.
    fn unfinished(&mut self) -> Result<()> {
        let phase = std::mem::replace(&mut self.phase, Phase::Edge);
        let rows = std::mem::take(&mut self.open_rows);
        self.gtid = None;
        match phase {
            Phase::Open if rows > 0 => Err(Error::definite(
                "a transaction ends without its commit, and some of its rows were already sent",
            )),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, event: &LogEvent<'_>, kind: EventType) -> Result<()> {
        self.unfinished()?;
        self.commit_ms = i64::from(event.header().timestamp()) * 1000;
        let gtid: GtidEvent = event.parts()?;
        if kind == EventType::ANONYMOUS_GTID_EVENT {
            if self.mysql()?.gtid_set.is_some() {
                return Err(Error::definite("a transaction without a GTID")
                    .advice("The job follows GTIDs: keep gtid_mode=ON, or start the job anew"));
            }
        } else {
            if gtid.immediate_commit_timestamp() > 0 {
                self.commit_ms = (gtid.immediate_commit_timestamp() / 1000) as i64;
            }
            if self.mysql()?.gtid_set.is_some() {
                let tag = gtid.tag().map(|tag| tag.as_str().to_owned());
                self.gtid = Some((gtid.sid(), tag.unwrap_or_default(), gtid.gno()));
            }
        }
        self.phase = Phase::Begun;
        Ok(())
    }

    /// The end of a transaction whose rows count.
    async fn commit(&mut self) -> Result<()> {
        self.in_payload = false;
        self.open_rows = 0;
        self.phase = Phase::Edge;
        if let Some(gtid) = self.gtid.take() {
            self.applied(&gtid)?;
        }
        self.event_time_ms = Some(self.commit_ms);
        self.edge().await
    }

    fn applied(&mut self, (uuid, tag, number): &Gtid) -> Result<()> {
        if let Some(set) = &mut self.mysql_mut()?.gtid_set {
            set.insert(uuid, tag, *number);
        }
        Ok(())
    }
}

/// Names of log files end in a dot and six digits or more.
fn is_log_name(name: &[u8]) -> bool {
    let digits = name
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    digits >= 6 && name.iter().rev().nth(digits) == Some(&b'.')
}

/// The offset whose low 32 bits are `log_pos` and that is nearest at or after `offset`.
fn widened(offset: u64, log_pos: u32) -> u64 {
    let low = (offset & !u64::from(u32::MAX)) | u64::from(log_pos);
    match offset.checked_sub(low) {
        // Only a wrap makes an offset that much smaller.
        Some(back) if back > u64::from(u32::MAX) / 2 => low + (1 << 32),
        Some(_) => offset,
        None => low,
    }
}

fn is_ignored(entry: &Entry, at: &MysqlPosition) -> bool {
    entry
        .ignore_up_to
        .as_ref()
        .is_some_and(|(file, offset)| at.file == *file && at.offset <= *offset)
}

/// Table maps and rows events start with the table's id, six bytes.
fn table_id(data: &[u8]) -> Option<u64> {
    let id: &[u8; 6] = data.first_chunk()?;
    Some(
        id.iter()
            .rev()
            .fold(0, |id, byte| id << 8 | u64::from(*byte)),
    )
}

/// What may stand inside a compressed transaction.
fn may_be_compressed(kind: EventType) -> bool {
    !matches!(
        kind,
        EventType::ROTATE_EVENT
            | EventType::FORMAT_DESCRIPTION_EVENT
            | EventType::HEARTBEAT_EVENT
            | EventType::PREVIOUS_GTIDS_EVENT
            | EventType::GTID_EVENT
            | EventType::GTID_TAGGED_LOG_EVENT
            | EventType::ANONYMOUS_GTID_EVENT
            | EventType::TRANSACTION_PAYLOAD_EVENT
    )
}

fn damaged(error: std::io::Error) -> Error {
    Error::definite("damaged event").cause(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_past_32_bits() {
        assert_eq!(widened(4, 500), 500);
        assert_eq!(widened(u64::from(u32::MAX) - 10, 20), (1 << 32) + 20);
        assert_eq!(widened((3 << 32) + 7, 9), (3 << 32) + 9);
        assert_eq!(widened(1000, 900), 1000);
    }

    #[test]
    fn names_of_log_files() {
        assert!(is_log_name(b"binlog.000001") && is_log_name(b"a.b.1000000"));
        assert!(!is_log_name(b"binlog.000001\x01\x92ab") && !is_log_name(b"binlog.00"));
    }

    #[test]
    fn table_ids_have_six_bytes() {
        assert_eq!(table_id(&[1, 2, 0, 0, 0, 3, 9]), Some(0x0300_0000_0201));
        assert_eq!(table_id(&[1, 2]), None);
    }
}
