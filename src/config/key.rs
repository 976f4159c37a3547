//! The key table: every documented key of a job file with its kind, its default and what this
//! version does with it. Parsing, messages and `docs/job-file.md` all follow it.

mod job;
mod mysql;
mod paimon;
mod pipeline;
mod property;

use super::value;

pub(crate) use job::counterpart;
pub(crate) use property::{Property, property};

/// The part of a job file that a key stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// `source` of type mysql.
    Source,
    /// `sink` of type paimon.
    Sink,
    /// An item of `route`.
    Route,
    /// An item of `transform`.
    Transform,
    /// `pipeline`.
    Pipeline,
    /// Keys of Headwater's own: `checkpoint`, `state`, `limits`, `server`, `on-bad-row`.
    Job,
}

impl Section {
    /// The sections in the order of the reference.
    pub const ALL: [Self; 6] = [
        Self::Source,
        Self::Sink,
        Self::Route,
        Self::Transform,
        Self::Pipeline,
        Self::Job,
    ];

    /// The name at the top of a job file; empty for keys that carry their section in their name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sink => "sink",
            Self::Route => "route",
            Self::Transform => "transform",
            Self::Pipeline => "pipeline",
            Self::Job => "",
        }
    }

    /// A key of the section as messages name it.
    pub fn path(self, key: &str) -> String {
        match self.name() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }
}

/// What this version does with a key or with one of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has its meaning.
    Implemented,
    /// It is read and does nothing; the text says why.
    Accepted(&'static str),
    /// Refused by name and line, unless it says what holds anyway (its default).
    NotYet,
}

/// One of the values that a key may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The value; any case is fine.
    pub value: &'static str,
    /// What this version does with it.
    pub status: Status,
}

/// A value that has its meaning.
const fn works(value: &'static str) -> Choice {
    Choice {
        value,
        status: Status::Implemented,
    }
}

/// A value that is refused.
const fn later(value: &'static str) -> Choice {
    Choice {
        value,
        status: Status::NotYet,
    }
}

/// A value that is read with a note.
const fn noted(value: &'static str, note: &'static str) -> Choice {
    Choice {
        value,
        status: Status::Accepted(note),
    }
}

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds, both included.
    Int(i64, i64),
    /// The same, or `off`.
    IntOrOff(i64, i64),
    /// A number of at least 0.
    Float,
    /// A time such as `10s`.
    Duration,
    /// The same, or `off`.
    DurationOrOff,
    /// An amount of bytes such as `64MB`.
    Size,
    /// The same, or `off`.
    SizeOrOff,
    /// A YAML list of texts.
    List,
    /// One of some values.
    Choice(&'static [Choice]),
}

