//! The changes of a table, snapshot after snapshot: what a streaming reader sees.
//!
//! Source: `DataTableStreamScan`, `DeltaFollowUpScanner`, `ChangelogFollowUpScanner`,
//! `MergeFileSplitRead.createNoMergeReader`.

use std::collections::VecDeque;

use arrow_array::{Array, Int8Array, RecordBatch, cast::AsArray, types::Int8Type};
use arrow_select::filter::{filter, filter_record_batch};
use futures::TryStreamExt;

use crate::{
    data_file::kind,
    error::{Error, Result},
    manifest::{FileKind, ManifestEntry},
    snapshot::{CommitKind, PaimonSnapshot},
    storage,
    table::Table,
    table_options::Budget,
};

use super::{
    bucket::{BATCH_ROWS, BatchStream, BucketReader, Request},
    file::{FileOpener, FileStream, KIND, Wanted, check_format},
    plan::{Planner, Split},
    request::TableRead,
};

/// Changes of one snapshot.
#[derive(Debug, Clone)]
pub struct ChangeBatch {
    /// The snapshot that made them.
    pub snapshot: i64,
    /// Kind of each row: 0 +I, 1 −U, 2 +U, 3 −D.
    pub kinds: Int8Array,
    /// The rows.
    pub rows: RecordBatch,
}

/// Where the changes of a table's commits stand: option `changelog-producer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Producer {
    /// In the data files that a commit adds: there are no rows of how it was before, and an update
    /// may look like an insert.
    None,
    /// In changelog files; made by the writer.
    Input,
    /// In changelog files; made when level 0 is compacted.
    Lookup,
    /// In changelog files; made by full compactions.
    FullCompaction,
}

impl Producer {
    fn of(table: &Table) -> Result<Self> {
        let option = table.schema().options.get("changelog-producer");
        Ok(
            match option.map(|text| text.trim().to_lowercase()).as_deref() {
                None | Some("none") => Self::None,
                Some("input") => Self::Input,
                Some("lookup") => Self::Lookup,
                Some("full-compaction") => Self::FullCompaction,
                Some(other) => {
                    return Err(Error::Unsupported(format!(
                        "table {}: option changelog-producer = {other}",
                        table.name()
                    )));
                }
            },
        )
    }
}

/// The changes of a table, in the order of its snapshots.
///
/// Begins with the rows of the newest snapshot, as +I, and goes on with what later ones change; or
/// with the changes of a given snapshot. With `changelog-producer` of `lookup` or `full-compaction`
/// the rows at the beginning are those whose changes have been told already.
///
/// ```no_run
/// # async fn example(table: headwater_paimon::Table) -> headwater_paimon::Result<()> {
/// let mut changes = table.read().changes(None)?;
/// loop {
///     while let Some(batch) = changes.next().await? {
///         println!("snapshot {}: {} rows", batch.snapshot, batch.rows.num_rows());
///     }
///     // Nothing new: remember `changes.next_snapshot()`, wait, look again.
/// #   break;
/// }
/// # Ok(())
/// # }
/// ```
pub struct TableChanges {
    table: Table,
    request: Request,
    producer: Producer,
    /// The snapshot whose changes are to come; `None`: the newest one's rows.
    next: Option<i64>,
    /// The snapshot that `pieces` and `open` are of.
    current: Option<i64>,
    pieces: VecDeque<Piece>,
    open: Option<Open>,
}

/// Something of a snapshot that is read as a whole.
enum Piece {
    /// Rows that are there.
    Rows(Split),
    /// Rows that changed.
    Changes(Box<ManifestEntry>),
}

enum Open {
    Rows(BatchStream),
    Changes(FileStream),
}

impl std::fmt::Debug for TableChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableChanges")
            .field("table", &self.table)
            .field("producer", &self.producer)
            .field("next", &self.next)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// The changes of the table, all columns; see [`TableRead::changes`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables that need what this crate does not have.
    pub fn stream(&self, from: Option<i64>) -> Result<TableChanges> {
        self.read().changes(from)
    }
}

