//! A store in memory that says how much was read of it.

use std::{
    fmt,
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};

/// Counts bytes that are read, and objects that are listed.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    inner: InMemory,
    all: AtomicU64,
    most: AtomicU64,
    listed: AtomicUsize,
}

impl Counting {
    /// Bytes read since this was asked last, and the most of them that one call read.
    pub(crate) fn read(&self) -> (u64, u64) {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::SeqCst);
        (take(&self.all), take(&self.most))
    }

    /// Objects right in a folder that were listed since this was asked last.
    pub(crate) fn listed(&self) -> usize {
        self.listed.swap(0, Ordering::SeqCst)
    }

    fn count(&self, bytes: u64) {
        self.all.fetch_add(bytes, Ordering::SeqCst);
        self.most.fetch_max(bytes, Ordering::SeqCst);
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counting")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Counting {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.inner.get_opts(location, options).await?;
        self.count(got.range.end - got.range.start);
        Ok(got)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.count(ranges.iter().map(|range| range.end - range.start).sum());
        self.inner.get_ranges(location, ranges).await
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
        let found = self.inner.list_with_delimiter(prefix).await?;
        self.listed.fetch_add(found.objects.len(), Ordering::SeqCst);
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
