//! Captured tables of the tail: their decoders, and the rows that wait to be sent.

use std::{collections::HashMap, sync::Arc};

use mysql_common::binlog::events::{RowsEventData, TableMapEvent};

use crate::{
    change::ChangeBatch,
    error::{Error, Result},
    mysql::{
        rows::RowDecoder,
        state::{MysqlState, folded},
        table::MysqlTable,
        zero_dates::ZeroDates,
    },
    schema::TableName,
};

/// A table's rows are sent when there are this many …
pub(in crate::mysql) const ROWS_MAX: usize = 16_384;
/// … or this many bytes of them.
pub(in crate::mysql) const BYTES_MAX: usize = 4 << 20;
/// All rows that wait, in bytes: then the largest table's are sent.
const TOTAL_BYTES_MAX: usize = 32 << 20;
/// Decoders kept over a barrier; builders keep their memory, so thousands of tables would hold
/// gigabytes.
const DECODERS_KEPT: usize = 64;

/// One captured table.
pub(super) struct Entry {
    pub table: Arc<MysqlTable>,
    /// Rows decoded in this run.
    pub rows: u64,
    /// Changes up to here are not looked at.
    pub ignore_up_to: Option<(String, u64)>,
    /// Its rows are left out for the time being.
    pub dark: bool,
    /// Its schema was asked for since its rows did not fit, and none has fitted since.
    doubted: bool,
    decoder: Option<RowDecoder>,
    /// Bytes of the rows in it.
    bytes: usize,
    /// The table map that the decoder was made for, without its table id.
    shape: Vec<u8>,
}

