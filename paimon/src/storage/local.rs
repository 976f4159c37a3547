//! The file system of this machine as a store.

use std::{
    cell::Cell,
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::PathBuf,
};

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
    local::LocalFileSystem,
    path::{Path, PathPart},
};

/// `LocalFileSystem`, with other names for what a killed process leaves behind. It would stage
/// `snapshot-7` as `snapshot-7#1`, in the folder where Java Paimon takes whatever begins with
/// `snapshot-` (and `schema-`) for a number, and then refuses the whole table. Here an object that
/// must not exist is staged as `.snapshot-7.<uuid>.tmp`, which is Java's own pattern, and linked.
/// That is one piece of work here, which needs no more than two syncs. All is durable when it is
/// answered.
///
/// A folder that is empty can be deleted, as an object store has none of them.
#[derive(Debug)]
pub(crate) struct LocalStore(pub(crate) LocalFileSystem);

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// An object of so many bytes is read when it is opened.
const READ_AT_ONCE_BYTES: u64 = 1 << 20;

/// Does work on a thread that nothing else waits for: files are read and written on it then. Handed to another
/// thread, each read would cost two switches, and memory that one thread takes and another gives
/// back lies idle in between.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            MAY_BLOCK.set(self.0);
        }
    }
    let _reset = Reset(MAY_BLOCK.replace(true));
    work()
}

/// Ranges of a file; those that follow each other at once.
fn read_ranges(file: &mut File, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
    let mut read = Vec::with_capacity(ranges.len());
    let mut rest = ranges;
    while let Some(first) = rest.first() {
        let following = rest
            .windows(2)
            .take_while(|pair| matches!(pair, [before, after] if before.end == after.start));
        let (now, behind) = rest.split_at((following.count() + 1).min(rest.len()));
        rest = behind;
        let end = now.last().map_or(first.end, |last| last.end);
        let length = end.saturating_sub(first.start);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.seek(SeekFrom::Start(first.start))?;
        file.take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            let message = format!("it ends before byte {end}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let mut bytes = Bytes::from(bytes);
        for range in now {
            let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
            read.push(bytes.split_to(length.min(bytes.len())));
        }
    }
    Ok(read)
}

/// An object, read at once where it is small.
fn get(location: &Path, path: PathBuf, is_head: bool) -> io::Result<GetResult> {
    let file = File::open(&path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it is a folder"));
    }
    let size = metadata.len();
    let payload = match is_head || size > READ_AT_ONCE_BYTES {
        true => GetResultPayload::File(file, path),
        false => {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            file.take(size).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != size {
                let message = "it became shorter while it was read";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            let bytes = Bytes::from(bytes);
            GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed())
        }
    };
    Ok(GetResult {
        payload,
        meta: ObjectMeta {
            location: location.clone(),
            last_modified: metadata.modified()?.into(),
            size,
            e_tag: None,
            version: None,
        },
        range: 0..size,
        attributes: Default::default(),
        extensions: Default::default(),
    })
}

fn failed(location: &Path, error: io::Error) -> object_store::Error {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let source = Box::new(error);
    match is_missing {
        true => object_store::Error::NotFound {
            path: location.to_string(),
            source,
        },
        false => object_store::Error::Generic {
            store: "LocalFileSystem",
            source,
        },
    }
}

/// Writes a file beside its place and puts it there, durably: in place of what was there, or only
/// where nothing is. The folder must exist.
fn publish(path: &std::path::Path, payload: &PutPayload, may_replace: bool) -> io::Result<()> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "no file in a folder");
    let folder = path.parent().ok_or_else(no_file)?;
    let name = path.file_name().ok_or_else(no_file)?.to_string_lossy();
    let staged = folder.join(staged_name(&name));
    let mut file = File::create_new(&staged)?;
    let mut write = || {
        payload.iter().try_for_each(|part| file.write_all(part))?;
        file.sync_all()?;
        match may_replace {
            true => std::fs::rename(&staged, path),
            false => std::fs::hard_link(&staged, path),
        }
    };
    let written = write();
    let synced = written.and_then(|()| File::open(folder)?.sync_all());
    if !may_replace || synced.is_err() {
        // What can't be deleted is hidden; orphan cleaning takes it.
        let _ = std::fs::remove_file(&staged);
    }
    synced
}

