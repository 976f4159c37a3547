//! The tree of a job file against the key table: what is set, what is wrong, what to warn of.

use std::collections::{BTreeMap, BTreeSet};

use headwater_paimon::StoreOptions;

use super::{
    expand::{Environment, expand},
    job_file::Warning,
    key::{self, Key, Kind, Property, Section, Status},
    problem::{ConfigError, Mark, Problem, SourceText, is_secret},
    yaml::{Document, Entry, Node, Value},
};

/// A key that the file sets. No `Debug`: it may hold a secret.
pub(crate) struct Setting {
    /// The value with variables expanded; empty for a list.
    pub(crate) text: String,
    /// The items of a list, expanded.
    pub(crate) items: Vec<(String, Mark)>,
    /// Where the value stands.
    pub(crate) mark: Mark,
    /// Whether the value could not be read, which was told already.
    pub(crate) broken: bool,
}

/// The settings of one section or of one item.
pub(crate) type Group = BTreeMap<&'static str, Setting>;

/// Everything that a job file sets, and what is wrong with it so far.
pub(crate) struct Settings {
    pub(crate) groups: BTreeMap<Section, Group>,
    /// Items of `route`, with their place.
    pub(crate) routes: Vec<(Mark, Group)>,
    /// `table.properties.*` by their own names.
    pub(crate) table_options: BTreeMap<String, String>,
    /// Options of the store that no key of the table names.
    pub(crate) store_options: StoreOptions,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) problems: Vec<Problem>,
    /// Sections that are wrong as a whole, which was told already.
    pub(crate) told: BTreeSet<Section>,
    source: SourceText,
}

/// Names that may stand at the top of a job file.
const TOP: [&str; 10] = [
    "source",
    "sink",
    "route",
    "transform",
    "pipeline",
    "checkpoint",
    "state",
    "limits",
    "server",
    "on-bad-row",
];

impl Settings {
    /// Takes the tree apart.
    pub(crate) fn collect(document: Document, environment: &dyn Environment) -> Self {
        let mut settings = Self {
            groups: BTreeMap::new(),
            routes: Vec::new(),
            table_options: BTreeMap::new(),
            store_options: StoreOptions::new(),
            warnings: Vec::new(),
            problems: Vec::new(),
            told: BTreeSet::new(),
            source: document.source,
        };
        let root = document.root;
        match root.value {
            Value::Map(entries) => settings.top(entries, environment),
            _ => {
                settings.told.extend([Section::Source, Section::Sink]);
                settings.fail(
                    root.mark,
                    "a job file is a mapping with `source` and `sink`",
                );
            }
        }
        settings
    }

    /// Notes a problem at a place.
    pub(crate) fn fail(&mut self, mark: Mark, message: impl Into<String>) {
        let problem = self.source.problem(mark, message);
        self.problems.push(problem);
    }

    /// Notes a problem of the file as a whole.
    pub(crate) fn fail_file(&mut self, message: impl Into<String>) {
        self.problems.push(SourceText::general(message));
    }

    /// Notes something to know.
    pub(crate) fn warn(&mut self, key: impl Into<String>, mark: Mark, message: impl Into<String>) {
        self.warnings.push(Warning {
            key: key.into(),
            line: mark.line,
            message: message.into(),
        });
    }

    /// The problems as one error.
    pub(crate) fn error(self) -> ConfigError {
        self.source.error(self.problems)
    }

    fn top(&mut self, entries: Vec<Entry>, environment: &dyn Environment) {
        for entry in entries {
            match entry.key.as_str() {
                "source" => self.connector(entry, Section::Source, "mysql", environment),
                "sink" => self.connector(entry, Section::Sink, "paimon", environment),
                "pipeline" => self.section(entry, Section::Pipeline, environment),
                "route" => self.route_list(entry, environment),
                "transform" | "user-defined-function" | "model" if is_empty(&entry.node.value) => {}
                "transform" | "user-defined-function" | "model" => {
                    let message = format!("`{}` is not supported yet", entry.key);
                    self.fail(entry.mark, message);
                }
                _ => self.job_key(String::new(), entry, environment),
            }
        }
    }

    /// A source or a sink: the type first, because it says which keys there are.
    fn connector(
        &mut self,
        entry: Entry,
        section: Section,
        known: &str,
        environment: &dyn Environment,
    ) {
        if let Value::Map(entries) = &entry.node.value
            && let Some(kind) = entries.iter().find(|entry| entry.key == "type")
            && let Value::Text(text) = &kind.node.value
            && let Ok(text) = expand(text, environment)
            && text != known
        {
            let message = format!(
                "a {name} of type `{text}` is not supported yet; \
                 this version knows `{known}` only",
                name = section.name(),
            );
            // One problem tells it; the keys of another type would only add noise.
            self.told.insert(section);
            self.fail(kind.node.mark, message);
            return;
        }
        self.section(entry, section, environment);
    }