impl TableRead {
    /// The changes from a snapshot on, that one's among them; with `None` first the rows of the
    /// newest snapshot, then what comes after it. Of what was said, columns and filter count; the
    /// filter is for each change by itself.
    ///
    /// # Errors
    /// [`Error::Table`] for columns that aren't there, [`Error::Unsupported`] for tables that need
    /// what this crate does not have.
    pub fn changes(&self, from: Option<i64>) -> Result<TableChanges> {
        self.table().check_readable()?;
        Ok(TableChanges {
            producer: Producer::of(self.table())?,
            table: self.table().clone(),
            request: Request {
                limit: None,
                ..self.request()?
            },
            next: from,
            current: None,
            pieces: VecDeque::new(),
            open: None,
        })
    }
}

impl TableChanges {
    /// Where to go on from when all that came so far is done with: the first snapshot whose
    /// changes have not all been handed on; `None` while those are the rows at the beginning.
    pub fn next_snapshot(&self) -> Option<i64> {
        self.next
    }

    /// The next changes; `None` when there are none yet: call again later. A batch is of one
    /// snapshot. After an error the changes of the snapshot begin again.
    ///
    /// # Errors
    /// [`Error::Table`] when the snapshot has expired; a change that cannot be read.
    pub async fn next(&mut self) -> Result<Option<ChangeBatch>> {
        let batch = self.advance().await;
        if batch.is_err() {
            self.current = None;
            self.pieces.clear();
            self.open = None;
        }
        batch
    }

    async fn advance(&mut self) -> Result<Option<ChangeBatch>> {
        loop {
            if let (Some(open), Some(snapshot)) = (&mut self.open, self.current) {
                let batch = match open {
                    Open::Rows(stream) => stream.try_next().await?.map(|rows| ChangeBatch {
                        snapshot,
                        kinds: Int8Array::from_value(kind::INSERT, rows.num_rows()),
                        rows,
                    }),
                    Open::Changes(stream) => match stream.try_next().await? {
                        None => None,
                        Some(batch) => Some(self.changes_of(snapshot, &batch)?),
                    },
                };
                match batch {
                    Some(batch) if batch.rows.num_rows() > 0 => return Ok(Some(batch)),
                    Some(_) => {}
                    None => self.open = None,
                }
            } else if let Some(piece) = self.pieces.pop_front() {
                self.open = Some(self.open_piece(piece).await?);
            } else {
                if let Some(done) = self.current.take() {
                    self.next = Some(done + 1);
                }
                if !self.plan().await? {
                    return Ok(None);
                }
            }
        }
    }

    /// Finds what the next snapshot holds; false when there is none yet.
    async fn plan(&mut self) -> Result<bool> {
        let snapshot = match self.next {
            None => self.table.latest_snapshot().await?,
            Some(id) => self.snapshot(id).await?,
        };
        let Some(snapshot) = snapshot else {
            return Ok(false);
        };
        self.pieces = match self.next {
            None => self.plan_rows(&snapshot).await?,
            Some(_) => self.plan_changes(&snapshot).await?,
        };
        self.current = Some(snapshot.id);
        Ok(true)
    }

    /// A snapshot that may have expired while its changelog is kept.
    async fn snapshot(&self, id: i64) -> Result<Option<PaimonSnapshot>> {
        if let Some(snapshot) = self.table.snapshot(id).await? {
            return Ok(Some(snapshot));
        }
        let path = self.table.path().clone().join("changelog");
        let path = path.join(format!("changelog-{id}"));
        if let Some(bytes) = storage::get(self.table.store().as_ref(), &path).await? {
            let damaged = |error: serde_json::Error| Error::Corrupt {
                path: path.to_string(),
                message: error.to_string(),
            };
            return serde_json::from_slice(&bytes).map(Some).map_err(damaged);
        }
        match self.table.latest_snapshot().await? {
            Some(latest) if latest.id >= id => Err(Error::Table {
                table: self.table.name().to_owned(),
                message: format!(
                    "snapshot {id} has expired: its changes are gone. Begin anew with the newest \
                     snapshot, and keep snapshots for longer"
                ),
            }),
            _ => Ok(None),
        }
    }

