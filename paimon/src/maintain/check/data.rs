//! Reads a data file and compares it with what its manifest says.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, RecordBatch,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use futures::TryStreamExt;

use crate::{
    LiveFile,
    binary_row::{Column, RowView, Value},
    data_file::kind,
    data_file_meta::SimpleStats,
    data_type::DataField,
    error::Result,
    key_order::key_rows,
    read::{FileOpener, KIND, SEQUENCE, Wanted},
    schema::Schema,
    stats::FileStats,
    table::Table,
};

use super::{Checker, ProblemKind};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// What a file was found to hold.
struct Found {
    rows: i64,
    deletes: i64,
    sequences: Option<(i64, i64)>,
    stats: FileStats,
    /// Encoded key of the last row.
    last_key: Option<Vec<u8>>,
    /// First row whose key is not above that of the row before.
    out_of_order: Option<i64>,
}

impl Checker<'_> {
    pub(super) async fn file(&mut self, file: &LiveFile) -> Result<()> {
        if file.meta.external_path.is_some() {
            self.report.files_not_read += 1;
            return Ok(());
        }
        let placed = self
            .table
            .file_path(&file.partition, file.bucket, &file.meta);
        let Some(path) = self.caught(placed)? else {
            return Ok(());
        };
        let bytes = self
            .exists(&path, Some(file.meta.file_size), ProblemKind::Size)
            .await?;
        for extra in &file.meta.extra_files {
            let folder = self.table.bucket_path(&file.partition, file.bucket)?;
            let extra = crate::partition::segment(folder, extra)?;
            self.exists(&extra, None, ProblemKind::Size).await?;
        }
        let name = &file.meta.file_name;
        let is_read = name.ends_with(".parquet") || name.ends_with(".avro");
        let Some(bytes) = bytes.filter(|_| self.request.data) else {
            return Ok(());
        };
        if !is_read || file.meta.write_cols.is_some() {
            self.report.files_not_read += 1;
            return Ok(());
        }
        let schema = self.table.schema_of(file.meta.schema_id).await;
        let Some(schema) = self.caught(schema)? else {
            return Ok(());
        };
        // As long as it is, whatever was recorded: more is found out then.
        let mut there = file.clone();
        there.meta.file_size = bytes;
        let read = read(self.table, &schema, &there).await;
        let read = read.map_err(|error| match error {
            error if error.is_transient() => error,
            error => crate::Error::Corrupt {
                path: path.to_string(),
                message: error.to_string(),
            },
        });
        if let Some(found) = self.caught(read)? {
            self.report.rows += found.rows;
            self.compare(path.as_ref(), file, &schema, &found);
        }
        Ok(())
    }

    fn compare(&mut self, path: &str, file: &LiveFile, schema: &Schema, found: &Found) {
        let meta = &file.meta;
        if found.rows != meta.row_count {
            let message = format!("{} rows, {} are recorded", found.rows, meta.row_count);
            self.problem(ProblemKind::Count, path, message);
        }
        let keyed = !schema.primary_keys.is_empty();
        if let Some(recorded) = meta.delete_row_count
            && keyed
            && recorded != found.deletes
        {
            let message = format!("{} deletes, {recorded} are recorded", found.deletes);
            self.problem(ProblemKind::Count, path, message);
        }
        if let Some(row) = found.out_of_order {
            let message = format!("the key of row {row} is not above that of the row before");
            self.problem(ProblemKind::Keys, path, message);
        }
        let recorded = (meta.min_sequence_number, meta.max_sequence_number);
        // A retract of a kind that is not stored takes a number too.
        if let Some(sequences) = found.sequences
            && (sequences.0 < recorded.0 || sequences.1 > recorded.1)
        {
            let message = format!("sequence numbers {sequences:?}, recorded are {recorded:?}");
            self.problem(ProblemKind::Sequence, path, message);
        }
        self.compare_keys(path, file, schema, found);
        let fields: Vec<&DataField> = match &meta.value_stats_cols {
            None => schema.fields.iter().collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| schema.field(name))
                .map(|(_, field)| field)
                .collect(),
        };
        self.compare_stats(path, "value", &meta.value_stats, &fields, schema, found);
    }

    fn compare_keys(&mut self, path: &str, file: &LiveFile, schema: &Schema, found: &Found) {
        let keys: Vec<&DataField> = schema
            .trimmed_primary_keys()
            .iter()
            .filter_map(|key| schema.field(key))
            .map(|(_, field)| field)
            .collect();
        if keys.is_empty() || found.rows == 0 {
            return;
        }
        self.compare_stats(path, "key", &file.meta.key_stats, &keys, schema, found);
        // With one column the range of keys is that of the column.
        let [key] = keys.as_slice() else { return };
        let column = schema.fields.iter().position(|field| field.id == key.id);
        let Some((min, max, _)) = column.and_then(|column| found.stats.bounds(column)) else {
            return;
        };
        for (what, row, bound) in [
            ("smallest", &file.meta.min_key, min),
            ("greatest", &file.meta.max_key, max),
        ] {
            let recorded = RowView::new(row, 1).and_then(|row| row.value(0, &key.data_type));
            let fits = recorded.is_ok_and(|value| value.owned().compare(bound).is_eq());
            if !fits {
                let message = format!("its {what} key is {bound:?}, another is recorded");
                self.problem(ProblemKind::Keys, path, message);
            }
        }
    }

    /// Bounds may be wider than the values, never narrower; counts of nulls are exact.
    fn compare_stats(
        &mut self,
        path: &str,
        what: &str,
        stats: &SimpleStats,
        fields: &[&DataField],
        schema: &Schema,
        found: &Found,
    ) {
        let arity = |row: &[u8]| {
            row.first_chunk::<4>()
                .map(|arity| u32::from_be_bytes(*arity))
        };
        if stats.min_values.is_empty() || arity(&stats.min_values) == Some(0) {
            return;
        }
        let rows = RowView::new(&stats.min_values, fields.len())
            .and_then(|min| Ok((min, RowView::new(&stats.max_values, fields.len())?)));
        let (min_row, max_row) = match rows {
            Ok(rows) => rows,
            Err(reason) => {
                let message = format!("{what} statistics do not fit its columns: {reason}");
                self.problem(ProblemKind::Statistics, path, message);
                return;
            }
        };
        for (at, field) in fields.iter().enumerate() {
            let column = schema.fields.iter().position(|other| other.id == field.id);
            let Some((min, max, nulls)) = column.and_then(|column| found.stats.bounds(column))
            else {
                continue;
            };
            let mut wrong = Vec::new();
            let recorded = stats.null_counts.get(at).copied().flatten();
            if recorded.is_some_and(|recorded| recorded != nulls) {
                wrong.push(format!("{nulls} nulls"));
            }
            if !field.data_type.is_nested() {
                for (row, real, outside) in [
                    (&min_row, min, std::cmp::Ordering::Greater),
                    (&max_row, max, std::cmp::Ordering::Less),
                ] {
                    match row.value(at, &field.data_type) {
                        Ok(Value::Null) => {}
                        Ok(bound) if *real != Value::Null => {
                            if bound.owned().compare(real) == outside {
                                wrong.push(format!("a value {real:?}"));
                            }
                        }
                        Ok(_) => wrong.push("no value at all".to_owned()),
                        Err(reason) => wrong.push(reason),
                    }
                }
            }
            for wrong in wrong {
                let message = format!(
                    "column '{}' has {wrong}, its {what} statistics say otherwise",
                    field.name
                );
                self.problem(ProblemKind::Statistics, path, message);
            }
        }
    }
}

