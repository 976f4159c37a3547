//! Files whose rows can go into another file as they are: nothing is decoded, sorted or compressed
//! again. What a compaction of inserts in the order of their keys costs is then reading and writing.

use object_store::path::Path;

use super::{Encoder, FileLayout, FilePurpose};
use crate::{
    data_file_meta::DataFileMeta, error::Result, read::row_groups::RowGroups, stats::FileStats,
};

/// Bytes of a row group, on the average, from which on it is worth to be one in the next file, too:
/// readers are slow with many small ones.
const GROUP_BYTES_MIN: i64 = 4 << 20;
/// Bytes of a row group that are in memory at a time, at most.
const GROUP_BYTES_MAX: i64 = 32 << 20;

/// An open file that can be copied.
#[derive(Debug)]
pub(crate) struct CopySource {
    pub(super) meta: DataFileMeta,
    pub(super) groups: RowGroups,
    pub(super) stats: FileStats,
}

impl FileLayout {
    /// A file at `path` whose rows a compaction can take over into a file of `level` as they are:
    /// of the table's newest schema, compressed as that level is, with large row groups, and with
    /// metadata that says what the new file's has to. `None`: its rows have to be read.
    ///
    /// # Errors
    /// What the store says, and a damaged footer.
    pub(crate) async fn copy_source(
        &self,
        path: Path,
        meta: &DataFileMeta,
        level: i32,
    ) -> Result<Option<CopySource>> {
        let purpose = FilePurpose::Compact;
        let is_plain = meta.file_name.ends_with(".parquet")
            && meta.schema_id == self.table.id
            && meta.file_size >= GROUP_BYTES_MIN
            && meta.extra_files.is_empty()
            && meta.embedded_index.is_none()
            && meta.external_path.is_none()
            && meta.first_row_id.is_none()
            && meta.write_cols.is_none();
        if !is_plain {
            return Ok(None);
        }
        let plan = self.styles.stats(level, purpose);
        let Some(stats) = FileStats::of_file(&self.table.fields, &self.keys, meta, plan) else {
            return Ok(None);
        };
        let size = meta.file_size.unsigned_abs();
        let groups = RowGroups::open(self.store.clone(), path, size).await?;
        let footer = groups.metadata();
        let count = i64::try_from(footer.num_row_groups()).unwrap_or(i64::MAX);
        let largest = footer.row_groups().iter().map(|it| it.compressed_size());
        let rows: i64 = footer.row_groups().iter().map(|it| it.num_rows()).sum();
        let fits = count > 0
            && meta.file_size / count >= GROUP_BYTES_MIN
            && largest.max().is_some_and(|bytes| bytes <= GROUP_BYTES_MAX)
            && rows == meta.row_count
            && Encoder::takes(&self.shape, self.styles.compression(level, purpose), footer);
        Ok(fits.then(|| CopySource {
            meta: meta.clone(),
            groups,
            stats,
        }))
    }
}
