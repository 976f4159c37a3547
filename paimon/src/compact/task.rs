//! Compactions of a table's buckets: all that are due at once.
//!
//! Source: `MergeTreeCompactManager`, `CompactStrategy`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use crate::{
    commit::LiveFile,
    data_file_meta::{CommitMessage, CompactIncrement, DataFileMeta},
    error::{Error, Result},
    index_manifest::{IndexFileMeta, IndexManifestEntry},
    snapshot::{Expiries, PaimonSnapshot},
    table::Table,
};

use super::{
    append::AppendRewriter,
    job::{Job, buckets, memory_of},
    levels::Levels,
    options::CompactOptions,
    pick::{Memory, Moment, Pick},
    rewrite::{BucketPlace, Rewriter, Unit, written},
    vectors::{deleted_rows, of_bucket},
};

/// How a table is compacted.
#[derive(Debug, Clone)]
pub struct CompactSettings {
    /// Memory for all compactions at a time, bytes. A single one that needs more runs alone.
    pub memory_bytes: u64,
    /// Buckets compacted at a time.
    pub parallelism: usize,
    /// Older rows are still to come (chunks of a snapshot): deletes are kept, and the top level,
    /// which the chunks go to, is left alone.
    pub keep_deletes: bool,
}

impl Default for CompactSettings {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            parallelism: 1,
            keep_deletes: false,
        }
    }
}

/// How much is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactScope {
    /// What the table's options ask for now.
    Due,
    /// Everything, into the top level.
    Full,
}

/// Compacts the buckets of one table.
///
/// What it returns becomes visible by a commit; until then nobody sees it, and readers and writers
/// go on as before. A commit drops a compaction of which another writer has taken a file away: the
/// work is lost, nothing else.
#[derive(Debug)]
pub struct Compactor {
    shared: Arc<Shared>,
    /// Of the buckets compacted so far.
    memories: HashMap<BucketPlace, Memory>,
}

#[derive(Debug)]
struct Shared {
    table: Table,
    options: CompactOptions,
    files: Files,
    settings: CompactSettings,
    /// In MiB.
    memory: Arc<Semaphore>,
}

/// How files of the table are rewritten.
#[derive(Debug)]
enum Files {
    Keyed(Rewriter),
    Append(AppendRewriter),
}