async fn read(table: &Table, schema: &Arc<Schema>, file: &LiveFile) -> Result<Found> {
    let then = Table::new(
        table.name(),
        table.store().clone(),
        table.path().clone(),
        schema.clone(),
    );
    let keyed = !schema.primary_keys.is_empty();
    let system: &'static [&'static str] = match keyed {
        true => &[SEQUENCE, KIND],
        false => &[],
    };
    let keys: Vec<usize> = schema
        .trimmed_primary_keys()
        .iter()
        .filter_map(|key| schema.field(key))
        .map(|(at, _)| at)
        .collect();
    let opener = FileOpener::new(then, file.partition.clone(), file.bucket);
    let wanted = Wanted::new(schema.fields.clone(), system);
    let mut batches = opener.open(&file.meta, &wanted, BATCH_ROWS).await?;
    let mut found = Found {
        rows: 0,
        deletes: 0,
        sequences: None,
        stats: FileStats::new(schema.fields.len()),
        last_key: None,
        out_of_order: None,
    };
    while let Some(batch) = batches.try_next().await? {
        let columns = batch
            .columns()
            .iter()
            .zip(&schema.fields)
            .map(|(array, field)| Column::new(array, &field.data_type))
            .collect::<Result<Vec<_>>>()?;
        found.stats.update(&columns);
        if keyed {
            found.take_system(&batch);
            found.take_keys(&batch, &keys)?;
        }
        found.rows += batch.num_rows() as i64;
    }
    Ok(found)
}

impl Found {
    fn take_system(&mut self, batch: &RecordBatch) {
        let column = |name: &str| batch.column_by_name(name).cloned();
        if let Some(kinds) = column(KIND)
            .as_ref()
            .and_then(|kinds| kinds.as_primitive_opt::<Int8Type>())
        {
            let gone = |value: &&i8| matches!(**value, kind::UPDATE_BEFORE | kind::DELETE);
            self.deletes += kinds.values().iter().filter(gone).count() as i64;
        }
        if let Some(numbers) = column(SEQUENCE)
            .as_ref()
            .and_then(|numbers| numbers.as_primitive_opt::<Int64Type>())
        {
            for number in numbers.values() {
                let (min, max) = self.sequences.unwrap_or((*number, *number));
                self.sequences = Some((min.min(*number), max.max(*number)));
            }
        }
    }

    fn take_keys(&mut self, batch: &RecordBatch, keys: &[usize]) -> Result<()> {
        let columns: Vec<ArrayRef> = keys
            .iter()
            .filter_map(|at| batch.columns().get(*at).cloned())
            .collect();
        if columns.is_empty() || batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = key_rows(&columns)?;
        let mut last: Option<&[u8]> = self.last_key.as_deref();
        let mut wrong = None;
        for at in 0..rows.num_rows() {
            let key = rows.row(at).data();
            if wrong.is_none() && last.is_some_and(|last| last >= key) {
                wrong = Some(self.rows + at as i64);
            }
            last = Some(key);
        }
        let last = last.map(<[u8]>::to_vec);
        self.last_key = last;
        self.out_of_order = self.out_of_order.or(wrong);
        Ok(())
    }
}
