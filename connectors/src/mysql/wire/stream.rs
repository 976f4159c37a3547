//! The bytes of a connection, plain or encrypted.

use std::{io, time::Duration};

use mysql_async::Error;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use super::tls;

/// A connection's bytes.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// While one turns into the other, and after that has failed.
    Gone,
}

impl Stream {
    /// Opens a connection; the system asks after a silent server every `keepalive`.
    pub(super) async fn open(host: &str, port: u16, keepalive: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect((host, port)).await?;
        let keepalive = TcpKeepalive::new().with_time(keepalive);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        stream.set_nodelay(true)?;
        Ok(Self::Plain(stream))
    }

    /// Encrypts what follows.
    pub(super) async fn secure(&mut self, host: &str, verified: bool) -> Result<(), Error> {
        if let Self::Plain(stream) = std::mem::replace(self, Self::Gone) {
            let stream = tls::secure(stream, host, verified).await?;
            *self = Self::Tls(Box::new(stream));
        }
        Ok(())
    }

    pub(super) fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Reads some bytes, at least one.
    pub(super) async fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Plain(stream) => stream.read(room).await,
                Self::Tls(stream) => stream.read(room).await,
                Self::Gone => Ok(0),
            };
            match read {
                Ok(0) => return Err(closed()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Self::Gone => Err(closed()),
        }
    }

    /// Sends a last word if that can be done at once.
    pub(super) fn last_word(&mut self, bytes: &'static [u8]) {
        match std::mem::replace(self, Self::Gone) {
            Self::Plain(stream) => {
                // A server that does not hear it finds the connection closed.
                let _ = stream.try_write(bytes);
            }
            Self::Tls(mut stream) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        if stream.write_all(bytes).await.is_ok() {
                            let _ = stream.shutdown().await;
                        }
                    });
                }
            }
            Self::Gone => {}
        }
    }
}

/// In the words of the other client.
fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed")
}
