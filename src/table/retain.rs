//! `headwater table expire`, `tag` and `rollback`: which states of a table are kept.

use headwater_paimon::{Expired, Retention, Tag, TagRequest};
use serde::Serialize;

use super::{Answer, TableName, Warehouse, info::moment, open};
use crate::{
    cli::table::{ExpireArgs, RollbackArgs, TagAction},
    error::{JobError, Result},
};

/// Options that decouple changelogs from their snapshots.
const CHANGELOG_OPTIONS: [&str; 3] = [
    "changelog.num-retained.min",
    "changelog.num-retained.max",
    "changelog.time-retained",
];

/// What an expiry did.
#[derive(Debug, Serialize)]
pub struct ExpireAnswer {
    table: String,
    snapshots: usize,
    changelogs: usize,
    data_files: usize,
    data_bytes: i64,
    metadata_files: usize,
    /// Tags whose time was over.
    tags: Vec<String>,
}

/// Expires snapshots and tags as the table's options say, or as the arguments do.
pub async fn expire(
    warehouse: &Warehouse,
    name: &TableName,
    args: &ExpireArgs,
) -> Result<ExpireAnswer> {
    let table = open(warehouse, name).await?;
    let mut retention = Retention::of(table.schema())?;
    if let Some(count) = args.retain_min {
        retention.snapshots_min = count;
    }
    if let Some(count) = args.retain_max {
        retention.snapshots_max = count;
        retention.snapshots_min = retention.snapshots_min.min(count);
    }
    if let Some(age) = args.older_than {
        retention.snapshot_age_max = age;
    }
    // Changelogs go with their snapshots, unless the table says how long they are kept.
    let options = &table.schema().options;
    if !options
        .keys()
        .any(|name| CHANGELOG_OPTIONS.contains(&name.as_str()))
    {
        retention.changelogs_min = retention.snapshots_min;
        retention.changelogs_max = retention.snapshots_max;
        retention.changelog_age_max = retention.snapshot_age_max;
    }
    let tags = table.expire_tags().await?;
    let mut all = Expired::default();
    loop {
        let some = table.expire_snapshots(&retention).await?;
        all.snapshots += some.snapshots;
        all.changelogs += some.changelogs;
        all.files += some.files;
        all.bytes += some.bytes;
        all.metadata_files += some.metadata_files;
        if some.snapshots == 0 {
            break;
        }
    }
    Ok(ExpireAnswer {
        table: table.name().to_owned(),
        snapshots: all.snapshots,
        changelogs: all.changelogs,
        data_files: all.files,
        data_bytes: all.bytes,
        metadata_files: all.metadata_files,
        tags,
    })
}

impl Answer for ExpireAnswer {
    fn to_text(&self) -> String {
        let mut text = format!(
            "{}: {} snapshots expired; {} data files ({} bytes) and {} files of metadata deleted\n",
            self.table, self.snapshots, self.data_files, self.data_bytes, self.metadata_files
        );
        if self.changelogs > 0 {
            text += &format!("{} changelogs expired\n", self.changelogs);
        }
        if !self.tags.is_empty() {
            text += &format!("tags whose time was over: {}\n", self.tags.join(", "));
        }
        text
    }
}

/// Tags, or what was done to one.
#[derive(Debug, Serialize)]
pub struct TagAnswer {
    table: String,
    done: &'static str,
    tags: Vec<TagLine>,
}

#[derive(Debug, Serialize)]
struct TagLine {
    name: String,
    snapshot: i64,
    snapshot_time_ms: i64,
    records: Option<i64>,
    lives_seconds: Option<u64>,
}

impl From<Tag> for TagLine {
    fn from(tag: Tag) -> Self {
        Self {
            name: tag.name,
            snapshot: tag.snapshot.id,
            snapshot_time_ms: tag.snapshot.time_millis,
            records: tag.snapshot.total_record_count,
            lives_seconds: tag.time_retained.map(|lives| lives.as_secs()),
        }
    }
}

/// Lists, makes, renames or deletes tags.
pub async fn tag(warehouse: &Warehouse, name: &TableName, action: &TagAction) -> Result<TagAnswer> {
    let table = open(warehouse, name).await?;
    let answer = |done, tags| TagAnswer {
        table: table.name().to_owned(),
        done,
        tags,
    };
    let missing = |tag: &str| {
        JobError::Definite(format!(
            "table {} has no tag '{tag}': headwater table tag list shows what there is",
            table.name()
        ))
    };
    Ok(match action {
        TagAction::List => {
            let tags = table.tags().await?.into_iter().map(TagLine::from).collect();
            answer("", tags)
        }
        TagAction::Create {
            tag,
            snapshot,
            retain,
        } => {
            let request = TagRequest {
                snapshot: *snapshot,
                time_retained: *retain,
                ignore_if_exists: false,
            };
            let made = table.create_tag(tag, &request).await?;
            answer("created", vec![made.into()])
        }
        TagAction::Rename { tag, new } => {
            table.rename_tag(tag, new).await?;
            let renamed = table.tag(new).await?.ok_or_else(|| missing(new))?;
            answer("renamed", vec![renamed.into()])
        }
        TagAction::Delete { tag } => {
            let gone = table.tag(tag).await?.ok_or_else(|| missing(tag))?;
            table.delete_tag(tag).await?;
            answer("deleted", vec![gone.into()])
        }
    })
}

impl Answer for TagAnswer {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for tag in &self.tags {
            let lives = match tag.lives_seconds {
                Some(seconds) => format!("lives {seconds} s"),
                None => "lives for ever".to_owned(),
            };
            let done = match self.done {
                "" => String::new(),
                done => format!("{done}: "),
            };
            text += &format!(
                "{done}{}  snapshot {} of {}  {lives}\n",
                tag.name,
                tag.snapshot,
                moment(tag.snapshot_time_ms)
            );
        }
        if self.tags.is_empty() {
            text = format!("{} has no tags\n", self.table);
        }
        text
    }
}

/// Where a table stands after a rollback.
#[derive(Debug, Serialize)]
pub struct RollbackAnswer {
    table: String,
    snapshot: i64,
}

/// Makes a former snapshot the newest one. What came after is deleted.
pub async fn rollback(
    warehouse: &Warehouse,
    name: &TableName,
    args: &RollbackArgs,
) -> Result<RollbackAnswer> {
    let table = open(warehouse, name).await?;
    match (args.snapshot, &args.tag) {
        (Some(id), _) => table.rollback_to_snapshot(id).await?,
        (None, Some(tag)) => table.rollback_to_tag(tag).await?,
        (None, None) => {
            return Err(JobError::Definite(
                "say where to: --snapshot ID or --tag NAME".to_owned(),
            ));
        }
    }
    let newest = table.latest_snapshot().await?;
    Ok(RollbackAnswer {
        table: table.name().to_owned(),
        snapshot: newest.map_or(0, |newest| newest.id),
    })
}

impl Answer for RollbackAnswer {
    fn to_text(&self) -> String {
        format!(
            "{}: rolled back, the newest snapshot is {} now\n",
            self.table, self.snapshot
        )
    }
}
