//! Changes of a table's schema: each makes the next schema file, by compare-and-set.
//!
//! Source: `org.apache.paimon.schema.{SchemaChange, SchemaManager}`.

mod column;
mod option;

use crate::{
    data_type::{DataField, DataType},
    error::{Error, Result},
    schema::{self, Schema},
    table::Table,
};

/// Races that one schema change may lose before it gives up.
const RACES_MAX: u32 = 50;

/// Where an added column shall stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnPlace<'a> {
    /// Before all others.
    First,
    /// Behind the column of that name.
    After(&'a str),
    /// Before the column of that name.
    Before(&'a str),
    /// Behind all others.
    Last,
}

/// A column to be added and its place. The field's id is ignored: it gets a new one.
pub type AddedColumn<'a> = (DataField, ColumnPlace<'a>);

/// One change of a schema. Columns are named by their path: a name, or the name of a column and
/// those of the ROW fields within, with `element` for the items of an ARRAY and `value` for the
/// values of a MAP on the way.
#[derive(Debug, Clone)]
pub enum SchemaChange<'a> {
    /// Adds a column or ROW field, which older rows have as NULL.
    AddColumn {
        /// Path of the new column.
        path: &'a [&'a str],
        /// Its type; rows within get new ids.
        data_type: DataType,
        /// Its comment.
        description: Option<&'a str>,
        /// Where it stands among its siblings; [`ColumnPlace::Last`] unless option
        /// `add-column-before-partition` says otherwise.
        place: Option<ColumnPlace<'a>>,
    },
    /// Drops a column or ROW field.
    DropColumn {
        /// Path.
        path: &'a [&'a str],
    },
    /// Renames a column or ROW field, and what names it in the options.
    RenameColumn {
        /// Path.
        path: &'a [&'a str],
        /// Last part of the new path.
        name: &'a str,
    },
    /// Gives a column, ROW field, item or map value another type.
    UpdateColumnType {
        /// Path.
        path: &'a [&'a str],
        /// The new type.
        data_type: DataType,
    },
    /// Says whether NULL is allowed.
    UpdateColumnNullability {
        /// Path.
        path: &'a [&'a str],
        /// Whether it is.
        nullable: bool,
    },
    /// Sets or removes a column's comment.
    UpdateColumnComment {
        /// Path.
        path: &'a [&'a str],
        /// The comment.
        description: Option<&'a str>,
    },
    /// Sets or removes what writers put in the place of NULL.
    UpdateColumnDefault {
        /// Path.
        path: &'a [&'a str],
        /// The value, as text.
        default_value: Option<&'a str>,
    },
    /// Moves a column.
    UpdateColumnPosition {
        /// Name.
        name: &'a str,
        /// Where to.
        place: ColumnPlace<'a>,
    },
    /// Sets an option.
    SetOption {
        /// Name.
        name: &'a str,
        /// Value.
        value: &'a str,
    },
    /// Removes an option.
    RemoveOption {
        /// Name.
        name: &'a str,
    },
    /// Sets or removes the table's comment.
    UpdateComment {
        /// The comment.
        comment: Option<&'a str>,
    },
}

impl Table {
    /// Changes the newest schema, whatever the schema of this handle, and returns the table at the
    /// new one. All changes together make one schema; none is made when nothing changes.
    ///
    /// # Errors
    /// [`Error::Table`] says which change cannot be made and why: columns that are not there, keys,
    /// types whose values could not be read, options that are fixed once the table has rows, and
    /// what the format does not allow of the schema as a whole. [`Error::Conflict`] when other
    /// changes came first each time.
    pub async fn alter(&self, changes: &[SchemaChange<'_>]) -> Result<Self> {
        let has_rows = self.latest_snapshot().await?.is_some();
        self.change_schema(|schema| {
            let before = schema.clone();
            for change in changes {
                apply(schema, change, has_rows)?;
            }
            let changed = *schema != before;
            if changed {
                check_result(&before, schema)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Adds columns, one after the other, as one new schema, and returns the table at it.
    /// Columns that are there with the same type are left alone, so that the same change can be
    /// made again; new ones are always nullable, since older rows don't have them.
    ///
    /// # Errors
    /// [`Error::Table`] when a column is there with another type, or the one to stand behind isn't.
    pub async fn add_columns(&self, columns: &[AddedColumn<'_>]) -> Result<Self> {
        self.change_schema(|schema| {
            let mut changed = false;
            for (field, place) in columns {
                if !column::is_there(schema, field)? {
                    column::add(
                        &mut schema.fields,
                        &mut schema.highest_field_id,
                        field,
                        *place,
                    )?;
                    changed = true;
                }
            }
            Ok(changed)
        })
        .await
    }

    /// Makes the next schema until no other came first; `change` says what is wrong, or whether
    /// it changed anything.
    async fn change_schema(
        &self,
        change: impl Fn(&mut Schema) -> Result<bool, String>,
    ) -> Result<Self> {
        for _ in 0..RACES_MAX {
            let table = self.reload().await?;
            let mut schema = table.schema().as_ref().clone();
            let changed = change(&mut schema).map_err(|message| Error::Table {
                table: self.name().to_owned(),
                message,
            })?;
            if !changed {
                return Ok(table);
            }
            schema.version = schema::VERSION;
            schema.id += 1;
            schema.time_millis = schema::now_ms();
            if table.create_schema(&schema).await? {
                return Ok(table.with_schema(schema));
            }
            // Another made a schema meanwhile: look at it and compare again.
        }
        Err(Error::Conflict {
            table: self.name().to_owned(),
            message: format!("{RACES_MAX} races for the next schema lost, one after the other"),
        })
    }
}

fn apply(schema: &mut Schema, change: &SchemaChange<'_>, has_rows: bool) -> Result<(), String> {
    match change {
        SchemaChange::SetOption { name, value } => option::set(schema, name, value, has_rows),
        SchemaChange::RemoveOption { name } => option::remove(schema, name, has_rows),
        SchemaChange::UpdateComment { comment } => {
            schema.comment = comment.map(str::to_owned);
            Ok(())
        }
        change => column::apply(schema, change),
    }
}

/// What the format does not allow, and what this crate would not write any more.
fn check_result(before: &Schema, after: &Schema) -> Result<(), String> {
    after.check_rules().map_err(|error| match error {
        Error::Unsupported(text) => text,
        error => error.to_string(),
    })?;
    let refused = before.unsupported_options();
    let new = after.unsupported_options();
    match new.into_iter().find(|reason| !refused.contains(reason)) {
        Some(reason) => Err(reason),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
