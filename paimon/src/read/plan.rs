//! Which files of a snapshot a reader has to look at, by partition and bucket.
//!
//! Source: `SnapshotReaderImpl`, `KeyValueFileStoreScan`, `AppendOnlyFileStoreScan`,
//! `MergeTreeSplitGenerator`, `BucketSelectConverter`.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow_array::ArrayRef;

use crate::{
    binary_row::{BinaryRowWriter, RowEncoder},
    bucket::{bucket_of, hash},
    commit::LiveFile,
    data_file_meta::DataFileMeta,
    data_type::{DataField, DataType},
    error::{Error, Result},
    partition,
    schema::Schema,
    snapshot::PaimonSnapshot,
    table::Table,
};

use super::{
    deletions::DeletionFile,
    file::check_format,
    predicate::{Bound, Comparison, Test},
    prune,
    section::{Section, sections},
};

/// The bucket of tables with postponed buckets whose files nobody reads before they are moved.
const POSTPONED: i32 = -2;
/// Combinations of bucket key values that are looked at, at most.
const BUCKET_KEYS_MAX: usize = 256;

/// The files of a snapshot in one bucket.
#[derive(Debug, Clone, Default)]
pub struct Split {
    /// Partition, a serialized BinaryRow (with the arity prefix).
    pub partition: Vec<u8>,
    /// Bucket.
    pub bucket: i32,
    /// Files, in the order in which they were added.
    pub files: Vec<DataFileMeta>,
    /// Where the deletion vectors of files stand, by the file's name.
    pub deletions: BTreeMap<String, DeletionFile>,
}

/// How a table's options make its files be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visibility {
    /// Files of level 0 are not read: a compaction has yet to find what they replace.
    pub(super) skips_level_0: bool,
    /// Files above level 0 share no live keys, if they hold no deletes: nothing is merged.
    pub(super) is_merged: bool,
    /// Of rows of one key one comes out that was there: a section none of whose files can match
    /// holds no row that does.
    pub(super) picks_rows: bool,
}

impl Visibility {
    pub(super) fn of(schema: &Schema) -> Self {
        let option = |name: &str| schema.options.get(name).map(|value| value.trim());
        let is = |name: &str, value: &str| {
            option(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
        };
        let vectors = is("deletion-vectors.enabled", "true");
        let first_row = is("merge-engine", "first-row");
        let on_read = is("deletion-vectors.merge-on-read", "true");
        let has_keys = !schema.primary_keys.is_empty();
        Self {
            skips_level_0: has_keys && if vectors { !on_read } else { first_row },
            is_merged: vectors && !on_read || first_row,
            picks_rows: vectors
                || !is("merge-engine", "partial-update") && !is("merge-engine", "aggregation"),
        }
    }
}

/// Looks for the files that a reader needs.
pub(super) struct Planner<'a> {
    pub(super) table: &'a Table,
    pub(super) filter: Option<&'a Bound>,
    /// Which levels are looked at, besides what [`Visibility`] says.
    pub(super) wants_level: &'a (dyn Fn(i32) -> bool + Sync),
}

