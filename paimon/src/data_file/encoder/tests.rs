use super::{parquet_schema::bytes_of_decimal, *};
use crate::fixture::{ALL_TYPES, fixture};

/// Printed from the footer of a file of Java Paimon 1.4.2 of the same schema.
const JAVA: &str = include_str!("../../../tests/data/parquet_schema.txt");

#[test]
fn the_schema_is_what_java_writes() {
    let fixture = fixture(&ALL_TYPES, &["id"], &[], &[]);
    let shape = FileShape::new(fixture.table.schema(), &[0]).unwrap();
    let mut printed = Vec::new();
    parquet::schema::printer::print_schema(&mut printed, &shape.parquet);
    assert_eq!(String::from_utf8(printed).unwrap().trim(), JAVA.trim());
}

#[test]
fn decimals_take_no_more_bytes_than_they_need() {
    // computeMinBytesForDecimalPrecision of Java.
    assert_eq!(bytes_of_decimal(19), 9);
    assert_eq!(bytes_of_decimal(20), 9);
    assert_eq!(bytes_of_decimal(21), 9);
    assert_eq!(bytes_of_decimal(22), 10);
    assert_eq!(bytes_of_decimal(38), 16);
}

#[test]
fn int96_counts_days_and_nanoseconds() {
    // As in a file of Java Paimon: 2262-04-11 23:47:16.854775807 and one nanosecond before 1970.
    assert_eq!(int96(i64::MAX).data(), [3_796_828_159, 19_938, 2_547_339]);
    assert_eq!(
        int96(-1).data(),
        [(NANOS_PER_DAY - 1) as u32, 20_116, 2_440_587]
    );
}

#[test]
fn a_dictionary_is_for_values_that_repeat() {
    let array = |values: Vec<i64>| -> ArrayRef { Arc::new(arrow_array::Int64Array::from(values)) };
    let same = array(vec![7; 5000]);
    let column = system_field("c", 1, DataType::BigInt);
    assert!(repeats(&same, &column));
    assert!(!repeats(&array((0..5000).collect()), &column));
    assert!(!repeats(&array(vec![7; 50]), &column));
    let sequence = system_field("_SEQUENCE_NUMBER", SEQUENCE_FIELD_ID, DataType::BigInt);
    assert!(!repeats(&same, &sequence));
    assert!(repeats(
        &array((0..5000).map(|it| it % 4).collect()),
        &sequence
    ));
}

/// Table `nested` is of Java Paimon 1.4.2, its second file of its second schema.
#[test]
fn the_schema_of_nested_columns_is_what_java_writes() {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        schema::printer::print_schema,
    };
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/warehouse/java.db/nested"
    );
    for id in [0, 1] {
        let schema = std::fs::read(format!("{folder}/schema/schema-{id}")).unwrap();
        let schema = Schema::parse(&schema, "schema").unwrap();
        let shape = FileShape::new(&schema, &[0]).unwrap();
        let mut ours = Vec::new();
        print_schema(&mut ours, &shape.parquet);
        let files = std::fs::read_dir(format!("{folder}/bucket-0")).unwrap();
        let theirs = files.map(|file| {
            let file = std::fs::File::open(file.unwrap().path()).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            let mut printed = Vec::new();
            print_schema(&mut printed, reader.metadata().file_metadata().schema());
            String::from_utf8(printed).unwrap()
        });
        let theirs = theirs.collect::<Vec<_>>();
        let ours = String::from_utf8(ours).unwrap();
        assert!(theirs.contains(&ours), "{ours}\n{}", theirs.join("\n"));
    }
}
