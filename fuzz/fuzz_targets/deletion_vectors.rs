//! Bytes in place of deletion vectors.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::deletion_vector(data);
});
