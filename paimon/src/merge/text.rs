//! The aggregate function `listagg`: texts one behind the other.
//!
//! Source: `FieldListaggAgg`.

use std::{collections::HashSet, sync::Arc};

use arrow_array::{Array, ArrayRef, StringArray, builder::StringBuilder};

use super::{aggregator::no_retraction, fold::Fold};
use crate::error::Result;

/// A column of texts that are put together; blank ones do not count.
pub(super) struct ListAgg<'a> {
    array: &'a StringArray,
    delimiter: &'a str,
    /// Parts that stand already are not added again.
    distinct: bool,
    is_null: bool,
    text: String,
    texts: StringBuilder,
}

impl<'a> ListAgg<'a> {
    pub(super) fn new(array: &'a StringArray, delimiter: &'a str, distinct: bool) -> Self {
        Self {
            array,
            delimiter,
            distinct,
            is_null: true,
            text: String::new(),
            texts: StringBuilder::new(),
        }
    }

    fn at(&self, row: usize) -> Option<&'a str> {
        self.array.is_valid(row).then(|| self.array.value(row))
    }

    fn replace(&mut self, text: Option<&str>) {
        self.text.clear();
        self.is_null = text.is_none();
        self.text.push_str(text.unwrap_or_default());
    }

    fn append(&mut self, text: &str) {
        if !self.distinct {
            self.text.push_str(self.delimiter);
            self.text.push_str(text);
            return;
        }
        // Without a delimiter Java takes a blank to split by, and joins with nothing.
        let separator = match self.delimiter {
            "" => " ",
            delimiter => delimiter,
        };
        let mut added = String::new();
        let mut known: HashSet<&str> = self.text.split(separator).collect();
        for part in text.split(separator) {
            if !is_blank(part) && known.insert(part) {
                added.push_str(self.delimiter);
                added.push_str(part);
            }
        }
        self.text.push_str(&added);
    }
}

impl Fold for ListAgg<'_> {
    fn begin(&mut self) {
        self.replace(None);
    }

    fn set(&mut self, row: usize) {
        self.replace(self.at(row));
    }

    fn clear(&mut self) {
        self.replace(None);
    }

    fn aggregate(&mut self, row: usize) -> Result<()> {
        let Some(text) = self.at(row).filter(|text| !is_blank(text)) else {
            return Ok(());
        };
        if is_blank(&self.text) {
            self.replace(Some(text));
        } else {
            self.append(text);
        }
        Ok(())
    }

    fn aggregate_older(&mut self, row: usize) -> Result<()> {
        let older = self.at(row);
        if is_blank(&self.text) {
            self.replace(older);
        } else if let Some(older) = older.filter(|text| !is_blank(text)) {
            let newer = std::mem::replace(&mut self.text, older.to_owned());
            self.append(&newer);
        }
        Ok(())
    }

    fn retract(&mut self, _: usize) -> Result<()> {
        Err(no_retraction())
    }

    fn end(&mut self) {
        self.texts
            .append_option((!self.is_null).then_some(&self.text));
    }

    fn finish(mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.texts.finish()))
    }
}

/// Whether a text has nothing but what `Character.isWhitespace` calls white space.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        c => c.is_whitespace(),
    })
}
