use super::*;
use arrow_array::{
    Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};

fn cast(column: impl Array + 'static, from: DataType, to: DataType) -> ArrayRef {
    let column: ArrayRef = Arc::new(column);
    let column = match from {
        DataType::Decimal(precision, scale) => {
            let decimals = column
                .as_primitive::<arrow_array::types::Decimal128Type>()
                .clone();
            Arc::new(
                decimals
                    .with_precision_and_scale(precision, scale as i8)
                    .unwrap(),
            )
        }
        _ => column,
    };
    let cast = Cast::new("c", &from, &to).unwrap().apply(&column).unwrap();
    assert_eq!(*cast.data_type(), to.arrow());
    cast
}

fn texts(array: &ArrayRef) -> Vec<Option<&str>> {
    array.as_string::<i32>().iter().collect()
}

#[test]
fn doubles_become_the_text_that_java_prints() {
    let cases = [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (123.25, "123.25"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (1.25e-7, "1.25E-7"),
        (-1.7976931348623157e308, "-1.7976931348623157E308"),
        (1e16, "1.0E16"),
        (100.0, "100.0"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ];
    let column = Float64Array::from(cases.map(|(value, _)| value).to_vec());
    let found = cast(column, DataType::Double, DataType::String);
    assert_eq!(texts(&found), cases.map(|(_, text)| Some(text)));
}

#[test]
fn decimals_round_half_up_and_overflow_to_null() {
    let column = Decimal128Array::from(vec![Some(12345), Some(-12345), Some(12344), None]);
    let found = cast(column, DataType::Decimal(5, 2), DataType::Decimal(4, 1));
    let found = found.as_primitive::<arrow_array::types::Decimal128Type>();
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        [Some(1235), Some(-1235), Some(1234), None]
    );
    let column = Int64Array::from(vec![999, 1000]);
    let found = cast(column, DataType::BigInt, DataType::Decimal(4, 1));
    let found = found.as_primitive::<arrow_array::types::Decimal128Type>();
    assert_eq!(found.iter().collect::<Vec<_>>(), [Some(9990), None]);
    let column = Float64Array::from(vec![0.125, -2.5, 1e-9]);
    let found = cast(column, DataType::Double, DataType::Decimal(10, 2));
    let found = found.as_primitive::<arrow_array::types::Decimal128Type>();
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        [Some(13), Some(-250), Some(0)]
    );
    let column = Decimal128Array::from(vec![-5, 1234]);
    let found = cast(column, DataType::Decimal(6, 3), DataType::String);
    assert_eq!(texts(&found), [Some("-0.005"), Some("1.234")]);
}

#[test]
fn texts_are_cut_and_filled_to_the_length() {
    let column = StringArray::from(vec![Some("äöü"), Some("x"), None]);
    let found = cast(column.clone(), DataType::String, DataType::VarChar(2));
    assert_eq!(texts(&found), [Some("äö"), Some("x"), None]);
    let found = cast(column, DataType::String, DataType::Char(2));
    assert_eq!(texts(&found), [Some("äö"), Some("x "), None]);
    let column = Int32Array::from(vec![12345]);
    let found = cast(column, DataType::Int, DataType::VarChar(3));
    assert_eq!(texts(&found), [Some("123")]);
}

#[test]
fn timestamps_become_text_and_lose_digits_as_in_java() {
    let micros = vec![0, 1_500_000, -1, 1_123_456];
    let column = TimestampMicrosecondArray::from(micros.clone());
    let found = cast(column, DataType::Timestamp(6), DataType::String);
    assert_eq!(
        texts(&found),
        [
            Some("1970-01-01 00:00:00.000000"),
            Some("1970-01-01 00:00:01.500000"),
            Some("1969-12-31 23:59:59.999999"),
            Some("1970-01-01 00:00:01.123456"),
        ]
    );
    let column = TimestampMicrosecondArray::from(micros);
    let found = cast(column, DataType::Timestamp(6), DataType::Timestamp(0));
    let found = found.as_primitive::<arrow_array::types::TimestampMillisecondType>();
    assert_eq!(found.values(), &[0, 1000, 0, 1000]);
    let column = TimestampMillisecondArray::from(vec![-1]);
    let found = cast(column, DataType::Timestamp(3), DataType::Date);
    let found = found.as_primitive::<arrow_array::types::Date32Type>();
    assert_eq!(found.values(), &[-1]);
}

#[test]
fn what_cannot_be_cast_says_why() {
    for (from, to, why) in [
        (DataType::String, DataType::Int, "parsed"),
        (
            DataType::Timestamp(3),
            DataType::TimestampLtz(3),
            "time zone",
        ),
        (DataType::Date, DataType::Int, "no such cast"),
        (
            DataType::Int,
            DataType::array(DataType::Int),
            "no such cast",
        ),
    ] {
        let error = Cast::new("c", &from, &to).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("'c'"), "{error}");
    }
}
