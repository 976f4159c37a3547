//! Logging in: what the account's plugin wants to see.
//!
//! Source: MySQL Internals, "Authentication Methods". `sha256_password` and `mysql_clear_password`
//! (encrypted only) are answered too, which `mysql_async` does not: a job, whose other connections
//! are its, meets them only once those can, too.

use std::panic::catch_unwind;

use mysql_async::{DriverError, Error};
use mysql_common::{
    crypto,
    io::ParseBuf,
    packets::{AuthPlugin, AuthSwitchRequest},
};

use super::conn::{WireConn, unexpected};

const OK: u8 = 0;
/// The plugin has more to say.
const MORE: u8 = 1;
/// The account has another plugin.
const SWITCH: u8 = 0xFE;

/// `caching_sha2_password`: the server had the account's hash at hand, and it is the right one.
const CACHED: u8 = 3;
/// It wants the password itself.
const WHOLE: u8 = 4;
/// Asks `caching_sha2_password` for the server's key.
const CACHING_SHA2_KEY: &[u8] = &[2];
/// Asks `sha256_password` for the server's key.
const SHA256_KEY: &[u8] = &[1];
const SHA256: &[u8] = b"sha256_password";

/// Answers whatever the server asks, until it lets us in. The first answer was in the login
/// packet.
pub(super) async fn prove(
    conn: &mut WireConn,
    password: &str,
    mut plugin: AuthPlugin<'static>,
    mut nonce: Vec<u8>,
) -> Result<(), Error> {
    let mut switched = false;
    loop {
        let packet = conn.packet().await?;
        let answer = match *packet {
            [OK, ..] => return Ok(()),
            // A server of old times: the plugin before all others.
            [SWITCH] => return Err(DriverError::MysqlOldPasswordDisabled.into()),
            [SWITCH, ..] if !switched => {
                switched = true;
                let request = ParseBuf(packet).parse::<AuthSwitchRequest<'_>>(())?;
                plugin = request.auth_plugin().into_owned();
                nonce = request.plugin_data().to_vec();
                Some(first_answer(
                    &plugin,
                    password,
                    &nonce,
                    conn.stream.is_secure(),
                )?)
            }
            [MORE, ref more @ ..] => {
                let more = more.to_vec();
                next_answer(conn, &plugin, password, &nonce, &more).await?
            }
            _ => return Err(unexpected(packet)),
        };
        if let Some(answer) = answer {
            conn.send(&answer).await?;
        }
    }
}

/// What a plugin that the server has switched to wants first.
fn first_answer(
    plugin: &AuthPlugin<'_>,
    password: &str,
    nonce: &[u8],
    secure: bool,
) -> Result<Vec<u8>, Error> {
    Ok(match plugin {
        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password | AuthPlugin::Ed25519 => {
            let proof = plugin.gen_data(Some(password), nonce);
            proof.map_or_else(Vec::new, |proof| proof.to_vec())
        }
        AuthPlugin::MysqlClearPassword if secure => terminated(password),
        AuthPlugin::MysqlClearPassword => return Err(DriverError::CleartextPluginDisabled.into()),
        AuthPlugin::MysqlOldPassword => return Err(DriverError::MysqlOldPasswordDisabled.into()),
        AuthPlugin::Other(name) if **name == *SHA256 => {
            if secure || password.is_empty() {
                terminated(password)
            } else {
                SHA256_KEY.to_vec()
            }
        }
        other => {
            return Err(DriverError::UnknownAuthPlugin {
                name: String::from_utf8_lossy(other.as_bytes()).into_owned(),
            }
            .into());
        }
    })
}

/// What a plugin wants that has asked for more; nothing when it only said so.
async fn next_answer(
    conn: &mut WireConn,
    plugin: &AuthPlugin<'_>,
    password: &str,
    nonce: &[u8],
    more: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    match (plugin, more) {
        (AuthPlugin::CachingSha2Password, [CACHED]) => Ok(None),
        (AuthPlugin::CachingSha2Password, [WHOLE]) if conn.stream.is_secure() => {
            Ok(Some(terminated(password)))
        }
        (AuthPlugin::CachingSha2Password, [WHOLE]) => {
            conn.send(CACHING_SHA2_KEY).await?;
            let packet = conn.packet().await?;
            let Some((&MORE, key)) = packet.split_first() else {
                return Err(unexpected(packet));
            };
            Ok(Some(encrypted(password, nonce, key)?))
        }
        (AuthPlugin::Other(name), key) if **name == *SHA256 => {
            Ok(Some(encrypted(password, nonce, key)?))
        }
        _ => Err(unexpected(more)),
    }
}

/// The password with a zero behind it.
fn terminated(password: &str) -> Vec<u8> {
    [password.as_bytes(), &[0]].concat()
}

/// The password for the holder of a key alone, mixed with the challenge, so that it cannot be sent
/// again.
fn encrypted(password: &str, nonce: &[u8], key: &[u8]) -> Result<Vec<u8>, Error> {
    if nonce.is_empty() {
        return Err(unexpected(key));
    }
    let mixed = terminated(password);
    let mixed = mixed.iter().zip(nonce.iter().cycle());
    let mixed: Vec<u8> = mixed.map(|(byte, nonce)| byte ^ nonce).collect();
    // The library panics where the key is none, or too short for the password.
    catch_unwind(|| crypto::encrypt(&mixed, key)).map_err(|_| unexpected(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_leave_only_encrypted() {
        let clear = AuthPlugin::MysqlClearPassword;
        assert!(first_answer(&clear, "secret", b"n", false).is_err());
        let answer = first_answer(&clear, "secret", b"n", true).unwrap();
        assert_eq!(answer, b"secret\0");
        let sha256 = AuthPlugin::Other(SHA256.into());
        assert_eq!(first_answer(&sha256, "secret", b"n", false).unwrap(), [1]);
        let answer = first_answer(&sha256, "secret", b"n", true).unwrap();
        assert_eq!(answer, b"secret\0");
        let old = AuthPlugin::MysqlOldPassword;
        assert!(first_answer(&old, "secret", b"n", true).is_err());
        let strange = AuthPlugin::Other(b"strange"[..].into());
        let error = first_answer(&strange, "secret", b"n", true).unwrap_err();
        assert!(error.to_string().contains("strange"), "{error}");
    }

    #[test]
    fn a_key_that_is_none_is_an_error() {
        assert!(encrypted("secret", b"12345678901234567890", b"no key").is_err());
        assert!(encrypted("secret", b"", b"no key").is_err());
    }
}