impl Compactor {
    /// For a table; nothing is read.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables whose options ask for what this crate does not do.
    pub fn new(table: Table, settings: CompactSettings) -> Result<Self> {
        let refuse = |reason: &str| {
            let name = table.name();
            Err(Error::Unsupported(format!(
                "compacting table {name}, {reason}"
            )))
        };
        let schema = table.schema();
        if schema.buckets() == -2 {
            return refuse("whose rows wait for their buckets (bucket = -2)");
        }
        let options = CompactOptions::new(schema)?;
        let files = match schema.primary_keys.is_empty() {
            true => Files::Append(AppendRewriter::new(&table, &options)?),
            false => Files::Keyed(Rewriter::new(&table, &options)?),
        };
        let mebibytes = usize::try_from(settings.memory_bytes >> 20).unwrap_or(usize::MAX);
        let permits = mebibytes.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self {
            shared: Arc::new(Shared {
                files,
                options,
                settings,
                memory: Arc::new(Semaphore::new(permits)),
                table,
            }),
            memories: HashMap::new(),
        })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.shared.table
    }

    /// What it was made with.
    pub fn settings(&self) -> CompactSettings {
        self.shared.settings.clone()
    }

    /// Compacts the newest snapshot: each bucket once, of the partitions that `wanted` says yes to
    /// (it is given a serialized BinaryRow with the arity prefix). What comes back is to be
    /// committed, or [discarded](Self::discard). A bucket from which nothing is to be taken gives no
    /// message.
    ///
    /// # Errors
    /// What the store says, and damaged files. Then nothing is left behind.
    pub async fn run(
        &mut self,
        scope: CompactScope,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<CommitMessage>> {
        let table = self.shared.table.clone();
        let mut expiries = Expiries::default();
        loop {
            let Some(snapshot) = table.latest_snapshot().await? else {
                return Ok(Vec::new());
            };
            match self.run_at(&snapshot, scope, &wanted).await {
                Ok(messages) => return Ok(messages),
                Err(error) => expiries.explain(&table, &snapshot, error).await?,
            }
        }
    }

    async fn run_at(
        &mut self,
        snapshot: &PaimonSnapshot,
        scope: CompactScope,
        wanted: &impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<CommitMessage>> {
        // Many small files: on this thread each would cost two switches to another and back.
        let (table, at) = (self.shared.table.clone(), snapshot.clone());
        let runtime = tokio::runtime::Handle::current();
        let read = move || {
            crate::storage::blocking(|| {
                runtime.block_on(async {
                    let files = table.live_files(&at).await?;
                    Ok((files, table.index_files(&at).await?))
                })
            })
        };
        let read: Result<_> = tokio::task::spawn_blocking(read).await.map_err(lost)?;
        let (mut files, index) = read?;
        files.retain(|file| wanted(&file.partition));
        self.compact(scope, files, &index).await
    }

    /// As [`run`](Self::run), for files of a snapshot, whole buckets of them, in the order of the
    /// manifest, with the snapshot's [index files](Table::index_files).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn compact(
        &mut self,
        scope: CompactScope,
        files: Vec<LiveFile>,
        index: &[IndexManifestEntry],
    ) -> Result<Vec<CommitMessage>> {
        // Before anything is read, and not in the middle.
        self.shared.table.check_formats(&files)?;
        let mut jobs = Vec::new();
        for bucket in buckets(files) {
            let (place, total_buckets) = (bucket.place, bucket.total_buckets);
            let index = of_bucket(index, &place.partition, place.bucket);
            let job = match &self.shared.files {
                Files::Append(append) => {
                    let groups = append.pick(scope, bucket.files, &index);
                    (!groups.is_empty()).then_some(Job::Append(groups, index))
                }
                Files::Keyed(_) => {
                    let levels = self.shared.levels(bucket.files);
                    let memory = self
                        .memories
                        .entry(place.clone())
                        .or_insert_with(|| memory(&levels));
                    let unit = self.shared.pick(scope, &levels, &index, memory);
                    unit.map(Job::Keyed)
                }
            };
            jobs.extend(job.map(|job| (place, total_buckets, job)));
        }
        // The largest first: it takes the longest.
        jobs.sort_by_key(|(_, _, job)| std::cmp::Reverse(job.bytes()));
        self.run_jobs(jobs).await
    }

    async fn run_jobs(&self, jobs: Vec<BucketJob>) -> Result<Vec<CommitMessage>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let workers = self.shared.settings.parallelism.clamp(1, jobs.len());
        let waiting = Waiting(Arc::new(Mutex::new(jobs.into_iter())));
        // On threads of their own: merging and encoding would keep other tasks from theirs. One
        // that goes on with the next bucket takes the memory again that the last one gave back.
        let workers = (0..workers).map(|_| {
            let (shared, waiting) = (self.shared.clone(), waiting.0.clone());
            let runtime = tokio::runtime::Handle::current();
            tokio::task::spawn_blocking(move || {
                crate::storage::blocking(|| runtime.block_on(shared.work(&waiting)))
            })
        });
        let mut messages = Vec::new();
        let mut failed = None;
        for done in futures::future::join_all(workers).await {
            match done {
                Ok((some, error)) => {
                    messages.extend(some);
                    failed = failed.or(error);
                }
                Err(error) => failed = failed.or(Some(lost(error))),
            }
        }
        match failed {
            None => {
                messages.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
                Ok(messages)
            }
            Some(error) => {
                self.discard(&messages).await;
                Err(error)
            }
        }
    }

    /// Deletes what compactions wrote that no commit was asked to add. Best effort: what stays is
    /// invisible.
    pub async fn discard(&self, messages: &[CommitMessage]) {
        for message in messages {
            let compact = &message.compact;
            self.shared
                .discard(&message.partition, message.bucket, written(compact))
                .await;
            self.shared.discard_index(&compact.new_index_files).await;
        }
    }
}

/// A bucket, its number of buckets, and what is to be done in it.
type BucketJob = (BucketPlace, i32, Job);
type Queue = Arc<Mutex<std::vec::IntoIter<BucketJob>>>;

/// Jobs that nobody has begun; they are dropped when nobody waits for them any more.
struct Waiting(Queue);

impl Drop for Waiting {
    fn drop(&mut self) {
        clear(&self.0);
    }
}

fn clear(waiting: &Queue) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.by_ref().for_each(drop);
}

impl Shared {
    /// Does what is waiting, until nothing is or something fails; then no other goes on either.
    async fn work(&self, waiting: &Queue) -> (Vec<CommitMessage>, Option<Error>) {
        let next = || {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.next()
        };
        let mut messages = Vec::new();
        while let Some((place, total_buckets, job)) = next() {
            match self.execute(&place, &job).await {
                Ok(done) if done.is_empty() => {}
                Ok(done) => messages.push(message(&place, total_buckets, done)),
                Err(error) => {
                    clear(waiting);
                    return (messages, Some(error));
                }
            }
        }
        (messages, None)
    }

    fn levels(&self, files: Vec<DataFileMeta>) -> Levels {
        let levels = self.options.table.compaction.levels;
        let key = match &self.files {
            Files::Keyed(rewriter) => rewriter.key_types(),
            Files::Append(_) => &[],
        };
        Levels::new(key, files, levels)
    }

