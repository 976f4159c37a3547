//! Bytes in place of the packets of a result.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_connectors::mysql::fuzz::packets(data);
});
