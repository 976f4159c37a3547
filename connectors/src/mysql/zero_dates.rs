//! Dates that are none (`0000-00-00`, `2024-02-00`) have no value in the lake: what is put in their
//! place is told, never done silently.

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_schema::Field;

use crate::schema::TableName;

/// Counts them, and tells of each column once.
#[derive(Debug, Default)]
pub struct ZeroDates {
    count: AtomicU64,
    told: Mutex<HashSet<(TableName, String)>>,
}

impl ZeroDates {
    /// Those met so far by this process, in the snapshot and in the log.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes note of `count` of them in one column of a batch.
    #[cold]
    pub(super) fn note(&self, table: &TableName, column: &Field, count: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert((table.clone(), column.name().clone())) {
            tracing::warn!(
                %table,
                column = column.name(),
                rule = rule(column.is_nullable()),
                "zero dates: the column holds dates that are none, and the lake gets another value \
                 for them (told once a column; counted as zero_dates)"
            );
        }
    }
}

fn rule(nullable: bool) -> &'static str {
    match nullable {
        true => "NULL",
        false => "1970-01-01, as the column is NOT NULL",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        mysql::{
            buffer::ColumnBuffer,
            select::{Telling, take_batch},
        },
        schema::DataType,
    };

    #[test]
    fn every_zero_date_of_a_batch_is_counted() {
        let seen = Arc::new(ZeroDates::default());
        let name = TableName::new("d", "t");
        let fields = [true, false].map(|nullable| {
            let name = if nullable { "n" } else { "m" };
            Field::new(name, DataType::Date.arrow(), nullable)
        });
        let schema = Arc::new(arrow_schema::Schema::new(fields.to_vec()));
        let mut buffers =
            [true, false].map(|nullable| ColumnBuffer::new(&DataType::Date, nullable, false));
        for _ in 0..2 {
            for buffer in &mut buffers {
                buffer.push_date(0, 0, 0).unwrap();
                buffer.push_date(2024, 2, 1).unwrap();
            }
            let tell: Telling = Some(seen.clone());
            take_batch(&name, &schema, &mut buffers, 2, &tell).unwrap();
        }
        assert_eq!(seen.count(), 4);
        assert_eq!(seen.told.lock().unwrap().len(), 2, "once a column");
    }
}
