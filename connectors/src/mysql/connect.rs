//! Connections: session settings, the server's identity, and what its errors mean.

use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder, SslOpts, prelude::Queryable};
use mysql_common::proto::codec::error::PacketCodecError;

use super::{
    hosts::Host,
    options::{MysqlOptions, Tls},
    versions::Version,
};
use crate::error::{Error, Result};

/// Who answers on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// `@@server_uuid`.
    pub uuid: String,
    /// `@@server_id`.
    pub server_id: u32,
    /// `@@version`.
    pub version: String,
    /// The version in numbers.
    pub numbers: Version,
    /// Whether transactions have GTIDs (`gtid_mode=ON`).
    pub gtid: bool,
    /// `@@lower_case_table_names` is not 0: names of databases and tables compare without case.
    pub fold_names: bool,
}

/// Time after which the system asks whether a silent server is still there.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long one of several servers may take to answer: another may be there.
const SEVERAL_PATIENCE: Duration = Duration::from_secs(3);
/// Longest packet: the most that a server can be told to send.
pub(super) const PACKET_BYTES_MAX: usize = 1 << 30;

/// What every statement of ours relies on. Same values for snapshot and tail: a row reads the
/// same whatever the server's own settings are.
///
/// MariaDB has another name for the longest time of a statement; each server skips the comment that
/// is for the other. It gets these before it is asked who it is, and must not refuse one.
pub(super) const SETTINGS: [&str; 6] = [
    "SET NAMES utf8mb4",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_mode = ''",
    "SET SESSION net_write_timeout = 3600, net_read_timeout = 3600, wait_timeout = 86400",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION autocommit = 1 /*!50708 , max_execution_time = 0 */ \
     /*M!100101 , max_statement_time = 0 */",
];

fn opts(options: &MysqlOptions) -> Opts {
    let host = options.hosts.current();
    let tls = match options.tls {
        Tls::Off => None,
        Tls::Verified => Some(SslOpts::default()),
        Tls::Unverified => Some(
            SslOpts::default()
                .with_danger_accept_invalid_certs(true)
                .with_danger_skip_domain_validation(true),
        ),
    };
    OptsBuilder::default()
        .ip_or_hostname(host.name.clone())
        .tcp_port(host.port)
        .user(Some(options.username.clone()))
        .pass(Some(options.password.reveal()))
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEPALIVE))
        .max_allowed_packet(Some(PACKET_BYTES_MAX))
        .wait_timeout(Some(86_400))
        .stmt_cache_size(32)
        .ssl_opts(tls)
        .setup(SETTINGS.map(str::to_owned).to_vec())
        .into()
}

/// Opens a connection; tries again where that can help.
pub(super) async fn connect(options: &MysqlOptions) -> Result<Conn> {
    retrying(options, || Conn::new(opts(options))).await
}

/// Opens a connection by `open`; tries again where that can help, at the next address at once.
pub(super) async fn retrying<C, F>(options: &MysqlOptions, open: impl Fn() -> F) -> Result<C>
where
    F: Future<Output = Result<C, mysql_async::Error>>,
{
    let hosts = &options.hosts;
    let mut tries = 0;
    loop {
        // Each address once, then a pause.
        for last in (0..hosts.count()).rev().map(|left| left == 0) {
            let host = hosts.current().clone();
            let error = match once(options, &host, open()).await {
                Err(error) => error,
                opened => return opened,
            };
            if last && (!error.is_transient() || tries >= options.connect_max_retries) {
                return Err(error);
            }
            hosts.pass_over(&host);
            tracing::warn!(%error, next = %hosts.current(), tries = tries + 1, "cannot connect to MySQL, trying again");
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(200 << tries.min(5))).await;
    }
}

