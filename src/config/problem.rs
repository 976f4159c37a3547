//! What is wrong in a job file, with the place and the line itself. A line that holds a secret is
//! shown without it.

use std::fmt;

use super::key::distance;

/// Words that mark a key as secret: the values of such keys are never shown.
const SECRET_WORDS: [&str; 14] = [
    "password",
    "passwort",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "private-key",
    "token",
    "credential",
    "apikey",
    "api-key",
    "access-key",
    "access.key",
    "accesskey",
];

/// The longest stretch of a line that a snippet shows, in characters.
const SNIPPET_CHARS_MAX: usize = 160;

/// Whether the value of a key of this name must never be shown.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let last_part = key.rsplit('.').next().unwrap_or_default();
    // A misspelt key is told with its line; that line must not give the secret away.
    SECRET_WORDS.iter().any(|word| key.contains(word)) || distance(last_part, "password") <= 3
}

/// A place in a job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One thing that is wrong in a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong and what to do.
    pub message: String,
    /// Where; `None` when the file as a whole is meant.
    pub mark: Option<Mark>,
    /// The line, secrets hidden.
    snippet: Option<String>,
}

/// A job file that cannot be used; every problem that was found, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file as the user named it.
    pub file: String,
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{}", problem.message)?;
            let Some(mark) = problem.mark else {
                write!(f, "\n  --> {}", self.file)?;
                continue;
            };
            write!(f, "\n  --> {}:{}:{}", self.file, mark.line, mark.column)?;
            if let Some(snippet) = &problem.snippet {
                let gutter = mark.line.to_string();
                let blank = " ".repeat(gutter.len());
                let caret = " ".repeat(mark.column.saturating_sub(1));
                write!(
                    f,
                    "\n {blank} |\n {gutter} | {snippet}\n {blank} | {caret}^"
                )?;
            }
        }
        Ok(())
    }
}

/// Where the secret part of a line begins: column, from 1. Everything from there on is hidden.
type HiddenFrom = Option<usize>;

/// The text of a job file and what of it may be shown.
pub(crate) struct SourceText {
    file: String,
    lines: Vec<String>,
    hidden: Vec<HiddenFrom>,
}

impl SourceText {
    /// Takes a file's text and hides what looks like a secret, so that even an error of the YAML
    /// syntax, met before any key is known, shows none.
    pub(crate) fn new(file: &str, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let hidden = guess_hidden(&lines);
        Self {
            file: file.to_owned(),
            lines,
            hidden,
        }
    }

    /// Hides the text between two places.
    pub(crate) fn hide(&mut self, from: Mark, last_line: usize) {
        for line in from.line..=last_line {
            let column = if line == from.line { from.column } else { 1 };
            if let Some(hidden) = line.checked_sub(1).and_then(|at| self.hidden.get_mut(at)) {
                *hidden = Some(hidden.map_or(column, |known| known.min(column)));
            }
        }
    }

    /// Whether something of a line is hidden.
    pub(crate) fn hides(&self, line: usize) -> bool {
        line.checked_sub(1)
            .and_then(|at| self.hidden.get(at))
            .is_some_and(Option::is_some)
    }

    /// A problem at a place.
    pub(crate) fn problem(&self, mark: Mark, message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            mark: Some(mark),
            snippet: self.snippet(mark),
        }
    }

    /// A problem of the whole file.
    pub(crate) fn general(message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            mark: None,
            snippet: None,
        }
    }

    /// All problems as one error.
    pub(crate) fn error(&self, mut problems: Vec<Problem>) -> ConfigError {
        problems.sort_by_key(|problem| problem.mark);
        ConfigError {
            file: self.file.clone(),
            problems,
        }
    }

    fn snippet(&self, mark: Mark) -> Option<String> {
        let at = mark.line.checked_sub(1)?;
        let line = self.lines.get(at)?;
        if mark.column > SNIPPET_CHARS_MAX {
            return None;
        }
        let hidden_from = self.hidden.get(at).copied().flatten();
        let visible_chars = hidden_from.map_or(SNIPPET_CHARS_MAX, |column| column - 1);
        let mut shown: String = line
            .chars()
            .take(visible_chars.min(SNIPPET_CHARS_MAX))
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if hidden_from.is_some() {
            shown.push_str("***");
        } else if line.chars().count() > SNIPPET_CHARS_MAX {
            shown.push('…');
        }
        Some(shown)
    }
}

/// Hides what follows a secret word and a colon, and the lines that may continue such a value.
fn guess_hidden(lines: &[String]) -> Vec<HiddenFrom> {
    let mut hidden = Vec::with_capacity(lines.len());
    let mut secret_indent: Option<usize> = None;
    for line in lines {
        let indent = line.chars().take_while(|c| *c == ' ').count();
        if let Some(column) = secret_column(line) {
            secret_indent = Some(indent);
            hidden.push(Some(column));
        } else if secret_indent.is_some_and(|key| indent > key || !looks_like_key(line)) {
            hidden.push(Some(1));
        } else {
            secret_indent = None;
            hidden.push(None);
        }
    }
    hidden
}

/// Where the value of a secret key begins in a line; right behind the word when no colon follows.
fn secret_column(line: &str) -> HiddenFrom {
    if let Some((key, _)) = line.split_once(':') {
        let name = key.trim_start_matches([' ', '-', '"', '\'', '{']);
        if is_secret(name.trim_end_matches(['"', '\'', ' '])) {
            return Some(column_behind(line, key.len() + 1));
        }
    }
    let lower = line.to_ascii_lowercase();
    let word = SECRET_WORDS
        .iter()
        .filter_map(|word| lower.find(word).map(|at| at + word.len()))
        .min()?;
    let rest = lower.get(word..)?;
    let key_end = rest
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '"' | '\'')))
        .unwrap_or(rest.len());
    match rest.get(key_end..) {
        Some(behind) if behind.starts_with([':', '=']) => {
            Some(column_behind(line, word + key_end + 1))
        }
        _ => Some(column_behind(line, word)),
    }
}

/// The column behind so many bytes of a line and the blanks that follow.
fn column_behind(line: &str, bytes: usize) -> usize {
    let (before, behind) = line.split_at_checked(bytes).unwrap_or((line, ""));
    let blanks = behind.chars().take_while(|c| *c == ' ').count();
    before.chars().count() + blanks + 1
}

/// Whether a line begins like `key:` or `- key:`.
fn looks_like_key(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("- ");
    line.split_once(':').is_some_and(|(key, _)| {
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
    })
}
