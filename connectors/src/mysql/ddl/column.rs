//! Definitions of columns, as ADD, CHANGE and MODIFY have them.

use super::{Context, Place, cursor::Cursor, lexer::Token};
use crate::mysql::{
    collations::{charset_of, default_collation, full_name},
    table::{Generated, MysqlColumn},
};

/// A column as a statement defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// The column's name from now on.
    pub name: String,
    type_text: String,
    charset: Option<String>,
    collation: Option<String>,
    /// `BINARY`: the collation that compares codes.
    by_code: bool,
    comment: Option<String>,
    /// NULL or NOT NULL where the statement says so.
    null: Option<bool>,
    invisible: bool,
    pub auto_increment: bool,
    pub generated: Option<Generated>,
    /// Rows that are there get a value when the column is added.
    pub has_default: bool,
    /// PRIMARY KEY, or UNIQUE.
    pub primary: bool,
    pub unique: bool,
    /// An inline foreign key, which versions before 9 leave out.
    pub references: bool,
    pub place: Option<Place>,
}

/// Character set and collation in force for columns without their own.
pub(super) struct TableText<'a> {
    pub charset: &'a str,
    pub collation: &'a str,
}

impl Definition {
    /// `name type [attributes] [FIRST | AFTER name]`. An error says what is not understood, as a
    /// clause that follows "it".
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Self, String> {
        let name = cursor
            .next()
            .and_then(Token::name)
            .ok_or("has a column whose name cannot be read")?
            .to_owned();
        let mut found = Self {
            type_text: read_type(cursor)?,
            name,
            charset: None,
            collation: None,
            by_code: false,
            comment: None,
            null: None,
            invisible: false,
            auto_increment: false,
            generated: None,
            has_default: false,
            primary: false,
            unique: false,
            references: false,
            place: None,
        };
        if found.type_text.eq_ignore_ascii_case("serial") {
            found.auto_increment = true;
            found.unique = true;
            found.null = Some(false);
        }
        found.attributes(cursor)?;
        Ok(found)
    }

    fn attributes(&mut self, cursor: &mut Cursor<'_>) -> Result<(), String> {
        while let Some(token) = cursor.peek() {
            let Token::Word(word) = token else {
                return Err(unknown(&self.name, "a sign"));
            };
            // The table is partitioned anew behind its last clause; every row stays.
            let word_is = |own: &str| word.eq_ignore_ascii_case(own);
            if word_is("PARTITION") && cursor.then("BY")
                || word_is("REMOVE") && cursor.then("PARTITIONING")
            {
                break;
            }
            cursor.next();
            self.attribute(&word.to_ascii_uppercase(), cursor)?;
        }
        Ok(())
    }

    fn attribute(&mut self, word: &str, cursor: &mut Cursor<'_>) -> Result<(), String> {
        match word {
            "NULL" => self.null = Some(true),
            "NOT" if cursor.eat("NULL") => self.null = Some(false),
            "NOT" if cursor.eat("SECONDARY") => {}
            "DEFAULT" if cursor.eat("NULL") => {}
            "DEFAULT" => {
                self.has_default = true;
                skip_value(cursor)?;
            }
            "ON" if cursor.eat("UPDATE") => skip_value(cursor)?,
            "CHARACTER" if cursor.eat("SET") => self.charset = Some(word_value(cursor)?),
            "CHARSET" => self.charset = Some(word_value(cursor)?),
            "COLLATE" => self.collation = Some(word_value(cursor)?),
            "ASCII" => self.charset = Some("latin1".into()),
            "UNICODE" => self.charset = Some("ucs2".into()),
            "BINARY" => self.by_code = true,
            "COMMENT" => self.comment = Some(text_value(cursor)?),
            "VISIBLE" => self.invisible = false,
            "INVISIBLE" => self.invisible = true,
            "AUTO_INCREMENT" => self.auto_increment = true,
            "SERIAL" if cursor.eat_all(&["DEFAULT", "VALUE"]) => {
                self.auto_increment = true;
                self.unique = true;
                self.null = Some(false);
            }
            "PRIMARY" => {
                cursor.eat("KEY");
                self.primary = true;
            }
            // KEY alone is PRIMARY KEY.
            "KEY" => self.primary = true,
            "UNIQUE" => {
                cursor.eat("KEY");
                self.unique = true;
            }
            "COLUMN_FORMAT"
            | "STORAGE"
            | "ENGINE_ATTRIBUTE"
            | "SECONDARY_ENGINE_ATTRIBUTE"
            | "SRID"
            | "REF_SYSTEM_ID" => {
                word_value(cursor)?;
            }
            "CONSTRAINT" => {
                if !cursor.at("CHECK") {
                    cursor.next();
                }
            }
            "CHECK" => {
                cursor.bracketed();
                cursor.eat_all(&["NOT", "ENFORCED"]);
                cursor.eat("ENFORCED");
            }
            "REFERENCES" => {
                self.references = true;
                skip_reference(cursor);
            }
            "GENERATED" if cursor.eat_all(&["ALWAYS", "AS"]) => self.generated_as(cursor)?,
            "AS" => self.generated_as(cursor)?,
            "FIRST" => self.place = Some(Place::First),
            "AFTER" => {
                let after = cursor.next().and_then(Token::name);
                let after = after.ok_or("puts a column at a place that cannot be read")?;
                self.place = Some(Place::After(after.to_owned()));
            }
            other => return Err(unknown(&self.name, other)),
        }
        Ok(())
    }

