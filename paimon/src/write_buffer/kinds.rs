//! What the kinds of rows are, and which rows are not written at all.
//!
//! Source: `RowKindGenerator`, `RowKindFilter`, `TableWriteImpl`.

use arrow_array::{ArrayRef, cast::AsArray};

use crate::{
    data_file::kind,
    error::{Error, Result},
    schema::Schema,
    table::Table,
    table_options::TableOptions,
};

/// In place of the kind of a row that is not written.
pub(super) const LEFT_OUT: i8 = -1;

/// Finds the kinds of rows.
#[derive(Debug)]
pub(super) struct Kinds {
    /// Column of option `rowkind.field`.
    column: Option<usize>,
    ignore_delete: bool,
    ignore_update_before: bool,
}

impl Kinds {
    /// As a table's options say.
    pub(super) fn new(schema: &Schema) -> Result<Self> {
        let options = TableOptions::of(schema)?.merge;
        let column = options.rowkind_field.as_ref().map(|name| {
            let field = schema.field(name);
            let field =
                field.filter(|(_, field)| field.data_type.arrow() == arrow_schema::DataType::Utf8);
            field.map(|(at, _)| at).ok_or_else(|| {
                Error::Unsupported(format!(
                    "option rowkind.field = {name}: set it to a column of text"
                ))
            })
        });
        Ok(Self {
            column: column.transpose()?,
            ignore_delete: options.ignore_delete,
            ignore_update_before: options.ignore_update_before,
        })
    }

    /// The kinds of a batch's rows, [`LEFT_OUT`] for those that are not written; `None`: all +I.
    pub(super) fn of(
        &self,
        table: &Table,
        columns: &[ArrayRef],
        given: Option<&[i8]>,
    ) -> Result<Option<Vec<i8>>> {
        let column = self.column.and_then(|at| columns.get(at));
        let mut kinds = match column {
            Some(column) => read(column).map_err(|what| Error::Table {
                table: table.name().to_owned(),
                message: format!("column {} holds {what}", self.name(table)),
            })?,
            None => match given {
                Some(kinds) => kinds.to_vec(),
                None => return Ok(None),
            },
        };
        for kind in &mut kinds {
            let is_left_out = match *kind {
                kind::DELETE => self.ignore_delete,
                kind::UPDATE_BEFORE => self.ignore_delete || self.ignore_update_before,
                _ => false,
            };
            if is_left_out {
                *kind = LEFT_OUT;
            }
        }
        Ok(Some(kinds))
    }

    fn name<'a>(&self, table: &'a Table) -> &'a str {
        let field = self.column.and_then(|at| table.schema().fields.get(at));
        field.map_or("", |field| &field.name)
    }
}

/// Kinds by their short names.
fn read(column: &ArrayRef) -> std::result::Result<Vec<i8>, String> {
    let texts = column
        .as_string_opt::<i32>()
        .ok_or_else(|| "no text".to_owned())?;
    let kinds = texts.iter().map(|text| match text {
        Some("+I") => Ok(kind::INSERT),
        Some("-U") => Ok(kind::UPDATE_BEFORE),
        Some("+U") => Ok(kind::UPDATE_AFTER),
        Some("-D") => Ok(kind::DELETE),
        Some(other) => Err(format!(
            "'{other}', and it is the table's rowkind.field: write +I, -U, +U or -D"
        )),
        None => Err("NULL, and it is the table's rowkind.field: write +I, -U, +U or -D".into()),
    });
    kinds.collect()
}
