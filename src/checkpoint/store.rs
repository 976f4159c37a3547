//! The state folder: records and markers as numbered objects, created with put-if-absent.
//!
//! ```text
//! <state>/checkpoint-00000000000000000042.json            record
//! <state>/checkpoint-00000000000000000042.committed.json  marker
//! <state>/side-<hash>.json                                what many records share
//! <state>/lease.json                                      who runs the job
//! ```
//!
//! Two rules make a paused instance harmless. Numbers are never used twice: whoever creates record
//! n+1 first owns the job. And records are pruned oldest first, so that an instance whose create
//! succeeds long after its successor has gone on and pruned finds its predecessor missing: its
//! create is void.

mod error;

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use headwater_paimon::{Catalog, Location, StoreOptions};
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, local::LocalFileSystem,
    path::Path,
};
use serde::{Serialize, de::DeserializeOwned};
use xxhash_rust::xxh3::xxh3_128;

use super::record::{FORMAT, Marker, Record};
use crate::clock;

pub use error::StateError;

/// Values above this many bytes stand in a side file that records share.
const SIDE_BYTES: usize = 16 * 1024;

/// Side files that are younger than this are never deleted.
const SIDE_AGE_MS: i64 = 10 * 60 * 1000;

/// The state folder of one job.
#[derive(Debug, Clone)]
pub struct StateStore {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    base: Base,
}

/// What the store begins at.
#[derive(Debug, Clone)]
enum Base {
    /// Nothing that has a name.
    Unnamed,
    /// The root of this machine's file system.
    Machine,
    /// A bucket.
    Bucket {
        /// `s3://bucket`
        url: String,
        /// The same store, for calls that should not wait for it.
        quick: Arc<dyn ObjectStore>,
    },
}

impl StateStore {
    /// The state in `folder`; nothing is read.
    pub fn new(store: Arc<dyn ObjectStore>, folder: Path) -> Self {
        Self {
            store,
            folder,
            base: Base::Unnamed,
        }
    }

    /// The state in a folder of this machine, which need not be there yet. Files and their folders
    /// are synced to the disk.
    ///
    /// # Errors
    /// The path cannot be one of the store's.
    pub fn local(folder: &std::path::Path) -> object_store::Result<Self> {
        Ok(Self {
            store: Arc::new(LocalFileSystem::new().with_fsync(true)),
            folder: Path::from_absolute_path(folder)?,
            base: Base::Machine,
        })
    }

    /// The state at a location, opened as a catalog is.
    ///
    /// # Errors
    /// The location cannot be used.
    pub fn open(location: &Location, options: &StoreOptions) -> Result<Self, StateError> {
        let failed = |message: String| StateError::Location {
            location: location.to_string(),
            message,
        };
        match location {
            Location::Folder(folder) => {
                Self::local(folder).map_err(|error| failed(error.to_string()))
            }
            Location::S3 { bucket, .. } => {
                let place =
                    Catalog::open(location, options).map_err(|error| failed(error.to_string()))?;
                Ok(Self {
                    store: place.store().clone(),
                    folder: place.root().clone(),
                    base: Base::Bucket {
                        url: format!("s3://{bucket}"),
                        quick: place.quick_store().clone(),
                    },
                })
            }
        }
    }

    /// The folder, for messages.
    pub fn folder(&self) -> String {
        self.shown(&self.folder)
    }

    /// An object's place, for messages: paths of the store lack the leading slash.
    fn shown(&self, path: &Path) -> String {
        match &self.base {
            Base::Machine => format!("/{path}"),
            Base::Bucket { url, .. } => format!("{url}/{path}"),
            Base::Unnamed => path.to_string(),
        }
    }

    /// Where it can be tried whether the folder can be written: in it or, as long as it is not
    /// there, where it would be made.
    fn probed(&self) -> Path {
        let mut folder = self.folder.clone();
        while matches!(self.base, Base::Machine)
            && !std::path::Path::new(&self.shown(&folder)).exists()
        {
            match folder.parent() {
                Some(parent) => folder = parent,
                None => break,
            }
        }
        folder
    }

    /// Whether the store can keep state: it must refuse to create an object that exists. Leaves
    /// nothing behind, not even the folder.
    pub async fn probe(&self) -> Result<(), StateError> {
        let name = format!(".headwater-probe-{}", uuid::Uuid::new_v4().simple());
        let path = self.probed().join(name);
        let store = match &self.base {
            Base::Bucket { quick, .. } => quick,
            _ => &self.store,
        };
        let create = || {
            let probe = PutPayload::from_static(b"probe");
            store.put_opts(&path, probe, PutMode::Create.into())
        };
        let first = match create().await {
            // Our own, put by a try whose answer was lost.
            Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            first => first.map(drop),
        };
        first.map_err(|source| self.failed("create", &path, source))?;
        let second = create().await;
        let _ = store.delete(&path).await;
        match second {
            Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            _ => Err(StateError::NoConditionalPut {
                folder: self.folder(),
            }),
        }
    }

