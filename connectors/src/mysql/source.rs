//! The MySQL source: one value a job, shared by its tail and its snapshot workers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use async_trait::async_trait;
use mysql_async::Conn;
use tokio::sync::{Semaphore, mpsc, watch};

use super::{
    check,
    connect::{Identity, connect_known, identity},
    discover::{discover, inspect},
    options::{MysqlOptions, Startup},
    registry::Registry,
    replica, round,
    snapshot::{
        self, Size, lake_key,
        reader::{MysqlChunkReader, lookup},
    },
    state::MysqlState,
    table::MysqlTable,
    tail::{Tail, scan},
    wire,
};
use crate::{
    change::{TailItem, TailProgress},
    error::{Error, Result},
    position::{MysqlPosition, Position},
    schema::{TableName, TableSchema},
    source::{BarrierGate, Check, ChunkReader, Discovery, Recapture, Source, SourceState, Split},
};

/// Connections for questions that are kept; more are opened when they are needed.
const CONTROL_KEPT: usize = 2;

/// Captures a MySQL server.
#[derive(Debug)]
pub struct MysqlSource {
    options: MysqlOptions,
    /// Connections for questions, kept between calls.
    control: tokio::sync::Mutex<Vec<(Conn, Identity)>>,
    registry: Arc<Registry>,
    connections: Arc<Semaphore>,
    /// The server whose log the tail reads.
    tail_server: Mutex<Option<String>>,
    server_id: AtomicU32,
    /// Sizes of tables when they were first asked for.
    sizes: tokio::sync::Mutex<HashMap<TableName, Size>>,
}

impl MysqlSource {
    /// A source; nothing is connected yet.
    pub fn new(options: MysqlOptions) -> Self {
        Self {
            control: tokio::sync::Mutex::default(),
            registry: Arc::default(),
            connections: Arc::new(Semaphore::new(options.connections_max.max(1))),
            tail_server: Mutex::new(None),
            sizes: tokio::sync::Mutex::default(),
            server_id: AtomicU32::new(replica::first_id(&options)),
            options,
        }
    }

    fn server_id(&self) -> u32 {
        self.server_id.load(Ordering::Relaxed)
    }

    /// Takes the kept connection, or opens one; [`Self::keep`] gives it back. A connection of a
    /// call that failed is not used again.
    async fn control(&self) -> Result<(Conn, Identity)> {
        loop {
            let kept = self.control.lock().await.pop();
            let Some((mut conn, _)) = kept else {
                break;
            };
            // It may have been cut off meanwhile, or lead to another server now.
            if let Ok(identity) = identity(&mut conn).await {
                self.same_server(&identity)?;
                return Ok((conn, identity));
            }
        }
        let (conn, identity) = connect_known(&self.options).await?;
        self.same_server(&identity)?;
        Ok((conn, identity))
    }

    async fn keep(&self, conn: Conn, identity: Identity) {
        let mut kept = self.control.lock().await;
        if kept.len() < CONTROL_KEPT {
            kept.push((conn, identity));
        }
    }

    fn set_tail_server(&self, uuid: Option<String>) {
        match self.tail_server.lock() {
            Ok(mut guard) => *guard = uuid,
            Err(poisoned) => *poisoned.into_inner() = uuid,
        }
    }

    /// Behind a proxy two connections may end at two servers, whose positions do not compare.
    fn same_server(&self, identity: &Identity) -> Result<()> {
        let tail = match self.tail_server.lock() {
            Ok(guard) => guard.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };
        match tail {
            Some(tail) if tail != identity.uuid => Err(Error::transient(format!(
                "this connection leads to server {}, the log is read from {tail}",
                identity.uuid
            ))
            .advice("Connect to the server itself, not to a proxy that spreads connections")),
            _ => Ok(()),
        }
    }

    /// The id to register with; an error when it is another job's.
    async fn free_server_id(&self, conn: &mut Conn, identity: &Identity) -> Result<u32> {
        let id = self.server_id();
        let others = replica::connected(conn, identity).await?;
        let free = replica::free_id(id, &self.options, identity, &others).ok_or_else(|| {
            Error::definite(format!(
                "server id {id} is in use by a connected replica, or is the server's own"
            ))
            .advice("Give each job its own `server-id`, different from those of all replicas")
        })?;
        self.server_id.store(free, Ordering::Relaxed);
        Ok(free)
    }

