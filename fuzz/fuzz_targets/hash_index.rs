//! Bytes in place of the hash indexes of dynamic buckets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::hash_index(data);
});