    fn section(&mut self, entry: Entry, section: Section, environment: &dyn Environment) {
        let group = match entry.node.value {
            Value::Map(entries) => self.group(section, section.name(), entries, environment),
            Value::Null => Group::new(),
            _ => {
                let message = format!("`{}` must be a mapping of keys to values", entry.key);
                self.told.insert(section);
                self.fail(entry.node.mark, message);
                Group::new()
            }
        };
        self.groups.insert(section, group);
    }

    fn route_list(&mut self, entry: Entry, environment: &dyn Environment) {
        let items = match entry.node.value {
            Value::List(items) => items,
            Value::Null => return,
            _ => return self.fail(entry.node.mark, "`route` must be a list"),
        };
        for (number, item) in items.into_iter().enumerate() {
            let path = format!("route[{number}]");
            let Value::Map(entries) = item.value else {
                self.fail(item.mark, format!("`{path}` must be a mapping"));
                continue;
            };
            let before = self.problems.len();
            let group = self.group(Section::Route, &path, entries, environment);
            if self.problems.len() == before {
                self.require(Section::Route, &path, &group, Some(item.mark));
            }
            self.routes.push((item.mark, group));
        }
    }

    /// Notes every required key that a group lacks.
    pub(crate) fn require(
        &mut self,
        section: Section,
        path: &str,
        group: &Group,
        mark: Option<Mark>,
    ) {
        let missing = key::keys()
            .filter(|key| key.section == section && key.required && !group.contains_key(key.name));
        for key in missing {
            let message = format!("`{path}.{}` is missing; it is required", key.name);
            match mark {
                Some(mark) => self.fail(mark, message),
                None => self.fail_file(message),
            }
        }
    }

    fn group(
        &mut self,
        section: Section,
        path: &str,
        entries: Vec<Entry>,
        environment: &dyn Environment,
    ) -> Group {
        let mut group = Group::new();
        for entry in entries {
            let full = format!("{path}.{}", entry.key);
            match key::find(section, &entry.key) {
                Some(key) => self.known(key, &full, entry, &mut group, environment),
                None => self.free(section, &full, entry, environment),
            }
        }
        group
    }

    /// One of Headwater's own keys; they may be nested or dotted.
    fn job_key(&mut self, above: String, entry: Entry, environment: &dyn Environment) {
        let name = if above.is_empty() {
            entry.key.clone()
        } else {
            format!("{above}.{}", entry.key)
        };
        if let Some(key) = key::find(Section::Job, &name) {
            let mut group = self.groups.remove(&Section::Job).unwrap_or_default();
            self.known(key, &name, entry, &mut group, environment);
            self.groups.insert(Section::Job, group);
            return;
        }
        let prefix = format!("{name}.");
        let is_prefix = key::keys()
            .any(|key| key.section == Section::Job && key.name.starts_with(prefix.as_str()));
        match entry.node.value {
            Value::Map(entries) if is_prefix => {
                for inner in entries {
                    self.job_key(name.clone(), inner, environment);
                }
            }
            Value::Null if is_prefix => {}
            _ if is_prefix => {
                self.fail(entry.node.mark, format!("`{name}` must be a mapping"));
            }
            value => {
                let node = Node::new(value, entry.node.mark);
                self.free(Section::Job, &name, Entry { node, ..entry }, environment);
            }
        }
    }

    fn known(
        &mut self,
        key: &'static Key,
        full: &str,
        entry: Entry,
        group: &mut Group,
        environment: &dyn Environment,
    ) {
        if let Some(first) = group.get(key.name) {
            let message = format!(
                "`{full}` means the same as `{}`, which stands in line {}",
                key.name, first.mark.line
            );
            return self.fail(entry.mark, message);
        }
        let mark = entry.node.mark;
        if key.kind == Kind::List {
            if key.status == Status::NotYet {
                if !is_empty(&entry.node.value) {
                    self.fail(entry.mark, format!("`{full}` is not supported yet"));
                }
                return;
            }
            if let Some(items) = self.items(full, entry.node, environment) {
                let setting = Setting {
                    text: String::new(),
                    items,
                    mark,
                    broken: false,
                };
                group.insert(key.name, setting);
            }
            return;
        }
        let Some((raw, text)) = self.text(full, entry.node, environment) else {
            // Told already; the key is not missing on top.
            group.insert(key.name, Setting::broken(mark));
            return;
        };
        if let Err(problem) = key.kind.check(&text) {
            let shown = if key.secret { "***" } else { &raw };
            self.fail(mark, format!("`{full}: {shown}` is not valid: {problem}"));
            group.insert(key.name, Setting::broken(mark));
            return;
        }
        self.judge(key, full, &raw, &text, entry.mark);
        let setting = Setting {
            text,
            items: Vec::new(),
            mark,
            broken: false,
        };
        group.insert(key.name, setting);
    }

