//! Where a warehouse or a state folder is: a folder of this machine or a prefix of a bucket.

use std::{fmt, path::PathBuf, str::FromStr};

use object_store::path::Path;

use crate::error::{Error, Result};

/// A folder of this machine (a path or a `file:` URL), or `s3://bucket/prefix` (`s3a:`, `s3n:`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A folder of this machine, which need not be there yet.
    Folder(PathBuf),
    /// A prefix of a bucket.
    S3 {
        /// Name of the bucket.
        bucket: String,
        /// What the names of all objects begin with; the root of the bucket when empty.
        prefix: Path,
    },
}

impl Location {
    /// A folder of this machine.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self::Folder(folder.into())
    }

    /// The folder, when it is one of this machine.
    pub fn as_folder(&self) -> Option<&std::path::Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::S3 { .. } => None,
        }
    }

    /// A folder below.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Folder(folder) => Self::Folder(folder.join(name)),
            Self::S3 { bucket, prefix } => Self::S3 {
                bucket: bucket.clone(),
                prefix: match Path::parse(name) {
                    Ok(name) => name
                        .parts()
                        .fold(prefix.clone(), |path, part| path.join(part)),
                    Err(_) => prefix.clone().join(name),
                },
            },
        }
    }

    fn s3(text: &str, rest: &str) -> Result<Self> {
        let wrong = |message: &str| wrong(text, message);
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(fits) {
            return Err(wrong(
                "write the URL of a bucket and a prefix, as in `s3://bucket/warehouse`; keys and \
                 endpoint have options of their own",
            ));
        }
        let prefix = Path::parse(prefix.trim_matches('/'))
            .map_err(|error| wrong(&format!("its prefix cannot be one of objects: {error}")))?;
        Ok(Self::S3 {
            bucket: bucket.to_owned(),
            prefix,
        })
    }
}

impl FromStr for Location {
    type Err = Error;

    /// Reads a path, a `file:` or an `s3:` URL.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let wrong = |message: &str| wrong(text, message);
        if let Some(rest) = text.strip_prefix("file:") {
            let path = match rest.strip_prefix("//") {
                Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
                None => rest,
            };
            if !path.starts_with('/') {
                let message = "a `file:` URL needs an absolute path, as in `file:///data`";
                return Err(wrong(message));
            }
            return Ok(Self::Folder(PathBuf::from(path)));
        }
        match text.split_once("://") {
            Some(("s3" | "s3a" | "s3n", rest)) => Self::s3(text, rest),
            Some((scheme, _)) => Err(wrong(&format!(
                "`{scheme}://` is not supported; write a folder of this machine, or `s3://bucket/…` \
                 for S3 and what speaks its protocol"
            ))),
            None if text.is_empty() => Err(wrong("write the path of a folder or an `s3://` URL")),
            None => Ok(Self::Folder(PathBuf::from(text))),
        }
    }
}

/// An error about a text, of which nothing is shown that may be a key.
fn wrong(text: &str, message: &str) -> Error {
    let location = match (text.contains('@'), text.split_once("://")) {
        (true, Some((scheme, _))) => format!("{scheme}://***"),
        _ => text.to_owned(),
    };
    Error::Location {
        location,
        message: message.to_owned(),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::S3 { bucket, prefix } if prefix.is_root() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_as_flink_and_paimon_write_them() {
        let cases = [
            ("/data/w", "/data/w"),
            ("data", "data"),
            ("file:/data", "/data"),
            ("file:///data", "/data"),
            ("file://localhost/data", "/data"),
            ("s3://b", "s3://b"),
            ("s3a://b/", "s3://b"),
            (" s3://my.bucket-1/a/b/ ", "s3://my.bucket-1/a/b"),
            ("s3n://b/a b/ü", "s3://b/a b/ü"),
        ];
        for (text, shown) in cases {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.to_string(), shown);
        }
        let below = "s3://b/w".parse::<Location>().unwrap().join(".headwater");
        assert_eq!(below.join("a%20b").to_string(), "s3://b/w/.headwater/a%20b");
        let below = Location::folder("/w").join(".headwater").join("a");
        assert_eq!(
            below.as_folder().unwrap(),
            std::path::Path::new("/w/.headwater/a")
        );
    }

    #[test]
    fn what_is_no_location_is_told() {
        let cases = [
            ("", "write the path"),
            ("file:data", "absolute path"),
            ("s3://", "a bucket and a prefix"),
            ("s3:///x", "a bucket and a prefix"),
            ("s3://key:secret@host/bucket", "a bucket and a prefix"),
            ("s3://b/a//b", "prefix"),
            ("s3://b/../x", "prefix"),
            ("hdfs://n/w", "`hdfs://` is not supported"),
        ];
        for (text, said) in cases {
            let error = text.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("secret@"), "{error}");
        }
    }
}
