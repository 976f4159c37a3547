//! Bytes in place of data files that others wrote in Avro.
#![no_main]

const SCHEMA: &str = include_str!(
    "../../paimon/tests/data/warehouse/kinds.db/avro_types/schema/schema-0"
);

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    headwater_paimon::fuzz::data_file(SCHEMA, "data-x-0.avro", data);
});
