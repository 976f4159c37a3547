//! Bytes in place of statements of the binlog.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        headwater_connectors::mysql::fuzz::ddl(text);
    }
});
