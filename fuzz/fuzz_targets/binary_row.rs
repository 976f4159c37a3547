//! Bytes in place of keys, partitions and statistics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::row(data);
});