    /// Numbers of all records, ascending.
    pub async fn numbers(&self) -> Result<Vec<i64>, StateError> {
        let numbers = |object: ObjectMeta| object.location.filename().and_then(record_number);
        let mut numbers = self.objects(numbers).await?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The newest record and whether its marker stands.
    pub async fn newest(&self) -> Result<Option<(Record, bool)>, StateError> {
        let Some(number) = self.numbers().await?.pop() else {
            return Ok(None);
        };
        let record = self.record(number).await?;
        let marker = self.marker(number).await?;
        let marked = marker.is_some_and(|marker| marker.instance == record.instance);
        Ok(Some((record, marked)))
    }

    /// One record.
    pub async fn record(&self, number: i64) -> Result<Record, StateError> {
        let path = self.record_path(number);
        let Some(mut value) = self.read::<serde_json::Value>(&path).await? else {
            return Err(self.damaged(&path, "it does not exist"));
        };
        self.fetch_sides(&path, &mut value).await?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        if format.is_none_or(|format| format > u64::from(FORMAT)) {
            return Err(self.damaged(
                &path,
                &format!("format {format:?} is newer than this program's {FORMAT}"),
            ));
        }
        let record: Record = serde_json::from_value(value)
            .map_err(|error| self.damaged(&path, &error.to_string()))?;
        if record.number != number {
            return Err(self.damaged(&path, &format!("it says number {}", record.number)));
        }
        Ok(record)
    }

    /// Creates the record, then looks whether it counts: its predecessor must still be there.
    pub async fn create(&self, record: &Record) -> Result<(), StateError> {
        let path = self.record_path(record.number);
        let marker = self.marker_path(record.number);
        if self.exists(&marker).await? {
            // A successor of this instance has made both, and may just have pruned them.
            if self.exists(&path).await? || !self.exists(&marker).await? {
                return Err(self.fenced(record.number));
            }
            return Err(self.damaged(&marker, "it stands without its record"));
        }
        let bytes = self.encode(record).await?;
        if !self.put_if_absent(&path, bytes).await? {
            return Err(self.fenced(record.number));
        }
        let before = record.number - 1;
        if before > 0 && !self.exists(&self.record_path(before)).await? {
            // Void: a successor has gone on and pruned. Leave nothing that looks like progress.
            let _ = self.store.delete(&path).await;
            return Err(self.fenced(record.number));
        }
        Ok(())
    }

    /// Says that everything of a checkpoint is committed. Doing so twice is the same.
    pub async fn mark_committed(&self, marker: &Marker) -> Result<(), StateError> {
        let path = self.marker_path(marker.number);
        let bytes = self.to_json(&path, marker)?;
        match self.put_if_absent(&path, bytes).await? {
            true => Ok(()),
            // A successor has finished the record meanwhile, and may know of other snapshots.
            false => match self.marker(marker.number).await? {
                Some(found) if found.instance == marker.instance => Ok(()),
                _ => Err(self.fenced(marker.number)),
            },
        }
    }

    /// The marker of a checkpoint, when it stands.
    pub async fn marker(&self, number: i64) -> Result<Option<Marker>, StateError> {
        self.read(&self.marker_path(number)).await
    }

    /// Deletes all but the newest `retained` records, oldest first, and side files that none of
    /// the rest names. What cannot be deleted now is deleted next time.
    pub async fn prune(&self, retained: usize) -> Result<(), StateError> {
        let numbers = self.numbers().await?;
        let surplus = numbers.len().saturating_sub(retained.max(2));
        if surplus == 0 {
            return Ok(());
        }
        let (old, kept) = numbers.split_at(surplus);
        for number in old {
            for path in [self.marker_path(*number), self.record_path(*number)] {
                self.remove(&path).await?;
            }
        }
        self.prune_sides(kept).await
    }

    /// Young ones stay: a record that names one may be about to be created.
    async fn prune_sides(&self, kept: &[i64]) -> Result<(), StateError> {
        let now_ms = clock::now_ms();
        let old_side = |object: ObjectMeta| {
            let name = object.location.filename().unwrap_or_default();
            let age_ms = now_ms - object.last_modified.timestamp_millis();
            let is_old_side = name.starts_with("side-") && age_ms > SIDE_AGE_MS;
            is_old_side.then_some(object.location)
        };
        let sides = self.objects(old_side).await?;
        if sides.len() <= 4 {
            return Ok(());
        }
        let mut named = String::new();
        for number in kept {
            if let Some(value) = self
                .read::<serde_json::Value>(&self.record_path(*number))
                .await?
            {
                named.push_str(&value.to_string());
            }
        }
        for side in sides {
            if side.filename().is_some_and(|name| !named.contains(name)) {
                let _ = self.store.delete(&side).await;
            }
        }
        Ok(())
    }

    /// Reads an object of the folder as JSON; `None` when it is not there.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        path: &Path,
    ) -> Result<Option<T>, StateError> {
        let bytes = match self.store.get(path).await {
            Ok(found) => found
                .bytes()
                .await
                .map_err(|source| self.failed("read", path, source))?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(source) => return Err(self.failed("read", path, source)),
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| self.damaged(path, &error.to_string()))
    }