    /// Says what this version does with a key and its value.
    fn judge(&mut self, key: &'static Key, full: &str, raw: &str, text: &str, mark: Mark) {
        let chosen = match key.kind {
            Kind::Choice(choices) => Kind::choose(choices, text).map(|choice| choice.status),
            _ => None,
        };
        match chosen {
            Some(Status::NotYet) => {
                return self.fail(mark, format!("`{full}: {raw}` is not supported yet"));
            }
            Some(Status::Accepted(why)) => self.warn(full, mark, why),
            _ => {}
        }
        match key.status {
            Status::Implemented => {}
            Status::Accepted(why) => {
                self.warn(full, mark, format!("the key does nothing here: {why}"));
            }
            Status::NotYet if key.is_default(text) => {}
            Status::NotYet if key.default.is_empty() => {
                self.fail(mark, format!("`{full}` is not supported yet"));
            }
            Status::NotYet => {
                let message = format!(
                    "`{full}: {raw}` is not supported yet; this version knows `{}` only",
                    key.default
                );
                self.fail(mark, message);
            }
        }
    }

    /// A key that the table does not list.
    fn free(&mut self, section: Section, full: &str, entry: Entry, environment: &dyn Environment) {
        // The value decides whether some of these keys are harmless; look before judging.
        if key::property(section, &entry.key, "").is_none() {
            let advice = match section {
                Section::Job => top_advice(full),
                _ => key::advice(section, &entry.key),
            };
            let advice = advice
                .map(|advice| format!("; {advice}"))
                .unwrap_or_default();
            return self.fail(entry.mark, format!("unknown key `{full}`{advice}"));
        }
        let Some((raw, text)) = self.text(full, entry.node, environment) else {
            return;
        };
        match key::property(section, &entry.key, &text) {
            Some(Property::TableOption(name)) => {
                self.table_options.insert(name, text);
            }
            Some(Property::StoreOption(name)) => self.store_options.insert(name, text),
            Some(Property::Accepted(why)) => {
                self.warn(
                    full,
                    entry.mark,
                    format!("the key does nothing here: {why}"),
                );
            }
            Some(Property::NotYet(why)) => {
                let shown = if is_secret(full) { "***" } else { &raw };
                let message = format!("`{full}: {shown}` is not supported yet: {why}");
                self.fail(entry.mark, message);
            }
            None => self.fail(entry.mark, format!("unknown key `{full}`")),
        }
    }

    /// The text of a value as the file has it and expanded.
    fn text(
        &mut self,
        full: &str,
        node: Node,
        environment: &dyn Environment,
    ) -> Option<(String, String)> {
        let problem = match node.value {
            Value::Text(raw) => match expand(&raw, environment) {
                Ok(text) => return Some((raw, text)),
                Err(problem) => format!("`{full}`: {problem}"),
            },
            Value::Null => {
                format!("`{full}` has no value; write one (`\"\"` for an empty text) or remove it")
            }
            Value::List(_) | Value::Map(_) => format!("`{full}` must be a single value"),
        };
        self.fail(node.mark, problem);
        None
    }

    fn items(
        &mut self,
        full: &str,
        node: Node,
        environment: &dyn Environment,
    ) -> Option<Vec<(String, Mark)>> {
        let items = match node.value {
            Value::List(items) => items,
            Value::Null => return None,
            _ => {
                self.fail(
                    node.mark,
                    format!("`{full}` must be a list, as in `[a, b]`"),
                );
                return None;
            }
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let mark = item.mark;
            if let Some((_, text)) = self.text(full, item, environment) {
                texts.push((text, mark));
            }
        }
        Some(texts)
    }
}

impl Setting {
    /// Stands for a value that could not be read and was told of.
    fn broken(mark: Mark) -> Self {
        Self {
            text: String::new(),
            items: Vec::new(),
            mark,
            broken: true,
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Text(_) => false,
    }
}

/// What to say of an unknown name at the top or below one of Headwater's own.
fn top_advice(name: &str) -> Option<String> {
    let names = key::keys()
        .filter(|key| key.section == Section::Job)
        .map(|key| key.name);
    key::counterpart(name)
        .map(str::to_owned)
        .or_else(|| {
            key::nearest(name, TOP.into_iter().chain(names))
                .map(|near| format!("did you mean `{near}`?"))
        })
        .or_else(|| key::advice(Section::Job, name))
}