    /// Decides, in this moment.
    fn pick(
        &self,
        scope: CompactScope,
        levels: &Levels,
        index: &[IndexFileMeta],
        memory: &mut Memory,
    ) -> Option<Unit> {
        let keep_deletes = self.settings.keep_deletes;
        // With deletion vectors readers would take a delete above level 0 for a row.
        if keep_deletes && self.options.table.deletion_vectors.enabled {
            return None;
        }
        let top_level = levels.top_level() - i32::from(keep_deletes);
        if top_level < 1 {
            return None;
        }
        let mut runs = levels.runs();
        runs.retain(|run| run.level <= top_level);
        let mut sizes = levels.sizes();
        sizes.retain(|run| run.level <= top_level);
        let force_rewrite = self.options.table.compaction.force_rewrite_all_files;
        let mut file_by_file = false;
        let pick = match scope {
            CompactScope::Due => {
                let universal = &self.options.universal;
                universal.pick(top_level, &sizes, memory, moment())?
            }
            CompactScope::Full => {
                let is_compact = matches!(sizes.as_slice(), [run] if run.level == top_level);
                file_by_file = is_compact;
                if sizes.is_empty() {
                    return None;
                }
                Pick {
                    runs: sizes.len(),
                    output_level: top_level,
                }
            }
        };
        let deleted = deleted_rows(index);
        let expires = |file: &DataFileMeta| match &self.files {
            Files::Keyed(rewriter) => rewriter.expires(file),
            Files::Append(_) => false,
        };
        let files: Vec<DataFileMeta> = runs
            .iter()
            .take(pick.runs)
            .flat_map(|run| run.files)
            .filter(|file| {
                !file_by_file
                    || force_rewrite
                    || deleted.contains_key(file.file_name.as_str())
                    || expires(file)
            })
            .cloned()
            .collect();
        let moves_nothing =
            matches!(files.as_slice(), [file] if file.level == pick.output_level) && !file_by_file;
        if files.is_empty() || moves_nothing {
            return None;
        }
        Some(Unit {
            files: levels.in_order_of_arrival(files),
            output_level: pick.output_level,
            top_level: levels.top_level(),
            drop_deletes: !keep_deletes
                && pick.output_level != 0
                && (pick.output_level >= levels.highest_with_files()
                    || self.options.table.deletion_vectors.enabled),
            file_by_file,
            upper: levels
                .files()
                .filter(|file| file.level > pick.output_level)
                .cloned()
                .collect(),
            index: index.to_vec(),
        })
    }

    /// Compacts when there is memory for it.
    async fn execute(&self, place: &BucketPlace, job: &Job) -> Result<CompactIncrement> {
        let memory = memory_of(job, self.settings.memory_bytes);
        let _memory = self
            .memory
            .acquire_many(memory.mebibytes)
            .await
            .map_err(|_| Error::Internal("compactions have no memory any more".into()))?;
        let read_bytes = memory.read_bytes;
        let started = std::time::Instant::now();
        let done = match (&self.files, job) {
            (Files::Keyed(rewriter), Job::Keyed(unit)) => {
                rewriter.compact(place, unit, read_bytes).await?
            }
            (Files::Append(append), Job::Append(groups, index)) => {
                append.compact(place, groups, index, read_bytes).await?
            }
            _ => {
                return Err(Error::Internal(
                    "a compaction of another kind of table".into(),
                ));
            }
        };
        tracing::debug!(
            table = self.table.name(),
            bucket = place.bucket,
            before = done.before.len(),
            after = done.after.len(),
            seconds = started.elapsed().as_secs_f64(),
            "compacted"
        );
        Ok(done)
    }

    async fn discard(
        &self,
        partition: &[u8],
        bucket: i32,
        files: impl Iterator<Item = &DataFileMeta>,
    ) {
        for file in files {
            let deleted = match self.table.file_path(partition, bucket, file) {
                Ok(path) => crate::storage::delete(self.table.store().as_ref(), &path).await,
                Err(error) => Err(error),
            };
            if let Err(error) = deleted {
                tracing::warn!(file = file.file_name, %error, "cannot delete a compaction's file");
            }
        }
    }
}

impl Shared {
    async fn discard_index(&self, files: &[IndexFileMeta]) {
        for file in files {
            let path = self.table.index_path(&file.file_name);
            let deleted = crate::storage::delete(self.table.store().as_ref(), &path).await;
            if let Err(error) = deleted {
                tracing::warn!(file = file.file_name, %error, "cannot delete a compaction's file");
            }
        }
    }
}

fn message(place: &BucketPlace, total_buckets: i32, compact: CompactIncrement) -> CommitMessage {
    CommitMessage {
        partition: place.partition.clone(),
        bucket: place.bucket,
        total_buckets,
        compact,
        ..CommitMessage::default()
    }
}

/// What is remembered of a bucket that is seen for the first time: its last full compaction was
/// when the newest file of the top level was made.
fn memory(levels: &Levels) -> Memory {
    let offset_ms = i64::from(jiff::ZonedDateTime::now().offset().seconds()) * 1000;
    let top = levels.level(levels.top_level()).iter();
    let created = top.filter_map(|file| file.creation_time_ms).max();
    Memory {
        last_full_ms: created.map(|local_ms| local_ms - offset_ms),
        ..Memory::default()
    }
}

fn moment() -> Moment {
    let now = jiff::ZonedDateTime::now();
    Moment {
        now_ms: now.timestamp().as_millisecond(),
        hour: i32::from(now.hour()),
    }
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::Internal(format!(
        "a compaction came to an end without a result: {error}"
    ))
}

#[cfg(test)]
mod tests;
