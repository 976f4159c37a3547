//! Writes tables without a primary key: rows stay in the order in which they come, in files of the
//! table's columns only.
//!
//! Source: `org.apache.paimon.append.AppendOnlyWriter`.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch, UInt32Array};
use arrow_select::take::take;

use crate::{
    data_file::{FileLayout, KeyValueBatch, RollingWriter, kind},
    data_file_meta::CommitMessage,
    error::{Error, Result},
    placement::{Placement, bind},
    table::Table,
    table_options::Budget,
    write_buffer::{WriteSettings, messages},
};

/// Bytes at which a file of an append table ends, when neither the table nor the settings say.
const TARGET_FILE_BYTES: u64 = 256 << 20;

/// Writes rows of a table without a primary key straight into files, one open file a bucket.
/// Nobody sees them before a commit of the messages.
#[derive(Debug)]
pub struct AppendWriter {
    table: Table,
    layout: Arc<FileLayout>,
    placement: Placement,
    /// By place.
    writers: Vec<Option<RollingWriter>>,
    /// Next sequence number of each place.
    sequences: Vec<i64>,
    /// Where buckets that have rows go on.
    begun: HashMap<(Vec<u8>, i32), i64>,
    target_file_bytes: u64,
    max_buffered_bytes: usize,
}

impl AppendWriter {
    /// For a table without a primary key, with fixed buckets (option `bucket-key`) or none
    /// (`bucket = -1`). With fixed buckets all manifests are read, to go on with their sequence
    /// numbers.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a table with a primary key, and for options that would give rows
    /// another meaning.
    pub async fn new(table: Table, settings: WriteSettings) -> Result<Self> {
        let schema = table.schema();
        if !schema.primary_keys.is_empty() {
            return Err(Error::Unsupported(format!(
                "table {} has a primary key: its rows are merged by key, not appended",
                table.name()
            )));
        }
        let budget = Budget::new(schema)?;
        let placement = Placement::new(&table)?;
        let mut begun: HashMap<(Vec<u8>, i32), i64> = HashMap::new();
        if schema.buckets() != -1 {
            for file in table.newest_files().await? {
                let next = begun.entry((file.partition, file.bucket)).or_default();
                *next = (*next).max(file.meta.max_sequence_number.saturating_add(1));
            }
        }
        Ok(Self {
            layout: FileLayout::new(&table)?,
            placement,
            writers: Vec::new(),
            sequences: Vec::new(),
            begun,
            target_file_bytes: budget.target_file_bytes.unwrap_or(
                match settings.target_file_bytes == WriteSettings::default().target_file_bytes {
                    true => TARGET_FILE_BYTES,
                    false => settings.target_file_bytes,
                },
            ),
            max_buffered_bytes: settings.max_buffered_bytes,
            table,
        })
    }

    /// Writes rows. Columns are bound by name; a missing nullable column is NULL; a missing NOT
    /// NULL or an unknown column, or another Arrow type than
    /// [`DataType::arrow`](crate::DataType::arrow), is an error, and then nothing was written. After
    /// an error of the store only [`abort`](Self::abort) makes sense.
    pub async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let columns = bind(&self.table, rows)?;
        let Some(places) = self.placement.place(&columns)? else {
            self.append(0, columns, rows.num_rows()).await?;
            return self.give_memory_back().await;
        };
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); self.placement.places().len()];
        for (row, place) in (0..).zip(places) {
            if let Some(rows) = rows_of.get_mut(place) {
                rows.push(row);
            }
        }
        for (place, rows) in rows_of.into_iter().enumerate() {
            if rows.is_empty() {
                continue;
            }
            let count = rows.len();
            let rows = UInt32Array::from(rows);
            let columns = columns
                .iter()
                .map(|column| take(column, &rows, None))
                .collect::<Result<Vec<_>, _>>()?;
            self.append(place, columns, count).await?;
        }
        self.give_memory_back().await
    }

    async fn append(&mut self, at: usize, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let Some(place) = self.placement.places().get(at) else {
            return Err(Error::Internal(format!("no place {at}")));
        };
        while self.writers.len() <= at {
            let known = self.placement.places().get(self.writers.len());
            let next = known
                .and_then(|place| self.begun.get(&(place.partition.clone(), place.bucket)))
                .copied();
            self.sequences.push(next.unwrap_or(0));
            self.writers.push(None);
        }
        let (Some(writer), Some(sequence)) = (self.writers.get_mut(at), self.sequences.get_mut(at))
        else {
            return Err(Error::Internal(format!("no writer {at}")));
        };
        let writer = writer.get_or_insert_with(|| {
            let folder = place.folder.clone();
            RollingWriter::new(&self.layout, folder, 0, self.target_file_bytes)
        });
        let first = *sequence;
        let end = first.saturating_add(rows as i64);
        let batch = KeyValueBatch {
            columns,
            sequences: Int64Array::from_iter_values(first..end),
            kinds: Int8Array::from_value(kind::INSERT, rows),
        };
        writer.write(&batch).await?;
        *sequence = end;
        Ok(())
    }

    /// Bytes of memory that the open files take.
    pub fn buffered_bytes(&self) -> usize {
        let open = self.writers.iter().flatten();
        open.map(RollingWriter::in_progress_size).sum()
    }

    async fn give_memory_back(&mut self) -> Result<()> {
        let open = self.writers.iter_mut().flatten();
        give_memory_back(open, self.max_buffered_bytes).await
    }

    /// Completes all files, for a commit; more may be written then. On an error the files that were
    /// open are deleted.
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        let mut written = Vec::new();
        let mut failure = None;
        let places = self.placement.places().to_vec();
        for (place, writer) in places.into_iter().zip(&mut self.writers) {
            let Some(writer) = writer.take() else {
                continue;
            };
            match writer.finish().await {
                Ok(files) => written.push((place, files)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            for (place, files) in &written {
                self.layout.delete(&place.folder, files).await;
            }
            return Err(error);
        }
        Ok(messages(written, self.placement.buckets()))
    }

    /// Throws away what was not prepared.
    pub async fn abort(self) {
        for writer in self.writers.into_iter().flatten() {
            writer.abort().await;
        }
    }
}

