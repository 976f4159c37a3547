//! Values of options that this crate only keeps: where other programs could not read the value, they
//! could not open the table.
//!
//! Source of the types: `org.apache.paimon.CoreOptions`.

use super::value::Reader;
use crate::{error::Result, schema::Schema};

const SWITCHES: [&str; 7] = [
    "clustering.incremental",
    "file-index.read.enabled",
    "file.suffix.include.compression",
    "partition.legacy-name",
    "query-auth.enabled",
    "streaming-read-overwrite",
    "table-read.sequence-number.enabled",
];
const NUMBERS: [&str; 10] = [
    "log.scan.timestamp-millis",
    "orc.write.batch-size",
    "read.batch-size",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
    "scan.manifest.parallelism",
    "scan.snapshot-id",
    "scan.timestamp-millis",
    "scan.watermark",
    "write.batch-size",
];
const SIZES: [&str; 3] = [
    "source.split.open-file-cost",
    "source.split.target-size",
    "write.batch-memory",
];
const SCANS: [&str; 12] = [
    "default",
    "latest-full",
    "full",
    "latest",
    "latest-delta",
    "compacted-full",
    "from-timestamp",
    "from-creation-timestamp",
    "from-file-creation-time",
    "from-snapshot",
    "from-snapshot-full",
    "incremental",
];
const STREAM_SCANS: [&str; 3] = ["none", "compact-bucket-table", "file-monitor"];

/// Reads what other writers go by, each time that a table is taken up.
pub(super) fn check_kept_of_writers(reader: &Reader<'_>) -> Result<()> {
    reader.bytes("write-buffer-size")?;
    reader.switch(&["commit.force-create-snapshot"], false)?;
    reader.switch(&["snapshot.ignore-empty-commit"], false)?;
    reader.count("partition.expiration-batch-size", 1)?;
    Ok(())
}

/// Refuses values that are of another type than the option's, when a table is made or changed.
pub(crate) fn check_kept(schema: &Schema) -> Result<()> {
    let reader = Reader(schema);
    for name in SWITCHES {
        reader.switch(&[name], false)?;
    }
    for name in NUMBERS {
        reader.count(name, i64::MIN)?;
    }
    for name in SIZES {
        reader.bytes(name)?;
    }
    for name in ["scan.mode", "log.scan"] {
        reader.choice(name, &SCANS.map(|word| (word, ())))?;
    }
    reader.choice("stream-scan-mode", &STREAM_SCANS.map(|word| (word, ())))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_java_could_not_read_are_refused() {
        let found = |name: &str, value: &str| {
            let options = [(name.to_owned(), value.to_owned())].into();
            check_kept(&Schema {
                options,
                ..Schema::empty()
            })
        };
        for (name, value) in [
            ("file-index.read.enabled", "yes"),
            ("read.batch-size", "1 mb"),
            ("source.split.target-size", "large"),
            ("scan.mode", "all"),
        ] {
            let error = found(name, value).unwrap_err().to_string();
            assert!(
                error.contains(&format!("option {name} = {value}")),
                "{error}"
            );
        }
        for (name, value) in [
            ("file-index.read.enabled", "TRUE"),
            ("scan.watermark", "-1"),
            ("source.split.target-size", "64 mb"),
            ("scan.mode", "from_snapshot"),
        ] {
            found(name, value).unwrap();
        }
    }
}
