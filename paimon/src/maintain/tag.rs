//! Tags: snapshots with a name, which outlive their expiry. File `tag/tag-<name>`.
//!
//! Source: `org.apache.paimon.tag.Tag`, `org.apache.paimon.utils.TagManager`,
//! `org.apache.paimon.operation.TagDeletion`, `org.apache.paimon.tag.TagTimeExpire`.

use std::time::Duration;

use jiff::{SignedDuration, civil};
use object_store::path::Path;
use serde_json::Value;

use crate::{
    error::{Error, Result},
    snapshot::PaimonSnapshot,
    storage,
    table::Table,
};

use super::{
    lineage::{self, Lineage, Record},
    policy::{Retention, duration, flag},
    reclaim::{DataFiles, Lists, Metadata},
};

const CREATED: &str = "tagCreateTime";
const RETAINED: &str = "tagTimeRetained";

/// A snapshot with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag {
    /// Name.
    pub name: String,
    /// The snapshot, whole.
    pub snapshot: PaimonSnapshot,
    /// When it was made, by the wall clock of who made it; only of tags with a time to live.
    pub created: Option<civil::DateTime>,
    /// How long it lives from then on.
    pub time_retained: Option<Duration>,
}

/// What a tag shall be made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagRequest {
    /// Snapshot to be tagged; the newest when not given.
    pub snapshot: Option<i64>,
    /// How long it lives; option `tag.default-time-retained` when not given, else for ever.
    pub time_retained: Option<Duration>,
    /// A tag of that name on the same snapshot is as good as a new one.
    pub ignore_if_exists: bool,
}

impl Tag {
    pub(super) fn parse(name: &str, path: &Path, bytes: &[u8]) -> Result<Self> {
        let snapshot = lineage::snapshot(path, bytes)?;
        let value: Value = serde_json::from_slice(bytes).map_err(|error| Error::Corrupt {
            path: path.to_string(),
            message: error.to_string(),
        })?;
        let member = |name: &str| value.get(name).filter(|value| !value.is_null());
        let unread = |name: &str| Error::Corrupt {
            path: path.to_string(),
            message: format!("its {name} cannot be read"),
        };
        Ok(Self {
            name: name.to_owned(),
            snapshot,
            created: member(CREATED)
                .map(|value| date_time(value).ok_or_else(|| unread(CREATED)))
                .transpose()?,
            time_retained: member(RETAINED)
                .map(|value| seconds(value).ok_or_else(|| unread(RETAINED)))
                .transpose()?,
        })
    }

    /// Its time is over.
    pub fn has_expired(&self, now: civil::DateTime) -> bool {
        let (Some(created), Some(retained)) = (self.created, self.time_retained) else {
            return false;
        };
        // What lives longer than there are dates lives for ever.
        SignedDuration::try_from(retained)
            .ok()
            .and_then(|retained| created.checked_add(retained).ok())
            .is_some_and(|end| now > end)
    }
}

/// `[2026,11,30,7,3,46,210130993]`, zeros at the end left out, or ISO text.
fn date_time(value: &Value) -> Option<civil::DateTime> {
    if let Some(text) = value.as_str() {
        return text.parse().ok();
    }
    let parts = value.as_array()?;
    let part = |at: usize| match parts.get(at) {
        Some(part) => part.as_i64(),
        None => Some(0),
    };
    if parts.len() < 5 {
        return None;
    }
    civil::DateTime::new(
        part(0)?.try_into().ok()?,
        part(1)?.try_into().ok()?,
        part(2)?.try_into().ok()?,
        part(3)?.try_into().ok()?,
        part(4)?.try_into().ok()?,
        part(5)?.try_into().ok()?,
        part(6)?.try_into().ok()?,
    )
    .ok()
}

/// `129600.000000000`, or ISO text.
fn seconds(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(number) => Duration::try_from_secs_f64(number.as_f64()?).ok(),
        Value::String(text) => text.parse::<SignedDuration>().ok()?.try_into().ok(),
        _ => None,
    }
}

