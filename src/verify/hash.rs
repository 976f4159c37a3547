//! Hashes of rows and keys that are the same for the same values on both sides.
//!
//! A row is hashed over its arrow-row encoding: every column with its length or its null, so that
//! no two different rows have one encoding. Columns are bound by name and taken in the source's
//! order.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use headwater_connectors::{TableName, TableSchema};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    error::{JobError, Result},
    sink,
};

/// Hashes rows of one table.
pub(super) struct RowHasher {
    table: TableName,
    /// The source's columns. All may be null here: a null where there must be none is a
    /// difference to tell, not an error.
    schema: SchemaRef,
    key: Vec<usize>,
    key_encoder: RowConverter,
    row_encoder: RowConverter,
}

impl RowHasher {
    /// For rows of this table.
    pub(super) fn new(table: &TableSchema) -> Result<Self> {
        let fields: Vec<Field> = table
            .columns
            .iter()
            .map(|column| Field::new(&column.name, column.data_type.arrow(), true))
            .collect();
        let key = table
            .primary_key
            .iter()
            .map(|name| table.columns.iter().position(|column| column.name == *name))
            .collect::<Option<Vec<usize>>>()
            .filter(|key| !key.is_empty())
            .ok_or_else(|| {
                JobError::Internal(format!("{} has no key to compare by", table.name))
            })?;
        let sort = |field: &Field| SortField::new(field.data_type().clone());
        let key_fields = key
            .iter()
            .filter_map(|index| fields.get(*index))
            .map(sort)
            .collect();
        let row_fields = fields.iter().map(sort).collect();
        let failed = |error| cannot_hash(&table.name, error);
        Ok(Self {
            table: table.name.clone(),
            key,
            key_encoder: RowConverter::new(key_fields).map_err(failed)?,
            row_encoder: RowConverter::new(row_fields).map_err(failed)?,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The table's columns of a batch, in the source's order and types.
    pub(super) fn bind(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .schema
            .fields()
            .iter()
            .map(|field| {
                let column = named(batch, field.name()).ok_or_else(|| {
                    JobError::Definite(format!(
                        "table {}: column {} of the source is missing in the lake",
                        self.table,
                        field.name()
                    ))
                })?;
                if !column.data_type().equals_datatype(field.data_type()) {
                    return narrowed(column, field.data_type()).ok_or_else(|| {
                        JobError::Definite(format!(
                            "table {}: column {} is {} in the lake and {} at the source, and has \
                             values that are none of the source's",
                            self.table,
                            field.name(),
                            column.data_type(),
                            field.data_type()
                        ))
                    });
                }
                Ok(column.clone())
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(|error| cannot_hash(&self.table, error))
    }

    /// Hash of each row's key; of a bound batch.
    pub(super) fn keys(&self, bound: &RecordBatch) -> Result<Vec<u128>> {
        let columns: Vec<ArrayRef> = self
            .key
            .iter()
            .filter_map(|index| bound.columns().get(*index).cloned())
            .collect();
        self.hash(&self.key_encoder, &columns)
    }

    /// Hash of each row, key and all; of a bound batch.
    pub(super) fn rows(&self, bound: &RecordBatch) -> Result<Vec<u128>> {
        self.hash(&self.row_encoder, bound.columns())
    }

    fn hash(&self, encoder: &RowConverter, columns: &[ArrayRef]) -> Result<Vec<u128>> {
        let rows = encoder
            .convert_columns(columns)
            .map_err(|error| cannot_hash(&self.table, error))?;
        Ok(rows.iter().map(|row| xxh3_128(row.data())).collect())
    }
}

/// The values of a sink's wider column as the source's type; `None` when one of them is no such value.
fn narrowed(column: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let narrow = cast_with_options(column, to, &strict).ok()?;
    let back = cast_with_options(&narrow, column.data_type(), &strict).ok()?;
    let encoder = RowConverter::new(vec![SortField::new(column.data_type().clone())]).ok()?;
    let rows = |column: &ArrayRef| encoder.convert_columns(std::slice::from_ref(column)).ok();
    let (before, after) = (rows(column)?, rows(&back)?);
    before.iter().eq(after.iter()).then_some(narrow)
}

/// A column by name: as it is spelt, or else in any case.
fn named<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a ArrayRef> {
    let fields = batch.schema_ref().fields().iter();
    let at = sink::column_position(fields.map(|field| field.name().as_str()), name)?;
    batch.columns().get(at)
}

fn cannot_hash(table: &TableName, error: ArrowError) -> JobError {
    JobError::Internal(format!("cannot hash rows of {table}: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Decimal128Array, Int32Array, Int64Array, StringArray};
    use headwater_connectors::{Column, DataType as SourceType};

    use super::*;

    fn hasher() -> RowHasher {
        let column = |name: &str, data_type| Column {
            name: name.into(),
            data_type,
            nullable: true,
            comment: None,
            source_type: "x".into(),
        };
        RowHasher::new(&TableSchema {
            name: TableName::new("d", "t"),
            version: 0,
            columns: vec![
                column("a", SourceType::String),
                column("b", SourceType::String),
                column("c", SourceType::BigInt),
            ],
            primary_key: vec!["c".into(), "a".into()],
            comment: None,
        })
        .unwrap()
    }

    fn rows(names: [&str; 3], a: &[Option<&str>], b: &[Option<&str>], c: &[i64]) -> RecordBatch {
        let columns: [ArrayRef; 3] = [
            Arc::new(StringArray::from_iter(a)),
            Arc::new(StringArray::from_iter(b)),
            Arc::new(Int64Array::from(c.to_vec())),
        ];
        RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap()
    }

    fn hashes(batch: &RecordBatch) -> Vec<u128> {
        let hasher = hasher();
        hasher.rows(&hasher.bind(batch).unwrap()).unwrap()
    }

    #[test]
    fn values_do_not_run_into_each_other() {
        let a = [Some("x"), Some("xy"), Some(""), None, Some("x ")];
        let b = [Some("yz"), Some("z"), None, Some(""), Some("yz")];
        let mut found = hashes(&rows(["a", "b", "c"], &a, &b, &[1; 5]));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn wider_columns_have_the_same_values_or_none_of_the_source_s() {
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
        assert_eq!(narrowed(&wide, &DataType::Int32).as_ref(), Some(&narrow));
        let large: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40]));
        assert_eq!(narrowed(&large, &DataType::Int32), None);
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("7"), None]));
        assert_eq!(narrowed(&text, &DataType::Int32).as_ref(), Some(&narrow));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["07"]));
        assert_eq!(narrowed(&text, &DataType::Int32), None);
        let decimal = |value: i128, precision, scale| -> ArrayRef {
            let column = Decimal128Array::from(vec![value]);
            Arc::new(column.with_precision_and_scale(precision, scale).unwrap())
        };
        let to = DataType::Decimal128(8, 2);
        assert_eq!(
            narrowed(&decimal(12_500, 10, 4), &to),
            Some(decimal(125, 8, 2))
        );
        assert_eq!(narrowed(&decimal(12_345, 10, 4), &to), None);
    }

    #[test]
    fn columns_are_bound_by_name_and_the_key_is_the_keys_columns() {
        let here = rows(["a", "b", "c"], &[Some("x")], &[Some("y")], &[7]);
        // The same row, columns in another order.
        let there = rows(["b", "a", "c"], &[Some("y")], &[Some("x")], &[7]);
        assert_eq!(hashes(&here), hashes(&there));
        let hasher = hasher();
        let other = rows(["a", "b", "c"], &[Some("x")], &[Some("changed")], &[7]);
        let keys = |batch: &RecordBatch| hasher.keys(&hasher.bind(batch).unwrap()).unwrap();
        assert_eq!(keys(&here), keys(&other));
        assert_ne!(hashes(&here), hashes(&other));
        let lacking = rows(["a", "z", "c"], &[None], &[None], &[7]);
        let error = hasher.bind(&lacking).unwrap_err().to_string();
        assert!(error.contains("column b"), "{error}");
    }
}