    /// How large a table is. The first question is asked for all tables that are known by then.
    async fn size(&self, table: &TableSchema) -> Result<Size> {
        let mut sizes = self.sizes.lock().await;
        if let Some(size) = sizes.get(&table.name) {
            return Ok(*size);
        }
        let mut known = self.registry.newest();
        known.retain(|known| !sizes.contains_key(&known.table.name));
        let tables: Vec<&MysqlTable> = known.iter().map(|known| &known.table).collect();
        let (mut conn, identity) = self.control().await?;
        sizes.extend(snapshot::sizes(&mut conn, &identity, &tables).await?);
        self.keep(conn, identity).await;
        // A table that has gone meanwhile.
        Ok(*sizes.entry(table.name.clone()).or_default())
    }

    async fn start_state(
        &self,
        conn: &mut Conn,
        identity: &Identity,
        names: &[TableName],
    ) -> Result<(MysqlState, MysqlPosition)> {
        // The file is taken first: every transaction of an earlier file is in the set.
        let begin = round::log_end(conn, identity).await?;
        let set = round::settled(conn, identity).await?;
        let settled_at = round::log_end(conn, identity).await?;
        let found = inspect(conn, names, &self.options).await?;
        if let Some((name, reason)) = found.rejected.first() {
            return Err(Error::definite(format!("cannot be captured: {reason}")).table(name));
        }
        if let Some(gone) = names
            .iter()
            .find(|name| !found.captured.iter().any(|table| table.name == **name))
        {
            return Err(
                Error::transient("the table has gone while the job was starting").table(gone),
            );
        }
        let schemas_read_at = round::log_end(conn, identity).await?;
        // With GTIDs the head of the file is only a lower bound until the server has said more.
        // Without them a rotation of the log waits until all of the old file is committed.
        let latest = self.options.startup == Startup::LatestOffset;
        let offset = match (identity.gtid, latest) {
            (false, true) => begin.offset,
            _ => 4,
        };
        let position = MysqlPosition {
            gtid_set: set,
            offset,
            ..begin
        };
        let state = MysqlState {
            tables: found.captured,
            fold_names: identity.fold_names,
            schemas_read_at,
            settled_at,
            key_indexes: found.key_indexes,
            ignore_up_to: Default::default(),
            dark: Default::default(),
        };
        Ok((state, position))
    }
}

fn mysql_position(position: &Position) -> Result<&MysqlPosition> {
    match position {
        Position::Mysql(position) => Ok(position),
        Position::Log { .. } => Err(Error::definite("this is not a position of MySQL")),
    }
}

#[async_trait]
impl Source for MysqlSource {
    async fn check(&self) -> Vec<Check> {
        let (checks, server_id) = check::run(&self.options, self.server_id()).await;
        self.server_id.store(server_id, Ordering::Relaxed);
        checks
    }

    async fn discover(&self) -> Result<Discovery> {
        let (mut conn, identity) = self.control().await?;
        let found = discover(&mut conn, &self.options).await?;
        self.keep(conn, identity).await;
        self.registry.add(&found.captured, &found.key_indexes);
        for (shadow, original) in &found.shadows {
            if self.registry.is_first_sight(shadow) {
                tracing::warn!(
                    table = %shadow,
                    "a table named as migration tools name theirs is left out: it stands for \
                     {original}"
                );
            }
        }
        Ok(Discovery {
            captured: found
                .captured
                .iter()
                .map(|table| Arc::new(table.to_schema()))
                .collect(),
            rejected: found.rejected,
        })
    }

    fn matches(&self, table: &TableName) -> bool {
        self.options.tables.matches(table)
    }

    async fn start(&self, tables: &[Arc<TableSchema>]) -> Result<SourceState> {
        self.set_tail_server(None);
        let (mut conn, identity) = self.control().await?;
        let names: Vec<TableName> = tables.iter().map(|table| table.name.clone()).collect();
        let (mut state, position) = self.start_state(&mut conn, &identity, &names).await?;
        if !identity.gtid && self.options.startup != Startup::LatestOffset {
            let end = state.schemas_read_at.clone();
            if end.file != position.file {
                return Err(Error::transient(
                    "MySQL's log rotated while the job was starting",
                ));
            }
            let piece = (&position, &end);
            let id = self.free_server_id(&mut conn, &identity).await?;
            state.ignore_up_to =
                scan::changed_tables(&self.options, &identity, id, &state, piece).await?;
        }
        self.registry.add(&state.tables, &state.key_indexes);
        self.set_tail_server(Some(identity.uuid.clone()));
        self.keep(conn, identity).await;
        Ok(SourceState {
            connector: state.to_value()?,
            position: Position::Mysql(position),
        })
    }

    fn tables(&self, state: &SourceState) -> Result<Vec<Arc<TableSchema>>> {
        let (own, _) = MysqlState::read(state)?;
        self.registry.add(&own.tables, &own.key_indexes);
        Ok(own.schemas())
    }

