//! What differs between the files of one table: by level, and for files of changes.
//!
//! Source: `KeyValueFileWriterFactory.FileWriterContextFactory`, `DataFilePathFactory`.

use std::collections::BTreeMap;

use parquet::basic::{Compression, ZstdLevel};

use super::FilePurpose;
use crate::{
    error::{Error, Result},
    schema::Schema,
    stats::StatsPlan,
    table_options::Reader,
};

/// How files of a table are compressed and named, and what is said of their columns.
#[derive(Debug)]
pub(crate) struct FileStyles {
    compression: ByLevel<Compression>,
    stats: ByLevel<StatsPlan>,
    prefix: String,
    changelog_prefix: String,
    /// With its dot.
    suffix: String,
}

/// A value for all files, others for some levels, and one for files of changes.
#[derive(Debug)]
struct ByLevel<T> {
    usual: T,
    levels: BTreeMap<i32, T>,
    changelog: Option<T>,
}

impl<T> ByLevel<T> {
    fn of(&self, level: i32, purpose: FilePurpose) -> &T {
        let changelog = self.changelog.as_ref();
        changelog
            .filter(|_| purpose == FilePurpose::Changelog)
            .or_else(|| self.levels.get(&level))
            .unwrap_or(&self.usual)
    }
}

impl FileStyles {
    /// Of a table.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the option that cannot be honoured.
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        let option = |name: &str| schema.options.get(name).map(|text| text.trim());
        let zstd = zstd(option("file.compression.zstd-level").unwrap_or("1"))?;
        let compression = |name: &str, text: &str| compression(name, text, zstd);
        let stats = |name: &str, text: &str| StatsPlan::new(schema, name, text);
        let usual = option("file.compression").unwrap_or("zstd");
        let reader = Reader(schema);
        let suffix = match reader.switch(&["file.suffix.include.compression"], false)? {
            true => suffix_of(usual),
            false => String::new(),
        };
        let prefix = |name: &str, unset: &str| {
            let set = schema.options.get(name).cloned();
            set.unwrap_or_else(|| unset.to_owned())
        };
        Ok(Self {
            compression: ByLevel {
                usual: compression("file.compression", usual)?,
                levels: by_level(schema, "file.compression.per.level", compression)?,
                changelog: option("changelog-file.compression")
                    .map(|text| compression("changelog-file.compression", text))
                    .transpose()?,
            },
            stats: ByLevel {
                usual: stats(
                    "metadata.stats-mode",
                    option("metadata.stats-mode").unwrap_or("truncate(16)"),
                )?,
                levels: by_level(schema, "metadata.stats-mode.per.level", stats)?,
                changelog: option("changelog-file.stats-mode")
                    .map(|text| stats("changelog-file.stats-mode", text))
                    .transpose()?,
            },
            prefix: prefix("data-file.prefix", "data-"),
            changelog_prefix: prefix("changelog-file.prefix", "changelog-"),
            suffix,
        })
    }

    pub(crate) fn compression(&self, level: i32, purpose: FilePurpose) -> Compression {
        *self.compression.of(level, purpose)
    }

    pub(crate) fn stats(&self, level: i32, purpose: FilePurpose) -> &StatsPlan {
        self.stats.of(level, purpose)
    }

    /// The name of the file of a number, of those that one writer begins.
    pub(crate) fn name(&self, purpose: FilePurpose, writer: &str, number: usize) -> String {
        let prefix = match purpose {
            FilePurpose::Append | FilePurpose::Compact => &self.prefix,
            FilePurpose::Changelog => &self.changelog_prefix,
        };
        format!("{prefix}{writer}-{number}{}.parquet", self.suffix)
    }
}

/// Values for some levels: `0:lz4,1:zstd`.
fn by_level<T>(
    schema: &Schema,
    name: &str,
    read: impl Fn(&str, &str) -> Result<T>,
) -> Result<BTreeMap<i32, T>> {
    let list = schema.options.get(name).map_or("", String::as_str);
    let parts = list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (level, value) = part
                .split_once(':')
                .and_then(|(level, value)| Some((level.trim().parse().ok()?, value.trim())))
                .ok_or_else(|| {
                    Error::Unsupported(format!(
                        "option {name} = {list}: levels with their values are expected, such as \
                         '0:…,5:…'"
                    ))
                })?;
            Ok((level, read(name, value)?))
        })
        .collect()
}

fn zstd(level: &str) -> Result<ZstdLevel> {
    let number = level.parse().ok();
    let level_of = |level| ZstdLevel::try_new(level).ok();
    number.and_then(level_of).ok_or_else(|| {
        Error::Unsupported(format!(
            "option file.compression.zstd-level = {level}: a number from 1 to 22 is expected"
        ))
    })
}

fn compression(name: &str, text: &str, zstd: ZstdLevel) -> Result<Compression> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "zstd" => Compression::ZSTD(zstd),
        "lz4" => Compression::LZ4,
        "lz4_raw" => Compression::LZ4_RAW,
        "snappy" => Compression::SNAPPY,
        "none" | "uncompressed" => Compression::UNCOMPRESSED,
        _ => {
            return Err(Error::Unsupported(format!(
                "option {name} = {text}: set zstd, lz4, lz4_raw, snappy or none"
            )));
        }
    })
}

/// What a file's name says of its compression. Source: `HadoopCompressionType`.
fn suffix_of(compression: &str) -> String {
    match compression.to_ascii_lowercase().as_str() {
        "none" | "" => String::new(),
        "zstd" => ".zst".to_owned(),
        "snappy" | "lz4" => format!(".{}", compression.to_ascii_lowercase()),
        _ => format!(".{compression}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(options: &[(&str, &str)]) -> Result<FileStyles> {
        let options = options.iter();
        FileStyles::new(&Schema {
            options: options
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Schema::empty()
        })
    }

    #[test]
    fn levels_and_changes_have_options_of_their_own() {
        use FilePurpose::{Append, Changelog, Compact};
        let styles = styles(&[
            ("file.compression.per.level", "0:lz4, 5 : none"),
            ("changelog-file.compression", "snappy"),
            ("file.suffix.include.compression", "true"),
            ("data-file.prefix", "mine-"),
        ]);
        let styles = styles.unwrap();
        assert_eq!(styles.compression(0, Append), Compression::LZ4);
        assert_eq!(styles.compression(5, Compact), Compression::UNCOMPRESSED);
        assert_eq!(styles.compression(0, Changelog), Compression::SNAPPY);
        let usual = styles.compression(3, Compact);
        assert!(matches!(usual, Compression::ZSTD(_)));
        assert_eq!(styles.name(Compact, "x", 7), "mine-x-7.zst.parquet");
        assert_eq!(styles.name(Changelog, "x", 0), "changelog-x-0.zst.parquet");
    }

    #[test]
    fn what_cannot_be_honoured_is_named() {
        for (name, value) in [
            ("file.compression", "brotli"),
            ("file.compression.per.level", "0:gzip"),
            ("file.compression.per.level", "zstd"),
            ("changelog-file.compression", "bz2"),
            ("changelog-file.stats-mode", "some"),
            ("metadata.stats-mode.per.level", "0:truncate(0)"),
            ("file.compression.zstd-level", "99"),
        ] {
            let error = styles(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