/// All captured tables.
pub(super) struct Tables {
    entries: Vec<Entry>,
    by_name: HashMap<(String, String), usize>,
    fold: bool,
    /// Table ids of this log file: `None` for a table that is not captured, else which it is, and
    /// its table map.
    ids: HashMap<u64, Option<(usize, TableMapEvent<'static>)>>,
    decoders: usize,
    bytes: usize,
    zero_dates: Arc<ZeroDates>,
}

impl Tables {
    pub fn new(state: &MysqlState, zero_dates: Arc<ZeroDates>) -> Self {
        let entries: Vec<Entry> = state
            .tables
            .iter()
            .map(|table| Entry {
                ignore_up_to: state.ignore_up_to.get(&table.name.to_string()).cloned(),
                dark: state.dark.contains_key(&table.name.to_string()),
                table: Arc::new(table.clone()),
                doubted: false,
                rows: 0,
                decoder: None,
                bytes: 0,
                shape: Vec::new(),
            })
            .collect();
        let by_name = entries
            .iter()
            .enumerate()
            .map(|(i, entry)| {
                let name = &entry.table.name;
                (folded(&name.database, &name.table, state.fold_names), i)
            })
            .collect();
        Self {
            entries,
            by_name,
            fold: state.fold_names,
            ids: HashMap::new(),
            decoders: 0,
            bytes: 0,
            zero_dates,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn find(&self, name: &TableName) -> Option<usize> {
        self.by_name
            .get(&folded(&name.database, &name.table, self.fold))
            .copied()
    }

    pub fn get(&self, index: usize) -> Result<&Entry> {
        self.entries.get(index).ok_or_else(lost)
    }

    fn get_mut(&mut self, index: usize) -> Result<&mut Entry> {
        self.entries.get_mut(index).ok_or_else(lost)
    }

    /// The captured table behind a table id; outer `None`: the id has not been announced.
    pub fn by_id(&self, id: u64) -> Option<Option<usize>> {
        let table = self.ids.get(&id)?;
        Some(table.as_ref().map(|(index, _)| *index))
    }

    /// The table map of the table behind a table id.
    pub fn map(&self, id: u64) -> Result<&TableMapEvent<'static>> {
        let table = self.ids.get(&id).and_then(Option::as_ref);
        table.map(|(_, map)| map).ok_or_else(lost)
    }

    /// Table ids mean something else in the next file, and behind a DDL.
    pub fn forget_ids(&mut self) {
        self.ids.clear();
    }

    /// Takes note of a table map. `ignored` tells whether changes of a table at this place of the
    /// log are not looked at. Gives rows that must be sent before those of the new shape.
    pub fn announce(
        &mut self,
        id: u64,
        map: &TableMapEvent<'_>,
        shape: &[u8],
        ignored: impl Fn(&Entry) -> bool,
    ) -> Result<Option<ChangeBatch>> {
        if self.ids.contains_key(&id) {
            return Ok(None);
        }
        let key = folded(&map.database_name(), &map.table_name(), self.fold);
        let index = self.by_name.get(&key).copied().filter(|index| {
            self.entries
                .get(*index)
                .is_some_and(|entry| !ignored(entry))
        });
        let table = index.map(|index| (index, map.clone().into_owned()));
        self.ids.insert(id, table);
        let Some(index) = index else {
            return Ok(None);
        };
        let entry = self.get(index)?;
        if entry.decoder.is_some() && entry.shape == shape {
            return Ok(None);
        }
        let waiting = self.take(index)?;
        let decoder = self.decoder(index, map)?;
        let entry = self.get_mut(index)?;
        let is_new = entry.decoder.is_none();
        entry.decoder = Some(decoder);
        entry.shape = shape.to_vec();
        entry.doubted = false;
        self.decoders += usize::from(is_new);
        Ok(waiting)
    }

    /// A decoder for a table.
    pub fn decoder(&self, index: usize, map: &TableMapEvent<'_>) -> Result<RowDecoder> {
        let decoder = RowDecoder::new(self.get(index)?.table.clone(), map)?;
        Ok(decoder.telling(self.zero_dates.clone()))
    }

    /// Decodes the rows of an event; gives a batch when one is large enough to be sent.
    pub fn decode(
        &mut self,
        index: usize,
        event: &RowsEventData<'_>,
    ) -> Result<(usize, Option<ChangeBatch>)> {
        let entry = self.get_mut(index)?;
        let decoder = entry.decoder.as_mut().ok_or_else(lost)?;
        let rows = decoder.decode(event)?;
        let (bytes, waiting) = (decoder.bytes(), decoder.rows());
        let before = std::mem::replace(&mut entry.bytes, bytes);
        entry.rows += rows as u64;
        self.bytes = (self.bytes + bytes).saturating_sub(before);
        let batch = if waiting >= ROWS_MAX || bytes >= BYTES_MAX {
            self.take(index)?
        } else if self.bytes >= TOTAL_BYTES_MAX {
            self.take(self.largest())?
        } else {
            None
        };
        Ok((rows, batch))
    }

    fn largest(&self) -> usize {
        self.entries
            .iter()
            .enumerate()
            .max_by_key(|(_, entry)| entry.bytes)
            .map_or(0, |(index, _)| index)
    }

    /// The rows of a table that wait.
    pub fn take(&mut self, index: usize) -> Result<Option<ChangeBatch>> {
        let entry = self.get_mut(index)?;
        let Some(decoder) = entry.decoder.as_mut().filter(|decoder| decoder.rows() > 0) else {
            return Ok(None);
        };
        let batch = decoder.take()?;
        let bytes = std::mem::take(&mut entry.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        Ok(batch)
    }

    /// Tables with rows that wait.
    pub fn waiting(&self) -> Vec<usize> {
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.decoder.as_ref().is_some_and(|d| d.rows() > 0))
            .map(|(index, _)| index)
            .collect()
    }

    /// Gives memory back where many tables have used it; only with nothing waiting.
    pub fn shrink(&mut self) {
        if self.decoders > DECODERS_KEPT {
            for entry in &mut self.entries {
                entry.decoder = None;
            }
            self.decoders = 0;
            self.ids.clear();
        }
    }

    /// Puts a table's next version in place.
    pub fn replace(&mut self, index: usize, table: MysqlTable) -> Result<Arc<MysqlTable>> {
        let entry = self.get_mut(index)?;
        let table = Arc::new(table);
        entry.table = table.clone();
        entry.dark = false;
        let had = entry.decoder.take().is_some();
        self.decoders -= usize::from(had);
        self.forget_ids();
        Ok(table)
    }

    /// Leaves a table's rows out from now on; gives its name.
    pub fn darken(&mut self, index: usize) -> Result<TableName> {
        let entry = self.get_mut(index)?;
        entry.dark = true;
        let had = entry.decoder.take().is_some();
        let name = entry.table.name.clone();
        self.decoders -= usize::from(had);
        self.forget_ids();
        Ok(name)
    }

    /// The table whose rows do not fit; `None` where they have not fitted what the server said last
    /// either.
    pub fn doubt(&mut self, map: &TableMapEvent<'_>) -> Result<Option<usize>> {
        let key = folded(&map.database_name(), &map.table_name(), self.fold);
        let Some(index) = self.by_name.get(&key).copied() else {
            return Ok(None);
        };
        let entry = self.get_mut(index)?;
        let is_first = !std::mem::replace(&mut entry.doubted, true);
        Ok(is_first.then_some(index))
    }

    /// Whether names compare without case.
    pub fn folds(&self) -> bool {
        self.fold
    }

    /// A captured table by its parts of a name.
    pub fn named(&self, database: &str, table: &str) -> Option<&Entry> {
        let index = self.by_name.get(&folded(database, table, self.fold))?;
        self.entries.get(*index)
    }

    /// Counts rows that were decoded elsewhere (XA).
    pub fn count(&mut self, index: usize, rows: u64) -> Result<()> {
        self.get_mut(index)?.rows += rows;
        Ok(())
    }
}

fn lost() -> Error {
    Error::definite("rows of a table that was not announced in the log")
}