/// A tag's file: the snapshot's own text, with all that other writers put there.
fn content(
    path: &Path,
    snapshot: &[u8],
    retained: Option<Duration>,
    now: civil::DateTime,
) -> Result<Vec<u8>> {
    // Without a time to live the file is that of the snapshot: the oldest readers know no more.
    let Some(retained) = retained else {
        return Ok(snapshot.to_vec());
    };
    let damaged = |message: String| Error::Corrupt {
        path: path.to_string(),
        message,
    };
    let mut value: Value =
        serde_json::from_slice(snapshot).map_err(|error| damaged(error.to_string()))?;
    let members = value
        .as_object_mut()
        .ok_or_else(|| damaged("it is not an object".into()))?;
    let created = serde_json::json!([
        now.year(),
        now.month(),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        now.subsec_nanosecond()
    ]);
    members.insert(CREATED.to_owned(), created);
    members.insert(RETAINED.to_owned(), retained.as_secs_f64().into());
    serde_json::to_vec_pretty(&value)
        .map_err(|error| Error::Internal(format!("cannot write a tag: {error}")))
}

/// Names that are one file, as they are.
fn valid(table: &Table, name: &str) -> Result<()> {
    if name.trim().is_empty() || name.contains(['/', '\\']) || name.contains(char::is_control) {
        return Err(refuse(
            table,
            format!("'{name}' as the name of a tag: it cannot be the name of a file"),
        ));
    }
    Ok(())
}

pub(super) fn refuse(table: &Table, message: String) -> Error {
    Error::Table {
        table: table.name().to_owned(),
        message,
    }
}

pub(super) fn local_now() -> civil::DateTime {
    jiff::ZonedDateTime::now().datetime()
}

impl Table {
    /// All tags, by snapshot, then name.
    pub async fn tags(&self) -> Result<Vec<Tag>> {
        Lineage::main(self).tags().await
    }

