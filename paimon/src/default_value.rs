//! Values that writers put in the place of NULL: the default of a column.
//!
//! They are written, never read: rows of files that are older than the column, or than its default,
//! hold NULL. A NULL in a NOT NULL column is refused before.
//!
//! Source: `DefaultValueRow`, `DefaultValueUtils`, `TableWriteImpl`, `CastExecutors` (from text).

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, PrimitiveArray, Scalar,
    StringArray, types,
};
use arrow_select::zip::zip;
use jiff::civil::{Date, DateTime, Time};

use crate::{
    data_type::{DataField, DataType},
    error::{Error, Result},
    schema::Schema,
};

/// A column with its NULLs replaced by its field's default, if it has one.
pub(crate) fn fill(field: &DataField, column: ArrayRef) -> Result<ArrayRef> {
    let Some(text) = field.default_value.as_deref() else {
        return Ok(column);
    };
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(column);
    };
    let is_value = BooleanArray::new(nulls.inner().clone(), None);
    let default = Scalar::new(value(field, text)?);
    Ok(zip(&is_value, &column, &default)?)
}

/// Refuses a schema with defaults that cannot be written.
pub(crate) fn check(schema: &Schema) -> Result<()> {
    for field in &schema.fields {
        if let Some(text) = &field.default_value {
            value(field, text)?;
        }
    }
    Ok(())
}

/// The default as an array of one row, in the field's type.
fn value(field: &DataField, text: &str) -> Result<ArrayRef> {
    let quoted = text
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let text = quoted.unwrap_or(text);
    parse(&field.data_type, text).ok_or_else(|| {
        Error::Unsupported(format!(
            "column {} of type {} with DEFAULT {text}: it is not written as such a value",
            field.name, field.data_type
        ))
    })
}

fn parse(data_type: &DataType, text: &str) -> Option<ArrayRef> {
    let plain = text.trim();
    Some(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(vec![truth(plain)?])),
        DataType::TinyInt => number::<types::Int8Type>(plain)?,
        DataType::SmallInt => number::<types::Int16Type>(plain)?,
        DataType::Int => number::<types::Int32Type>(plain)?,
        DataType::BigInt => number::<types::Int64Type>(plain)?,
        DataType::Float => number::<types::Float32Type>(plain)?,
        DataType::Double => number::<types::Float64Type>(plain)?,
        DataType::Decimal(precision, scale) => {
            let digits = decimal(plain, *precision, *scale)?;
            let array = Decimal128Array::from(vec![digits]);
            let scale = i8::try_from(*scale).ok()?;
            Arc::new(array.with_precision_and_scale(*precision, scale).ok()?)
        }
        DataType::Char(length) => {
            let length = usize::try_from(*length).ok()?;
            let cut: String = text.chars().take(length).collect();
            Arc::new(StringArray::from(vec![format!("{cut:<length$}")]))
        }
        DataType::VarChar(length) => {
            let length = usize::try_from(*length).ok()?;
            let cut: String = text.chars().take(length).collect();
            Arc::new(StringArray::from(vec![cut]))
        }
        DataType::String => Arc::new(StringArray::from(vec![text])),
        DataType::Bytes => Arc::new(BinaryArray::from(vec![text.as_bytes()])),
        DataType::VarBinary(length) => {
            let bytes = text.as_bytes();
            let cut = bytes.get(..usize::try_from(*length).ok()?).unwrap_or(bytes);
            Arc::new(BinaryArray::from(vec![cut]))
        }
        DataType::Binary(length) => {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(usize::try_from(*length).ok()?, 0);
            Arc::new(BinaryArray::from(vec![bytes.as_slice()]))
        }
        DataType::Date => {
            let date: Date = plain.parse().ok()?;
            let days = date.since(Date::constant(1970, 1, 1)).ok()?.get_days();
            of::<types::Date32Type>(data_type, days)
        }
        DataType::Time(_) => {
            let time: Time = plain.parse().ok()?;
            let nanos = time.duration_since(Time::midnight()).as_nanos();
            of::<types::Time32MillisecondType>(data_type, i32::try_from(nanos / 1_000_000).ok()?)
        }
        DataType::Timestamp(digits) => timestamp(data_type, *digits, plain)?,
        // In which zone they are read is the writer's to say; Java takes that of its machine.
        DataType::TimestampLtz(_) => return None,
        DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => {
            return None;
        }
    })
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn number<T: types::ArrowPrimitiveType>(text: &str) -> Option<ArrayRef>
where
    T::Native: std::str::FromStr,
{
    let number = text.parse().ok()?;
    Some(Arc::new(PrimitiveArray::<T>::from_value(number, 1)))
}

