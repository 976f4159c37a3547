//! Bytes in place of manifests and manifest lists.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::manifests(data);
});