    /// A tag by its name; `None` when there is none.
    pub async fn tag(&self, name: &str) -> Result<Option<Tag>> {
        valid(self, name)?;
        Lineage::main(self).tag(name).await
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// [`Error::Table`] when the name is taken, or the snapshot isn't there or expires meanwhile.
    pub async fn create_tag(&self, name: &str, request: &TagRequest) -> Result<Tag> {
        let tag = self.tag_at(name, request, local_now()).await?;
        if flag(self.schema(), "tag.create-success-file", false)? {
            let now = jiff::Timestamp::now().as_millisecond();
            let text = serde_json::json!({"creationTime": now, "modificationTime": now});
            let bytes = text.to_string().into_bytes();
            storage::put(self.store().as_ref(), &self.success_path(name), bytes).await?;
        }
        Ok(tag)
    }

    /// The file of option `tag.create-success-file`, for those who wait for a tag. Source:
    /// `SuccessFileTagCallback`.
    pub(super) fn success_path(&self, name: &str) -> Path {
        let folder = self.path().clone().join("tag").join("tag-success-file");
        folder.join(format!("{name}_SUCCESS"))
    }

    async fn tag_at(&self, name: &str, request: &TagRequest, now: civil::DateTime) -> Result<Tag> {
        valid(self, name)?;
        let main = Lineage::main(self);
        let id = match request.snapshot {
            Some(id) => Some(id),
            None => self.latest_snapshot().await?.map(|latest| latest.id),
        };
        let id = id.ok_or_else(|| refuse(self, "it has no snapshot to be tagged".into()))?;
        let gone = || {
            refuse(
                self,
                format!("snapshot {id}, which is to become tag '{name}', does not exist"),
            )
        };
        let path = main.record_path(Record::Snapshot, id);
        let retained = match request.time_retained {
            Some(retained) => Some(retained),
            None => duration(self.schema(), "tag.default-time-retained")?,
        };
        // One that has expired may live on in another tag.
        let snapshot = match storage::get(self.store().as_ref(), &path).await? {
            Some(bytes) => bytes.to_vec(),
            None => {
                let tags = main.tags().await?;
                let other = tags.iter().find(|tag| tag.snapshot.id == id);
                serde_json::to_vec_pretty(&other.ok_or_else(gone)?.snapshot)
                    .map_err(|error| Error::Internal(format!("cannot write a tag: {error}")))?
            }
        };
        let tag_path = main.tag_path(name)?;
        let bytes = content(&path, &snapshot, retained, now)?;
        let tag = Tag::parse(name, &tag_path, &bytes)?;
        if !storage::create(self.store().as_ref(), &tag_path, bytes).await? {
            return match main.tag(name).await? {
                Some(found)
                    if found == tag || request.ignore_if_exists && found.snapshot.id == id =>
                {
                    Ok(found)
                }
                Some(found) => Err(refuse(
                    self,
                    format!(
                        "there is a tag '{name}' of snapshot {} already",
                        found.snapshot.id
                    ),
                )),
                None => Err(refuse(self, format!("tag '{name}' was deleted meanwhile"))),
            };
        }
        // An expiry that began before it could see the tag may have taken the snapshot.
        let kept = storage::exists(self.store().as_ref(), &path).await?;
        if !kept
            && main
                .tags()
                .await?
                .iter()
                .all(|other| other.name == name || other.snapshot.id != id)
        {
            storage::delete(self.store().as_ref(), &tag_path).await?;
            return Err(gone());
        }
        Ok(tag)
    }

    /// Gives a tag another name.
    ///
    /// # Errors
    /// [`Error::Table`] when there is no such tag, or the new name is taken.
    pub async fn rename_tag(&self, name: &str, new_name: &str) -> Result<()> {
        valid(self, name)?;
        valid(self, new_name)?;
        let main = Lineage::main(self);
        let (from, to) = (main.tag_path(name)?, main.tag_path(new_name)?);
        let missing = || refuse(self, format!("there is no tag '{name}'"));
        let bytes = storage::get(self.store().as_ref(), &from)
            .await?
            .ok_or_else(missing)?;
        // Both are there for a moment: its files are kept all the time.
        if !storage::create(self.store().as_ref(), &to, bytes.to_vec()).await? {
            return Err(refuse(self, format!("there is a tag '{new_name}' already")));
        }
        storage::delete(self.store().as_ref(), &from).await
    }

    /// Deletes a tag, and the files that only it needed. False when there is none.
    ///
    /// # Errors
    /// What the store says; the tag may be gone then, and its files are left to orphan cleaning.
    pub async fn delete_tag(&self, name: &str) -> Result<bool> {
        valid(self, name)?;
        let main = Lineage::main(self);
        let Some(tag) = main.tag(name).await? else {
            return Ok(false);
        };
        let id = tag.snapshot.id;
        let others: Vec<Tag> = main.tags().await?;
        let others: Vec<Tag> = others.into_iter().filter(|tag| tag.name != name).collect();
        let path = main.tag_path(name)?;
        let snapshots = main.ids(Record::Snapshot).await?;
        let shared = others.iter().any(|tag| tag.snapshot.id == id) || snapshots.contains(&id);
        storage::delete(self.store().as_ref(), &path).await?;
        if flag(self.schema(), "tag.create-success-file", false)? {
            storage::delete(self.store().as_ref(), &self.success_path(name)).await?;
        }
        // Only of a tag below all snapshots it is known what else needs its files: the first
        // snapshot and the tags beside it. What stays otherwise is left to orphan cleaning.
        let Some(earliest) = snapshots.first().filter(|earliest| **earliest > id) else {
            return Ok(true);
        };
        if shared {
            return Ok(true);
        }
        let mut roots = lineage::branch_roots(self).await?;
        let before = others.iter().rev().find(|tag| tag.snapshot.id < id);
        let after = others.iter().find(|tag| tag.snapshot.id > id);
        for tag in before.into_iter().chain(after) {
            roots.push(main.tag_root(tag)?);
        }
        let all = main.roots().await?.into_iter();
        roots.extend(all.filter(|root| {
            root.changelog_only || root.keeps_changelog && root.snapshot.id == *earliest
        }));
        let mut files = DataFiles::default();
        for file in self.live_files(&tag.snapshot).await? {
            files.add_file(self, &file.partition, file.bucket, &file.meta)?;
        }
        files.spare(self, &roots).await?;
        let mut metadata = Metadata::default();
        let lists = Lists {
            data: true,
            changelog: false,
            index: true,
        };
        metadata.add(self, &tag.snapshot, lists).await?;
        for root in &roots {
            metadata.spare(self, root).await?;
        }
        let clean = Retention::of(self.schema())?.clean_empty_folders;
        files.delete(self, clean).await?;
        metadata.delete(self).await?;
        Ok(true)
    }

    /// Deletes the tags whose time is over; option `tag.time-expire-enabled` switches it off.
    /// Returns their names.
    ///
    /// # Errors
    /// As [`Table::delete_tag`].
    pub async fn expire_tags(&self) -> Result<Vec<String>> {
        if !flag(self.schema(), "tag.time-expire-enabled", true)? {
            return Ok(Vec::new());
        }
        self.expire_tags_at(local_now()).await
    }

    pub(super) async fn expire_tags_at(&self, now: civil::DateTime) -> Result<Vec<String>> {
        let mut expired = Vec::new();
        for tag in self.tags().await? {
            if tag.has_expired(now) && self.delete_tag(&tag.name).await? {
                expired.push(tag.name);
            }
        }
        Ok(expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNAPSHOT: &str = crate::snapshot::tests::JAVA;

    #[test]
    fn tags_are_written_as_java_writes_them() {
        let path = Path::from("tag-x");
        let now = civil::date(2026, 11, 30).at(7, 3, 46, 210_130_993);
        let hours = Duration::from_secs(36 * 3600);
        let bytes = content(&path, SNAPSHOT.as_bytes(), Some(hours), now).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            value[CREATED],
            serde_json::json!([2026, 11, 30, 7, 3, 46, 210_130_993])
        );
        assert_eq!(value[RETAINED], 129_600.0);
        // What this crate does not know is kept.
        assert_eq!(value["operation"], "WRITE");
        let tag = Tag::parse("x", &path, &bytes).unwrap();
        assert_eq!((tag.created, tag.time_retained), (Some(now), Some(hours)));
        assert!(!tag.has_expired(now));
        assert!(tag.has_expired(civil::date(2026, 12, 2).at(0, 0, 0, 0)));
        let plain = content(&path, SNAPSHOT.as_bytes(), None, now).unwrap();
        assert_eq!(plain, SNAPSHOT.as_bytes());
        assert!(!Tag::parse("x", &path, &plain).unwrap().has_expired(now));
    }

    #[test]
    fn times_of_other_writers_are_read() {
        let read = |created: &str, retained: &str| {
            let extra = format!(r#"{{"{CREATED}":{created},"{RETAINED}":{retained},"#);
            let text = SNAPSHOT.replacen('{', &extra, 1);
            Tag::parse("x", &Path::from("tag-x"), text.as_bytes())
        };
        let tag = read("[2026,11,30,7,3]", "1.5").unwrap();
        assert_eq!(tag.created, Some(civil::date(2026, 11, 30).at(7, 3, 0, 0)));
        assert_eq!(tag.time_retained, Some(Duration::from_millis(1500)));
        let tag = read(r#""2026-11-30T07:03:00""#, r#""PT36H""#).unwrap();
        assert_eq!(tag.time_retained, Some(Duration::from_secs(36 * 3600)));
        for wrong in ["[2026]", "[2026,13,1,0,0]", "7", "\"soon\""] {
            assert!(read(wrong, "1").is_err(), "{wrong}");
        }
        assert!(read("[2026,11,30,7,3]", "-1").is_err());
    }
}