impl Planner<'_> {
    pub(super) async fn plan(&self, snapshot: &PaimonSnapshot) -> Result<Vec<Split>> {
        let files = self.table.live_files(snapshot).await?;
        let mut splits = self.splits_of(files).await?;
        if let Some(index) = &snapshot.index_manifest {
            self.table.find_deletions(index, &mut splits).await?;
        }
        Ok(splits)
    }

    /// Sorts files into splits and leaves out what cannot hold a row that is asked for.
    pub(super) async fn splits_of(&self, files: Vec<LiveFile>) -> Result<Vec<Split>> {
        let schema = self.table.schema();
        let visibility = Visibility::of(schema);
        let schemas = self.schemas(&files).await?;
        let mut places = Places::new(self.table, self.filter)?;
        let mut splits: BTreeMap<(Vec<u8>, i32), Split> = BTreeMap::new();
        for file in files {
            let meta = &file.meta;
            let invisible = file.bucket == POSTPONED
                || visibility.skips_level_0 && meta.level == 0
                || !(self.wants_level)(meta.level);
            if invisible || !places.may_hold(&file) {
                continue;
            }
            check_format(self.table, &file.meta)?;
            let then = schemas.get(&meta.schema_id);
            let cannot_match = self
                .filter
                .zip(then)
                .is_some_and(|(filter, then)| !filter.may_match(&prune::of_keys(then, meta)));
            if cannot_match && !schema.primary_keys.is_empty() {
                continue;
            }
            let split = splits
                .entry((file.partition.clone(), file.bucket))
                .or_insert_with(|| Split {
                    partition: file.partition,
                    bucket: file.bucket,
                    ..Split::default()
                });
            split.files.push(file.meta);
        }
        let mut splits: Vec<Split> = splits.into_values().collect();
        if let Some(filter) = self.filter {
            for split in &mut splits {
                self.skip_by_values(filter, &schemas, visibility, split)?;
            }
            splits.retain(|split| !split.files.is_empty());
        }
        Ok(splits)
    }

    /// The schemas that files were written with, when statistics are to be looked at.
    async fn schemas(&self, files: &[LiveFile]) -> Result<HashMap<i64, std::sync::Arc<Schema>>> {
        let mut schemas = HashMap::new();
        if self.filter.is_none() {
            return Ok(schemas);
        }
        let ids: HashSet<i64> = files.iter().map(|file| file.meta.schema_id).collect();
        for id in ids {
            schemas.insert(id, self.table.schema_of(id).await?);
        }
        Ok(schemas)
    }

    /// Leaves out files whose value statistics say that no row matches, where no other file can
    /// hold another version of their rows; and whole sections.
    fn skip_by_values(
        &self,
        filter: &Bound,
        schemas: &HashMap<i64, std::sync::Arc<Schema>>,
        visibility: Visibility,
        split: &mut Split,
    ) -> Result<()> {
        let schema = self.table.schema();
        let may_match = |file: &DataFileMeta| match schemas.get(&file.schema_id) {
            Some(then) => filter.may_match(&prune::of_values(schema, then, file)),
            None => true,
        };
        if schema.primary_keys.is_empty() {
            split.files.retain(may_match);
            return Ok(());
        }
        let mut kept = HashSet::new();
        for section in sections(&key_types(schema), &split.files)? {
            let alone = is_read_alone(&section, visibility);
            let files = || section.iter().flatten();
            let any = !visibility.picks_rows || files().any(|file| may_match(&file.meta));
            let needed = files().filter(|file| match alone {
                true => may_match(&file.meta),
                false => any,
            });
            kept.extend(needed.map(|file| file.order));
        }
        let mut order = 0..;
        split
            .files
            .retain(|_| order.next().is_some_and(|order| kept.contains(&order)));
        Ok(())
    }
}

/// Types of the trimmed primary key.
pub(super) fn key_types(schema: &Schema) -> Vec<DataType> {
    let fields = key_fields(schema).into_iter();
    fields.map(|field| field.data_type).collect()
}

/// Fields of the trimmed primary key.
pub(super) fn key_fields(schema: &Schema) -> Vec<DataField> {
    let keys = schema.trimmed_primary_keys();
    let fields = keys.iter().filter_map(|key| schema.field(key));
    fields.map(|(_, field)| field.clone()).collect()
}

/// Whether each file of a section is read for itself, nothing merged.
pub(super) fn is_read_alone(section: &Section, visibility: Visibility) -> bool {
    let mut files = section.iter().flatten();
    let single = matches!(section.as_slice(), [run] if run.len() == 1);
    // Java takes an unknown count for none.
    let without_deletes = |count: Option<i64>| count.is_none_or(|count| count == 0);
    single
        || visibility.is_merged
            && files.all(|file| file.meta.level > 0 && without_deletes(file.meta.delete_row_count))
}

/// Partitions and buckets that a filter leaves.
struct Places<'a> {
    filter: Option<&'a Bound>,
    partition_fields: Vec<DataField>,
    partitions: HashMap<Vec<u8>, bool>,
    /// Hashes of the bucket keys that rows can have; `None`: any.
    hashes: Option<Vec<i32>>,
}

impl<'a> Places<'a> {
    fn new(table: &Table, filter: Option<&'a Bound>) -> Result<Self> {
        let schema = table.schema();
        let keys = schema.partition_keys.iter();
        let fields = keys.filter_map(|key| schema.field(key));
        debug_assert_eq!(
            partition::types(schema).len(),
            schema.partition_keys.len(),
            "partition columns are columns"
        );
        Ok(Self {
            filter,
            partition_fields: fields.map(|(_, field)| field.clone()).collect(),
            partitions: HashMap::new(),
            hashes: match filter {
                Some(filter) => bucket_hashes(schema, filter)?,
                None => None,
            },
        })
    }

    fn may_hold(&mut self, file: &LiveFile) -> bool {
        let Some(filter) = self.filter else {
            return true;
        };
        if let Some(hashes) = &self.hashes
            && file.total_buckets > 0
            && !hashes
                .iter()
                .any(|hash| bucket_of(*hash, file.total_buckets) == file.bucket)
        {
            return false;
        }
        match self.partitions.get(&file.partition) {
            Some(known) => *known,
            None => {
                let bounds = prune::of_partition(&self.partition_fields, &file.partition);
                let may = filter.may_match(&bounds);
                self.partitions.insert(file.partition.clone(), may);
                may
            }
        }
    }
}

