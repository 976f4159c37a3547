//! A store in memory whose puts go wrong in chosen ways.

use std::{fmt, sync::Mutex};

use futures::stream::BoxStream;
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
#[derive(Debug, Default)]
pub(crate) struct Faulty {
    inner: InMemory,
    faults: Mutex<Vec<(String, Fault)>>,
}

impl Faulty {
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
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
