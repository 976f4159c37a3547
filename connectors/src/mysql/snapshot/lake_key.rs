//! Keys of rows that are in the lake, spelled for the server.

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
    },
};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use super::key::{float, introduced};
use crate::{
    error::{Error, Result},
    mysql::{table::MysqlTable, types::Physical},
};

/// The key of one row of a batch of the table's columns.
pub(in crate::mysql) fn key_of(
    table: &MysqlTable,
    rows: &RecordBatch,
    row: usize,
) -> Result<Vec<String>> {
    table
        .primary_key
        .iter()
        .map(|name| {
            let wrong = |what: &str| {
                Error::definite(format!("a key cannot be spelled: {what}"))
                    .table(&table.name)
                    .column(name)
            };
            let column = table.column(name).ok_or_else(|| wrong("no such column"))?;
            let values = rows
                .column_by_name(&column.name)
                .ok_or_else(|| wrong("the rows lack the column"))?;
            if row >= values.len() || values.is_null(row) {
                return Err(wrong("no value"));
            }
            let bits = matches!(column.physical()?, Physical::Bit(_));
            literal(values.as_ref(), row, bits)
                .ok_or_else(|| wrong(&format!("{} values", values.data_type())))
        })
        .collect()
}

fn literal(values: &dyn Array, row: usize, bits: bool) -> Option<String> {
    Some(match values.data_type() {
        ArrowType::Boolean => u8::from(values.as_boolean().value(row)).to_string(),
        ArrowType::Int8 => values.as_primitive::<Int8Type>().value(row).to_string(),
        ArrowType::Int16 => values.as_primitive::<Int16Type>().value(row).to_string(),
        ArrowType::Int32 => values.as_primitive::<Int32Type>().value(row).to_string(),
        ArrowType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        ArrowType::Float32 => float(f64::from(values.as_primitive::<Float32Type>().value(row)))?,
        ArrowType::Float64 => float(values.as_primitive::<Float64Type>().value(row))?,
        ArrowType::Decimal128(_, _) => values.as_primitive::<Decimal128Type>().value_as_string(row),
        ArrowType::Utf8 => introduced("utf8mb4", values.as_string::<i32>().value(row).as_bytes()),
        ArrowType::Binary if bits => {
            let number = values.as_binary::<i32>().value(row).iter();
            number
                .fold(0_u64, |n, byte| n << 8 | u64::from(*byte))
                .to_string()
        }
        ArrowType::Binary => introduced("binary", values.as_binary::<i32>().value(row)),
        ArrowType::Date32 => {
            let days = values.as_primitive::<Date32Type>().value(row);
            format!("'{}'", date(i64::from(days)))
        }
        ArrowType::Time32(TimeUnit::Millisecond) => {
            let ms = values.as_primitive::<Time32MillisecondType>().value(row);
            format!("'{}'", time(i64::from(ms) * 1000))
        }
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => moment(
            values
                .as_primitive::<TimestampMillisecondType>()
                .value(row)
                .checked_mul(1000)?,
        ),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            moment(values.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        ArrowType::List(_) => {
            let items = values.as_list::<i32>().value(row);
            let items = items.as_string_opt::<i32>()?;
            let labels: Vec<&str> = (0..items.len()).map(|i| items.value(i)).collect();
            introduced("utf8mb4", labels.join(",").as_bytes())
        }
        _ => return None,
    })
}

/// A part of a key for people: text as text, unless it would not print, and bytes in hexadecimal.
pub(in crate::mysql) fn text(part: &str) -> String {
    let readable = || {
        let hex = part.strip_prefix("_utf8mb4 0x")?;
        let bytes: Option<Vec<u8>> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
            .collect();
        let text = String::from_utf8(bytes?).ok()?;
        let prints = !text.contains(|c: char| c.is_control() || c == '\'');
        prints.then(|| format!("'{text}'"))
    };
    readable().unwrap_or_else(|| {
        let bare = part.strip_prefix("_utf8mb4 ");
        let bare = bare.or_else(|| part.strip_prefix("_binary "));
        bare.unwrap_or(part).to_owned()
    })
}

const MICROS_A_DAY: i64 = 86_400_000_000;

fn moment(micros: i64) -> String {
    let (days, rest) = (
        micros.div_euclid(MICROS_A_DAY),
        micros.rem_euclid(MICROS_A_DAY),
    );
    format!("'{} {}'", date(days), time(rest))
}

fn time(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    let seconds = micros / 1_000_000;
    format!(
        "{sign}{:02}:{:02}:{:02}.{:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000
    )
}

/// Proleptic Gregorian date of days since 1970-01-01, by eras of 400 years that start in March.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_for_people() {
        let spelled = |text: &str| super::text(&introduced("utf8mb4", text.as_bytes()));
        assert_eq!(spelled("BK-é 1 "), "'BK-é 1 '");
        assert_eq!(spelled(""), "''");
        assert_eq!(spelled("a\u{1b}[m"), "0x611B5B6D");
        assert_eq!(text(&introduced("binary", &[0, 255])), "0x00FF");
        assert_eq!(text("-7"), "-7");
        assert_eq!(text("'2024-02-29'"), "'2024-02-29'");
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(-719_162), "0001-01-01");
        assert_eq!(date(2_932_896), "9999-12-31");
        assert_eq!(time(3_723_000_004), "01:02:03.000004");
        assert_eq!(moment(-1), "'1969-12-31 23:59:59.999999'");
    }
}
