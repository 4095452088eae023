//! Random changes to bytes.

use rand::Rng;
use rand::rngs::StdRng;

/// Most changes to one input.
const MOST: usize = 3;

type Damage = fn(&mut Vec<u8>, &mut StdRng);

/// The kinds of change; each concerns one position of a non-empty input.
const DAMAGES: [Damage; 9] = [
    |b, r| b.truncate(r.random_range(0..b.len())),
    |b, r| {
        let at = r.random_range(0..b.len());
        b[at] ^= 1 << r.random_range(0..8);
    },
    |b, r| b.insert(r.random_range(0..b.len()), r.random()),
    |b, r| {
        let from = r.random_range(0..b.len());
        let to = (from + r.random_range(1..20)).min(b.len());
        b.drain(from..to);
    },
    |b, r| {
        let from = r.random_range(0..b.len());
        let to = (from + r.random_range(1..60)).min(b.len());
        let again = b[from..to].to_vec();
        b.splice(from..from, again);
    },
    |b, r| replace_one(b, r, u8::is_ascii_digit, b"1e999"),
    |b, r| replace_one(b, r, u8::is_ascii_digit, b"-"),
    |b, r| replace_one(b, r, |c| *c == b'"', b"\\u12"),
    |b, r| replace_one(b, r, |c| *c == b':', b"\0,"),
];

fn replace_one(bytes: &mut Vec<u8>, random: &mut StdRng, which: fn(&u8) -> bool, by: &[u8]) {
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| which(&bytes[at])).collect();
    if let Some(&at) = places.get(random.random_range(0..places.len().max(1))) {
        bytes.splice(at..=at, by.iter().copied());
    }
}

/// Changes the bytes in one to three places.
pub fn damage(bytes: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..=MOST) {
        if !bytes.is_empty() {
            DAMAGES[random.random_range(0..DAMAGES.len())](bytes, random);
        }
    }
}
