//! Which partitions are too old. Deleting them is a commit, as any other.
//!
//! Source: `org.apache.paimon.operation.NormalPartitionExpire`,
//! `org.apache.paimon.partition.{PartitionTimeExtractor,PartitionValuesTimeExpireStrategy,
//! PartitionUpdateTimeExpireStrategy}`.

use std::{collections::BTreeMap, time::Duration};

use jiff::{
    SignedDuration,
    civil::{Date, DateTime, Time},
};

use crate::{
    error::{Error, Result},
    partition,
    schema::Schema,
    table::Table,
};

use super::policy::{duration, number};

/// When a partition is too old: options `partition.expiration-time` and those beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionExpiry {
    /// Option `partition.expiration-time`.
    pub age_max: Duration,
    /// Option `partition.expiration-check-interval`, an hour: how often to look.
    pub check_interval: Duration,
    /// Option `partition.expiration-max-num`, 100: partitions that go in one call.
    pub partitions_max: usize,
    /// Option `partition.expiration-strategy`.
    pub strategy: PartitionAge,
}

/// What a partition's age counts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionAge {
    /// The time that its values say (`values-time`).
    Values {
        /// Option `partition.timestamp-pattern`, such as `$dt $hour:00:00`; the first value
        /// without.
        pattern: Option<String>,
        /// Option `partition.timestamp-formatter`, such as `yyyyMMdd`.
        formatter: Option<String>,
    },
    /// When its last file was written (`update-time`).
    Update,
}

impl PartitionExpiry {
    /// What the options say; `None` without `partition.expiration-time` or partitions.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names an option that cannot be read.
    pub fn of(schema: &Schema) -> Result<Option<Self>> {
        let Some(age_max) = duration(schema, "partition.expiration-time")? else {
            return Ok(None);
        };
        if schema.partition_keys.is_empty() {
            return Ok(None);
        }
        let option = |name: &str| schema.options.get(name).cloned();
        let strategy = option("partition.expiration-strategy");
        let strategy = match strategy.as_deref() {
            None | Some("values-time") => PartitionAge::Values {
                pattern: option("partition.timestamp-pattern"),
                formatter: option("partition.timestamp-formatter"),
            },
            Some("update-time") => PartitionAge::Update,
            Some(other) => {
                return Err(Error::Unsupported(format!(
                    "option partition.expiration-strategy = {other}"
                )));
            }
        };
        let interval = duration(schema, "partition.expiration-check-interval")?;
        let max = number(schema, "partition.expiration-max-num", 1)?.unwrap_or(100);
        Ok(Some(Self {
            age_max,
            check_interval: interval.unwrap_or(Duration::from_secs(3600)),
            partitions_max: usize::try_from(max).unwrap_or(usize::MAX),
            strategy,
        }))
    }
}

impl Table {
    /// The partitions that are too old at a local time, as serialized BinaryRows (with the arity
    /// prefix), the same ones first as in their folders' order. Reads all manifests of the newest
    /// snapshot.
    ///
    /// A partition whose values say no time never is, as with Java; DATE columns are days there,
    /// and say none.
    pub async fn expired_partitions(
        &self,
        expiry: &PartitionExpiry,
        now: DateTime,
    ) -> Result<Vec<Vec<u8>>> {
        let age = SignedDuration::try_from(expiry.age_max).unwrap_or(SignedDuration::MAX);
        let Ok(before) = now.checked_sub(age) else {
            return Ok(Vec::new());
        };
        let mut updated: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for file in self.newest_files().await? {
            // What has no time has just been written, for all we know.
            let time = file.meta.creation_time_ms.unwrap_or(i64::MAX);
            let last = updated.entry(file.partition).or_insert(i64::MIN);
            *last = (*last).max(time);
        }
        let mut expired = Vec::new();
        for (partition, last) in updated {
            let is_old = match &expiry.strategy {
                PartitionAge::Update => from_millis(last).is_some_and(|last| before > last),
                PartitionAge::Values { pattern, formatter } => {
                    let texts = partition::texts(self.schema(), &partition)?;
                    let keys = &self.schema().partition_keys;
                    let time = text_of(keys, &texts, pattern.as_deref())
                        .and_then(|text| parse(&text, formatter.as_deref()));
                    if time.is_none() {
                        tracing::debug!(table = self.name(), ?texts, "a partition without a time");
                    }
                    time.is_some_and(|time| before > time)
                }
            };
            if is_old {
                expired.push(partition);
            }
        }
        expired.truncate(expiry.partitions_max);
        Ok(expired)
    }
}

/// Local wall clock as if it were UTC.
fn from_millis(millis: i64) -> Option<DateTime> {
    let since = SignedDuration::from_millis(millis);
    let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
    epoch.checked_add(since).ok()
}

/// The pattern with its `$column`s replaced; `None` when a value is NULL.
fn text_of(keys: &[String], texts: &[Option<String>], pattern: Option<&str>) -> Option<String> {
    let Some(mut rest) = pattern else {
        return texts.first()?.clone();
    };
    let mut columns: Vec<(&String, &Option<String>)> = keys.iter().zip(texts).collect();
    // `$dt` must not take the beginning of `$dt1`.
    columns.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    let mut text = String::new();
    while let Some(at) = rest.find('$') {
        let (plain, behind) = rest.split_at_checked(at)?;
        text.push_str(plain);
        let name = behind.get(1..)?;
        let found = columns
            .iter()
            .find(|(key, _)| name.starts_with(key.as_str()));
        match found {
            Some((key, value)) => {
                text.push_str(value.as_deref()?);
                rest = name.get(key.len()..)?;
            }
            None => {
                text.push('$');
                rest = name;
            }
        }
    }
    text.push_str(rest);
    Some(text)
}