    async fn plan_rows(&self, snapshot: &PaimonSnapshot) -> Result<VecDeque<Piece>> {
        let top_level = Budget::new(self.table.schema())?.top_level;
        let producer = self.producer;
        let planner = Planner {
            table: &self.table,
            filter: self.request.filter.as_deref(),
            // The changes of the other levels are told when a compaction makes them.
            wants_level: &move |level| match producer {
                Producer::None | Producer::Input => true,
                Producer::Lookup => level > 0,
                Producer::FullCompaction => level == top_level,
            },
        };
        let splits = planner.plan(snapshot).await?;
        Ok(splits.into_iter().map(Piece::Rows).collect())
    }

    async fn plan_changes(&self, snapshot: &PaimonSnapshot) -> Result<VecDeque<Piece>> {
        let Some(list) = self.list_of_changes(snapshot)? else {
            return Ok(VecDeque::new());
        };
        let manifests = self.table.read_manifest_list(list).await?;
        let mut files = Vec::new();
        self.table
            .for_each_manifest(&manifests, |entries| files.extend(entries))
            .await?;
        let mut pieces = VecDeque::new();
        for entry in files {
            if entry.kind == FileKind::Add {
                check_format(&self.table, &entry.file)?;
                pieces.push_back(Piece::Changes(Box::new(entry)));
            }
        }
        Ok(pieces)
    }

    /// The manifest list with the files of changes; `None` when a streaming reader sees nothing of
    /// the snapshot.
    fn list_of_changes<'a>(&self, snapshot: &'a PaimonSnapshot) -> Result<Option<&'a str>> {
        let schema = self.table.schema();
        let is = |name: &str| {
            let option = schema.options.get(name);
            option.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        };
        let delta = Some(snapshot.delta_manifest_list.as_str());
        if snapshot.commit_kind == CommitKind::Overwrite {
            let has_keys = !schema.primary_keys.is_empty();
            let reads_overwrite = is("streaming-read-overwrite");
            if has_keys && reads_overwrite {
                return Err(Error::Unsupported(format!(
                    "table {}: streaming snapshot {}, an overwrite, with option \
                     streaming-read-overwrite = true",
                    self.table.name(),
                    snapshot.id
                )));
            }
            if reads_overwrite || !has_keys && is("streaming-read-append-overwrite") {
                return Ok(delta);
            }
        }
        Ok(match self.producer {
            Producer::None if snapshot.commit_kind == CommitKind::Append => delta,
            Producer::None => None,
            _ => snapshot.changelog_manifest_list.as_deref(),
        })
    }

    async fn open_piece(&self, piece: Piece) -> Result<Open> {
        let entry = match piece {
            Piece::Rows(split) => {
                let reader = BucketReader::new(&self.table, split, self.request.clone())?;
                return Ok(Open::Rows(reader.into_stream()));
            }
            Piece::Changes(entry) => entry,
        };
        let kinds: &[&str] = match self.table.schema().primary_keys.is_empty() {
            true => &[],
            false => &[KIND],
        };
        let fields = self.request.all_fields();
        let opener = FileOpener::new(self.table.clone(), entry.partition, entry.bucket)
            .pruning(self.request.filter.clone(), &fields);
        let wanted = Wanted::new(fields, kinds);
        let stream = opener.open(&entry.file, &wanted, BATCH_ROWS).await?;
        Ok(Open::Changes(stream))
    }

    /// What of a file's batch was asked for.
    fn changes_of(&self, snapshot: i64, batch: &RecordBatch) -> Result<ChangeBatch> {
        let output: Vec<usize> = (0..self.request.fields.len()).collect();
        let kinds = match batch.column_by_name(KIND) {
            Some(kinds) => kinds.as_primitive::<Int8Type>().clone(),
            None => Int8Array::from_value(kind::INSERT, batch.num_rows()),
        };
        let rows = batch.project(&output)?;
        let Some(wanted) = &self.request.filter else {
            return Ok(ChangeBatch {
                snapshot,
                kinds,
                rows,
            });
        };
        let keep = wanted.test(batch)?;
        let kinds = filter(&kinds as &dyn Array, &keep)?;
        Ok(ChangeBatch {
            snapshot,
            kinds: kinds.as_primitive::<Int8Type>().clone(),
            rows: filter_record_batch(&rows, &keep)?,
        })
    }
}
