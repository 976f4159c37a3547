//! How much of its past a table keeps, from its options.
//!
//! Source: `org.apache.paimon.CoreOptions`, `org.apache.paimon.utils.TimeUtils`.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    schema::Schema,
    table_options::Reader,
};

/// Which snapshots, and changelogs behind them, a table keeps. Numbers count from the newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Option `snapshot.num-retained.min`: so many stay however old they are, 10.
    pub snapshots_min: i64,
    /// Option `snapshot.num-retained.max`: more go however young they are, no limit.
    pub snapshots_max: i64,
    /// Option `snapshot.time-retained`: between the two numbers age decides, an hour.
    pub snapshot_age_max: Duration,
    /// Option `changelog.num-retained.min`; as for snapshots unless set, as with all that follow.
    pub changelogs_min: i64,
    /// Option `changelog.num-retained.max`.
    pub changelogs_max: i64,
    /// Option `changelog.time-retained`.
    pub changelog_age_max: Duration,
    /// Option `snapshot.expire.limit`: snapshots that go in one call, 50.
    pub expire_limit: i64,
    /// Option `snapshot.clean-empty-directories`: folders of buckets and partitions go with their
    /// last file, off.
    pub clean_empty_folders: bool,
    /// Option `consumer.expiration-time`: consumers that have not moved for so long are forgotten.
    pub consumer_age_max: Option<Duration>,
    /// Option `consumer.changelog-only`: consumers hold changelogs only, off.
    pub consumer_changelog_only: bool,
    /// Option `changelog-producer` is set: changes stand in files of their own.
    pub produces_changelog: bool,
}

impl Retention {
    /// What the table's options say.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names the option that cannot be read, or two that contradict.
    pub fn of(schema: &Schema) -> Result<Self> {
        let max = i64::from(i32::MAX);
        let snapshots_min = number(schema, "snapshot.num-retained.min", 1)?.unwrap_or(10);
        let snapshots_max = number(schema, "snapshot.num-retained.max", 1)?.unwrap_or(max);
        let age = duration(schema, "snapshot.time-retained")?;
        let age = age.unwrap_or(Duration::from_secs(3600));
        let changelog_age = duration(schema, "changelog.time-retained")?;
        let policy = Self {
            snapshots_min,
            snapshots_max,
            snapshot_age_max: age,
            changelogs_min: number(schema, "changelog.num-retained.min", 1)?
                .unwrap_or(snapshots_min),
            changelogs_max: number(schema, "changelog.num-retained.max", 1)?
                .unwrap_or(snapshots_max),
            changelog_age_max: changelog_age.unwrap_or(age),
            expire_limit: number(schema, "snapshot.expire.limit", 1)?.unwrap_or(50),
            clean_empty_folders: Reader(schema).switch(
                &[
                    "snapshot.clean-empty-directories",
                    "snapshot.expire.clean-empty-directories",
                ],
                false,
            )?,
            consumer_age_max: duration(schema, "consumer.expiration-time")?,
            consumer_changelog_only: flag(schema, "consumer.changelog-only", false)?,
            produces_changelog: schema
                .options
                .get("changelog-producer")
                .is_some_and(|producer| !producer.eq_ignore_ascii_case("none")),
        };
        policy.check()?;
        Ok(policy)
    }

    /// Keeps exactly so many snapshots, whatever the options say of numbers and ages. Changelogs
    /// go with them, unless the options let them live longer.
    pub fn keep(self, snapshots: i64) -> Self {
        let or = |changelogs: i64, of_snapshots: i64| match changelogs == of_snapshots {
            true => snapshots,
            false => changelogs.max(snapshots),
        };
        let changelogs_min = or(self.changelogs_min, self.snapshots_min);
        Self {
            snapshots_min: snapshots,
            snapshots_max: snapshots,
            snapshot_age_max: Duration::ZERO,
            changelogs_min,
            changelogs_max: or(self.changelogs_max, self.snapshots_max).max(changelogs_min),
            changelog_age_max: match self.changelog_age_max == self.snapshot_age_max {
                true => Duration::ZERO,
                false => self.changelog_age_max,
            },
            expire_limit: i64::from(i32::MAX),
            ..self
        }
    }

    /// Changelogs live longer than their snapshots.
    pub fn changelog_is_decoupled(&self) -> bool {
        self.changelogs_max > self.snapshots_max
            || self.changelog_age_max > self.snapshot_age_max
            || self.changelogs_min > self.snapshots_min
    }

    pub(super) fn check(&self) -> Result<()> {
        for (what, min, max) in [
            ("snapshot", self.snapshots_min, self.snapshots_max),
            ("changelog", self.changelogs_min, self.changelogs_max),
        ] {
            if min < 1 || max < min {
                return Err(Error::Unsupported(format!(
                    "{what}.num-retained.min = {min} with {what}.num-retained.max = {max}: keep at \
                     least one, and no fewer than the minimum"
                )));
            }
        }
        Ok(())
    }
}

pub(super) fn number(schema: &Schema, name: &str, least: i64) -> Result<Option<i64>> {
    Reader(schema).count(name, least)
}

pub(super) fn flag(schema: &Schema, name: &str, default: bool) -> Result<bool> {
    Reader(schema).switch(&[name], default)
}

pub(super) fn duration(schema: &Schema, name: &str) -> Result<Option<Duration>> {
    Reader(schema).time(&[name])
}

/// Milliseconds of a duration, at most what fits.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_are_named() {
        let of = |options: &[(&str, &str)]| {
            Retention::of(&Schema {
                options: options
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
                ..Schema::empty()
            })
        };
        assert!(!of(&[]).unwrap().changelog_is_decoupled());
        assert!(
            of(&[("changelog.time-retained", "2 h")])
                .unwrap()
                .changelog_is_decoupled()
        );
        for (name, value) in [
            ("snapshot.num-retained.max", "5"),
            ("snapshot.num-retained.min", "0"),
            ("snapshot.time-retained", "soon"),
            ("snapshot.clean-empty-directories", "maybe"),
        ] {
            let error = of(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