    /// Overwrites an object of the folder.
    pub(super) async fn overwrite<T: Serialize>(
        &self,
        path: &Path,
        value: &T,
    ) -> Result<(), StateError> {
        let bytes = self.to_json(path, value)?;
        self.put(path, bytes, PutMode::Overwrite)
            .await
            .map_err(|source| self.failed("write", path, source))
    }

    /// The object of the folder with this name.
    pub(super) fn path(&self, name: &str) -> Path {
        self.folder.clone().join(name)
    }

    async fn encode(&self, record: &Record) -> Result<Bytes, StateError> {
        let path = self.record_path(record.number);
        let mut value = serde_json::to_value(record)
            .map_err(|error| self.damaged(&path, &error.to_string()))?;
        for pointer in ["/source/connector", "/tables", "/commits"] {
            if let Some(part) = value.pointer_mut(pointer) {
                let bytes = self.to_json(&path, part)?;
                if bytes.len() > SIDE_BYTES {
                    let name = format!("side-{:032x}.json", xxh3_128(&bytes));
                    self.put_if_absent(&self.path(&name), bytes).await?;
                    *part = serde_json::json!({ "side": name });
                }
            }
        }
        self.to_json(&path, &value)
    }

    async fn fetch_sides(
        &self,
        record: &Path,
        value: &mut serde_json::Value,
    ) -> Result<(), StateError> {
        for pointer in ["/source/connector", "/tables", "/commits"] {
            if let Some(part) = value.pointer_mut(pointer)
                && let Some(name) = part.get("side").and_then(serde_json::Value::as_str)
            {
                let path = self.path(name);
                let side = self.read(&path).await?;
                *part = side.ok_or_else(|| {
                    self.damaged(record, &format!("{} is missing", self.shown(&path)))
                })?;
            }
        }
        Ok(())
    }

    /// True when the object is ours now: created, or found to be what we would have created (an
    /// answer may be lost and the put repeated below us).
    async fn put_if_absent(&self, path: &Path, bytes: Bytes) -> Result<bool, StateError> {
        match self.put(path, bytes.clone(), PutMode::Create).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => {
                let found = self
                    .store
                    .get(path)
                    .await
                    .map_err(|source| self.failed("read", path, source))?
                    .bytes()
                    .await
                    .map_err(|source| self.failed("read", path, source))?;
                Ok(found == bytes)
            }
            Err(source) => Err(self.failed("create", path, source)),
        }
    }

    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> object_store::Result<()> {
        self.store
            .put_opts(path, PutPayload::from_bytes(bytes), mode.into())
            .await
            .map(|_| ())
    }

    async fn exists(&self, path: &Path) -> Result<bool, StateError> {
        match self.store.head(path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(source) => Err(self.failed("look for", path, source)),
        }
    }

    fn record_path(&self, number: i64) -> Path {
        self.path(&format!("checkpoint-{number:020}.json"))
    }

    fn marker_path(&self, number: i64) -> Path {
        self.path(&format!("checkpoint-{number:020}.committed.json"))
    }

    fn fenced(&self, number: i64) -> StateError {
        StateError::Fenced {
            number,
            folder: self.folder(),
        }
    }

    /// What `pick` takes of the folder's objects.
    pub(super) async fn objects<T>(
        &self,
        pick: impl Fn(ObjectMeta) -> Option<T>,
    ) -> Result<Vec<T>, StateError> {
        let picked = self
            .store
            .list(Some(&self.folder))
            .try_filter_map(|object| std::future::ready(Ok(pick(object))));
        let picked: object_store::Result<Vec<T>> = picked.try_collect().await;
        picked.map_err(|source| self.failed("list", &self.folder, source))
    }

    /// Deletes an object; one that is gone already is no error.
    pub(super) async fn remove(&self, path: &Path) -> Result<(), StateError> {
        match self.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(self.failed("delete", path, source)),
        }
    }

    fn failed(&self, action: &'static str, path: &Path, source: object_store::Error) -> StateError {
        StateError::Store {
            action,
            path: self.shown(path),
            source,
        }
    }

    fn damaged(&self, path: &Path, message: &str) -> StateError {
        StateError::Damaged {
            path: self.shown(path),
            message: message.to_owned(),
        }
    }

    fn to_json<T: Serialize>(&self, path: &Path, value: &T) -> Result<Bytes, StateError> {
        serde_json::to_vec_pretty(value)
            .map(Bytes::from)
            .map_err(|error| self.damaged(path, &error.to_string()))
    }
}

fn record_number(name: &str) -> Option<i64> {
    name.strip_prefix("checkpoint-")?
        .strip_suffix(".json")?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
