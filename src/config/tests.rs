use std::collections::BTreeMap;

use secrecy::ExposeSecret;

use super::*;

mod accept;
mod refuse;
mod secrets;

/// Variables and files of a test.
#[derive(Default)]
struct Fixed {
    variables: BTreeMap<&'static str, &'static str>,
    files: BTreeMap<&'static str, &'static str>,
}

impl Environment for Fixed {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &str) -> Result<String, String> {
        self.files
            .get(path)
            .map(|text| (*text).to_owned())
            .ok_or_else(|| "no such file".to_owned())
    }
}

/// The least that a source and a sink need.
const SOURCE: &str =
    "source:\n  type: mysql\n  hostname: db\n  username: u\n  password: p\n  tables: a.\\.*\n";
const SINK: &str = "sink:\n  type: paimon\n  catalog.properties.warehouse: /w\n";

fn read(text: &str) -> Result<JobFile, ConfigError> {
    parse("shop.yaml", text, &Fixed::default())
}

fn accepted(text: &str) -> JobFile {
    match read(text) {
        Ok(job) => job,
        Err(error) => panic!("refused:\n{error}"),
    }
}

/// A minimal file with lines of its own; the sections' first lines are 1 and 7.
fn minimal(source: &str, sink: &str, rest: &str) -> String {
    format!("{SOURCE}{source}{SINK}{sink}{rest}")
}

/// The problems of a file as `line: message`.
fn refused(text: &str) -> Vec<String> {
    let error = match read(text) {
        Ok(job) => panic!("accepted: {job:?}"),
        Err(error) => error,
    };
    error
        .problems
        .iter()
        .map(|problem| match problem.mark {
            Some(mark) => format!("{}: {}", mark.line, problem.message),
            None => problem.message.clone(),
        })
        .collect()
}

/// The warnings of a file as `line key`.
fn warned(text: &str) -> Vec<String> {
    accepted(text)
        .warnings
        .iter()
        .map(|warning| format!("{} {}", warning.line, warning.key))
        .collect()
}

proptest::proptest! {
    /// Any text is read or refused, never more.
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        drop(read(&text).map_err(|error| error.to_string()));
    }

    /// Texts of the pieces that job files are made of get further into the reader.
    #[test]
    fn no_near_job_file_panics(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24)) {
        let text: String = pieces.concat();
        drop(read(&text).map_err(|error| error.to_string()));
    }

    /// A minimal file with any value at any key.
    #[test]
    fn no_value_panics(at in 0..200_usize, value in "\\PC{0,40}") {
        let keys: Vec<_> = key::keys().collect();
        let key = keys[at % keys.len()];
        let line = format!("  {}: '{}'\n", key.name, value.replace('\'', "''"));
        let text = match key.section {
            key::Section::Source => minimal(&line, "", ""),
            key::Section::Sink => minimal("", &line, ""),
            key::Section::Pipeline => minimal("", "", &format!("pipeline:\n{line}")),
            key::Section::Route => minimal("", "", &format!("route:\n  -\n  {line}")),
            key::Section::Transform => minimal("", "", &format!("transform:\n  -\n  {line}")),
            key::Section::Job => minimal("", "", line.trim_start()),
        };
        drop(read(&text).map_err(|error| error.to_string()));
    }

    /// Durations, sizes and expansion of any text.
    #[test]
    fn no_small_value_panics(text in "\\PC{0,24}") {
        drop(value::duration(&text));
        drop(value::size(&text));
        drop(value::integer(&text, 0, 10));
        drop(text::partition_keys(&text));
        drop(text::server_id(&text));
        drop(text::location(&text));
        drop(text::check_tables(&text));
        drop(text::schema_change(&text));
        drop(expand::expand(&text, &Fixed::default()));
    }
}

const PIECES: &[&str] = &[
    SOURCE,
    SINK,
    "route:\n",
    "  - source-table: a.b\n",
    "    sink-table: b.c\n",
    "pipeline:\n",
    "  name: x\n",
    "\n",
    "  ",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "|\n",
    ">\n",
    "\"",
    "'",
    "#",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "<<",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "${",
    "${X}",
    "$${",
    "}",
    "checkpoint:\n",
    "  interval: 1s\n",
    "limits: {source: {connections: 3}}\n",
    "\t",
    "~",
    "null",
    "password",
    "\r\n",
    "\u{feff}",
    "é",
    "transform:\n",
    "on-bad-row: fail\n",
    ",",
];

/// The part of `docs/job-file.md` between its markers must say what the key table says.
#[test]
fn the_reference_follows_the_key_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/job-file.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once("<!-- keys -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /keys -->\n").unwrap();
    let wanted = format!(
        "{before}<!-- keys -->\n{}<!-- /keys -->\n{after}",
        reference()
    );
    if wanted != text {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, wanted).unwrap();
            return;
        }
        panic!("docs/job-file.md is stale; run this test with UPDATE_DOCS=1");
    }
}

/// The tables of the reference.
fn reference() -> String {
    let mut text = String::new();
    for section in key::Section::ALL {
        let title = match section {
            key::Section::Source => "`source`, type `mysql`",
            key::Section::Sink => "`sink`, type `paimon`",
            key::Section::Route => "`route`, a list",
            key::Section::Transform => "`transform`, a list",
            key::Section::Pipeline => "`pipeline`",
            key::Section::Job => "Headwater's own, at the top of the file",
        };
        text.push_str(&format!(
            "\n### {title}\n\n| key | value | default | meaning | this version |\n|---|---|---|---|---|\n"
        ));
        for key in key::keys().filter(|key| key.section == section) {
            text.push_str(&row(key));
        }
    }
    text.push('\n');
    text
}

fn row(key: &key::Key) -> String {
    let older = key
        .older_name
        .map(|name| format!(" (older: `{name}`)"))
        .unwrap_or_default();
    let default = match key.default {
        "" if key.required => "required".to_owned(),
        "" => "none".to_owned(),
        default => format!("`{default}`"),
    };
    let status = match key.status {
        key::Status::Implemented => choices(key.kind),
        key::Status::Accepted(why) => format!("does nothing: {why}"),
        key::Status::NotYet if key.default.is_empty() => "not yet".to_owned(),
        key::Status::NotYet => format!("`{}` only", key.default),
    };
    format!(
        "| `{}`{older} | {} | {default} | {} | {status} |\n",
        key.name,
        key.kind.describe(),
        key.meaning
    )
}

/// What this version makes of the values of a choice.
fn choices(kind: key::Kind) -> String {
    let key::Kind::Choice(choices) = kind else {
        return "yes".to_owned();
    };
    let not_yet: Vec<String> = choices
        .iter()
        .filter(|choice| choice.status == key::Status::NotYet)
        .map(|choice| format!("`{}`", choice.value))
        .collect();
    if not_yet.is_empty() {
        "yes".to_owned()
    } else {
        format!("yes; not yet {}", not_yet.join(", "))
    }
}
