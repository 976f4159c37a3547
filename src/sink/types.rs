//! From a source table to a sink table: types, keys, options, and whether an existing table fits.

use std::collections::BTreeMap;

use headwater_connectors::{Column, DataType as SourceType, Position, TableSchema};
use headwater_paimon::{DataField, DataType, Schema};

use super::shape::{holds, named};

/// The lake's type for a source column's.
pub fn lake_type(source: &SourceType) -> DataType {
    match source {
        SourceType::Boolean => DataType::Boolean,
        SourceType::TinyInt => DataType::TinyInt,
        SourceType::SmallInt => DataType::SmallInt,
        SourceType::Int => DataType::Int,
        SourceType::BigInt => DataType::BigInt,
        SourceType::Float => DataType::Float,
        SourceType::Double => DataType::Double,
        SourceType::Decimal(precision, scale) => DataType::Decimal(*precision, *scale),
        SourceType::Char(length) => DataType::Char(*length),
        SourceType::VarChar(length) => DataType::VarChar(*length),
        SourceType::String => DataType::String,
        SourceType::Binary(length) => DataType::Binary(*length),
        SourceType::VarBinary(length) => DataType::VarBinary(*length),
        SourceType::Bytes => DataType::Bytes,
        SourceType::Date => DataType::Date,
        SourceType::Time(digits) => DataType::Time(*digits),
        SourceType::Timestamp(digits) => DataType::Timestamp(*digits),
        SourceType::TimestampLtz(digits) => DataType::TimestampLtz(*digits),
        SourceType::Array(item) => DataType::array(lake_type(item)),
    }
}

/// A field for a source column; the table gives its id.
pub fn lake_field(column: &Column) -> DataField {
    DataField {
        id: 0,
        name: column.name.clone(),
        data_type: lake_type(&column.data_type),
        nullable: column.nullable,
        description: column.comment.clone(),
        default_value: None,
    }
}

/// Buckets for a table of this many bytes: a power of two, about 1 GB a bucket, 1 to 256.
pub fn buckets_for(bytes: u64) -> u32 {
    let wanted = bytes.div_ceil(1 << 30).clamp(1, 256);
    u32::try_from(wanted).unwrap_or(256).next_power_of_two()
}

/// What is known of the rows of a table's snapshot that are still to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotRows {
    /// There are none.
    None,
    /// None will be older than what is committed before it.
    Newer,
    /// The server has no GTIDs, and so they may be older.
    MaybeOlder,
}

impl SnapshotRows {
    /// Of a table of which rows are to be read or not, from a source at a position.
    pub fn of(any: bool, position: &Position) -> Self {
        match any {
            false => Self::None,
            true if position.bounds_reads() => Self::Newer,
            true => Self::MaybeOlder,
        }
    }
}

/// Why rows of `source` do not fit the existing `sink`; empty when they do. Columns that the sink
/// lacks are not counted: they are added when they may be null. Of a sink that `may_differ` types and
/// missing columns are not looked at: schema changes were not all to be followed.
pub fn misfits(
    source: &TableSchema,
    sink: &Schema,
    partition_keys: &[String],
    rows: SnapshotRows,
    may_differ: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for column in &source.columns {
        let wanted = lake_type(&column.data_type);
        match named(&sink.fields, &column.name) {
            Some(_) if may_differ => {}
            Some(field) if !holds(&field.data_type, &wanted) => found.push(format!(
                "column {} is {} there and {wanted} ({}) at the source",
                column.name, field.data_type, column.source_type
            )),
            Some(field) if column.nullable && !field.nullable => found.push(format!(
                "column {} is NOT NULL there and may be NULL at the source",
                column.name
            )),
            None if !column.nullable && !may_differ => found.push(format!(
                "column {} is missing there and NOT NULL at the source",
                column.name
            )),
            _ => {}
        }
    }
    for field in &sink.fields {
        let known = source
            .columns
            .iter()
            .any(|column| column.name == field.name);
        if !known && !field.nullable {
            found.push(format!(
                "column {} is NOT NULL there and missing at the source",
                field.name
            ));
        }
    }
    let key = lake_key(source, partition_keys);
    let mut there = sink.primary_keys.clone();
    let mut wanted = key.clone();
    there.sort();
    wanted.sort();
    if there != wanted {
        found.push(format!(
            "its primary key is ({}), the source's ({})",
            sink.primary_keys.join(", "),
            key.join(", ")
        ));
    }
    if sink.partition_keys != partition_keys {
        found.push(format!(
            "it is partitioned by ({}), the job says ({})",
            sink.partition_keys.join(", "),
            partition_keys.join(", ")
        ));
    }
    if sink.buckets() < -1 || sink.buckets() == 0 {
        found.push(format!(
            "its option bucket is {}; a job writes fixed buckets (1 or more) and dynamic ones (-1)",
            sink.buckets()
        ));
    }
    found.extend(sink.fields.iter().filter_map(|field| {
        let default = field.default_value.as_ref()?;
        Some(format!(
            "column {} has DEFAULT {default} there, which would stand for NULLs of the source",
            field.name
        ))
    }));
    let outside = sink
        .partition_keys
        .iter()
        .find(|key| !sink.primary_keys.contains(key));
    if let Some(outside) = outside {
        found.push(format!(
            "its partition column {outside} is not part of its primary key, so that a row may move \
             to another partition (cross-partition upsert), which is not supported"
        ));
    }
    found.extend(sink.unsupported_options());
    found.extend(unfit_options(&sink.options, rows));
    found
}

