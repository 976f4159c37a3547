//! Tokens of a statement as the server would read it.
//!
//! Rules: MySQL reference manual, "Comments", "String Literals", "Schema Object Names", and
//! "Server SQL Modes" (ANSI_QUOTES, NO_BACKSLASH_ESCAPES).

/// How the server that logged the statement reads text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// `"` quotes names, not text.
    pub ansi_quotes: bool,
    /// `\` is an ordinary character in text.
    pub no_backslash_escapes: bool,
    /// Version as in `/*!80023 …*/`.
    pub version: u32,
}

/// A token; comments and blanks are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A bare word: keyword or name.
    Word(String),
    /// A quoted name: never a keyword.
    Name(String),
    /// A text literal, unescaped.
    Text(String),
    /// Digits.
    Number(String),
    /// Any other character.
    Symbol(char),
}

impl Token {
    /// Whether this is a bare word with this spelling in any case.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own.eq_ignore_ascii_case(word))
    }

    /// Whether this is a symbol.
    pub fn is_symbol(&self, symbol: char) -> bool {
        *self == Self::Symbol(symbol)
    }

    /// A name, bare or quoted.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// Splits a text; an error says what is not closed.
pub(crate) fn tokens(text: &str, dialect: Dialect) -> Result<Vec<Token>, &'static str> {
    let mut lexer = Lexer {
        rest: text,
        dialect,
        versioned: false,
    };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    dialect: Dialect,
    /// Inside a versioned comment that this server executes.
    versioned: bool,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Option<Token>, &'static str> {
        self.skip_blanks()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let token = match first {
            '`' => Token::Name(self.quoted('`', false)?),
            '"' if self.dialect.ansi_quotes => Token::Name(self.quoted('"', false)?),
            '\'' | '"' => Token::Text(self.quoted(first, !self.dialect.no_backslash_escapes)?),
            c if is_word(c) => {
                let word = self.take_while(is_word);
                if word.bytes().all(|b| b.is_ascii_digit()) {
                    Token::Number(word)
                } else {
                    Token::Word(word)
                }
            }
            c => {
                self.advance(c.len_utf8());
                Token::Symbol(c)
            }
        };
        Ok(Some(token))
    }

    fn skip_blanks(&mut self) -> Result<(), &'static str> {
        loop {
            let trimmed = self
                .rest
                .trim_start_matches(|c: char| c.is_whitespace() || c == '\0');
            self.rest = trimmed;
            if trimmed.starts_with('#') || is_dash_comment(trimmed) {
                let end = trimmed.find('\n').unwrap_or(trimmed.len());
                self.advance(end);
            } else if self.versioned && trimmed.starts_with("*/") {
                self.versioned = false;
                self.advance(2);
            } else if let Some(body) = trimmed.strip_prefix("/*!") {
                let digits = body.bytes().take(6).take_while(u8::is_ascii_digit).count();
                // Five digits, or six; fewer are not a version.
                let digits = if digits < 5 { 0 } else { digits };
                let (number, _) = body.split_at_checked(digits).unwrap_or_default();
                if number.parse::<u32>().unwrap_or(0) <= self.dialect.version {
                    self.versioned = true;
                    self.advance(3 + digits);
                } else {
                    self.skip_comment()?;
                }
            } else if trimmed.starts_with("/*") {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), &'static str> {
        let end = self
            .rest
            .get(2..)
            .and_then(|body| body.find("*/"))
            .ok_or("a comment is not closed")?;
        self.advance(end + 4);
        Ok(())
    }

    /// Text between quotes; a doubled quote stands for itself.
    fn quoted(&mut self, quote: char, backslashes: bool) -> Result<String, &'static str> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                if chars.next_if(|(_, next)| *next == quote).is_some() {
                    text.push(quote);
                    continue;
                }
                self.advance(at + c.len_utf8());
                return Ok(text);
            }
            if c == '\\' && backslashes {
                match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, '0')) => text.push('\0'),
                    Some((_, 'b')) => text.push('\u{8}'),
                    Some((_, 'Z')) => text.push('\u{1a}'),
                    Some((_, other)) => text.push(other),
                    None => break,
                }
                continue;
            }
            text.push(c);
        }
        Err("a quote is not closed")
    }

    fn take_while(&mut self, keep: fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        word.to_owned()
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// `--` starts a comment only before a blank, a control character or the end.
fn is_dash_comment(text: &str) -> bool {
    text.strip_prefix("--").is_some_and(|rest| {
        rest.chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || c.is_control())
    })
}
