//! Bytes in place of tags, consumers, changelogs and snapshots of branches.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::records(data);
});
