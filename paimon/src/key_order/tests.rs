use std::sync::Arc;

use arrow_array::{
    Date32Array, Decimal128Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::data_type::DataType;

fn field(data_type: DataType, nullable: bool) -> DataField {
    DataField {
        id: 0,
        name: "k".to_owned(),
        data_type,
        nullable,
        description: None,
        default_value: None,
    }
}

fn order(types: &[DataType]) -> KeyOrder {
    let fields: Vec<DataField> = types.iter().map(|it| field(it.clone(), false)).collect();
    KeyOrder::new(&fields).unwrap()
}

/// Some values of a type, the extremes and equal ones among them.
fn column(data_type: &DataType, rows: usize, random: &mut StdRng) -> ArrayRef {
    let few = random.random_range(0..3);
    let mut number = || -> i64 {
        match (few, random.random_range(0..40)) {
            (_, 0) => i64::MIN,
            (_, 1) => i64::MAX,
            (0, _) => random.random_range(-4..4),
            (1, _) => random.random_range(-100_000..100_000),
            _ => random.random(),
        }
    };
    let numbers: Vec<i64> = (0..rows).map(|_| number()).collect();
    let numbers = numbers.into_iter();
    match data_type {
        DataType::TinyInt => Arc::new(Int8Array::from_iter_values(numbers.map(|it| it as i8))),
        DataType::SmallInt => Arc::new(Int16Array::from_iter_values(numbers.map(|it| it as i16))),
        DataType::Int => Arc::new(Int32Array::from_iter_values(numbers.map(|it| it as i32))),
        DataType::BigInt => Arc::new(Int64Array::from_iter_values(numbers)),
        DataType::Date => Arc::new(Date32Array::from_iter_values(numbers.map(|it| it as i32))),
        DataType::Timestamp(_) => Arc::new(TimestampMicrosecondArray::from_iter_values(numbers)),
        DataType::Decimal(precision, scale) => {
            let digits = Decimal128Array::from_iter_values(numbers.map(|it| i128::from(it) << 30));
            let digits = digits.with_precision_and_scale(*precision, *scale as i8);
            Arc::new(digits.unwrap())
        }
        _ => Arc::new(StringArray::from_iter_values(
            numbers.map(|it| format!("customer {}", it % 100_000)),
        )),
    }
}

#[test]
fn integers_that_fit_are_one_number() {
    use DataType::{BigInt, Date, Decimal, Int, SmallInt, String, Timestamp};
    for (types, form) in [
        (vec![Int], "narrow"),
        (vec![Int, Date], "narrow"),
        (vec![BigInt], "narrow"),
        (vec![BigInt, SmallInt], "wide"),
        (vec![BigInt, Timestamp(9)], "wide"),
        (vec![Decimal(20, 0)], "wide"),
        (vec![Decimal(20, 0), Int], "bytes"),
        (vec![Int, String], "bytes"),
        (vec![DataType::Double], "bytes"),
        (vec![], "narrow"),
    ] {
        let found = match order(&types) {
            KeyOrder::Narrow => "narrow",
            KeyOrder::Wide => "wide",
            KeyOrder::Bytes(_) => "bytes",
        };
        assert_eq!(found, form, "{types:?}");
    }
    let nullable = KeyOrder::new(&[field(Int, true)]).unwrap();
    assert!(matches!(nullable, KeyOrder::Bytes(_)));
}

/// Against Arrow's rows, compared one by one.
#[test]
fn keys_compare_and_sort_as_arrow_rows_do() {
    use DataType::{BigInt, Date, Decimal, Int, SmallInt, String, Timestamp, TinyInt};
    let mut random = StdRng::seed_from_u64(7);
    for types in [
        vec![Int],
        vec![BigInt],
        vec![TinyInt, Int],
        vec![Date, SmallInt, TinyInt],
        vec![Timestamp(6)],
        vec![BigInt, Int],
        vec![Int, Timestamp(6)],
        vec![Decimal(38, 0)],
        vec![String],
        vec![Int, String],
        vec![String, BigInt],
    ] {
        for rows in [1, 2, 3, 50, 255, 256, 1000, 5000] {
            let columns = types.iter().map(|it| column(it, rows, &mut random));
            let columns: Vec<ArrayRef> = columns.collect();
            let expected = key_rows(&columns).unwrap();
            let order = order(&types);
            let keys = order.keys(&columns).unwrap();
            assert_eq!(keys.len(), rows);
            let ages: Vec<u32> = (0..rows).map(|_| random.random_range(0..9)).collect();
            let age = |left: u32, right: u32| ages[left as usize].cmp(&ages[right as usize]);
            for age in [None, Some(&age as &dyn Fn(u32, u32) -> Ordering)] {
                let mut by_key: Vec<u32> = (0..rows as u32).collect();
                by_key.sort_by(|left, right| {
                    let (a, b) = (expected.row(*left as usize), expected.row(*right as usize));
                    let by_age = || age.map_or(Ordering::Equal, |age| age(*left, *right));
                    a.cmp(&b).then_with(by_age)
                });
                let key = |row: &u32| expected.row(*row as usize);
                let runs = by_key.chunk_by(|left, right| key(left) == key(right));
                let ends = runs.scan(0, |end, run| {
                    *end += run.len() as u32;
                    Some(*end)
                });
                let ends: Vec<u32> = ends.collect();
                let sorted = keys.sorted(age);
                assert_eq!(sorted.rows, by_key, "{types:?}");
                assert_eq!(sorted.ends, ends, "{types:?}");
                let second = sorted.second_of_a_key();
                assert_eq!(second.is_some(), ends.len() < rows);
                if let Some(second) = second {
                    let at = sorted.rows.iter().position(|row| *row == second).unwrap();
                    assert_eq!(key(&second), key(&sorted.rows[at - 1]));
                }
                let last: Vec<u32> = ends.iter().map(|end| by_key[*end as usize - 1]).collect();
                assert_eq!(sorted.into_last(), last, "{types:?}");
            }
            for row in 1..rows {
                let ordering = expected.row(row - 1).cmp(&expected.row(row));
                assert_eq!(keys.compare(row - 1, row), ordering, "{types:?}");
                let key = keys.get(row - 1).unwrap();
                assert_eq!(keys.compare_with(&key, row), ordering, "{types:?}");
            }
            let ascends = (1..rows).all(|row| expected.row(row - 1) < expected.row(row));
            assert_eq!(keys.is_strictly_ascending(), ascends);
            assert!(keys.get(rows).is_none());
        }
    }
}

#[test]
fn keys_of_several_batches_go_on() {
    let order = order(&[DataType::BigInt, DataType::Int]);
    let mut random = StdRng::seed_from_u64(8);
    let batch = |random: &mut StdRng| -> Vec<ArrayRef> {
        let types = [DataType::BigInt, DataType::Int];
        types.iter().map(|it| column(it, 10, random)).collect()
    };
    let (first, second) = (batch(&mut random), batch(&mut random));
    let mut keys = order.none();
    order.append(&mut keys, &first).unwrap();
    order.append(&mut keys, &second).unwrap();
    assert_eq!(keys.len(), 20);
    let taken = keys.take(&[3, 19]).unwrap();
    assert_eq!(taken.get(0), order.keys(&first).unwrap().get(3));
    assert_eq!(taken.get(1), order.keys(&second).unwrap().get(9));
}

#[test]
fn keys_with_nulls_are_refused() {
    let nulls: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    assert!(order(&[DataType::Int]).keys(&[nulls]).is_err());
}
