//! Changes of options, and of what options name.

use std::collections::BTreeMap;

use crate::{schema::Schema, table_options::is_immutable};

/// Options whose value is a list of columns.
const LISTS: [&str; 5] = [
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "changelog-producer.row-deduplicate-ignore-fields",
];

/// Ends of `fields.<columns>.…` options whose value is a list of columns too.
const LISTS_OF_FIELDS: [&str; 2] = ["sequence-group", "nested-key"];

/// What stands between `fields.` and the end of an option's name, and the end.
fn field_option(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("fields.")?.rsplit_once('.')
}

/// Columns that an option's value names.
pub(super) fn names<'a>(schema: &'a Schema, option: &str) -> Vec<&'a str> {
    let value = schema.options.get(option).map(String::as_str);
    value.map_or_else(Vec::new, |value| value.split(',').map(str::trim).collect())
}

/// An option that names a column.
pub(super) fn naming<'a>(schema: &'a Schema, column: &str) -> Option<&'a str> {
    let has = |list: &str| list.split(',').any(|name| name.trim() == column);
    schema.options.iter().find_map(|(name, value)| {
        let in_list = LISTS.contains(&name.as_str()) && has(value);
        let of_field = field_option(name).is_some_and(|(columns, end)| {
            has(columns) || (LISTS_OF_FIELDS.contains(&end) && has(value))
        });
        (in_list || of_field).then_some(name.as_str())
    })
}

/// Renames a column wherever options name it. Source: `SchemaManager#applyRenameColumnsToOptions`.
pub(super) fn rename(options: &mut BTreeMap<String, String>, old: &str, new: &str) {
    let list = |list: &str| {
        let names = list
            .split(',')
            .map(|name| if name.trim() == old { new } else { name });
        names.collect::<Vec<_>>().join(",")
    };
    *options = std::mem::take(options)
        .into_iter()
        .map(|(name, value)| {
            if LISTS.contains(&name.as_str()) {
                let value = list(&value);
                return (name, value);
            }
            match field_option(&name) {
                Some((columns, end)) => {
                    let value = match LISTS_OF_FIELDS.contains(&end) {
                        true => list(&value),
                        false => value,
                    };
                    (format!("fields.{}.{end}", list(columns)), value)
                }
                None => (name, value),
            }
        })
        .collect();
}

pub(super) fn set(
    schema: &mut Schema,
    name: &str,
    value: &str,
    has_rows: bool,
) -> Result<(), String> {
    let old = schema.options.get(name).map(String::as_str);
    if old == Some(value) {
        return Ok(());
    }
    check(schema, name, Some(value), has_rows)
        .map_err(|why| format!("cannot set option {name} to '{value}': {why}"))?;
    schema.options.insert(name.to_owned(), value.to_owned());
    Ok(())
}

pub(super) fn remove(schema: &mut Schema, name: &str, has_rows: bool) -> Result<(), String> {
    if schema.options.contains_key(name) {
        check(schema, name, None, has_rows)
            .map_err(|why| format!("cannot remove option {name}: {why}"))?;
        schema.options.remove(name);
    }
    Ok(())
}

/// Whether an option may change; `new` is none when it is removed.
/// Source: `SchemaManager#checkAlterTableOption`, `#checkResetTableOption`.
fn check(schema: &Schema, name: &str, new: Option<&str>, has_rows: bool) -> Result<(), String> {
    let old = schema.options.get(name).map(String::as_str);
    let is_true =
        |value: Option<&str>| value.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    if matches!(name, "type" | "path") {
        return Err("it cannot change".into());
    }
    if !has_rows {
        return Ok(());
    }
    if is_immutable(name) {
        return Err("it cannot change once the table has rows".into());
    }
    match name {
        "bucket" => {
            let number = |value: Option<&str>| match value {
                None => Ok(-1),
                Some(value) => value
                    .trim()
                    .parse::<i32>()
                    .map_err(|_| format!("'{value}' is no number")),
            };
            match (number(old)?, new.map(|new| number(Some(new))).transpose()?) {
                (-1, _) => Err("buckets that grow by themselves cannot become fixed ones".into()),
                (_, None | Some(-1)) => {
                    Err("fixed buckets cannot become ones that grow by themselves".into())
                }
                _ => Ok(()),
            }
        }
        "deletion-vectors.enabled"
            if is_true(old) != is_true(new)
                && !is_true(
                    schema
                        .options
                        .get("deletion-vectors.modifiable")
                        .map(String::as_str),
                ) =>
        {
            Err(
                "rows could be there twice without a full compaction; option \
                 deletion-vectors.modifiable = true allows it"
                    .into(),
            )
        }
        "ignore-delete" | "ignore-update-before" if is_true(old) && !is_true(new) => {
            Err("what was ignored would not come back".into())
        }
        _ => Ok(()),
    }
}
