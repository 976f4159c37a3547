//! The text of a column's type, cut into its parts.

/// A type's text cut into name, arguments and what follows.
pub(crate) struct Spelling {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) unsigned: bool,
    pub(super) zerofill: bool,
}

impl Spelling {
    /// Cuts the text of a type; knows nothing of types.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (name, arguments, tail) = match text.split_once('(') {
            Some((name, rest)) => {
                let (arguments, tail) = read_arguments(rest)?;
                (name, arguments, tail)
            }
            None => (text, Vec::new(), ""),
        };
        let mut words: Vec<String> = name
            .split_ascii_whitespace()
            .map(str::to_ascii_lowercase)
            .collect();
        let mut unsigned = false;
        let mut zerofill = false;
        let mut attribute = |word: &str| match word {
            "unsigned" => {
                unsigned = true;
                true
            }
            "zerofill" => {
                // Every ZEROFILL column is unsigned.
                (unsigned, zerofill) = (true, true);
                true
            }
            "signed" => true,
            _ => false,
        };
        words.retain(|word| !attribute(word));
        for word in tail.split_ascii_whitespace() {
            attribute(&word.to_ascii_lowercase());
        }
        // Words that say a character set or are attributes, not part of the type's name.
        if let Some(at) = words.iter().position(|word| {
            matches!(
                word.as_str(),
                "charset" | "collate" | "ascii" | "unicode" | "srid" | "null" | "not"
            )
        }) {
            words.truncate(at);
        }
        if let Some(at) = words.iter().position(|word| word == "set")
            && at > 1
        {
            words.truncate(at - 1);
        }
        Ok(Self {
            name: words.join(" "),
            arguments,
            unsigned,
            zerofill,
        })
    }

    /// `TEXT(n)` and `BLOB(n)` are the smallest type that has room for so many characters, each of
    /// at most so many bytes. Source: MySQL manual, "The BLOB and TEXT Types".
    pub(super) fn with_room(mut self, bytes_each: u32) -> Result<Self, String> {
        if !matches!(self.name.as_str(), "text" | "blob") || self.arguments.is_empty() {
            return Ok(self);
        }
        let bytes = u64::from(self.number(0, 0)?) * u64::from(bytes_each);
        let size = match bytes {
            0 => "",
            1..=0xff => "tiny",
            0x100..=0xffff => "",
            0x1_0000..=0xff_ffff => "medium",
            _ => "long",
        };
        self.name = format!("{size}{}", self.name);
        Ok(self)
    }

    /// An argument as a number, or the default where there is none.
    pub(super) fn number(&self, index: usize, default: u32) -> Result<u32, String> {
        match self.arguments.get(index) {
            None => Ok(default),
            Some(argument) => argument
                .parse()
                .map_err(|_| format!("'{argument}' is not a number")),
        }
    }
}

/// Reads what stands in the brackets, quoted labels or plain words, and gives the text behind.
fn read_arguments(text: &str) -> Result<(Vec<String>, &str), String> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut quote: Option<char> = None;
    let mut quoted = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match quote {
            Some(end) if char == end => {
                // A doubled quote is one quote.
                if chars.next_if(|(_, next)| *next == end).is_some() {
                    current.push(end);
                } else {
                    quote = None;
                }
            }
            Some(_) => current.push(char),
            None => match char {
                '\'' | '"' => {
                    quote = Some(char);
                    quoted = true;
                }
                ',' | ')' => {
                    let plain = std::mem::take(&mut current);
                    let argument = if quoted {
                        plain
                    } else {
                        plain.trim().to_owned()
                    };
                    if quoted || !argument.is_empty() {
                        arguments.push(argument);
                    }
                    quoted = false;
                    if char == ')' {
                        return Ok((arguments, text.get(at + 1..).unwrap_or_default()));
                    }
                }
                char if quoted && char.is_whitespace() => {}
                char if quoted => return Err(format!("'{char}' after a label")),
                char => {
                    if !(current.is_empty() && char.is_whitespace()) {
                        current.push(char);
                    }
                }
            },
        }
    }
    Err("a bracket is not closed".into())
}
