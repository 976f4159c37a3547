//! Which partition and bucket each row of a batch belongs to.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, StructArray, cast::AsArray};
use arrow_schema::DataType as ArrowType;
use tokio::sync::OwnedMutexGuard;

use crate::{
    binary_row::{BinaryRowWriter, RowEncoder},
    bucket::{BucketAssigner, key_hashes},
    data_type::DataType,
    default_value,
    error::{Error, Result},
    index::{DynamicBucketAssigner, SharedBuckets},
    partition,
    schema::Schema,
    table::Table,
};

/// A partition's bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// With the arity prefix.
    pub(crate) partition: Vec<u8>,
    pub(crate) bucket: i32,
    /// In the store.
    pub(crate) folder: String,
}

/// How rows find their bucket.
#[derive(Debug)]
enum Buckets {
    Fixed(BucketAssigner),
    /// All rows are in bucket 0 (`bucket = -1` without a primary key).
    Unaware,
    /// By the table's index of keys (`bucket = -1` with a primary key).
    Dynamic(DynamicBuckets),
}

/// The assigner of a table with dynamic buckets, and while rows are placed the right to use it.
#[derive(Debug)]
struct DynamicBuckets {
    shared: SharedBuckets,
    held: Option<OwnedMutexGuard<DynamicBucketAssigner>>,
}

impl DynamicBuckets {
    fn assign(&mut self, partition: &[u8], hash: i32) -> Result<i32> {
        match &mut self.held {
            Some(assigner) => assigner.assign(partition, hash),
            None => Err(Error::Internal("rows placed without their index".into())),
        }
    }
}

/// Finds the places of rows and numbers them as they come up.
#[derive(Debug)]
pub(crate) struct Placement {
    table: Table,
    partition_columns: Vec<(usize, DataType)>,
    buckets: Buckets,
    /// Partition's number by its bytes.
    partitions: HashMap<Vec<u8>, usize>,
    numbers: HashMap<(usize, i32), usize>,
    places: Vec<Place>,
}

impl Placement {
    pub(crate) fn new(table: &Table) -> Result<Self> {
        let schema = table.schema();
        let buckets = match schema.primary_keys.is_empty() && schema.buckets() == -1 {
            true => Buckets::Unaware,
            false => Buckets::Fixed(BucketAssigner::new(schema)?),
        };
        Self::with_buckets(table, buckets)
    }

    /// For a table with dynamic buckets; [`load`](Self::load) before rows are placed.
    pub(crate) fn dynamic(table: &Table, shared: SharedBuckets) -> Result<Self> {
        Self::with_buckets(
            table,
            Buckets::Dynamic(DynamicBuckets { shared, held: None }),
        )
    }

    /// Lets others place rows, until the next [`load`](Self::load).
    pub(crate) fn release(&mut self) {
        if let Buckets::Dynamic(buckets) = &mut self.buckets {
            buckets.held = None;
        }
    }

    /// Reads what the index of keys says about the partitions of these rows; nothing for tables
    /// without one. Nobody else places rows until [`release`](Self::release).
    pub(crate) async fn load(&mut self, batches: &[&[ArrayRef]]) -> Result<()> {
        let Buckets::Dynamic(buckets) = &mut self.buckets else {
            return Ok(());
        };
        let mut partitions = std::collections::HashSet::new();
        for columns in batches {
            if self.partition_columns.is_empty() {
                partitions.insert(vec![0; 12]);
                continue;
            }
            let keys = self
                .partition_columns
                .iter()
                .filter_map(|(at, data_type)| Some((columns.get(*at)?, data_type)))
                .collect::<Vec<_>>();
            let rows = keys.first().map_or(0, |(column, _)| column.len());
            let encoder = RowEncoder::new(keys)?;
            let mut writer = BinaryRowWriter::new(encoder.arity());
            for row in 0..rows {
                encoder.encode(row, &mut writer);
                if !partitions.contains(writer.serialized()) {
                    partitions.insert(writer.serialized().to_vec());
                }
            }
        }
        let partitions: Vec<Vec<u8>> = partitions.into_iter().collect();
        let assigner = match &mut buckets.held {
            Some(assigner) => assigner,
            None => buckets.held.insert(buckets.shared.lock().await),
        };
        assigner.load(&partitions).await
    }

