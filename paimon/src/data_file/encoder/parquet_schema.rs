//! The Parquet types of columns, as Java Paimon's writer chooses them.
//!
//! Source: `ParquetSchemaConverter`.

use std::sync::Arc;

use parquet::{
    basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as PhysicalType},
    schema::types::{Type, TypePtr},
};

use crate::{
    data_type::{DataField, DataType, Element},
    error::{Error, Result},
};

/// Ids of items within columns, by column and depth.
const NESTED_FIELD_ID_BASE: i32 = 536_870_911;
const NESTED_DEPTHS_MAX: i32 = 1 << 10;

/// The Parquet type of a column, or of a field of a ROW (`nested`).
pub(super) fn column_type(field: &DataField, nested: bool) -> Result<Type> {
    let place = Place {
        column_id: field.id,
        depth: 0,
        nested,
    };
    let repetition = repetition(field.nullable);
    parquet_type(&field.name, &field.data_type, repetition, field.id, place)
}

fn repetition(nullable: bool) -> Repetition {
    match nullable {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    }
}

/// Where a type stands within a column or a field of a ROW.
#[derive(Debug, Clone, Copy)]
struct Place {
    column_id: i32,
    /// 0 for the column itself.
    depth: i32,
    nested: bool,
}

impl Place {
    fn within(self) -> Self {
        Self {
            depth: self.depth + 1,
            nested: true,
            ..self
        }
    }

    /// Of an element or a map's value.
    fn element(self, name: &str, element: &Element) -> Result<TypePtr> {
        let place = self.within();
        let id = NESTED_FIELD_ID_BASE
            .saturating_add(NESTED_DEPTHS_MAX.saturating_mul(place.column_id))
            .saturating_add(place.depth);
        let repetition = repetition(element.nullable);
        parquet_type(name, &element.data_type, repetition, id, place).map(Arc::new)
    }

    /// Of a map's key, which is never null in a file.
    fn key(self, key: &Element) -> Result<TypePtr> {
        let place = self.within();
        let id = NESTED_FIELD_ID_BASE
            .saturating_sub(NESTED_DEPTHS_MAX.saturating_mul(place.column_id))
            .saturating_sub(place.depth);
        parquet_type("key", &key.data_type, Repetition::REQUIRED, id, place).map(Arc::new)
    }
}

/// A list or map: a group around a repeated group.
fn repeated(
    name: &str,
    logical: LogicalType,
    repetition: Repetition,
    id: i32,
    inner: &str,
    parts: Vec<TypePtr>,
) -> Result<Type> {
    // Java's writer says so of maps, as older readers expect.
    let converted = match logical {
        LogicalType::Map => ConvertedType::MAP_KEY_VALUE,
        _ => ConvertedType::NONE,
    };
    let inner = Type::group_type_builder(inner)
        .with_repetition(Repetition::REPEATED)
        .with_converted_type(converted)
        .with_fields(parts)
        .build()?;
    Ok(Type::group_type_builder(name)
        .with_repetition(repetition)
        .with_logical_type(Some(logical))
        .with_id(Some(id))
        .with_fields(vec![Arc::new(inner)])
        .build()?)
}

/// Paths of the leaves of a column's type, in order.
pub(super) fn leaf_paths(data_type: &DataType, path: Vec<String>) -> Vec<Vec<String>> {
    let below = |names: &[&str], data_type: &DataType| {
        let names = names.iter().map(|name| (*name).to_owned());
        leaf_paths(data_type, path.iter().cloned().chain(names).collect())
    };
    match data_type {
        DataType::Array(element) => below(&["list", "element"], &element.data_type),
        DataType::Map(key, value) => {
            let mut leaves = below(&["key_value", "key"], &key.data_type);
            leaves.extend(below(&["key_value", "value"], &value.data_type));
            leaves
        }
        DataType::Multiset(element) => {
            let mut leaves = below(&["key_value", "key"], &element.data_type);
            leaves.extend(below(&["key_value", "value"], &DataType::Int));
            leaves
        }
        DataType::Row(fields) => fields
            .iter()
            .flat_map(|field| below(&[&field.name], &field.data_type))
            .collect(),
        _ => vec![path],
    }
}