impl LocalStore {
    /// Writes an object in one go. `None`: it is for [`LocalFileSystem`], which makes folders.
    async fn publish(
        &self,
        location: &Path,
        payload: &PutPayload,
        may_replace: bool,
    ) -> Option<Result<PutResult>> {
        let path = self.0.path_to_filesystem(location).ok()?;
        let answer = match MAY_BLOCK.get() {
            true => publish(&path, payload, may_replace),
            false => {
                let payload = payload.clone();
                let work = move || publish(&path, &payload, may_replace);
                tokio::task::spawn_blocking(work).await.ok()?
            }
        };
        let error = match answer {
            Ok(()) => {
                return Some(Ok(PutResult {
                    e_tag: None,
                    version: None,
                    extensions: Default::default(),
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error,
        };
        let exists = !may_replace && error.kind() == io::ErrorKind::AlreadyExists;
        Some(Err(match exists {
            true => object_store::Error::AlreadyExists {
                path: location.to_string(),
                source: Box::new(error),
            },
            false => failed(location, error),
        }))
    }
}

/// A name for an object that is not in its place yet: Java's own pattern.
fn staged_name(name: &str) -> String {
    format!(".{name}.{}.tmp", uuid::Uuid::new_v4())
}

fn staged(location: &Path) -> Option<Path> {
    let name = staged_name(location.filename()?);
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
        let may_replace = matches!(options.mode, PutMode::Overwrite);
        let in_one_go = match options.mode {
            PutMode::Create => true,
            PutMode::Overwrite => MAY_BLOCK.get(),
            PutMode::Update(_) => false,
        };
        if in_one_go
            && options.attributes.is_empty()
            && let Some(done) = self.publish(location, &payload, may_replace).await
        {
            return done;
        }
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
        let is_plain = options.range.is_none()
            && options.if_match.is_none()
            && options.if_none_match.is_none()
            && options.if_modified_since.is_none()
            && options.if_unmodified_since.is_none();
        if !MAY_BLOCK.get() || !is_plain {
            return self.0.get_opts(location, options).await;
        }
        let path = self.0.path_to_filesystem(location)?;
        get(location, path, options.head).map_err(|error| failed(location, error))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if !MAY_BLOCK.get() {
            return self.0.get_ranges(location, ranges).await;
        }
        let path = self.0.path_to_filesystem(location)?;
        let read = File::open(path).and_then(|mut file| read_ranges(&mut file, ranges));
        read.map_err(|error| failed(location, error))
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

    #[test]
    fn a_thread_of_its_own_reads_what_others_read() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..255).collect();
        std::fs::write(folder.path().join("file"), &bytes).unwrap();
        let store = LocalStore(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let path = Path::from("file");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for ranges in [
            vec![],
            vec![3..7, 0..1],
            vec![0..10, 10..20, 20..255],
            vec![0..10, 11..20, 20..21, 5..9, 9..10],
        ] {
            let read = || runtime.block_on(store.get_ranges(&path, &ranges)).unwrap();
            let own = blocking(read);
            assert_eq!(own, read());
            for (range, own) in ranges.iter().zip(own) {
                assert_eq!(own, bytes[range.start as usize..range.end as usize]);
            }
        }
        let fails = |path: &str, range| {
            let path = Path::from(path);
            blocking(|| runtime.block_on(store.get_ranges(&path, &[range]))).unwrap_err()
        };
        let missing = fails("other", 0..1);
        assert!(matches!(missing, object_store::Error::NotFound { .. }));
        assert!(fails("file", 250..300).to_string().contains("byte 300"));
    }

    #[tokio::test]
    async fn a_thread_of_its_own_gets_what_others_get() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        std::fs::write(folder.path().join("small"), b"0123").unwrap();
        let large = vec![b'x'; READ_AT_ONCE_BYTES as usize + 1];
        std::fs::write(folder.path().join("large"), &large).unwrap();
        let store = LocalStore(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let runtime = tokio::runtime::Handle::current();
        let compare = move || {
            for name in ["small", "large"] {
                let path = Path::from(name);
                let get = || {
                    let got = runtime.block_on(store.get(&path)).unwrap();
                    let meta = got.meta.clone();
                    let bytes = runtime.block_on(got.bytes()).unwrap();
                    (meta.location, meta.last_modified, meta.size, bytes)
                };
                assert_eq!(blocking(get), get());
                let head = || runtime.block_on(store.head(&path)).unwrap().size;
                assert_eq!(blocking(head), head());
            }
            for name in ["missing", "folder", "small/below"] {
                let path = Path::from(name);
                let get = || runtime.block_on(store.get(&path)).map(|_| ()).unwrap_err();
                let (own, other) = (blocking(get), get());
                let is_missing = |error: &_| matches!(error, object_store::Error::NotFound { .. });
                assert_eq!(
                    is_missing(&own),
                    is_missing(&other),
                    "{name}: {own} {other}"
                );
            }
        };
        tokio::task::spawn_blocking(compare).await.unwrap();
    }

    #[tokio::test]
    async fn objects_are_written_in_one_go_and_only_where_they_may() {
        let folder = tempfile::tempdir().unwrap();
        let inner = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let store = Arc::new(LocalStore(inner.with_fsync(true)));
        let runtime = tokio::runtime::Handle::current();
        let put = |path: &'static str, text: &'static str, mode: PutMode, own: bool| {
            let (store, runtime) = (store.clone(), runtime.clone());
            async move {
                let path = Path::from(path);
                let options = PutOptions::from(mode);
                let work = move || {
                    let put = store.put_opts(&path, text.into(), options);
                    match own {
                        true => blocking(|| runtime.block_on(put)),
                        false => runtime.block_on(put),
                    }
                };
                tokio::task::spawn_blocking(work).await.unwrap()
            }
        };
        for own in [true, false] {
            // Folders are made.
            let path = if own { "a/b/object" } else { "c/object" };
            let text = || std::fs::read_to_string(folder.path().join(path)).unwrap();
            put(path, "1", PutMode::Create, own).await.unwrap();
            let again = put(path, "2", PutMode::Create, own).await.unwrap_err();
            assert!(matches!(again, object_store::Error::AlreadyExists { .. }));
            assert_eq!(text(), "1");
            put(path, "3", PutMode::Overwrite, own).await.unwrap();
            assert_eq!(text(), "3");
            let parent = folder.path().join(path).parent().unwrap().to_owned();
            assert_eq!(std::fs::read_dir(parent).unwrap().count(), 1);
        }
    }

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
