//! Rescaling: the rows of a partition move to another number of buckets.
//!
//! The table's option `bucket` changes first, so that no new partition begins with the old count;
//! then each partition is read, written into the new buckets and replaced in one OVERWRITE, which is
//! refused when the partition changed meanwhile: then it is read anew. Every partition says in its
//! manifests how many buckets it has, so that readers see the same rows at any moment. A process
//! that dies between two partitions leaves those behind at their old count: they are read as ever,
//! writers are told to rescale, and doing so again goes on where it ended.
//!
//! Source of the flow: `org.apache.paimon.flink.action.RescaleAction`.

mod keyed;

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;

use crate::{
    alter::SchemaChange,
    append::AppendWriter,
    commit::{CommitOutcome, CommitRequest, LiveFile, Scope, TableCommitter},
    compact::{CompactScope, CompactSettings, Compactor},
    data_file_meta::CommitMessage,
    error::{Error, Result},
    index_manifest::{DELETION_VECTORS_INDEX, IndexManifestEntry},
    partition,
    read::Split,
    snapshot::PaimonSnapshot,
    table::Table,
    table_options::{ChangelogProducer, TableOptions},
    write_buffer::WriteSettings,
};

use keyed::KeyedRescale;

/// How the commit users of rescales begin.
pub const COMMIT_USER_PREFIX: &str = "rescale-";
/// How often a partition is read anew because others changed it.
const TRIES_MAX: usize = 10;

/// What a rescale did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescaled {
    /// Partitions that were written anew; those that had the new bucket count are not among them.
    pub partitions: usize,
    /// Rows in them.
    pub rows: i64,
    /// New data files.
    pub files: usize,
    /// Bytes of the new data files.
    pub bytes: i64,
    /// Id of the last OVERWRITE, if there was one.
    pub snapshot: Option<i64>,
}

impl Table {
    /// Gives the table another number of buckets and moves the rows of its partitions into them:
    /// of all partitions that have another number for `None`, else of these (serialized BinaryRows
    /// with the arity prefix; see [`find_partitions`](Self::find_partitions)). Sequence numbers of
    /// tables with a primary key stay. Writers that began before must be begun anew; partitions left
    /// out are read as before, but nothing is written to them until they are rescaled too.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables without fixed buckets; [`Error::Conflict`] when others changed a partition each time while it was read. What was
    /// done until then stays; doing it again goes on from there.
    pub async fn rescale(&self, buckets: i32, partitions: Option<&[Vec<u8>]>) -> Result<Rescaled> {
        let table = self.reload().await?;
        check(&table, buckets)?;
        let value = buckets.to_string();
        let table = table
            .alter(&[SchemaChange::SetOption {
                name: "bucket",
                value: &value,
            }])
            .await?;
        let wanted: BTreeSet<Vec<u8>> = match partitions {
            Some(partitions) => partitions.iter().cloned().collect(),
            None => {
                let live = table.newest_files().await?.into_iter();
                let others = live.filter(|file| file.total_buckets != buckets);
                others.map(|file| file.partition).collect()
            }
        };
        let mut done = Rescaled::default();
        let mut committer = TableCommitter::new(table.clone());
        for partition in wanted {
            rescale(&mut committer, &partition, buckets, &mut done).await?;
        }
        Ok(done)
    }

    /// The partitions of the newest snapshot whose columns have these values, given as their
    /// folders' names say them; all partitions where no column is named.
    ///
    /// # Errors
    /// [`Error::Table`] for a column that is no partition column.
    pub async fn find_partitions(&self, values: &[(String, String)]) -> Result<Vec<Vec<u8>>> {
        let keys = &self.schema().partition_keys;
        if let Some((name, _)) = values.iter().find(|(name, _)| !keys.contains(name)) {
            return Err(Error::Table {
                table: self.name().to_owned(),
                message: format!(
                    "'{name}' is not one of its partition columns ({})",
                    keys.join(", ")
                ),
            });
        }
        let all: BTreeSet<Vec<u8>> = self
            .newest_files()
            .await?
            .into_iter()
            .map(|file| file.partition)
            .collect();
        let mut found = Vec::new();
        for partition in all {
            let texts = partition::texts(self.schema(), &partition)?;
            let is = |(name, value): &(String, String)| {
                let mut columns = keys.iter().zip(&texts);
                columns.any(|(key, text)| key == name && text.as_deref() == Some(value))
            };
            if values.iter().all(is) {
                found.push(partition);
            }
        }
        Ok(found)
    }
}

