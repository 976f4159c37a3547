//! Bytes in place of binlog rows events.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_connectors::mysql::fuzz::rows(data);
});
