//! A place in a list of tokens.

use super::lexer::Token;

/// Reads tokens one after the other.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    rest: &'a [Token],
}

impl<'a> Cursor<'a> {
    pub fn new(rest: &'a [Token]) -> Self {
        Self { rest }
    }

    /// What is left.
    pub fn rest(&self) -> &'a [Token] {
        self.rest
    }

    pub fn peek(&self) -> Option<&'a Token> {
        self.rest.first()
    }

    pub fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Whether the next token is this word.
    pub fn at(&self, word: &str) -> bool {
        self.peek().is_some_and(|token| token.is(word))
    }

    /// Whether the token behind the next one is this word.
    pub fn then(&self, word: &str) -> bool {
        self.rest.get(1).is_some_and(|token| token.is(word))
    }

    /// Takes all that is left.
    pub fn skip(&mut self) {
        self.rest = &[];
    }

    /// Takes the word if it is next.
    pub fn eat(&mut self, word: &str) -> bool {
        let hit = self.at(word);
        if hit {
            self.next();
        }
        hit
    }

    /// Takes the words if they are next, all or none.
    pub fn eat_all(&mut self, words: &[&str]) -> bool {
        let hit = words
            .iter()
            .enumerate()
            .all(|(i, word)| self.rest.get(i).is_some_and(|token| token.is(word)));
        if hit {
            self.rest = self.rest.get(words.len()..).unwrap_or_default();
        }
        hit
    }

    /// Takes the symbol if it is next.
    pub fn eat_symbol(&mut self, symbol: char) -> bool {
        let hit = self.peek().is_some_and(|token| token.is_symbol(symbol));
        if hit {
            self.next();
        }
        hit
    }

    /// `[database.]table`.
    pub fn qualified(&mut self, database: &str) -> Option<(String, String)> {
        // A bare `.table` is allowed and means the current database.
        self.eat_symbol('.');
        let first = self.next()?;
        let first = match first {
            Token::Number(digits) => digits.as_str(),
            other => other.name()?,
        };
        if self.eat_symbol('.') {
            let table = match self.next()? {
                Token::Number(digits) => digits.as_str(),
                other => other.name()?,
            };
            return Some((first.to_owned(), table.to_owned()));
        }
        Some((database.to_owned(), first.to_owned()))
    }

    /// What stands between the bracket that is next and the one that closes it; `None` when no
    /// bracket is next or it is not closed.
    pub fn bracketed(&mut self) -> Option<&'a [Token]> {
        if !self.peek()?.is_symbol('(') {
            return None;
        }
        let mut depth = 0_usize;
        for (i, token) in self.rest.iter().enumerate() {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inner = self.rest.get(1..i)?;
                self.rest = self.rest.get(i + 1..).unwrap_or_default();
                return Some(inner);
            }
        }
        None
    }
}

/// Cuts at commas outside brackets.
pub(super) fn split_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_i32;
    tokens
        .split(|token| {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth -= 1,
                _ => {}
            }
            depth == 0 && token.is_symbol(',')
        })
        .collect()
}
