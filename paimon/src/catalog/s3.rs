//! The store of a bucket, from the options that Paimon's and Flink's catalogs know.
//!
//! Source: `org.apache.paimon.s3.S3FileIO` (prefixes `s3.`, `s3a.`, `fs.s3a.` are the same; some
//! names may be written with `-` for `.`), and Hadoop's `S3A` for what each name means.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig, StaticCredentialProvider,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential},
};

use crate::error::{Error, Result};

/// How long a call goes on trying while the store refuses or cannot be reached: an outage of a
/// minute is not noticed above.
const PATIENCE: Duration = Duration::from_secs(90);
/// The same for calls that somebody waits for.
const QUICK: Duration = Duration::from_secs(5);
/// Longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Limit of one request with its body.
const REQUEST_MAX: &str = "60 seconds";
const CONNECT_MAX: &str = "5 seconds";
/// Prefixes that mean the same.
const PREFIXES: [&str; 3] = ["fs.s3a.", "s3a.", "s3."];

/// What one option sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Setting {
    Endpoint,
    Region,
    AccessKey,
    SecretKey,
    SessionToken,
    PathStyle,
    Ssl,
}

/// What this crate does with an option of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOption {
    /// It is used.
    Used,
    /// It only tunes Java's client: nothing is lost without it.
    Ignored,
    /// It would change where or how objects are kept, and is not supported.
    Refused,
}

/// Options of a catalog that say how its store is reached. Values are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreOptions(BTreeMap<String, String>);

impl StoreOptions {
    /// No options: everything comes from the environment (`AWS_…`) or has its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option, such as `s3.endpoint`.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is done with an option of this name; `None` for one that is not of a store.
    pub fn judge(name: &str) -> Option<StoreOption> {
        let rest = PREFIXES
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))?;
        if setting(rest).is_some() {
            return Some(StoreOption::Used);
        }
        const TUNING: [&str; 14] = [
            "connection.",
            "threads.",
            "fast.upload",
            "multipart.",
            "block.size",
            "buffer.",
            "readahead.",
            "experimental.",
            "attempts.",
            "retry.",
            "max.total.tasks",
            "socket.",
            "paging.",
            "change.detection.",
        ];
        let tunes = TUNING.iter().any(|start| rest.starts_with(start));
        Some(match tunes {
            true => StoreOption::Ignored,
            false => StoreOption::Refused,
        })
    }

    /// The settings by meaning; two spellings of one must agree.
    fn settings(&self, location: &str) -> Result<BTreeMap<Setting, &str>> {
        let wrong = |message: String| Error::Location {
            location: location.to_owned(),
            message,
        };
        let mut settings: BTreeMap<Setting, (&str, &str)> = BTreeMap::new();
        for (name, value) in &self.0 {
            match Self::judge(name) {
                Some(StoreOption::Used) => {}
                Some(StoreOption::Refused) => {
                    return Err(wrong(format!("the option `{name}` is not supported")));
                }
                Some(StoreOption::Ignored) | None => continue,
            }
            let rest = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
            let Some(setting) = rest.and_then(setting) else {
                continue;
            };
            let value = value.trim();
            if let Some((other, before)) = settings.insert(setting, (name, value))
                && before != value
            {
                return Err(wrong(format!(
                    "the options `{other}` and `{name}` mean the same and differ; remove one"
                )));
            }
        }
        Ok(settings
            .into_iter()
            .filter(|(_, (_, value))| !value.is_empty())
            .map(|(setting, (_, value))| (setting, value))
            .collect())
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The setting that a name without its prefix stands for.
fn setting(name: &str) -> Option<Setting> {
    Some(match name.replace('-', ".").as_str() {
        "endpoint" => Setting::Endpoint,
        "region" | "endpoint.region" => Setting::Region,
        "access.key" => Setting::AccessKey,
        "secret.key" => Setting::SecretKey,
        "session.token" => Setting::SessionToken,
        "path.style.access" => Setting::PathStyle,
        "connection.ssl.enabled" => Setting::Ssl,
        _ => return None,
    })
}

/// A bucket's store twice: one that waits for a store that is away, and one that soon gives up.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) patient: Arc<dyn ObjectStore>,
    pub(super) quick: Arc<dyn ObjectStore>,
}

