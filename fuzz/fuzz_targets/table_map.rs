//! Bytes in place of table maps of the binlog.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_connectors::mysql::fuzz::table_map(data);
});