/// Reads a time by a formatter, or as `2024-2-29 5:00:00`, the clock left out if need be.
fn parse(text: &str, formatter: Option<&str>) -> Option<DateTime> {
    match formatter {
        Some(formatter) => parse_by(text, formatter),
        None => parse_plain(text),
    }
}

fn parse_plain(text: &str) -> Option<DateTime> {
    let (date, clock) = match text.split_once(' ') {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let date = Date::new(
        year.try_into().ok()?,
        month.try_into().ok()?,
        day.try_into().ok()?,
    );
    let date = date.ok()?;
    let Some(clock) = clock else {
        return Some(date.to_datetime(Time::midnight()));
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.splitn(3, ':').map(digits);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let nanos = digits(fraction)
        .filter(|_| fraction.len() <= 9)?
        .checked_mul(10i64.pow(9u32.checked_sub(fraction.len().try_into().ok()?)?))?;
    let time = Time::new(
        hour.try_into().ok()?,
        minute.try_into().ok()?,
        second.try_into().ok()?,
        nanos.try_into().ok()?,
    );
    Some(date.to_datetime(time.ok()?))
}

fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// A pattern of Java's `DateTimeFormatter`, as far as numbers go: runs of letters are that many
/// digits, single ones one or two; text in quotes stands for itself.
fn parse_by(text: &str, formatter: &str) -> Option<DateTime> {
    let mut rest = text;
    let mut fields: BTreeMap<char, i64> = BTreeMap::new();
    let mut pattern = formatter.chars().peekable();
    while let Some(letter) = pattern.next() {
        if letter == '\'' {
            for quoted in pattern.by_ref().take_while(|quoted| *quoted != '\'') {
                rest = rest.strip_prefix(quoted)?;
            }
            continue;
        }
        if !letter.is_ascii_alphabetic() {
            rest = rest.strip_prefix(letter)?;
            continue;
        }
        let mut run = 1;
        while pattern.next_if_eq(&letter).is_some() {
            run += 1;
        }
        let there = rest.bytes().take_while(u8::is_ascii_digit).count();
        let width = match run {
            1 => there.min(2),
            run => run,
        };
        let (number, behind) = rest.split_at_checked(width)?;
        let value = digits(number)?;
        let letter = match letter {
            'u' => 'y',
            'y' | 'M' | 'd' | 'H' | 'm' | 's' => letter,
            'S' => {
                let scale = 9u32.checked_sub(u32::try_from(width).ok()?)?;
                fields.insert('S', value.checked_mul(10i64.pow(scale))?);
                rest = behind;
                continue;
            }
            _ => return None,
        };
        fields.insert(letter, value);
        rest = behind;
    }
    if !rest.is_empty() {
        return None;
    }
    let field = |letter: char| fields.get(&letter).copied();
    let small = |letter: char| i8::try_from(field(letter).unwrap_or(0)).ok();
    let date = Date::new(
        field('y')?.try_into().ok()?,
        field('M')?.try_into().ok()?,
        field('d')?.try_into().ok()?,
    );
    let nanos = i32::try_from(field('S').unwrap_or(0)).ok()?;
    let time = Time::new(small('H')?, small('m')?, small('s')?, nanos);
    Some(date.ok()?.to_datetime(time.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i16, month: i8, day: i8, hour: i8) -> Option<DateTime> {
        Some(jiff::civil::date(year, month, day).at(hour, 0, 0, 0))
    }

    #[test]
    fn times_are_read_as_java_reads_them() {
        for (text, formatter, time) in [
            ("2024-02-29", None, at(2024, 2, 29, 0)),
            ("2024-2-9 5:00:00", None, at(2024, 2, 9, 5)),
            ("2024-02-29 05:00:00.000", None, at(2024, 2, 29, 5)),
            ("20240229", None, None),
            ("x", None, None),
            ("2024-02-30", None, None),
            ("20240229", Some("yyyyMMdd"), at(2024, 2, 29, 0)),
            ("2024022905", Some("yyyyMMddHH"), at(2024, 2, 29, 5)),
            ("29/2/2024", Some("d/M/yyyy"), at(2024, 2, 29, 0)),
            ("2024-02-29T05", Some("uuuu-MM-dd'T'HH"), at(2024, 2, 29, 5)),
            ("2024-02-29 ", Some("yyyy-MM-dd"), None),
            ("2024", Some("yyyy"), None),
            ("é024-02-29", Some("yyyy-MM-dd"), None),
        ] {
            assert_eq!(parse(text, formatter), time, "{text} {formatter:?}");
        }
    }

    #[test]
    fn patterns_name_columns() {
        let keys = ["dt", "dt1", "h"].map(str::to_owned);
        let texts = ["2024-01-01", "x", "5"].map(|text| Some(text.to_owned()));
        let text = |pattern| text_of(&keys, &texts, pattern);
        assert_eq!(text(None).unwrap(), "2024-01-01");
        assert_eq!(text(Some("$dt $h:00:00")).unwrap(), "2024-01-01 5:00:00");
        assert_eq!(text(Some("$dt1$")).unwrap(), "x$");
        assert_eq!(text_of(&keys, &[None], Some("$dt")), None);
    }
}