    fn recapture(
        &self,
        state: &SourceState,
        capture: &[(Arc<TableSchema>, Recapture)],
        release: &[TableName],
    ) -> Result<SourceState> {
        let (mut own, position) = MysqlState::read(state)?;
        for table in release {
            own.release(table);
        }
        for (table, why) in capture {
            own.recapture(&*self.registry.find(table)?, *why, &position);
        }
        self.registry.add(&own.tables, &own.key_indexes);
        Ok(SourceState {
            connector: own.to_value()?,
            position: state.position.clone(),
        })
    }

    async fn verify_position(&self, state: &SourceState) -> Result<()> {
        let (_, position) = MysqlState::read(state)?;
        let (mut conn, identity) = connect_known(&self.options).await?;
        round::verify(&mut conn, &identity, &position).await?;
        // A run begins: from here on this server is the one, whichever it was before.
        self.set_tail_server(Some(identity.uuid));
        Ok(())
    }

    async fn tail(
        &self,
        from: SourceState,
        gate: Arc<dyn BarrierGate>,
        out: mpsc::Sender<TailItem>,
        progress: watch::Sender<TailProgress>,
    ) -> Result<()> {
        self.tables(&from)?;
        let (_, position) = MysqlState::read(&from)?;
        let (mut conn, identity) = connect_known(&self.options).await?;
        round::verify(&mut conn, &identity, &position).await?;
        let server_id = self.free_server_id(&mut conn, &identity).await?;
        self.set_tail_server(Some(identity.uuid.clone()));
        let registry = &*self.registry;
        let tail = Tail::new(
            &self.options,
            &identity,
            registry,
            &from,
            gate,
            out,
            progress,
        )?;
        drop(conn);
        tail.run(server_id).await
    }

    async fn round_low(&self, emitted: &Position) -> Result<Position> {
        let emitted = mysql_position(emitted)?;
        let (mut conn, identity) = self.control().await?;
        let low = round::low(&mut conn, &identity, emitted).await?;
        self.keep(conn, identity).await;
        Ok(Position::Mysql(low))
    }

    async fn round_high(&self) -> Result<Position> {
        let (mut conn, identity) = self.control().await?;
        let high = round::log_end(&mut conn, &identity).await?;
        self.keep(conn, identity).await;
        Ok(Position::Mysql(high))
    }

    async fn estimate(&self, table: &TableSchema) -> Result<(u64, u64)> {
        let size = self.size(table).await?;
        Ok((size.rows, size.bytes))
    }

    async fn splits(&self, table: &TableSchema, want: usize) -> Result<Vec<Split>> {
        let known = self.registry.find(table)?;
        let column = self.options.chunk_key_column.as_deref();
        let can_be_cut = want > 1 && snapshot::can_be_cut(&known.table, column)?;
        if !can_be_cut || !self.size(table).await?.is_large {
            return Ok(snapshot::whole(&known.table));
        }
        let (mut conn, identity) = self.control().await?;
        let splits = snapshot::splits(&mut conn, &known.table, want).await?;
        self.keep(conn, identity).await;
        Ok(splits)
    }

    async fn reader(&self) -> Result<Box<dyn ChunkReader>> {
        let permit = self
            .connections
            .clone()
            .acquire_owned()
            .await
            .map_err(|e| Error::transient("no connection for chunk reads").cause(e))?;
        let (conn, identity) = wire::connect_known(&self.options).await?;
        self.same_server(&identity)?;
        Ok(Box::new(MysqlChunkReader {
            conn,
            registry: self.registry.clone(),
            rows_first: self.options.chunk_rows.max(1),
            rows_max: self.options.chunk_rows_max.max(1),
            _permit: permit,
            pace: None,
        }))
    }

    async fn lookup(&self, schema: &TableSchema, keys: &[Vec<String>]) -> Result<RecordBatch> {
        let known = self.registry.find(schema)?;
        let (mut conn, identity) = self.control().await?;
        let batches = lookup(&mut conn, &known, keys).await?;
        self.keep(conn, identity).await;
        concat_batches(&Arc::new(schema.arrow()), &batches).map_err(|e| {
            Error::definite("rows do not form a batch")
                .table(&schema.name)
                .cause(e)
        })
    }

    fn key_of(&self, schema: &TableSchema, rows: &RecordBatch, row: usize) -> Result<Vec<String>> {
        lake_key::key_of(&self.registry.find(schema)?.table, rows, row)
    }

    fn key_text(&self, part: &str) -> String {
        lake_key::text(part)
    }

    async fn confirm(&self, _position: &Position) -> Result<()> {
        Ok(())
    }
}
