//! The files that one writer fills, one after the other.
//!
//! Source: `RollingFileWriter`.

use std::sync::Arc;

use uuid::Uuid;

use super::{CopySource, DataFileWriter, FileLayout, FilePurpose, KeyValueBatch};
use crate::{data_file_meta::DataFileMeta, error::Result};

/// Writes the rows of one bucket into files of a bounded size. Files of one writer do not overlap.
#[derive(Debug)]
pub struct RollingWriter {
    layout: Arc<FileLayout>,
    folder: String,
    level: i32,
    purpose: FilePurpose,
    target_file_bytes: u64,
    run: Uuid,
    files_begun: usize,
    open: Option<DataFileWriter>,
    done: Vec<DataFileMeta>,
}

impl RollingWriter {
    /// Into a bucket's folder.
    pub fn new(
        layout: &Arc<FileLayout>,
        folder: String,
        level: i32,
        target_file_bytes: u64,
    ) -> Self {
        Self {
            layout: layout.clone(),
            folder,
            level,
            purpose: FilePurpose::Append,
            target_file_bytes,
            run: Uuid::new_v4(),
            files_begun: 0,
            open: None,
            done: Vec::new(),
        }
    }

    /// For files of another purpose than new rows.
    pub(crate) fn with_purpose(mut self, purpose: FilePurpose) -> Self {
        self.purpose = purpose;
        self
    }

    /// Writes rows; within a file their keys ascend.
    pub async fn write(&mut self, batch: &KeyValueBatch) -> Result<()> {
        let rows_max = match self.purpose {
            FilePurpose::Append => self.layout.rows_max,
            FilePurpose::Compact | FilePurpose::Changelog => u64::MAX,
        };
        let mut at = 0;
        while at < batch.rows() {
            let begun = self
                .open
                .as_ref()
                .map_or(0, |file| file.rows.unsigned_abs());
            let room = usize::try_from(rows_max - begun).unwrap_or(usize::MAX);
            let length = room.min(batch.rows() - at);
            match length == batch.rows() {
                true => self.write_rows(batch).await?,
                false => self.write_rows(&batch.slice(at, length)).await?,
            }
            if length == room {
                self.close_file().await?;
            }
            at += length;
        }
        Ok(())
    }

    /// Puts the rows of another file of the bucket behind those written so far, without decoding
    /// them. Within a file keys ascend here, too.
    pub(crate) async fn copy(&mut self, source: CopySource) -> Result<()> {
        let mut file = self.open_file()?;
        let copied = file.copy(source).await;
        self.keep_open(file, copied).await
    }

    async fn write_rows(&mut self, batch: &KeyValueBatch) -> Result<()> {
        let mut file = self.open_file()?;
        let written = file.write(batch).await;
        self.keep_open(file, written).await
    }

    fn open_file(&mut self) -> Result<DataFileWriter> {
        if let Some(file) = self.open.take() {
            return Ok(file);
        }
        let (run, number) = (self.run.to_string(), self.files_begun);
        self.files_begun += 1;
        let name = self.layout.styles.name(self.purpose, &run, number);
        let mut file = DataFileWriter::new(&self.layout, &self.folder, name, self.level)?;
        file.purpose = self.purpose;
        Ok(file)
    }

    /// For the next rows, unless it is full.
    async fn keep_open(&mut self, file: DataFileWriter, written: Result<()>) -> Result<()> {
        let full = file.file_bytes() >= self.target_file_bytes;
        self.open = Some(file);
        written?;
        if full {
            self.close_file().await
        } else {
            Ok(())
        }
    }

    /// Completes the open file, if any: the next row begins another.
    pub async fn close_file(&mut self) -> Result<()> {
        if let Some(file) = self.open.take()
            && file.rows > 0
        {
            self.done.push(file.finish().await?);
        }
        Ok(())
    }

    /// See [`DataFileWriter::flush_row_group`].
    pub async fn flush_row_group(&mut self) -> Result<()> {
        match &mut self.open {
            Some(file) => file.flush_row_group().await,
            None => Ok(()),
        }
    }

    /// See [`DataFileWriter::in_progress_size`].
    pub fn in_progress_size(&self) -> usize {
        self.open
            .as_ref()
            .map_or(0, DataFileWriter::in_progress_size)
    }

    /// See [`DataFileWriter::open_bytes`].
    pub fn open_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, DataFileWriter::open_bytes)
    }

    /// Completes all files. On an error they are deleted.
    pub async fn finish(mut self) -> Result<Vec<DataFileMeta>> {
        match self.close_file().await {
            Ok(()) => Ok(std::mem::take(&mut self.done)),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    /// Throws all files away.
    pub async fn abort(mut self) {
        if let Some(file) = self.open.take() {
            file.abort().await;
        }
        self.layout.delete(&self.folder, &self.done).await;
    }
}
