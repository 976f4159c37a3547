//! Spellings of values: durations and sizes as Flink writes them, booleans, integers.
//!
//! Facts from Flink CDC's `TimeUtils` and Flink's `MemorySize`: a bare number is milliseconds
//! respectively bytes, blanks before the unit and any case are fine, sizes count by 1024.

use std::time::Duration;

/// `true` or `false` in any case.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write `true` or `false`".to_owned()),
    }
}

/// A whole number within bounds.
pub(crate) fn integer(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let number: i64 = text
        .trim()
        .parse()
        .map_err(|_| "write a whole number".to_owned())?;
    if number < min {
        return Err(format!("it must be at least {min}"));
    }
    if number > max {
        return Err(format!("it must be at most {max}"));
    }
    Ok(number)
}

/// A number of at least 0.
pub(crate) fn float(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("write a number of at least 0".to_owned()),
    }
}

/// A number and its unit, lower case, blanks removed.
fn split(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim().to_lowercase()))
}

/// `500ms`, `10s`, `5 min`, `1h`, `PT30S`; a bare number is milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a duration such as `500ms`, `10s`, `5min` or `1h`".to_owned();
    if text.trim().starts_with(['P', 'p']) {
        let parsed: jiff::SignedDuration = text.trim().parse().map_err(|_| wrong())?;
        return Duration::try_from(parsed).map_err(|_| wrong());
    }
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let nanos_each: u64 = match unit.as_str() {
        "d" | "day" | "days" => 86_400_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "µs" | "μs" | "us" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(nanos_each)
        .map(Duration::from_nanos)
        .ok_or_else(|| "the duration is too long".to_owned())
}

/// `64MB`, `64 mb`, `1g`; a bare number is bytes. In bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write a size such as `64MB` or `1GB`".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let shift = match unit.as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kib" | "kibibytes" => 10,
        "m" | "mb" | "mib" | "mebibytes" => 20,
        "g" | "gb" | "gib" | "gibibytes" => 30,
        "t" | "tb" | "tib" | "tebibytes" => 40,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1_u64 << shift)
        .ok_or_else(|| "the size is too large".to_owned())
}
