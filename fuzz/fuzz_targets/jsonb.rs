//! Bytes in place of JSON documents of the binlog.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_connectors::mysql::fuzz::jsonb(data);
});