/// Opens a bucket; nothing is read or written.
pub(super) fn open(bucket: &str, options: &StoreOptions) -> Result<Bucket> {
    let location = format!("s3://{bucket}");
    let builder = builder(bucket, &location, options)?;
    let build = |patience: Duration| {
        let store = builder.clone().with_retry(retry(patience)).build();
        store.map_err(|error| Error::Location {
            location: location.clone(),
            message: error.to_string(),
        })
    };
    Ok(Bucket {
        patient: Arc::new(build(PATIENCE)?),
        quick: Arc::new(build(QUICK)?),
    })
}

fn retry(patience: Duration) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: PAUSE_MAX.min(patience / 3),
            base: 2.0,
        },
        // Time is what counts.
        max_retries: 10_000,
        retry_timeout: patience,
    }
}

fn builder(bucket: &str, location: &str, options: &StoreOptions) -> Result<AmazonS3Builder> {
    // The client asks for the process's TLS provider; somebody may have chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wrong = |message: &str| Error::Location {
        location: location.to_owned(),
        message: message.to_owned(),
    };
    let settings = options.settings(location)?;
    let get = |setting| settings.get(&setting).copied();
    let flag = |setting: Setting, what: &str| match get(setting).map(str::to_ascii_lowercase) {
        None => Ok(None),
        Some(text) if text == "true" => Ok(Some(true)),
        Some(text) if text == "false" => Ok(Some(false)),
        Some(_) => Err(wrong(&format!(
            "the option `s3.{what}` is neither `true` nor `false`"
        ))),
    };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    match (get(Setting::AccessKey), get(Setting::SecretKey)) {
        (Some(access), Some(secret)) => {
            // As a whole: a session token of the environment belongs to the environment's keys.
            let credential = AwsCredential {
                key_id: access.to_owned(),
                secret_key: secret.to_owned(),
                token: get(Setting::SessionToken).map(str::to_owned),
            };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
        }
        (None, None) => {}
        _ => {
            return Err(wrong(
                "`s3.access-key` and `s3.secret-key` belong together: give both, or none to take \
                 them from the environment",
            ));
        }
    }
    if let Some(region) = get(Setting::Region) {
        builder = builder.with_region(region);
    }
    let path_style = flag(Setting::PathStyle, "path.style.access")?;
    let ssl = flag(Setting::Ssl, "connection.ssl.enabled")?.unwrap_or(true);
    if let Some(endpoint) = get(Setting::Endpoint) {
        let endpoint = Endpoint::parse(endpoint, ssl).ok_or_else(|| {
            wrong("the option `s3.endpoint` is no address, as in `https://host:port`")
        })?;
        let by_host = !path_style.unwrap_or_else(|| endpoint.is_number() || bucket.contains('.'));
        let url = endpoint.url(by_host.then_some(bucket));
        builder = builder
            .with_config(AmazonS3ConfigKey::S3Endpoint, &url)
            .with_endpoint(url)
            .with_virtual_hosted_style_request(by_host);
    } else if let Some(path_style) = path_style {
        builder = builder.with_virtual_hosted_style_request(!path_style);
    }
    let plain = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .iter()
        .find_map(|key| builder.get_config_value(key))
        .is_some_and(|endpoint| endpoint.starts_with("http://"));
    if plain {
        builder = builder.with_allow_http(true);
    }
    // One by one: the environment may have set others, such as a proxy.
    let client = |key| AmazonS3ConfigKey::Client(key);
    Ok(builder
        .with_config(client(ClientConfigKey::ConnectTimeout), CONNECT_MAX)
        .with_config(client(ClientConfigKey::Timeout), REQUEST_MAX))
}

/// The address of a server, apart from how a bucket is named in it.
#[derive(Debug, PartialEq, Eq)]
struct Endpoint<'a> {
    scheme: &'a str,
    host: &'a str,
    port: &'a str,
}

impl<'a> Endpoint<'a> {
    /// Reads `https://host:port` or, as Hadoop allows, `host:port`.
    fn parse(text: &'a str, ssl: bool) -> Option<Self> {
        let text = text.trim_end_matches('/');
        let otherwise = if ssl { "https" } else { "http" };
        let (scheme, rest) = text.split_once("://").unwrap_or((otherwise, text));
        let wrong = rest.is_empty() || rest.contains(['/', '@', '?', '#', ' ']);
        if !matches!(scheme, "http" | "https") || wrong {
            return None;
        }
        let at = match rest.rfind(':') {
            // The colons of an IPv6 address stand in brackets.
            Some(colon) if !rest.ends_with(']') => colon,
            _ => rest.len(),
        };
        let (host, port) = rest.split_at(at);
        let is_port = port.is_empty() || port.trim_start_matches(':').parse::<u16>().is_ok();
        (is_port && !host.is_empty()).then_some(Self { scheme, host, port })
    }