    fn generated_as(&mut self, cursor: &mut Cursor<'_>) -> Result<(), String> {
        if cursor.bracketed().is_none() {
            return Err(unknown(&self.name, "AS"));
        }
        let stored = cursor.eat("STORED") || cursor.eat("PERSISTENT");
        cursor.eat("VIRTUAL");
        self.generated = Some(if stored {
            Generated::Stored
        } else {
            Generated::Virtual
        });
        Ok(())
    }

    /// Whether the column may hold NULL, as far as its own words say.
    pub fn nullable(&self, context: &Context<'_>) -> bool {
        let upper = self.type_text.to_ascii_uppercase();
        match self.null {
            // A column that numbers rows is never NULL, whatever it says.
            Some(null) => null && !self.primary && !self.auto_increment,
            None => {
                let is_instant = upper.starts_with("TIMESTAMP") && !context.timestamps_nullable;
                !(self.auto_increment || self.primary || is_instant && self.generated.is_none())
            }
        }
    }

    /// The column, in a table with this character set.
    pub fn column(
        &self,
        text: &TableText<'_>,
        context: &Context<'_>,
    ) -> Result<MysqlColumn, String> {
        let upper = self.type_text.to_ascii_uppercase();
        let national = ["NCHAR", "NATIONAL", "NVARCHAR"]
            .iter()
            .any(|word| upper.starts_with(word));
        let (charset, collation) = self.text(national, text, context);
        let real = upper.split(['(', ' ']).next() == Some("REAL");
        let type_text = match real && context.mode.real_as_float {
            true => format!("FLOAT{}", self.type_text.get(4..).unwrap_or_default()),
            false => self.type_text.clone(),
        };
        let mut column = MysqlColumn::from_definition(
            &self.name,
            &type_text,
            Some(&charset),
            Some(&collation),
            self.nullable(context),
            self.comment.as_deref(),
            context.types,
        )
        .map_err(|e| format!("has a column that cannot be read: {e}"))?;
        let is_list = matches!(column.data_type.as_str(), "enum" | "set");
        if is_list && !holds(&charset, &column.column_type) {
            return Err(format!(
                "has labels for column {} that its character set may not hold",
                self.name
            ));
        }
        column.invisible = self.invisible;
        column.generated = self.generated;
        column.auto_increment = self.auto_increment;
        Ok(column)
    }

    /// Character set and collation of the column's text.
    fn text(
        &self,
        national: bool,
        table: &TableText<'_>,
        context: &Context<'_>,
    ) -> (String, String) {
        let of_set = |charset: &str| {
            let collation = match (charset, self.by_code) {
                ("binary", _) => "binary".to_owned(),
                (charset, true) => format!("{charset}_bin"),
                (charset, false) => default_collation(charset, context.utf8mb4_collation)
                    .unwrap_or_default()
                    .to_owned(),
            };
            (charset.to_owned(), collation)
        };
        if let Some(collation) = &self.collation {
            let collation = full_name(collation);
            return (charset_of(&collation).to_owned(), collation);
        }
        match &self.charset {
            Some(charset) => of_set(&full_name(charset)),
            None if national => of_set("utf8mb3"),
            None if self.by_code => of_set(table.charset),
            None => (table.charset.to_owned(), table.collation.to_owned()),
        }
    }
}

/// Whether every character of a text surely is in a character set: others become `?`.
fn holds(charset: &str, text: &str) -> bool {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => true,
        "utf8mb3" | "ucs2" => text.chars().all(|char| char <= '\u{FFFF}'),
        _ => text.is_ascii(),
    }
}

fn unknown(name: &str, word: &str) -> String {
    format!("has words for column {name} that are not known ({word})")
}