fn of<T: types::ArrowPrimitiveType>(data_type: &DataType, value: T::Native) -> ArrayRef {
    let array = PrimitiveArray::<T>::from_value(value, 1);
    Arc::new(array.with_data_type(data_type.arrow()))
}

/// Digits without the point; what does not fit behind it is rounded half up.
fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let scale = usize::from(scale);
    let kept = fraction.get(..scale).unwrap_or(fraction);
    let rounds_up = fraction
        .as_bytes()
        .get(scale)
        .is_some_and(|digit| *digit >= b'5');
    let number: i128 = format!("0{whole}{kept:0<scale$}").parse().ok()?;
    let number = number + i128::from(rounds_up);
    let fits = number < 10_i128.checked_pow(precision.into())?;
    fits.then_some(if is_negative { -number } else { number })
}

fn timestamp(data_type: &DataType, digits: u8, text: &str) -> Option<ArrayRef> {
    let time: DateTime = match text.parse() {
        Ok(time) => time,
        Err(_) => text.parse::<Date>().ok()?.at(0, 0, 0, 0),
    };
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let nanos = time.duration_since(epoch).as_nanos();
    // What the type does not hold is cut off.
    let step = 10_i128.checked_pow(9_u32.checked_sub(digits.into())?)?;
    let nanos = nanos.div_euclid(step) * step;
    let ticks = |each: i128| i64::try_from(nanos.div_euclid(each)).ok();
    Some(match digits {
        0..=3 => of::<types::TimestampMillisecondType>(data_type, ticks(1_000_000)?),
        4..=6 => of::<types::TimestampMicrosecondType>(data_type, ticks(1000)?),
        _ => of::<types::TimestampNanosecondType>(data_type, ticks(1)?),
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{cast::AsArray, new_null_array};

    use super::*;

    fn field(data_type: DataType, default: &str) -> DataField {
        DataField {
            id: 0,
            name: "c".into(),
            data_type,
            nullable: true,
            description: None,
            default_value: Some(default.into()),
        }
    }

    #[test]
    fn nulls_become_the_default_and_nothing_else_does() {
        let field = field(DataType::Int, "7");
        let column: ArrayRef =
            Arc::new(arrow_array::Int32Array::from(vec![Some(1), None, Some(3)]));
        let filled = fill(&field, column).unwrap();
        let filled = filled.as_primitive::<types::Int32Type>();
        assert_eq!(filled, &arrow_array::Int32Array::from(vec![1, 7, 3]));
    }

    #[test]
    fn every_type_takes_its_text() {
        for (data_type, text) in [
            (DataType::Boolean, "'yes'"),
            (DataType::TinyInt, "-7"),
            (DataType::Double, "1.5"),
            (DataType::Decimal(5, 2), "12.345"),
            (DataType::Char(5), "ab"),
            (DataType::VarChar(2), "'abc'"),
            (DataType::String, ""),
            (DataType::Binary(3), "a"),
            (DataType::Bytes, "abc"),
            (DataType::Date, "2024-02-29"),
            (DataType::Time(3), "12:34:56.789"),
            (DataType::Timestamp(3), "2024-02-29 12:34:56.789999"),
            (DataType::Timestamp(9), "1969-12-31 23:59:59.000000001"),
            (DataType::Timestamp(6), "2024-02-29"),
        ] {
            let nulls = new_null_array(&data_type.arrow(), 2);
            let filled = fill(&field(data_type.clone(), text), nulls).unwrap();
            assert_eq!(filled.null_count(), 0, "{data_type}");
            assert_eq!(filled.data_type(), &data_type.arrow());
        }
        let decimal = |text| decimal(text, 5, 2);
        assert_eq!(decimal("12.345"), Some(1235));
        assert_eq!(decimal("-.5"), Some(-50));
        assert_eq!(decimal("1000"), None);
        assert_eq!(decimal("."), None);
    }

    #[test]
    fn what_is_no_such_value_is_named() {
        for (data_type, text) in [
            (DataType::Int, "seven"),
            (DataType::TinyInt, "128"),
            (DataType::Date, "2023-02-29"),
            (DataType::TimestampLtz(3), "2024-01-01 00:00:00"),
        ] {
            let schema = Schema {
                fields: vec![field(data_type, text)],
                ..Schema::empty()
            };
            let error = check(&schema).unwrap_err().to_string();
            assert!(
                error.contains("column c") && error.contains(text),
                "{error}"
            );
        }
    }
}