/// Options under which the tables of a job would not equal their source. A chunk of the snapshot and
/// the log beside it may bring the same change twice: only "the newest row of a key counts" is right
/// for both.
pub fn unfit_options(options: &BTreeMap<String, String>, rows: SnapshotRows) -> Vec<String> {
    const TWICE: &str = "a row may come both from the snapshot and from the log";
    const ORDER: &str = "rows must count in the order of the log";
    const DELETES: &str = "deleted rows would stay";
    const OLDER: &str = "the server has no GTIDs, so that rows of the snapshot may come behind newer \
                         ones of the log, which they would delete. Set gtid_mode=ON at the server, or \
                         switch deletion vectors on when the snapshot is complete";
    let vectors: &[&str] = match rows {
        SnapshotRows::None | SnapshotRows::Newer => &["true", "false"],
        SnapshotRows::MaybeOlder => &["false"],
    };
    let fine: [(&str, &[&str], &str); 8] = [
        ("merge-engine", &["deduplicate"], TWICE),
        (
            "changelog-producer",
            &["none", "lookup", "full-compaction"],
            TWICE,
        ),
        ("sequence.field", &[], ORDER),
        ("rowkind.field", &[], ORDER),
        ("ignore-delete", &["false"], DELETES),
        ("deduplicate.ignore-delete", &["false"], DELETES),
        ("deletion-vectors.enabled", vectors, OLDER),
        (
            "record-level.expire-time",
            &[],
            "rows that are at the source would go",
        ),
    ];
    fine.iter()
        .filter_map(|(name, fine, why)| {
            let value = options.get(*name)?.trim();
            let fits = fine.iter().any(|fine| value.eq_ignore_ascii_case(fine));
            (!fits).then(|| format!("option {name} = {value}: {why}"))
        })
        .collect()
}

/// The sink's key: the source's, and partition columns that are missing from it.
pub fn lake_key(source: &TableSchema, partition_keys: &[String]) -> Vec<String> {
    let missing = partition_keys
        .iter()
        .filter(|key| !source.primary_key.contains(key));
    source.primary_key.iter().chain(missing).cloned().collect()
}

#[cfg(test)]
mod tests {
    use headwater_connectors::TableName;

    use super::*;

    fn source(columns: &[(&str, SourceType, bool)]) -> TableSchema {
        TableSchema {
            name: TableName::new("d", "t"),
            version: 0,
            columns: columns
                .iter()
                .map(|(name, data_type, nullable)| Column {
                    name: (*name).into(),
                    data_type: data_type.clone(),
                    nullable: *nullable,
                    comment: None,
                    source_type: "x".into(),
                })
                .collect(),
            primary_key: vec!["id".into()],
            comment: None,
        }
    }

    fn sink(source: &TableSchema) -> Schema {
        Schema {
            version: 3,
            id: 0,
            fields: source.columns.iter().map(lake_field).collect(),
            highest_field_id: 1,
            partition_keys: vec![],
            primary_keys: vec!["id".into()],
            options: [("bucket".to_owned(), "1".to_owned())].into(),
            comment: None,
            time_millis: 0,
        }
    }

    #[test]
    fn buckets_grow_in_powers_of_two() {
        let gib = 1 << 30;
        let cases = [
            (0, 1),
            (gib, 1),
            (gib + 1, 2),
            (5 * gib, 8),
            (9_000 * gib, 256),
        ];
        for (bytes, buckets) in cases {
            assert_eq!(buckets_for(bytes), buckets);
        }
    }

    #[test]
    fn an_existing_table_fits_or_says_why() {
        let source_schema = source(&[
            ("id", SourceType::Int, false),
            ("v", SourceType::VarChar(10), true),
        ]);
        let mut table = sink(&source_schema);
        assert!(misfits(&source_schema, &table, &[], SnapshotRows::Newer, false).is_empty());
        table.fields[1].data_type = DataType::String;
        assert!(misfits(&source_schema, &table, &[], SnapshotRows::Newer, false).is_empty());
        table.fields[1].data_type = DataType::VarChar(9);
        table.fields[0].data_type = DataType::SmallInt;
        table.primary_keys = vec!["v".into()];
        let found = misfits(&source_schema, &table, &[], SnapshotRows::Newer, false);
        assert_eq!(found.len(), 3, "{found:?}");
        let mut table = sink(&source_schema);
        let options = [("file.format", "orc"), ("manifest.format", "orc")];
        for (name, value) in options {
            table.options.insert(name.into(), value.into());
        }
        let found = misfits(&source_schema, &table, &[], SnapshotRows::Newer, false);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn dynamic_buckets_and_deletion_vectors_fit_where_they_are_exact() {
        let source_schema = source(&[("id", SourceType::Int, false)]);
        let mut table = sink(&source_schema);
        table.options.insert("bucket".into(), "-1".into());
        table
            .options
            .insert("deletion-vectors.enabled".into(), "true".into());
        for (rows, fits) in [
            (SnapshotRows::None, true),
            (SnapshotRows::Newer, true),
            (SnapshotRows::MaybeOlder, false),
        ] {
            let found = misfits(&source_schema, &table, &[], rows, false);
            assert_eq!(found.is_empty(), fits, "{rows:?}: {found:?}");
            assert!(fits || found[0].contains("GTID"), "{found:?}");
        }
        table.options.insert("bucket".into(), "-2".into());
        assert_eq!(
            misfits(&source_schema, &table, &[], SnapshotRows::None, false).len(),
            1
        );
    }
}