    fn with_buckets(table: &Table, buckets: Buckets) -> Result<Self> {
        let schema = table.schema();
        Ok(Self {
            partition_columns: partition_columns(schema)?,
            table: table.clone(),
            buckets,
            partitions: HashMap::new(),
            numbers: HashMap::new(),
            places: Vec::new(),
        })
    }

    /// Buckets of the table, -1 when they are not fixed.
    pub(crate) fn buckets(&self) -> i32 {
        match &self.buckets {
            Buckets::Fixed(buckets) => buckets.buckets(),
            Buckets::Unaware | Buckets::Dynamic(_) => -1,
        }
    }

    /// The places found so far; rows are placed by their number here.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The number of the place of each row. `None`: all rows of the batch have place 0, the only
    /// one there is.
    pub(crate) fn place(&mut self, columns: &[ArrayRef]) -> Result<Option<Vec<usize>>> {
        let is_one = matches!(self.buckets, Buckets::Unaware) || self.buckets() == 1;
        if self.partition_columns.is_empty() && is_one {
            if self.places.is_empty() {
                self.number(&[0; 12], 0)?;
            }
            return Ok(None);
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let buckets = match &mut self.buckets {
            Buckets::Fixed(buckets) => buckets.assign(columns)?,
            Buckets::Unaware => vec![0; rows],
            // By hash first: which bucket that is depends on the partition.
            Buckets::Dynamic(_) => key_hashes(self.table.schema(), columns)?,
        };
        if self.partition_columns.is_empty() {
            // At most 2³¹ of them, and in practice a few hundred: no hashing a row.
            let mut known = vec![None; usize::try_from(self.buckets()).unwrap_or(0)];
            return buckets
                .into_iter()
                .map(|bucket| {
                    let bucket = self.assign(&[0; 12], bucket)?;
                    let at = usize::try_from(bucket).unwrap_or(0);
                    if known.len() <= at {
                        known.resize(at + 1, None);
                    }
                    match known.get_mut(at) {
                        Some(Some(number)) => Ok(*number),
                        Some(known) => {
                            let number = self.number(&[0; 12], bucket)?;
                            *known = Some(number);
                            Ok(number)
                        }
                        None => self.number(&[0; 12], bucket),
                    }
                })
                .collect::<Result<Vec<_>>>()
                .map(Some);
        }
        let keys = self
            .partition_columns
            .iter()
            .filter_map(|(at, data_type)| Some((columns.get(*at)?, data_type)))
            .collect::<Vec<_>>();
        let encoder = RowEncoder::new(keys)?;
        let mut writer = BinaryRowWriter::new(encoder.arity());
        buckets
            .into_iter()
            .enumerate()
            .map(|(row, bucket)| {
                encoder.encode(row, &mut writer);
                let bucket = self.assign(writer.serialized(), bucket)?;
                self.number(writer.serialized(), bucket)
            })
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }

    /// The bucket of a hash where buckets are dynamic; elsewhere it is the bucket already.
    fn assign(&mut self, partition: &[u8], bucket: i32) -> Result<i32> {
        match &mut self.buckets {
            Buckets::Dynamic(assigner) => assigner.assign(partition, bucket),
            Buckets::Fixed(_) | Buckets::Unaware => Ok(bucket),
        }
    }

    fn number(&mut self, partition: &[u8], bucket: i32) -> Result<usize> {
        let partition_number = match self.partitions.get(partition) {
            Some(number) => *number,
            None => {
                let number = self.partitions.len();
                self.partitions.insert(partition.to_vec(), number);
                number
            }
        };
        if let Some(number) = self.numbers.get(&(partition_number, bucket)) {
            return Ok(*number);
        }
        let folder = self.table.bucket_path(partition, bucket)?.to_string();
        let number = self.places.len();
        self.places.push(Place {
            partition: partition.to_vec(),
            bucket,
            folder,
        });
        self.numbers.insert((partition_number, bucket), number);
        Ok(number)
    }
}

fn partition_columns(schema: &Schema) -> Result<Vec<(usize, DataType)>> {
    schema
        .partition_keys
        .iter()
        .map(|name| {
            let (at, field) = schema.field(name).ok_or_else(|| {
                Error::Unsupported(format!("partition key {name}, which is not a column"))
            })?;
            // Said now, not when the first row comes.
            if !partition::has_folder_name(schema, &field.data_type) {
                return Err(Error::Unsupported(format!(
                    "partition column {name} of type {}",
                    field.data_type
                )));
            }
            Ok((at, field.data_type.clone()))
        })
        .collect()
}

/// Binds a batch to a table's columns by name: in the table's order, NULLs where a nullable column
/// is missing, and defaults in their place. Nothing else is copied.
pub(crate) fn bind(table: &Table, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let schema = table.schema();
    let wrong = |message: String| Error::Table {
        table: table.name().to_owned(),
        message,
    };
    if let Some(unknown) = rows
        .schema_ref()
        .fields()
        .iter()
        .find(|field| schema.field(field.name()).is_none())
    {
        return Err(wrong(format!("it has no column {}", unknown.name())));
    }
    schema
        .fields
        .iter()
        .map(|field| {
            let expected = field.data_type.arrow();
            let Some(column) = rows.column_by_name(&field.name) else {
                if field.nullable {
                    let nulls = arrow_array::new_null_array(&expected, rows.num_rows());
                    return default_value::fill(field, nulls);
                }
                return Err(wrong(format!(
                    "column {} is NOT NULL and missing",
                    field.name
                )));
            };
            if !field.nullable && column.null_count() > 0 {
                return Err(wrong(format!(
                    "column {} is NOT NULL and has NULLs",
                    field.name
                )));
            }
            let bound = renamed(column, &expected).ok_or_else(|| {
                wrong(format!(
                    "column {} is {} and gets Arrow {}",
                    field.name,
                    field.data_type,
                    column.data_type()
                ))
            })?;
            default_value::fill(field, bound)
        })
        .collect()
}

/// Lists, maps and structs whose parts have other names (items, entries, keys, values) are the same.
pub(crate) fn renamed(column: &ArrayRef, to: &ArrowType) -> Option<ArrayRef> {
    if column.data_type() == to {
        return Some(column.clone());
    }
    Some(match to {
        ArrowType::List(item) => {
            let list = column.as_list_opt::<i32>()?;
            let values = renamed(list.values(), item.data_type())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::try_new(item.clone(), offsets, values, nulls).ok()?)
        }
        ArrowType::Map(entries, sorted) => {
            let map = column.as_map_opt()?;
            let ArrowType::Struct(parts) = entries.data_type() else {
                return None;
            };
            let columns = map.entries().columns().iter().zip(parts);
            let columns = columns
                .map(|(column, part)| renamed(column, part.data_type()))
                .collect::<Option<Vec<_>>>()?;
            let rows = StructArray::try_new(parts.clone(), columns, None).ok()?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(entries.clone(), offsets, rows, nulls, *sorted).ok()?)
        }
        ArrowType::Struct(fields) => {
            let rows = column.as_struct_opt()?;
            if rows.num_columns() != fields.len() {
                return None;
            }
            let columns = fields
                .iter()
                .map(|field| renamed(rows.column_by_name(field.name())?, field.data_type()))
                .collect::<Option<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, rows.nulls().cloned()).ok()?)
        }
        _ => return None,
    })
}

/// Bytes that columns' own rows take, whatever else their buffers hold.
pub(crate) fn bytes_of(columns: &[ArrayRef]) -> usize {
    columns
        .iter()
        .map(|column| {
            let bytes = column.to_data().get_slice_memory_size();
            bytes.unwrap_or_else(|_| column.get_array_memory_size())
        })
        .sum()
}

#[cfg(test)]
mod tests;