async fn once<C>(
    options: &MysqlOptions,
    host: &Host,
    opened: impl Future<Output = Result<C, mysql_async::Error>>,
) -> Result<C> {
    let place = format!("{}@{host}", options.username);
    let patience = match options.hosts.count() {
        1 => options.connect_timeout,
        _ => options.connect_timeout.min(SEVERAL_PATIENCE),
    };
    match tokio::time::timeout(patience, opened).await {
        Ok(Ok(conn)) => Ok(conn),
        Ok(Err(e)) => Err(failed(&format!("cannot connect to MySQL as {place}"), e)),
        Err(_) => Err(Error::transient(format!(
            "no answer from MySQL at {host} within {patience:?}"
        ))),
    }
}

/// Opens a connection and asks who answers.
pub(super) async fn connect_known(options: &MysqlOptions) -> Result<(Conn, Identity)> {
    let mut conn = connect(options).await?;
    let identity = identity(&mut conn).await?;
    Ok((conn, identity))
}

/// Asks who answers: the values of an [`IdentityRow`].
pub(super) const IDENTITY: &str = "SELECT @@server_uuid, @@server_id, @@version, \
                                   @@lower_case_table_names, @@global.gtid_mode";
/// What [`IDENTITY`] gives.
pub(super) type IdentityRow = (String, u32, String, u32, String);

/// Asks who answers.
pub(super) async fn identity(conn: &mut Conn) -> Result<Identity> {
    match query_first::<IdentityRow>(conn, IDENTITY).await {
        Err(error) if !error.is_transient() => {
            let version: Option<String> = query_first(conn, "SELECT VERSION()").await?;
            Err(not_mysql(&version.unwrap_or_default()).unwrap_or(error))
        }
        row => Identity::new(row?, conn.server_version()),
    }
}

/// Why a server that does not say who it is cannot be read, if its version tells.
pub(super) fn not_mysql(version: &str) -> Option<Error> {
    let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
    is_mariadb.then(|| {
        let version = shorten(version, 60);
        Error::definite(format!(
            "this server is MariaDB ({version}), which is not supported yet"
        ))
        .advice("Connect to a MySQL server: MariaDB's GTIDs and log are of another form")
    })
}

impl Identity {
    /// Who gave this row.
    pub(super) fn new(row: Option<IdentityRow>, numbers: Version) -> Result<Self> {
        let (uuid, server_id, version, fold, mode) =
            row.ok_or_else(|| Error::transient("MySQL does not say who it is"))?;
        Ok(Self {
            uuid,
            server_id,
            version,
            numbers,
            gtid: mode == "ON",
            fold_names: fold != 0,
        })
    }
}

/// The first row of a statement.
pub(super) async fn query_first<T>(conn: &mut Conn, sql: &str) -> Result<Option<T>>
where
    T: mysql_async::prelude::FromRow + Send + 'static,
{
    conn.query_first(sql)
        .await
        .map_err(|e| failed(&format!("MySQL refused '{}'", shorten(sql, 120)), e))
}

/// All rows of a statement.
pub(super) async fn query<T>(conn: &mut Conn, sql: &str) -> Result<Vec<T>>
where
    T: mysql_async::prelude::FromRow + Send + 'static,
{
    conn.query(sql)
        .await
        .map_err(|e| failed(&format!("MySQL refused '{}'", shorten(sql, 120)), e))
}

/// A statement without a result.
pub(super) async fn execute(conn: &mut Conn, sql: &str) -> Result<()> {
    conn.query_drop(sql)
        .await
        .map_err(|e| failed(&format!("MySQL refused '{}'", shorten(sql, 120)), e))
}

/// Text cut to `max` characters, on one line, control characters spelled out.
pub(super) fn shorten(text: &str, max: usize) -> String {
    let mut short: String = text
        .chars()
        .take(max)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(max).is_some() {
        short.push('…');
    }
    short
}