impl Table {
    /// Prepared files that do not fit the table any more, written anew: those for another number of
    /// buckets than it has, and all of them when `above`, the greatest sequence number in the table,
    /// is not below theirs: their rows are the newest, and get numbers above it in the same order.
    /// Each bucket gets a sorted run on level 0 with the newest row of every key, deletes included.
    /// Messages that fit are given back as they are, first. The old files are left where they stand.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for anything but new files of a table with a primary key, and for
    /// another number of buckets where they are dynamic; what the store says.
    pub async fn prepare_anew(
        &self,
        messages: &[CommitMessage],
        above: Option<i64>,
    ) -> Result<Vec<CommitMessage>> {
        let buckets = self.schema().buckets();
        let files = messages.iter().flat_map(|message| &message.new_files);
        let lowest = files.map(|file| file.min_sequence_number).min();
        let raise = match (above, lowest) {
            (Some(above), Some(lowest)) => above.saturating_add(1).saturating_sub(lowest).max(0),
            _ => 0,
        };
        let mut fit = Vec::new();
        let mut others: BTreeMap<(&[u8], bool), Vec<LiveFile>> = BTreeMap::new();
        for message in messages {
            let stay = message.total_buckets == buckets;
            if stay && (raise == 0 || message.new_files.is_empty()) {
                fit.push(message.clone());
                continue;
            }
            let only_new = CommitMessage {
                partition: message.partition.clone(),
                bucket: message.bucket,
                total_buckets: message.total_buckets,
                new_files: message.new_files.clone(),
                ..CommitMessage::default()
            };
            let is_placed = stay || buckets > 0;
            if self.schema().primary_keys.is_empty() || !is_placed || *message != only_new {
                return Err(Error::Unsupported(format!(
                    "table {}: files that were prepared for {} buckets cannot be written anew for \
                     {buckets}: only new files of tables with a primary key and fixed buckets can",
                    self.name(),
                    message.total_buckets
                )));
            }
            let files = message.new_files.iter().map(|meta| LiveFile {
                partition: message.partition.clone(),
                bucket: message.bucket,
                total_buckets: message.total_buckets,
                meta: meta.clone(),
            });
            let place = (message.partition.as_slice(), stay);
            others.entry(place).or_default().extend(files);
        }
        for ((partition, stay), files) in others {
            let writer = KeyedRescale::adding(self, partition, raise, stay)?;
            fit.extend(writer.write(&files).await?);
        }
        Ok(fit)
    }
}

fn check(table: &Table, buckets: i32) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::Unsupported(format!(
            "rescaling table {}, {why}",
            table.name()
        )))
    };
    let schema = table.schema();
    match schema.buckets() {
        1.. => {}
        -1 if schema.primary_keys.is_empty() => return refuse("which has no buckets"),
        -1 => return refuse("whose buckets are dynamic: they grow by themselves"),
        _ => return refuse("whose rows wait for their buckets (bucket = -2)"),
    }
    if buckets < 1 {
        return refuse("to less than one bucket");
    }
    table.check_options()
}

/// What a partition holds in a snapshot.
#[derive(Default)]
struct Content {
    /// In the order of the manifest.
    files: Vec<LiveFile>,
    /// Files of deletion vectors.
    index: Vec<IndexManifestEntry>,
    /// Name of the snapshot's index manifest.
    index_manifest: Option<String>,
}

impl Content {
    async fn of(table: &Table, partition: &[u8]) -> Result<Self> {
        let content =
            table.at_newest(|snapshot| async move { Self::at(table, partition, &snapshot).await });
        Ok(content.await?.unwrap_or_default())
    }

    async fn at(table: &Table, partition: &[u8], snapshot: &PaimonSnapshot) -> Result<Self> {
        let mut files = table.live_files(snapshot).await?;
        files.retain(|file| file.partition == partition);
        let mut index = table.index_files(snapshot).await?;
        index.retain(|entry| {
            entry.partition == partition && entry.index_file.index_type == DELETION_VECTORS_INDEX
        });
        Ok(Self {
            files,
            index,
            index_manifest: snapshot.index_manifest.clone(),
        })
    }
}