/// Hashes of the bucket keys that the rows of a filter can have, when it fixes every column of the
/// bucket key; `None` else.
fn bucket_hashes(schema: &Schema, filter: &Bound) -> Result<Option<Vec<i32>>> {
    let function = schema.options.get("bucket-function.type");
    if schema.buckets() < 1
        || function.is_some_and(|name| !name.trim().eq_ignore_ascii_case("default"))
    {
        return Ok(None);
    }
    // Rows of values, as arrays of one row, a column of the key after the other.
    let mut rows: Vec<Vec<(ArrayRef, DataType)>> = vec![Vec::new()];
    let keys = schema.bucket_keys();
    if keys.is_empty() {
        return Ok(None);
    }
    for key in keys {
        let Some((_, field)) = schema.field(key) else {
            return Ok(None);
        };
        let Some(values) = fixed_values(filter, field) else {
            return Ok(None);
        };
        rows = rows
            .iter()
            .flat_map(|row| {
                values.iter().map(|value| {
                    let mut row = row.clone();
                    row.push((value.clone(), field.data_type.clone()));
                    row
                })
            })
            .take(BUCKET_KEYS_MAX + 1)
            .collect();
        if rows.len() > BUCKET_KEYS_MAX {
            return Ok(None);
        }
    }
    let hash_of = |row: &Vec<(ArrayRef, DataType)>| {
        let columns = row.iter().map(|(array, data_type)| (array, data_type));
        let encoder = RowEncoder::new(columns.collect::<Vec<_>>())?;
        let mut writer = BinaryRowWriter::new(encoder.arity());
        encoder.encode(0, &mut writer);
        Ok(hash(writer.row()))
    };
    rows.iter().map(hash_of).collect::<Result<_>>().map(Some)
}

/// The only values that a column can have where the filter is true, if it says so.
fn fixed_values(filter: &Bound, field: &DataField) -> Option<Vec<ArrayRef>> {
    match filter {
        Bound::Leaf {
            field: of,
            test: Test::Compare(Comparison::Eq, literal),
        } if of.id == field.id => Some(vec![literal.array.clone()]),
        Bound::And(some) => some.iter().find_map(|one| fixed_values(one, field)),
        Bound::Or(some) => {
            let each = some.iter().map(|one| fixed_values(one, field));
            Some(
                each.collect::<Option<Vec<_>>>()?
                    .into_iter()
                    .flatten()
                    .collect(),
            )
        }
        _ => None,
    }
}

impl Table {
    /// The same table, read with its newest rows: where readers leave out level 0 until a compaction
    /// has found what its rows replace (deletion vectors), they are merged. As option
    /// `deletion-vectors.merge-on-read` does it for all readers.
    pub fn merging_level_0(&self) -> Self {
        let schema = self.schema();
        if schema.primary_keys.is_empty() || !Visibility::of(schema).skips_level_0 {
            return self.clone();
        }
        let mut schema = Schema::clone(schema);
        let option = "deletion-vectors.merge-on-read";
        schema.options.insert(option.into(), "true".into());
        self.with_schema(schema)
    }

    /// Refuses data files that cannot be read or compacted, by name: to be asked before a table is
    /// taken up.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a file in a format that is not read.
    pub fn check_formats(&self, files: &[LiveFile]) -> Result<()> {
        files
            .iter()
            .try_for_each(|file| check_format(self, &file.meta).map(|_| ()))
    }

    /// Refuses tables whose rows are not in their data files as this crate reads them.
    pub(super) fn check_readable(&self) -> Result<()> {
        let schema = self.schema();
        let option = |name: &str| schema.options.get(name).map(|value| value.trim());
        let is = |name: &str| option(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let refuse = |what: String| {
            Err(Error::Unsupported(format!(
                "reading table {}: {what}",
                self.name()
            )))
        };
        if let Some(kind) = option("type")
            && !kind.eq_ignore_ascii_case("table")
        {
            return refuse(format!("option type = {kind}: it has no files of its own"));
        }
        if is("data-evolution.enabled") {
            return refuse(
                "option data-evolution.enabled = true: its columns stand in files of their own"
                    .into(),
            );
        }
        if is("pk-clustering-override") {
            return refuse(
                "option pk-clustering-override = true: its files are not sorted by key".into(),
            );
        }
        if !schema.primary_keys.is_empty() {
            crate::merge::function(schema)?;
        }
        Ok(())
    }
}
