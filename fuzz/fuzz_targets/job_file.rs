//! Bytes in place of job files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = headwater::config::parse_isolated("fuzz.yaml", text);
    }
});
