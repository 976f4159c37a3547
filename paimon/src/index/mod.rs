//! Index files: deletion vectors and hashes of dynamic buckets. They stand in the table's folder
//! `index`; the snapshot's index manifest says which belong to it.

pub mod deletion_vector;
pub mod hash;

pub use deletion_vector::DeletionVector;
pub use hash::{DynamicBucketAssigner, IndexMemory, SharedBuckets};

use crate::{
    error::{Error, Result},
    index_manifest::IndexFileMeta,
    table::Table,
};

use object_store::path::Path;

impl Table {
    /// Where an index file stands.
    pub(crate) fn index_path(&self, name: &str) -> Path {
        self.path().clone().join("index").join(name)
    }

    /// Where the index file of a manifest stands.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when that is outside of the folder `index`.
    pub(crate) fn index_file_path(&self, file: &IndexFileMeta) -> Result<Path> {
        let option = self.schema().options.get("index-file-in-data-file-dir");
        if file.external_path.is_some() || option.is_some_and(|value| value.trim() == "true") {
            return Err(Error::Unsupported(format!(
                "table {}: index file {} outside of the folder 'index' (option \
                 index-file-in-data-file-dir, or an external path)",
                self.name(),
                file.file_name
            )));
        }
        Ok(self.index_path(&file.file_name))
    }
}
