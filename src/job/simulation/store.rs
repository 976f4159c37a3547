//! A store whose operations fail at random, before or after they took effect.

use std::{
    fmt,
    ops::Range,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Fails with some probability.
#[derive(Debug)]
pub struct FailingStore {
    inner: Arc<dyn ObjectStore>,
    rng: Mutex<StdRng>,
    probability: f64,
}

impl FailingStore {
    pub fn new(inner: Arc<dyn ObjectStore>, seed: u64, probability: f64) -> Self {
        Self {
            inner,
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            probability,
        }
    }

    fn maybe_fail(&self) -> Result<()> {
        match self.rng.lock().unwrap().random_bool(self.probability) {
            true => Err(object_store::Error::Generic {
                store: "failing",
                source: "made to fail".into(),
            }),
            false => Ok(()),
        }
    }
}

impl fmt::Display for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failing {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FailingStore {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.maybe_fail()?;
        let put = self.inner.put_opts(at, payload, opts).await?;
        // It took effect, and nobody is told.
        self.maybe_fail()?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.maybe_fail()?;
        self.inner.put_multipart_opts(at, opts).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.maybe_fail()?;
        self.inner.get_opts(at, options).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.maybe_fail()?;
        self.inner.get_ranges(at, ranges).await
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
        self.maybe_fail()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.maybe_fail()?;
        self.inner.copy_opts(from, to, options).await
    }
}
