//! YAML text to a tree that knows where everything stands. The only file that knows the parser:
//! the event stream of `serde-saphyr`, because scalars must keep the spelling of the file
//! (`password: 0123` is the text `0123`).

use std::borrow::Cow;

use serde_saphyr::granit_parser::{
    Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag,
};

use super::problem::{ConfigError, Mark, Problem, SourceText, is_secret};

/// The largest job file, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The deepest nesting of either kind of collection. A job file needs three.
const DEPTH_MAX: usize = 24;

/// A value with its place. Has no `Debug`: it holds secrets.
pub(crate) struct Node {
    /// The value.
    pub(crate) value: Value,
    /// Where it begins.
    pub(crate) mark: Mark,
    /// The last line that belongs to it.
    last_line: usize,
}

impl Node {
    /// A node of a value and a place.
    pub(crate) fn new(value: Value, mark: Mark) -> Self {
        Self {
            value,
            mark,
            last_line: mark.line,
        }
    }
}

/// What a node holds.
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A scalar as the file spells it, quotes and escapes resolved.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in the file's order; keys are unique.
    Map(Vec<Entry>),
}

/// A key and its value.
pub(crate) struct Entry {
    /// The key.
    pub(crate) key: String,
    /// Where the key stands.
    pub(crate) mark: Mark,
    /// The value.
    pub(crate) node: Node,
}

/// A parsed job file.
pub(crate) struct Document {
    /// The top of the tree.
    pub(crate) root: Node,
    /// The text, for snippets.
    pub(crate) source: SourceText,
}

/// Parses a job file. Errors: broken YAML, duplicate keys, aliases, foreign tags, a second
/// document, too large or too deep a file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Document, ConfigError> {
    let mut source = SourceText::new(file, text);
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!(
            "the job file has {} bytes; at most {FILE_BYTES_MAX} are read",
            text.len()
        );
        return Err(source.error(vec![SourceText::general(message)]));
    }
    match build(text, &mut source) {
        Ok(root) => Ok(Document { root, source }),
        Err(problem) => Err(source.error(vec![problem])),
    }
}

fn build(text: &str, source: &mut SourceText) -> Result<Node, Problem> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = DEPTH_MAX;
    options.block_nesting_limit = DEPTH_MAX;
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options),
        source,
    };
    let mut root = None;
    loop {
        let (event, span) = builder.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentEnd => {}
            Event::DocumentStart(..) if root.is_some() => {
                return Err(builder.source.problem(
                    start(&span),
                    "a job file holds one YAML document; a second one begins here",
                ));
            }
            Event::DocumentStart(..) => {}
            other => root = Some(builder.node(other, span)?),
        }
    }
    root.ok_or_else(|| SourceText::general("the job file is empty"))
}

fn start(span: &Span) -> Mark {
    Mark {
        line: span.start.line(),
        column: span.start.col() + 1,
    }
}

struct Builder<'text, 'source> {
    parser: Parser<'text, StrInput<'text>>,
    source: &'source mut SourceText,
}

impl<'text> Builder<'text, '_> {
    fn next(&mut self) -> Result<(Event<'text>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Err(SourceText::general("the YAML text ends too early")),
        }
    }

    fn syntax(&self, error: &ScanError) -> Problem {
        let mark = Mark {
            line: error.marker().line(),
            column: error.marker().col() + 1,
        };
        // The parser's message may quote the text that it stumbled over.
        let message = if self.source.hides(mark.line) {
            "not valid YAML (the line holds a secret and is not shown; quote the value)".to_owned()
        } else {
            format!("not valid YAML: {}", error.info())
        };
        self.source.problem(mark, message)
    }

    /// The node that begins with an event. Recursion is bounded: the parser stops at
    /// [`DEPTH_MAX`] open collections of each kind.
    fn node(&mut self, event: Event<'text>, span: Span) -> Result<Node, Problem> {
        let mark = start(&span);
        let mut last_line = span.end.line().max(mark.line);
        let value = match event {
            Event::Scalar(text, style, _, tag) => {
                self.check_tag(tag.as_deref(), mark)?;
                scalar(text, style, tag.is_some())
            }
            Event::SequenceStart(_, _, tag) => {
                self.check_tag(tag.as_deref(), mark)?;
                let mut list: Vec<Node> = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    list.push(self.node(event, span)?);
                }
                last_line = list.last().map_or(last_line, |node| node.last_line);
                Value::List(list)
            }
            Event::MappingStart(_, _, tag) => {
                self.check_tag(tag.as_deref(), mark)?;
                let entries = self.entries()?;
                last_line = entries.last().map_or(last_line, |last| last.node.last_line);
                Value::Map(entries)
            }
            _ => {
                return Err(self.source.problem(
                    mark,
                    "YAML anchors and aliases are not supported in a job file; write the value out",
                ));
            }
        };
        Ok(Node {
            value,
            mark,
            last_line,
        })
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(entries);
            }
            let mark = start(&span);
            let Event::Scalar(key, ..) = event else {
                return Err(self.source.problem(mark, "a key must be plain text"));
            };
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let message = format!(
                    "the key `{key}` is here twice; it first stands in line {}",
                    first.mark.line
                );
                return Err(self.source.problem(mark, message));
            }
            let (event, span) = self.next()?;
            if is_secret(&key) {
                self.source
                    .hide(start(&span), span.end.line().max(span.start.line()));
            }
            let node = self.node(event, span)?;
            if is_secret(&key) {
                self.source.hide(node.mark, node.last_line);
            }
            entries.push(Entry {
                key: key.into_owned(),
                mark,
                node,
            });
        }
    }

    fn check_tag(&self, tag: Option<&Tag>, mark: Mark) -> Result<(), Problem> {
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() && tag.original() != "!" => {
                let message = if self.source.hides(mark.line) {
                    "YAML tags are not supported here; quote the value".to_owned()
                } else {
                    format!("the YAML tag `{}` is not supported", tag.original())
                };
                Err(self.source.problem(mark, message))
            }
            _ => Ok(()),
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tagged: bool) -> Value {
    let null = matches!(style, ScalarStyle::Plain)
        && !tagged
        && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
    if null {
        Value::Null
    } else {
        Value::Text(text.into_owned())
    }
}
