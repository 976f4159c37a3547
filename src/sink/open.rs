//! Opening sink tables: made where they do not exist, continued where they fit, else refused.

use std::collections::BTreeMap;

use headwater_connectors::{TableName, TableSchema};
use headwater_paimon::{Catalog, ColumnPlace, DataField, Error as LakeError, Schema, Table};

use super::{
    evolve::{place, without_later_statements},
    policy::SchemaPolicy,
    shape::named,
    types::{self, SnapshotRows},
};
use crate::error::{JobError, Result};

/// What the job file says about sink tables.
#[derive(Debug, Clone, Default)]
pub struct SinkOptions {
    /// `table.properties.*`
    pub table_options: BTreeMap<String, String>,
    /// `partition.key`, by sink table.
    pub partition_keys: BTreeMap<TableName, Vec<String>>,
    /// What schema changes do.
    pub policy: SchemaPolicy,
}

/// A sink table, opened.
#[derive(Debug, Clone)]
pub struct OpenTable {
    /// The table.
    pub table: Table,
    /// Highest sequence number in it, when it has rows.
    pub max_sequence: Option<i64>,
    /// It had snapshots before this job began.
    pub has_snapshots: bool,
}

impl SinkOptions {
    /// Partition columns of a sink table.
    pub fn partition_keys(&self, sink: &TableName) -> &[String] {
        self.partition_keys
            .get(sink)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The schema that a new sink table gets.
    ///
    /// # Errors
    /// [`JobError::Definite`] for options and columns that cannot be, by name.
    pub fn new_schema(
        &self,
        source: &TableSchema,
        sink: &TableName,
        bytes: u64,
        rows: SnapshotRows,
    ) -> Result<Schema> {
        let partition_keys = self.partition_keys(sink);
        if let Some(outside) = partition_keys
            .iter()
            .find(|key| !source.primary_key.contains(key))
        {
            return Err(JobError::Definite(format!(
                "table {}: partition column {outside} is not part of the primary key ({}): not \
                 supported yet. Partition by key columns only",
                source.name,
                source.primary_key.join(", ")
            )));
        }
        if source.primary_key.is_empty() {
            return Err(JobError::Definite(format!(
                "table {}: it has no primary key, so that its changes cannot be told apart: exclude \
                 it (tables.exclude), or give it a key",
                source.name
            )));
        }
        let mut options = self.table_options.clone();
        options
            .entry("bucket".to_owned())
            .or_insert_with(|| types::buckets_for(bytes).to_string());
        if let Some(unfit) = types::unfit_options(&options, rows).first() {
            return Err(JobError::Definite(format!(
                "table {}: the sink table {sink} cannot be made: {unfit}. Options are the job \
                 file's table.properties.*",
                source.name
            )));
        }
        let buckets = options.get("bucket").map(|buckets| buckets.trim());
        if buckets == Some("-2") {
            return Err(JobError::Definite(format!(
                "table {}: table.properties.bucket: '-2' is not written by jobs: nobody would see \
                 its rows before another program moves them. Set it to a number above 0, to -1 \
                 (dynamic), or leave it out",
                source.name
            )));
        }
        Schema::create(
            source.columns.iter().map(types::lake_field).collect(),
            types::lake_key(source, partition_keys),
            partition_keys.to_vec(),
            options,
            source.comment.clone(),
        )
        .map_err(|error| match error {
            LakeError::Unsupported(reason) => JobError::Definite(format!(
                "table {}: the sink table {sink} cannot be made: {reason}. Options are the job \
                 file's table.properties.*",
                source.name
            )),
            error => error.into(),
        })
    }
}

/// Opens the sink table of a new job: makes it, or continues one that fits. Where a snapshot is to
/// be read into it one that has snapshots is refused.
pub async fn open_new(
    catalog: &Catalog,
    options: &SinkOptions,
    source: &TableSchema,
    sink: &TableName,
    bytes: u64,
    rows: SnapshotRows,
) -> Result<OpenTable> {
    let opened = open_or_make(catalog, options, source, sink, bytes, rows).await?;
    if rows != SnapshotRows::None && opened.has_snapshots {
        return Err(filled_error(&source.name, sink));
    }
    Ok(opened)
}

/// Makes a sink table, or continues one that fits, whatever is in it: the caller knows that it is the job's.
pub async fn open_or_make(
    catalog: &Catalog,
    options: &SinkOptions,
    source: &TableSchema,
    sink: &TableName,
    bytes: u64,
    rows: SnapshotRows,
) -> Result<OpenTable> {
    if let Some(table) = catalog.table(&sink.database, &sink.table).await? {
        return fit(table, options, source, sink, rows).await;
    }
    let schema = options.new_schema(source, sink, bytes, rows)?;
    catalog.create_database(&sink.database).await?;
    Ok(OpenTable {
        table: catalog
            .create_table(&sink.database, &sink.table, schema)
            .await?,
        max_sequence: None,
        has_snapshots: false,
    })
}

/// Why a snapshot is not read into a table that has rows.
pub fn filled_error(source: &TableName, sink: &TableName) -> JobError {
    JobError::Definite(format!(
        "table {source}: the sink table {sink} exists and has snapshots, and this job \
         has no checkpoint of its own: reading a snapshot into it would leave rows that the source \
         no longer has. Drop the table, route the source table to another name, or start with \
         scan.startup.mode: latest-offset to go on with the rows it has"
    ))
}

/// Opens the sink table of a job that goes on from a checkpoint, which has the table at the schema of
/// id `schema`: statements after it are followed again.
pub async fn open_existing(
    catalog: &Catalog,
    options: &SinkOptions,
    source: &TableSchema,
    sink: &TableName,
    rows: SnapshotRows,
    schema: Option<i64>,
) -> Result<OpenTable> {
    let mut table = catalog
        .table(&sink.database, &sink.table)
        .await?
        .ok_or_else(|| {
            JobError::Definite(format!(
                "table {}: the sink table {sink} is gone, though the job's checkpoint \
             says it was written. Restore it, or remove the job's state and its other sink tables \
             to start again",
                source.name
            ))
        })?;
    if let Some(schema) = schema.filter(|schema| *schema < table.schema().id) {
        table = without_later_statements(&table.at_schema(schema).await?).await?;
    }
    // A column that is added at the source is added here before any record knows of it.
    let mut columns = source.columns.iter().map(|column| &column.name);
    let is_missing = |name: &&String| named(&table.schema().fields, name).is_none();
    if let Some(gone) = columns
        .find(is_missing)
        .filter(|_| !options.policy.may_differ())
    {
        return Err(JobError::Definite(format!(
            "table {}: column {gone} of the sink table {sink} is gone: someone dropped or renamed \
             it, and its values in the rows so far with it. Rename it back, or remove the job's \
             state and its sink tables to start again",
            source.name
        )));
    }
    fit(table, options, source, sink, rows).await
}

/// Checks that an existing table fits and adds the columns that it lacks.
async fn fit(
    table: Table,
    options: &SinkOptions,
    source: &TableSchema,
    sink: &TableName,
    rows: SnapshotRows,
) -> Result<OpenTable> {
    let partition_keys = options.partition_keys(sink);
    let may_differ = options.policy.may_differ();
    let misfits = types::misfits(source, table.schema(), partition_keys, rows, may_differ);
    if !misfits.is_empty() {
        return Err(JobError::Definite(format!(
            "table {}: the sink table {} exists and does not fit: {}. Route the source table to \
             another name, or drop the sink table",
            source.name,
            table.name(),
            misfits.join("; ")
        )));
    }
    let mut missing: Vec<(DataField, Option<String>)> = Vec::new();
    let mut before: Option<String> = None;
    for column in &source.columns {
        match named(&table.schema().fields, &column.name) {
            Some(field) => before = Some(field.name.clone()),
            None => {
                let field = types::lake_field(column);
                let after = before.replace(field.name.clone());
                missing.push((field, after));
            }
        }
    }
    let placed: Vec<(DataField, ColumnPlace<'_>)> = missing
        .iter()
        .map(|(field, after)| (field.clone(), place(after)))
        .collect();
    let table = match placed.is_empty() || may_differ {
        true => table,
        false => table.add_columns(&placed).await?,
    };
    let opened = &table;
    let files = opened.at_newest(|snapshot| async move { opened.live_files(&snapshot).await });
    let files = files.await?;
    if let Some(files) = &files {
        // Now, and not when a compaction meets one.
        table.check_formats(files)?;
    }
    let sequences = files.iter().flatten();
    let max_sequence = sequences.map(|file| file.meta.max_sequence_number).max();
    let has_snapshots = files.is_some();
    Ok(OpenTable {
        table,
        max_sequence,
        has_snapshots,
    })
}
