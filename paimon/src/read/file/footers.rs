//! What a file takes while it is open, as its footer says, before it is opened.

use std::{collections::HashMap, sync::PoisonError};

use parquet::file::metadata::ParquetMetaData;

use crate::{data_file_meta::DataFileMeta, error::Result};

use super::{
    super::slices::Plan, File, FileOpener, Footer, Format, Wanted, avro, check_format, guard,
    read_error,
};

/// Footers of files that were looked at and are to be opened, by the files' names.
#[derive(Debug, Default)]
pub(super) struct Footers {
    known: HashMap<String, ParquetMetaData>,
    bytes: usize,
}

/// Bytes of footers that are kept, at most: the others are read again.
const FOOTERS_BYTES_MAX: usize = 4 << 20;

impl Footers {
    fn put(&mut self, file: &str, footer: ParquetMetaData) {
        let bytes = footer.memory_size();
        if self.bytes + bytes <= FOOTERS_BYTES_MAX {
            self.bytes += bytes;
            self.known.insert(file.to_owned(), footer);
        }
    }

    fn take(&mut self, file: &str) -> Option<ParquetMetaData> {
        let footer = self.known.remove(file)?;
        self.bytes = self.bytes.saturating_sub(footer.memory_size());
        Some(footer)
    }
}

impl FileOpener {
    /// Memory that a file takes while it is open and these columns of it are read, at least: more than
    /// `enough` is told exactly, as far as the file says how large its pages are. Its footer is kept
    /// for [`open`](Self::open).
    ///
    /// # Errors
    /// What the store says, and a damaged footer.
    pub(crate) async fn least_bytes(
        &self,
        meta: &DataFileMeta,
        wanted: &Wanted,
        enough: u64,
    ) -> Result<u64> {
        let format = check_format(&self.table, meta)?;
        if let Format::Avro = format {
            return Ok(avro::OPEN_BYTES);
        }
        let file = File {
            opener: self,
            meta,
            path: self.table.file_path(&self.partition, self.bucket, meta)?,
            schema: self.schema(meta.schema_id).await?,
            wanted,
            deleted: None,
            batch_rows: 1,
        };
        let at = file.path.to_string();
        let Footer {
            mut file,
            mut metadata,
            mask,
            ..
        } = file.footer().await?;
        let mut least = Plan::new(&metadata, &mask, self.budget(), 1).most_bytes();
        if least > enough && metadata.num_row_groups() > 0 {
            let groups: Vec<usize> = (0..metadata.num_row_groups()).collect();
            let read = async {
                let read = file.with_pages(metadata, &mask, &groups).await;
                read.map_err(|error| read_error(&at, error))
            };
            metadata = guard::step(&at, read).await?;
            least = least.min(Plan::new(&metadata, &mask, self.budget(), 1).least_bytes());
        }
        let footers = self.footers.lock();
        let mut footers = footers.unwrap_or_else(PoisonError::into_inner);
        footers.put(&meta.file_name, metadata);
        Ok(least)
    }

    pub(super) fn known_footer(&self, file: &str) -> Option<ParquetMetaData> {
        let footers = self.footers.lock();
        footers.unwrap_or_else(PoisonError::into_inner).take(file)
    }
}
