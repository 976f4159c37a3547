//! Where the server is: one address, or several of servers that may take each other's place.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::error::{Error, Result};

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Host name or address.
    pub name: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// Addresses, of which one is used until it does not answer. Clones share which.
#[derive(Debug, Clone)]
pub struct Hosts {
    first: Host,
    others: Arc<[Host]>,
    /// Counts up; the address in use is its remainder.
    current: Arc<AtomicUsize>,
}

impl Hosts {
    /// One address.
    pub fn one(name: impl Into<String>, port: u16) -> Self {
        let name = name.into();
        Self::of(Host { name, port }, Vec::new())
    }

    fn of(first: Host, others: Vec<Host>) -> Self {
        Self {
            first,
            others: others.into(),
            current: Arc::default(),
        }
    }

    /// Reads `host`, `host:port`, `[address]:port`, several separated by commas; `port` for those that
    /// name none.
    ///
    /// # Errors
    /// An address is empty, or its port is no number.
    pub fn parse(text: &str, port: u16) -> Result<Self> {
        let mut hosts = text.split(',').map(|one| host(one.trim(), port));
        let first = hosts.next().unwrap_or_else(|| host("", port))?;
        Ok(Self::of(first, hosts.collect::<Result<_>>()?))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The address in use.
    pub fn current(&self) -> &Host {
        let at = self.current.load(Ordering::Relaxed) % self.count();
        let other = at.checked_sub(1).and_then(|at| self.others.get(at));
        other.unwrap_or(&self.first)
    }

    /// Goes on to the next address, unless somebody has done so since `failed` did not answer.
    pub fn pass_over(&self, failed: &Host) {
        let now = self.current.load(Ordering::Relaxed);
        if self.current() == failed {
            let (old, new) = (now, now.wrapping_add(1));
            // Whoever was faster went on for the same reason.
            let _ = self
                .current
                .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().try_for_each(|host| write!(f, ",{host}"))
    }
}

fn host(text: &str, port: u16) -> Result<Host> {
    let wrong = || {
        Error::definite(format!("`{text}` is not an address of a server"))
            .advice("Write host, host:port or [address]:port, several separated by commas")
    };
    let (name, own_port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (
            name,
            rest.strip_prefix(':')
                .or((!rest.is_empty()).then_some(rest)),
        ),
        // An address of IPv6 without brackets has more of them.
        None => match text.split_once(':') {
            Some((name, own_port)) if !own_port.contains(':') => (name, Some(own_port)),
            _ => (text, None),
        },
    };
    let port = match own_port {
        Some(own_port) => own_port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(wrong)?,
        None => port,
    };
    match name.trim() {
        "" => Err(wrong()),
        name => Ok(Host {
            name: name.to_owned(),
            port,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let shown = |text: &str| Hosts::parse(text, 3306).map(|hosts| hosts.to_string());
        assert_eq!(shown("db").unwrap(), "db:3306");
        assert_eq!(
            shown("a, b:3307 ,10.0.0.1").unwrap(),
            "a:3306,b:3307,10.0.0.1:3306"
        );
        assert_eq!(shown("::1").unwrap(), "[::1]:3306");
        assert_eq!(
            shown("[::1]:1,[fe80::2]").unwrap(),
            "[::1]:1,[fe80::2]:3306"
        );
        for wrong in ["", "a,", ",a", "a:x", "a:0", "a:70000", "[::1]x", ":3306"] {
            assert!(shown(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn one_that_does_not_answer_is_passed_over_once() {
        let hosts = Hosts::parse("a,b", 1).unwrap();
        let (same, a) = (hosts.clone(), hosts.current().clone());
        hosts.pass_over(&a);
        same.pass_over(&a);
        assert_eq!(same.current().name, "b");
        let b = same.current().clone();
        same.pass_over(&b);
        assert_eq!(hosts.current(), &a);
        let one = Hosts::one("a", 1);
        one.pass_over(&a);
        assert_eq!(one.current(), &a);
    }
}
