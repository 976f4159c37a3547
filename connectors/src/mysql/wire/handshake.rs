//! Opening a connection: greeting, encryption, login, settings.

use mysql_async::{DriverError, Error, consts::CapabilityFlags};
use mysql_common::{
    constants::{DEFAULT_MAX_ALLOWED_PACKET, UTF8MB4_GENERAL_CI},
    io::ParseBuf,
    packets::{AuthPlugin, HandshakePacket, HandshakeResponse, SslRequest},
    proto::{MySerialize, codec::error::PacketCodecError},
};

use super::{auth, conn::WireConn, stream::Stream};
use crate::{
    error::Result,
    mysql::{
        connect::{self, Identity, KEEPALIVE, PACKET_BYTES_MAX, SETTINGS},
        hosts::Host,
        options::{MysqlOptions, Tls},
    },
};

/// Bytes of the server's challenge, without the zero behind them.
const NONCE_BYTES: usize = 20;

/// Opens a connection and asks who answers; tries again where that can help.
pub(in crate::mysql) async fn connect_known(
    options: &MysqlOptions,
) -> Result<(WireConn, Identity)> {
    let mut conn = connect::retrying(options, || open(options)).await?;
    let identity = identity(&mut conn).await?;
    Ok((conn, identity))
}

/// Asks who answers.
async fn identity(conn: &mut WireConn) -> Result<Identity> {
    let numbers = conn.server_version();
    match conn.first(connect::IDENTITY).await {
        Err(error) if !error.is_transient() => {
            let version = conn.first("SELECT VERSION()").await?;
            let version = version.and_then(|row| row.into_iter().next().flatten());
            Err(connect::not_mysql(&version.unwrap_or_default()).unwrap_or(error))
        }
        Err(error) => Err(error),
        Ok(row) => {
            let mut row = row
                .unwrap_or_default()
                .into_iter()
                .map(Option::unwrap_or_default);
            let mut next = || row.next().unwrap_or_default();
            let (uuid, server_id, version) = (next(), next(), next());
            let (fold, mode) = (next(), next());
            let row = server_id.parse().ok().zip(fold.parse().ok());
            let row = row.map(|(server_id, fold)| (uuid, server_id, version, fold, mode));
            Identity::new(row, numbers)
        }
    }
}

/// Opens a connection, logs in and makes the session's settings.
async fn open(options: &MysqlOptions) -> Result<WireConn, Error> {
    let host = options.hosts.current();
    let stream = Stream::open(&host.name, host.port, KEEPALIVE).await?;
    let mut conn = WireConn::new(stream);
    let (plugin, nonce) = greeted(&mut conn, options.tls).await?;
    if options.tls != Tls::Off {
        secure(&mut conn, options, host).await?;
    }
    login(&mut conn, options, plugin, nonce).await?;
    conn.settle();
    for statement in SETTINGS {
        conn.query_first(statement).await?;
    }
    Ok(conn)
}

/// Reads the server's greeting: how it would have us log in, and its challenge.
async fn greeted(conn: &mut WireConn, tls: Tls) -> Result<(AuthPlugin<'static>, Vec<u8>), Error> {
    let wanted = match tls {
        Tls::Off => wanted(),
        _ => wanted() | CapabilityFlags::CLIENT_SSL,
    };
    let packet = conn.packet().await?;
    let greeting = ParseBuf(packet).parse::<HandshakePacket<'_>>(())?;
    // The server fills up a shorter one with zeros, too.
    let mut nonce = greeting.scramble_1_ref().to_vec();
    nonce.extend_from_slice(greeting.scramble_2_ref().unwrap_or_default());
    nonce.resize(NONCE_BYTES, 0);
    // Others are asked for by a switch.
    let plugin = match greeting.auth_plugin() {
        Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
        _ => AuthPlugin::MysqlNativePassword,
    };
    let version = greeting
        .maria_db_server_version_parsed()
        .or_else(|| greeting.server_version_parsed())
        .unwrap_or_default();
    let can = greeting.capabilities() & wanted;
    if tls != Tls::Off && !can.contains(CapabilityFlags::CLIENT_SSL) {
        return Err(DriverError::NoClientSslFlagFromServer.into());
    }
    // The server does not know them before the login, and writes errors without them.
    conn.offered = can;
    conn.version = version;
    Ok((plugin, nonce))
}

/// What we can do. Not more than one statement at a time, nor files of ours.
fn wanted() -> CapabilityFlags {
    CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_LONG_PASSWORD
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_DEPRECATE_EOF
        | CapabilityFlags::CLIENT_PLUGIN_AUTH
}

async fn secure(conn: &mut WireConn, options: &MysqlOptions, host: &Host) -> Result<(), Error> {
    // Whoever sends more now wants it to be taken for what comes encrypted.
    if !conn.frames.is_empty() {
        return Err(PacketCodecError::PacketsOutOfSync.into());
    }
    let bytes_max = DEFAULT_MAX_ALLOWED_PACKET as u32;
    let request = SslRequest::new(conn.offered, bytes_max, UTF8MB4_GENERAL_CI as u8);
    let mut payload = Vec::new();
    request.serialize(&mut payload);
    conn.send(&payload).await?;
    let verified = options.tls == Tls::Verified;
    conn.stream.secure(&host.name, verified).await
}

async fn login(
    conn: &mut WireConn,
    options: &MysqlOptions,
    plugin: AuthPlugin<'static>,
    nonce: Vec<u8>,
) -> Result<(), Error> {
    let password = options.password.reveal();
    let proof = plugin.gen_data(Some(password), &nonce);
    let response = HandshakeResponse::new(
        proof.as_deref(),
        conn.version,
        Some(options.username.as_bytes()),
        None::<&[u8]>,
        Some(plugin.borrow()),
        conn.offered,
        None,
        PACKET_BYTES_MAX as u32,
    );
    let mut payload = Vec::new();
    response.serialize(&mut payload);
    conn.send(&payload).await?;
    conn.capabilities = conn.offered;
    auth::prove(conn, password, plugin, nonce).await
}