    /// Such an address has no names of buckets in front, nor has this machine's.
    fn is_number(&self) -> bool {
        self.host == "localhost"
            || self.host.starts_with('[')
            || self.host.parse::<std::net::Ipv4Addr>().is_ok()
    }

    fn url(&self, bucket: Option<&str>) -> String {
        let Self { scheme, host, port } = self;
        match bucket {
            Some(bucket) if !host.starts_with(&format!("{bucket}.")) => {
                format!("{scheme}://{bucket}.{host}{port}")
            }
            _ => format!("{scheme}://{host}{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> StoreOptions {
        let mut options = StoreOptions::new();
        for (name, value) in pairs {
            options.insert(*name, *value);
        }
        options
    }

    fn built(pairs: &[(&str, &str)]) -> Result<AmazonS3Builder> {
        builder("b", "s3://b", &options(pairs))
    }

    #[test]
    fn all_spellings_mean_the_same() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for [endpoint, style, region] in [
            ["s3.endpoint", "s3.path.style.access", "s3.region"],
            ["s3a.endpoint", "s3.path-style-access", "s3.endpoint.region"],
            [
                "fs.s3a.endpoint",
                "fs.s3a.path.style.access",
                "fs.s3a.endpoint.region",
            ],
        ] {
            let built =
                built(&[(endpoint, "http://h:9"), (style, "true"), (region, "eu-1")]).unwrap();
            let get = |key| built.get_config_value(&key);
            assert_eq!(get(AmazonS3ConfigKey::Endpoint).unwrap(), "http://h:9");
            assert_eq!(
                get(AmazonS3ConfigKey::VirtualHostedStyleRequest).unwrap(),
                "false"
            );
            assert_eq!(get(AmazonS3ConfigKey::Region).unwrap(), "eu-1");
            let http = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
            assert_eq!(get(http).unwrap(), "true");
            built.build().unwrap();
        }
    }

    #[test]
    fn an_endpoint_gets_the_bucket_unless_by_path() {
        let url = |text, ssl, bucket| Endpoint::parse(text, ssl).map(|found| found.url(bucket));
        let cases = [
            ("https://s3.x.org/", Some("b"), "https://b.s3.x.org"),
            ("s3.x.org:99", Some("b"), "https://b.s3.x.org:99"),
            ("b.s3.x.org", Some("b"), "https://b.s3.x.org"),
            ("http://10.0.0.1:9", None, "http://10.0.0.1:9"),
            ("http://[::1]", None, "http://[::1]"),
            ("[::1]:9", None, "https://[::1]:9"),
        ];
        for (text, bucket, wanted) in cases {
            assert_eq!(url(text, true, bucket).unwrap(), wanted);
        }
        assert_eq!(url("h:9", false, None).unwrap(), "http://h:9");
        for wrong in [
            "",
            "ftp://h",
            "http://",
            "http://u:p@h",
            "h:x",
            "http://h/b",
            ":9",
        ] {
            assert_eq!(url(wrong, true, None), None, "{wrong}");
        }
        assert!(
            Endpoint::parse("http://127.0.0.1:1", true)
                .unwrap()
                .is_number()
        );
        assert!(Endpoint::parse("http://[::1]:1", true).unwrap().is_number());
        assert!(!Endpoint::parse("http://minio:1", true).unwrap().is_number());
    }

    #[test]
    fn options_that_cannot_be_are_told() {
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[("s3.access-key", "k")], "belong together"),
            (&[("s3.path.style.access", "yes")], "neither"),
            (&[("s3.endpoint", "http://u:p@h")], "s3.endpoint"),
            (
                &[("s3.region", "a"), ("fs.s3a.endpoint.region", "b")],
                "mean the same",
            ),
            (&[("s3.encryption.algorithm", "SSE-C")], "not supported"),
            (&[("fs.s3a.assumed.role.arn", "x")], "not supported"),
        ];
        for (pairs, said) in cases {
            let error = built(pairs).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(!error.contains("u:p"), "{error}");
        }
        built(&[("fs.s3a.connection.maximum", "9"), ("other", "x")]).unwrap();
    }

    #[test]
    fn keys_are_never_shown() {
        let options = options(&[("s3.access-key", "hunter1"), ("s3.secret-key", "hunter2")]);
        let bucket = open("b", &options).unwrap();
        let shown = format!("{options:?}{bucket:?}");
        assert!(
            shown.contains("s3.secret-key") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
