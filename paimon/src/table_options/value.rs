//! How the texts of options are read.
//!
//! Source: `org.apache.paimon.options.{MemorySize, OptionsUtils}`, `org.apache.paimon.utils.TimeUtils`.

use std::{fmt::Display, str::FromStr, time::Duration};

use crate::{
    error::{Error, Result},
    schema::Schema,
};

/// Bytes of a text such as `128 mb`, above 0.
pub(crate) fn memory_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let shift = match unit.as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// Time of a text such as `1 h`; milliseconds without a unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs);
    match unit.as_str() {
        "d" | "day" | "days" => seconds(86_400),
        "h" | "hour" | "hours" => seconds(3600),
        "min" | "m" | "minute" | "minutes" => seconds(60),
        "s" | "sec" | "secs" | "second" | "seconds" => seconds(1),
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => {
            Some(Duration::from_millis(number))
        }
        "µs" | "micro" | "micros" | "microsecond" | "microseconds" => {
            Some(Duration::from_micros(number))
        }
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => {
            Some(Duration::from_nanos(number))
        }
        _ => None,
    }
}

/// Java counts in a signed number: what does not fit is none.
fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number = u64::try_from(number.parse::<i64>().ok()?).ok()?;
    Some((number, unit.trim().to_lowercase()))
}

/// The names of one option, today's first, and how it is read.
pub(crate) struct Reader<'a>(pub(crate) &'a Schema);

impl<'a> Reader<'a> {
    /// The text of the first name that is set, with that name.
    fn found<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a str)> {
        names.iter().find_map(|name| {
            let text = self.0.options.get(*name)?;
            Some((*name, text.trim()))
        })
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.found(&[name]).map(|(_, text)| text.to_owned())
    }

    /// Names separated by commas; empty when it is not set.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        self.found(&[name])
            .map(|(_, text)| text.split(',').map(|name| name.trim().to_owned()).collect())
            .unwrap_or_default()
    }

    fn read<T>(
        &self,
        names: &[&str],
        expected: impl Display,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some((name, text)) = self.found(names) else {
            return Ok(None);
        };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::Unsupported(format!(
                "option {name} = {text}: {expected} is expected"
            ))),
        }
    }

    pub(crate) fn switch(&self, names: &[&str], default: bool) -> Result<bool> {
        let read = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Ok(self.read(names, "true or false", read)?.unwrap_or(default))
    }

    /// A whole number that is at least `least`.
    pub(crate) fn count<T: FromStr + PartialOrd + Display>(
        &self,
        name: &str,
        least: T,
    ) -> Result<Option<T>> {
        self.read(&[name], format!("a number of at least {least}"), |text| {
            text.parse::<T>().ok().filter(|number| *number >= least)
        })
    }

    /// A number such as 0.2, at least 0.
    pub(super) fn ratio(&self, name: &str, default: f64) -> Result<f64> {
        let read = |text: &str| text.parse::<f64>().ok().filter(|ratio| *ratio >= 0.0);
        Ok(self
            .read(&[name], "a number of at least 0", read)?
            .unwrap_or(default))
    }

    pub(super) fn bytes(&self, name: &str) -> Result<Option<u64>> {
        self.read(&[name], "a size such as '128 mb'", memory_size)
    }

    pub(crate) fn time(&self, names: &[&str]) -> Result<Option<Duration>> {
        self.read(names, "a time such as '1 h'", duration)
    }

    /// One of some words, in any case.
    pub(super) fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>();
        let expected = format!("one of {}", known.join(", "));
        self.read(&[name], expected, |text| {
            let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
            let found = words.iter().find(|(word, _)| plain(word) == plain(text));
            found.map(|(_, value)| *value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_java_reads_them() {
        assert_eq!(memory_size("128 mb"), Some(128 << 20));
        assert_eq!(memory_size("1GB"), Some(1 << 30));
        assert_eq!(memory_size("4096"), Some(4096));
        for wrong in [
            "",
            "mb",
            "0",
            "-1 mb",
            "1 xb",
            "99999999999999999999",
            "9999999999 tb",
        ] {
            assert_eq!(memory_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_read_as_java_reads_them() {
        assert_eq!(duration("1 h"), Some(Duration::from_secs(3600)));
        assert_eq!(duration("10min"), Some(Duration::from_secs(600)));
        assert_eq!(duration("2 DAYS"), Some(Duration::from_secs(172_800)));
        assert_eq!(duration("1500"), Some(Duration::from_millis(1500)));
        for wrong in ["", "h", "-1 s", "1.5 h", "1 week", "999999999999999999 d"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_with_and_without_blanks_are_read() {
        for (text, millis) in [
            ("36h", 129_600_000),
            ("7 d", 604_800_000),
            ("1 hour", 3_600_000),
            ("90 min", 5_400_000),
            ("1500", 1500),
            ("2 s", 2000),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in ["", "h", "1 fortnight", "-1 s", "99999999999999999999 d"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