fn parquet_type(
    name: &str,
    data_type: &DataType,
    repetition: Repetition,
    id: i32,
    place: Place,
) -> Result<Type> {
    use PhysicalType::{
        BOOLEAN, BYTE_ARRAY, DOUBLE, FIXED_LEN_BYTE_ARRAY, FLOAT, INT32, INT64, INT96,
    };
    let (physical, logical) = match data_type {
        DataType::Boolean => (BOOLEAN, None),
        DataType::TinyInt => (INT32, Some(LogicalType::integer(8, true))),
        DataType::SmallInt => (INT32, Some(LogicalType::integer(16, true))),
        DataType::Int => (INT32, None),
        DataType::BigInt => (INT64, None),
        DataType::Float => (FLOAT, None),
        DataType::Double => (DOUBLE, None),
        DataType::Decimal(precision, scale) => {
            let physical = match precision {
                0..=9 => INT32,
                10..=18 => INT64,
                _ => FIXED_LEN_BYTE_ARRAY,
            };
            let logical = LogicalType::decimal(i32::from(*scale), i32::from(*precision));
            (physical, Some(logical))
        }
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => {
            (BYTE_ARRAY, Some(LogicalType::String))
        }
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => (BYTE_ARRAY, None),
        DataType::Date => (INT32, Some(LogicalType::Date)),
        DataType::Time(_) => (INT32, Some(LogicalType::time(true, TimeUnit::MILLIS))),
        DataType::Timestamp(digits) | DataType::TimestampLtz(digits) => {
            let adjusted = matches!(data_type, DataType::TimestampLtz(_));
            match digits {
                0..=3 => (
                    INT64,
                    Some(LogicalType::timestamp(adjusted, TimeUnit::MILLIS)),
                ),
                4..=6 => (
                    INT64,
                    Some(LogicalType::timestamp(adjusted, TimeUnit::MICROS)),
                ),
                _ if place.nested => {
                    return Err(Error::Unsupported(format!(
                        "writing {data_type} within ARRAY, MAP or ROW"
                    )));
                }
                _ => (INT96, None),
            }
        }
        DataType::Array(element) => {
            let element = place.element("element", element)?;
            return repeated(
                name,
                LogicalType::List,
                repetition,
                id,
                "list",
                vec![element],
            );
        }
        DataType::Map(key, value) => {
            let key = place.key(key)?;
            let value = place.element("value", value)?;
            return repeated(
                name,
                LogicalType::Map,
                repetition,
                id,
                "key_value",
                vec![key, value],
            );
        }
        DataType::Multiset(element) => {
            let times = Element {
                data_type: DataType::Int,
                nullable: false,
            };
            let key = place.key(element)?;
            let value = place.element("value", &times)?;
            return repeated(
                name,
                LogicalType::Map,
                repetition,
                id,
                "key_value",
                vec![key, value],
            );
        }
        DataType::Row(fields) => {
            let fields = fields
                .iter()
                .map(|field| column_type(field, true).map(Arc::new));
            return Ok(Type::group_type_builder(name)
                .with_repetition(repetition)
                .with_id(Some(id))
                .with_fields(fields.collect::<Result<_>>()?)
                .build()?);
        }
    };
    let mut builder = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_id(Some(id));
    if let DataType::Decimal(precision, scale) = data_type {
        builder = builder
            .with_precision(i32::from(*precision))
            .with_scale(i32::from(*scale));
        if physical == FIXED_LEN_BYTE_ARRAY {
            builder = builder.with_length(bytes_of_decimal(*precision));
        }
    }
    Ok(builder.build()?)
}

/// Fewest bytes that hold every decimal of so many digits.
pub(super) fn bytes_of_decimal(precision: u8) -> i32 {
    let greatest = (0..precision).fold(1_i128, |power, _| power.saturating_mul(10)) - 1;
    (1..16)
        .find(|bytes| greatest < 1_i128 << (8 * bytes - 1))
        .unwrap_or(16)
}
