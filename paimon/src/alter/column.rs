//! Changes of columns and of what is within them.

use super::{ColumnPlace, SchemaChange, option};
use crate::{
    data_type::{DataField, DataType, Element},
    read::cast,
    schema::Schema,
};

/// What a path leads to.
enum Target<'a> {
    /// A field of a list of fields, which need not be there, by its name.
    Field(&'a mut Vec<DataField>, &'a str),
    /// An array's items or a map's values.
    Element(&'a mut Element),
}

/// Type and nullability of what a path leads to.
struct Typed<'a> {
    data_type: &'a mut DataType,
    nullable: &'a mut bool,
}

/// Finds what a path leads to.
fn target<'a>(fields: &'a mut Vec<DataField>, path: &[&'a str]) -> Result<Target<'a>, String> {
    match path {
        [] => Err("a change of a column without a name".into()),
        [name] => Ok(Target::Field(fields, name)),
        [name, rest @ ..] => within(&mut find(fields, name)?.data_type, rest),
    }
}

fn within<'a>(data_type: &'a mut DataType, path: &[&'a str]) -> Result<Target<'a>, String> {
    match (data_type, path) {
        (DataType::Row(fields), path) => target(fields, path),
        (DataType::Array(element), ["element", rest @ ..])
        | (DataType::Map(_, element), ["value", rest @ ..]) => match rest {
            [] => Ok(Target::Element(element)),
            rest => within(&mut element.data_type, rest),
        },
        (DataType::Map(..), ["key", ..]) => Err("keys of a MAP cannot be changed".into()),
        (data_type, path) => Err(format!("there is no '{}' in {data_type}", path.join("."))),
    }
}

fn find<'a>(fields: &'a mut [DataField], name: &str) -> Result<&'a mut DataField, String> {
    fields
        .iter_mut()
        .find(|field| field.name == name)
        .ok_or_else(|| format!("there is no column '{name}'"))
}

fn field<'a>(target: Target<'a>) -> Result<&'a mut DataField, String> {
    match target {
        Target::Field(fields, name) => find(fields, name),
        Target::Element(_) => Err("items and map values have a type only".into()),
    }
}

