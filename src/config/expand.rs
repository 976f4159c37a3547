//! `${VAR}`, `${VAR:-default}` and `${file:/path}` in values. `$${` stands for a plain `${`;
//! `$1` is left alone, routes need it.

use std::{fs::File, io::Read, path::Path};

/// The largest file that `${file:…}` reads, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What expansion reads: variables and files.
pub(crate) trait Environment {
    /// The value of a variable, `None` when it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// The text of a file, or why it cannot be read.
    fn file(&self, path: &str) -> Result<String, String>;
}

/// The environment of the process.
pub(crate) struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &str) -> Result<String, String> {
        read_bounded(Path::new(path), FILE_BYTES_MAX)
    }
}

/// No variables and no files.
pub(crate) struct NoEnvironment;

impl Environment for NoEnvironment {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &str) -> Result<String, String> {
        Err("no file is read here".to_owned())
    }
}

/// The text of a file of at most `bytes_max` bytes. Its size is not asked for: a device or a pipe
/// has none.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("it has more than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// Expands a value. Errors say what is wrong, without any value.
pub(crate) fn expand(text: &str, environment: &dyn Environment) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            return Err("`${` is never closed; write `$${` for a plain `${`".to_owned());
        };
        out.push_str(&resolve(inside, environment)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn resolve(inside: &str, environment: &dyn Environment) -> Result<String, String> {
    if let Some(path) = inside.strip_prefix("file:") {
        let text = environment
            .file(path)
            .map_err(|error| format!("`${{file:{path}}}` cannot be read: {error}"))?;
        // Editors and `echo` end a file with a line break that is no part of the secret.
        let text = text.strip_suffix('\n').unwrap_or(&text);
        return Ok(text.strip_suffix('\r').unwrap_or(text).to_owned());
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let valid = name
        .chars()
        .enumerate()
        .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit()));
    if name.is_empty() || !valid {
        return Err(format!(
            "`${{{name}}}` is not a variable; write `${{NAME}}`, `${{NAME:-default}}`, \
             `${{file:/path}}`, or `$${{` for a plain `${{`"
        ));
    }
    // As a shell does it: `:-` also stands in for a variable that is set but empty.
    match (environment.variable(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "the variable `{name}` is not set; set it or write `${{{name}:-default}}`"
        )),
    }
}