/// Rescales one partition, reading it anew as often as others change it.
async fn rescale(
    committer: &mut TableCommitter,
    partition: &[u8],
    buckets: i32,
    done: &mut Rescaled,
) -> Result<()> {
    let table = committer.table().clone();
    let user = format!("{COMMIT_USER_PREFIX}{}", uuid::Uuid::new_v4());
    let request = |identifier, messages| CommitRequest {
        user: user.clone(),
        identifier,
        messages,
        watermark_ms: None,
        properties: BTreeMap::new(),
        expect: None,
    };
    let mut conflict = None;
    for identifier in (1..).take(TRIES_MAX) {
        let content = Content::of(&table, partition).await?;
        let files = &content.files;
        if files.iter().all(|file| file.total_buckets == buckets) {
            return Ok(());
        }
        if let Some(file) = files.iter().find(|file| file.total_buckets < 1) {
            return Err(Error::Unsupported(format!(
                "rescaling table {}: file {} is of no fixed bucket",
                table.name(),
                file.meta.file_name
            )));
        }
        if awaits_changelog(&table, files)? {
            // Once rows have moved nobody can tell what changed.
            let mut compactor = Compactor::new(table.clone(), CompactSettings::default())?;
            let messages = compactor
                .run(CompactScope::Full, |it| it == partition)
                .await?;
            committer.commit(&request(identifier, messages)).await?;
            continue;
        }
        let messages = write(&table, partition, &content).await?;
        let files = content.files.into_iter();
        let index = content.index.into_iter();
        let scope = Scope::Unchanged {
            partition: partition.to_vec(),
            files: files.map(|file| file.meta.file_name).collect(),
            index: index.map(|entry| entry.index_file.file_name).collect(),
        };
        let request = request(identifier, messages);
        match committer.overwrite(&request, &scope).await {
            Ok(outcome) => {
                done.count(&request.messages, &outcome);
                return Ok(());
            }
            // Perhaps it took place all the same.
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                table.discard(&request.messages).await;
                match error {
                    error @ Error::Conflict { .. } => {
                        tracing::debug!(table = table.name(), %error, "rescaling again");
                        conflict = Some(error);
                    }
                    error => return Err(error),
                }
            }
        }
    }
    Err(conflict.unwrap_or_else(|| Error::Conflict {
        table: table.name().to_owned(),
        message: format!(
            "partition '{}' changed {TRIES_MAX} times while it was rescaled: stop its writers, and \
             rescale again",
            table.partition_name(partition).unwrap_or_default()
        ),
    }))
}

/// Whether there are rows that a compaction has yet to write changes of.
fn awaits_changelog(table: &Table, files: &[LiveFile]) -> Result<bool> {
    let options = TableOptions::of(table.schema())?;
    let top_level = options.compaction.top_level();
    Ok(match options.changelog.producer {
        ChangelogProducer::Lookup => files.iter().any(|file| file.meta.level == 0),
        ChangelogProducer::FullCompaction => files.iter().any(|file| file.meta.level < top_level),
        ChangelogProducer::None | ChangelogProducer::Input => false,
    })
}

/// Writes the rows of a partition's files into the buckets of the table's schema.
async fn write(table: &Table, partition: &[u8], content: &Content) -> Result<Vec<CommitMessage>> {
    if !table.schema().primary_keys.is_empty() {
        let rescale = KeyedRescale::new(table, partition, &content.index)?;
        return rescale.write(&content.files).await;
    }
    let mut writer = AppendWriter::new(table.clone(), WriteSettings::default()).await?;
    match append(table, partition, content, &mut writer).await {
        Ok(()) => writer.prepare().await,
        Err(error) => {
            writer.abort().await;
            Err(error)
        }
    }
}

/// Rows with one bucket key come from one bucket, and so they stay in order.
async fn append(
    table: &Table,
    partition: &[u8],
    content: &Content,
    writer: &mut AppendWriter,
) -> Result<()> {
    let mut buckets: BTreeMap<i32, Split> = BTreeMap::new();
    for file in &content.files {
        let split = buckets.entry(file.bucket).or_insert_with(|| Split {
            partition: partition.to_vec(),
            bucket: file.bucket,
            ..Split::default()
        });
        split.files.push(file.meta.clone());
    }
    let mut splits: Vec<Split> = buckets.into_values().collect();
    if let Some(index) = &content.index_manifest {
        table.find_deletions(index, &mut splits).await?;
    }
    for split in &splits {
        let mut rows = table.read_bucket(split, None)?;
        while let Some(batch) = rows.try_next().await? {
            writer.write(&batch).await?;
        }
    }
    Ok(())
}

impl Rescaled {
    fn count(&mut self, messages: &[CommitMessage], outcome: &CommitOutcome) {
        self.partitions += 1;
        for file in messages.iter().flat_map(|message| &message.new_files) {
            self.rows += file.row_count;
            self.files += 1;
            self.bytes += file.file_size;
        }
        if let CommitOutcome::Committed { snapshot, .. }
        | CommitOutcome::AlreadyCommitted { snapshot, .. } = outcome
        {
            self.snapshot = Some(*snapshot);
        }
    }
}

#[cfg(test)]
mod tests;
