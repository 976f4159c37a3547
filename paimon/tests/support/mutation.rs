//! Files as they must not be.

use rand::{Rng, rngs::StdRng};

/// Bytes at random, or `good` with a few of them changed, cut, doubled or taken out.
pub fn damaged(rng: &mut StdRng, good: &[u8]) -> Vec<u8> {
    if rng.random_ratio(1, 8) {
        let length = rng.random_range(0..200);
        return (0..length).map(|_| rng.random()).collect();
    }
    let mut bytes = good.to_vec();
    for _ in 0..rng.random_range(1..6) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.random_range(0..bytes.len());
        let end = (at + rng.random_range(1..40)).min(bytes.len());
        match rng.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"'][rng.random_range(0..6)],
            4 => bytes[at] ^= 1 << rng.random_range(0..8),
            _ => bytes[at] = rng.random(),
        }
    }
    bytes
}
