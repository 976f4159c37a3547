//! Bytes in place of index manifests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::index_manifest(data);
});