fn typed(target: Target<'_>) -> Result<Typed<'_>, String> {
    Ok(match target {
        Target::Field(fields, name) => {
            let field = find(fields, name)?;
            Typed {
                data_type: &mut field.data_type,
                nullable: &mut field.nullable,
            }
        }
        Target::Element(element) => Typed {
            data_type: &mut element.data_type,
            nullable: &mut element.nullable,
        },
    })
}

pub(super) fn apply(schema: &mut Schema, change: &SchemaChange<'_>) -> Result<(), String> {
    let (what, path) = match change {
        SchemaChange::AddColumn { path, .. } => ("add", *path),
        SchemaChange::DropColumn { path } => ("drop", *path),
        SchemaChange::RenameColumn { path, .. } => ("rename", *path),
        SchemaChange::UpdateColumnType { path, .. } => ("change the type of", *path),
        SchemaChange::UpdateColumnNullability { path, .. } => ("change the nullability of", *path),
        SchemaChange::UpdateColumnComment { path, .. } => ("comment on", *path),
        SchemaChange::UpdateColumnDefault { path, .. } => ("change the default of", *path),
        SchemaChange::UpdateColumnPosition { name, place } => {
            return move_to(&mut schema.fields, name, *place)
                .map_err(|why| format!("cannot move column '{name}': {why}"));
        }
        SchemaChange::SetOption { .. }
        | SchemaChange::RemoveOption { .. }
        | SchemaChange::UpdateComment { .. } => return Ok(()),
    };
    check_keys(schema, change)
        .and_then(|()| change_one(schema, change))
        .map_err(|why| format!("cannot {what} column '{}': {why}", path.join(".")))
}

/// Columns that a table's keys hold back. Those within others are never keys.
fn check_keys(schema: &Schema, change: &SchemaChange<'_>) -> Result<(), String> {
    let is = |keys: &[String], name: &str| keys.iter().any(|key| key == name);
    let (path, partition, primary, placing) = match change {
        SchemaChange::DropColumn { path } => (*path, true, true, true),
        SchemaChange::RenameColumn { path, .. } => (*path, true, false, false),
        SchemaChange::UpdateColumnType { path, .. } => (*path, true, true, true),
        SchemaChange::UpdateColumnNullability { path, nullable } => {
            (*path, false, *nullable, false)
        }
        _ => return Ok(()),
    };
    let [name] = path else { return Ok(()) };
    if partition && is(&schema.partition_keys, name) {
        return Err("it is a partition column".into());
    }
    if primary && is(&schema.primary_keys, name) {
        return Err("it is part of the primary key".into());
    }
    if placing && option::names(schema, "bucket-key").contains(name) {
        return Err("it is part of option bucket-key, which says where rows are".into());
    }
    if matches!(change, SchemaChange::DropColumn { .. }) {
        return match option::naming(schema, name) {
            Some(option) => Err(format!("option {option} names it")),
            None => Ok(()),
        };
    }
    Ok(())
}

fn change_one(schema: &mut Schema, change: &SchemaChange<'_>) -> Result<(), String> {
    let disabled = |name: &str, default: bool| {
        let value = schema.options.get(name);
        value.map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    };
    let explicit_casts = !disabled("disable-explicit-type-casting", false);
    let not_null = !disabled("alter-column-null-to-not-null.disabled", true);
    let before_partition = disabled("add-column-before-partition", false);
    match change {
        SchemaChange::AddColumn {
            path,
            data_type,
            description,
            place,
        } => {
            let partition = schema.fields.iter().map(|field| field.name.clone());
            let partition = partition
                .filter(|name| {
                    before_partition && path.len() == 1 && schema.partition_keys.contains(name)
                })
                .next();
            let place = place.unwrap_or(match &partition {
                Some(name) => ColumnPlace::Before(name),
                None => ColumnPlace::Last,
            });
            match target(&mut schema.fields, path)? {
                Target::Field(fields, name) => {
                    let mut field = DataField::new(name, data_type.clone());
                    field.description = description.map(str::to_owned);
                    add(fields, &mut schema.highest_field_id, &field, place)
                }
                Target::Element(_) => Err("items and map values have a type only".into()),
            }
        }
        SchemaChange::DropColumn { path } => match target(&mut schema.fields, path)? {
            Target::Field(fields, name) => {
                find(fields, name)?;
                if fields.len() == 1 {
                    return Err("it is the only one".into());
                }
                fields.retain(|field| field.name != name);
                Ok(())
            }
            Target::Element(_) => Err("items and map values have a type only".into()),
        },
        SchemaChange::RenameColumn { path, name } => rename(schema, path, name),
        SchemaChange::UpdateColumnType { path, data_type } => {
            let typed = typed(target(&mut schema.fields, path)?)?;
            check_type(typed.data_type, data_type, explicit_casts)?;
            *typed.data_type = data_type.clone();
            Ok(())
        }
        SchemaChange::UpdateColumnNullability { path, nullable } => {
            let typed = typed(target(&mut schema.fields, path)?)?;
            if *typed.nullable && !nullable && !not_null {
                return Err("older rows may have NULL there; option \
                            alter-column-null-to-not-null.disabled = false allows it"
                    .into());
            }
            *typed.nullable = *nullable;
            Ok(())
        }
        SchemaChange::UpdateColumnComment { path, description } => {
            field(target(&mut schema.fields, path)?)?.description = description.map(str::to_owned);
            Ok(())
        }
        SchemaChange::UpdateColumnDefault {
            path,
            default_value,
        } => {
            field(target(&mut schema.fields, path)?)?.default_value =
                default_value.map(str::to_owned);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn rename(schema: &mut Schema, path: &[&str], name: &str) -> Result<(), String> {
    match target(&mut schema.fields, path)? {
        Target::Field(fields, old) => {
            let same = |field: &&DataField| field.name == name;
            if let Some(there) = fields.iter().find(same) {
                return Err(format!(
                    "there is a column '{name}' of type {}",
                    there.data_type
                ));
            }
            find(fields, old)?.name = name.to_owned();
        }
        Target::Element(_) => return Err("items and map values have no name".into()),
    }
    if let [old] = path {
        for key in schema.primary_keys.iter_mut().filter(|key| key == old) {
            *key = name.to_owned();
        }
        option::rename(&mut schema.options, old, name);
    }
    Ok(())
}

/// Whether values of one type can be read as the other, by this crate and by Java.
fn check_type(from: &DataType, to: &DataType, explicit_casts: bool) -> Result<(), String> {
    if from.is_like(to) && !from.is_nested() {
        return Ok(());
    }
    if from.is_nested() || to.is_nested() {
        return Err(format!(
            "{from} cannot become {to} as a whole; change what is within it by its path"
        ));
    }
    cast::check(from, to).map_err(|why| format!("{from} cannot become {to}: {why}"))?;
    if !explicit_casts && !is_implicit(from, to) {
        return Err(format!(
            "{from} may lose something as {to}, and option disable-explicit-type-casting is true"
        ));
    }
    Ok(())
}

/// Casts that need no `CAST` in SQL. Source: `org.apache.paimon.types.DataTypeCasts`.
fn is_implicit(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let width = |data_type: &DataType| match data_type {
        TinyInt => Some(1),
        SmallInt => Some(2),
        Int => Some(4),
        BigInt => Some(8),
        _ => None,
    };
    match (from, to) {
        (Char(_), Char(_)) | (Binary(_), Binary(_)) => true,
        (from, VarChar(_) | String) => cast::is_text(from),
        (from, VarBinary(_) | Bytes) => cast::is_binary(from),
        (from, Decimal(..) | Double) => {
            width(from).is_some() || matches!(from, Float | Double | Decimal(..))
        }
        (from, Float) => width(from).is_some() || matches!(from, Float | Decimal(..)),
        (Timestamp(_) | TimestampLtz(_), Timestamp(_) | TimestampLtz(_)) => true,
        (Timestamp(_), Date | Time(_)) => true,
        (from, to) => matches!((width(from), width(to)), (Some(from), Some(to)) if from <= to),
    }
}

/// Whether a column is there, with that type.
pub(super) fn is_there(schema: &Schema, field: &DataField) -> Result<bool, String> {
    let same = |other: &&DataField| other.name.to_lowercase() == field.name.to_lowercase();
    match schema.fields.iter().find(same) {
        Some(there) if there.name == field.name && there.data_type.is_like(&field.data_type) => {
            Ok(true)
        }
        Some(there) => Err(format!(
            "cannot add column '{}' of type {}: there is a column '{}' of type {}",
            field.name, field.data_type, there.name, there.data_type
        )),
        None => Ok(false),
    }
}

/// Adds a field with new ids; older rows have NULL there.
pub(super) fn add(
    fields: &mut Vec<DataField>,
    last_id: &mut i32,
    field: &DataField,
    place: ColumnPlace<'_>,
) -> Result<(), String> {
    let same = |other: &&DataField| other.name.to_lowercase() == field.name.to_lowercase();
    if let Some(there) = fields.iter().find(same) {
        return Err(format!(
            "there is a column '{}' of type {}",
            there.name, there.data_type
        ));
    }
    let at = position(fields, place).map_err(|name| {
        format!(
            "cannot add column '{}' beside '{name}', which is not there",
            field.name
        )
    })?;
    *last_id = last_id
        .checked_add(1)
        .ok_or("there are no more field ids")?;
    let mut field = DataField {
        id: *last_id,
        nullable: true,
        ..field.clone()
    };
    field.data_type.assign_ids(last_id);
    fields.insert(at, field);
    Ok(())
}

/// Where a new field is inserted; the error is the name that is not there.
fn position<'a>(fields: &[DataField], place: ColumnPlace<'a>) -> Result<usize, &'a str> {
    let at = |name: &'a str| {
        fields
            .iter()
            .position(|field| field.name == name)
            .ok_or(name)
    };
    Ok(match place {
        ColumnPlace::First => 0,
        ColumnPlace::Last => fields.len(),
        ColumnPlace::After(name) => at(name)? + 1,
        ColumnPlace::Before(name) => at(name)?,
    })
}

fn move_to(fields: &mut Vec<DataField>, name: &str, place: ColumnPlace<'_>) -> Result<(), String> {
    let from = fields.iter().position(|field| field.name == name);
    let from = from.ok_or("there is no such column")?;
    if matches!(place, ColumnPlace::After(other) | ColumnPlace::Before(other) if other == name) {
        return Err("it cannot stand beside itself".into());
    }
    let field = fields.remove(from);
    match position(fields, place) {
        Ok(to) => fields.insert(to, field),
        Err(other) => return Err(format!("there is no column '{other}'")),
    }
    Ok(())
}
