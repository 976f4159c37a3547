use std::collections::BTreeSet;

use super::*;

/// Two sets, what Java writes of them, and of their union.
#[derive(serde::Deserialize)]
struct Case {
    name: String,
    a: Vec<Progression>,
    b: Vec<Progression>,
    a_hex: String,
    b_hex: String,
    union_hex: String,
}

/// First number, how many, step.
type Progression = (String, u64, u64);

fn numbers(of: &[Progression]) -> BTreeSet<u64> {
    of.iter()
        .flat_map(|(first, count, step)| {
            let first: u64 = first.parse().unwrap();
            (0..*count).map(move |at| first + at * step)
        })
        .collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn held(bitmap: &Bitmap64) -> BTreeSet<u64> {
    let of_key = |(key, place): (&u64, &usize)| {
        let high = key << 16;
        let numbers = bitmap.containers[*place].clone().unwrap();
        numbers.into_iter().map(move |low| high | u64::from(low))
    };
    bitmap.keys.iter().flat_map(of_key).collect()
}

fn cases() -> Vec<Case> {
    include_str!("../../../tests/data/bitmaps64.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn sets_are_read_and_written_as_java_does() {
    for case in cases() {
        for (hex, expected) in [(&case.a_hex, &case.a), (&case.b_hex, &case.b)] {
            let bitmap = Bitmap64::read(&bytes(hex)).unwrap();
            assert_eq!(held(&bitmap), numbers(expected), "{}", case.name);
        }
        let written = Bitmap64::read(&bytes(&case.a_hex)).unwrap().write();
        assert_eq!(written, bytes(&case.a_hex), "{}", case.name);
    }
}

#[test]
fn unions_hold_what_java_says() {
    for case in cases() {
        let mut united = Bitmap64::read(&bytes(&case.a_hex)).unwrap();
        united.unite(Bitmap64::read(&bytes(&case.b_hex)).unwrap());
        let mut expected = numbers(&case.a);
        expected.extend(numbers(&case.b));
        assert_eq!(held(&united), expected, "{}", case.name);
        let theirs = Bitmap64::read(&bytes(&case.union_hex)).unwrap();
        assert_eq!(held(&theirs), expected, "{}", case.name);
        let ours = united.write();
        // Java numbers the children of large nodes as they came.
        if ours != bytes(&case.union_hex) {
            assert!(["fortyeight", "many"].contains(&case.name.as_str()));
            assert_eq!(ours.len() * 2, case.union_hex.len(), "{}", case.name);
        }
        let again = Bitmap64::read(&ours).unwrap();
        assert_eq!(held(&again), expected, "{}", case.name);
    }
}

#[test]
fn damaged_bytes_are_errors() {
    for case in cases() {
        let whole = bytes(&case.a_hex);
        for length in 0..whole.len().min(200) {
            assert!(Bitmap64::read(&whole[..length]).is_err(), "{}", case.name);
        }
        let mut seed = 7_u64;
        for _ in 0..500 {
            let mut damaged = whole.clone();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % damaged.len();
            damaged[at] = (seed >> 24) as u8;
            if let Ok(bitmap) = Bitmap64::read(&damaged) {
                bitmap.write();
            }
        }
    }
}
