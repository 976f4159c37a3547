//! Definitions of added columns.

use super::{Context, Place, cursor::Cursor, lexer::Token};
use crate::mysql::table::{MysqlColumn, MysqlTable};

/// What follows a column's type.
#[derive(Default)]
struct Attributes {
    charset: Option<String>,
    collation: Option<String>,
    comment: Option<String>,
    invisible: bool,
    null: bool,
    place: Option<Place>,
}

/// `name type [attributes] [FIRST | AFTER name]`. An error is the reason to refuse.
pub(super) fn read_column(
    cursor: &mut Cursor<'_>,
    table: &MysqlTable,
    context: &Context<'_>,
) -> Result<(MysqlColumn, Place), String> {
    let name = cursor
        .next()
        .and_then(Token::name)
        .ok_or("adds a column whose name cannot be read")?
        .to_owned();
    let type_text = read_type(cursor)?;
    let upper = type_text.to_ascii_uppercase();
    if upper.starts_with("SERIAL") {
        return Err(format!("adds column {name} with AUTO_INCREMENT"));
    }
    let attributes = read_attributes(cursor, &name)?;
    if upper.starts_with("TIMESTAMP") && !attributes.null && !context.timestamps_nullable {
        return Err(format!("adds column {name} with a default"));
    }
    let national = upper.starts_with('N')
        && ["NCHAR", "NATIONAL", "NVARCHAR"]
            .iter()
            .any(|word| upper.starts_with(word));
    let (charset, collation) = charset_of(&attributes, national, table);
    let mut column = MysqlColumn::from_definition(
        &name,
        &type_text,
        Some(&charset),
        collation.as_deref(),
        true,
        attributes.comment.as_deref(),
        context.types,
    )
    .map_err(|e| format!("adds a column that cannot be read: {e}"))?;
    column.invisible = attributes.invisible;
    Ok((column, attributes.place.unwrap_or(Place::Last)))
}

/// The character set in force, and the collation when it is known.
fn charset_of(
    attributes: &Attributes,
    national: bool,
    table: &MysqlTable,
) -> (String, Option<String>) {
    let full = |name: &str| match name {
        "utf8" => "utf8mb3".to_owned(),
        other => other.to_owned(),
    };
    match (&attributes.charset, &attributes.collation) {
        (Some(charset), collation) => (full(charset), collation.clone()),
        (None, Some(collation)) => {
            let charset = collation.split('_').next().unwrap_or(collation);
            (full(charset), Some(collation.clone()))
        }
        (None, None) if national => ("utf8mb3".into(), None),
        (None, None) => (table.charset.clone(), Some(table.collation.clone())),
    }
}

/// The type as text, in the statement's own words.
fn read_type(cursor: &mut Cursor<'_>) -> Result<String, String> {
    let unreadable = "adds a column whose type cannot be read";
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
        let arguments = cursor.bracketed().ok_or(unreadable)?;
        text.push('(');
        for token in arguments {
            match token {
                Token::Text(label) => {
                    text.push('\'');
                    text.push_str(&label.replace('\'', "''"));
                    text.push('\'');
                }
                Token::Number(number) => text.push_str(number),
                Token::Symbol(',') => text.push(','),
                _ => return Err(unreadable.into()),
            }
        }
        text.push(')');
    }
    while let Some(Token::Word(word)) = cursor.peek() {
        if !["UNSIGNED", "SIGNED", "ZEROFILL"]
            .iter()
            .any(|own| cursor.at(own))
        {
            break;
        }
        text.push(' ');
        text.push_str(word);
        cursor.next();
    }
    Ok(text)
}

fn read_attributes(cursor: &mut Cursor<'_>, name: &str) -> Result<Attributes, String> {
    let mut found = Attributes::default();
    while let Some(token) = cursor.next() {
        let Token::Word(word) = token else {
            return Err(format!("adds column {name} with words that are not known"));
        };
        match word.to_ascii_uppercase().as_str() {
            "NULL" => found.null = true,
            "NOT" if cursor.eat("NULL") => {
                return Err(format!(
                    "adds column {name} as NOT NULL: old rows get a value"
                ));
            }
            "DEFAULT" if cursor.eat("NULL") => {}
            "DEFAULT" => return Err(format!("adds column {name} with a default")),
            "CHARACTER" if cursor.eat("SET") => found.charset = Some(value(cursor)?),
            "CHARSET" => found.charset = Some(value(cursor)?),
            "COLLATE" => found.collation = Some(value(cursor)?),
            "ASCII" => found.charset = Some("latin1".into()),
            "UNICODE" => found.charset = Some("ucs2".into()),
            "COMMENT" => found.comment = Some(value(cursor)?),
            "VISIBLE" => found.invisible = false,
            "INVISIBLE" => found.invisible = true,
            "COLUMN_FORMAT"
            | "STORAGE"
            | "ENGINE_ATTRIBUTE"
            | "SECONDARY_ENGINE_ATTRIBUTE"
            | "SRID" => {
                value(cursor)?;
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
            "FIRST" => found.place = Some(Place::First),
            "AFTER" => {
                let after = cursor.next().and_then(Token::name);
                let after = after.ok_or("adds a column at a place that cannot be read")?;
                found.place = Some(Place::After(after.to_owned()));
            }
            // The table is partitioned anew behind its last clause; every row stays.
            "PARTITION" if cursor.at("BY") => break,
            "AUTO_INCREMENT" => return Err(format!("adds column {name} with AUTO_INCREMENT")),
            "PRIMARY" | "KEY" | "UNIQUE" => {
                return Err(format!("adds column {name} as a key"));
            }
            "GENERATED" | "AS" => return Err(format!("adds generated column {name}")),
            "REFERENCES" => return Err(format!("adds column {name} with a foreign key")),
            other => {
                return Err(format!(
                    "adds column {name} with a word that is not known ({other})"
                ));
            }
        }
    }
    Ok(found)
}

/// `[=] value` as text in lower case where it is a name.
fn value(cursor: &mut Cursor<'_>) -> Result<String, String> {
    cursor.eat_symbol('=');
    match cursor.next() {
        Some(Token::Text(text) | Token::Number(text)) => Ok(text.clone()),
        Some(Token::Word(name) | Token::Name(name)) => Ok(name.to_ascii_lowercase()),
        _ => Err("has a clause that is not known".into()),
    }
}
