//! Which partition a key has: that of the Java clients, so that other producers' records of one order
//! lie in the same one.
//!
//! Source: MurmurHash2 with the seed 0x9747b28c, as `Utils.murmur2` of Apache Kafka has it, without its
//! sign, modulo the number of partitions.

/// The partition of a key among `count` of them; 0 if there are none.
pub(crate) fn of(key: &[u8], count: i32) -> i32 {
    let positive = murmur2(key) & 0x7fff_ffff;
    let count = u32::try_from(count).unwrap_or(0).max(1);
    i32::try_from(positive % count).unwrap_or(0)
}

fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (place, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * place);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that Apache Kafka's own test of `murmur2` names.
    #[test]
    fn it_is_the_hash_of_the_java_clients() {
        let known: [(&str, i32); 5] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()), hash.cast_unsigned(), "{key}");
        }
    }

    #[test]
    fn every_key_has_a_partition_that_exists() {
        for count in 1..20 {
            for key in 0..200_u32 {
                let partition = of(&key.to_le_bytes(), count);
                assert!((0..count).contains(&partition), "{key} of {count}");
            }
        }
        assert_eq!(of(b"x", 0), 0);
    }
}
