//! Bytes in place of snapshots and schemas.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::json(data);
});