/// The type as text, in the statement's own words.
fn read_type(cursor: &mut Cursor<'_>) -> Result<String, String> {
    let unreadable = "has a column whose type cannot be read";
    let Some(Token::Word(first)) = cursor.next() else {
        return Err(unreadable.into());
    };
    let mut text = first.clone();
    // Names of more than one word; CHARACTER SET is not among them.
    while let Some(Token::Word(word)) = cursor.peek() {
        let more = [
            "PRECISION",
            "VARYING",
            "VARCHAR",
            "VARBINARY",
            "VARCHARACTER",
            "BYTE",
        ];
        let character = ["CHAR", "CHARACTER"].iter().any(|own| cursor.at(own));
        if !(more.iter().any(|own| cursor.at(own)) || character && !cursor.then("SET")) {
            break;
        }
        text.push(' ');
        text.push_str(word);
        cursor.next();
    }
    if cursor.peek().is_some_and(|token| token.is_symbol('(')) {
        let is_list = text.eq_ignore_ascii_case("enum") || text.eq_ignore_ascii_case("set");
        let arguments = cursor.bracketed().ok_or(unreadable)?;
        text.push('(');
        for token in arguments {
            match token {
                Token::Text(label) if is_list => {
                    text.push('\'');
                    // The server cuts blanks at a label's end.
                    text.push_str(&label.trim_end_matches(' ').replace('\'', "''"));
                    text.push('\'');
                }
                Token::Number(number) if !is_list => text.push_str(number),
                Token::Symbol(',') => text.push(','),
                _ => return Err(unreadable.into()),
            }
        }
        text.push(')');
    }
    while let Some(Token::Word(word)) = cursor.peek() {
        // CHAR(10) BYTE is BINARY(10).
        let is_byte =
            word.eq_ignore_ascii_case("BYTE") && text.to_ascii_uppercase().starts_with("CHAR");
        if is_byte {
            let arguments = text.split_once('(').map(|(_, rest)| rest.to_owned());
            text = match arguments {
                Some(arguments) => format!("binary({arguments}"),
                None => "binary".into(),
            };
        } else if ["UNSIGNED", "SIGNED", "ZEROFILL"]
            .iter()
            .any(|own| cursor.at(own))
        {
            text.push(' ');
            text.push_str(word);
        } else {
            break;
        }
        cursor.next();
    }
    Ok(text)
}

/// `[=] value` in lower case: a name, a number or a text.
pub(super) fn word_value(cursor: &mut Cursor<'_>) -> Result<String, String> {
    cursor.eat_symbol('=');
    match cursor.next() {
        Some(Token::Text(text) | Token::Number(text)) => Ok(text.to_ascii_lowercase()),
        Some(Token::Word(name) | Token::Name(name)) => Ok(name.to_ascii_lowercase()),
        _ => Err("has a clause that is not known".into()),
    }
}

/// `[=] 'text'`.
pub(super) fn text_value(cursor: &mut Cursor<'_>) -> Result<String, String> {
    cursor.eat_symbol('=');
    match cursor.next() {
        Some(Token::Text(text)) => Ok(text.clone()),
        _ => Err("has a comment that cannot be read".into()),
    }
}

/// A default: a literal, a function or an expression in brackets.
fn skip_value(cursor: &mut Cursor<'_>) -> Result<(), String> {
    while cursor.eat_symbol('-') || cursor.eat_symbol('+') || cursor.eat_symbol('.') {}
    if cursor.bracketed().is_some() {
        return Ok(());
    }
    match cursor.next() {
        Some(Token::Word(word)) => {
            // b'01', x'AB', _latin1'a', DATE '…', NOW(6)
            let introduces = matches!(cursor.peek(), Some(Token::Text(_)));
            if introduces {
                cursor.next();
            } else if word
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_digit())
            {
                skip_fraction(cursor);
            } else {
                cursor.bracketed();
            }
        }
        Some(Token::Number(_)) => skip_fraction(cursor),
        Some(Token::Text(_)) => {
            while matches!(cursor.peek(), Some(Token::Text(_))) {
                cursor.next();
            }
        }
        _ => return Err("has a default that cannot be read".into()),
    }
    Ok(())
}

/// What follows the first digits of a number: `.5`, `e-3`.
fn skip_fraction(cursor: &mut Cursor<'_>) {
    if cursor.eat_symbol('.') {
        match cursor.peek() {
            Some(Token::Number(_)) => {
                cursor.next();
            }
            Some(Token::Word(word)) if word.bytes().next().is_some_and(|b| b.is_ascii_digit()) => {
                cursor.next();
            }
            _ => {}
        }
    }
    if cursor.eat_symbol('-') || cursor.eat_symbol('+') {
        cursor.next();
    }
}

/// `REFERENCES table (columns) [MATCH …] [ON DELETE …] [ON UPDATE …]`.
fn skip_reference(cursor: &mut Cursor<'_>) {
    cursor.qualified("");
    cursor.bracketed();
    loop {
        if cursor.eat("MATCH") {
            cursor.next();
        } else if cursor.eat("ON") {
            cursor.next();
            if !(cursor.eat_all(&["SET", "NULL"])
                || cursor.eat_all(&["SET", "DEFAULT"])
                || cursor.eat_all(&["NO", "ACTION"]))
            {
                cursor.next();
            }
        } else {
            return;
        }
    }
}