/// Ends row groups, the largest first, while the open files take more memory than they may.
pub(crate) async fn give_memory_back(
    writers: impl Iterator<Item = &mut RollingWriter>,
    bytes_max: usize,
) -> Result<()> {
    let mut open: Vec<&mut RollingWriter> = writers.collect();
    let mut taken: usize = open.iter().map(|writer| writer.in_progress_size()).sum();
    if taken <= bytes_max {
        return Ok(());
    }
    open.sort_by_key(|writer| std::cmp::Reverse(writer.open_bytes()));
    for writer in open {
        if taken <= bytes_max / 2 {
            break;
        }
        taken = taken.saturating_sub(writer.open_bytes());
        writer.flush_row_group().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::TryStreamExt;

    use super::*;
    use crate::{
        CommitRequest,
        fixture::{INT_COLUMNS, fixture, int_batch},
    };

    async fn commit(table: &Table, identifier: i64, messages: Vec<CommitMessage>) {
        let request = CommitRequest {
            user: "u".into(),
            identifier,
            messages,
            watermark_ms: None,
            properties: BTreeMap::new(),
            expect: None,
        };
        table.commit(&request).await.unwrap();
    }

    async fn count(table: &Table) -> usize {
        let snapshot = table.latest_snapshot().await.unwrap().unwrap();
        let mut count = 0;
        for split in table.scan(&snapshot).await.unwrap() {
            let batches = table.read_bucket(&split, None).unwrap();
            let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
            count += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        }
        count
    }

    #[tokio::test]
    async fn rows_are_appended_to_buckets_and_partitions() {
        let partitions: [&[&str]; 2] = [&[], &["id"]];
        for partition in partitions {
            for options in [
                vec![("bucket", "-1")],
                vec![("bucket", "3"), ("bucket-key", "v")],
            ] {
                let fixture = fixture(&INT_COLUMNS, &[], partition, &options);
                let table = &fixture.table;
                table.create_schema(table.schema()).await.unwrap();
                let settings = WriteSettings::default();
                let mut writer = AppendWriter::new(table.clone(), settings).await.unwrap();
                let rows: Vec<_> = (0..30).map(|n| (n % 4, Some(n))).collect();
                for _ in 0..2 {
                    writer.write(&int_batch(&rows)).await.unwrap();
                }
                let messages = writer.prepare().await.unwrap();
                let files = messages.iter().flat_map(|message| &message.new_files);
                let files: Vec<_> = files.collect();
                assert_eq!(files.iter().map(|file| file.row_count).sum::<i64>(), 60);
                for file in &files {
                    assert_eq!(file.min_key, vec![0; 12]);
                    assert_eq!((file.level, file.delete_row_count), (0, Some(0)));
                    assert_eq!(file.max_sequence_number, file.row_count - 1);
                }
                let is_one = partition.is_empty() && options.len() == 1;
                assert_eq!(messages.len() == 1, is_one);
                commit(table, 1, messages).await;
                assert_eq!(count(table).await, 60);
                let mut writer = AppendWriter::new(table.clone(), settings).await.unwrap();
                writer.write(&int_batch(&[(1, Some(7))])).await.unwrap();
                let messages = writer.prepare().await.unwrap();
                let first = messages[0].new_files[0].min_sequence_number;
                assert_eq!(first > 0, options.len() == 2);
                commit(table, 2, messages).await;
                assert_eq!(count(table).await, 61);
            }
        }
    }
}
