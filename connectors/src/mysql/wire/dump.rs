//! The log, asked for as a replica does; it then comes as an endless result.

use mysql_async::Error;
use mysql_common::{
    packets::{ComRegisterSlave, binlog_request::BinlogRequest},
    proto::MySerialize,
};

use super::conn::WireConn;

impl WireConn {
    /// Says that a replica of this number is here, and asks for the log: each event is then a
    /// [row](Self::row), behind a first byte.
    pub(in crate::mysql) async fn dump(
        &mut self,
        request: &BinlogRequest<'_>,
    ) -> Result<(), Error> {
        // Events come with the checksums that they have in the log.
        self.query_first("SET @master_binlog_checksum = 'ALL'")
            .await?;
        let mut payload = Vec::new();
        ComRegisterSlave::new(request.server_id()).serialize(&mut payload);
        self.command(&payload).await?;
        self.packet().await?;
        self.settle();
        payload.clear();
        request.as_cmd().serialize(&mut payload);
        self.command(&payload).await
    }
}
