//! A store in memory whose puts go wrong in chosen ways, or that dies at a chosen call.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory,
    path::Path,
};

/// How a put goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is written, and the answer says so.
    Refused,
    /// Written, but the answer is lost.
    AnswerLost,
    /// Written, and the store's own retry finds it there.
    FoundItself,
    /// Written whatever the condition says.
    ConditionIgnored,
}

/// Puts of paths that end in a text go wrong, in this order, each once (a condition is ignored for
/// ever).
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: InMemory,
    faults: Mutex<Vec<(String, Fault)>>,
    /// Calls that still succeed.
    left: Arc<AtomicI64>,
}

impl Default for Faulty {
    fn default() -> Self {
        Self {
            inner: InMemory::new(),
            faults: Mutex::default(),
            left: Arc::new(AtomicI64::new(i64::MAX)),
        }
    }
}

impl Faulty {
    /// After so many calls none succeeds any more, as if the process had died.
    pub(crate) fn die_after(&self, calls: i64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    /// Calls since [`Self::die_after`] was told this number.
    pub(crate) fn calls(&self, told: i64) -> i64 {
        told - self.left.load(Ordering::SeqCst)
    }

    pub(crate) fn revive(&self) {
        self.die_after(i64::MAX);
    }

    fn alive(&self) -> Result<()> {
        alive(&self.left)
    }

    pub(crate) fn add(&self, ending: &str, fault: Fault) {
        self.faults.lock().unwrap().push((ending.into(), fault));
    }

    fn fault(&self, path: &Path) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let at = faults
            .iter()
            .position(|(ending, _)| path.as_ref().contains(ending))?;
        let fault = faults[at].1;
        if fault != Fault::ConditionIgnored {
            faults.remove(at);
        }
        Some(fault)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

fn alive(left: &AtomicI64) -> Result<()> {
    match left.fetch_sub(1, Ordering::SeqCst) > 0 {
        true => Ok(()),
        false => Err(lost()),
    }
}

fn lost() -> object_store::Error {
    object_store::Error::Generic {
        store: "faulty",
        source: "connection reset".into(),
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        self.alive()?;
        let fault = self.fault(location);
        match fault {
            Some(Fault::Refused) => return Err(lost()),
            Some(Fault::ConditionIgnored) => options.mode = PutMode::Overwrite,
            _ => {}
        }
        let result = self.inner.put_opts(location, payload, options).await?;
        match fault {
            Some(Fault::AnswerLost) => Err(lost()),
            Some(Fault::FoundItself) => Err(object_store::Error::AlreadyExists {
                path: location.to_string(),
                source: "it exists".into(),
            }),
            _ => Ok(result),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.alive()?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let left = self.left.clone();
        let locations = locations.map(move |location| {
            alive(&left)?;
            location
        });
        self.inner.delete_stream(locations.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.alive()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
