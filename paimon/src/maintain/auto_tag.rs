//! Tags that come by themselves, one a period.
//!
//! Source: `org.apache.paimon.tag.{TagAutoCreation,TagPeriodHandler,TagTimeExtractor}`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil::DateTime, fmt::strtime, tz::TimeZone};

use crate::{
    error::{Error, Result},
    schema::Schema,
    snapshot::PaimonSnapshot,
    table::Table,
};

use super::{
    lineage::{Lineage, Record},
    policy::{duration, flag, number},
    tag::{Tag, TagRequest},
};

/// Makes a table's automatic tags; remembers how far it has looked.
#[derive(Debug)]
pub struct AutoTagger {
    table: Table,
    wish: Wish,
    next_tag: Option<DateTime>,
    next_snapshot: i64,
}

/// How long a period is, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Period {
    length: SignedDuration,
    format: &'static str,
}

impl Period {
    fn of(schema: &Schema) -> Result<Self> {
        let option = |name: &str, default: &'static str| {
            let text = schema.options.get(name).map(|text| text.trim());
            text.unwrap_or(default).to_ascii_lowercase()
        };
        let name = "tag.creation-period-duration";
        if let Some(length) = duration(schema, name)? {
            let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
            // Names of tags are of minutes.
            return match length.as_secs() >= 60 {
                true => Ok(Self {
                    length,
                    format: "%Y%m%d%H%M",
                }),
                false => Err(Error::Unsupported(format!(
                    "option {name}: it must be at least a minute"
                ))),
            };
        }
        let period = option("tag.creation-period", "daily");
        let formatter = option("tag.period-formatter", "with_dashes");
        let (hours, format) = match (period.as_str(), formatter.as_str()) {
            ("daily", "with_dashes") => (24, "%Y-%m-%d"),
            ("daily", "without_dashes" | "without_dashes_and_spaces") => (24, "%Y%m%d"),
            ("hourly", "with_dashes") | ("two-hours", _) => {
                (if period == "hourly" { 1 } else { 2 }, "%Y-%m-%d %H")
            }
            ("hourly", "without_dashes") => (1, "%Y%m%d %H"),
            ("hourly", "without_dashes_and_spaces") => (1, "%Y%m%d%H"),
            _ => {
                return Err(Error::Unsupported(format!(
                    "option tag.creation-period = {period} with tag.period-formatter = {formatter}"
                )));
            }
        };
        Ok(Self {
            length: SignedDuration::from_hours(hours),
            format,
        })
    }

    fn name(&self, time: DateTime) -> Result<String> {
        strtime::format(self.format, time)
            .map_err(|error| Error::Internal(format!("no name for a tag of {time}: {error}")))
    }

    /// The period of an automatic tag; `None` for a tag of another kind.
    fn time(&self, name: &str) -> Option<DateTime> {
        let parsed = strtime::parse(self.format, name).ok()?;
        let date = parsed.to_date().ok()?;
        let (hour, minute) = (parsed.hour().unwrap_or(0), parsed.minute().unwrap_or(0));
        let time = date.at(hour, minute, 0, 0);
        // What is read laxly is not one of ours.
        (self.name(time).ok()? == name).then_some(time)
    }

    fn after(&self, time: DateTime) -> Result<DateTime> {
        time.checked_add(self.length)
            .map_err(|error| Error::Internal(format!("no period behind {time}: {error}")))
    }

    /// The last whole period before a time.
    fn last_whole(&self, time: DateTime) -> Result<DateTime> {
        let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
        let seconds = time.duration_since(epoch).as_secs();
        let length = self.length.as_secs().max(1);
        let start = (seconds / length - 1) * length;
        epoch
            .checked_add(SignedDuration::from_secs(start))
            .map_err(|error| Error::Internal(format!("no period before {time}: {error}")))
    }
}

/// What a table's options say.
#[derive(Debug)]
struct Wish {
    period: Period,
    watermark: bool,
    zone: TimeZone,
    delay: SignedDuration,
    tags_max: Option<usize>,
    complete: bool,
}