impl Kind {
    /// Whether a value may stand here; the error says what may.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        let off = text.trim().eq_ignore_ascii_case("off");
        match self {
            Self::IntOrOff(..) | Self::DurationOrOff | Self::SizeOrOff if off => Ok(()),
            Self::Text | Self::List => Ok(()),
            Self::Bool => value::boolean(text).map(drop),
            Self::Int(min, max) | Self::IntOrOff(min, max) => {
                value::integer(text, min, max).map(drop)
            }
            Self::Float => value::float(text).map(drop),
            Self::Duration | Self::DurationOrOff => value::duration(text).map(drop),
            Self::Size | Self::SizeOrOff => value::size(text).map(drop),
            Self::Choice(choices) => match Self::choose(choices, text) {
                Some(_) => Ok(()),
                None => {
                    let known: Vec<String> = choices
                        .iter()
                        .map(|choice| format!("`{}`", choice.value))
                        .collect();
                    Err(format!("write one of {}", known.join(", ")))
                }
            },
        }
    }

    /// The choice that a text names.
    pub(crate) fn choose(choices: &'static [Choice], text: &str) -> Option<&'static Choice> {
        choices
            .iter()
            .find(|choice| choice.value.eq_ignore_ascii_case(text.trim()))
    }

    /// The kind in a word or two, for the reference.
    pub fn describe(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int(..) => "whole number".to_owned(),
            Self::IntOrOff(..) => "whole number or `off`".to_owned(),
            Self::Float => "number".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::DurationOrOff => "duration or `off`".to_owned(),
            Self::Size => "size".to_owned(),
            Self::SizeOrOff => "size or `off`".to_owned(),
            Self::List => "list".to_owned(),
            Self::Choice(choices) => choices
                .iter()
                .map(|choice| format!("`{}`", choice.value))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

/// A row of the key table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The part of the file it stands in.
    pub section: Section,
    /// The name within the section; whole for [`Section::Job`].
    pub name: &'static str,
    /// An older spelling that means the same.
    pub older_name: Option<&'static str>,
    /// What the value must look like.
    pub kind: Kind,
    /// The default as a file would spell it; empty: none.
    pub default: &'static str,
    /// Whether a file without it is an error.
    pub required: bool,
    /// Whether the value must never be shown.
    pub secret: bool,
    /// What this version does with it.
    pub status: Status,
    /// What it means, for the reference.
    pub meaning: &'static str,
}

impl Key {
    const fn new(
        section: Section,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self {
            section,
            name,
            older_name: None,
            kind,
            default,
            required: false,
            secret: false,
            status: Status::Implemented,
            meaning,
        }
    }

    const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn also(mut self, older_name: &'static str) -> Self {
        self.older_name = Some(older_name);
        self
    }

    const fn accepted(mut self, why: &'static str) -> Self {
        self.status = Status::Accepted(why);
        self
    }

    const fn not_yet(mut self) -> Self {
        self.status = Status::NotYet;
        self
    }

    /// The name as messages give it.
    pub fn path(&self) -> String {
        self.section.path(self.name)
    }

    /// Whether a value says what holds without it.
    pub(crate) fn is_default(&self, text: &str) -> bool {
        let text = text.trim();
        if self.default.is_empty() {
            return text.is_empty();
        }
        if text.eq_ignore_ascii_case(self.default) {
            return true;
        }
        match self.kind {
            Kind::Float => value::float(text).is_ok_and(|v| value::float(self.default) == Ok(v)),
            Kind::Duration => {
                value::duration(text).is_ok_and(|v| value::duration(self.default) == Ok(v))
            }
            _ => false,
        }
    }
}

/// Every key, in the order of the reference.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    [
        mysql::KEYS,
        paimon::KEYS,
        pipeline::ROUTE_KEYS,
        pipeline::TRANSFORM_KEYS,
        pipeline::KEYS,
        job::KEYS,
    ]
    .into_iter()
    .flatten()
}

/// The key of a section by its name or its older name.
pub(crate) fn find(section: Section, name: &str) -> Option<&'static Key> {
    keys().find(|key| {
        key.section == section && (key.name == name || key.older_name.is_some_and(|o| o == name))
    })
}

/// What to say of an unknown key: a counterpart, the section where it belongs, or the nearest
/// known name.
pub(crate) fn advice(section: Section, name: &str) -> Option<String> {
    if let Some(counterpart) = counterpart(name) {
        return Some(counterpart.to_owned());
    }
    if let Some(elsewhere) = keys().find(|key| key.section != section && key.name == name) {
        let place = match elsewhere.section {
            Section::Job => "at the top of the file".to_owned(),
            other => format!("in `{}`", other.name()),
        };
        return Some(format!("the key belongs {place}"));
    }
    let names = keys()
        .filter(|key| key.section == section)
        .map(|key| key.name);
    nearest(name, names).map(|near| format!("did you mean `{near}`?"))
}

/// The nearest of some names, if one is near.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    names
        .map(|known| {
            let begins = name.len() >= 4 && known.starts_with(name.as_str());
            (if begins { 1 } else { distance(&name, known) }, known)
        })
        .filter(|(distance, known)| *distance <= (known.len() / 4).clamp(2, 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Characters to insert, delete or replace to make one text the other.
pub(crate) fn distance(left: &str, right: &str) -> usize {
    // A text from a file may be long; no known name is.
    if left.len() > 128 {
        return usize::MAX;
    }
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, l) in left.chars().enumerate() {
        let mut diagonal = at;
        let mut last = at + 1;
        let mut next = vec![last];
        for (r, above) in right.iter().zip(row.iter().skip(1)) {
            let replaced = diagonal + usize::from(*r != l);
            last = replaced.min(last + 1).min(above + 1);
            diagonal = *above;
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}
