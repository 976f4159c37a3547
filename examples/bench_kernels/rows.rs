//! Rows like those of sysbench, made of a hash of their number: the same on every run.

use std::{fmt::Write, ops::Range, sync::Arc};

use arrow_array::{ArrayRef, Int32Array, RecordBatch, builder::StringBuilder};
use headwater_connectors::{
    TableName,
    mysql::{recorded, table::MysqlTable},
};

use crate::Result;

/// Rows of a batch, as the snapshot's readers have them.
pub const BATCH_ROWS: usize = 8192;

/// The table of these rows.
pub fn table() -> Result<MysqlTable> {
    let columns = [
        ("id", "INT NOT NULL"),
        ("k", "INT NOT NULL"),
        ("c", "CHAR(120) NOT NULL"),
        ("pad", "CHAR(60) NOT NULL"),
    ];
    let columns = columns.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let name = TableName::new("bench", "sbtest");
    Ok(recorded::table(name, &columns, vec!["id".to_owned()])?)
}

/// SplitMix64.
pub fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keys of rows by their number.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// The number itself.
    Ascending,
    /// Any below this, many of them more than once.
    Below(u64),
    /// All below this, which must be a power of two, in no order.
    Shuffled(u64),
}

impl Keys {
    fn of(self, number: u64) -> i32 {
        let key = match self {
            Self::Ascending => number,
            Self::Below(end) => hash(number) % end.max(1),
            // An odd factor makes other numbers of all.
            Self::Shuffled(end) => number.wrapping_mul(0x9e37_79b9) & (end - 1),
        };
        key as i32
    }
}

/// The rows of these numbers.
pub fn rows(numbers: Range<u64>, keys: Keys) -> Result<RecordBatch> {
    let ids = Int32Array::from_iter_values(numbers.clone().map(|number| keys.of(number)));
    let ks = numbers
        .clone()
        .map(|number| (hash(!number) % 2_000_000) as i32);
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(ids)),
        ("k", Arc::new(Int32Array::from_iter_values(ks))),
        ("c", digits(numbers.clone(), 0..10)?),
        ("pad", digits(numbers, 10..15)?),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Groups of eleven digits with hyphens between.
fn digits(numbers: Range<u64>, groups: Range<u64>) -> Result<ArrayRef> {
    let mut texts = StringBuilder::new();
    for number in numbers {
        for group in groups.clone() {
            let hyphen = if group == groups.start { "" } else { "-" };
            let value = hash(number * 16 + group) % 100_000_000_000;
            write!(texts, "{hyphen}{value:011}")?;
        }
        texts.append_value("");
    }
    Ok(Arc::new(texts.finish()))
}

/// The rows from 0 to `count`, in batches.
pub fn batches(count: usize, keys: Keys) -> Result<Vec<RecordBatch>> {
    let batch = |start: usize| {
        let end = (start + BATCH_ROWS).min(count);
        rows(start as u64..end as u64, keys)
    };
    (0..count).step_by(BATCH_ROWS).map(batch).collect()
}