impl Wish {
    fn of(schema: &Schema) -> Result<Option<Self>> {
        let option = |name: &str| schema.options.get(name).map(|text| text.trim());
        let watermark = match option("tag.automatic-creation") {
            None | Some("none" | "batch") => return Ok(None),
            Some("process-time") => false,
            Some("watermark") => true,
            Some(other) => {
                return Err(Error::Unsupported(format!(
                    "option tag.automatic-creation = {other}: set none, process-time, watermark or \
                     batch"
                )));
            }
        };
        let (name, default) = match watermark {
            true => ("sink.watermark-time-zone", TimeZone::UTC),
            false => ("sink.process-time-zone", TimeZone::system()),
        };
        let zone = match option(name) {
            None => default,
            Some(zone) => TimeZone::get(zone)
                .map_err(|_| Error::Unsupported(format!("option {name} = {zone}")))?,
        };
        let period = Period::of(schema)?;
        let delay = duration(schema, "tag.creation-delay")?.unwrap_or(Duration::ZERO);
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        if delay >= period.length {
            return Err(Error::Unsupported(
                "option tag.creation-delay: it must be shorter than the period".into(),
            ));
        }
        Ok(Some(Self {
            period,
            watermark,
            zone,
            delay,
            tags_max: number(schema, "tag.num-retained-max", 1)?
                .and_then(|max| usize::try_from(max).ok()),
            complete: flag(schema, "tag.automatic-completion", false)?,
        }))
    }
}

/// Refuses options that cannot be read, or contradict each other.
pub(super) fn check(schema: &Schema) -> Result<()> {
    Wish::of(schema).map(|_| ())
}

impl AutoTagger {
    /// What a table's options ask for; `None` without `tag.automatic-creation` (or with `batch`,
    /// where the end of a job makes the tag).
    ///
    /// # Errors
    /// [`Error::Unsupported`] names an option that cannot be read.
    pub async fn new(table: Table) -> Result<Option<Self>> {
        let Some(wish) = Wish::of(table.schema())? else {
            return Ok(None);
        };
        let main = Lineage::main(&table);
        let names = main.tag_names().await?.into_iter();
        let last = names
            .filter_map(|name| Some((wish.period.time(&name)?, name)))
            .max();
        let (mut next_tag, mut next_snapshot) = (None, None);
        if let Some((time, name)) = last
            && let Some(tag) = main.tag(&name).await?
        {
            next_tag = Some(wish.period.after(time)?);
            next_snapshot = Some(tag.snapshot.id + 1);
        }
        Ok(Some(Self {
            wish,
            next_tag,
            next_snapshot: next_snapshot.unwrap_or(1),
            table,
        }))
    }

    /// Looks at the snapshots made since the last call, and makes the tags that are due. Returns
    /// their names. Call it before an expiry.
    ///
    /// # Errors
    /// As [`Table::create_tag`] and [`Table::delete_tag`].
    pub async fn run(&mut self) -> Result<Vec<String>> {
        let main = Lineage::main(&self.table);
        let mut made = Vec::new();
        for id in main.ids(Record::Snapshot).await? {
            if id < self.next_snapshot {
                continue;
            }
            if let Some(snapshot) = main.read(Record::Snapshot, id).await? {
                made.extend(self.look_at(&snapshot).await?);
            }
            self.next_snapshot = id + 1;
        }
        if !made.is_empty() {
            self.delete_surplus(&main).await?;
        }
        Ok(made)
    }

    async fn look_at(&mut self, snapshot: &PaimonSnapshot) -> Result<Option<String>> {
        let millis = match self.wish.watermark {
            true => snapshot
                .watermark
                .filter(|watermark| *watermark != i64::MIN),
            false => Some(snapshot.time_millis),
        };
        let time = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
        let Some(time) = time.map(|time| self.wish.zone.to_datetime(time)) else {
            return Ok(None);
        };
        if let Some(next) = self.next_tag
            && time.checked_sub(self.wish.delay).unwrap_or(time) < self.wish.period.after(next)?
        {
            return Ok(None);
        }
        let whole = self.wish.period.last_whole(time)?;
        let this = self
            .next_tag
            .filter(|_| self.wish.complete)
            .unwrap_or(whole);
        let name = self.wish.period.name(this)?;
        let request = TagRequest {
            snapshot: Some(snapshot.id),
            ..TagRequest::default()
        };
        // One of that name may be there: made by another, or by hand.
        let made = self.table.tag(&name).await?.is_none();
        if made {
            self.table.create_tag(&name, &request).await?;
        }
        self.next_tag = Some(self.wish.period.after(this)?);
        Ok(made.then_some(name))
    }

