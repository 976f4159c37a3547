//! Clients of the readers that we did not write: Java Paimon as a server, pypaimon as a program.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use super::script;

struct JavaServer {
    port: u16,
    /// Ends when its input does, that is with this process.
    _child: Child,
}

/// An answer of the Java oracle.
#[derive(Debug)]
pub struct Answer {
    /// False: a difference or a problem was found, and the text says which.
    pub good: bool,
    pub text: String,
}

/// Calls a verb of `tests/oracle/oracle.sh`; panics when the verb fails.
pub fn java(verb: &str, args: &[&str], input: &str) -> Answer {
    try_java(verb, args, input).unwrap_or_else(|e| panic!("oracle {verb} {args:?}: {e}"))
}

/// As [`java`], with the error as text.
pub fn try_java(verb: &str, args: &[&str], input: &str) -> Result<Answer, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", java_port())).unwrap();
    let body = format!("{}\n{input}", serde_json::to_string(args).unwrap());
    write!(
        stream,
        "POST /{verb} HTTP/1.1\r\nHost: oracle\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, text) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    let answer = |good| Answer {
        good,
        text: text.to_owned(),
    };
    match status {
        "200" => Ok(answer(true)),
        "409" => Ok(answer(false)),
        _ => Err(text.to_owned()),
    }
}

fn java_port() -> u16 {
    static SERVER: OnceLock<JavaServer> = OnceLock::new();
    SERVER
        .get_or_init(|| {
            let mut child = Command::new(script("oracle/oracle.sh"))
                .args(["serve", "0"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            JavaServer {
                port: line.trim().parse().expect("the oracle did not start"),
                _child: child,
            }
        })
        .port
}

/// Which Python reader.
#[derive(Debug, Clone, Copy)]
pub enum PythonReader {
    /// pypaimon
    Pure,
    /// pypaimon-rust
    Rust,
}

/// The sorted canonical lines of each table, by a reader in Python.
pub fn python(reader: PythonReader, warehouse: &str, tables: &[String]) -> Vec<Vec<String>> {
    python_within(reader, warehouse, tables, 3600).expect("pypaimon took more than an hour")
}

/// As [`python`], or `None` if it takes more seconds than that: pypaimon can take minutes for a
/// small table.
pub fn python_within(
    reader: PythonReader,
    warehouse: &str,
    tables: &[String],
    seconds: u64,
) -> Option<Vec<Vec<String>>> {
    let name = match reader {
        PythonReader::Pure => "python",
        PythonReader::Rust => "rust",
    };
    let output = Command::new("timeout")
        .arg(seconds.to_string())
        .arg(script("pypaimon/read.sh"))
        .args(["--reader", name, warehouse])
        .args(tables)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.code() == Some(124) {
        return None;
    }
    assert!(
        output.status.success(),
        "pypaimon ({name}) {tables:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut all: Vec<Vec<String>> = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if line.starts_with("# ") {
            all.push(Vec::new());
        } else {
            all.last_mut().unwrap().push(line.to_owned());
        }
    }
    assert_eq!(all.len(), tables.len());
    Some(all)
}
