//! The file system of this machine as a store.

use std::{fmt, ops::Range};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
    local::LocalFileSystem,
    path::{Path, PathPart},
};

/// `LocalFileSystem`, with other names for what a killed process leaves behind. It would stage
/// `snapshot-7` as `snapshot-7#1`, in the folder where Java Paimon takes whatever begins with
/// `snapshot-` (and `schema-`) for a number, and then refuses the whole table. Here an object that
/// must not exist is staged as `.snapshot-7.<uuid>.tmp`, which is Java's own pattern, and linked.
///
/// A folder that is empty can be deleted, as an object store has none of them.
#[derive(Debug)]
pub(crate) struct LocalStore(pub(crate) LocalFileSystem);

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn staged(location: &Path) -> Option<Path> {
    let name = format!(".{}.{}.tmp", location.filename()?, uuid::Uuid::new_v4());
    let folder = location.parent().unwrap_or_default();
    Some(folder.join(PathPart::parse(&name).ok()?))
}

#[async_trait::async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let staged = match options.mode {
            PutMode::Create => staged(location),
            _ => None,
        };
        let Some(staged) = staged else {
            return self.0.put_opts(location, payload, options).await;
        };
        let options = PutOptions {
            mode: PutMode::Overwrite,
            ..options
        };
        let result = self.0.put_opts(&staged, payload, options).await?;
        let link = CopyOptions::new().with_mode(CopyMode::Create);
        let linked = self.0.copy_opts(&staged, location, link).await;
        // What can't be deleted is hidden; orphan cleaning takes it.
        let _ = self.0.delete(&staged).await;
        linked.map(|()| result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let inner = self.0.clone();
        locations
            .map(move |location| {
                let inner = inner.clone();
                async move {
                    let location = location?;
                    match inner.delete(&location).await {
                        Ok(()) => {}
                        Err(error @ object_store::Error::NotFound { .. }) => return Err(error),
                        Err(error) => {
                            let path = inner.path_to_filesystem(&location)?;
                            // Fails when it is not a folder, or not empty.
                            if tokio::fs::remove_dir(path).await.is_err() {
                                return Err(error);
                            }
                        }
                    }
                    Ok(location)
                }
            })
            .buffered(10)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use super::*;

    /// Whatever stands in the folder while objects are created would stay there after a kill.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_kill_would_leave_does_not_look_like_a_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let inner = LocalFileSystem::new_with_prefix(folder.path())
            .unwrap()
            .with_fsync(true);
        let store = LocalStore(inner);
        let done = Arc::new(AtomicBool::new(false));
        let seen = {
            let (path, done) = (folder.path().to_owned(), done.clone());
            std::thread::spawn(move || {
                let mut seen = BTreeSet::new();
                while !done.load(Ordering::Relaxed) {
                    let names = std::fs::read_dir(&path).unwrap();
                    seen.extend(names.map(|entry| entry.unwrap().file_name()));
                }
                seen
            })
        };
        let create = |n: usize| {
            let options = PutOptions::from(PutMode::Create);
            let path = Path::from(format!("snapshot-{n}"));
            let store = &store;
            async move {
                store
                    .put_opts(&path, vec![b'x'; 4096].into(), options)
                    .await
            }
        };
        for n in 0..200 {
            create(n).await.unwrap();
            assert!(matches!(
                create(n).await,
                Err(object_store::Error::AlreadyExists { .. })
            ));
        }
        done.store(true, Ordering::Relaxed);
        let wrong: Vec<_> = seen
            .join()
            .unwrap()
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with("snapshot-") && name.contains('#'))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 200);
    }
}