    async fn delete_surplus(&self, main: &Lineage) -> Result<()> {
        let Some(max) = self.wish.tags_max else {
            return Ok(());
        };
        let tags = main.tags().await?;
        let tags: Vec<&Tag> = tags
            .iter()
            .filter(|tag| self.wish.period.time(&tag.name).is_some())
            .collect();
        for tag in tags.iter().take(tags.len().saturating_sub(max)) {
            self.table.delete_tag(&tag.name).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::maintain::history::{Change, History};

    const DAY: i64 = 86_400_000;

    async fn names(table: &Table) -> Vec<String> {
        let tags = table.tags().await.unwrap();
        tags.into_iter().map(|tag| tag.name).collect()
    }

    /// The tag of a day comes with the first snapshot of the next one.
    #[tokio::test]
    async fn a_tag_comes_with_the_first_snapshot_behind_its_period() {
        let options = [
            ("tag.automatic-creation", "watermark"),
            ("tag.creation-period", "daily"),
            ("tag.creation-delay", "1 h"),
            ("tag.num-retained-max", "2"),
        ];
        let mut history = History::new(Arc::new(InMemory::new()), &options).await;
        let table = history.table.clone();
        let mut tagger = AutoTagger::new(table.clone()).await.unwrap().unwrap();
        let hour = DAY / 24;
        for (watermark, made) in [
            (10 * DAY + hour, vec!["1970-01-10"]),
            (10 * DAY + 2 * hour, vec![]),
            // A day later, but not yet the delay.
            (11 * DAY + hour / 2, vec![]),
            (11 * DAY + hour, vec!["1970-01-11"]),
            (12 * DAY + hour, vec!["1970-01-12"]),
            // Days without a snapshot have no tag.
            (14 * DAY + hour, vec!["1970-01-14"]),
        ] {
            history.watermark = Some(watermark);
            history
                .commit(Change {
                    add: vec![(&format!("f{watermark}"), 0)],
                    ..Change::default()
                })
                .await;
            let names = tagger.run().await.unwrap();
            let again = AutoTagger::new(table.clone()).await.unwrap().unwrap();
            assert_eq!(again.next_tag, tagger.next_tag);
            assert_eq!(names, made, "{watermark}");
        }
        assert_eq!(names(&table).await, ["1970-01-12", "1970-01-14"]);
        history.needed(0).await;
    }

    #[test]
    fn periods_of_any_length_are_named_by_the_minute() {
        let period = |length: &str| {
            let option = ("tag.creation-period-duration".to_owned(), length.to_owned());
            Period::of(&Schema {
                options: [option].into(),
                ..Schema::empty()
            })
        };
        let quarter = period("15 min").unwrap();
        let time = jiff::civil::date(2024, 2, 29).at(5, 59, 0, 0);
        let last = quarter.last_whole(time).unwrap();
        let name = quarter.name(last).unwrap();
        assert_eq!(name, "202402290530");
        assert_eq!(quarter.time(&name), Some(last));
        let error = period("1 s").unwrap_err().to_string();
        assert!(error.contains("tag.creation-period-duration"), "{error}");
    }

    #[test]
    fn periods_are_written_as_java_writes_them() {
        let period = |period: &str, formatter: &str| {
            Period::of(&Schema {
                options: [
                    ("tag.creation-period".to_owned(), period.to_owned()),
                    ("tag.period-formatter".to_owned(), formatter.to_owned()),
                ]
                .into(),
                ..Schema::empty()
            })
        };
        let time = jiff::civil::date(2024, 2, 29).at(5, 59, 0, 0);
        for (name, formatter, text) in [
            ("daily", "with_dashes", "2024-02-28"),
            ("daily", "without_dashes", "20240228"),
            ("hourly", "with_dashes", "2024-02-29 04"),
            ("hourly", "without_dashes", "20240229 04"),
            ("hourly", "without_dashes_and_spaces", "2024022904"),
            ("two-hours", "with_dashes", "2024-02-29 02"),
        ] {
            let period = period(name, formatter).unwrap();
            let last = period.last_whole(time).unwrap();
            assert_eq!(period.name(last).unwrap(), text);
            assert_eq!(period.time(text), Some(last));
            assert_eq!(period.time("t4"), None);
        }
        assert!(period("weekly", "with_dashes").is_err());
    }
}