/// Turns an error of the library into ours. What a person must mend is definite: accounts,
/// privileges, names, statements; networks and servers that come and go are transient.
pub(super) fn failed(what: &str, error: mysql_async::Error) -> Error {
    use mysql_async::{DriverError, Error as E};
    let (definite, advice) = match &error {
        E::Server(server) => server_error(server.code),
        E::Driver(DriverError::UnknownAuthPlugin { .. }) => {
            // A server also asks for a strange plugin where the account does not exist.
            let advice = "Check user name and host: either the server has no such account, or it \
                          uses an authentication plugin that is not supported";
            (true, Some(advice))
        }
        E::Driver(DriverError::NoClientSslFlagFromServer) => (
            true,
            Some("The server offers no TLS: turn it off in the job"),
        ),
        E::Driver(
            DriverError::FromValue { .. }
            | DriverError::FromRow { .. }
            | DriverError::PacketTooLarge,
        ) => (true, None),
        E::Url(_) => (true, None),
        E::Io(mysql_async::IoError::Io(io)) if is_too_large(io) => (
            true,
            Some("Raise max_allowed_packet of the server, or make the row smaller"),
        ),
        E::Io(mysql_async::IoError::Tls(_)) => (
            true,
            Some("TLS failed: check the server's certificate and the job's TLS setting"),
        ),
        E::Io(mysql_async::IoError::Io(io)) if is_unknown_host(io) => {
            (true, Some("Check the host name"))
        }
        _ => (false, None),
    };
    let made = if definite {
        Error::definite(what)
    } else {
        Error::transient(what)
    };
    // The library says "Input/output error" twice before it says which.
    let made = match error {
        E::Io(mysql_async::IoError::Io(io)) => made.cause(io),
        error => made.cause(error),
    };
    match advice {
        Some(advice) => made.advice(advice),
        None => made,
    }
}

/// The library's own error for a packet, which it hides in an I/O error.
pub(super) fn codec_error(error: &std::io::Error) -> Option<&PacketCodecError> {
    error.get_ref()?.downcast_ref()
}

fn is_too_large(error: &std::io::Error) -> bool {
    matches!(codec_error(error), Some(PacketCodecError::PacketTooLarge))
}

/// A name that no resolver knows; a resolver that does not answer is another matter.
fn is_unknown_host(error: &std::io::Error) -> bool {
    let text = error.to_string();
    text.contains("failed to lookup address") && !text.contains("Temporary failure")
        || text.contains("Name or service not known")
}

/// Source of the numbers: MySQL error reference, server error messages.
fn server_error(code: u16) -> (bool, Option<&'static str>) {
    match code {
        // Too many connections, server shutdown, lock wait, deadlock, killed, no resources, …
        1040
        | 1041
        | 1053
        | 1077
        | 1079
        | 1080
        | 1105
        | 1129
        | 1135
        | 1152
        | 1158..=1161
        | 1184
        | 1203
        | 1205
        | 1213
        | 1226
        | 1317
        | 1836
        | 1927
        | 2006
        | 2013
        | 3024
        | 3032
        | 3169 => (false, None),
        1045 | 1698 => (true, Some("Check user name and password")),
        1044 | 1142 | 1143 | 1227 | 3118 => (
            true,
            Some("The account lacks a privilege: `headwater check` names it and the GRANT to run"),
        ),
        1049 | 1146 => (true, Some("Check the name: the server does not have it")),
        1130 => (
            true,
            Some("The server does not let this host connect with this account"),
        ),
        _ => (true, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_trying_again_helps() {
        let server = |code| {
            failed(
                "x",
                mysql_async::Error::Server(mysql_async::ServerError {
                    code,
                    message: "m".into(),
                    state: "HY000".into(),
                }),
            )
        };
        assert!(!server(1045).is_transient() && server(1045).advice_text().is_some());
        assert!(server(1040).is_transient() && server(1053).is_transient());
        assert!(!server(1142).is_transient());
        let codec = |error| failed("x", mysql_async::Error::from(error));
        assert!(!codec(PacketCodecError::PacketTooLarge).is_transient());
        assert!(codec(PacketCodecError::PacketsOutOfSync).is_transient());
        let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(failed("x", mysql_async::Error::from(io)).is_transient());
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(shorten("añb\nc", 4), "añb …");
        assert_eq!(shorten("ab", 2), "ab");
    }
}
